//! A verification of all rows that a person wants now.
//!
//! It reads all rows, also if the start has verified them: another process may have changed them since.

use super::{Loop, VerificationAnswer};
use std::time::Duration;
use tokio::sync::oneshot;

/// The shortest time between the end of a verification and the next one that a person starts.
const PAUSE: Duration = Duration::from_secs(60);

impl Loop {
    /// Starts a verification for a person, if none runs and the last one has not just ended.
    pub(super) fn verify_on_request(&mut self, answer: oneshot::Sender<VerificationAnswer>) {
        // A browser that has left needs no answer.
        answer.send(self.request_verification()).ok();
    }

    fn request_verification(&mut self) -> VerificationAnswer {
        // A thread that has ended without a result has panicked, so nothing else would end its verification.
        if self.verification.as_ref().is_some_and(|running| !running.is_finished()) {
            return VerificationAnswer::Runs;
        }
        let clock = &self.daemon.clock;
        let since = self.verified_at.map(|ended| clock.monotonic().saturating_sub(ended));
        if let Some(left) = since.map(|since| PAUSE.saturating_sub(since)).filter(|left| !left.is_zero()) {
            return VerificationAnswer::Later(clock.now().plus(left));
        }
        match self.start_verification() {
            Ok(()) => VerificationAnswer::Runs,
            Err(error) => {
                tracing::error!(%error, "the rows of the ledger cannot be verified: no thread starts");
                VerificationAnswer::NoThread
            }
        }
    }
}
