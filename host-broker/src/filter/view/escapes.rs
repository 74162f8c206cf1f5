//! Views of writings that are met less often than percent- and JSON-escapes, one of them at a time, read forwards:
//! character references of HTML, escapes of programming languages, quoted-printable, and bytes written as numbers.
//!
//! Each is made only of a text that shows its signs. They do not look into each other, nor into percent-escapes.

use super::{Span, Undo, View, is_invisible, is_separator};
use crate::filter::forms::NEEDLE_BYTES_MIN;
use std::ops::Range;

/// The most digits of a reference or an escape; more are only zeros before it.
const DIGITS_MAX: usize = 8;

/// What an escape stands for.
#[derive(Clone, Copy)]
enum Meaning {
    Byte(u8),
    Char(char),
    /// Nothing: a line that was broken.
    Gap,
}

/// The views that make a difference for this text.
pub(super) fn useful_for(text: &str) -> impl Iterator<Item = Undo> {
    let signs = [
        (Undo::Markup, text.contains('&')),
        (Undo::Code, text.contains('\\')),
        (Undo::Quoted, text.match_indices('=').any(|(at, _)| quoted(tail(text, at)).is_some())),
        (Undo::Hexadecimal, has_numbers(text, Undo::Hexadecimal)),
        (Undo::Decimal, has_numbers(text, Undo::Decimal)),
    ];
    signs.into_iter().filter_map(|(undo, is_useful)| is_useful.then_some(undo))
}

/// Whether there are enough numbers in a row to be a secret.
fn has_numbers(text: &str, undo: Undo) -> bool {
    let mut row = 0;
    parts(text).any(|(_, part)| {
        row = if number(part, undo).is_some() { row + 1 } else { 0 };
        row >= NEEDLE_BYTES_MIN
    })
}

impl View {
    /// The text with its escapes undone.
    pub(super) fn of_escapes(text: &str, marks: &[Range<usize>], undo: Undo) -> Self {
        let mut view = Self::empty(undo, text.len());
        let mut at = 0;
        let mut marks = marks.iter().peekable();
        while let Some(c) = tail(text, at).chars().next() {
            while marks.next_if(|mark| mark.end <= at).is_some() {}
            if let Some(mark) = marks.next_if(|mark| mark.start <= at) {
                at = mark.end;
                continue;
            }
            let (meaning, length) = escape(tail(text, at), undo).unwrap_or((Meaning::Char(c), c.len_utf8()));
            view.append(meaning, Span::of(at, at + length));
            at += length;
        }
        view
    }

    /// The bytes that the text's numbers stand for. What is no such number parts those around it.
    pub(super) fn of_numbers(text: &str, marks: &[Range<usize>], undo: Undo) -> Self {
        let mut view = Self::empty(undo, 0);
        let mut marks = marks.iter().peekable();
        for (at, part) in parts(text) {
            while marks.next_if(|mark| mark.end <= at).is_some() {}
            if marks.peek().is_some_and(|mark| mark.start <= at) {
                continue;
            }
            let span = Span::of(at, at + part.len());
            match number(part, undo) {
                Some(byte) => view.append(Meaning::Byte(byte), span),
                // No needle has this byte, and one is enough.
                None if view.bytes.last() == Some(&0) => {}
                None => view.put(0, span),
            }
        }
        view
    }

    fn empty(undo: Undo, capacity: usize) -> Self {
        let (bytes, spans) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        Self { undo, bytes, spans, in_backslashes: false }
    }

    fn append(&mut self, meaning: Meaning, span: Span) {
        match meaning {
            Meaning::Byte(byte) if is_separator(byte) => {}
            Meaning::Byte(byte) => self.put(byte, span),
            Meaning::Char(c) => match u8::try_from(c) {
                Ok(byte) if byte.is_ascii() => self.append(Meaning::Byte(byte), span),
                _ if is_invisible(c) => {}
                _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| self.put(byte, span)),
            },
            Meaning::Gap => {}
        }
    }
}

/// The escape at the beginning of the text, and its length.
fn escape(text: &str, undo: Undo) -> Option<(Meaning, usize)> {
    let (meaning, rest) = match undo {
        Undo::Markup => reference(text),
        Undo::Code => backslash(text),
        Undo::Quoted => quoted(text),
        Undo::Both | Undo::Percent | Undo::Json | Undo::Hexadecimal | Undo::Decimal => None,
    }?;
    Some((meaning, text.len() - rest.len()))
}

/// `&#x67;`, `&#103;`, `&amp;`, also with its own `&` written so again.
fn reference(text: &str) -> Option<(Meaning, &str)> {
    let whole = text.strip_prefix('&')?;
    let mut name = whole;
    while let Some(rest) = name.strip_prefix("amp;") {
        name = rest;
    }
    let numeric = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
        Some(digits) => take_number(digits, 16, 1),
        None => take_number(digits, 10, 1),
    });
    if let Some((code, rest)) = numeric {
        return Some((Meaning::Char(char::from_u32(code)?), rest.strip_prefix(';').unwrap_or(rest)));
    }
    let named = [("lt;", '<'), ("gt;", '>'), ("quot;", '"'), ("apos;", '\''), ("nbsp;", ' ')];
    let named = named.into_iter().find_map(|(word, c)| Some((Meaning::Char(c), name.strip_prefix(word)?)));
    named.or_else(|| (name.len() < whole.len()).then_some((Meaning::Char('&'), name)))
}

/// `\x67`, `\147`, `\u{67}`, `\u0067`, `\U00000067`, a line break; a run of backslashes is one.
fn backslash(text: &str) -> Option<(Meaning, &str)> {
    let rest = text.trim_start_matches('\\');
    if rest.len() == text.len() {
        return None;
    }
    let byte = |code: u32, rest| Some((u8::try_from(code).map_or(Meaning::Gap, Meaning::Byte), rest));
    let letter = |code: u32, rest| Some((char::from_u32(code).map_or(Meaning::Gap, Meaning::Char), rest));
    let known = match rest.as_bytes() {
        [b'x', ..] => exactly(tail(rest, 1), 16, 2).and_then(|(code, rest)| byte(code, rest)),
        [b'u', b'{', ..] => {
            let (code, rest) = take_number(tail(rest, 2), 16, 1)?;
            letter(code, rest.strip_prefix('}').unwrap_or(rest))
        }
        [b'u', ..] => exactly(tail(rest, 1), 16, 4).and_then(|(code, rest)| letter(code, rest)),
        [b'U', ..] => exactly(tail(rest, 1), 16, 8).and_then(|(code, rest)| letter(code, rest)),
        [b'0'..=b'3', ..] => exactly(rest, 8, 3).and_then(|(code, rest)| byte(code, rest)),
        [b'n' | b'r' | b't', ..] => Some((Meaning::Gap, tail(rest, 1))),
        _ => None,
    };
    Some(known.unwrap_or((Meaning::Gap, rest)))
}

/// RFC 2045, section 6.7: `=67`, and `=` at the end of a line.
fn quoted(text: &str) -> Option<(Meaning, &str)> {
    let rest = text.strip_prefix('=')?;
    if let Some(rest) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
        return Some((Meaning::Gap, rest));
    }
    let (code, rest) = exactly(rest, 16, 2)?;
    Some((Meaning::Byte(u8::try_from(code).ok()?), rest))
}

/// The letters and digits between everything else, and where they begin.
fn parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let parting = |c: char| !c.is_ascii_alphanumeric();
    let with_places = text.split_inclusive(parting).scan(0, move |next, part| {
        let at = *next;
        *next += part.len();
        Some((at, part.trim_end_matches(parting)))
    });
    with_places.filter(|(_, part)| !part.is_empty())
}

/// The byte that this part is the number of: `6b`, `0x6b` and `x6b`, or `107`.
fn number(part: &str, undo: Undo) -> Option<u8> {
    if undo == Undo::Decimal {
        return if part.len() <= 3 { part.parse().ok() } else { None };
    }
    let digits = part.strip_prefix("0x").or_else(|| part.strip_prefix('x')).unwrap_or(part);
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

fn exactly(text: &str, radix: u32, count: usize) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(count)?;
    Some((all_digits(digits, radix)?, rest))
}

/// As many digits as there are, but for zeros before them at most [`DIGITS_MAX`].
fn take_number(text: &str, radix: u32, least: usize) -> Option<(u32, &str)> {
    let length = text.chars().take_while(|c| c.is_digit(radix)).count();
    let (digits, rest) = text.split_at_checked(length)?;
    let significant = digits.trim_start_matches('0');
    let fits = length >= least && significant.len() <= DIGITS_MAX;
    if !fits {
        return None;
    }
    Some((if significant.is_empty() { 0 } else { all_digits(significant, radix)? }, rest))
}

fn all_digits(digits: &str, radix: u32) -> Option<u32> {
    digits.chars().try_fold(0u32, |value, c| value.checked_mul(radix)?.checked_add(c.to_digit(radix)?))
}

fn tail(text: &str, from: usize) -> &str {
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str, undo: Undo) -> String {
        String::from_utf8_lossy(View::of(text, &[], undo).bytes()).into_owned()
    }

    #[test]
    fn each_writing_is_undone_also_in_part() {
        for (undo, text) in [
            (Undo::Markup, "h&#117;nter&#x32;"),
            (Undo::Markup, "&#x68;&#X75&#0110;&#116;e&amp;#114;&amp;amp;#x00032;"),
            (Undo::Code, r"\x68un\164er\u{32}"),
            (Undo::Code, r"\\x68\u0075\U0000006eter\\\\x32"),
            (Undo::Code, "hun\\nter2"),
            (Undo::Quoted, "=68un=\r\nter=\n2"),
            (Undo::Quoted, "=68=75=6e=74=65=72=32"),
            (Undo::Hexadecimal, "68:75:6E:74:65:72:32"),
            (Undo::Hexadecimal, r"\x68\x75, 0x6e 0x74-65 [72] 32"),
            (Undo::Decimal, "[104, 117, 110,\n116, 101, 114, 50]"),
        ] {
            assert_eq!(view(text, undo), "hunter2", "{undo:?} {text}");
        }
        assert_eq!(view("=C3=A9&#233;", Undo::Quoted), "é&#233;");
        assert_eq!(view("&#233;&eacute;&#xFFFFFFFFF;&#;", Undo::Markup), "é&eacute;&#xFFFFFFFFF;&#;");
        assert_eq!(view("65 66 and 68 999 67", Undo::Decimal), "AB\0D\0C");
    }

    #[test]
    fn bytes_know_where_they_came_from() {
        let view = View::of("é &#x41;B =43", &[], Undo::Markup);
        assert_eq!((view.bytes(), view.source(2..3, false, false)), ("éAB=43".as_bytes(), Some(3..9)));
        let view = View::of("x 41:42 y", &[], Undo::Hexadecimal);
        assert_eq!((view.bytes(), view.source(1..3, false, false)), (&b"\0AB\0"[..], Some(2..7)));
    }

    #[test]
    fn a_view_is_made_only_of_a_text_that_shows_its_signs() {
        let useful = |text: &str| useful_for(text).collect::<Vec<_>>();
        assert_eq!(useful("plain words, 10:41:12 and a=b"), []);
        assert_eq!(useful("a&b c\\d e=3D"), [Undo::Markup, Undo::Code, Undo::Quoted]);
        assert_eq!(useful("de:ad:be:ef:de:ad:be:ef"), [Undo::Hexadecimal]);
        assert_eq!(useful("1, 2, 3, 4, 5, 6, 7, 8"), [Undo::Decimal]);
    }

    #[test]
    fn marks_are_left_out() {
        for undo in [Undo::Markup, Undo::Code, Undo::Quoted] {
            assert_eq!(View::of("ab<mark>cd<mark>", &[2..8, 10..16], undo).bytes(), b"abcd");
        }
        assert_eq!(View::of("65 <66> 67 <1>", &[3..7, 11..14], Undo::Decimal).bytes(), b"AC");
    }
}
