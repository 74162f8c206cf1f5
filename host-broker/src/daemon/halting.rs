//! The end of a daemon whose memory may differ from the rows. Nothing follows from its last batch, as after a crash.

use super::Loop;
use engine::event::Event;
use kernel::Batch;
use model::errors::chain;
use store::StoreError;
use store::fleet::FleetError;

/// The reason why a daemon cannot go on. The next start finds out which rows there are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Halted(String);

impl Halted {
    /// Returns the reason after a batch, if there is one: another daemon serves the host, or it is unknown whether the
    /// rows are there.
    pub(super) fn after<F>(batch: &Batch<Event, F>) -> Option<Self> {
        let errors = batch.unwritten.iter().map(|(_, error)| error).chain(&batch.unsynced);
        errors.map(AsRef::as_ref).find_map(Self::at)
    }

    /// Returns the reason if this error is one.
    pub(super) fn at(error: &StoreError) -> Option<Self> {
        let is_last =
            matches!(error, StoreError::Fleet(FleetError::Fenced(_) | FleetError::Unknown(_) | FleetError::Changed));
        is_last.then(|| Self::of(error))
    }

    fn of(error: &dyn std::error::Error) -> Self {
        let text = chain(error);
        tracing::error!(error = text, "the daemon stops");
        Self(text)
    }
}

impl Loop {
    /// Ends a daemon whose host another one serves, also if it has nothing to write.
    pub(super) fn halt_if_fenced(&mut self) {
        if self.halted.is_none() {
            self.halted = self.daemon.ledger.fenced().map(|fenced| Halted::of(&fenced));
        }
    }
}
