//! A JSON value as the row of its strings, so that a secret that is split over several of them is found as well.
//!
//! The pieces (keys, strings, numbers) are joined in several orders and searched as one text; the findings are carried
//! back to the pieces.

use secrets::search::Found;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Every text in a value, in the order of the document.
pub(super) struct Pieces<'a>(Vec<Piece<'a>>);

struct Piece<'a> {
    text: Cow<'a, str>,
    place: Place,
    /// The key under which it lies, passing over arrays.
    under: &'a str,
    /// Its position, if it is an item of an array.
    cell: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Key,
    Text,
    Number,
}

/// In which order pieces are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// All of them, as they are written.
    Document,
    /// Strings without keys and numbers.
    Texts,
    /// Strings and numbers of the same key together: the lines of a list of log entries.
    Columns,
    /// Strings and numbers of the same position in arrays together: the columns of a table.
    Cells,
    /// Keys alone.
    Keys,
    /// Numbers alone: the bytes of a buffer.
    Numbers,
}

impl<'a> Pieces<'a> {
    /// The pieces of a value.
    pub(super) fn of(value: &'a Value) -> Self {
        let mut pieces = Vec::new();
        collect(value, "", None, &mut pieces);
        Self(pieces)
    }

    /// Adds a text that is shown beside the value. Returns its position.
    pub(super) fn add(&mut self, text: &'a str) -> usize {
        self.0.push(Piece { text: Cow::Borrowed(text), place: Place::Text, under: "", cell: None });
        self.0.len() - 1
    }

    /// Returns whether there is more than one piece.
    pub(super) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns whether a piece has several lines.
    pub(super) fn have_lines(&self) -> bool {
        self.0.iter().any(|piece| piece.text.trim_end_matches('\n').contains('\n'))
    }

    /// Returns the positions of the pieces in each of these orders, without an order that repeats an earlier one.
    pub(super) fn orders(&self, orders: &[Order]) -> Vec<Vec<usize>> {
        let mut sequences: Vec<Vec<usize>> = Vec::new();
        for order in orders {
            let sequence = self.sequence(*order);
            // One piece alone is a piece of the document.
            if (*order == Order::Document || sequence.len() > 1) && !sequences.contains(&sequence) {
                sequences.push(sequence);
            }
        }
        sequences
    }

    fn sequence(&self, order: Order) -> Vec<usize> {
        let belongs = |piece: &Piece<'_>| match order {
            Order::Document => true,
            Order::Texts => piece.place == Place::Text,
            Order::Columns => piece.place != Place::Key,
            Order::Cells => piece.cell.is_some(),
            Order::Keys => piece.place == Place::Key,
            Order::Numbers => piece.place == Place::Number,
        };
        let mut chosen: Vec<(usize, &Piece<'_>)> = self.0.iter().enumerate().filter(|(_, p)| belongs(p)).collect();
        match order {
            Order::Columns => chosen.sort_by_key(|(_, piece)| piece.under),
            Order::Cells => chosen.sort_by_key(|(_, piece)| piece.cell),
            Order::Document | Order::Texts | Order::Keys | Order::Numbers => {}
        }
        chosen.into_iter().map(|(index, _)| index).collect()
    }

    /// Returns the pieces joined in this sequence.
    pub(super) fn joined(&self, sequence: &[usize], separator: &str) -> Joined {
        let mut joined = Joined { text: String::new(), starts: Vec::new() };
        for (index, piece) in sequence.iter().filter_map(|index| Some((*index, self.0.get(*index)?))) {
            joined.starts.push(Start { at: joined.text.len(), piece: index, offset: 0 });
            joined.text.push_str(&piece.text);
            joined.text.push_str(separator);
        }
        joined
    }

    /// Returns the lines of all pieces, joined in the order of the document.
    pub(super) fn lines(&self, separator: &str) -> Joined {
        let mut joined = Joined { text: String::new(), starts: Vec::new() };
        for (index, piece) in self.0.iter().enumerate() {
            let mut offset = 0;
            for line in piece.text.split_inclusive('\n') {
                joined.starts.push(Start { at: joined.text.len(), piece: index, offset });
                joined.text.push_str(line);
                joined.text.push_str(separator);
                offset += line.len();
            }
        }
        joined
    }

    /// The new text of every piece that has something taken out.
    pub(super) fn replaced(&self, mut edits: Vec<Edit>) -> BTreeMap<usize, String> {
        edits.sort_by(|a, b| (a.piece, a.range.start, b.range.end).cmp(&(b.piece, b.range.start, a.range.end)));
        let mut merged: Vec<Edit> = Vec::new();
        for edit in edits {
            match merged.last_mut() {
                Some(last) if last.piece == edit.piece && edit.range.start < last.range.end => {
                    last.range.end = last.range.end.max(edit.range.end);
                }
                _ => merged.push(edit),
            }
        }
        let mut texts: BTreeMap<usize, (String, usize)> = BTreeMap::new();
        for Edit { piece, range, mark } in merged {
            let Some(original) = self.0.get(piece) else { continue };
            let (text, done) = texts.entry(piece).or_default();
            // A number has no parts: it is replaced as a whole, by the first mark.
            let end = original.text.len();
            let range = if original.place == Place::Number { 0..end } else { range.start..range.end.min(end) };
            if let Some(kept) = original.text.get(*done..range.start) {
                text.push_str(kept);
                text.push_str(&mark);
                *done = range.end;
            }
        }
        let finish = |(piece, (mut text, done)): (usize, (String, usize))| {
            text.push_str(self.0.get(piece)?.text.get(done..)?);
            Some((piece, text))
        };
        texts.into_iter().filter_map(finish).collect()
    }
}

fn collect<'a>(value: &'a Value, under: &'a str, cell: Option<usize>, pieces: &mut Vec<Piece<'a>>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            pieces.push(Piece { text: Cow::Owned(number.to_string()), place: Place::Number, under, cell });
        }
        Value::String(text) => pieces.push(Piece { text: Cow::Borrowed(text), place: Place::Text, under, cell }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| collect(item, under, Some(index), pieces));
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                pieces.push(Piece { text: Cow::Borrowed(key), place: Place::Key, under, cell: None });
                collect(item, key, None, pieces);
            }
        }
    }
}

/// Puts the new texts into the value that the pieces were taken from.
pub(super) fn put_back(value: &mut Value, mut replaced: BTreeMap<usize, String>) {
    put(value, &mut 0, &mut replaced);
}

/// Visits in the same order as [`collect`] and counts along.
fn put(value: &mut Value, next: &mut usize, replaced: &mut BTreeMap<usize, String>) {
    let mut take = |next: &mut usize| {
        let text = replaced.remove(next);
        *next += 1;
        text
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(_) | Value::String(_) => {
            if let Some(text) = take(next) {
                *value = Value::String(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| put(item, next, replaced)),
        Value::Object(entries) => {
            let mut renamed = BTreeMap::new();
            for (index, (_, item)) in entries.iter_mut().enumerate() {
                renamed.extend(replaced.remove(next).map(|key| (index, key)));
                *next += 1;
                put(item, next, replaced);
            }
            if !renamed.is_empty() {
                rename(entries, renamed);
            }
        }
    }
}

/// Renames keys. Two keys that have become the same are told apart by their number.
fn rename(entries: &mut Map<String, Value>, mut renamed: BTreeMap<usize, String>) {
    for (index, (key, item)) in std::mem::take(entries).into_iter().enumerate() {
        let key = renamed.remove(&index).unwrap_or(key);
        let key = if entries.contains_key(&key) { format!("{key} {index}") } else { key };
        entries.insert(key, item);
    }
}

/// Pieces joined to one text.
pub(super) struct Joined {
    /// The text to search.
    pub(super) text: String,
    /// Where each piece begins, and which it is.
    starts: Vec<Start>,
}

/// The beginning of a piece, or of a line of one.
struct Start {
    /// The offset in the joined text.
    at: usize,
    piece: usize,
    /// The offset in the piece.
    offset: usize,
}

/// One replacement in one piece.
pub(super) struct Edit {
    piece: usize,
    range: Range<usize>,
    mark: String,
}

impl Joined {
    /// Returns whether there is more than one piece.
    pub(super) fn are_several(&self) -> bool {
        self.starts.len() > 1
    }

    /// Carries the findings in the text back, piece by piece.
    pub(super) fn edits(&self, found: Vec<Found>, edits: &mut Vec<Edit>) {
        for Found { range, mark } in found {
            let first = self.starts.partition_point(|start| start.at <= range.start).saturating_sub(1);
            let ends = self.starts.iter().skip(first + 1).map(|start| start.at).chain([self.text.len()]);
            for (Start { at, piece, offset }, end) in self.starts.iter().skip(first).zip(ends) {
                if *at >= range.end {
                    break;
                }
                let (from, to) = (range.start.max(*at), range.end.min(end));
                if from < to {
                    let range = from - at + offset..to - at + offset;
                    edits.push(Edit { piece: *piece, range, mark: mark.clone() });
                }
            }
        }
    }
}
