//! The administrators, from the configuration.

use super::people::unlisted_uid;
use super::{GroupTable, PersonTable, ROOT};
use shared::Group;
use std::collections::BTreeMap;

/// The people and the group that may administer. The default names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Administrators {
    /// Every person of `[people]`, and whether the person administers.
    people: BTreeMap<String, bool>,
    main: Option<Group>,
}

impl Administrators {
    /// Reads them from these tables.
    pub(super) fn of(people: &BTreeMap<String, PersonTable>, groups: &BTreeMap<Group, GroupTable>) -> Self {
        let administers = |table: &PersonTable| table.admin || table.uid.is_some_and(is_own);
        Self {
            people: people.iter().map(|(name, table)| (name.clone(), administers(table))).collect(),
            main: groups.iter().find(|(_, table)| table.main).map(|(group, _)| group.clone()),
        }
    }

    /// Returns whether this person administers. The daemon's own user and root do so without a table.
    pub fn holds(&self, person: &str) -> bool {
        let unlisted = || unlisted_uid(person).is_some_and(is_own);
        self.people.get(person).copied().unwrap_or_else(unlisted)
    }

    /// Returns whether this is the main group, whose agent administers.
    pub fn is_main(&self, group: &str) -> bool {
        self.main.as_ref().is_some_and(|main| main.as_str() == group)
    }
}

fn is_own(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw() || uid == ROOT
}
