//! Views of a text in which encodings that are written character by character are undone.
//!
//! In the first of them percent- and JSON-escapes are decoded, to any depth; rarer writings have a view each
//! (`escapes`). What may stand between the parts of a split text (white space, control and invisible characters,
//! quotes, commas, lone backslashes) and earlier marks are left out.
//! Each byte of the view knows the characters of the text that it came from.
//!
//! The first kind reads the text from its end to its beginning. An escape is then a few characters that have already been
//! reduced, so one pass with a stack undoes `%2525…` and `\\\\u0041` alike, in linear time: every reduction
//! removes something from the stack, and each character is pushed once.

mod escapes;

use std::ops::Range;

/// Separates pieces that are searched one by one. No escape reaches over it, and a view shows it.
pub const SEAM: char = '\u{FFFF}';

/// Which escapes a view undoes.
///
/// With one kind alone, less can be put before a secret to make an escape out of its first characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Percent- and JSON-escapes, also wrapped into each other.
    Both,
    /// Percent-escapes.
    Percent,
    /// JSON-escapes.
    Json,
    /// HTML's character references: `&#x67;`, `&#103;`, `&amp;`.
    Markup,
    /// The escapes of programming languages: `\x67`, `\147`, `\u{67}`, `\u0067`.
    Code,
    /// Quoted-printable: `=67`, and `=` where a line was broken.
    Quoted,
    /// The digits of hexadecimal numbers, for bytes that are written with something between them: `6b:37`,
    /// `0x6b, 0x37`.
    Hexadecimal,
    /// The digits of decimal numbers, for bytes such as `107, 55`.
    Decimal,
}

impl Undo {
    /// The views in which a secret may differ from its text, so that its own views are looked for too.
    pub(crate) const OF_SECRETS: [Self; 6] =
        [Self::Both, Self::Percent, Self::Json, Self::Markup, Self::Code, Self::Quoted];

    /// Returns the views that make a difference for this text. A view of numbers needs a row with this many digits.
    pub(crate) fn useful_for(text: &str, digits: usize) -> Vec<Self> {
        let mixes = text.contains('%') && text.contains('\\');
        let woven: &[Self] = if mixes { &[Self::Both, Self::Percent, Self::Json] } else { &[Self::Both] };
        woven.iter().copied().chain(escapes::useful_for(text, digits)).collect()
    }
}

/// The view of a text.
pub(crate) struct View {
    undo: Undo,
    bytes: Vec<u8>,
    /// For each byte, the characters of the text that it came from.
    spans: Vec<Span>,
    /// Whether the character to the right was a backslash, which absorbs those before it: a run of backslashes is
    /// one escape, however often the text was escaped again.
    in_backslashes: bool,
}

#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Offsets beyond 4 GiB saturate; no text in the filter is a thousandth of that.
    fn of(start: usize, end: usize) -> Self {
        Self { start: u32::try_from(start).unwrap_or(u32::MAX), end: u32::try_from(end).unwrap_or(u32::MAX) }
    }
}

impl View {
    /// The view of the text; `marks` are left out.
    pub(crate) fn of(text: &str, marks: &[Range<usize>], undo: Undo) -> Self {
        match undo {
            Undo::Both | Undo::Percent | Undo::Json => Self::woven(text, marks, undo).folded(),
            Undo::Markup | Undo::Code | Undo::Quoted => Self::of_escapes(text, marks, undo).folded(),
            Undo::Hexadecimal | Undo::Decimal => Self::of_numbers(text, marks, undo),
        }
    }

    /// Returns the bytes of the view without their places, for a text without marks. Returns `None` if the text needs
    /// the whole view.
    pub(crate) fn bytes_alone(text: &str, undo: Undo) -> Option<Vec<u8>> {
        if matches!(undo, Undo::Hexadecimal | Undo::Decimal) {
            return Some(escapes::digits(text, undo).map(|(_, c)| c).fold(Vec::new(), |mut bytes, c| {
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                bytes
            }));
        }
        if undo != Undo::Both || text.contains(['%', '\\']) {
            return None;
        }
        let mut bytes = Vec::with_capacity(text.len());
        for c in text.chars() {
            match u8::try_from(c) {
                Ok(byte) if byte.is_ascii() => bytes.extend((!is_separator(byte)).then_some(byte)),
                _ if is_invisible(c) => {}
                _ => folded(c).for_each(|c| bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes())),
            }
        }
        Some(bytes)
    }

    /// Puts letters beyond ASCII into one case. The search takes ASCII letters in either case.
    fn folded(self) -> Self {
        if self.bytes.is_ascii() {
            return self;
        }
        let mut folded = Self { bytes: Vec::with_capacity(self.bytes.len()), ..Self::empty(self.undo, 0) };
        let mut at = 0;
        for chunk in self.bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                let spans = self.spans.get(at..at + c.len_utf8()).unwrap_or_default();
                at += c.len_utf8();
                if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
                    folded.put_folded(c, Span { start: first.start, end: last.end });
                }
            }
            for byte in chunk.invalid() {
                folded.extend(*byte, self.spans.get(at).copied());
                at += 1;
            }
        }
        folded
    }

    /// Adds the letter as its capital is written small: so `ß` and `SS`, `ς` and `σ` are the same.
    fn put_folded(&mut self, c: char, span: Span) {
        if c.is_ascii() {
            return self.extend(u8::try_from(c).unwrap_or_default(), Some(span));
        }
        for small in folded(c) {
            small.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| self.extend(byte, Some(span)));
        }
    }

    fn extend(&mut self, byte: u8, span: Option<Span>) {
        if let Some(span) = span {
            self.put(byte, span);
        }
    }

    fn woven(text: &str, marks: &[Range<usize>], undo: Undo) -> Self {
        let (bytes, spans) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()));
        let mut view = Self { undo, bytes, spans, in_backslashes: false };
        let mut marks = marks;
        for (at, c) in text.char_indices().rev() {
            while let Some((last, before)) = marks.split_last() {
                if at >= last.start {
                    break;
                }
                marks = before;
            }
            if marks.last().is_some_and(|mark| mark.contains(&at)) {
                continue;
            }
            view.push(c, Span::of(at, at + c.len_utf8()));
        }
        view.bytes.reverse();
        view.spans.reverse();
        view
    }

    /// Returns the escapes that it undoes.
    pub(crate) fn undo(&self) -> Undo {
        self.undo
    }

    /// The bytes to search.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part of the text from which these bytes came. `before` and `after` add one neighbour each.
    pub(crate) fn source(&self, found: Range<usize>, before: bool, after: bool) -> Option<Range<usize>> {
        let first = if before { found.start.saturating_sub(1) } else { found.start };
        let last = found.end.checked_sub(1)?;
        let last = if after { (last + 1).min(self.spans.len().checked_sub(1)?) } else { last };
        let (start, end) = (self.spans.get(first)?.start, self.spans.get(last)?.end);
        Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    fn push(&mut self, c: char, span: Span) {
        match u8::try_from(c) {
            Ok(byte) if byte.is_ascii() => self.push_byte(byte, span),
            _ => {
                self.in_backslashes = false;
                self.push_char(c, span);
            }
        }
    }

    /// Pushes one byte, and reduces it with the bytes to its right as often as possible.
    fn push_byte(&mut self, byte: u8, span: Span) {
        let (mut byte, mut span) = (byte, span);
        let mut absorbed = std::mem::take(&mut self.in_backslashes);
        loop {
            match byte {
                b'%' if self.undo != Undo::Json => {
                    let Some((value, end)) = self.take_hex(0, 2) else { return self.put(byte, span) };
                    byte = u8::try_from(value).unwrap_or(u8::MAX);
                    span.end = end;
                }
                b'\\' => {
                    self.in_backslashes = true;
                    if absorbed || self.undo == Undo::Percent {
                        return;
                    }
                    let Some((code, end)) = self.take_unicode_escape() else {
                        return self.drop_control_letter(span.end);
                    };
                    span.end = end;
                    match u8::try_from(code) {
                        Ok(ascii) if ascii.is_ascii() => byte = ascii,
                        _ => return self.push_code_unit(code, span),
                    }
                    // A backslash that was itself escaped is a new one.
                    absorbed = false;
                }
                _ if is_separator(byte) => return,
                _ => return self.put(byte, span),
            }
        }
    }

    /// Pops hexadecimal digits and everything above them, if the digits are there.
    fn take_hex(&mut self, above: usize, digits: usize) -> Option<(u32, u32)> {
        let rest = self.bytes.len().checked_sub(above + digits)?;
        let mut value = 0;
        // The top of the stack is the leftmost character.
        for byte in self.bytes.get(rest..rest + digits)?.iter().rev() {
            value = value * 16 + char::from(*byte).to_digit(16)?;
        }
        let end = self.spans.get(rest)?.end;
        self.bytes.truncate(rest);
        self.spans.truncate(rest);
        Some((value, end))
    }

    /// Pops the `uXXXX` after a backslash.
    fn take_unicode_escape(&mut self) -> Option<(u32, u32)> {
        if matches!(self.bytes.last(), Some(b'u' | b'U')) { self.take_hex(1, 4) } else { None }
    }

    /// Pops the letter of `\n` and its like: the view leaves out the characters that they stand for.
    fn drop_control_letter(&mut self, backslash_end: u32) {
        let is_letter = matches!(self.bytes.last(), Some(b'n' | b'r' | b't' | b'b' | b'f'));
        // Only a true neighbour: in `\"n` the letter has nothing to do with the backslash.
        if is_letter && self.spans.last().is_some_and(|span| span.start == backslash_end) {
            self.bytes.pop();
            self.spans.pop();
        }
    }

    /// Pushes a UTF-16 code unit. The second half of a pair waits on the stack, in the three bytes that UTF-8
    /// would need for it if it could be written.
    fn push_code_unit(&mut self, unit: u32, span: Span) {
        if let Some(c) = char::from_u32(unit) {
            return self.push_char(c, span);
        }
        let paired = if (0xD800..0xDC00).contains(&unit) { self.take_low_surrogate() } else { None };
        let whole = paired.and_then(|(low, end)| {
            let c = char::from_u32(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))?;
            Some((c, Span { end, ..span }))
        });
        if let Some((c, span)) = whole {
            return self.push_char(c, span);
        }
        for bits in [0x80 | (unit & 0x3F), 0x80 | (unit >> 6 & 0x3F), 0xE0 | unit >> 12] {
            self.put(u8::try_from(bits).unwrap_or(u8::MAX), span);
        }
    }

    fn take_low_surrogate(&mut self) -> Option<(u32, u32)> {
        let rest = self.bytes.len().checked_sub(3)?;
        let &[low, middle, 0xED] = self.bytes.get(rest..)? else { return None };
        let unit = 0xD000 | u32::from(middle & 0x3F) << 6 | u32::from(low & 0x3F);
        let end = self.spans.get(rest)?.end;
        if !(0xDC00..0xE000).contains(&unit) {
            return None;
        }
        self.bytes.truncate(rest);
        self.spans.truncate(rest);
        Some((unit, end))
    }

    fn push_char(&mut self, c: char, span: Span) {
        if is_invisible(c) {
            return;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes().rev() {
            self.put(byte, span);
        }
    }

    fn put(&mut self, byte: u8, span: Span) {
        self.bytes.push(byte);
        self.spans.push(span);
    }
}

fn folded(c: char) -> impl Iterator<Item = char> {
    c.to_uppercase().flat_map(char::to_lowercase)
}

/// Checks whether a byte may stand between the parts of a split text. The caller has handled backslashes before.
fn is_separator(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'"' | b'\'' | b',' | 0x7F)
}

/// White space and characters that leave no trace on a screen: zero-width ones, marks of direction, variation
/// selectors, tags.
pub fn is_invisible(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> String {
        String::from_utf8(View::of(text, &[], Undo::Both).bytes).unwrap()
    }

    #[test]
    fn escapes_are_undone_to_any_depth() {
        for text in [
            "hunter2",
            "%68unter2",
            "%68%75%6e%74%65%72%32",
            "%2568unter2",
            "%25252525252568unter2",
            "%%36%38unter2",
            r"\u0068unter2",
            r"\\u0068unter2",
            r"\\\\u0068unter2",
            r"\u005cu0068unter2",
            r"%5Cu0068unter2",
            "h%75\u{200B}n\n ter\", \"2",
            r#"hun\",\n\"ter2"#,
        ] {
            assert_eq!(view(text), "hunter2", "{text}");
        }
        assert_eq!(view(r"\ud83d\ude00\u00e9"), "😀é");
        assert_eq!(view("%F0%9F%98%80é"), "😀é");
    }

    #[test]
    fn escaping_again_does_not_change_the_view() {
        for text in [r#"a"nb"#, r"a\\nb", r#"\"\\x"#, "a%41b", "tab\there", "a\\\nb", r"c:\dir\\file"] {
            let once = serde_json::to_string(text).unwrap();
            let twice = serde_json::to_string(&once).unwrap();
            let percent = text.bytes().map(|b| format!("%{b:02x}")).collect::<Vec<_>>().concat();
            assert_eq!(view(&once), view(text), "{once}");
            assert_eq!(view(&twice), view(text), "{twice}");
            assert_eq!(view(&percent), view(text), "{percent}");
        }
    }

    #[test]
    fn bytes_know_where_they_came_from() {
        let text = "é %41\\u0042 C";
        let view = View::of(text, &[], Undo::Both);
        assert_eq!(view.bytes(), "éABC".as_bytes());
        assert_eq!(view.source(2..4, false, false), Some(3..12));
        assert_eq!(view.source(2..4, true, true), Some(0..14));
        assert_eq!(view.source(0..0, false, false), None);
    }

    #[test]
    fn letters_of_any_alphabet_are_shown_in_one_case() {
        for (one, other) in [("ПАРОЛЬ-Ключ", "пароль-кЛЮЧ"), ("straße", "STRASSE"), ("ΟΔΟΣ", "οδος"), ("%D0%9F", "п")]
        {
            assert_eq!(view(one).to_lowercase(), view(other).to_lowercase(), "{one}");
        }
        let view = View::of("a%C3%9Fb", &[], Undo::Both);
        assert_eq!((view.bytes(), view.source(1..3, false, false)), (&b"assb"[..], Some(1..7)));
    }

    #[test]
    fn bytes_without_their_places_are_the_same() {
        for text in ["plain \"words\", 0x6b, 12", "Größe: ПАРОЛЬ\u{200b}ß 6b:37", ""] {
            for undo in [Undo::Both, Undo::Hexadecimal, Undo::Decimal] {
                assert_eq!(View::bytes_alone(text, undo), Some(View::of(text, &[], undo).bytes), "{text}");
            }
        }
        assert_eq!(View::bytes_alone("%41", Undo::Both).or(View::bytes_alone("a", Undo::Json)), None);
    }

    #[test]
    fn marks_are_left_out() {
        assert_eq!(View::of("ab<mark>cd<mark>", &[2..8, 10..16], Undo::Both).bytes(), b"abcd");
    }
}
