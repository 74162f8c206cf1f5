//! Hidden characters: the meaning of the marks on a card, and their number.
//!
//! A card has a mark such as `<U+202E>` in the place of each character that a reader could not see or could mistake for
//! another one. JSON texts have control characters as escapes, `\u001b`. This module names and counts both.

use crate::card::{Card, Line};
use crate::conceals;
use std::borrow::Cow;
use std::fmt;

/// A part of a card's text. The parts are the whole text, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// Plain text.
    Text(&'a str),
    /// A line break that is written out: `\n`.
    Break(&'a str),
    /// A mark or an escape, with its meaning.
    Mark(&'a str, HiddenPart),
}

/// The meaning of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenPart {
    /// This character.
    Char(char),
    /// A row of spaces.
    Spaces,
}

/// The reason why a character is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It changes the direction of the text around it.
    Direction,
    /// It has no width, or it is not shown.
    ZeroWidth,
    /// It is a tag or a selector, which can carry a hidden text.
    Tag,
    /// It is a control character.
    Control,
    /// It is a space other than the common one.
    Space,
    /// It looks like another letter.
    Lookalike,
}

impl HiddenPart {
    /// Returns why it is hidden. Returns `None` for signs that are only uncommon, and for rows of spaces, which
    /// indented texts have.
    pub fn kind(self) -> Option<Kind> {
        let Self::Char(c) = self else { return None };
        match c {
            '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                Some(Kind::Direction)
            }
            '\u{FE00}'..='\u{FE0F}' | '\u{E0000}'..='\u{E0FFF}' => Some(Kind::Tag),
            '\u{115F}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{FFA0}' => Some(Kind::Space),
            c if c.is_control() => Some(Kind::Control),
            c if c.is_whitespace() => Some(Kind::Space),
            c if conceals(c) => Some(Kind::ZeroWidth),
            c if c.is_alphabetic() => Some(Kind::Lookalike),
            _ => None,
        }
    }

    /// Returns its name, for people.
    pub fn name(self) -> Option<Cow<'static, str>> {
        let Self::Char(c) = self else { return None };
        if let '\u{E0020}'..='\u{E007E}' = c {
            let stands_for = char::from_u32(u32::from(c) - 0xE0000)?;
            return Some(Cow::Owned(format!("tag {stands_for}")));
        }
        let name = match c {
            '\0' => "null",
            '\u{8}' => "backspace",
            '\t' => "tab",
            '\n' => "line feed",
            '\r' => "carriage return",
            '\u{1B}' => "escape",
            '\u{7F}' => "delete",
            '\u{A0}' => "no-break space",
            '\u{AD}' => "soft hyphen",
            '\u{61C}' => "Arabic letter mark",
            '\u{180E}' => "Mongolian vowel separator",
            '\u{200B}' => "zero width space",
            '\u{200C}' => "zero width non-joiner",
            '\u{200D}' => "zero width joiner",
            '\u{200E}' => "left-to-right mark",
            '\u{200F}' => "right-to-left mark",
            '\u{2028}' => "line separator",
            '\u{2029}' => "paragraph separator",
            '\u{202A}' => "left-to-right embedding",
            '\u{202B}' => "right-to-left embedding",
            '\u{202C}' => "end of direction",
            '\u{202D}' => "left-to-right override",
            '\u{202E}' => "right-to-left override",
            '\u{202F}' => "narrow no-break space",
            '\u{2060}' => "word joiner",
            '\u{2066}' => "left-to-right isolate",
            '\u{2067}' => "right-to-left isolate",
            '\u{2068}' => "first strong isolate",
            '\u{2069}' => "end of isolate",
            '\u{2800}' => "blank Braille pattern",
            '\u{3000}' => "ideographic space",
            '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' => "Hangul filler",
            '\u{FEFF}' => "byte order mark",
            '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' => "variation selector",
            '\u{E0001}' => "language tag",
            '\u{E007F}' => "end of tags",
            _ => match self.kind()? {
                Kind::Direction => "mark of direction",
                Kind::ZeroWidth => "zero width",
                Kind::Tag => "tag",
                Kind::Control => "control",
                Kind::Space => "unusual space",
                Kind::Lookalike => "looks like another letter",
            },
        };
        Some(Cow::Borrowed(name))
    }
}

/// Splits a value of a card into parts. Only a text between quotes has escapes.
pub fn parts(value: &str) -> Parts<'_> {
    Parts { rest: value, is_json: value.starts_with('"'), has_gaps: true }
}

/// Splits a line of a diff into parts. It has marks of characters only.
pub fn parts_of_diff(line: &str) -> Parts<'_> {
    Parts { rest: line, is_json: false, has_gaps: false }
}

/// The parts of a text.
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    rest: &'a str,
    is_json: bool,
    has_gaps: bool,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut plain = 0;
        loop {
            let after = self.rest.get(plain..).unwrap_or_default();
            let Some(at) = after.find(['<', '\\']) else { return Some(Part::Text(self.take(self.rest.len()))) };
            let from = after.get(at..).unwrap_or_default();
            match self.special(from) {
                Special::None(length) => plain += at + length,
                _ if plain + at > 0 => return Some(Part::Text(self.take(plain + at))),
                Special::Break(length) => return Some(Part::Break(self.take(length))),
                Special::Mark(length, what) => return Some(Part::Mark(self.take(length), what)),
            }
        }
    }
}

/// The special sequence at the beginning of a text, with its length.
enum Special {
    None(usize),
    Break(usize),
    Mark(usize, HiddenPart),
}

impl<'a> Parts<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (part, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        part
    }

    fn special(&self, from: &str) -> Special {
        if let Some((length, what)) = mark(from).filter(|(_, what)| self.has_gaps || *what != HiddenPart::Spaces) {
            return Special::Mark(length, what);
        }
        if !self.is_json || !from.starts_with('\\') {
            return Special::None(1);
        }
        let mut escaped = from.chars().skip(1);
        match escaped.next() {
            Some('n') => Special::Break(2),
            Some('b') => Special::Mark(2, HiddenPart::Char('\u{8}')),
            Some('f') => Special::Mark(2, HiddenPart::Char('\u{C}')),
            Some('r') if !from.starts_with("\\r\\n") => Special::Mark(2, HiddenPart::Char('\r')),
            Some('u') => {
                let code = from.get(2..6).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                code.and_then(char::from_u32).map_or(Special::None(2), |c| Special::Mark(6, HiddenPart::Char(c)))
            }
            // A backslash and the character after it are one unit.
            _ => Special::None(from.chars().take(2).map(char::len_utf8).sum()),
        }
    }
}

/// Parses the mark at the beginning, `<U+202E>` or `<12 spaces>`. A value cannot hold one itself, because its `<` is
/// then a mark.
fn mark(text: &str) -> Option<(usize, HiddenPart)> {
    let inner = text.strip_prefix('<')?;
    let end = inner.bytes().take(23).position(|byte| byte == b'>')?;
    let inner = inner.get(..end)?;
    let is_all = |digits: &str, is: fn(&u8) -> bool| digits.bytes().all(|digit| is(&digit));
    let what = if let Some(digits) = inner.strip_prefix("U+") {
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_all(digits, u8::is_ascii_hexdigit));
        HiddenPart::Char(code.and_then(char::from_u32)?)
    } else {
        inner.strip_suffix(" spaces").filter(|digits| is_all(digits, u8::is_ascii_digit))?;
        HiddenPart::Spaces
    };
    Some((end + 2, what))
}

/// The number of hidden characters of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count([usize; 6]);

const KINDS: [(Kind, &str); 6] = [
    (Kind::Direction, "changes of direction"),
    (Kind::ZeroWidth, "without width"),
    (Kind::Tag, "tags or selectors"),
    (Kind::Control, "control characters"),
    (Kind::Space, "unusual spaces"),
    (Kind::Lookalike, "look-alike letters"),
];

impl Count {
    /// Counts the hidden characters of the whole card.
    pub fn of(card: &Card) -> Self {
        let mut count = Self::default();
        count.add(Self::of_lines(&card.head));
        count.add(Self::of_lines(&card.conditions));
        // The sent request repeats the parameters.
        let (params, sent) = (Self::of_lines(&card.params), Self::of_lines(&card.sent));
        count.add(Self(std::array::from_fn(|kind| params.at(kind).max(sent.at(kind)))));
        for line in card.diff.iter().flat_map(|diff| diff.split_terminator('\n')) {
            // A carriage return at the end of a line belongs to the line break.
            count.note(parts_of_diff(line.strip_suffix("<U+000D>").unwrap_or(line)));
        }
        count
    }

    /// Returns the number of all hidden characters.
    pub fn all(self) -> usize {
        self.0.iter().sum()
    }

    fn of_lines(lines: &[Line]) -> Self {
        let mut count = Self::default();
        for line in lines {
            count.note(parts(&line.field));
            count.note(parts(&line.value));
        }
        count
    }

    fn note(&mut self, parts: Parts<'_>) {
        for part in parts {
            let Part::Mark(_, what) = part else { continue };
            let place = KINDS.iter().position(|(kind, _)| Some(*kind) == what.kind());
            if let Some(number) = place.and_then(|place| self.0.get_mut(place)) {
                *number += 1;
            }
        }
    }

    fn at(self, kind: usize) -> usize {
        self.0.get(kind).copied().unwrap_or_default()
    }

    fn add(&mut self, other: Self) {
        *self = Self(std::array::from_fn(|kind| self.at(kind) + other.at(kind)));
    }
}

impl fmt::Display for Count {
    /// Writes `changes of direction: 2, without width: 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.0.iter().zip(KINDS).filter(|(number, _)| **number > 0);
        let words: Vec<String> = found.map(|(number, (_, words))| format!("{words}: {number}")).collect();
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::visible;
    use serde_json::json;

    #[test]
    fn every_kind_of_hidden_character_is_named_and_counted() {
        let mut card = Card::new();
        let body = "a\u{202e}b\u{2066}c\u{200b}d\u{e0041}e\u{1b}f\u{a0}g p\u{430}y h\u{7f}i \u{1f600}\r\nend";
        assert!(card.list(&json!({ "body": body, "na\u{200d}me": 1 })));
        assert!(card.differs("@@ -1 +1 @@\n-a<U+000D>\n+b<U+200B><U+000D>\n"));
        let count = Count::of(&card);
        assert_eq!(count.0, [2, 3, 1, 2, 1, 1], "{card:?} {count}");
        assert_eq!(count.all(), 10);
        assert!(count.to_string().starts_with("changes of direction: 2, without width: 3"));
        let name = |c: char| HiddenPart::Char(c).name().unwrap_or_default().into_owned();
        assert_eq!(name('\u{202e}'), "right-to-left override");
        assert_eq!(name('\u{e0041}'), "tag A");
        assert_eq!(name('\u{200b}'), "zero width space");
        assert_eq!(name('\u{1b}'), "escape");
        assert_eq!(HiddenPart::Char('\u{1f600}').kind(), None, "an uncommon sign is not hidden");
    }

    #[test]
    fn every_invisible_character_has_a_kind_and_a_name() {
        for c in ('\0'..=char::MAX).filter(|c| conceals(*c)) {
            assert!(HiddenPart::Char(c).kind().is_some() && HiddenPart::Char(c).name().is_some(), "{:x}", u32::from(c));
        }
    }

    #[test]
    fn a_value_makes_no_mark_by_itself() {
        let marks = |value: &str| parts(value).filter(|part| matches!(part, Part::Mark(..))).count();
        assert_eq!(marks(&visible("\"<U+202E> <12 spaces>\"")), 2, "its own `<` is written out");
        assert_eq!(Count::of_lines(&[Line { field: "a".into(), value: visible("\"<U+202E>\"") }]).all(), 0);
        assert_eq!(marks(r#""a\\u001b""#), 0, "a backslash that was written");
        assert_eq!(marks(r#""a\u001b\r\n\r""#), 2);
        assert_eq!(parts_of_diff("+\\<U+202E>").count(), 2, "a backslash hides no mark");
        assert_eq!(parts_of_diff("+<12 spaces> \\n").collect::<Vec<_>>(), [Part::Text("+<12 spaces> \\n")]);
    }
}
