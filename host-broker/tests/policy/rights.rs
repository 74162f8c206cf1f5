//! Which person may give which command: a table of every command of the control protocol.

use crate::policy::world::World;
use engine::request::Command;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The callers besides the daemon's own user. Adam administers and approves up to L2. Anna approves everything. Rita
/// relays. Greg has a login and nothing else.
const PEOPLE: &str = "
[people.adam]
uid = 77001
admin = true
approves = { max_level = 2, groups = [\"developer\"] }
[people.anna]
uid = 77002
approves = {}
[people.rita]
uid = 77003
can_relay_answers = true
[people.greg]
uid = 77004
";
const OTHERS: [u32; 4] = [77001, 77002, 77003, 77004];

/// Every command that becomes a row, and whether each of these has the right: `y` yes, `n` refused. Refusals by the
/// command's own check are not in this table.
fn table() -> Vec<(Value, &'static str)> {
    let grant = |level: u8, group: &str| json!({ "type": "grant", "group_folder": group, "provider": "mock", "access_level": level });
    let digest = format!("sha256:{}", "0".repeat(64));
    let account = json!({ "person": "broker:ann", "capability": "team.tasks", "account_ref": "a" });
    let with = |kind: &str, more: Value| {
        let mut document = account.clone();
        document["type"] = kind.into();
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document
    };
    vec![
        //                                                         own adam anna rita greg
        (grant(0, "security"), "yynnn"),
        (grant(1, "developer"), "yynnn"),
        (grant(2, "developer"), "yynnn"),
        (grant(3, "developer"), "ynnnn"),
        (grant(1, "security"), "ynnnn"),
        (json!({ "type": "revoke", "group_folder": "developer", "provider": "mock" }), "yynnn"),
        (json!({ "type": "list" }), "yyynn"),
        (json!({ "type": "task_create", "title": "t", "group_folder": "developer", "task_id": "gov-1" }), "yynnn"),
        (json!({ "type": "task_close", "task_id": "gov-1", "cancelled": false }), "yynnn"),
        (json!({ "type": "gate_approve", "task_id": "gov-1", "gate": "Security" }), "ynnnn"),
        (json!({ "type": "answer", "code": "aaaaaa", "yes": true, "reason": null }), "yyyyy"),
        (json!({ "type": "end_standing_approval", "name": "standing-1" }), "yyyyy"),
        (json!({ "type": "revert", "id": "hitl-00000000-0000-4000-8000-000000000000" }), "yyyyy"),
        (json!({ "type": "release", "id": "q-1" }), "yyyyy"),
        (json!({ "type": "accept_definitions", "provider": "mock", "digest": digest }), "yynnn"),
        (with("link_account", json!({})), "yynnn"),
        (json!({ "type": "unlink_accounts", "person": "broker:ann" }), "yynnn"),
        (json!({ "type": "purge_group", "group": "developer" }), "yynnn"),
        (with("share_account", json!({ "with": "broker:bob", "on": true })), "yynnn"),
        (json!({ "type": "renew_vault", "forget": false }), "yynnn"),
        (json!({ "type": "flow", "vault": "default", "request": { "type": "flow_list" } }), "yyynn"),
        (
            json!({ "type": "mint_operator", "parts": [], "scopes": [], "vault": "default", "life_seconds": 1, "label": "x" }),
            "yynnn",
        ),
        (json!({ "type": "revoke_operator", "token_id": format!("optk_{}", "0".repeat(24)) }), "yynnn"),
        (json!({ "type": "list_operators" }), "yynnn"),
        (json!({ "type": "kill", "scope": "all", "on": false }), "yynnn"),
        (json!({ "type": "kill", "scope": { "provider": "mock" }, "on": false }), "yynnn"),
        (json!({ "type": "kill", "scope": { "group": "developer" }, "on": false }), "yynnn"),
        (json!({ "type": "publish_policy", "files": {} }), "yynnn"),
        (json!({ "type": "accept_clock" }), "yynnn"),
        (json!({ "type": "reset_session", "group": "developer" }), "yynnn"),
        (json!({ "type": "settle", "request_id": "r1", "happened": true, "note": "seen" }), "yynnn"),
    ]
}

/// Returns the word of each command. A new one does not compile until it is in a table.
fn word(command: &Command) -> &'static str {
    match command {
        Command::Grant(_) => "grant",
        Command::Narrow(_) => "narrow",
        Command::Revoke(_) => "revoke",
        Command::List(_) => "list",
        Command::TaskCreate(_) => "task_create",
        Command::TaskClose { .. } => "task_close",
        Command::GateApprove(_) => "gate_approve",
        Command::Answer { .. } => "answer",
        Command::EndStandingApproval { .. } => "end_standing_approval",
        Command::Revert { .. } => "revert",
        Command::AcceptDefinitions { .. } => "accept_definitions",
        Command::LinkAccount { .. } => "link_account",
        Command::UnlinkAccounts { .. } => "unlink_accounts",
        Command::PurgeGroup { .. } => "purge_group",
        Command::ShareAccount { .. } => "share_account",
        Command::RenewVault { .. } => "renew_vault",
        Command::PublishPolicy { .. } => "publish_policy",
        Command::Flow { .. } => "flow",
        Command::MintOperator(_) => "mint_operator",
        Command::RevokeOperator { .. } => "revoke_operator",
        Command::ListOperators => "list_operators",
        Command::Kill { .. } => "kill",
        Command::Release { .. } => "release",
        Command::AcceptClock => "accept_clock",
        Command::ResetSession { .. } => "reset_session",
        Command::Settle(_) => "settle",
        // `relaying` covers the answers of a relay. The others come from agents only.
        Command::RelayedAnswer(_)
        | Command::Capabilities(_)
        | Command::ListCalls(_)
        | Command::ListTasks(_)
        | Command::Result(_)
        | Command::Cancel(_)
        | Command::RequestAccess(_)
        | Command::Plan(_)
        | Command::Begin(_)
        | Command::ReadFlow(_) => "elsewhere",
    }
}

/// Attack (The host): A person with a login grants, stops or creates tokens without the right.
/// Defence: `rights`: administration needs `admin = true`, the daemon's user, or root. A grant also
/// needs `approves` up to its level. Each refusal is a row.
#[test]
fn every_command_is_given_by_those_who_have_the_right_and_refused_to_all_others_with_a_row() {
    let mut world = World::with_people(PEOPLE);
    let own = world.dispatcher.uid;
    let mut covered = BTreeSet::new();
    for (document, expected) in table() {
        let command: Command =
            serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{document}: {error}"));
        covered.insert(word(&command));
        let mut found = String::new();
        for uid in [own].into_iter().chain(OTHERS) {
            world.dispatcher.uid = uid;
            let head = world.ledger.head().seq;
            let reply = world.say(document.clone());
            let error = reply["error"].as_str().unwrap_or_default();
            let lacks = ["may not administer", "may not do this", "may not grant", "does not let this caller"];
            let is_refused = lacks.iter().any(|lacks| error.contains(lacks));
            found.push(if is_refused { 'n' } else { 'y' });
            if is_refused {
                assert_eq!(reply["code"], "guardrail", "{document}: {reply}");
                let row = world.ledger.row(head + 1).unwrap().unwrap();
                assert_eq!(row.kind, "refused", "{document}");
            }
        }
        assert_eq!(found, expected, "{document}");
    }
    assert_eq!(covered.len(), 25, "every command that becomes a row is in the table");
}

#[test]
fn a_refusal_names_the_line_that_gives_the_right() {
    let mut world = World::with_people(PEOPLE);
    let mut said = |uid: u32, document: Value| {
        world.dispatcher.uid = uid;
        world.say(document)["error"].as_str().unwrap().to_owned()
    };
    let kill = || json!({ "type": "kill", "scope": "all", "on": true });
    assert_eq!(said(77002, kill()), "anna may not administer; [people.anna] in broker.toml needs `admin = true`.");
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 3 });
    let error = said(77001, grant);
    for part in ["adam may not grant L3", "mock", "developer", "`approves` of [people.adam]"] {
        assert!(error.contains(part), "{error}");
    }
}
