//! The broker's own secrets, found wherever they may come back; and the door to what is known of others'.
//!
//! Two searches, each one pass of an Aho-Corasick automaton: over the text itself for the plain secrets (a backstop
//! that depends on no decoding), and over its view for all forms (modules `view` and `forms`).
//! The automata hold the secrets in a form that cannot be wiped; they are dropped when the secrets are reloaded.

use super::forms::{self, Needle};
use super::keys;
use super::mark::Stamp;
use super::values::Formats;
use super::view::{Undo, View};
use crate::secrets::Secrets;
use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
use shared::digest::Digest;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of what a person's account is worked with.
const ACCOUNT: &str = "account credential";

/// Looks for the broker's own secrets. Built once from them, and again when they are reloaded.
pub struct Scrubber {
    stamp: Arc<Stamp>,
    formats: Arc<Formats>,
    /// For the secrets of the configuration.
    own: Arc<Search>,
    /// For those that one execution has seen.
    beside: Option<Arc<Search>>,
    /// Searches for what executions have seen, to be used again.
    known: Arc<Mutex<VecDeque<Known>>>,
}

/// A search that was built for what an execution has seen, under the digest of that.
struct Known {
    digest: Digest,
    bytes: usize,
    search: Arc<Search>,
}

/// Of so many bytes of secrets the searches are kept. Each byte takes some 5 KiB, and 40 µs to build.
const KNOWN_MAX: usize = 16 * 1024;

/// A search for some secrets.
struct Search {
    /// For each secret, what is put in its place. All its forms get the same mark.
    marks: Vec<String>,
    plain: AhoCorasick,
    forms: AhoCorasick,
    /// For each pattern of `forms`: which secret, and whether its neighbours belong to it.
    shapes: Vec<Shape>,
}

struct Shape {
    secret: usize,
    before: bool,
    after: bool,
}

/// Something that must be taken out of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Where, in whole characters.
    pub(super) range: Range<usize>,
    /// What is put in its place.
    pub(super) mark: String,
}

impl Scrubber {
    /// Builds the searches, with the broker's own formats of other people's credentials.
    ///
    /// # Errors
    /// As [`Scrubber::with`].
    pub fn new(secrets: &Secrets, stamp: Stamp) -> Result<Self, BuildError> {
        Self::with(secrets, stamp, Formats::with([])?)
    }

    /// Builds the searches, with these formats.
    ///
    /// # Errors
    /// The secrets are too many or too long for an automaton: some two billion bytes of forms.
    pub fn with(secrets: &Secrets, mut stamp: Stamp, formats: Formats) -> Result<Self, BuildError> {
        secrets.needles().for_each(|(name, _)| stamp.learn(name));
        formats.kinds().for_each(|kind| stamp.learn(kind));
        keys::kinds().chain([ACCOUNT]).for_each(|kind| stamp.learn(kind));
        let own = Arc::new(Search::new(secrets.needles(), &stamp, None)?);
        Ok(Self { stamp: Arc::new(stamp), formats: Arc::new(formats), own, beside: None, known: Arc::default() })
    }

    /// The same, which also looks for these. What it takes to build is long for what is long, and not on the thread that
    /// serves every group; the next time it is there.
    ///
    /// # Errors
    /// As [`Scrubber::with`].
    pub fn beside<'a>(&self, secrets: impl Iterator<Item = &'a str>) -> Result<Self, BuildError> {
        let secrets: Vec<&str> = secrets.collect();
        let digest = Digest::of(&shared::json::canonical(&secrets));
        let beside = match self.known(digest) {
            Some(search) => search,
            None => self.learn(digest, &secrets)?,
        };
        let Self { stamp, formats, own, beside: _, known } = self;
        let (stamp, formats, own, known) = (Arc::clone(stamp), Arc::clone(formats), Arc::clone(own), Arc::clone(known));
        Ok(Self { stamp, formats, own, beside: Some(beside), known })
    }

    fn known(&self, digest: Digest) -> Option<Arc<Search>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|known| known.digest == digest).map(|known| Arc::clone(&known.search))
    }

    fn learn(&self, digest: Digest, secrets: &[&str]) -> Result<Arc<Search>, BuildError> {
        // What is quickly built: it is not used as often as the one for the configuration's.
        let kind = Some(AhoCorasickKind::NoncontiguousNFA);
        let search = Search::new(secrets.iter().map(|secret| (ACCOUNT, *secret)), &self.stamp, kind)?;
        let (search, bytes) = (Arc::new(search), secrets.iter().map(|secret| secret.len()).sum());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back(Known { digest, bytes, search: Arc::clone(&search) });
        while known.iter().map(|known| known.bytes).sum::<usize>() > KNOWN_MAX {
            known.pop_front();
        }
        Ok(search)
    }

    /// What makes the marks.
    pub(super) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Every credential of a known format, in no particular order; places may overlap.
    pub(super) fn find_foreign(&self, text: &str) -> Vec<Found> {
        self.formats.find(text, &self.stamp)
    }

    /// Every place where a secret is, in no particular order; places may overlap.
    pub(super) fn find(&self, text: &str) -> Vec<Found> {
        let mut found = Vec::new();
        if self.searches().next().is_none() {
            return found;
        }
        let marks = self.stamp.marks(text);
        self.searches().for_each(|search| search.find_plain(text, &marks, &mut found));
        for undo in Undo::useful_for(text) {
            let view = View::of(text, &marks, undo);
            self.searches().for_each(|search| search.find_forms(&view, &mut found));
        }
        found
    }

    /// The same, of a row of numbers that may be a secret's bytes.
    pub(super) fn find_in_numbers(&self, row: &str) -> Vec<Found> {
        let mut found = Vec::new();
        if self.searches().next().is_some() {
            let view = View::of(row, &[], Undo::Decimal);
            self.searches().for_each(|search| search.find_forms(&view, &mut found));
        }
        found
    }

    fn searches(&self) -> impl Iterator<Item = &Search> {
        std::iter::once(&self.own).chain(&self.beside).map(Arc::as_ref).filter(|search| !search.marks.is_empty())
    }
}

impl Search {
    fn new<'a>(
        secrets: impl Iterator<Item = (&'a str, &'a str)>,
        stamp: &Stamp,
        kind: Option<AhoCorasickKind>,
    ) -> Result<Self, BuildError> {
        let (mut marks, mut plain, mut patterns, mut shapes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (secret, (name, value)) in secrets.enumerate() {
            marks.push(stamp.mark(name, value));
            plain.push(value);
            for Needle { bytes, before, after } in forms::needles(value) {
                patterns.push(bytes);
                shapes.push(Shape { secret, before, after });
            }
        }
        let mut builder = AhoCorasick::builder();
        builder.ascii_case_insensitive(true).kind(kind);
        Ok(Self { marks, plain: builder.build(plain)?, forms: builder.build(patterns)?, shapes })
    }

    fn find_forms(&self, view: &View, found: &mut Vec<Found>) {
        for hit in self.forms.find_overlapping_iter(view.bytes()) {
            let Some(shape) = self.shapes.get(hit.pattern().as_usize()) else { continue };
            if let Some(range) = view.source(hit.range(), shape.before, shape.after) {
                self.add(found, range, shape.secret);
            }
        }
    }

    /// Finds the plain secrets between the marks.
    fn find_plain(&self, text: &str, marks: &[Range<usize>], found: &mut Vec<Found>) {
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

    /// Adds a place, or widens the last one. Hits come in the order of their ends, so that a text made of nothing
    /// but overlapping hits stays one place instead of millions.
    fn add(&self, found: &mut Vec<Found>, range: Range<usize>, secret: usize) {
        match found.last_mut() {
            Some(last) if range.start < last.range.end && last.range.start < range.end => {
                last.range = last.range.start.min(range.start)..last.range.end.max(range.end);
            }
            _ => found.extend(self.marks.get(secret).map(|mark| Found { range, mark: mark.clone() })),
        }
    }
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({} secrets)", self.searches().map(|search| search.marks.len()).sum::<usize>())
    }
}
