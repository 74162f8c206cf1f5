//! Values in the members of a dictionary and in lists, as programs write and print them: `cookies={'sid': '…'}`,
//! `"tokens": ["…", "…"]`, and headers in YAML, each on a line of its own.

use super::{VALUE_BYTES_MAX, is_name_byte, quoted};
use std::ops::Range;

/// Returns whether the text begins with members.
pub(super) fn begin(text: &str) -> bool {
    text.trim_start_matches([' ', '\t']).starts_with('{')
}

/// Returns whether the text begins with a list.
pub(super) fn list_begins(text: &str) -> bool {
    text.trim_start_matches([' ', '\t']).starts_with('[')
}

/// Returns the places of the strings of the list that begins here, and where they end.
pub(super) fn items(text: &str, from: usize) -> (Vec<Range<usize>>, usize) {
    let mut cursor = Cursor { text, at: from };
    cursor.skip(|byte| matches!(byte, b' ' | b'\t'));
    cursor.skip(|byte| *byte == b'[');
    let mut items = Vec::new();
    while cursor.at < from + VALUE_BYTES_MAX {
        cursor.skip(|byte| byte.is_ascii_whitespace() || *byte == b',');
        let Some(item) = cursor.string() else { break };
        items.push(item);
    }
    (items, cursor.at)
}

/// Returns the places of the items on the lines from here on: `Authorization:`, and below it `- Bearer …`.
pub(super) fn lines(text: &str, from: usize) -> Vec<Range<usize>> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let mut cursor = Cursor { text, at: from };
    let mut items = Vec::new();
    loop {
        cursor.skip(is_blank);
        let is_item = cursor.skip(|byte| *byte == b'\n') == 1
            && cursor.skip(is_blank) > 0
            && cursor.skip(|byte| *byte == b'-') == 1
            && cursor.skip(is_blank) > 0;
        if !is_item || cursor.at > from + VALUE_BYTES_MAX {
            return items;
        }
        cursor.skip(|byte| matches!(byte, b'"' | b'\''));
        let start = cursor.at;
        cursor.skip(|byte| *byte != b'\n');
        let length = text.get(start..cursor.at).map_or(0, |item| item.trim_end_matches(['"', '\'', '\r', ' ']).len());
        items.push(start..start + length);
    }
}

/// Returns the places of the quoted values of the members that begin here, and where they end.
pub(super) fn values(text: &str, from: usize) -> (Vec<Range<usize>>, usize) {
    let mut cursor = Cursor { text, at: from };
    cursor.skip(|byte| matches!(byte, b' ' | b'\t'));
    cursor.skip(|byte| *byte == b'{');
    let mut values = Vec::new();
    while cursor.at < from + VALUE_BYTES_MAX {
        cursor.skip(|byte| byte.is_ascii_whitespace() || *byte == b',');
        if cursor.string().is_none() && cursor.skip(|byte| is_name_byte(*byte)) == 0 {
            break;
        }
        cursor.skip(|byte| matches!(byte, b' ' | b'\t'));
        if cursor.skip(|byte| *byte == b':') != 1 {
            break;
        }
        cursor.skip(|byte| matches!(byte, b' ' | b'\t'));
        match cursor.string() {
            Some(value) => values.push(value),
            None => {
                cursor.skip(|byte| !matches!(byte, b',' | b'}' | b'\n'));
            }
        }
    }
    (values, cursor.at)
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Passes over these bytes. Returns how many they are.
    fn skip(&mut self, is: impl Fn(&u8) -> bool) -> usize {
        let count = self.rest().iter().take(VALUE_BYTES_MAX).take_while(|byte| is(byte)).count();
        self.at += count;
        count
    }

    /// Passes over a string, which is escaped in a text within a text. Returns the place of its content.
    fn string(&mut self) -> Option<Range<usize>> {
        let prefix = usize::from(matches!(self.rest(), [b'b' | b'u' | b'r', b'"' | b'\'', ..]));
        let escapes = self.rest().iter().skip(prefix).take(8).take_while(|byte| **byte == b'\\').count();
        let quote = self.rest().get(prefix + escapes).copied().filter(|byte| matches!(byte, b'"' | b'\''))?;
        let start = self.at + prefix + escapes + 1;
        let end = start + quoted(self.text.get(start..)?, quote, escapes > 0)?;
        self.at = end;
        self.skip(|byte| *byte == b'\\');
        self.at += 1;
        Some(start..end)
    }
}
