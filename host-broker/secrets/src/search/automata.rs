//! The automata for some secrets: every form in the views of a text, and halves of forms at its seams.

use super::Found;
use super::scattered::{Groups, Run, work};
use crate::search::forms::{self, Needle};
use crate::search::mark::Stamp;
use crate::search::view::{SEAM, Undo, View};
use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

/// A part of a secret with fewer bytes says nothing without the rest, and begins or ends many ordinary texts.
const PART_BYTES_MIN: usize = 4;

/// A search for some secrets.
pub(crate) struct Search {
    /// The mark of each secret. All its forms get the same one.
    marks: Vec<String>,
    plain: AhoCorasick,
    texts: Patterns,
    hexadecimal: Patterns,
    decimal: Patterns,
}

/// The patterns for views of one kind.
pub(crate) struct Patterns {
    whole: AhoCorasick,
    all: Vec<Pattern>,
    /// Both halves of each pattern of `splittable`, one after the other.
    halves: AhoCorasick,
    /// The patterns that may be split over two pieces.
    splittable: Vec<usize>,
    /// The longest pattern, in bytes.
    longest: usize,
    /// For parts that are scattered; built when it is needed.
    groups: OnceLock<Groups>,
}

struct Pattern {
    secret: usize,
    needle: Needle,
}

/// One part of a pattern, at the edge of a piece.
struct Part {
    pattern: usize,
    /// Where the pattern is split.
    at: usize,
    edge: Edge,
    range: Range<usize>,
    piece: Range<usize>,
}

/// Where a pattern is split, and at which edge of a piece its longer part stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Split {
    pattern: usize,
    at: usize,
    long: Edge,
}

/// An edge of a piece. A first part stands at the end of a piece, the other at the beginning of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Beginning,
    End,
}

impl Search {
    pub(crate) fn new<'a>(
        secrets: impl Iterator<Item = (&'a str, &'a str)>,
        stamp: &Stamp,
        kind: Option<AhoCorasickKind>,
    ) -> Result<Self, BuildError> {
        let (mut marks, mut plain) = (Vec::new(), Vec::new());
        let (mut texts, mut hexadecimal, mut decimal) = (Vec::new(), Vec::new(), Vec::new());
        for (secret, (name, value)) in secrets.enumerate() {
            marks.push(stamp.mark(name, value));
            plain.push(value);
            let of_secret = |needle| Pattern { secret, needle };
            texts.extend(forms::needles(value).into_iter().map(of_secret));
            let (base_16, base_10) = forms::numbers(value);
            hexadecimal.extend(base_16.into_iter().map(of_secret));
            decimal.extend(base_10.into_iter().map(of_secret));
        }
        Ok(Self {
            marks,
            plain: automaton(plain, kind)?,
            texts: Patterns::new(texts, kind)?,
            hexadecimal: Patterns::new(hexadecimal, kind)?,
            decimal: Patterns::new(decimal, kind)?,
        })
    }

    /// Returns how many secrets it looks for.
    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }

    /// Returns whether it looks for none.
    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Returns whether a form is in the bytes of a view.
    pub(crate) fn may_find(&self, undo: Undo, bytes: &[u8]) -> bool {
        self.patterns(undo).whole.is_match(bytes)
    }

    /// Returns whether half of a form is in the bytes of a view.
    pub(crate) fn may_find_apart(&self, undo: Undo, bytes: &[u8]) -> bool {
        self.patterns(undo).halves.is_match(bytes)
    }

    /// Finds every form in the view.
    pub(crate) fn find(&self, view: &View, found: &mut Vec<Found>) {
        let patterns = self.patterns(view.undo());
        for hit in patterns.whole.find_overlapping_iter(view.bytes()) {
            let Some(Pattern { secret, needle }) = patterns.all.get(hit.pattern().as_usize()) else { continue };
            if let Some(range) = view.source(hit.range(), needle.before, needle.after) {
                self.add(found, range, *secret);
            }
        }
    }

    /// Finds both parts of a form that is split over any two pieces of the view.
    pub(crate) fn find_apart(&self, view: &View, found: &mut Vec<Found>) {
        let patterns = self.patterns(view.undo());
        for Part { pattern, range, piece, .. } in patterns.parts(view.bytes()) {
            self.add_part(view, pattern, range, &piece, found);
        }
    }

    /// Returns whether all parts of a form are in the bytes of a view.
    pub(crate) fn may_find_scattered(&self, undo: Undo, bytes: &[u8]) -> bool {
        !self.patterns(undo).scattered(bytes).is_empty()
    }

    /// Finds the parts of each form of which all parts are in the view.
    pub(crate) fn find_scattered(&self, view: &View, found: &mut Vec<Found>) {
        let patterns = self.patterns(view.undo());
        let scattered = patterns.scattered(view.bytes());
        if scattered.is_empty() {
            return;
        }
        for piece in pieces(view.bytes()) {
            let short = view.bytes().get(piece.clone()).and_then(|text| scattered.of_short(text));
            if let Some(pattern) = short {
                self.add_part(view, pattern, piece.clone(), &piece, found);
            }
            patterns.runs(view.bytes(), &piece, &mut |Run { pattern, range, .. }| {
                if scattered.has(pattern) {
                    self.add_part(view, pattern, range, &piece, found);
                }
            });
        }
    }

    fn add_part(&self, view: &View, pattern: usize, range: Range<usize>, piece: &Range<usize>, found: &mut Vec<Found>) {
        let Some(Pattern { secret, needle }) = self.patterns(view.undo()).all.get(pattern) else { return };
        let (before, after) = (needle.before && range.start > piece.start, needle.after && range.end < piece.end);
        if let Some(range) = view.source(range, before, after) {
            self.add(found, range, *secret);
        }
    }

    /// Finds the plain secrets between the marks.
    pub(crate) fn find_plain(&self, text: &str, marks: &[Range<usize>], found: &mut Vec<Found>) {
        let mut from = 0;
        let ends = marks.iter().map(|mark| (mark.start, mark.end)).chain([(text.len(), text.len())]);
        for (to, next) in ends {
            let part = text.get(from..to).unwrap_or_default();
            for hit in self.plain.find_overlapping_iter(part) {
                self.add(found, from + hit.start()..from + hit.end(), hit.pattern().as_usize());
            }
            from = next;
        }
    }

    fn patterns(&self, undo: Undo) -> &Patterns {
        match undo {
            Undo::Hexadecimal => &self.hexadecimal,
            Undo::Decimal => &self.decimal,
            Undo::Both | Undo::Percent | Undo::Json | Undo::Markup | Undo::Code | Undo::Quoted => &self.texts,
        }
    }

    /// Adds a place, or widens the last one. Hits are ordered by their ends. So a text of nothing but overlapping hits
    /// stays one place instead of millions.
    fn add(&self, found: &mut Vec<Found>, range: Range<usize>, secret: usize) {
        match found.last_mut() {
            Some(last) if range.start < last.range.end && last.range.start < range.end => {
                last.range = last.range.start.min(range.start)..last.range.end.max(range.end);
            }
            _ => found.extend(self.marks.get(secret).map(|mark| Found { range, mark: mark.clone() })),
        }
    }
}

impl Patterns {
    fn new(all: Vec<Pattern>, kind: Option<AhoCorasickKind>) -> Result<Self, BuildError> {
        let whole = automaton(all.iter().map(|pattern| &pattern.needle.bytes), kind)?;
        let may_split = |(index, pattern): (usize, &Pattern)| (!pattern.needle.headless).then_some(index);
        let splittable: Vec<usize> = all.iter().enumerate().filter_map(may_split).collect();
        let halves = splittable.iter().filter_map(|index| all.get(*index)).flat_map(|pattern| {
            let (first, second) = pattern.needle.bytes.split_at(pattern.needle.bytes.len() / 2);
            [first, second]
        });
        let halves = automaton(halves, kind)?;
        let longest = all.iter().map(|pattern| pattern.needle.bytes.len()).max().unwrap_or_default();
        Ok(Self { whole, all, halves, splittable, longest, groups: OnceLock::new() })
    }

    /// Returns the groups of bytes of the patterns that may be split.
    pub(crate) fn groups(&self) -> &Groups {
        let splittable = self.splittable.iter().filter_map(|index| Some((*index, self.bytes(*index)?)));
        self.groups.get_or_init(|| Groups::of(splittable))
    }

    /// Returns each part of a pattern at the edge of a piece whose other part is at an edge too.
    ///
    /// However a pattern is split, one of its halves is whole. So the search looks for halves first.
    fn parts(&self, bytes: &[u8]) -> Vec<Part> {
        let pieces: Vec<Range<usize>> = pieces(bytes);
        let mut long = Vec::new();
        for piece in &pieces {
            self.long_parts(bytes, piece, &mut long);
        }
        if long.is_empty() {
            return long;
        }
        let (met, mut parts) = self.short_parts(bytes, &pieces, &long);
        long.retain(|part| met.contains(&part.split()));
        parts.append(&mut long);
        parts
    }

    /// Adds the parts at both edges of the piece that hold a half of their pattern.
    fn long_parts(&self, bytes: &[u8], piece: &Range<usize>, parts: &mut Vec<Part>) {
        let windows = if piece.len() <= 2 * self.longest {
            [piece.clone(), piece.end..piece.end]
        } else {
            [piece.start..piece.start + self.longest, piece.end - self.longest..piece.end]
        };
        for window in windows {
            for hit in self.halves.find_overlapping_iter(bytes.get(window.clone()).unwrap_or_default()) {
                work::add(1);
                let (half, edge) = (hit.pattern().as_usize() / 2, Edge::of_half(hit.pattern().as_usize()));
                let (start, end) = (window.start + hit.start(), window.start + hit.end());
                let Some((index, needle)) =
                    self.splittable.get(half).and_then(|index| Some((*index, self.bytes(*index)?)))
                else {
                    continue;
                };
                let middle = needle.len() / 2;
                // The bytes between the half and the edge of the piece must belong to the pattern, too.
                let (at, between, expected, range) = match edge {
                    Edge::End => {
                        let at = middle + (piece.end - end);
                        (at, bytes.get(end..piece.end), needle.get(middle..at), start..piece.end)
                    }
                    Edge::Beginning => {
                        let Some(at) = middle.checked_sub(start - piece.start) else { continue };
                        (at, bytes.get(piece.start..start), needle.get(at..middle), piece.start..end)
                    }
                };
                if (1..needle.len()).contains(&at) && is_same(between, expected) {
                    parts.push(Part { pattern: index, at, edge, range, piece: piece.clone() });
                }
            }
        }
    }

    /// Finds the other parts of the long ones. Returns the splits with both parts, and the other parts that are not too
    /// short.
    fn short_parts(&self, bytes: &[u8], pieces: &[Range<usize>], long: &[Part]) -> (BTreeSet<Split>, Vec<Part>) {
        let mut wanted: BTreeMap<(Edge, Vec<u8>), BTreeSet<Split>> = BTreeMap::new();
        for part in long {
            if let Some(other) = self.other(part.split()) {
                let key = edge_of(other, part.edge.opposite(), PART_BYTES_MIN.min(other.len()));
                wanted.entry((part.edge.opposite(), key)).or_default().insert(part.split());
            }
        }
        let (mut met, mut parts) = (BTreeSet::new(), Vec::new());
        for piece in pieces {
            let text = bytes.get(piece.clone()).unwrap_or_default();
            for edge in [Edge::Beginning, Edge::End] {
                for length in 1..=PART_BYTES_MIN.min(text.len()) {
                    let splits = wanted.get(&(edge, edge_of(text, edge, length)));
                    work::add(1);
                    for split in splits.into_iter().flatten() {
                        work::add(1);
                        let Some(other) = self.other(*split).filter(|other| other.len() <= text.len()) else {
                            continue;
                        };
                        let range = match edge {
                            Edge::Beginning => piece.start..piece.start + other.len(),
                            Edge::End => piece.end - other.len()..piece.end,
                        };
                        if !is_same(bytes.get(range.clone()), Some(other)) {
                            continue;
                        }
                        met.insert(*split);
                        if other.len() >= PART_BYTES_MIN {
                            let Split { pattern, at, .. } = *split;
                            parts.push(Part { pattern, at, edge, range, piece: piece.clone() });
                        }
                    }
                }
            }
        }
        (met, parts)
    }

    /// Returns the part of a pattern that is not the long one.
    fn other(&self, Split { pattern, at, long }: Split) -> Option<&[u8]> {
        let needle = self.bytes(pattern)?;
        match long {
            Edge::End => needle.get(at..),
            Edge::Beginning => needle.get(..at),
        }
    }

    pub(crate) fn bytes(&self, pattern: usize) -> Option<&[u8]> {
        self.needle(pattern).map(|needle| needle.bytes.as_slice())
    }

    pub(crate) fn needle(&self, pattern: usize) -> Option<&Needle> {
        self.all.get(pattern).map(|pattern| &pattern.needle)
    }
}

impl Part {
    fn split(&self) -> Split {
        Split { pattern: self.pattern, at: self.at, long: self.edge }
    }
}

impl Edge {
    /// Returns the edge of a half: first halves end a piece, second halves begin one.
    fn of_half(index: usize) -> Self {
        if index.is_multiple_of(2) { Self::End } else { Self::Beginning }
    }

    fn opposite(self) -> Self {
        match self {
            Self::Beginning => Self::End,
            Self::End => Self::Beginning,
        }
    }
}

/// Returns this many bytes at this edge of the text, with ASCII letters in lower case.
fn edge_of(text: &[u8], edge: Edge, length: usize) -> Vec<u8> {
    let bytes = match edge {
        Edge::Beginning => text.get(..length),
        Edge::End => text.len().checked_sub(length).and_then(|from| text.get(from..)),
    };
    bytes.unwrap_or_default().to_ascii_lowercase()
}

fn is_same(one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
}

/// Returns the pieces of a view, without those that are empty.
pub(crate) fn pieces(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut seam = [0; 4];
    let seam = SEAM.encode_utf8(&mut seam).as_bytes();
    let mut pieces = Vec::new();
    let mut start = 0;
    let ends = bytes.windows(seam.len()).enumerate().filter(|(_, window)| *window == seam).map(|(at, _)| at);
    for end in ends.chain([bytes.len()]) {
        if start < end {
            pieces.push(start..end);
        }
        start = end + seam.len();
    }
    pieces
}

fn automaton<P: AsRef<[u8]>>(
    patterns: impl IntoIterator<Item = P>,
    kind: Option<AhoCorasickKind>,
) -> Result<AhoCorasick, BuildError> {
    AhoCorasick::builder().ascii_case_insensitive(true).kind(kind).build(patterns)
}
