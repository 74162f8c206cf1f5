//! `[gates]`: the agents and people who open each gate.

use crate::Config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Gate, Group};
use std::collections::BTreeMap;

/// One gate.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GateTable {
    /// The groups whose agents can open the gate for tasks of other groups.
    pub groups: Vec<Group>,
    /// The people who can open the gate.
    pub people: Vec<String>,
    /// The number of different openers that the gate needs; absent means 1.
    pub quorum: Option<usize>,
}

impl Config {
    /// Checks that the openers of each gate exist, and that they are enough for its quorum.
    pub(crate) fn check_gates(&self) -> Result<(), String> {
        for (gate, table) in &self.gates {
            if let Some(unknown) = table.groups.iter().find(|group| !self.groups.contains_key(*group)) {
                return Err(format!("gates.{gate}: there is no group `{unknown}`; add [groups.{unknown}]"));
            }
            if let Some(unknown) = table.people.iter().find(|person| !self.people.contains_key(*person)) {
                return Err(format!(
                    "gates.{gate}: there is no person `{unknown}`; add [people.{unknown}] with uid = N"
                ));
            }
            let openers = table.groups.len() + table.people.len();
            if table.quorum.is_some_and(|quorum| quorum == 0 || quorum > openers) {
                return Err(format!("gates.{gate}.quorum must be 1 to {openers}, the number of its openers"));
            }
        }
        Ok(())
    }

    /// Returns the number of different approvers that each gate needs.
    pub fn quorums(&self) -> BTreeMap<Gate, usize> {
        self.gates.iter().map(|(gate, table)| (gate.clone(), table.quorum.unwrap_or(1))).collect()
    }

    /// Returns the gates that a group's agent may open.
    pub fn gates_opened_by_group(&self, group: &Group) -> Vec<String> {
        let opens = |(gate, table): (&Gate, &GateTable)| table.groups.contains(group).then(|| gate.to_string());
        self.gates.iter().filter_map(opens).collect()
    }
}
