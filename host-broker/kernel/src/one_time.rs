//! One-time values: parts of results that one reply delivers and no other.
//!
//! A stored reply lacks the value and has the notice `one_time_value_omitted`. The first answer with that reply takes the
//! value, in the transaction of the answer. To audit: `OneTimeValue(` is constructed in this file only, for a
//! [`Settled`](crate::Settled) or for a reply that is delivered again after a restart.

use model::{Place, RecordKind};
use shared::Timestamp;
use shared::reply::Notice;
use store::state::one_time_values;
use store::state::one_time_values::StoredValue;
use store::{StoreError, View};

/// The encrypted value of a reply whose evidence is durable. The vault opens nothing else for a reply.
#[must_use]
#[derive(Debug)]
pub struct OneTimeValue(StoredValue);

impl OneTimeValue {
    pub(crate) fn of(taken: StoredValue) -> Self {
        OneTimeValue(taken)
    }

    /// Returns the values of replies that may not have left before a restart, with the rows of the replies. Only the start
    /// of the daemon calls it.
    ///
    /// # Errors
    /// [`StoreError`] if they cannot be read.
    pub fn undelivered(view: &View, steady: Timestamp) -> Result<Vec<(i64, Self)>, StoreError> {
        let taken = one_time_values::taken(view, steady)?;
        Ok(taken.into_iter().map(|(seq, value)| (seq, OneTimeValue(value))).collect())
    }

    /// Returns the name of the member of the result.
    pub fn field(&self) -> &str {
        &self.0.field
    }

    /// Returns the value.
    pub fn sealed(&self) -> &model::Ciphertext {
        &self.0.sealed
    }

    /// Returns the place that the value is bound to.
    pub fn place(&self) -> Place<'_> {
        let StoredValue { caller, request_id, provider, .. } = &self.0;
        Place { what: RecordKind::OneTimeValue, person: caller, capability: provider, name: request_id.as_str() }
    }
}

/// Returns whether a stored reply with these notices lacks a one-time value.
pub fn lacks_one_time_value(notices: &[String]) -> bool {
    notices.iter().any(|notice| notice == Notice::OneTimeValueOmitted.word())
}
