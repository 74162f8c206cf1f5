//! logfmt: `key=value` pairs, values in double quotes where they hold spaces.

use super::{LEVEL_KEYS, MESSAGE_KEYS, TIME_KEYS, time_of_text};
use crate::entry::Parsed;
use crate::severity::Severity;
use crate::time::Frame;
use std::collections::BTreeMap;

/// The time of a line.
pub(super) fn time(line: &[u8], frame: Frame) -> Option<i64> {
    // Most lines that are not logfmt are told by their first word.
    let first: Vec<u8> = line.iter().copied().take(64).take_while(|b| *b != b' ').collect();
    if !first.contains(&b'=') {
        return None;
    }
    let line = String::from_utf8_lossy(line);
    let mut best: Option<(usize, String)> = None;
    for (key, value) in Pairs(&line) {
        if let Some(rank) = TIME_KEYS.iter().position(|known| *known == key)
            && best.as_ref().is_none_or(|(known, _)| rank < *known)
        {
            best = Some((rank, value));
        }
    }
    best.and_then(|(_, value)| time_of_text(&value, frame))
}

/// Parses a line.
pub(super) fn parse(line: &str) -> Option<Parsed> {
    let mut fields: BTreeMap<String, String> = Pairs(line).map(|(key, value)| (key.to_owned(), value)).collect();
    let key = TIME_KEYS.iter().find(|key| fields.contains_key(**key))?;
    fields.remove(*key);
    Some(content(fields))
}

/// Parses a line whose time is known otherwise. It has pairs only, and a message or a level among them.
pub(super) fn parse_undated(line: &str) -> Option<Parsed> {
    let mut pairs = Pairs(line);
    let mut fields = BTreeMap::new();
    loop {
        let rest = pairs.0.trim_start();
        let Some((key, value)) = pairs.next() else { break };
        // A word without a value stands before the pair.
        if !rest.starts_with(&format!("{key}=")) {
            return None;
        }
        fields.insert(key.to_owned(), value);
    }
    if !pairs.0.trim().is_empty() {
        return None;
    }
    MESSAGE_KEYS.iter().chain(&LEVEL_KEYS).find(|key| fields.contains_key(**key))?;
    for key in TIME_KEYS {
        fields.remove(key);
    }
    Some(content(fields))
}

fn content(mut fields: BTreeMap<String, String>) -> Parsed {
    let level = LEVEL_KEYS.iter().find_map(|key| {
        let level = Severity::of_word(fields.get(*key)?)?;
        fields.remove(*key);
        Some(level)
    });
    let message = MESSAGE_KEYS.iter().find_map(|key| fields.remove(*key)).unwrap_or_default();
    Parsed { level, program: None, message, fields }
}

struct Pairs<'a>(&'a str);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, String);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let text = self.0.trim_start();
            let (key, rest) = text.split_once(['=', ' '])?;
            if !text.strip_prefix(key)?.starts_with('=') {
                // A word without a value.
                self.0 = rest;
                continue;
            }
            let value;
            (value, self.0) = if let Some(quoted) = rest.strip_prefix('"') {
                unquote(quoted)
            } else {
                let (plain, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (plain.to_owned(), rest)
            };
            if !key.is_empty() {
                return Some((key, value));
            }
        }
    }
}

/// Returns the text up to the closing quote, without its escapes, and the text after it.
pub(super) fn unquote(quoted: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    (text, chars.as_str())
}
