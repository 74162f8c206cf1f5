//! A unified diff, side by side. It is only taken apart: every line of the text is in exactly one place.
//!
//! How long a hunk is, its own head says; so a line of a file that looks like a head is a line of the file.

/// A part of a diff, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Lines about files: names, modes; or text that is no diff at all.
    Head(Vec<&'a str>),
    /// Where a hunk is: `@@ -1,3 +1,4 @@`.
    Place(&'a str),
    /// Lines that stay as they are.
    Same(Vec<Same<'a>>),
    /// Lines that go, and those that come.
    Changed {
        /// Those that go.
        old: Vec<Line<'a>>,
        /// Those that come.
        new: Vec<Line<'a>>,
    },
}

/// A line that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Same<'a> {
    /// Its number before.
    pub(super) old: u64,
    /// Its number after.
    pub(super) new: u64,
    /// The line.
    pub(super) text: &'a str,
}

/// A line of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Its number; none for a remark of the diff about the line before it.
    pub(super) number: Option<u64>,
    /// The line.
    pub(super) text: &'a str,
}

/// The hunk that is being read.
#[derive(Clone, Copy, Default)]
struct Hunk {
    old: u64,
    new: u64,
    old_left: u64,
    new_left: u64,
    // Whether its head was seen, so that `\ No newline` may follow its last line.
    begun: bool,
    // The side of the last line.
    side: Side,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Side {
    #[default]
    Both,
    Old,
    New,
}

/// Takes a diff apart.
pub(super) fn side_by_side(diff: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut hunk = Hunk::default();
    for line in diff.split_terminator('\n') {
        if !take(&mut parts, &mut hunk, line) {
            hunk = Hunk::default();
            if let Some(begun) = head(line) {
                hunk = begun;
                parts.push(Part::Place(line));
            } else if let Some(Part::Head(lines)) = parts.last_mut() {
                lines.push(line);
            } else {
                parts.push(Part::Head(vec![line]));
            }
        }
    }
    parts
}

/// Takes a line of the hunk; `false` if it is none.
fn take<'a>(parts: &mut Vec<Part<'a>>, hunk: &mut Hunk, line: &'a str) -> bool {
    // An empty line is an unchanged empty one, from which an editor took the space.
    let Some((sign, text)) = (if line.is_empty() { Some((" ", "")) } else { line.split_at_checked(1) }) else {
        return false;
    };
    match sign {
        " " if hunk.old_left > 0 && hunk.new_left > 0 => {
            let same = Same { old: hunk.old, new: hunk.new, text };
            match parts.last_mut() {
                Some(Part::Same(lines)) => lines.push(same),
                _ => parts.push(Part::Same(vec![same])),
            }
            hunk.step(Side::Both);
        }
        "-" if hunk.old_left > 0 => {
            // A removed line after an added one begins another change.
            let line = Line { number: Some(hunk.old), text };
            match parts.last_mut() {
                Some(Part::Changed { old, new }) if new.is_empty() => old.push(line),
                _ => parts.push(Part::Changed { old: vec![line], new: Vec::new() }),
            }
            hunk.step(Side::Old);
        }
        "+" if hunk.new_left > 0 => {
            add(parts, Side::New, Line { number: Some(hunk.new), text });
            hunk.step(Side::New);
        }
        "\\" if hunk.begun => add(parts, hunk.side, Line { number: None, text: line }),
        _ => return false,
    }
    true
}

/// Adds a line to this side of the present change; a remark for both sides stands on the left.
fn add<'a>(parts: &mut Vec<Part<'a>>, side: Side, line: Line<'a>) {
    match parts.last_mut() {
        Some(Part::Changed { new, .. }) if side == Side::New => new.push(line),
        Some(Part::Changed { old, .. }) => old.push(line),
        Some(Part::Head(_) | Part::Place(_) | Part::Same(_)) | None => {
            let (old, new) = if side == Side::New { (vec![], vec![line]) } else { (vec![line], vec![]) };
            parts.push(Part::Changed { old, new });
        }
    }
}

impl Hunk {
    fn step(&mut self, side: Side) {
        if side != Side::New {
            self.old = self.old.saturating_add(1);
            self.old_left = self.old_left.saturating_sub(1);
        }
        if side != Side::Old {
            self.new = self.new.saturating_add(1);
            self.new_left = self.new_left.saturating_sub(1);
        }
        self.side = side;
    }
}

/// `@@ -1,3 +1,4 @@ anything`
fn head(line: &str) -> Option<Hunk> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| -> Option<(u64, u64)> {
        let (start, length) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, length.parse().ok()?))
    };
    let ((old, old_left), (new, new_left)) = (range(old)?, range(new)?);
    Some(Hunk { old, new, old_left, new_left, begun: true, side: Side::Both })
}

#[cfg(test)]
mod tests;
