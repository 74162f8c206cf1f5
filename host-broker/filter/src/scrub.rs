//! The search for the broker's own secrets, and the entry to the formats of other secrets.

use super::keys;
use super::values::Formats;
use secrets::Secrets;
use secrets::search::mark::Stamp;
use secrets::search::{BuildError, Found, SecretSearch};
use secrets::vault::seen_secrets::SeenSecrets;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Looks for the broker's own secrets, and for credentials of known formats.
pub struct Scrubber {
    own: SecretSearch,
    formats: Arc<Formats>,
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
        formats.kinds().into_iter().for_each(|kind| stamp.learn(kind));
        keys::kinds().for_each(|kind| stamp.learn(kind));
        Ok(Self { own: SecretSearch::new(secrets, stamp)?, formats: Arc::new(formats) })
    }

    /// Returns the same scrubber with the secrets that an execution has seen; `None` if it has seen none.
    ///
    /// # Errors
    /// They cannot be looked for; nothing may then be shown.
    pub fn with_seen(&self, seen: &SeenSecrets) -> Result<Option<Self>, BuildError> {
        let own = self.own.with_seen(seen)?;
        Ok(own.map(|own| Self { own, formats: Arc::clone(&self.formats) }))
    }

    /// Every credential of a known format, in no particular order; places may overlap.
    pub(super) fn find_foreign(&self, text: &str) -> Vec<Found> {
        self.formats.find(text, self.own.stamp())
    }
}

impl Deref for Scrubber {
    type Target = SecretSearch;

    fn deref(&self) -> &SecretSearch {
        &self.own
    }
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({} secrets)", self.own.count())
    }
}
