//! The handle of an action that runs: it reports its progress, and it can be cancelled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The handle of one run of one action, shared by the action and the caller that waits for it.
///
/// A report replaces the earlier one, and the caller looks at it at intervals. So neither can flood the other.
#[derive(Debug, Default)]
pub struct RunHandle {
    progress: Mutex<Option<RunProgress>>,
    cancelled: CancellationToken,
    heard: AtomicBool,
    withdrawn: AtomicBool,
}

/// The progress of an action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunProgress {
    /// The amount that is done, in a unit of the provider's.
    pub done: f64,
    /// The whole amount, if it is known.
    pub total: Option<f64>,
}

impl RunHandle {
    /// Reports the progress of the action.
    pub fn report(&self, progress: RunProgress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    /// Returns the last report.
    pub fn progress(&self) -> Option<RunProgress> {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the action; `false` if the action does not listen and continues.
    pub fn cancel(&self) -> bool {
        self.cancelled.cancel();
        self.heard.load(Ordering::Acquire)
    }

    /// Notes that the request was withdrawn before the action began. It does not begin.
    pub fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }

    /// Returns whether the request was withdrawn before the action began.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }

    /// Marks that the action listens.
    pub fn listen(&self) {
        self.heard.store(true, Ordering::Release);
    }

    /// Returns whether the action is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Waits until the action is cancelled. An effect that has begun by then may happen all the same.
    pub async fn cancelled(&self) {
        self.listen();
        self.cancelled.cancelled().await;
    }
}
