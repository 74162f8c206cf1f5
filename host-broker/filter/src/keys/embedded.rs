//! Credential keys in a text that is JSON. Only the values of credentials are replaced: numbers, the order and the
//! number of members, blanks and escapes stay as the sender wrote them.

use super::inside::{Inside, Judged};
use super::pairs::Part;
use super::{credential, holds_none, is_table, pairs};
use crate::document::{self, Content, Escapes, Node, Unread};
use secrets::names;
use secrets::search::mark::Stamp;
use std::ops::Range;

/// How deep JSON is looked for inside strings: upstream servers like to send their results as text.
const EMBEDDED_MAX: usize = 3;

/// The kind of a text whose members cannot all be looked at.
pub(super) const AMBIGUOUS: &str = "ambiguous json";

/// One replacement in a text.
struct Edit {
    range: Range<usize>,
    text: String,
}

/// Returns the text with its credentials replaced, if it is JSON and has any.
pub(super) fn redact(text: &str, stamp: &Stamp) -> Option<String> {
    let edits = edits(text, stamp, 0);
    if edits.is_empty() {
        return None;
    }
    let mut redacted = String::with_capacity(text.len());
    let mut done = 0;
    for edit in edits {
        redacted.push_str(text.get(done..edit.range.start)?);
        redacted.push_str(&edit.text);
        done = edit.range.end;
    }
    redacted.push_str(text.get(done..)?);
    Some(redacted)
}

/// Returns the replacements in a text, in order.
fn edits(text: &str, stamp: &Stamp, embedded: usize) -> Vec<Edit> {
    if embedded >= EMBEDDED_MAX || !text.trim_start().starts_with(['{', '[', '"']) {
        return Vec::new();
    }
    match document::read(text) {
        Ok(root) => {
            let mut search = Search { text, stamp, embedded: embedded + 1, edits: Vec::new() };
            search.look(&root);
            search.edits
        }
        Err(Unread::TooDeep) if mentions_credential(text) => {
            let whole = format!("\"{}\"", stamp.mark(AMBIGUOUS, text));
            vec![Edit { range: 0..text.len(), text: whole }]
        }
        Err(Unread::TooDeep | Unread::NotJson) => Vec::new(),
    }
}

struct Search<'a> {
    text: &'a str,
    stamp: &'a Stamp,
    embedded: usize,
    edits: Vec<Edit>,
}

impl Search<'_> {
    fn look(&mut self, node: &Node<'_>) {
        match &node.content {
            Content::Constant | Content::Number => {}
            Content::Text(text) => self.look_into(node, text),
            Content::Items(items) => {
                let mut found = pairs::in_items(items).into_iter().peekable();
                for (at, item) in items.iter().enumerate() {
                    let kind = found.next_if(|(found, _)| *found == at).map(|(_, kind)| kind);
                    match kind {
                        Some(kind) => self.replace(item, kind, Judged::ByName),
                        None => self.look(item),
                    }
                }
            }
            Content::Members(members) => {
                let found = pairs::in_object(members.iter().map(|(name, member)| (name.as_ref(), member)));
                let mut found = found.into_iter().peekable();
                let is_table = is_table(members.iter().map(|(name, _)| name.as_ref()));
                for (at, (name, member)) in members.iter().enumerate() {
                    let by_pair = found.next_if(|(found, _)| *found == at).map(|(_, kind)| (kind, Judged::ByName));
                    match credential(name, member, is_table).or(by_pair) {
                        Some((kind, judged)) => self.replace(member, kind, judged),
                        None => self.look(member),
                    }
                }
            }
        }
    }

    /// Looks for JSON in a string, and carries what is found to the places between its quotes.
    fn look_into(&mut self, node: &Node<'_>, text: &str) {
        let inner = edits(text, self.stamp, self.embedded);
        let written = self.text.get(node.place.clone()).unwrap_or_default();
        let mut escapes = Escapes::of(written);
        for Edit { range, text } in inner {
            let start = node.place.start + escapes.written(range.start);
            let end = node.place.start + escapes.written(range.end);
            self.edits.push(Edit { range: start..end, text: text.replace('\\', "\\\\").replace('"', "\\\"") });
        }
    }

    /// Replaces what is a credential in the value of such a member.
    fn replace(&mut self, node: &Node<'_>, kind: &str, judged: Judged) {
        let range = node.place.clone();
        match &node.content {
            _ if judged == Judged::Apart => self.look(node),
            Content::Constant => {}
            Content::Text(text) if holds_none(text, self.stamp) => {}
            Content::Text(text) if judged.spares(text) => self.look(node),
            Content::Text(text) => self.edits.push(Edit { range, text: self.stamp.mark(kind, text) }),
            Content::Number if judged == Judged::ByLook => {}
            Content::Number => {
                let text = self.stamp.mark(kind, self.text.get(range.clone()).unwrap_or_default());
                self.edits.push(Edit { range, text: format!("\"{text}\"") });
            }
            Content::Items(items) => items.iter().for_each(|item| self.replace(item, kind, judged)),
            Content::Members(members) => {
                let inside = Inside::of(&node.members().unwrap_or_default());
                for (name, member) in members {
                    self.replace(member, kind, inside.judged(name, member, judged));
                }
            }
        }
    }
}

impl Part for Node<'_> {
    fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Constant | Content::Number | Content::Items(_) | Content::Members(_) => None,
        }
    }

    fn items(&self) -> &[Self] {
        match &self.content {
            Content::Items(items) => items,
            Content::Constant | Content::Number | Content::Text(_) | Content::Members(_) => &[],
        }
    }

    fn members(&self) -> Option<Vec<(&str, &Self)>> {
        match &self.content {
            Content::Members(members) => Some(members.iter().map(|(name, member)| (name.as_ref(), member)).collect()),
            Content::Constant | Content::Number | Content::Text(_) | Content::Items(_) => None,
        }
    }
}

fn mentions_credential(text: &str) -> bool {
    let letters: String =
        text.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
    // A name may be written in escapes.
    letters.contains("\\u") || names::kinds().any(|name| letters.contains(name))
}

#[cfg(test)]
mod tests;
