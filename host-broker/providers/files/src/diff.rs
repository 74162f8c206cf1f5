//! The diff for a person: all of a set of changes, as git would write it.
//!
//! The text is complete and exact: read again as a patch, it makes the same bytes of the same files. It depends on the
//! changes and on nothing else, so its digest names them.
//!
//! A file that is not UTF-8, or has a zero byte, cannot be shown; such a change is refused.

use crate::change::{Change, ChangeSet, FileState};
use model::card::{is_latin, is_odd};
use model::{WorkspacePath, conceals};
use provider::contract::Lines;
use shared::digest::Digest;
use shared::numbers::counted;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};
use std::collections::HashMap;
use std::fmt::Write as _;

/// How many lines around a change are shown.
const CONTEXT: usize = 3;
/// How far a word is looked at for Latin letters.
const WORD_MAX: usize = 256;
/// The most characters of a preview.
pub const PREVIEW_MAX: usize = 8000;

/// A set of changes, to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    text: String,
    concealing: Vec<WorkspacePath>,
    lines: Lines,
}

/// A file that cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not text: a person could not see the change")]
pub struct NotShowable(pub WorkspacePath);

impl Diff {
    /// The whole diff of the changes.
    ///
    /// # Errors
    /// [`NotShowable`].
    pub fn of(set: &ChangeSet) -> Result<Self, NotShowable> {
        let mut diff = Self { text: String::new(), concealing: Vec::new(), lines: Lines::default() };
        for change in set.changes() {
            let start = diff.text.len();
            let Lines { added, removed } = write_change(&mut diff.text, change)?;
            diff.lines.added += added;
            diff.lines.removed += removed;
            let written = diff.text.get(start..).unwrap_or_default();
            if written.lines().any(|line| line.chars().any(|c| c != '\t' && conceals(c))) {
                diff.concealing.push(change.path.clone());
            }
        }
        Ok(diff)
    }

    /// The diff as a patch.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many lines it adds and removes.
    pub fn lines(&self) -> Lines {
        self.lines
    }

    /// SHA-256 of the text.
    pub fn hash(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }

    /// The files of which the diff has characters that cannot be seen or change how others look: a carriage return
    /// within a line, an escape, a mark of direction. [`Diff::readable`] shows them.
    pub fn concealing(&self) -> &[WorkspacePath] {
        &self.concealing
    }

    /// Returns the diff for a person's eyes. It is no patch.
    ///
    /// It writes three kinds of characters as `<U+202E>`: such characters, letters that look Latin in a word with Latin
    /// ones, and a carriage return at the end of a line. A text that is written like that itself has its first
    /// character written so.
    pub fn readable(&self) -> String {
        let mut readable = String::with_capacity(self.text.len());
        // Whether the present word has Latin letters, so that others in it are taken for such.
        let (mut is_word, mut is_latin_word) = (false, false);
        for (at, c) in self.text.char_indices() {
            if c.is_alphabetic() != is_word {
                is_word = c.is_alphabetic();
                let word = self.text.get(at..).unwrap_or_default().chars().take_while(|c| c.is_alphabetic());
                is_latin_word = is_word && word.take(WORD_MAX).any(|c| c.is_ascii_alphabetic());
            }
            let deceives = is_latin_word && (matches!(c, '\u{370}'..='\u{58f}') || is_odd(c) && !is_latin(c));
            let hides = !matches!(c, '\n' | '\t') && conceals(c);
            if hides || deceives || c == '<' && self.text.get(at..).is_some_and(|rest| rest.starts_with("<U+")) {
                // Writing to a string does not fail.
                write!(readable, "<U+{:04X}>", u32::from(c)).ok();
            } else {
                readable.push(c);
            }
        }
        readable
    }

    /// The beginning of the diff, at most [`PREVIEW_MAX`] characters, cut behind a line; if it is not all, the last line
    /// says how much is missing.
    pub fn preview(&self) -> String {
        let mut ends = self.text.char_indices().map(|(at, _)| at).skip(PREVIEW_MAX);
        if ends.next().is_none() {
            return self.text.clone();
        }
        // Leaves place for the note, whose length hardly varies.
        let room = self.text.char_indices().nth(PREVIEW_MAX - 100).map_or(self.text.len(), |(at, _)| at);
        let (kept, _) = self.text.split_at_checked(room).unwrap_or_default();
        let kept = kept.rfind('\n').and_then(|at| kept.get(..=at)).unwrap_or(kept);
        let line_end = if kept.ends_with('\n') { "" } else { "\n" };
        let lines = self.text.get(kept.len()..).unwrap_or_default().lines().count();
        let bytes = self.text.len() - kept.len();
        let (lines, bytes) = (counted(lines, "more line", "more lines"), counted(bytes, "byte", "bytes"));
        format!("{kept}{line_end}[cut: {lines}, {bytes}; this is not the whole diff]\n")
    }
}

fn write_change(text: &mut String, change: &Change) -> Result<Lines, NotShowable> {
    let show = |state: &Option<FileState>| -> Result<String, NotShowable> {
        let bytes = state.as_ref().map_or(&[][..], FileState::bytes);
        let shown = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        shown.map(str::to_owned).ok_or_else(|| NotShowable(change.path.clone()))
    };
    let (before, after) = (show(&change.before)?, show(&change.after)?);
    let old = change.from.as_ref().unwrap_or(&change.path);
    let (old_name, new_name) = (quoted("a/", old), quoted("b/", &change.path));
    text.extend(["diff --git ", &old_name, " ", &new_name, "\n"]);
    match (&change.before, &change.after) {
        (None, Some(after)) => text.extend(["new file mode ", mode(after), "\n"]),
        (Some(before), None) => text.extend(["deleted file mode ", mode(before), "\n"]),
        (Some(before), Some(after)) if before.is_executable() != after.is_executable() => {
            text.extend(["old mode ", mode(before), "\nnew mode ", mode(after), "\n"]);
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    if let Some(from) = &change.from {
        text.extend(["rename from ", &quoted("", from), "\nrename to ", &quoted("", &change.path), "\n"]);
    }
    let mut lines = Lines::default();
    if before != after {
        let side = |state: &Option<FileState>, name: &str| {
            // Git ends a name that has a space with a tab, so that other programs do not take the rest for a time.
            let end = if name.contains(' ') && !name.starts_with('"') { "\t" } else { "" };
            if state.is_some() { format!("{name}{end}") } else { "/dev/null".to_owned() }
        };
        text.extend(["--- ", &side(&change.before, &old_name), "\n+++ ", &side(&change.after, &new_name), "\n"]);
        lines = write_hunks(text, &before, &after);
    }
    Ok(lines)
}

fn mode(state: &FileState) -> &'static str {
    if state.is_executable() { "100755" } else { "100644" }
}

/// A name as git writes it with `core.quotePath=false`: only quotes and backslashes need quoting, as nothing else that
/// would is in a path.
fn quoted(prefix: &str, path: &WorkspacePath) -> String {
    let path = path.as_str();
    if path.contains(['"', '\\']) {
        format!("\"{prefix}{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("{prefix}{path}")
    }
}

fn write_hunks(text: &mut String, before: &str, after: &str) -> Lines {
    let mut lines = Lines::default();
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    for group in group_diff_ops(differences(&old, &new), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |start: usize, end: usize| match end - start {
            // The line before which there is nothing.
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            count => format!("{},{count}", start + 1),
        };
        let old_range = range(first.old_range().start, last.old_range().end);
        let new_range = range(first.new_range().start, last.new_range().end);
        text.extend(["@@ -", &old_range, " +", &new_range, " @@\n"]);
        for op in &group {
            if let DiffOp::Equal { .. } = op {
                write_lines(text, ' ', old.get(op.old_range()));
            } else {
                write_lines(text, '-', old.get(op.old_range()));
                write_lines(text, '+', new.get(op.new_range()));
                lines.removed += op.old_range().len();
                lines.added += op.new_range().len();
            }
        }
    }
    lines
}

fn write_lines(text: &mut String, sign: char, lines: Option<&[&str]>) {
    for line in lines.unwrap_or_default() {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Returns the differences of two texts. Lines are compared by numbers that depend on their order only.
fn differences<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffOp> {
    let mut numbers: HashMap<&'a str, usize> = HashMap::new();
    let mut number = |line: &&'a str| {
        let next = numbers.len();
        *numbers.entry(line).or_insert(next)
    };
    let old: Vec<usize> = old.iter().map(&mut number).collect();
    let new: Vec<usize> = new.iter().map(&mut number).collect();
    capture_diff_slices(Algorithm::Myers, &old, &new)
}

#[cfg(test)]
mod tests;
