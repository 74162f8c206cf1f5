//! Each notice that a channel gets without a card, and each reply to an answer from a chat.

use super::{PROFILE, is_current, normalised};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tests::group::{call, code};
use tests::visitor::Visitor;
use tests::world::CONFIG;
use tests::{World, until};

const PEOPLE: &str = "
[people.alice]
uid = 77001
approves = {}
chat = [\"telegram:12345\"]
[people.carol]
uid = 77002
chat = [\"telegram:67890\"]
";

/// The file of the channel `ops`.
fn file(world: &World) -> PathBuf {
    world.outside().join("ops")
}

/// A world with a channel for every event.
fn world(more: &str) -> World {
    let mut world =
        World::builder().config(&format!("{CONFIG}{more}")).file("policy/profiles/developer.toml", PROFILE).down();
    let (text, file) =
        (std::fs::read_to_string(world.path("broker.toml")).unwrap(), file(&world).display().to_string());
    world.rewrite(
        "broker.toml",
        &format!(
            "{text}{PEOPLE}\n[[channels]]\nname = \"ops\"\nkind = \"command\"\nevents = [\"asked\", \"answered\", \"lapsed\"]\n\
             command = [\"/bin/sh\", \"-c\", \"cat >> \\\"$0\\\"\", {file:?}]\n"
        ),
    );
    world.start();
    world
}

/// Waits for so many notices, and returns the last of them.
fn notice(world: &World, number: usize) -> Value {
    until("the notice", || {
        let text = std::fs::read_to_string(file(world)).ok()?;
        serde_json::from_str(text.lines().nth(number - 1)?).ok()
    })
}

fn compare(world: &World, name: &str, notice: &Value) {
    let document = serde_json::to_string_pretty(notice).unwrap();
    let text = format!("{}\n\n{document}\n", notice["text"].as_str().unwrap());
    is_current(&format!("notice-{name}.txt"), &normalised(world, &text));
}

/// Sends a call that needs a person. Returns its id and the code.
fn ask(world: &World, n: u8) -> (String, String) {
    let id = world.group("developer").send(call("charge", json!({ "n": n })));
    let code = until("the approval request", || {
        let waiting = world.query("SELECT code, request_id FROM approvals WHERE state = 'waiting'");
        Some(waiting.into_iter().find(|row| row["request_id"] == id)?["code"].as_str()?.to_owned())
    });
    (id, code)
}

fn answer(world: &World, code_of_it: &str, yes: bool) {
    let reply = world.command(json!({ "type": "answer", "code": code_of_it, "yes": yes, "reason": "not on a Friday" }));
    assert_eq!(code(&reply), "executed", "{reply}");
}

#[test]
fn the_notices_of_each_event() {
    let world = world("\n[notices]\nlink_base = \"https://broker.example/inbox\"\n");
    world.grant("developer", 2);
    let (_, first) = ask(&world, 1);
    notice(&world, 1);
    let (cancelled, _) = ask(&world, 2);
    compare(&world, "asked-others", &notice(&world, 2));
    answer(&world, &first, true);
    compare(&world, "approved", &notice(&world, 3));
    world.group("developer").ask(json!({ "type": "ext_cancel", "of": cancelled }));
    compare(&world, "withdrawn", &notice(&world, 4));
    let (_, denied) = ask(&world, 3);
    notice(&world, 5);
    answer(&world, &denied, false);
    compare(&world, "denied", &notice(&world, 6));
    ask(&world, 4);
    notice(&world, 7);
    world.clock.advance(Duration::from_secs(301));
    compare(&world, "lapsed", &notice(&world, 8));
}

/// Changes the time of the first row as another process can. The trigger against that is there afterwards.
fn tamper(world: &World, by: i64) {
    let database = Connection::open(world.path("ledger.db")).unwrap();
    let trigger = "SELECT sql FROM sqlite_schema WHERE name = 'ledger_is_append_only_update'";
    let trigger: String = database.query_row(trigger, [], |row| row.get(0)).unwrap();
    let drop = "DROP TRIGGER ledger_is_append_only_update";
    let change = format!("UPDATE ledger SET ts = ts + {by} WHERE seq = 1");
    database.busy_timeout(tests::DEADLINE).unwrap();
    database.execute_batch(&format!("BEGIN IMMEDIATE; {drop}; {change}; {trigger}; COMMIT")).unwrap();
}

#[test]
fn the_notice_of_broken_evidence() {
    let world = world("\n[web]\nlisten = \"127.0.0.1:0\"\n");
    // Other stores have no file that can be changed.
    if !world.path("ledger.db").exists() {
        return;
    }
    world.grant("developer", 2);
    world.settle();
    tamper(&world, 1);
    let mut operator = Visitor::signed_in(&world);
    let form = operator.get("/evidence").field("form");
    assert_eq!(operator.post("/evidence/verify", &[("form", &form)]).status, 303);
    compare(&world, "evidence", &notice(&world, 1));
    tamper(&world, -1);
}

#[test]
fn the_replies_to_answers_from_a_chat() {
    let world = world("");
    world.grant("developer", 2);
    world.grant_with("security", 1, json!({}));
    let (_, approved) = ask(&world, 1);
    let (_, denied) = ask(&world, 2);
    world
        .group("main")
        .send(json!({ "type": "ext_grant", "group_folder": "security", "provider": "demo", "access_level": 2 }));
    let grant = until("the approval request", || {
        let found = world.query("SELECT code FROM approvals WHERE kind = 'grant'").pop()?;
        Some(found["code"].as_str()?.to_owned())
    });
    let mut text = String::new();
    for (from, said) in [
        ("telegram:12345", "ok".to_owned()),
        ("telegram:1", format!("approve {approved}")),
        ("telegram:67890", format!("approve {approved}")),
        ("telegram:12345", "approve zzzzzz".to_owned()),
        ("telegram:12345", format!("approve {grant}")),
        ("telegram:12345", format!("approve {approved}")),
        ("telegram:12345", format!("approve {approved}")),
        ("telegram:12345", format!("deny {denied} because it is Friday")),
        ("somebody", format!("deny {denied}")),
    ] {
        let reply = world.command(json!({ "type": "chat_answer", "from": from, "text": said }));
        let words = reply["error"].as_str().or(reply["summary"].as_str()).unwrap_or_else(|| panic!("{reply}"));
        writeln!(text, "{from}: {said}\n{}: {words}\n", code(&reply)).unwrap();
        if code(&reply) == "executed" && said.ends_with(&approved) {
            let spent = format!("SELECT code FROM approvals WHERE code = '{approved}' AND 'spent' IN (state, became)");
            until("the use of the approval", || world.query(&spent).pop());
        }
    }
    is_current("chat-replies.txt", &normalised(&world, &text));
}
