//! The facts that the writer's view keeps in memory, because most calls need them and few change them.
//!
//! One process writes the database, and each of its statements comes from a [`View`]. A statement that can write one of
//! these tables makes the view forget the facts of that table. So does a transaction that is rolled back. A reader's
//! view keeps nothing. INVARIANT: a kept fact is what a read of the open transaction returns. Debug builds check it with
//! each commit.

use crate::state::grants::Grant;
use crate::state::{counters, grants, kill, sessions};
use crate::{StoreError, View};
use model::Exposed;
use shared::{Group, Provider};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sessions whose exposure is kept. External agents can have many more.
const SESSIONS_MAX: usize = 1_000;

/// The facts that are kept; `None` is not read yet.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) kill_switches: Option<Arc<[String]>>,
    /// Whether any provider has failed a caller.
    pub(crate) has_breakers: Option<bool>,
    /// Whether any row is in a segment only.
    pub(crate) has_burnt_ids: Option<bool>,
    /// Only grants that exist: a sandbox can name any provider.
    pub(crate) grants: BTreeMap<(Group, Provider), Arc<Grant>>,
    exposures: BTreeMap<String, Arc<[Exposed]>>,
}

impl Cache {
    /// Forgets the facts that a statement can change.
    pub(crate) fn note(&mut self, statement: &str) {
        if statement.trim_start().starts_with("SELECT") {
            return;
        }
        let writes = |table: &str| statement.contains(table);
        if writes("kill_switches") {
            self.kill_switches = None;
        }
        if writes("breakers") {
            self.has_breakers = None;
        }
        if writes("burnt_ids") {
            self.has_burnt_ids = None;
        }
        if writes("grants") {
            self.grants.clear();
        }
        if writes("exposures") {
            self.exposures.clear();
        }
    }

    pub(crate) fn exposures(&self, caller: &str) -> Option<Arc<[Exposed]>> {
        self.exposures.get(caller).map(Arc::clone)
    }

    pub(crate) fn keep_exposures(&mut self, caller: &str, exposures: &Arc<[Exposed]>) {
        if self.exposures.len() >= SESSIONS_MAX {
            self.exposures.clear();
        }
        self.exposures.insert(caller.to_owned(), Arc::clone(exposures));
    }

    /// Reads every kept fact again, and compares.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    ///
    /// # Panics
    /// If one is not what is stored.
    pub(crate) fn check(&self, view: &View) -> Result<(), StoreError> {
        if let Some(kept) = &self.kill_switches {
            assert_eq!(kept[..], kill::list(view)?[..], "a kept fact is stale");
        }
        if let Some(kept) = self.has_breakers {
            assert_eq!(kept, counters::has_breakers(view)?, "a kept fact is stale");
        }
        if let Some(kept) = self.has_burnt_ids {
            assert_eq!(kept, crate::ledger::segments::has_burnt_ids(view)?, "a kept fact is stale");
        }
        for ((group, provider), kept) in &self.grants {
            assert_eq!(Some(&**kept), grants::stored(view, group, provider)?.as_ref(), "a kept fact is stale");
        }
        for (caller, kept) in &self.exposures {
            assert_eq!(kept[..], sessions::stored(view, caller)?[..], "a kept fact is stale");
        }
        Ok(())
    }
}
