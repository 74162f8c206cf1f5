//! Characters that are not seen: tags, selectors in rows, marks of direction, characters without width.
//!
//! Each of them has honest uses, which pass: flags of regions, one selector after a character, marks of direction on
//! lines with right-to-left script, joiners in scripts and emoji that need them, a byte order mark, soft hyphens.

use super::signs::{Signs, Strength};
use super::verdict::Reason;

/// How many characters of hidden text are no accident.
const MESSAGE_CHARS_MIN: usize = 8;

/// How many characters without width may stand in a row: padded mails have many, but not in one row.
const ROW_MAX: usize = 7;

/// How many words of a text may have a character without width inside.
const INSIDE_WORDS_MAX: usize = 3;

/// The longest row of tags that names a flag, without its end.
const FLAG_TAGS_MAX: usize = 6;

const FLAG: char = '\u{1F3F4}';
const END_OF_TAGS: char = '\u{E007F}';

/// The hidden characters of a text so far.
#[derive(Default)]
struct Hidden {
    /// The message of the tags and selectors.
    message: String,
    bytes: Vec<u8>,
    selectors_in_row: usize,
    row: usize,
    inside_words: usize,
    first: Option<usize>,
}

/// Notes hidden characters and returns their message, so that it is inspected as well.
pub(super) fn note(text: &str, signs: &mut Signs) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let mut hidden = Hidden::default();
    let mut before = '\n';
    let mut rest = text.char_indices();
    while let Some((at, c)) = rest.next() {
        if c == FLAG {
            let tags = flag_tags(rest.as_str());
            if tags > 0 {
                rest.by_ref().take(tags).for_each(drop);
                continue;
            }
        }
        hidden.take(at, before, c, rest.as_str().chars().next(), signs);
        before = c;
    }
    for (at, line) in lines(text) {
        note_direction(line, at, signs);
    }
    hidden.finish(signs)
}

/// How many tags follow that make a flag; 0 if they do not.
fn flag_tags(rest: &str) -> usize {
    let is_flag_tag = |c: &char| matches!(c, '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}');
    let tags = rest.chars().take(FLAG_TAGS_MAX).take_while(is_flag_tag).count();
    let is_ended = tags > 0 && rest.chars().nth(tags) == Some(END_OF_TAGS);
    if is_ended { tags + 1 } else { 0 }
}

impl Hidden {
    fn take(&mut self, at: usize, before: char, c: char, after: Option<char>, signs: &mut Signs) {
        if let Some(byte) = selected_byte(c) {
            self.selectors_in_row += 1;
            self.bytes.push(byte);
            return;
        }
        self.end_selectors(at);
        if let Some(tag) = tagged(c) {
            self.first.get_or_insert(at);
            self.message.push(tag);
        } else if c == '\u{E0001}' || c == END_OF_TAGS {
            self.first.get_or_insert(at);
        }
        if is_without_width(c) && !(at == 0 && c == '\u{FEFF}') {
            self.row += 1;
            let is_latin = |c: char| c.is_ascii_alphabetic();
            self.inside_words += usize::from(c != '\u{AD}' && is_latin(before) && after.is_some_and(is_latin));
            if self.row == ROW_MAX + 1 || self.inside_words == INSIDE_WORDS_MAX + 1 {
                signs.note_strong(Reason::ZeroWidth, at);
            }
        } else {
            self.row = 0;
        }
    }

    /// One selector says how the character before it is drawn; several in a row carry bytes.
    fn end_selectors(&mut self, at: usize) {
        if self.selectors_in_row < 3 {
            let kept = self.bytes.len().saturating_sub(self.selectors_in_row);
            self.bytes.truncate(kept);
        } else {
            self.first.get_or_insert(at);
        }
        self.selectors_in_row = 0;
    }

    fn finish(mut self, signs: &mut Signs) -> Option<String> {
        self.end_selectors(0);
        let first = self.first?;
        self.message.extend(self.bytes.iter().copied().filter(u8::is_ascii).map(char::from));
        let readable = self.message.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').count();
        let strength = if readable >= MESSAGE_CHARS_MIN { Strength::Certain } else { Strength::Strong };
        signs.note(Reason::HiddenText, strength, usize::MAX, first);
        Some(self.message)
    }
}

/// The character that a tag stands for.
fn tagged(c: char) -> Option<char> {
    matches!(c, '\u{E0020}'..='\u{E007E}').then(|| char::from_u32(u32::from(c) - 0xE0000)).flatten()
}

/// The byte that a variation selector stands for where they carry bytes.
fn selected_byte(c: char) -> Option<u8> {
    match c {
        '\u{FE00}'..='\u{FE0F}' => u8::try_from(u32::from(c) - 0xFE00).ok(),
        '\u{E0100}'..='\u{E01EF}' => u8::try_from(u32::from(c) - 0xE0100 + 16).ok(),
        _ => None,
    }
}

fn is_without_width(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{34F}' | '\u{180E}' | '\u{200B}'..='\u{200D}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}'
        | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{3164}' | '\u{FFA0}')
}

/// Lines and where they begin.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive(['\n', '\u{2029}']).map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

/// A mark that turns Latin text round, or one that is opened and not closed, where no letter is written from the right.
fn note_direction(line: &str, at: usize, signs: &mut Signs) {
    let mut depth = 0_i32;
    let (mut turns, mut from_right) = (false, false);
    for c in line.chars() {
        match c {
            '\u{202D}' | '\u{202E}' => {
                turns = true;
                depth += 1;
            }
            '\u{202A}' | '\u{202B}' | '\u{2066}'..='\u{2068}' => depth += 1,
            '\u{202C}' | '\u{2069}' => depth -= 1,
            '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFE}' | '\u{10800}'..='\u{10FFF}' => {
                from_right = true;
            }
            _ => {}
        }
    }
    if (turns || depth > 0) && !from_right {
        signs.note_strong(Reason::DirectionMarks, at);
    }
}

#[cfg(test)]
mod tests;
