//! What passes between an action that runs and whoever waits for it: how far it is, and that nobody wants it any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Both directions, for one run of one action.
///
/// What is reported replaces what was reported before and is looked at now and then, so nobody can flood anybody with it.
#[derive(Debug, Default)]
pub struct Meanwhile {
    steps: Mutex<Option<Steps>>,
    unwanted: CancellationToken,
    heard: AtomicBool,
}

/// How far an action is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps {
    /// So far, in a unit of the provider's.
    pub done: f64,
    /// Of so much, if that is known.
    pub of: Option<f64>,
}

impl Meanwhile {
    /// Reports how far the action is.
    pub fn report(&self, steps: Steps) {
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner) = Some(steps);
    }

    /// What was reported last.
    pub fn steps(&self) -> Option<Steps> {
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the action that nobody wants it any more; `false` if it does not listen, and goes on whatever is told.
    pub fn unwant(&self) -> bool {
        self.unwanted.cancel();
        self.heard.load(Ordering::Acquire)
    }

    /// Says that the action listens.
    pub fn listen(&self) {
        self.heard.store(true, Ordering::Release);
    }

    /// Whether nobody wants the action any more.
    pub fn is_unwanted(&self) -> bool {
        self.unwanted.is_cancelled()
    }

    /// Waits until nobody wants the action any more. What has been begun by then may be done all the same.
    pub async fn unwanted(&self) {
        self.listen();
        self.unwanted.cancelled().await;
    }
}
