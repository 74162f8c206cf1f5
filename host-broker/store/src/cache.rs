//! The facts that the writer's view keeps in memory, because most calls need them and few change them.
//!
//! One process writes the database, and each of its statements comes from a [`View`]. A statement that can write one of
//! these tables makes the view forget the facts of that table. The view keeps none of them again before the transaction
//! ends. A rollback makes it forget all facts. A reader's view keeps nothing.
//!
//! INVARIANT: a kept fact is what a read of the database returns. Debug builds check it with each commit.

use crate::state::grants::Grants;
use crate::state::{counters, grants, kill, sessions};
use crate::{StoreError, View};
use model::Exposed;
use shared::{Group, Provider};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sessions whose exposure is kept. External agents can have many more.
const SESSIONS_MAX: usize = 1_000;

/// The kept facts of one table.
#[derive(Debug, Default)]
pub(crate) struct Kept<T> {
    facts: T,
    // The open transaction writes the table.
    is_written: bool,
}

impl<T: Default> Kept<T> {
    /// Returns the facts that are kept.
    pub(crate) fn facts(&self) -> &T {
        &self.facts
    }

    /// Keeps a fact, unless the open transaction writes the table.
    pub(crate) fn keep(&mut self, keep: impl FnOnce(&mut T)) {
        if !self.is_written {
            keep(&mut self.facts);
        }
    }

    fn forget(&mut self) {
        *self = Self { facts: T::default(), is_written: true };
    }
}

/// The facts that are kept; `None` is not read yet.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) kill_switches: Kept<Option<Arc<[String]>>>,
    /// Whether any provider has failed a caller.
    pub(crate) has_breakers: Kept<Option<bool>>,
    /// Whether any row is in a segment only.
    pub(crate) has_burnt_ids: Kept<Option<bool>>,
    /// Only grants that exist: a sandbox can name any provider.
    pub(crate) grants: Kept<BTreeMap<(Group, Provider), Arc<Grants>>>,
    exposures: Kept<BTreeMap<String, Arc<[Exposed]>>>,
}

impl Cache {
    /// Forgets the facts that a statement can change.
    pub(crate) fn note(&mut self, statement: &str) {
        if statement.trim_start().starts_with("SELECT") {
            return;
        }
        let writes = |table: &str| statement.contains(table);
        if writes("kill_switches") {
            self.kill_switches.forget();
        }
        if writes("breakers") {
            self.has_breakers.forget();
        }
        if writes("burnt_ids") {
            self.has_burnt_ids.forget();
        }
        if writes("grants") {
            self.grants.forget();
        }
        if writes("exposures") {
            self.exposures.forget();
        }
    }

    /// Notes that the transaction is committed.
    pub(crate) fn committed(&mut self) {
        let Self { kill_switches, has_breakers, has_burnt_ids, grants, exposures } = self;
        for is_written in [
            &mut kill_switches.is_written,
            &mut has_breakers.is_written,
            &mut has_burnt_ids.is_written,
            &mut grants.is_written,
            &mut exposures.is_written,
        ] {
            *is_written = false;
        }
    }

    pub(crate) fn exposures(&self, caller: &str) -> Option<Arc<[Exposed]>> {
        self.exposures.facts.get(caller).map(Arc::clone)
    }

    pub(crate) fn keep_exposures(&mut self, caller: &str, exposures: &Arc<[Exposed]>) {
        self.exposures.keep(|facts| {
            if facts.len() >= SESSIONS_MAX {
                facts.clear();
            }
            facts.insert(caller.to_owned(), Arc::clone(exposures));
        });
    }

    /// Reads every kept fact again, and compares.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    ///
    /// # Panics
    /// If one is not what is stored.
    pub(crate) fn check(&self, view: &View) -> Result<(), StoreError> {
        if let Some(kept) = &self.kill_switches.facts {
            assert_eq!(kept[..], kill::list(view)?[..], "a kept fact is stale");
        }
        if let Some(kept) = self.has_breakers.facts {
            assert_eq!(kept, counters::has_breakers(view)?, "a kept fact is stale");
        }
        if let Some(kept) = self.has_burnt_ids.facts {
            assert_eq!(kept, crate::ledger::segments::has_burnt_ids(view)?, "a kept fact is stale");
        }
        for ((group, provider), kept) in &self.grants.facts {
            assert_eq!(**kept, grants::stored(view, group, provider)?, "a kept fact is stale");
        }
        for (caller, kept) in &self.exposures.facts {
            assert_eq!(kept[..], sessions::stored(view, caller)?[..], "a kept fact is stale");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_table_that_is_written_are_kept_again_after_the_commit_only() {
        let mut cache = Cache::default();
        let keep = |cache: &mut Cache| {
            cache.keep_exposures("group:a", &Arc::from([]));
            cache.exposures("group:a").is_some()
        };
        assert!(keep(&mut cache));
        cache.note("SELECT provider FROM exposures WHERE caller = ?1");
        cache.note("UPDATE breakers SET trial = NULL");
        assert!(cache.exposures("group:a").is_some(), "neither changes an exposure");
        cache.note("DELETE FROM exposures WHERE caller = ?1");
        assert!(cache.exposures("group:a").is_none());
        assert!(!keep(&mut cache), "the statement may run after this read");
        cache.committed();
        assert!(keep(&mut cache));
    }
}
