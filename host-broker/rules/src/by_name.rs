//! Decisions on calls whose rules read no context. Such a decision depends on the names in the call only, so the rules
//! make it once.

use crate::{Asking, Rule};
use cedar_policy::{Policy, PolicySet};
use policy::facts::RulesFact;
use shared::{Action, Group, Level, Provider};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The most decisions that are kept: many groups, actions and levels.
const KEPT_MAX: usize = 10_000;

/// Everything that rules see of a call apart from the context.
type Names = (Group, Provider, Action, Level);

/// The kept decisions, and the calls of which none are kept.
pub(super) struct ByName {
    // Some rule about several actions reads the context.
    several_read: bool,
    // The actions with a rule of their own that reads it.
    reading: BTreeSet<String>,
    kept: Mutex<BTreeMap<Names, RulesFact>>,
}

impl ByName {
    /// Finds which calls the context can matter to.
    pub(super) fn of<'a>(
        of_one: &BTreeMap<String, PolicySet>,
        of_several: &PolicySet,
        rule: impl Fn(&Policy) -> Option<&'a Rule>,
    ) -> Self {
        // A rule that is not known may read anything.
        let read =
            |policies: &PolicySet| policies.policies().any(|policy| rule(policy).is_none_or(|rule| rule.reads.any()));
        let reading = of_one.iter().filter(|(_, policies)| read(policies)).map(|(action, _)| action.clone());
        Self { several_read: read(of_several), reading: reading.collect(), kept: Mutex::default() }
    }

    /// Returns the decision on a call with these names, or makes it. A decision that reads the context is always made.
    pub(super) fn decide(&self, asking: &Asking<'_>, decide: impl FnOnce() -> RulesFact) -> RulesFact {
        let Asking { group, provider, action, demanded, .. } = asking;
        if self.several_read || self.reading.contains(&crate::vocabulary::pair(provider, action)) {
            return decide();
        }
        let names = (Group::clone(group), Provider::clone(provider), Action::clone(action), *demanded);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decision) = kept.get(&names) {
            return decision.clone();
        }
        let decision = decide();
        // The request of this call cannot be made. That can depend on other values than the names.
        if !matches!(decision, RulesFact::NotEvaluable { .. }) {
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(names, decision.clone());
        }
        decision
    }
}
