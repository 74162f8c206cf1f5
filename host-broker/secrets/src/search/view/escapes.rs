//! Views of writings that are met less often than percent- and JSON-escapes, one of them at a time, read forwards:
//! character references of HTML, escapes of programming languages, quoted-printable, and bytes written as numbers.
//!
//! Each is made only of a text that shows its signs. They do not look into each other, nor into percent-escapes.

use super::{SEAM, Span, Undo, View, is_invisible, is_separator};
use std::ops::Range;

/// The most digits of a reference or an escape; more are only zeros before it.
const DIGITS_MAX: usize = 8;

/// Returns the digits of the text's numbers in small letters, and the seams between pieces, each with its place.
pub(crate) fn digits(text: &str, undo: Undo) -> impl Iterator<Item = (usize, char)> {
    let is_sign = move |at: usize, c: char| {
        undo == Undo::Hexadecimal && c == '0' && matches!(text.as_bytes().get(at + 1), Some(b'x' | b'X'))
    };
    let shown = move |(at, c): &(usize, char)| *c == SEAM || c.is_digit(radix(undo)) && !is_sign(*at, *c);
    text.char_indices().filter(shown).map(|(at, c)| (at, c.to_ascii_lowercase()))
}

/// The meaning of an escape.
#[derive(Clone, Copy)]
enum Meaning {
    Byte(u8),
    Char(char),
    /// Nothing: a line that was broken.
    Gap,
}

/// Returns the views that make a difference for this text. A view of numbers needs a row with this many digits.
pub(crate) fn useful_for(text: &str, digits: usize) -> impl Iterator<Item = Undo> {
    let signs = [
        (Undo::Markup, text.match_indices('&').any(|(at, _)| reference(tail(text, at)).is_some())),
        (Undo::Code, text.match_indices('\\').any(|(at, _)| is_of_programs(tail(text, at + 1)))),
        (Undo::Quoted, text.match_indices('=').any(|(at, _)| quoted(tail(text, at)).is_some())),
        (Undo::Hexadecimal, has_numbers(text, Undo::Hexadecimal, digits)),
        (Undo::Decimal, has_numbers(text, Undo::Decimal, digits)),
    ];
    signs.into_iter().filter_map(|(undo, is_useful)| is_useful.then_some(undo))
}

/// Returns whether the text after a backslash makes an escape that JSON does not have.
fn is_of_programs(text: &str) -> bool {
    match text.as_bytes() {
        [b'x' | b'U', ..] | [b'u', b'{', ..] => true,
        [b'0'..=b'3', rest @ ..] => matches!(rest, [b'0'..=b'7', b'0'..=b'7', ..]),
        _ => false,
    }
}

/// Returns whether a row of numbers has this many digits. The text beside a row may hide its first and its last number.
fn has_numbers(text: &str, undo: Undo, digits: usize) -> bool {
    let mut row = 0;
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).any(|part| {
        row = digits_of(part, undo).map_or(0, |digits| row + digits);
        row >= digits
    })
}

/// Returns how many digits this part of a text has, if it is made of numbers alone.
fn digits_of(part: &str, undo: Undo) -> Option<usize> {
    let is_sign = |byte: u8| undo == Undo::Hexadecimal && matches!(byte, b'x' | b'X');
    let is_digit = |byte: u8| char::from(byte).is_digit(radix(undo));
    let belongs = part.bytes().all(|byte| is_digit(byte) || is_sign(byte));
    belongs.then(|| part.bytes().filter(|byte| is_digit(*byte)).count())
}

fn radix(undo: Undo) -> u32 {
    if undo == Undo::Decimal { 10 } else { 16 }
}

impl View {
    /// The text with its escapes undone.
    pub(crate) fn of_escapes(text: &str, marks: &[Range<usize>], undo: Undo) -> Self {
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

    /// Makes a row of the digits of the text's numbers, without the text between them; of `0x6b`, the digits `6b`.
    pub(crate) fn of_numbers(text: &str, marks: &[Range<usize>], undo: Undo) -> Self {
        let mut view = Self::empty(undo, 0);
        let mut marks = marks.iter().peekable();
        for (at, c) in digits(text, undo) {
            while marks.next_if(|mark| mark.end <= at).is_some() {}
            if marks.peek().is_none_or(|mark| mark.start > at) {
                view.append(Meaning::Char(c), Span::of(at, at + c.len_utf8()));
            }
        }
        view
    }

    pub(crate) fn empty(undo: Undo, capacity: usize) -> Self {
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
        ] {
            assert_eq!(view(text, undo), "hunter2", "{undo:?} {text}");
        }
        assert_eq!(view("=C3=A9&#233;", Undo::Quoted), "é&#233;");
        assert_eq!(view("&#233;&eacute;&#xFFFFFFFFF;&#;", Undo::Markup), "é&eacute;&#xFFFFFFFFF;&#;");
    }

    #[test]
    fn numbers_are_a_row_of_digits_with_any_separator() {
        for text in ["68:75:6E:74", r"\x68\x75, 0x6e 0X74", "0x680x750x6e0x74", "[68] 7|5 6e-\u{2003}74", "6875 6e74"] {
            assert_eq!(view(text, Undo::Hexadecimal), "68756e74", "{text}");
        }
        assert_eq!(view("[104, 117, 110,\n116]", Undo::Decimal), "104117110116");
        assert_eq!(view(&format!("68{SEAM}75"), Undo::Hexadecimal), format!("68{SEAM}75"));
    }

    #[test]
    fn bytes_know_where_they_came_from() {
        let view = View::of("é &#x41;B =43", &[], Undo::Markup);
        assert_eq!((view.bytes(), view.source(2..3, false, false)), ("éAB=43".as_bytes(), Some(3..9)));
        let view = View::of("x 41:42 y", &[], Undo::Hexadecimal);
        assert_eq!((view.bytes(), view.source(0..4, false, false)), (&b"4142"[..], Some(2..7)));
    }

    #[test]
    fn a_view_is_made_only_of_a_text_that_shows_its_signs() {
        let useful = |text: &str| useful_for(text, 12).collect::<Vec<_>>();
        assert_eq!(useful("plain words, 10:41:12 and a=b"), []);
        assert_eq!(useful("a&b c\\d \\n \\u0041 e=3"), []);
        assert_eq!(useful("a&amp;b c\\x64 e=3D"), [Undo::Markup, Undo::Code, Undo::Quoted]);
        assert_eq!(useful("keyde:ad:be:ef:de:ad:be:efkey"), [Undo::Hexadecimal]);
        assert_eq!(useful("10, 20, 30, 40, 50, 60, 7"), [Undo::Hexadecimal, Undo::Decimal]);
    }

    #[test]
    fn marks_are_left_out() {
        for undo in [Undo::Markup, Undo::Code, Undo::Quoted] {
            assert_eq!(View::of("ab<mark>cd<mark>", &[2..8, 10..16], undo).bytes(), b"abcd");
        }
        assert_eq!(View::of("65 <66> 67 <1>", &[3..7, 11..14], Undo::Decimal).bytes(), b"6567");
    }
}
