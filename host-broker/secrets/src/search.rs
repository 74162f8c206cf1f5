//! The broker's own secrets, found wherever they may come back.
//!
//! Each search is one pass of an Aho-Corasick automaton: over the text itself for the plain secrets (a backstop that
//! depends on no decoding), and over its views for all forms (modules `view` and `forms`). The automata hold the secrets in
//! a form that cannot be wiped; they are dropped when the secrets are reloaded. A search says where a secret is and which
//! one, never its text.

mod automata;
mod forms;
pub mod mark;
mod scattered;
pub mod view;

use crate::Secrets;
use crate::vault::seen_secrets::SeenSecrets;
use aho_corasick::AhoCorasickKind;
pub use aho_corasick::BuildError;
use automata::Search;
use mark::Stamp;
use shared::digest::Digest;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use view::{Undo, View};

/// Looks for the broker's own secrets. It is built once from them, and again when they are reloaded.
#[derive(Clone)]
pub struct SecretSearch {
    stamp: Arc<Stamp>,
    /// For the secrets of the configuration.
    own: Arc<Search>,
    /// For those that one execution has seen, and for those of other accounts.
    beside: Vec<Arc<Search>>,
    /// Searches for the secrets that executions have seen, for reuse.
    known: Arc<Mutex<VecDeque<Known>>>,
}

/// A search for the secrets that an execution has seen, under their digest.
struct Known {
    digest: Digest,
    bytes: usize,
    search: Arc<Search>,
}

/// The most bytes of secrets whose searches are kept. Each byte takes some 13 KiB, and 100 µs to build.
const KNOWN_MAX: usize = 8 * 1024;

/// The kind of an account's credential.
const ACCOUNT: &str = "account credential";

/// A row of numbers with fewer digits holds no secret, even where the numbers at its ends are lost.
const ROW_DIGITS_MIN: usize = 10;

/// A row of numbers with fewer digits holds no half of one.
const HALF_ROW_DIGITS_MIN: usize = 5;

/// Something that must be taken out of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where, in whole characters.
    pub range: Range<usize>,
    /// The mark in its place.
    pub mark: String,
}

impl SecretSearch {
    /// Builds the search. The stamp then also recognises the marks of these secrets.
    ///
    /// # Errors
    /// The secrets are too many or too long for an automaton: some two billion bytes of forms.
    pub fn new(secrets: &Secrets, mut stamp: Stamp) -> Result<Self, BuildError> {
        secrets.needles().for_each(|(name, _)| stamp.learn(name));
        stamp.learn(ACCOUNT);
        let own = Arc::new(Search::new(secrets.needles(), &stamp, None)?);
        Ok(Self { stamp: Arc::new(stamp), own, beside: Vec::new(), known: Arc::default() })
    }

    /// The same search, which also looks for the texts that an execution has seen; `None` if it has seen none. Building it
    /// takes long if the texts are long, so it is not done on the thread that serves every group.
    ///
    /// # Errors
    /// They cannot be looked for; nothing may then be shown.
    pub fn with_seen(&self, seen: &SeenSecrets) -> Result<Option<Self>, BuildError> {
        let seen = seen.texts();
        if seen.is_empty() {
            return Ok(None);
        }
        let secrets: Vec<&str> = seen.iter().map(|text| text.as_str()).collect();
        let digest = Digest::of(&shared::json::canonical(&secrets));
        let beside = match self.known(digest) {
            Some(search) => search,
            None => self.learn(digest, &secrets)?,
        };
        Ok(Some(Self { beside: self.beside.iter().cloned().chain([beside]).collect(), ..self.clone() }))
    }

    fn known(&self, digest: Digest) -> Option<Arc<Search>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|known| known.digest == digest).map(|known| Arc::clone(&known.search))
    }

    fn learn(&self, digest: Digest, secrets: &[&str]) -> Result<Arc<Search>, BuildError> {
        // This kind is quick to build: the search is not used as often as the one for the configured secrets.
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

    /// The maker of marks.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Returns whether there are secrets of its own to look for.
    pub fn knows_own(&self) -> bool {
        self.searches().next().is_some()
    }

    /// Every place where a secret is, in no particular order; places may overlap.
    pub fn find(&self, text: &str) -> Vec<Found> {
        let marks = self.stamp.marks(text);
        let mut found = Vec::new();
        self.searches().for_each(|search| search.find_plain(text, &marks, &mut found));
        for undo in Undo::useful_for(text, ROW_DIGITS_MIN) {
            if self.is_free(text, &marks, undo, Search::may_find) {
                continue;
            }
            let view = View::of(text, &marks, undo);
            self.searches().for_each(|search| search.find(&view, &mut found));
        }
        found
    }

    /// The same, of a row of numbers that may be a secret's bytes.
    pub fn find_in_numbers(&self, row: &str) -> Vec<Found> {
        let mut found = Vec::new();
        let view = View::of(row, &[], Undo::Decimal);
        self.searches().for_each(|search| search.find(&view, &mut found));
        found
    }

    /// Finds the places where one part of a secret ends a piece and the other part begins a piece. Any text may stand
    /// between the two. [`SEAM`](view::SEAM) separates the pieces.
    pub fn find_apart(&self, text: &str) -> Vec<Found> {
        let marks = self.stamp.marks(text);
        let mut found = Vec::new();
        for undo in Undo::useful_for(text, HALF_ROW_DIGITS_MIN) {
            if self.is_free(text, &marks, undo, Search::may_find_apart) {
                continue;
            }
            let view = View::of(text, &marks, undo);
            self.searches().for_each(|search| search.find_apart(&view, &mut found));
        }
        found
    }

    /// Finds the parts of a secret of which all parts are there, each at an edge of a piece.
    pub fn find_scattered(&self, text: &str) -> Vec<Found> {
        let marks = self.stamp.marks(text);
        let mut found = Vec::new();
        for undo in Undo::useful_for(text, HALF_ROW_DIGITS_MIN) {
            if self.is_free(text, &marks, undo, Search::may_find_scattered) {
                continue;
            }
            let view = View::of(text, &marks, undo);
            self.searches().for_each(|search| search.find_scattered(&view, &mut found));
        }
        found
    }

    /// Finds what [`find_apart`](Self::find_apart) and [`find_scattered`](Self::find_scattered) find. Most texts hold
    /// nothing, and making a view takes longer than searching it.
    pub fn find_parts(&self, text: &str) -> Vec<Found> {
        let marks = self.stamp.marks(text);
        let mut found = Vec::new();
        for undo in Undo::useful_for(text, HALF_ROW_DIGITS_MIN) {
            let bytes = if marks.is_empty() { View::bytes_alone(text, undo) } else { None };
            let may_find = |may_find: fn(&Search, Undo, &[u8]) -> bool| {
                bytes.as_ref().is_none_or(|bytes| self.searches().any(|search| may_find(search, undo, bytes)))
            };
            let (apart, scattered) = (may_find(Search::may_find_apart), may_find(Search::may_find_scattered));
            if !apart && !scattered {
                continue;
            }
            let view = View::of(text, &marks, undo);
            if apart {
                self.searches().for_each(|search| search.find_apart(&view, &mut found));
            }
            if scattered {
                self.searches().for_each(|search| search.find_scattered(&view, &mut found));
            }
        }
        found
    }

    /// Returns whether the view holds nothing, without the places of its bytes. Most texts hold nothing.
    fn is_free(
        &self,
        text: &str,
        marks: &[Range<usize>],
        undo: Undo,
        may_find: fn(&Search, Undo, &[u8]) -> bool,
    ) -> bool {
        let bytes = if marks.is_empty() { View::bytes_alone(text, undo) } else { None };
        bytes.is_some_and(|bytes| !self.searches().any(|search| may_find(search, undo, &bytes)))
    }

    fn searches(&self) -> impl Iterator<Item = &Search> {
        std::iter::once(&self.own).chain(&self.beside).map(Arc::as_ref).filter(|search| !search.is_empty())
    }

    /// Returns how many secrets it looks for.
    pub fn count(&self) -> usize {
        self.searches().map(Search::len).sum()
    }
}

impl fmt::Debug for SecretSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretSearch({} secrets)", self.count())
    }
}
