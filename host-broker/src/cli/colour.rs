//! Colours on a terminal: the heads of tables, and cells that name a state.
//!
//! A table is text before it is printed, and part of other texts. So it marks its styles with characters that stand for
//! nothing else (Unicode noncharacters). The last step turns them into the sequences of the terminal, or removes them.
//! In a cell they are shown as escapes. Another text of an agent can contain them: it then has a colour up to the end of
//! its line, and no more.

use platform::Environment;
use std::io::IsTerminal as _;

/// A style of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// The head of a column.
    Head,
    /// A state without a problem.
    Good,
    /// A state that waits for somebody.
    Waiting,
    /// A state with a problem.
    Bad,
}

/// The characters that begin a style, and the sequence of the terminal. Source: ECMA-48, section 8.3.117 (SGR).
const STYLES: [(char, Style, &str); 4] = [
    ('\u{fdd0}', Style::Head, "\x1b[1m"),
    ('\u{fdd1}', Style::Good, "\x1b[32m"),
    ('\u{fdd2}', Style::Waiting, "\x1b[33m"),
    ('\u{fdd3}', Style::Bad, "\x1b[31m"),
];
/// The character that ends a style.
const END: char = '\u{fdd4}';
/// The sequence that ends it.
const RESET: &str = "\x1b[0m";

/// The first words of cells that name a state.
const GOOD: [&str; 9] =
    ["accepts", "approved", "available", "executed", "permit", "permitted", "ready", "running", "succeeded"];
const WAITING: [&str; 7] = ["ask", "asked", "approval", "open", "pending", "unknown", "waiting"];
const BAD: [&str; 14] = [
    "broken",
    "denied",
    "deny",
    "expired",
    "failed",
    "failing",
    "fails",
    "forbid",
    "killed",
    "refused",
    "silent",
    "suspended",
    "timeout",
    "unavailable",
];

/// Returns whether standard output is a terminal that shows colours. Source: <https://no-color.org>.
pub(super) fn are_wanted(environment: &Environment) -> bool {
    let has = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !has("NO_COLOR") && environment.get("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the style of a cell whose first word names a state.
pub(super) fn of_state(cell: &str) -> Option<Style> {
    let word = cell.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
    let lists: [(&[&str], Style); 3] = [(&GOOD, Style::Good), (&WAITING, Style::Waiting), (&BAD, Style::Bad)];
    lists.into_iter().find(|(words, _)| words.contains(&word)).map(|(_, style)| style)
}

/// Returns the text with the marks of a style.
pub(super) fn marked(text: &str, style: Option<Style>) -> String {
    let begin = style.and_then(|style| STYLES.iter().find(|(_, known, _)| *known == style));
    match begin {
        Some((begin, ..)) if !text.is_empty() => format!("{begin}{text}{END}"),
        Some(_) | None => text.to_owned(),
    }
}

/// Returns the text with the sequences of a terminal in place of the marks, or without both.
pub(super) fn painted(text: &str, is_on: bool) -> String {
    let (mut shown, mut is_open) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        let begin = STYLES.iter().find(|(begin, ..)| *begin == c);
        if let Some((.., sequence)) = begin {
            if is_on {
                shown.push_str(sequence);
                is_open = true;
            }
            continue;
        }
        if is_open && (c == END || c == '\n') {
            shown.push_str(RESET);
            is_open = false;
        }
        if c != END {
            shown.push(c);
        }
    }
    if is_open {
        shown.push_str(RESET);
    }
    shown
}

/// Returns a cell in which no character is a mark.
pub(super) fn without_marks(cell: &str) -> String {
    let is_mark = |c: char| c == END || STYLES.iter().any(|(begin, ..)| *begin == c);
    let mut shown = String::with_capacity(cell.len());
    for c in cell.chars() {
        if is_mark(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// Returns a painted text without its sequences.
pub(super) fn plain(text: &str) -> String {
    let sequences = STYLES.iter().map(|(.., sequence)| *sequence).chain([RESET]);
    sequences.fold(text.to_owned(), |text, sequence| text.replace(sequence, ""))
}

/// Returns the first so many columns of a line, with its sequences.
pub(super) fn cut(line: &str, columns: usize) -> String {
    let (mut shown, mut width, mut rest) = (String::new(), 0, line);
    while let Some(c) = rest.chars().next() {
        let sequence = STYLES.iter().map(|(.., sequence)| *sequence).chain([RESET]).find(|one| rest.starts_with(one));
        if let Some((sequence, after)) = sequence.and_then(|one| Some((one, rest.strip_prefix(one)?))) {
            shown.push_str(sequence);
            rest = after;
            continue;
        }
        if width < columns {
            shown.push(c);
            width += 1;
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Output;

    #[test]
    fn a_table_has_colours_on_a_terminal_and_the_same_columns_elsewhere() {
        let rows = [vec!["denied".to_owned(), "a".to_owned()], vec!["x".to_owned(), "waiting: for you".to_owned()]];
        let table = Output::table(&["STATE", "B"], &rows);
        assert_eq!(painted(&table, false), "STATE   B\ndenied  a\nx       waiting: for you");
        let shown = painted(&table, true);
        assert_eq!(
            shown,
            "\x1b[1mSTATE\x1b[0m   \x1b[1mB\x1b[0m\n\x1b[31mdenied\x1b[0m  a\nx       \x1b[33mwaiting: for you\x1b[0m"
        );
        assert_eq!(plain(&shown), painted(&table, false));
        assert_eq!(
            Output::table(&["A"], &[vec!["x\u{fdd3}".to_owned()]]),
            format!("{}\nx\\u{{fdd3}}", marked("A", Some(Style::Head)))
        );
        let first = shown.lines().nth(1).unwrap();
        assert_eq!(cut(first, 3), "\x1b[31mden\x1b[0m");
    }

    #[test]
    fn a_mark_in_a_foreign_text_colours_its_line_at_most() {
        assert_eq!(painted("a\u{fdd3}b\nc", true), "a\x1b[31mb\x1b[0m\nc");
        assert_eq!(painted("a\u{fdd3}b\u{fdd4}\nc", false), "ab\nc");
    }
}
