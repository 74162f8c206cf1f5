//! The facts as they are gathered from a real ledger: what people and agents have said decides the next call.

use crate::policy::world::{ACTIONS, START, World, listed, policy, with_mock};
use config::Policy;
use engine::broker::Broker;
use engine::catalogue::Listed;
use engine::event::Event;
use engine::facts::judge;
use engine::request::{Command, CommandRequest, Parsed};
use kernel::call::{Call, Prepared, WaitingPlan};
use kernel::{BatchWriter, Committed, Step, WriteError};
use model::{ChatType, Person, Subject};
use policy::facts::{ChatsFact, Facts, GateFact, GrantFact, ParamsFact, TaskFact};
use serde_json::{Value, json};
use shared::{Level, Reply, Timestamp};
use std::sync::Arc;
use store::state::approvals;
use store::state::gates;
use store::{Durability, Transaction};

impl World {
    /// From now on the provider is this one.
    fn relist(&mut self, mock: Listed) {
        self.catalogue = Arc::new(with_mock(mock));
        self.broker = Broker::new(
            Arc::clone(&self.dispatcher.config),
            Arc::clone(&self.catalogue),
            policy(&self.dispatcher.config),
            Arc::clone(&self.dispatcher.ids),
        );
    }

    /// One call of the developers, and what becomes of it: `run`, `prepare`, or the code of the refusal.
    fn result(&mut self, action: &str, params: &Value, task: Option<&str>) -> String {
        let call = self.call("developer", action, params, task);
        self.result_of(call)
    }

    fn result_of(&mut self, call: Call) -> String {
        let batch = self.admit(Durability::Full, vec![call]);
        assert!(batch.unwritten.is_empty(), "{:?}", batch.unwritten);
        match batch.committed.into_iter().next() {
            Some(Committed::Start(intended)) => intended.effect().stage().to_owned(),
            Some(Committed::Close(_, Some(settled))) => {
                let reply: Reply = serde_json::from_slice(&settled.into_document().1).unwrap();
                reply.code.unwrap_or_else(|| "no code".to_owned())
            }
            Some(Committed::Ask(_)) => "ask".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn results(&mut self) -> [String; 3] {
        ["read", "write", "produce"].map(|action| self.result(action, &json!({}), None))
    }

    fn facts(&mut self, action: &str, params: &Value, task: Option<&str>) -> Facts {
        let call = self.call("developer", action, params, task);
        let now = Timestamp::from_millis(START);
        judge(self.ledger.view(), (now, self.ledger.steady()), &call, &policy(&self.dispatcher.config), None).unwrap().0
    }

    /// A grant to the developers by a person.
    pub(super) fn grant(&mut self, more: Value) -> Value {
        let mut grant = json!({ "type": "grant", "group_folder": "developer", "provider": "mock" });
        let Value::Object(more) = more else { panic!("an object") };
        grant.as_object_mut().unwrap().extend(more);
        self.say(grant)
    }

    fn task(&mut self, id: &str, group: &str) {
        let made = self.say(json!({ "type": "task_create", "title": "Ship", "group_folder": group, "task_id": id }));
        assert_eq!(made["status"], "executed", "{made}");
    }

    fn approve(&mut self, gate: &str, task: &str) -> Value {
        self.say(json!({ "type": "gate_approve", "task_id": task, "gate": gate }))
    }

    /// A directive of a group's agent, and the code of the refusal, `executed`, or `ask` where a person is asked.
    pub(super) fn command(&mut self, group: &str, command: Command) -> String {
        let header = self.header(group);
        let event = Event::Arrived(Parsed::CommandRequest(Box::new(CommandRequest {
            header,
            command,
            asked: false,
            calls: Vec::new(),
            failed_read: None,
        })));
        let batch = self.ledger.batch(Durability::Full, vec![event], &mut self.broker);
        match batch.committed.into_iter().next() {
            Some(Committed::Close(_, Some(settled))) => {
                let reply: Reply = serde_json::from_slice(&settled.into_document().1).unwrap();
                reply.code.unwrap_or_else(|| reply.status.word().to_owned())
            }
            Some(Committed::Ask(_)) => "ask".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn approve_as(&mut self, group: &str, gate: &str, task: &str) -> String {
        let request = serde_json::from_value(json!({ "task_id": task, "gate": gate })).unwrap();
        self.command(group, Command::GateApprove(request))
    }
}

#[test]
fn a_grant_permits_its_level_and_below_from_the_next_call_on() {
    let mut world = World::new();
    assert_eq!(world.results(), ["no_grant", "no_grant", "no_grant"]);
    world.grant(json!({ "access_level": 1 }));
    assert_eq!(world.results(), ["run", "level_too_low", "level_too_low"]);
    world.grant(json!({ "access_level": 2 }));
    assert_eq!(world.results(), ["run", "run", "level_too_low"]);
    world.grant(json!({ "access_level": 3 }));
    assert_eq!(world.results(), ["run", "run", "task_required"]);
    world.grant(json!({ "access_level": 0 }));
    assert_eq!(world.results(), ["no_grant", "no_grant", "no_grant"]);
}

#[test]
fn a_call_whose_plan_waits_is_prepared_and_never_run() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 2 }));
    for (params, alone, of_a_plan) in
        [(json!({}), "run", "guardrail"), (json!({ "guard": "remote" }), "prepare", "prepare")]
    {
        assert_eq!(world.result("write", &params, None), alone);
        let request = serde_json::from_value(json!({ "reason": "To ship it.", "calls": [] })).unwrap();
        let plan = WaitingPlan { header: world.header("developer"), request, others: Vec::new(), place: 0 };
        let call = world.call("developer", "write", &params, None);
        assert_eq!(world.result_of(Call { plan: Some(Box::new(plan)), ..call }), of_a_plan);
    }
}

#[test]
fn a_grant_is_one_groups_at_one_provider() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3 }));
    assert_eq!(world.facts("read", &json!({}), None).caller, "Group 'developer'");
    let other = world.call("finance", "read", &json!({}), None);
    let now = Timestamp::from_millis(START);
    assert_eq!(
        judge(world.ledger.view(), (now, world.ledger.steady()), &other, &policy(&world.dispatcher.config), None)
            .unwrap()
            .0
            .grant,
        GrantFact::None
    );
    let mut elsewhere = world.call("developer", "read", &json!({}), None);
    elsewhere.provider = "github".parse().unwrap();
    assert_eq!(
        judge(world.ledger.view(), (now, world.ledger.steady()), &elsewhere, &policy(&world.dispatcher.config), None)
            .unwrap()
            .0
            .grant,
        GrantFact::None
    );
}

#[test]
fn a_revoked_grant_refuses_the_next_call_and_a_new_one_permits_it_again() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 1 }));
    let revoke = json!({ "type": "revoke", "group_folder": "developer", "provider": "mock" });
    assert_eq!(world.say(revoke.clone())["data"]["revoked"], true);
    assert_eq!(world.result("read", &json!({}), None), "no_grant");
    assert_eq!(world.say(revoke)["data"]["revoked"], false);
    world.grant(json!({ "access_level": 1 }));
    assert_eq!(world.result("read", &json!({}), None), "run");
}

#[test]
fn a_revoked_grant_is_no_grant_also_after_its_time() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 1, "expires_in_s": 10 }));
    world.say(json!({ "type": "revoke", "group_folder": "developer", "provider": "mock" }));
    world.clock.turn(60_000);
    assert_eq!(world.result("read", &json!({}), None), "no_grant");
}

#[test]
fn a_grant_ends_at_its_very_millisecond() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 1, "expires_in_s": 10 }));
    world.clock.turn(9_999);
    assert_eq!(world.result("read", &json!({}), None), "run");
    world.clock.turn(1);
    assert_eq!(world.result("read", &json!({}), None), "grant_expired");
}

#[test]
fn writes_and_production_end_after_a_week_and_reads_do_not() {
    for (level, action, after) in [(1, "read", "run"), (2, "write", "grant_expired"), (3, "write", "grant_expired")] {
        let mut world = World::new();
        world.grant(json!({ "access_level": level }));
        world.clock.turn(7 * 24 * 3_600_000 - 1);
        assert_eq!(world.result(action, &json!({}), None), "run", "L{level}");
        world.clock.turn(1);
        assert_eq!(world.result(action, &json!({}), None), after, "L{level}");
    }
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "expires_at": "never" }));
    world.clock.turn(1_000 * 24 * 3_600_000);
    assert_eq!(world.result("write", &json!({}), None), "run");
}

#[test]
fn the_lists_of_a_grant_hold() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 2, "allowed_actions": ["read"] }));
    assert_eq!(world.results(), ["run", "action_not_allowed", "level_too_low"]);
    world.grant(json!({ "access_level": 2, "allowed_actions": [] }));
    assert_eq!(world.results(), ["action_not_allowed", "action_not_allowed", "level_too_low"]);
    world.grant(json!({ "access_level": 2, "allowed_actions": ["read", "write"], "denied_actions": ["write"] }));
    assert_eq!(world.results(), ["run", "action_denied", "level_too_low"]);
    world.grant(json!({ "access_level": 2, "denied_actions": ["read"] }));
    assert_eq!(world.results(), ["action_denied", "run", "level_too_low"]);
}

#[test]
fn an_action_that_appears_or_changes_its_level_after_the_grant_is_not_included_until_it_is_repeated() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3 }));
    world.relist(listed(&[("read", Level::Write), ("write", Level::Read), ("fresh", Level::Read)]));
    for action in ["read", "write", "fresh"] {
        assert_eq!(world.result(action, &json!({}), None), "action_not_allowed", "{action}");
    }
    assert_eq!(world.result("produce", &json!({}), None), "unknown_action");
    world.grant(json!({ "access_level": 3 }));
    for action in ["read", "write", "fresh"] {
        assert_eq!(world.result(action, &json!({}), None), "run", "{action}");
    }
}

#[test]
fn a_provider_that_is_off_or_gone_takes_no_calls() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 2 }));
    let mut off = listed(&ACTIONS);
    off.state = Err("switched off".into());
    world.relist(off);
    assert_eq!(world.result("read", &json!({}), None), "provider_disabled");
    world.relist(listed(&[]));
    assert_eq!(world.result("read", &json!({}), None), "unknown_action");
    let mut call = world.call("developer", "read", &json!({}), None);
    call.target = kernel::call::Target::NoProvider;
    let now = Timestamp::from_millis(START);
    let (_, decision) =
        judge(world.ledger.view(), (now, world.ledger.steady()), &call, &policy(&world.dispatcher.config), None)
            .unwrap();
    let code = format!("{:?}", decision.verdict);
    assert!(code.contains("ProviderDisabled"), "{code}");
}

#[test]
fn kill_switches_stop_what_they_name_and_nothing_else() {
    let mut world = World::with_people("[providers.logs]\nkind = \"mock\"\nscript = \"logs.toml\"\n");
    world.grant(json!({ "access_level": 1 }));
    for (kill, stops) in [
        (json!({ "type": "kill", "scope": "all" }), true),
        (json!({ "type": "kill", "scope": { "provider": "mock" } }), true),
        (json!({ "type": "kill", "scope": { "provider": "logs" } }), false),
        (json!({ "type": "kill", "scope": { "group": "developer" } }), true),
        (json!({ "type": "kill", "scope": { "group": "finance" } }), false),
    ] {
        let switch = |on: bool| {
            let mut control = kill.clone();
            control["on"] = json!(on);
            control
        };
        assert_eq!(world.say(switch(true))["data"]["changed"], true);
        assert_eq!(world.say(switch(true))["data"]["changed"], false);
        let expected = if stops { "kill_switch" } else { "run" };
        assert_eq!(world.result("read", &json!({}), None), expected, "{kill}");
        assert_eq!(world.say(switch(false))["data"]["changed"], true);
        assert_eq!(world.say(switch(false))["data"]["changed"], false);
        assert_eq!(world.result("read", &json!({}), None), "run", "{kill}");
    }
}

#[test]
fn a_kill_switch_needs_a_name_that_exists() {
    let mut world = World::new();
    for on in [true, false] {
        for scope in [json!({ "provider": "mok" }), json!({ "group": "develper" })] {
            let refused = world.say(json!({ "type": "kill", "scope": scope, "on": on }));
            let text = refused.to_string();
            assert!(text.contains("invalid_params") && text.contains("did you mean"), "{text}");
        }
    }
}

#[test]
fn a_stopped_provider_is_not_told_to_a_group_without_a_grant() {
    let mut world = World::new();
    world.say(json!({ "type": "kill", "scope": { "provider": "mock" }, "on": true }));
    assert_eq!(world.result("read", &json!({}), None), "no_grant");
    world.say(json!({ "type": "kill", "scope": { "group": "developer" }, "on": true }));
    assert_eq!(world.result("read", &json!({}), None), "kill_switch");
    assert_eq!(world.facts("read", &json!({}), None).kill, Some(policy::facts::KilledBy::Caller));
    world.say(json!({ "type": "kill", "scope": "all", "on": true }));
    assert_eq!(world.facts("read", &json!({}), None).kill, Some(policy::facts::KilledBy::Everything));
}

#[test]
fn a_call_demands_what_its_parameters_make_of_it_and_never_less_than_its_action_declares() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 2 }));
    assert_eq!(world.result("read", &json!({ "level": 2 }), None), "run");
    assert_eq!(world.result("read", &json!({ "level": 3 }), None), "level_too_low");
    world.grant(json!({ "access_level": 1 }));
    assert_eq!(world.result("write", &json!({ "level": 1 }), None), "level_too_low");
}

#[test]
fn parameters_and_guardrails_speak_after_the_grant() {
    let mut world = World::new();
    assert_eq!(world.result("read", &json!({ "fault": 1 }), None), "no_grant");
    world.grant(json!({ "access_level": 1 }));
    assert_eq!(world.result("read", &json!({ "fault": 1 }), None), "invalid_params");
    let ParamsFact::Faulty(faults) = world.facts("read", &json!({ "fault": 1 }), None).params else { panic!() };
    assert_eq!(faults, ["/fault: is not known", "something is missing"]);
    assert_eq!(world.result("read", &json!({ "guard": "refuse" }), None), "repo_not_allowed");
    assert_eq!(world.result("read", &json!({ "guard": "remote" }), None), "prepare");
}

#[test]
fn a_call_is_prepared_once() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 1 }));
    let mut call = world.call("developer", "read", &json!({ "guard": "remote" }), None);
    call.prepared = Prepared::Complete;
    let batch = world.ledger.batch(Durability::Full, vec![Event::Prepared(Box::new(call))], &mut world.broker);
    let Some(Committed::Close(_, Some(settled))) = batch.committed.into_iter().next() else { panic!() };
    let reply: Reply = serde_json::from_slice(&settled.into_document().1).unwrap();
    assert_eq!(reply.code.as_deref(), Some("guardrail"));
}

#[test]
fn asking_the_remote_counts_as_a_call() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 1, "rate_per_minute": 1 }));
    assert_eq!(world.result("read", &json!({ "guard": "remote" }), None), "prepare");
    assert_eq!(world.result("read", &json!({}), None), "rate_limited");
}

/// Attack (Cards): One person answers twice for a quorum.
/// Defence: A quorum needs different persons.
#[test]
fn a_quorum_is_different_people_and_one_no_is_enough() {
    for (second, state) in [(true, "approved"), (false, "denied")] {
        let mut world = World::new();
        world.grant(json!({ "access_level": 3 }));
        let alice = world.dispatcher.uid;
        assert_eq!(world.result("ask", &json!({}), None), "ask");
        let open = approvals::open(world.ledger.view(), None).unwrap();
        let code = open.last().unwrap().code.clone();
        let answer = |yes: bool| json!({ "type": "answer", "code": code, "yes": yes, "reason": null });
        world.dispatcher.uid = alice;
        let first = world.say(answer(true));
        assert_eq!(
            (&first["data"]["state"], &first["summary"]),
            (&json!("waiting"), &json!("Your yes counts: 1 of 2."))
        );
        assert_eq!(world.say(answer(true))["code"], "guardrail", "the same person again");
        assert_eq!(world.say(answer(false))["code"], "guardrail", "nobody takes an answer back");
        world.dispatcher.uid = alice + 1;
        assert_eq!(world.say(answer(second))["data"]["state"], state);
        world.dispatcher.uid = alice;
        assert_eq!(world.say(answer(true))["code"], "approval_expired", "it is decided");
    }
}

#[test]
fn a_grant_that_is_bound_to_chats_gives_nothing_to_a_call_that_comes_from_none() {
    for bound in [json!({ "chat_types": ["private"] }), json!({ "chat_ids": ["c1"] })] {
        let mut world = World::new();
        let mut grant = json!({ "access_level": 1 });
        grant.as_object_mut().unwrap().extend(bound.as_object().unwrap().clone());
        world.grant(grant);
        assert_eq!(world.result("read", &json!({}), None), "context_token_missing", "{bound}");
    }
}

#[test]
fn a_grant_that_is_bound_to_chats_is_for_persons_in_them() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 1, "chat_types": ["private", "group"], "chat_ids": ["c1", "c2"] }));
    let mut chats = |chat_id: Option<&str>, chat_type: Option<ChatType>| {
        let mut call = world.call("developer", "read", &json!({}), None);
        let person = Person::new("broker".to_owned(), "ann".to_owned());
        let person = Person { chat_id: chat_id.map(str::to_owned), chat_type, ..person };
        call.header.behalf = Subject::Person(Arc::new(person));
        let now = Timestamp::from_millis(START);
        let judged =
            judge(world.ledger.view(), (now, world.ledger.steady()), &call, &policy(&world.dispatcher.config), None)
                .unwrap();
        let GrantFact::Live(grant) = judged.0.grant else { panic!("{:?}", judged.0.grant) };
        grant.chats
    };
    assert_eq!(chats(Some("c1"), Some(ChatType::Private)), ChatsFact::Here);
    assert_eq!(chats(Some("c2"), Some(ChatType::Group)), ChatsFact::Here);
    for (chat_id, chat_type) in [
        (Some("c3"), Some(ChatType::Private)),
        (Some("c1"), Some(ChatType::Channel)),
        (None, Some(ChatType::Private)),
        (Some("c1"), None),
        (None, None),
    ] {
        assert_eq!(chats(chat_id, chat_type), ChatsFact::Elsewhere, "{chat_id:?} {chat_type:?}");
    }
}

#[test]
fn a_task_is_usable_while_it_is_open_by_the_group_that_it_is_assigned_to() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 2 }));
    world.task("gov-1", "developer");
    world.task("gov-2", "finance");
    assert_eq!(world.result("write", &json!({}), Some("gov-1")), "run");
    assert_eq!(world.result("write", &json!({}), Some("gov-2")), "task_unknown");
    assert_eq!(world.result("write", &json!({}), Some("gov-3")), "task_unknown");
    assert_eq!(world.result("read", &json!({}), Some("gov-3")), "run");
    for (task, cancelled) in [("gov-1", false), ("gov-4", true)] {
        if cancelled {
            world.task(task, "developer");
            assert_eq!(world.facts("write", &json!({}), Some(task)).task, TaskFact::Usable);
        }
        let close = json!({ "type": "task_close", "task_id": task, "cancelled": cancelled });
        assert_eq!(world.say(close.clone())["status"], "executed");
        assert_eq!(world.say(close)["code"], "task_unknown");
        assert_eq!(world.result("write", &json!({}), Some(task)), "task_unknown");
    }
}

#[test]
fn a_gate_opens_once_for_one_call_of_its_task() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Security" }));
    world.task("gov-1", "developer");
    world.task("gov-2", "developer");
    assert_eq!(world.result("produce", &json!({}), None), "task_required");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
    assert_eq!(world.approve("Security", "gov-1")["status"], "executed");
    assert_eq!(world.result("produce", &json!({}), Some("gov-2")), "gate_missing");
    // Neither a read nor a write nor a refused call spends it.
    assert_eq!(world.result("read", &json!({}), Some("gov-1")), "run");
    assert_eq!(world.result("write", &json!({}), Some("gov-1")), "run");
    assert_eq!(world.result("produce", &json!({ "fault": 1 }), Some("gov-1")), "invalid_params");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "run");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
    let spent: i64 = rusqlite::Connection::open(world.home.path().join("ledger.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM gate_approvals WHERE spent_by IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(spent, 1);
}

#[test]
fn preparing_a_production_call_does_not_spend_its_gate() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Security" }));
    world.task("gov-1", "developer");
    world.approve("Security", "gov-1");
    assert_eq!(world.result("produce", &json!({ "guard": "remote" }), Some("gov-1")), "prepare");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "run");
}

#[test]
fn two_production_calls_in_one_batch_do_not_share_one_approval() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Security" }));
    world.task("gov-1", "developer");
    world.approve("Security", "gov-1");
    let calls = vec![
        world.call("developer", "produce", &json!({}), Some("gov-1")),
        world.call("developer", "produce", &json!({}), Some("gov-1")),
    ];
    let batch = world.admit(Durability::Full, calls);
    let started = batch.committed.iter().filter(|one| matches!(one, Committed::Start(_))).count();
    assert_eq!((started, batch.committed.len()), (1, 2));
}

#[test]
fn an_approval_opens_only_the_gate_that_the_grant_names() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3 }));
    world.task("gov-1", "developer");
    world.approve("Security", "gov-1");
    assert_eq!(world.facts("produce", &json!({}), Some("gov-1")).gate, GateFact::NotConfigured);
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Both" }));
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
}

#[test]
fn a_quorum_takes_different_approvers_and_spends_one_approval_of_each() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Both" }));
    world.task("gov-1", "developer");
    world.approve("Both", "gov-1");
    world.approve("Both", "gov-1");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
    assert_eq!(world.approve_as("security", "Both", "gov-1"), "executed");
    assert_eq!(world.approve_as("finance", "Both", "gov-1"), "executed");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "run");
    // Finance's is still there; the person's second one was none.
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
    world.approve("Both", "gov-1");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "run");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
}

#[test]
fn gates_are_opened_by_named_groups_and_never_for_their_own_tasks() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Security" }));
    world.task("gov-1", "developer");
    assert_eq!(world.approve_as("developer", "Security", "gov-1"), "guardrail");
    assert_eq!(world.approve_as("finance", "Security", "gov-1"), "guardrail");
    assert_eq!(world.approve_as("main", "Security", "gov-1"), "guardrail");
    assert_eq!(world.approve_as("security", "Security", "gov-2"), "task_unknown");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
}

#[test]
fn an_approval_by_the_calling_group_itself_does_not_count() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Security" }));
    world.task("gov-1", "developer");
    // The directive refuses it; the decision does not rely on that.
    let path = world.home.path().join("ledger.db");
    let insert = |by: &str| {
        let beside = rusqlite::Connection::open(&path).unwrap();
        beside
            .execute(
                "INSERT INTO gate_approvals (task, gate, approved_by, approved_at) VALUES ('gov-1', 'Security', ?1, 0)",
                [by],
            )
            .unwrap();
    };
    insert("group:developer");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "gate_missing");
    insert("group:security");
    assert_eq!(world.result("produce", &json!({}), Some("gov-1")), "run");
}

#[test]
fn a_gate_that_takes_nobody_is_closed() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3, "requires_task_gate": "Security" }));
    world.task("gov-1", "developer");
    let call = world.call("developer", "produce", &json!({}), Some("gov-1"));
    let policy = Policy { quorum: [("Security".parse().unwrap(), 0)].into(), ..Policy::default() };
    let (facts, _) =
        judge(world.ledger.view(), (Timestamp::from_millis(START), world.ledger.steady()), &call, &policy, None)
            .unwrap();
    assert_eq!(facts.gate, GateFact::Closed("Security".parse().unwrap()));
}

/// Spends the first approval for each event, as if it had been found unspent.
struct Spender;

impl BatchWriter<Event> for Spender {
    type FollowUps = ();

    fn write<'tx>(&mut self, tx: &Transaction<'tx>, event: Event) -> Result<Step<'tx, Event>, WriteError<Event>> {
        match gates::spend(tx, &[1], 7) {
            Ok(()) => Ok(kernel::close(tx, event, None)),
            Err(error) => Err(WriteError { event, error }),
        }
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}

#[test]
fn an_approval_cannot_be_spent_twice_even_by_mistake() {
    let mut world = World::new();
    world.task("gov-1", "developer");
    world.approve("Security", "gov-1");
    let batch = world.ledger.batch(Durability::Full, vec![Event::Started, Event::Started], &mut Spender);
    assert_eq!((batch.committed.len(), batch.unwritten.len()), (1, 1));
}
