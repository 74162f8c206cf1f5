//! Grants: whether one gives more than another, and what the main group's agent may do to what a person has set.

use crate::policy::world::{START, World};
use engine::request::Command;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use shared::request::GrantRequest;
use shared::{Action, Gate, Level, Timestamp};
use std::collections::BTreeSet;
use store::state::grants;
use store::state::grants::Grant;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const TIMES: [Option<i64>; 4] = [None, Some(START + 10), Some(START + 20), Some(START - 10)];

fn action(name: &str) -> Action {
    name.parse().unwrap()
}

/// The bits choose actions.
fn actions(bits: u8) -> BTreeSet<Action> {
    NAMES.iter().enumerate().filter(|(index, _)| bits & (1 << index) != 0).map(|(_, name)| action(name)).collect()
}

fn gate(number: u8) -> Option<Gate> {
    match number % 3 {
        0 => None,
        1 => Some("Security".parse().unwrap()),
        _ => Some("Finance".parse().unwrap()),
    }
}

fn chats(number: u8) -> Option<Vec<String>> {
    match number % 5 {
        0 | 1 => None,
        2 => Some(vec!["x".to_owned()]),
        3 => Some(vec!["x".to_owned(), "y".to_owned()]),
        _ => Some(Vec::new()),
    }
}

/// Any grant; zeros choose a read grant of everything, for ever.
fn chosen(bytes: [u8; 16]) -> Grant {
    let level = Level::ALL[usize::from(bytes[0]) % 4];
    let limit = |byte: u8| if byte < 128 { None } else { Some(u32::from(byte % 4)) };
    Grant {
        group: "developer".parse().unwrap(),
        provider: "mock".parse().unwrap(),
        level,
        allowed: if bytes[1] < 100 { None } else { Some(actions(bytes[2])) },
        denied: if bytes[3] < 100 { BTreeSet::new() } else { actions(bytes[4]) },
        gate: gate(bytes[5]),
        granted_by: "person:alice".to_owned(),
        granted_at: Timestamp::from_millis(START),
        expires_at: TIMES[usize::from(bytes[6]) % 4].map(Timestamp::from_millis),
        active: bytes[7] < 200,
        catalogue: NAMES
            .iter()
            .zip([1, 2, 3, 1])
            .enumerate()
            .filter(|(index, _)| bytes[8] & (16 << (index % 4)) == 0 || bytes[8] < 100)
            .map(|(index, (name, level))| {
                let level = if bytes[9] > 200 && index == usize::from(bytes[9]) % 4 { 2 } else { level };
                (action(name), Level::from_number(level).unwrap())
            })
            .collect(),
        rate_per_minute: limit(bytes[10]),
        daily_quota: limit(bytes[11]),
        chat_types: chats(bytes[12]),
        chat_ids: chats(bytes[13]),
        revoked_by: None,
        is_temporary: false,
    }
}

/// A pair that often differs in one respect only, so that each respect is met alone.
fn pairs() -> impl Strategy<Value = (Grant, Grant)> {
    (prop::array::uniform16(any::<u8>()), prop::array::uniform16(any::<u8>()), any::<u16>(), any::<bool>()).prop_map(
        |(one, other, which, few)| {
            let mut near = one;
            for (index, (byte, with)) in near.iter_mut().zip(other).enumerate() {
                if which & (1 << index) != 0 && (!few || index == usize::from(which) % 14) {
                    *byte = with;
                }
            }
            (chosen(one), chosen(near))
        },
    )
}

fn check(cases: u32, test: impl Fn((Grant, Grant)) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(&pairs(), test).unwrap();
}

/// Whether a grant lets an action happen: at a level, at a time, from a chat, behind a gate. Written from the policy:
/// a production action without a gate never happens.
fn lets(
    grant: &Grant,
    name: &Action,
    demanded: Level,
    now: i64,
    kind: Option<&str>,
    chat: Option<&str>,
    gate: &Gate,
) -> bool {
    let within = |list: &Option<Vec<String>>, value: Option<&str>| {
        list.as_ref().is_none_or(|list| value.is_some_and(|value| list.iter().any(|item| item == value)))
    };
    grant.active
        && grant.level != Level::None
        && grant.expires_at.is_none_or(|end| now < end.millis())
        && grant.catalogue.get(name) == Some(&demanded)
        && demanded <= grant.level
        && !grant.denied.contains(name)
        && grant.allowed.as_ref().is_none_or(|allowed| allowed.contains(name))
        && within(&grant.chat_types, kind)
        && within(&grant.chat_ids, chat)
        && (demanded < Level::Production || grant.gate.as_ref() == Some(gate))
}

/// Every situation in which one lets something happen that the other does not.
fn excess(new: &Grant, old: &Grant) -> Option<String> {
    let chats = [None, Some("x"), Some("y"), Some("z")];
    for name in NAMES.map(action) {
        for demanded in [Level::Read, Level::Write, Level::Production] {
            for now in [START - 20, START - 10, START, START + 10, START + 15, START + 20, START + 1_000_000] {
                for kind in chats {
                    for chat in chats {
                        for gate in [gate(1), gate(2)].into_iter().flatten() {
                            let by = |grant| lets(grant, &name, demanded, now, kind, chat, &gate);
                            if by(new) && !by(old) {
                                return Some(format!("{name} at {demanded}, {now}, {kind:?}, {chat:?}, {gate}"));
                            }
                        }
                    }
                }
            }
        }
    }
    let more = |new: Option<u32>, old: Option<u32>| old.is_some_and(|old| new.is_none_or(|new| new > old));
    (more(new.rate_per_minute, old.rate_per_minute) || more(new.daily_quota, old.daily_quota))
        .then(|| "a limit".to_owned())
}

#[test]
fn a_grant_that_is_not_wider_permits_nothing_more() {
    check(30_000, |(new, old)| {
        if !new.is_wider_than(&old) {
            prop_assert_eq!(excess(&new, &old), None);
        }
        Ok(())
    });
}

#[test]
fn no_grant_is_wider_than_itself_and_what_is_within_what_is_within_is_within() {
    check(30_000, |(one, other)| {
        prop_assert!(!one.is_wider_than(&one) && !other.is_wider_than(&other));
        let both = Grant { denied: one.denied.union(&other.denied).cloned().collect(), ..one.clone() };
        prop_assert!(!both.is_wider_than(&one));
        if !one.is_wider_than(&other) {
            prop_assert!(!both.is_wider_than(&other));
        }
        Ok(())
    });
}

/// A name, and what makes a grant wider.
type Widening = (&'static str, fn(&mut Grant));

#[test]
fn each_respect_in_which_a_grant_can_give_more_counts() {
    let base = Grant {
        level: Level::Write,
        allowed: Some(actions(0b0011)),
        denied: actions(0b0010),
        gate: gate(1),
        expires_at: Some(Timestamp::from_millis(START + 10)),
        active: true,
        rate_per_minute: Some(2),
        daily_quota: Some(2),
        chat_types: Some(vec!["x".to_owned()]),
        chat_ids: Some(vec!["x".to_owned()]),
        ..chosen([0; 16])
    };
    let more: &[Widening] = &[
        ("a higher level", |g| g.level = Level::Production),
        ("another allowed action", |g| g.allowed = Some(actions(0b0111))),
        ("no allowed list", |g| g.allowed = None),
        ("an action no longer denied", |g| g.denied = actions(0)),
        ("another gate", |g| g.gate = gate(2)),
        ("no gate", |g| g.gate = None),
        ("a later end", |g| g.expires_at = Some(Timestamp::from_millis(START + 11))),
        ("no end", |g| g.expires_at = None),
        ("a higher rate", |g| g.rate_per_minute = Some(3)),
        ("no rate", |g| g.rate_per_minute = None),
        ("a higher quota", |g| g.daily_quota = Some(3)),
        ("no quota", |g| g.daily_quota = None),
        ("another kind of chat", |g| g.chat_types = Some(vec!["x".to_owned(), "y".to_owned()])),
        ("any kind of chat", |g| g.chat_types = None),
        ("another chat", |g| g.chat_ids = Some(vec!["y".to_owned()])),
        ("any chat", |g| g.chat_ids = None),
        ("a newer catalogue", |g| g.catalogue = [(action("new"), Level::Read)].into()),
        ("an action at its new level", |g| g.catalogue = [(action("a"), Level::Write)].into()),
    ];
    assert!(!base.is_wider_than(&base));
    for (name, change) in more {
        let mut wider = base.clone();
        change(&mut wider);
        assert!(wider.is_wider_than(&base), "{name}");
    }
    let revoked = Grant { active: false, ..base.clone() };
    assert!(base.is_wider_than(&revoked) && !revoked.is_wider_than(&base) && !revoked.is_wider_than(&revoked));
    let without_gate = Grant { gate: None, level: Level::Production, ..base.clone() };
    assert!(Grant { gate: gate(1), ..without_gate.clone() }.is_wider_than(&without_gate));
}

/// The reply to the main group's agent when it asks for this grant to the developers.
fn agent(world: &mut World, more: &Value) -> String {
    let mut request = json!({ "group_folder": "developer", "provider": "mock" });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.command("main", Command::Grant(serde_json::from_value(request).unwrap()))
}

#[test]
fn an_agent_may_repeat_or_narrow_what_a_person_has_granted_and_never_widen_it() {
    let granted = json!({ "access_level": 2, "allowed_actions": ["read", "write"], "denied_actions": ["write"],
        "requires_task_gate": "Security", "expires_in_s": 3600 });
    let with = |key: &str, value: Value| {
        let mut request = granted.clone();
        if value.is_null() {
            request.as_object_mut().unwrap().remove(key);
        } else {
            request[key] = value;
        }
        request
    };
    for wider in [
        with("access_level", json!(3)),
        with("allowed_actions", Value::Null),
        with("allowed_actions", json!(["read", "write", "ask"])),
        with("denied_actions", Value::Null),
        with("requires_task_gate", Value::Null),
        with("requires_task_gate", json!("Both")),
        with("expires_in_s", Value::Null),
        with("expires_in_s", json!(3601)),
    ] {
        let mut world = World::new();
        world.grant(granted.clone());
        assert_eq!(agent(&mut world, &wider), "ask", "{wider}");
        assert_eq!(stored(&world).granted_by, "person:alice");
    }
    for narrower in [
        granted.clone(),
        with("access_level", json!(1)),
        with("allowed_actions", json!(["read"])),
        with("denied_actions", json!(["write", "ask"])),
        with("expires_in_s", json!(10)),
    ] {
        let mut world = World::new();
        world.grant(granted.clone());
        assert_eq!(agent(&mut world, &narrower), "executed", "{narrower}");
    }
}

#[test]
fn an_agent_may_not_give_back_what_a_person_had_granted_and_was_revoked() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 1 }));
    world.say(json!({ "type": "revoke", "group_folder": "developer", "provider": "mock" }));
    assert_eq!(agent(&mut world, &json!({ "access_level": 1 })), "ask");
    assert!(!stored(&world).active);
}

/// Attack (The inbox): A grant is widened by narrowing it: the form names other actions, or the
/// grant or its provider has changed since the page was loaded.
/// Defence: The broker compares both in the transaction that writes: nothing is given that the
/// present grant does not give. Denials stay. The form names the grants that were shown.
#[test]
fn a_person_narrows_the_grant_that_is_stored_then_and_its_denials_stay() {
    let granted = json!({ "access_level": 2, "allowed_actions": ["read", "write"], "denied_actions": ["ask"],
        "expires_in_s": 3600 });
    let narrow = |world: &mut World, level: u8, allowed: &[&str]| {
        world.say(json!({
            "type": "narrow", "group_folder": "developer", "provider": "mock", "access_level": level,
            "allowed_actions": allowed, "expires_in_s": 10,
        }))
    };
    let mut world = World::new();
    world.grant(granted.clone());
    assert_eq!(narrow(&mut world, 1, &["read"])["status"], "executed");
    let after = stored(&world);
    assert_eq!((after.level, after.allowed_list()), (Level::Read, Some(vec![action("read")])));
    assert_eq!(after.denied_list(), Some(vec![action("ask")]));
    // Access that the grant no longer gives cannot be regained.
    for (level, allowed) in [(2, &["read"][..]), (1, &["read", "write"])] {
        assert_eq!(narrow(&mut world, level, allowed)["status"], "denied", "{allowed:?}");
    }
    world.say(json!({ "type": "revoke", "group_folder": "developer", "provider": "mock" }));
    assert_eq!(narrow(&mut world, 1, &["read"])["status"], "denied");
    assert!(!stored(&world).active);
}

#[test]
fn an_agent_may_not_give_a_production_grant_the_gate_that_a_person_left_out() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "expires_at": "never" }));
    let gated = json!({ "access_level": 3, "requires_task_gate": "Security" });
    assert_eq!(agent(&mut world, &gated), "ask");
}

#[test]
fn grants_to_the_main_group_need_a_person_and_other_groups_cannot_grant() {
    let mut world = World::new();
    let request: GrantRequest =
        serde_json::from_value(json!({ "group_folder": "main", "provider": "mock", "access_level": 1 })).unwrap();
    assert_eq!(world.command("main", Command::Grant(request.clone())), "ask");
    assert_eq!(world.command("developer", Command::Grant(request)), "main_only");
    let granted = world.say(json!({ "type": "grant", "group_folder": "main", "provider": "mock", "access_level": 1 }));
    assert_eq!(granted["status"], "executed");
}

fn stored(world: &World) -> Grant {
    let found = grants::find(world.ledger.view(), &"developer".parse().unwrap(), &"mock".parse().unwrap());
    found.unwrap().own.clone().unwrap()
}

#[test]
fn a_grant_is_stored_as_it_was_asked_for_and_the_next_one_replaces_it_whole() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "allowed_actions": ["write", "read"], "denied_actions": ["ask"],
        "requires_task_gate": "Security", "expires_at": "2026-02-15T10:00:00Z", "chat_types": ["private"],
        "chat_ids": ["c2", "c1"] }));
    let catalogue = world.catalogue.levels(&"mock".parse().unwrap()).unwrap();
    let first = Grant {
        group: "developer".parse().unwrap(),
        provider: "mock".parse().unwrap(),
        level: Level::Production,
        allowed: Some(BTreeSet::from([action("read"), action("write")])),
        denied: BTreeSet::from([action("ask")]),
        gate: gate(1),
        granted_by: "person:alice".to_owned(),
        granted_at: Timestamp::from_millis(START),
        expires_at: Some(Timestamp::from_millis(START + 24 * 3_600_000)),
        active: true,
        catalogue: catalogue.clone(),
        rate_per_minute: None,
        daily_quota: None,
        chat_types: Some(vec!["private".to_owned()]),
        chat_ids: Some(vec!["c2".to_owned(), "c1".to_owned()]),
        revoked_by: None,
        is_temporary: false,
    };
    assert_eq!(stored(&world), first);
    world.clock.turn(5);
    world.say(json!({ "type": "revoke", "group_folder": "developer", "provider": "mock" }));
    let by_alice = Some("person:alice".to_owned());
    assert_eq!(stored(&world), Grant { active: false, revoked_by: by_alice, ..first.clone() });
    world.grant(json!({ "access_level": 1 }));
    let second = Grant {
        level: Level::Read,
        allowed: None,
        denied: BTreeSet::new(),
        gate: None,
        granted_at: Timestamp::from_millis(START + 5),
        expires_at: None,
        chat_types: None,
        chat_ids: None,
        ..first
    };
    assert_eq!(grants::list(world.ledger.view(), None).unwrap(), [second]);
}

#[test]
fn the_next_expiry_is_that_of_an_active_grant_that_is_not_over() {
    let mut world = World::new();
    let next = |world: &World, at: i64| {
        grants::next_expiry(world.ledger.view(), Timestamp::from_millis(START + at)).unwrap().map(Timestamp::millis)
    };
    assert_eq!(next(&world, 0), None);
    world.grant(json!({ "access_level": 1, "expires_in_s": 10 }));
    world.say(json!({ "type": "grant", "group_folder": "finance", "provider": "mock", "access_level": 1,
        "expires_in_s": 20 }));
    assert_eq!(next(&world, 0), Some(START + 10_000));
    assert_eq!(next(&world, 10_000), Some(START + 20_000));
    world.say(json!({ "type": "revoke", "group_folder": "finance", "provider": "mock" }));
    assert_eq!(next(&world, 10_000), None);
}

#[test]
fn a_grant_that_names_what_does_not_exist_or_is_over_is_refused() {
    let mut world = World::new();
    for wrong in [
        json!({ "access_level": 1, "allowed_actions": ["raed"] }),
        json!({ "access_level": 1, "denied_actions": ["raed"] }),
        json!({ "access_level": 3, "requires_task_gate": "Legal" }),
        json!({ "access_level": 1, "expires_at": "2026-02-14T10:00:00Z" }),
        json!({ "access_level": 1, "rate_per_minute": 0 }),
        json!({ "access_level": 1, "provider": "nowhere" }),
        json!({ "access_level": 1, "group_folder": "nobody" }),
    ] {
        assert_eq!(world.grant(wrong.clone())["code"], "invalid_params", "{wrong}");
    }
    assert_eq!(grants::list(world.ledger.view(), None).unwrap(), []);
}

#[test]
fn grants_that_a_person_made_or_ended_count_as_set_by_a_person() {
    let mut grant = Grant { granted_by: "group:main".to_owned(), ..chosen([0; 16]) };
    assert!(!grant.was_set_by_person());
    grant.revoked_by = Some("group:main".to_owned());
    assert!(!grant.was_set_by_person());
    grant.revoked_by = Some("person:alice".to_owned());
    assert!(grant.was_set_by_person());
    grant = Grant { granted_by: "person:alice".to_owned(), revoked_by: None, ..grant };
    assert!(grant.was_set_by_person());
}
