//! `[approvals]`: quorum and expiry of approval requests.

use crate::Config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Action, Provider};
use std::collections::BTreeMap;
use std::time::Duration;

/// The settings of approval requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsTable {
    /// The time after which an unanswered approval request expires, in seconds: 1 to 604800, which is a week.
    pub expires_s: u64,
    /// The longest time of a standing approval, in seconds: 0 to 31536000, which is a year. With 0 there are none.
    pub standing_max_s: u64,
    /// The settings of single actions, by provider and action.
    pub actions: BTreeMap<Provider, BTreeMap<Action, AskTable>>,
    /// The settings of approval requests for grants above the grant ceiling.
    pub grants: AskTable,
    /// The settings of approval requests for canonical flow versions; without `expires_s` they expire after a day.
    pub flows: AskTable,
}

/// The quorum and the expiry of approval requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AskTable {
    /// The number of different people who must approve; absent means 1.
    pub quorum: Option<usize>,
    /// The time after which an unanswered approval request expires, in seconds: 1 to 604800, which is a week.
    pub expires_s: Option<u64>,
}

impl Default for ApprovalsTable {
    fn default() -> Self {
        Self {
            expires_s: 300,
            standing_max_s: 90 * 24 * 3600,
            actions: BTreeMap::new(),
            grants: AskTable::default(),
            flows: AskTable::default(),
        }
    }
}

impl ApprovalsTable {
    fn of(&self, provider: &Provider, action: &Action) -> AskTable {
        self.actions.get(provider).and_then(|actions| actions.get(action)).copied().unwrap_or_default()
    }

    /// Returns the longest time of a standing approval for calls of this action. There can be none if the action takes
    /// several approvers, or if the operator has switched them off.
    pub fn standing_max(&self, provider: &Provider, action: &Action) -> Option<Duration> {
        let quorum = self.of(provider, action).quorum.unwrap_or(1);
        (quorum <= 1 && self.standing_max_s > 0).then(|| Duration::from_secs(self.standing_max_s))
    }
}

/// The name of approval requests about flows, in place of a provider's.
pub const FLOWS: &str = "flows";

/// The longest time until expiry of an approval request, in seconds.
const EXPIRES_MAX_S: u64 = 7 * 24 * 3600;

/// The longest time that an operator can allow for standing approvals, in seconds.
const STANDING_MAX_S: u64 = 365 * 24 * 3600;

impl Config {
    pub(crate) fn check_approvals(&self) -> Result<(), String> {
        let within = |seconds: u64, place: &str| {
            let fits = (1..=EXPIRES_MAX_S).contains(&seconds);
            if fits { Ok(()) } else { Err(format!("{place}expires_s must be 1 to {EXPIRES_MAX_S}, which is a week")) }
        };
        within(self.approvals.expires_s, "approvals.")?;
        if self.approvals.standing_max_s > STANDING_MAX_S {
            return Err(format!("approvals.standing_max_s must be 0 to {STANDING_MAX_S}, which is a year"));
        }
        let approvers = self.people.values().filter(|person| person.approves.is_some()).count();
        let tables = self.approvals.actions.iter().flat_map(|(provider, actions)| {
            actions.iter().map(move |(action, table)| (format!("approvals.actions.{provider}.{action}."), table))
        });
        for (place, table) in tables.chain([
            ("approvals.grants.".to_owned(), &self.approvals.grants),
            ("approvals.flows.".to_owned(), &self.approvals.flows),
        ]) {
            within(table.expires_s.unwrap_or(1), &place)?;
            if table.quorum.is_some_and(|quorum| quorum == 0 || quorum > approvers) {
                return Err(format!(
                    "{place}quorum must be 1 to {approvers}, the number of people with `approves`; lower it or add \
                     approvers"
                ));
            }
        }
        for (person, table) in &self.people {
            let groups = table.approves.iter().filter_map(|approves| approves.groups.as_ref()).flatten();
            if let Some(unknown) = groups.into_iter().find(|group| !self.holds(group)) {
                return Err(format!("people.{person}.approves: there is no group `{unknown}`; add [groups.{unknown}]"));
            }
        }
        Ok(())
    }

    /// Returns the quorum and the expiry of approval requests about an action.
    pub fn asking(&self, provider: &Provider, action: &Action) -> (usize, Duration) {
        self.asking_by(self.approvals.of(provider, action))
    }

    /// Returns the quorum and the expiry of approval requests about a grant.
    pub fn asking_for_grants(&self) -> (usize, Duration) {
        self.asking_by(self.approvals.grants)
    }

    /// Returns the quorum for a provider's definitions: the largest one of its actions.
    pub fn quorum_for_definitions(&self, provider: &Provider) -> usize {
        let tables = self.approvals.actions.get(provider).into_iter().flat_map(BTreeMap::values);
        tables.filter_map(|table| table.quorum).max().unwrap_or(1)
    }

    /// Returns the quorum and the expiry of approval requests about a version of a flow.
    pub fn asking_for_flows(&self) -> (usize, Duration) {
        const DAY_S: u64 = 24 * 3600;
        let table = self.approvals.flows;
        self.asking_by(AskTable { expires_s: table.expires_s.or(Some(DAY_S)), ..table })
    }

    fn asking_by(&self, table: AskTable) -> (usize, Duration) {
        let seconds = table.expires_s.unwrap_or(self.approvals.expires_s);
        (table.quorum.unwrap_or(1), Duration::from_secs(seconds))
    }

    /// Returns the expiry of approval requests about a call, unless its action says otherwise.
    pub fn approval_expiry(&self) -> Duration {
        Duration::from_secs(self.approvals.expires_s)
    }
}
