//! The features that take part in the life of a call. The pipeline knows them as this list alone.
//!
//! ```text
//! before_decision ──► decision ──► precondition ──► with_intent ──► effect ──► with_outcome ──► with_settlement
//!                         └──► with_refusal
//! ```
//!
//! Each step runs inside the transaction of its event, and its changes commit with the row of that event.

use crate::account_linking::AccountLinking;
use crate::accounts;
use crate::broker::Broker;
use crate::clean::Filtered;
use crate::file_proposals::FileProposals;
use crate::one_time_values::OneTimeValues;
use crate::plans::Plans;
use crate::standing_approvals::StandingApprovals;
use kernel::authorize::Refusal;
use kernel::call::Call;
use shared::{Code, RequestId, Timestamp};
use store::{StoreError, Transaction, View};

/// A feature that takes part in the life of a call. Each step concerns the calls of the feature and ignores others.
///
/// # Errors
/// Every step returns [`StoreError`] if rows cannot be read or written. The event is then rolled back as a whole.
pub(crate) trait Feature: Sync {
    /// Supplies a call with the rows that its decision needs. It changes no row.
    fn before_decision(&self, view: &View, now: Timestamp, call: &mut Call) -> Result<(), StoreError>;

    /// Returns why a permitted call does not start now.
    fn precondition(&self, view: &View, call: &Call) -> Result<Option<Refusal>, StoreError>;

    /// Changes rows with the intent of a permitted call, and supplies the call with rows that only a permit opens.
    fn with_intent(&self, broker: &mut Broker, tx: &Transaction<'_>, call: &mut Call) -> Result<(), StoreError>;

    /// Changes rows with the refusal of a call.
    fn with_refusal(
        &self,
        _broker: &mut Broker,
        _tx: &Transaction<'_>,
        _call: &Call,
        _refusal: &Refusal,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Changes rows with the outcome of an effect, and the outcome itself if its approval request is refused.
    fn with_outcome(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        filtered: &mut Filtered,
    ) -> Result<(), StoreError>;

    /// Changes rows when an admitted call ends without a decision or an outcome: its daemon died, or it cannot be
    /// decided again.
    fn with_loss(
        &self,
        _broker: &mut Broker,
        _tx: &Transaction<'_>,
        _call: (&str, &RequestId),
        _code: Code,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Changes rows when a probe or a person finds out whether a call with an unknown outcome took effect.
    fn with_settlement(
        &self,
        _tx: &Transaction<'_>,
        _caller: &str,
        _call: &RequestId,
        _happened: bool,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends the objects whose time is over.
    fn on_expiry(&self, _broker: &mut Broker, _tx: &Transaction<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Deletes rows that are no longer needed.
    fn forget_old(&self, tx: &Transaction<'_>) -> Result<(), StoreError>;
}

/// Every feature, in the order of its steps. The last one sees the outcome that the others made.
pub(crate) const FEATURES: [&dyn Feature; 5] =
    [&FileProposals, &AccountLinking, &OneTimeValues, &StandingApprovals, &Plans];

/// Supplies a call with everything that its decision needs beside its parameters.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn supply(view: &View, now: Timestamp, call: &mut Call) -> Result<(), StoreError> {
    // ORDER: the credential is that of the chosen account.
    accounts::choose(view, call)?;
    FEATURES.iter().try_for_each(|feature| feature.before_decision(view, now, call))
}

/// Tells every feature whether a call with an unknown outcome took effect.
///
/// # Errors
/// [`StoreError`]; the settlement is not written then.
pub(crate) fn settle(tx: &Transaction<'_>, caller: &str, call: &RequestId, happened: bool) -> Result<(), StoreError> {
    FEATURES.iter().try_for_each(|feature| feature.with_settlement(tx, caller, call, happened))
}
