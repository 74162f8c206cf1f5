//! Grants without the actions that a group has not used.

use shared::request::{Expiry, GrantRequest};
use shared::{Action, Level, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use store::ledger::usage::UsedActions;
use store::state::grants::Grant;

/// A grant that is narrower than the present one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed {
    /// The highest level that a call demanded.
    pub level: Level,
    /// The actions that were used, as far as the grant gives them now.
    pub actions: BTreeSet<Action>,
    /// The actions that the grant gives now, and that were not used.
    pub lost: BTreeSet<Action>,
}

impl Narrowed {
    /// Narrows a grant to these used actions; `None` if it gives none of them now.
    ///
    /// An action that the grant does not give now stays out, also if it was used: its level has changed, or an earlier
    /// grant gave it. So the new grant is never wider.
    pub fn of(grant: &Grant, used: &UsedActions, catalogue: &BTreeMap<Action, Level>, now: Timestamp) -> Option<Self> {
        let given = given(grant, catalogue, now);
        let (actions, lost): (BTreeSet<&Action>, BTreeSet<&Action>) =
            given.keys().partition(|action| used.contains_key(*action));
        let demanded = |action: &&Action| {
            let declared = given.get(*action).copied().unwrap_or(Level::None);
            used.get(*action).map_or(declared, |one| declared.max(one.level))
        };
        let level = actions.iter().map(demanded).max()?.min(grant.level);
        let owned = |set: BTreeSet<&Action>| set.into_iter().cloned().collect();
        Some(Self { level, actions: owned(actions), lost: owned(lost) })
    }
}

/// Returns the request for a grant of only these actions up to this level. Everything else is as in the present grant.
pub fn request(grant: &Grant, level: Level, actions: BTreeSet<Action>) -> GrantRequest {
    GrantRequest {
        group_folder: grant.group.clone(),
        provider: grant.provider.clone(),
        access_level: level,
        allowed_actions: Some(actions.into_iter().collect()),
        // The broker keeps the denials, also of actions that are gone.
        denied_actions: None,
        requires_task_gate: grant.gate.clone(),
        expires_at: Some(grant.expires_at.map_or(Expiry::Never, Expiry::At)),
        expires_in_s: None,
        rate_per_minute: grant.rate_per_minute,
        daily_quota: grant.daily_quota,
        chat_types: grant.chat_types.clone(),
        chat_ids: grant.chat_ids.clone(),
        timeout_ms: None,
    }
}

/// Returns the actions that a grant gives now, with their declared levels.
pub fn given(grant: &Grant, catalogue: &BTreeMap<Action, Level>, now: Timestamp) -> BTreeMap<Action, Level> {
    let is_given = |(action, level): &(&Action, &Level)| grant.gives(action, (Some(**level), **level), now);
    catalogue.iter().filter(is_given).map(|(action, level)| (action.clone(), *level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::ledger::usage::ActionUse;

    fn action(name: &str) -> Action {
        name.parse().unwrap()
    }

    fn levels(all: &[(&str, Level)]) -> BTreeMap<Action, Level> {
        all.iter().map(|(name, level)| (action(name), *level)).collect()
    }

    fn used(all: &[(&str, Level)]) -> UsedActions {
        let one = |level| ActionUse { last: Timestamp::from_millis(0), calls: 1, level };
        all.iter().map(|(name, level)| (action(name), one(*level))).collect()
    }

    fn names(set: &BTreeSet<Action>) -> Vec<&str> {
        set.iter().map(Action::as_str).collect()
    }

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    /// A grant of writes on this catalogue, which denies `b`.
    fn grant(catalogue: &BTreeMap<Action, Level>) -> Grant {
        let request = serde_json::json!({
            "group_folder": "developer", "provider": "demo", "access_level": 2, "denied_actions": ["b"],
            "daily_quota": 7, "expires_at": "never",
        });
        Grant::of(&serde_json::from_value(request).unwrap(), "person:alice", NOW, catalogue.clone())
    }

    #[test]
    fn a_narrowed_grant_has_the_used_actions_and_their_level_and_no_more() {
        let catalogue = levels(&[("a", Level::Read), ("b", Level::Read), ("c", Level::Write), ("d", Level::Read)]);
        let grant = grant(&catalogue);
        let uses = used(&[("a", Level::Read), ("b", Level::Read), ("gone", Level::Write)]);
        let narrowed = Narrowed::of(&grant, &uses, &catalogue, NOW).unwrap();
        assert_eq!(
            (narrowed.level, names(&narrowed.actions), names(&narrowed.lost)),
            (Level::Read, vec!["a"], vec!["c", "d"])
        );
        let request = super::request(&grant, narrowed.level, narrowed.actions);
        let made = Grant::of(&request, "person:alice", NOW, catalogue.clone()).within(&grant).unwrap();
        assert_eq!((made.daily_quota, made.expires_at, &made.denied), (Some(7), None, &grant.denied));
        assert_eq!(grant.clone().within(&made), None);
        let revoked = Grant { active: false, ..grant.clone() };
        assert_eq!(made.clone().within(&revoked), None, "a revoked grant gives nothing");
        assert!(made.gives(&action("a"), (Some(Level::Read), Level::Read), NOW));
        assert!(!made.gives(&action("d"), (Some(Level::Read), Level::Read), NOW), "it was not used");
        // A call can demand more than its action declares, and never more than the grant had.
        let narrowed = Narrowed::of(&grant, &used(&[("a", Level::Production)]), &catalogue, NOW).unwrap();
        assert_eq!(narrowed.level, Level::Write);
    }

    /// Attack: see `a_person_narrows_the_grant_that_is_stored_then_and_its_denials_stay`.
    #[test]
    fn an_action_that_the_grant_does_not_give_now_stays_out() {
        let grant = grant(&levels(&[("a", Level::Read), ("c", Level::Read)]));
        // `c` changes more than when the grant was made, and `e` is new.
        let present = levels(&[("a", Level::Read), ("c", Level::Write), ("e", Level::Read)]);
        let uses = used(&[("a", Level::Read), ("c", Level::Write), ("e", Level::Read)]);
        let narrowed = Narrowed::of(&grant, &uses, &present, NOW).unwrap();
        assert_eq!((names(&narrowed.actions), narrowed.lost.len()), (vec!["a"], 0));
        let request = super::request(&grant, narrowed.level, narrowed.actions);
        let made = Grant::of(&request, "person:alice", NOW, present.clone());
        assert!(made.within(&grant).is_some(), "the provider has other actions now");
        // The level of its action has changed since the page was shown.
        let changed = levels(&[("a", Level::Write)]);
        assert_eq!(Grant::of(&request, "person:alice", NOW, changed).within(&grant), None);
        assert_eq!(Narrowed::of(&grant, &used(&[("c", Level::Write)]), &present, NOW), None);
        assert_eq!(Narrowed::of(&grant, &UsedActions::new(), &present, NOW), None);
    }
}
