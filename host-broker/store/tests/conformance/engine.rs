//! The engine of a machine of its own.

use model::Clock;
use std::path::Path;
use std::sync::Arc;
use store::{Store, StoreError};

/// SQLite alone.
pub(crate) struct Engine;

impl Engine {
    pub(crate) fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "another engine has a database")]
    pub(crate) fn open(&self, home: &Path, clock: Arc<dyn Clock>, policy: String) -> Result<Store, StoreError> {
        Store::open(home, clock, policy)
    }
}
