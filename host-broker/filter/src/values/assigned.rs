//! Credentials of other people, known by the name beside them: `DB_PASSWORD=…`, `"apiKey": "…"`, `Cookie: …`,
//! `<password>…</password>`, `define('AUTH_KEY', '…')`.
//!
//! One pass over the separators between a name and a value. The name is read to its left, the value to its right, both
//! within bounds. The list of names is that of JSON's members (`names`); the requirements for a value are in
//! `plausible`.

mod headers;
mod members;
mod words;

use super::overlaps;
use super::plausible::{self, Certainty, Spacing, Written};
use secrets::names;
use secrets::names::{NAME_BYTES_MAX, Name, Sort};
use secrets::search::Found;
use secrets::search::mark::Stamp;
use std::ops::Range;

/// The most blanks between a name, its separator and the value.
const BLANKS_MAX: usize = 16;

/// The most bytes of an opening tag.
const TAG_BYTES_MAX: usize = 160;

/// The most bytes of a value.
const VALUE_BYTES_MAX: usize = 16 << 10;

/// Finds every value that is a credential by the name beside it.
pub(super) fn find(text: &str, stamp: &Stamp, marks: &[Range<usize>], found: &mut Vec<Found>) {
    let mut search = Search { text, stamp, marks, found };
    let mut from = 0;
    for (at, separator) in text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'=' | b':' | b'>' | b',' | b'('))
    {
        if at >= from
            && let Some(end) = search.look(at, separator)
        {
            from = end;
        }
    }
}

struct Search<'a> {
    text: &'a str,
    stamp: &'a Stamp,
    marks: &'a [Range<usize>],
    found: &'a mut Vec<Found>,
}

impl Search<'_> {
    /// Looks at a separator. Returns where the value after it ends, if the name before it is one of the list.
    fn look(&mut self, at: usize, separator: u8) -> Option<usize> {
        let text = self.text;
        let (name, after, is_tight) = match named(text, at, separator) {
            Some(named) => named,
            None => (several(text, at, separator)?, at + 1, true),
        };
        let rest = text.get(after..)?;
        if name.sort == Sort::Header && members::begin(rest) {
            return Some(self.add_parts(name, members::values(text, after)));
        }
        if members::list_begins(rest) {
            return Some(self.add_parts(name, members::items(text, after)));
        }
        if name.sort == Sort::Header && separator == b':' {
            self.add_parts(name, (members::lines(text, after), after));
        }
        let value = value(text, after, name, separator)?;
        // `"token": "{\"id\": 1, \"signature\": \"…\"}"`.
        if value.is_quoted && text.get(value.range.clone())?.starts_with("{\\") {
            return Some(self.add_parts(name, members::values(text, value.range.start)));
        }
        let end = value.range.end;
        let spacing = match text.as_bytes().get(after) {
            _ if !is_tight => Spacing::Wide,
            Some(b' ' | b'\t') => Spacing::AfterColon,
            _ => Spacing::Tight,
        };
        let certainty = match spacing {
            Spacing::Wide => Certainty::Likely,
            _ if headers::is_in_address(text, at) => Certainty::InAddress,
            _ if name.is_sure() || headers::is_parameter(text, at, separator) => Certainty::Sure,
            Spacing::Tight | Spacing::AfterColon => Certainty::Likely,
        };
        let written = Written {
            is_quoted: value.is_quoted,
            spacing,
            is_setting: is_tight && matches!(separator, b'=' | b':') && is_variable(text, at),
            certainty,
            next: text.as_bytes().get(end).copied(),
        };
        let secret = text.get(value.range.clone())?;
        let is_opaque = || separator == b':' && headers::begins_line(text, at) && headers::is_opaque(name.kind, secret);
        let place = words::Place { text, at, separator, name, written };
        if plausible::in_text(secret, name.sort, written) || is_opaque() || place.has_password(&value.range) {
            self.add(name, value.range);
        }
        Some(end)
    }

    /// Adds those strings of several that are credentials. Returns where they end.
    fn add_parts(&mut self, name: Name, (parts, end): (Vec<Range<usize>>, usize)) -> usize {
        for range in parts {
            let part = self.text.get(range.clone()).unwrap_or_default();
            if plausible::in_json(part, name.sort) || headers::is_opaque(name.kind, part) {
                self.add(name, range);
            }
        }
        end
    }

    fn add(&mut self, name: Name, range: Range<usize>) {
        if !overlaps(self.marks, &range) {
            let secret = self.text.get(range.clone()).unwrap_or_default();
            self.found.push(Found { range, mark: self.stamp.mark(name.kind, secret) });
        }
    }
}

/// Returns the name of the list whose values stand in the list after this separator: `"tokens": ["…"]`.
fn several(text: &str, at: usize, separator: u8) -> Option<Name> {
    if !matches!(separator, b':' | b'=') || !members::list_begins(text.get(at + 1..)?) {
        return None;
    }
    let (name, _) = name_before(text, at)?;
    names::plural(text.get(name)?)
}

/// Returns whether the name before the separator is one of the environment's, in capitals and of several words.
fn is_variable(text: &str, at: usize) -> bool {
    let name = name_before(text, at).and_then(|(name, _)| text.get(name)).unwrap_or_default();
    name.contains('_') && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns the name before the separator at this place, where the separator ends, and whether no blanks surround it.
fn named(text: &str, at: usize, separator: u8) -> Option<(Name, usize, bool)> {
    let bytes = text.as_bytes();
    let next = |offset: usize| bytes.get(at + offset).copied();
    let before = at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
    let after = match (separator, next(1)) {
        // Comparisons and paths.
        (b'=', Some(b'=' | b'~')) | (b':', Some(b':')) => return None,
        (b'=', _) if matches!(before, Some(b'=' | b'!' | b'<' | b'>' | b'~')) => return None,
        (b'=', Some(b'>')) | (b':', Some(b'=')) => at + 2,
        _ => at + 1,
    };
    if separator == b'>' {
        return Some((names::ending(tag(text, at)?)?, after, true));
    }
    // A colon separates a header's name from its value; with another separator, such a name is a variable's.
    let is_literal = |text: &str| begins_quoted(text) || members::begin(text);
    let takes =
        |name: Name| name.sort != Sort::Header || separator == b':' || text.get(after..).is_some_and(is_literal);
    let (name, is_quoted) = name_before(text, at)?;
    match separator {
        // The second argument of a call whose first is the name.
        b',' => {
            let quote = name.start.checked_sub(1)?;
            let before = |at: usize| at.checked_sub(1).and_then(|at| bytes.get(at));
            // `(b'cookie', b'…')`.
            let quote = quote - usize::from(matches!(before(quote), Some(b'b' | b'u')));
            let open = (quote - blanks_before(bytes, quote)).checked_sub(1)?;
            if !is_quoted || bytes.get(open) != Some(&b'(') {
                return None;
            }
        }
        // `setPassword("…")`, not `pass("…")`.
        b'(' if is_quoted || name.len() <= 4 || bytes.get(name.clone())?.ends_with(b".pass") => return None,
        _ => {}
    }
    let is_blank = |byte: Option<u8>| matches!(byte, Some(b' ' | b'\t'));
    // `password: …` is how settings are written, `password = …` how programs are.
    let is_tight = !is_blank(before) && (separator == b':' || !is_blank(bytes.get(after).copied()));
    if let Some(listed) = names::ending(text.get(name.clone())?) {
        return takes(listed).then_some((listed, after, is_tight));
    }
    if let Some(listed) = names::variable(text.get(name.clone())?).or_else(|| two_words(text, name.clone())) {
        return matches!(separator, b'=' | b':').then_some((listed, after, is_tight));
    }
    if let Some(listed) = name_beside(text, name.clone()) {
        return takes(listed).then_some((listed, after, is_tight));
    }
    // `password: str = "…"`: the word before the separator is the name's type.
    let of_type = name.start - bytes.get(..name.start)?.iter().rev().take_while(|byte| **byte == b'&').count();
    let colon = of_type - blanks_before(bytes, of_type);
    let colon = colon.checked_sub(1).filter(|colon| separator == b'=' && bytes.get(*colon) == Some(&b':'))?;
    let (name, _) = name_before(text, colon)?;
    names::ending(text.get(name)?).filter(|listed| takes(*listed)).map(|listed| (listed, after, false))
}

/// Returns the name that a word and the one before it spell: `Consumer Key: …`.
fn two_words(text: &str, last: Range<usize>) -> Option<Name> {
    if !["key", "token"].iter().any(|word| text.get(last.clone()).is_some_and(|text| text.eq_ignore_ascii_case(word))) {
        return None;
    }
    let before = last.start.checked_sub(1).filter(|blank| text.as_bytes().get(*blank) == Some(&b' '))?;
    let (first, is_quoted) = name_before(text, before)?;
    // Only the blank is between them.
    if is_quoted || first.end != before {
        return None;
    }
    names::ending(text.get(first.start..last.end)?)
}

/// Returns the name in the member before a member `value`: `{'name': 'DB_PASSWORD', 'value': …}`, also in YAML.
fn name_beside(text: &str, value: Range<usize>) -> Option<Name> {
    let before = |at: usize, is: fn(&u8) -> bool| {
        let bytes = text.as_bytes().get(..at).unwrap_or_default();
        at - bytes.iter().rev().take(NAME_BYTES_MAX).take_while(|byte| is(byte)).count()
    };
    let is_gap = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\' | b',');
    let is_name = |byte: &u8| is_name_byte(*byte);
    if !text.get(value.clone())?.eq_ignore_ascii_case("value") {
        return None;
    }
    let end = before(value.start, is_gap);
    let start = before(end, is_name);
    let separator = before(start, is_gap).checked_sub(1)?;
    if end == value.start || !matches!(text.as_bytes().get(separator), Some(b':' | b'=')) {
        return None;
    }
    let (member, _) = name_before(text, separator)?;
    let is_named =
        ["name", "key"].iter().any(|name| text.get(member.clone()).is_some_and(|text| text.eq_ignore_ascii_case(name)));
    if is_named { names::ending(text.get(start..end)?) } else { None }
}

fn begins_quoted(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '\t']);
    let text = text.strip_prefix(['b', 'u']).unwrap_or(text);
    text.trim_start_matches('\\').starts_with(['"', '\'', '`'])
}

/// Returns the name of the tag that ends here.
fn tag(text: &str, end: usize) -> Option<&str> {
    let from = text.floor_char_boundary(end.saturating_sub(TAG_BYTES_MAX));
    let tag = text.get(from..end)?;
    let tag = tag.get(tag.rfind('<')? + 1..)?;
    tag.split([' ', '\t', '\n']).next().filter(|name| name.bytes().all(is_name_byte))
}

/// Returns the place of the name before this place, and whether the name is quoted.
fn name_before(text: &str, at: usize) -> Option<(Range<usize>, bool)> {
    let bytes = text.as_bytes();
    let mut end = at - blanks_before(bytes, at);
    let is_closing = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`' | b']' | b'\\' | b'?');
    let closing = bytes.get(..end)?.iter().rev().take(8).take_while(|byte| is_closing(byte)).count();
    end -= closing;
    let length = bytes.get(..end)?.iter().rev().take(NAME_BYTES_MAX).take_while(|byte| is_name_byte(**byte)).count();
    (length > 0).then_some((end - length..end, closing > 0))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$')
}

fn blanks_before(bytes: &[u8], at: usize) -> usize {
    let before = bytes.get(..at).unwrap_or_default();
    before.iter().rev().take(BLANKS_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

struct Value {
    range: Range<usize>,
    is_quoted: bool,
}

/// Returns the value from this place on.
fn value(text: &str, from: usize, name: Name, separator: u8) -> Option<Value> {
    let rest = text.get(from..)?;
    let blanks = rest.bytes().take(BLANKS_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = rest.get(blanks..)?;
    let rest_at = from + blanks;
    // `b"…"`, `f"…"`, `@"…"`, `\"…\"`.
    let prefix =
        rest.bytes().take(2).take_while(|byte| matches!(byte, b'b' | b'r' | b'f' | b'u' | b'L' | b'@' | b'&')).count();
    let opening = rest.get(prefix..)?;
    let escapes = opening.bytes().take(8).take_while(|byte| *byte == b'\\').count();
    let quote = opening.as_bytes().get(escapes).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    if let Some(quote) = quote {
        // Text for a reader has two backticks where a value may hold one.
        let ticks = opening.bytes().skip(escapes).take(2).take_while(|byte| *byte == b'`').count();
        let start = prefix + escapes + ticks.max(1);
        let length = quoted(rest.get(start..)?, quote, escapes > 0)?;
        // `storePassword("user", "…")`: the first of several arguments is something else.
        let after = rest.get(start + length..)?.trim_start_matches(['\\', '"', '\'', '`', ' ']);
        if separator == b'(' && after.starts_with(',') {
            return None;
        }
        return Some(Value { range: rest_at + start..rest_at + start + length, is_quoted: true });
    }
    if let Some(range) = within_calls(rest, name).map(|range| rest_at + range.start..rest_at + range.end) {
        return Some(Value { range, is_quoted: true });
    }
    // Only a literal can be an argument.
    if matches!(separator, b',' | b'(') {
        return None;
    }
    let ends = |byte: &u8| match name.sort {
        Sort::Header => matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'<' | b'\\'),
        Sort::Password | Sort::Key => {
            byte.is_ascii_whitespace()
                || matches!(
                    byte,
                    b'"' | b'\'' | b'`' | b'<' | b'>' | b',' | b';' | b')' | b'}' | b']' | b'&' | b'|' | b'\\'
                )
        }
    };
    let length = rest.bytes().take(VALUE_BYTES_MAX).take_while(|byte| !ends(byte)).count();
    let length = rest.get(..length).map_or(0, |value| value.trim_end().len());
    let is_tagged = separator == b'>';
    if length == 0 || is_tagged && !rest.get(length..)?.starts_with("</") {
        return None;
    }
    Some(Value { range: rest_at..rest_at + length, is_quoted: is_tagged })
}

/// `createSecretKey(Buffer.from('…', 'hex'))`: the place of a key in calls that decode it.
fn within_calls(text: &str, name: Name) -> Option<Range<usize>> {
    const CALLS_BYTES_MAX: usize = 64;
    let is_of_calls = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'(' | b':');
    let calls = text.bytes().take(CALLS_BYTES_MAX).take_while(is_of_calls).count();
    let quote = text.as_bytes().get(calls).copied().filter(|byte| matches!(byte, b'"' | b'\''))?;
    if name.sort != Sort::Key || !text.get(..calls)?.ends_with('(') {
        return None;
    }
    let length = quoted(text.get(calls + 1..)?, quote, false)?;
    let range = calls + 1..calls + 1 + length;
    plausible::in_calls(text.get(range.clone())?).then_some(range)
}

/// Returns the length of a quoted value. In a text within a text, the quotes are escaped, and the value ends at such a
/// quote.
fn quoted(text: &str, quote: u8, is_escaped: bool) -> Option<usize> {
    let mut after_backslash = false;
    for (at, byte) in text.bytes().enumerate().take(VALUE_BYTES_MAX) {
        match byte {
            b'\n' | b'\r' => return None,
            _ if byte == quote && is_escaped => return Some(text.get(..at)?.trim_end_matches('\\').len()),
            _ if byte == quote && !after_backslash => return Some(at),
            _ => {}
        }
        after_backslash = byte == b'\\' && !after_backslash;
    }
    None
}

#[cfg(test)]
mod tests;
