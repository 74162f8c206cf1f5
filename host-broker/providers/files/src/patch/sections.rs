//! A patch taken apart: for each file its operation, and its hunks.
//!
//! Text before, between and behind the files is passed over, as in a mail. But a text that looks like a part of a patch
//! is not, because then something would be lost that its author meant.

use crate::patch::{PatchError, name};
use model::WorkspacePath;
use std::borrow::Cow;

/// The part of a patch about one file.
pub(super) struct Section<'a> {
    /// The line of the patch where it begins.
    pub(super) line: usize,
    pub(super) operation: Operation,
    /// Whether the file will be executable, if the patch says so.
    pub(super) executable: Option<bool>,
    pub(super) hunks: Vec<HunkText<'a>>,
}

/// The operation on a file, beside its content and permissions.
pub(super) enum Operation {
    Create(WorkspacePath),
    Modify(WorkspacePath),
    Delete(WorkspacePath),
    Rename { from: WorkspacePath, to: WorkspacePath },
}

/// A hunk, as many lines of it as its head says.
pub(super) struct HunkText<'a> {
    pub(super) line: usize,
    pub(super) bytes: &'a [u8],
}

/// The fault in the form of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is no file in it.
    #[error("there is nothing in the patch that names a file (`diff --git a/… b/…`, or `--- a/…` and `+++ b/…`)")]
    NoFile,
    /// A line that belongs to a file or a hunk stands by itself.
    #[error(
        "this line belongs to a file or a hunk, and there is none; perhaps the hunk before it is longer than its head says"
    )]
    Stray,
    /// A name is not written as git writes it.
    #[error("the name is not written as git writes it")]
    Name,
    /// Names lack git's prefixes.
    #[error("names begin with `a/` and `b/`, as `git diff` writes them")]
    Prefix,
    /// The lines of one file name different files.
    #[error("the lines of one file name different files")]
    Contradiction,
    /// A line stands twice in the head of one file.
    #[error("this line stands twice in the head of one file")]
    Twice,
    /// Both sides are `/dev/null`.
    #[error("both sides are `/dev/null`")]
    NoSide,
    /// `---` without `+++`, or neither before a hunk.
    #[error("a file's hunks come after both of `---` and `+++`")]
    Sides,
    /// No hunk where one has to be.
    #[error("there is no hunk behind `+++`; a hunk begins with `@@ -1,3 +1,4 @@`")]
    NoHunk,
    /// The head of a hunk.
    #[error("the head of a hunk is written `@@ -1,3 +1,4 @@`, with the right numbers of lines")]
    HunkHead,
    /// A hunk ends before it should.
    #[error("the hunk ends here, but its head says that it has more lines")]
    HunkShort,
    /// Permissions that are not a regular file's.
    #[error("only regular files (100644) and executable ones (100755) are taken: no links, no submodules")]
    Mode,
    /// Binary content.
    #[error("binary patches are not taken")]
    Binary,
    /// A copy.
    #[error("copies are not taken; create the new file with its whole content")]
    Copy,
    /// The head contradicts the sides: a new file that has an old side.
    #[error("the head says that the file is new, deleted or renamed, and the lines below contradict")]
    Kind,
}

/// Takes a patch apart, which ends with a newline.
pub(super) fn parse(patch: &[u8], files_max: usize) -> Result<Vec<Section<'_>>, PatchError> {
    let mut reader = Reader { rest: patch, line: 1 };
    let mut sections = Vec::new();
    while let Some(line) = reader.peek() {
        if line.starts_with(b"diff --git ") {
            sections.push(reader.git_section()?);
        } else if line.starts_with(b"--- ") {
            sections.push(reader.plain_section()?);
        } else if is_part(line) {
            return Err(reader.fault(Malformed::Stray));
        } else {
            reader.next();
        }
        if sections.len() > files_max {
            return Err(PatchError::TooManyFiles { max: files_max });
        }
    }
    if sections.is_empty() { Err(reader.fault(Malformed::NoFile)) } else { Ok(sections) }
}

/// Checks whether a line that belongs to no file looks like a part of one.
fn is_part(line: &[u8]) -> bool {
    const HEADS: [&[u8]; 11] = [
        b"@@",
        b"+++ ",
        b"old mode ",
        b"new mode ",
        b"new file mode ",
        b"deleted file mode ",
        b"rename from ",
        b"rename to ",
        b"copy from ",
        b"GIT binary patch",
        b"\\ No newline",
    ];
    HEADS.iter().any(|head| line.starts_with(head))
}

struct Reader<'a> {
    rest: &'a [u8],
    /// The number of the line at which `rest` begins.
    line: usize,
}

/// The content of a file's head.
#[derive(Default)]
struct Head<'a> {
    /// There is none: the file begins with `---`.
    is_plain: bool,
    /// The name that both halves of `diff --git` agree on.
    agreed: Option<Cow<'a, [u8]>>,
    old_mode: Option<bool>,
    new_mode: Option<bool>,
    created: Option<bool>,
    deleted: Option<bool>,
    from: Option<Cow<'a, [u8]>>,
    to: Option<Cow<'a, [u8]>>,
}

/// The names behind `---` and `+++`; `None` is `/dev/null`.
type Sides<'a> = (Option<Cow<'a, [u8]>>, Option<Cow<'a, [u8]>>);

impl<'a> Reader<'a> {
    /// The next line, with its newline.
    fn peek(&self) -> Option<&'a [u8]> {
        self.rest.split_inclusive(|byte| *byte == b'\n').next()
    }

    fn next(&mut self) {
        let length = self.peek().map_or(0, <[u8]>::len);
        self.rest = self.rest.get(length..).unwrap_or_default();
        self.line += 1;
    }

    /// The rest of the next line, if it begins so, without its end.
    fn behind(&self, head: &[u8]) -> Option<&'a [u8]> {
        let line = self.peek()?.strip_prefix(head)?;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn fault(&self, fault: Malformed) -> PatchError {
        PatchError::Malformed { line: self.line, fault }
    }

    fn path(&self, name: &[u8]) -> Result<WorkspacePath, PatchError> {
        WorkspacePath::from_bytes(name).map_err(|fault| PatchError::Path { line: self.line, fault })
    }

    fn git_section(&mut self) -> Result<Section<'a>, PatchError> {
        let line = self.line;
        let both = self.behind(b"diff --git ").unwrap_or_default();
        let mut head = Head { agreed: name::of_both(both).map_err(|e| self.fault(e))?, ..Head::default() };
        self.next();
        while self.head_line(&mut head)? {
            self.next();
        }
        let sides = self.sides()?;
        let hunks = if sides.is_some() { self.hunks()? } else { Vec::new() };
        if sides.is_none() && self.peek().is_some_and(|line| line.starts_with(b"@@")) {
            return Err(self.fault(Malformed::Sides));
        }
        let at = Reader { rest: self.rest, line };
        let operation = at.operation(&head, sides.as_ref())?;
        Ok(Section { line, operation, executable: head.new_mode.or(head.created), hunks })
    }

    /// A file as other programs than git write it: nothing before `---`.
    fn plain_section(&mut self) -> Result<Section<'a>, PatchError> {
        let line = self.line;
        let sides = self.sides()?;
        let hunks = self.hunks()?;
        let at = Reader { rest: self.rest, line };
        let head = Head { is_plain: true, ..Head::default() };
        let operation = at.operation(&head, sides.as_ref())?;
        Ok(Section { line, operation, executable: None, hunks })
    }

    /// Reads a line of a head; `false` if it is none.
    fn head_line(&self, head: &mut Head<'a>) -> Result<bool, PatchError> {
        let mode = |text: &[u8]| match text {
            b"100644" => Ok(false),
            b"100755" => Ok(true),
            _ => Err(self.fault(Malformed::Mode)),
        };
        let whole = |text| name::whole(text).map_err(|e| self.fault(e));
        if let Some(text) = self.behind(b"old mode ") {
            self.once(&mut head.old_mode, mode(text)?)?;
        } else if let Some(text) = self.behind(b"new mode ") {
            self.once(&mut head.new_mode, mode(text)?)?;
        } else if let Some(text) = self.behind(b"new file mode ") {
            self.once(&mut head.created, mode(text)?)?;
        } else if let Some(text) = self.behind(b"deleted file mode ") {
            self.once(&mut head.deleted, mode(text)?)?;
        } else if let Some(text) = self.behind(b"rename from ") {
            self.once(&mut head.from, whole(text)?)?;
        } else if let Some(text) = self.behind(b"rename to ") {
            self.once(&mut head.to, whole(text)?)?;
        } else if let Some(text) = self.behind(b"index ") {
            // The mode stands here if it does not change.
            if let Some(at) = text.iter().position(|byte| *byte == b' ') {
                mode(text.get(at + 1..).unwrap_or_default())?;
            }
        } else if self.behind(b"copy from ").is_some() || self.behind(b"copy to ").is_some() {
            return Err(self.fault(Malformed::Copy));
        } else if self.behind(b"GIT binary patch").is_some() || self.behind(b"Binary files ").is_some() {
            return Err(self.fault(Malformed::Binary));
        } else if self.behind(b"similarity index ").is_none() && self.behind(b"dissimilarity index ").is_none() {
            return Ok(false);
        }
        Ok(true)
    }

    fn once<T>(&self, slot: &mut Option<T>, value: T) -> Result<(), PatchError> {
        if slot.replace(value).is_some() { Err(self.fault(Malformed::Twice)) } else { Ok(()) }
    }

    /// `--- a/NAME` and `+++ b/NAME`.
    fn sides(&mut self) -> Result<Option<Sides<'a>>, PatchError> {
        let Some(old) = self.behind(b"--- ") else { return Ok(None) };
        let old = name::of_side(old, b"a/").map_err(|e| self.fault(e))?;
        self.next();
        let new = self.behind(b"+++ ").ok_or_else(|| self.fault(Malformed::Sides))?;
        let new = name::of_side(new, b"b/").map_err(|e| self.fault(e))?;
        self.next();
        Ok(Some((old, new)))
    }

    fn operation(&self, head: &Head<'_>, sides: Option<&Sides<'_>>) -> Result<Operation, PatchError> {
        let kind = || self.fault(Malformed::Kind);
        let differ = || self.fault(Malformed::Contradiction);
        if let (Some(from), Some(to)) = (&head.from, &head.to) {
            if head.created.is_some() || head.deleted.is_some() {
                return Err(kind());
            }
            if sides.is_some_and(|(old, new)| old.as_ref() != Some(from) || new.as_ref() != Some(to)) {
                return Err(differ());
            }
            return Ok(Operation::Rename { from: self.path(from)?, to: self.path(to)? });
        }
        let modes_fit = match (head.created, head.deleted) {
            (None, None) => head.old_mode.is_some() == head.new_mode.is_some(),
            (Some(_), Some(_)) => false,
            (Some(_), None) | (None, Some(_)) => head.old_mode.is_none() && head.new_mode.is_none(),
        };
        if head.from.is_some() || head.to.is_some() || !modes_fit {
            return Err(kind());
        }
        let (old, new) = match sides {
            Some((None, None)) => return Err(self.fault(Malformed::NoSide)),
            Some((old, new)) => (old.as_ref(), new.as_ref()),
            // Without sides nothing but permissions changes, or an empty file comes or goes.
            None => {
                let agreed = Some(head.agreed.as_ref().ok_or_else(differ)?);
                (agreed.filter(|_| head.created.is_none()), agreed.filter(|_| head.deleted.is_none()))
            }
        };
        let agrees = |name: &Cow<'_, [u8]>| head.is_plain || head.agreed.as_ref() == Some(name);
        match (old, new) {
            (Some(old), Some(new)) if old == new && agrees(old) => match (head.created, head.deleted) {
                (None, None) => Ok(Operation::Modify(self.path(old)?)),
                (Some(_), _) | (_, Some(_)) => Err(kind()),
            },
            (None, Some(new)) if agrees(new) => match head.deleted.or(head.old_mode) {
                None => Ok(Operation::Create(self.path(new)?)),
                Some(_) => Err(kind()),
            },
            (Some(old), None) if agrees(old) => match head.created.or(head.old_mode) {
                None => Ok(Operation::Delete(self.path(old)?)),
                Some(_) => Err(kind()),
            },
            (Some(_) | None, Some(_) | None) => Err(differ()),
        }
    }

    fn hunks(&mut self) -> Result<Vec<HunkText<'a>>, PatchError> {
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with(b"@@")) {
            hunks.push(self.hunk()?);
        }
        if hunks.is_empty() {
            return Err(self.fault(Malformed::NoHunk));
        }
        // Lines that git would pass over: the rest of a hunk whose head says too little. A mail ends with `-- `.
        let surplus = self.peek().is_some_and(|line| {
            matches!(line.first(), Some(b'+' | b'-' | b' ' | b'\\'))
                && !matches!(line, b"-- \n" | b"-- \r\n" | b"--\n")
                && !line.starts_with(b"--- ")
        });
        if surplus { Err(self.fault(Malformed::Stray)) } else { Ok(hunks) }
    }

    fn hunk(&mut self) -> Result<HunkText<'a>, PatchError> {
        let (start, line) = (self.rest, self.line);
        let head = self.behind(b"@@ ").and_then(counts).ok_or_else(|| self.fault(Malformed::HunkHead))?;
        let (mut old, mut new) = head;
        self.next();
        while old > 0 || new > 0 {
            let (less_old, less_new) = match self.peek().and_then(|line| line.first()) {
                Some(b' ' | b'\n') => (1, 1),
                Some(b'-') => (1, 0),
                Some(b'+') => (0, 1),
                Some(b'\\') => (0, 0),
                Some(_) | None => return Err(self.fault(Malformed::HunkShort)),
            };
            let left = old.checked_sub(less_old).zip(new.checked_sub(less_new));
            (old, new) = left.ok_or_else(|| self.fault(Malformed::HunkHead))?;
            self.next();
        }
        if self.peek().is_some_and(|line| line.starts_with(b"\\")) {
            self.next();
        }
        let length = start.len() - self.rest.len();
        Ok(HunkText { line, bytes: start.get(..length).unwrap_or_default() })
    }
}

/// How many lines of each side a hunk has: of `-1,3 +1,4 @@ fn x()`.
fn counts(head: &[u8]) -> Option<(u32, u32)> {
    let at = head.windows(3).position(|three| three == b" @@")?;
    let ranges = std::str::from_utf8(head.get(..at)?).ok()?;
    let (old, new) = ranges.split_once(' ')?;
    Some((count(old.strip_prefix('-')?)?, count(new.strip_prefix('+')?)?))
}

fn count(range: &str) -> Option<u32> {
    let number = |text: &str| -> Option<u32> {
        let fits = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if fits { text.parse().ok() } else { None }
    };
    match range.split_once(',') {
        Some((start, count)) => number(start).and(number(count)),
        None => number(range).and(Some(1)),
    }
}
