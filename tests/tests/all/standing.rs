//! Standing approvals: a yes that also covers later calls like the one on the card, and nothing that the card did not
//! say.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tests::group::{Group, call, code, error, with};
use tests::world::{CONFIG, EXPOSING, SCRIPT};
use tests::{World, until};

const MAIL: &str = "
[actions.mail]
level = 2
human = true
append_to = \"mail.log\"
exposes = [\"egress\"]
may_vary = [\"subject\", \"text\"]
";

const PROFILE: &str = "write = \"human\"\n";

const PEOPLE: &str = "[people.ada]\nuid = 77001\napproves = {}\nchat = [\"whatsapp:ada\"]\n";

fn world() -> World {
    let world = World::builder()
        .config(&format!("{CONFIG}\n{PEOPLE}"))
        .script("demo", &format!("{SCRIPT}\n{EXPOSING}\n{MAIL}"))
        .file("policy/profiles/developer.toml", PROFILE)
        .file("policy/profiles/security.toml", PROFILE)
        .up();
    world.grant("developer", 2);
    world.grant("security", 2);
    world
}

fn mail(to: &str, subject: &str) -> Value {
    call("mail", json!({ "to": to, "subject": subject }))
}

/// Waits for the approval request about a call, and returns its code and its reasons.
fn asked(world: &World, id: &str) -> (String, String) {
    until("the approval request", || {
        let found = world.query("SELECT code, request_id, asks FROM approvals WHERE state = 'waiting'");
        let found = found.into_iter().find(|approval| approval["request_id"] == id)?;
        Some((found["code"].as_str()?.to_owned(), found["asks"].as_str()?.to_owned()))
    })
}

fn answer(world: &World, code: &str, scope: &Value) -> Value {
    world.command(json!({ "type": "answer", "code": code, "yes": true, "reason": null, "standing": scope }))
}

/// Has a person approve this call with such a scope. Returns the name of the standing approval.
fn given(world: &World, group: &Group, document: Value, scope: &Value) -> String {
    let id = group.send(document);
    let reply = answer(world, &asked(world, &id).0, scope);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(code(&group.reply(&id)), "executed");
    reply["data"]["standing"].as_str().unwrap().to_owned()
}

/// Sends a call. Returns its id, and the code of its approval request if a person is asked; otherwise it is executed.
fn sent(world: &World, group: &Group, document: Value) -> (String, Option<String>) {
    let id = group.send(document);
    let code = until("a reply or an approval request", || {
        let waits = world.query("SELECT code, request_id FROM approvals WHERE state = 'waiting'");
        let waits = waits.into_iter().find(|approval| approval["request_id"] == id.as_str());
        match (waits, group.try_reply(&id)) {
            (Some(approval), _) => Some(Some(approval["code"].as_str().unwrap().to_owned())),
            (None, Some(reply)) => {
                assert_eq!(reply["code"], Value::Null, "{reply}");
                Some(None)
            }
            (None, None) => None,
        }
    });
    (id, code)
}

/// Whether a person is asked about this call; the request is withdrawn then.
fn asks(world: &World, group: &Group, document: Value) -> bool {
    let (id, secret) = sent(world, group, document);
    if secret.is_some() {
        assert_eq!(code(&group.ask(json!({ "type": "ext_cancel", "of": id }))), "executed");
        group.reply(&id);
    }
    secret.is_some()
}

/// Makes this call, with a person's yes if it needs one.
fn executed(world: &World, group: &Group, document: Value) {
    let (id, secret) = sent(world, group, document);
    if let Some(secret) = secret {
        assert_eq!(code(&answer(world, &secret, &Value::Null)), "executed");
        assert_eq!(code(&group.reply(&id)), "executed");
    }
}

fn hour() -> Value {
    json!({ "for_s": 3600 })
}

fn uses(world: &World) -> Value {
    world.query("SELECT uses FROM standing_approvals")[0]["uses"].clone()
}

/// Attack (Order of the stages, and content): A call differs from the one on the card of a standing
/// approval: letter case, one recipient more, an absent or additional parameter, a task, another
/// group.
/// Defence: The pattern compares every parameter; one that it does not name must be absent. A
/// digest covers everything else.
#[test]
fn a_standing_approval_covers_later_calls_like_the_one_on_the_card_and_no_others() {
    let world = world();
    let developer = world.group("developer");
    let name = given(&world, &developer, mail("bob@example.com", "one"), &hour());
    assert_eq!(name, "standing-1");
    assert_eq!(uses(&world), 0, "the call on the card has its own approval");

    for document in [
        mail("bob@example.com", "two"),
        mail("bob@example.com", "one"),
        call("mail", json!({ "to": "bob@example.com" })),
        call("mail", json!({ "to": "bob@example.com", "subject": { "deep": [1] }, "text": "x" })),
        with(mail("bob@example.com", "three"), "idempotency_key", "k-1"),
    ] {
        assert!(!asks(&world, &developer, document.clone()), "{document}");
    }
    assert_eq!((uses(&world), world.effects_of("mail").len()), (json!(5), 6));
    let intents = world.query("SELECT approval FROM ledger WHERE kind = 'intended' AND action = 'mail' ORDER BY seq");
    assert_eq!(intents.iter().filter(|row| row["approval"] == "standing-1").count(), 5, "{intents:?}");
    assert!(intents[0]["approval"].as_str().unwrap().starts_with("ask-"));
    // The same call again is not made again.
    let again = developer.ask(with(mail("bob@example.com", "three"), "idempotency_key", "k-1"));
    assert_eq!((code(&again), uses(&world)), ("executed", json!(5)));

    for document in [
        mail("Bob@example.com", "two"),
        mail("eve@example.com", "two"),
        call("mail", json!({ "subject": "two" })),
        call("mail", json!({ "to": ["bob@example.com"], "subject": "two" })),
        call("mail", json!({ "to": "bob@example.com", "subject": "two", "cc": "eve@example.com" })),
        call("mail", json!({ "to": "bob@example.com", "subject": "two", "cc": null })),
        call("charge", json!({ "to": "bob@example.com", "subject": "two" })),
    ] {
        assert!(asks(&world, &developer, document.clone()), "{document}");
    }
    assert!(asks(&world, &world.group("security"), mail("bob@example.com", "two")), "another group");
    assert_eq!(
        code(
            &world.command(
                json!({ "type": "task_create", "title": "t", "group_folder": "developer", "task_id": "gov-1" })
            )
        ),
        "executed"
    );
    assert!(asks(&world, &developer, with(mail("bob@example.com", "two"), "task_id", "gov-1")), "with a task");
    assert_eq!((uses(&world), world.effects_of("mail").len()), (json!(5), 6));
}

#[test]
fn a_person_narrows_it_and_an_action_that_declares_nothing_keeps_every_parameter() {
    let world = world();
    let developer = world.group("developer");
    given(&world, &developer, mail("bob@example.com", "one"), &json!({ "for_s": 3600, "fixed": ["subject"] }));
    assert!(asks(&world, &developer, mail("bob@example.com", "two")));
    assert!(!asks(&world, &developer, call("mail", json!({ "to": "bob@example.com", "subject": "one", "text": "x" }))));
    given(&world, &developer, call("charge", json!({ "cents": 5 })), &hour());
    assert!(!asks(&world, &developer, call("charge", json!({ "cents": 5 }))));
    for other in [json!({ "cents": 6 }), json!({}), json!({ "cents": 5, "ms": 0 }), json!({ "cents": 5.0 })] {
        assert!(asks(&world, &developer, call("charge", other.clone())), "{other}");
    }
}

/// Attack: see `the_combination_is_covered_only_where_it_is_named_and_with_nothing_read_since`.
#[test]
fn a_standing_approval_ends_with_its_time_session_policy_or_approver_or_by_a_command() {
    let mut world = world();
    let developer = world.group("developer");
    let again = || mail("bob@example.com", "again");
    let first = || mail("bob@example.com", "one");

    given(&world, &developer, first(), &hour());
    assert!(!asks(&world, &developer, again()));
    world.clock.advance(Duration::from_secs(3601));
    assert!(asks(&world, &developer, again()), "its time is over");

    let name = given(&world, &developer, first(), &hour());
    let end = json!({ "type": "end_standing_approval", "name": name });
    assert_eq!(code(&world.command(end.clone())), "executed");
    assert!(
        error(&world.command(json!({ "type": "end_standing_approval", "name": "standing-99" })))
            .contains("no standing approval")
    );
    assert!(asks(&world, &developer, again()), "a person ended it");
    assert!(world.rows().iter().any(|row| row.kind == "standing_ended"));
    assert!(world.command(end)["summary"].as_str().unwrap().contains("as before"));

    given(&world, &developer, first(), &json!({ "for_s": 3600, "session": true }));
    assert!(!asks(&world, &developer, again()));
    let reset = world.command(json!({ "type": "reset_session", "group": "developer" }));
    assert_eq!(reset["data"]["standing_ended"], json!(["standing-3"]), "{reset}");
    assert!(asks(&world, &developer, again()), "the session is over");

    given(&world, &developer, first(), &hour());
    world.command(json!({ "type": "reset_session", "group": "developer" }));
    assert!(!asks(&world, &developer, again()), "it is not bound to the session");
    world.stop();
    world.rewrite("policy/profiles/developer.toml", "write = \"human\"\nread = \"auto\"\n");
    world.start();
    assert!(asks(&world, &developer, again()), "the profile is another one");

    given(&world, &developer, first(), &hour());
    assert!(!asks(&world, &developer, again()));
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let (before, operator) = config.split_once("[people.operator]").unwrap();
    let operator = operator.replacen("approves = {}", "approves = { max_level = 1 }", 1);
    world.stop();
    world.rewrite("broker.toml", &format!("{before}[people.operator]{operator}"));
    world.start();
    assert!(asks(&world, &developer, again()), "its approver may not approve it any more");
    world.stop();
    world.rewrite("broker.toml", &config);
    world.start();
    assert!(!asks(&world, &developer, again()), "and now again");
    for (line, why) in [
        ("[approvals]\nstanding_max_s = 0\n", "an operator has switched them off"),
        ("[approvals]\nstanding_max_s = 1\n", "an operator has shortened them"),
        ("[people.cleo]\nuid = 77009\napproves = {}\n[approvals.actions.demo.mail]\nquorum = 2\n", "it takes two"),
    ] {
        world.stop();
        world.rewrite("broker.toml", &format!("{config}\n{line}"));
        world.start();
        world.clock.advance(Duration::from_secs(2));
        assert!(asks(&world, &developer, again()), "{why}");
    }
    world.stop();
    world.rewrite("broker.toml", &config);
    world.start();
    assert!(!asks(&world, &developer, again()), "and again");

    assert_eq!(code(&world.command(json!({ "type": "kill", "scope": "all", "on": true }))), "executed");
    assert_eq!(code(&developer.ask(again())), "kill_switch");
    world.command(json!({ "type": "kill", "scope": "all", "on": false }));
    world.command(json!({ "type": "revoke", "group_folder": "developer", "provider": "demo" }));
    assert_eq!(code(&developer.ask(again())), "no_grant", "every other step is judged as usual");
    assert!(
        world
            .query("SELECT pattern FROM standing_approvals WHERE ended_at IS NOT NULL")
            .iter()
            .all(|row| row["pattern"].is_null())
    );
}

/// Attack (Order of the stages, and content): A standing approval is used after another read,
/// another policy, or the loss of its approver's right.
/// Defence: Each makes the call ask again.
#[test]
fn the_combination_is_covered_only_where_it_is_named_and_with_nothing_read_since() {
    let world = world();
    let developer = world.group("developer");
    let again = || mail("bob@example.com", "again");
    given(&world, &developer, mail("bob@example.com", "one"), &hour());
    for action in ["read_mail", "read_files"] {
        executed(&world, &developer, call(action, json!({})));
    }
    // It did not stand on the card, so a person is asked, for all reasons.
    let id = developer.send(again());
    let (secret, reasons) = asked(&world, &id);
    assert_eq!(reasons, "[\"trifecta\",\"tier\"]");
    let reply = answer(&world, &secret, &json!({ "for_s": 3600 }));
    assert!(reply["summary"].as_str().unwrap().contains("still needs a person"), "{reply}");
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert!(asks(&world, &developer, again()), "the tier alone is covered");

    given(&world, &developer, again(), &json!({ "for_s": 3600, "trifecta": true }));
    assert!(!asks(&world, &developer, again()));
    // An action whose content the card did not name.
    executed(&world, &developer, call("unsaid", json!({})));
    assert!(asks(&world, &developer, again()));
}

#[test]
fn a_scope_that_cannot_be_given_answers_nothing() {
    let world = world();
    let developer = world.group("developer");
    let id = developer.send(mail("bob@example.com", "one"));
    let (secret, _) = asked(&world, &id);
    for (scope, says) in [
        (json!({ "for_s": 59 }), "lasts 60 to 7776000 seconds"),
        (json!({ "for_s": 7_776_001 }), "approvals.standing_max_s"),
        (json!({ "for_s": 3600, "fixed": ["to"] }), "'to' is no parameter that may vary; these may: subject, text"),
    ] {
        let reply = answer(&world, &secret, &scope);
        assert!(error(&reply).contains(says), "{scope}: {reply}");
        assert_eq!(world.query("SELECT state FROM approvals")[0]["state"], "waiting", "{scope}");
    }
    assert!(world.query("SELECT id FROM standing_approvals").is_empty());
    // Parameters that are too large to be stored for later.
    let large = developer.send(call("charge", json!({ "text": "x".repeat(70_000) })));
    let refused = answer(&world, &asked(&world, &large).0, &hour());
    assert!(error(&refused).contains("cannot cover"), "{refused}");
    developer.ask(json!({ "type": "ext_cancel", "of": large }));
    // In a chat an approval is for one call.
    let said = json!({ "type": "chat_answer", "from": "whatsapp:ada", "text": format!("approve {secret} for 8h") });
    assert!(error(&world.command(said)).contains("cannot have conditions"));
    assert_eq!(code(&answer(&world, &secret, &Value::Null)), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    // That was for one call.
    assert!(asks(&world, &developer, mail("bob@example.com", "two")));
}

/// Attack (Order of the stages, and content): A document of a sandbox gives or ends a standing
/// approval.
/// Defence: It is a command of people, on the control socket or in the inbox.
#[test]
fn a_standing_approval_outlives_a_kill_and_no_sandbox_gives_or_ends_one() {
    let mut world = world();
    let developer = world.group("developer");
    let name = given(&world, &developer, mail("bob@example.com", "one"), &hour());
    world.stop();
    world.start_process();
    world.grant("developer", 2);
    // The clock of the process is another one, and its time is over there.
    assert!(asks(&world, &developer, mail("bob@example.com", "two")));
    let id = developer.send(mail("bob@example.com", "one"));
    let secret = asked(&world, &id).0;
    let approved = world.cli(&["approvals", "approve", &secret, "--for", "8h"]);
    let said = String::from_utf8(approved.stdout).unwrap();
    assert!(said.contains(": to as on the card; subject, text as the agent likes."), "{said}");
    assert_eq!(code(&developer.reply(&id)), "executed");
    world.kill();
    world.start_process();
    assert!(!asks(&world, &developer, mail("bob@example.com", "three")));
    let explained = world.cli(&["explain", "developer", "demo.mail", "{\"to\":\"bob@example.com\"}"]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("permit") && explained.contains("covered by standing-2"), "{explained}");
    let used = world.query("SELECT request_id FROM ledger WHERE approval = 'standing-2' AND kind = 'intended'");
    let shown = world.cli(&["calls", "show", used[0]["request_id"].as_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("standing-2") && shown.contains("approved by person:operator"), "{shown}");
    for document in [
        json!({ "type": "end_standing_approval", "name": name }),
        json!({ "type": "answer", "code": "aaaaaa", "yes": true, "reason": null, "standing": hour() }),
    ] {
        assert_eq!(code(&developer.ask(document.clone())), "unknown_type", "{document}");
    }
    let list = |arguments: &[&str]| String::from_utf8(world.cli(arguments).stdout).unwrap();
    let listed = list(&["approvals", "standing", "list"]);
    for part in ["standing-2", "group:developer", "demo.mail", "to = \"bob@example.com\"", "in force", "GIVEN BY"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let listed: Value = serde_json::from_str(&list(&["approvals", "standing", "list", "--json"])).unwrap();
    let one = listed["standing"].as_array().unwrap().iter().find(|one| one["name"] == "standing-2").unwrap();
    assert_eq!((&one["state"], &one["uses"]), (&json!("in force"), &json!(1)), "{one}");
    world.rewrite("policy/profiles/developer.toml", "write = \"human\"\nread = \"auto\"\n");
    assert!(list(&["approvals", "standing", "list"]).contains("suspended"), "another profile");
    world.rewrite("policy/profiles/developer.toml", PROFILE);
    assert!(list(&["approvals", "standing", "end", "standing-2"]).contains("it has covered 1 call"));
    assert!(asks(&world, &developer, mail("bob@example.com", "four")));
    assert!(list(&["approvals", "standing", "list", "--all"]).contains("ended"));
}

#[test]
fn an_action_that_itself_brings_content_is_covered_and_a_card_that_leaves_calls_out_covers_no_combination() {
    let world = world();
    let developer = world.group("developer");
    let all = || json!({ "for_s": 3600, "trifecta": true });
    // It completes the combination alone.
    given(&world, &developer, call("unsaid", json!({})), &all());
    assert!(!asks(&world, &developer, call("unsaid", json!({}))));

    // More actions that bring something than a card names.
    let mut world = World::builder()
        .config(CONFIG)
        .script("demo", &format!("{SCRIPT}\n{EXPOSING}\n{MAIL}{}", many()))
        .file("policy/profiles/developer.toml", PROFILE)
        .up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    for number in 0..8 {
        assert_eq!(code(&developer.call(&format!("read_{number}"), json!({}))), "executed");
    }
    given(&world, &developer, mail("bob@example.com", "one"), &all());
    assert!(!asks(&world, &developer, mail("bob@example.com", "two")));
    world.command(json!({ "type": "end_standing_approval", "name": "standing-1" }));
    executed(&world, &developer, call("read_8", json!({})));
    let id = developer.send(mail("bob@example.com", "three"));
    let secret = asked(&world, &id).0;
    assert!(error(&answer(&world, &secret, &all())).contains("does not name all calls"));
    let reply = answer(&world, &secret, &hour());
    assert!(reply["summary"].as_str().unwrap().contains("still needs a person"), "{reply}");
    world.stop();
}

/// Returns nine actions that bring private data and untrusted content.
fn many() -> String {
    let one = |number| format!("\n[actions.read_{number}]\nlevel = 1\nexposes = [\"sensitive\", \"untrusted\"]\n");
    (0..9).map(one).collect::<Vec<_>>().concat()
}

#[test]
fn of_many_calls_at_once_each_is_counted_and_none_starts_after_the_end_or_twice_after_kills() {
    let mut world = world();
    world.stop();
    world.start_process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let name = given(&world, &developer, mail("bob@example.com", "first"), &json!({ "for_s": 86_400 }));
    let mut sent = Vec::new();
    let mut replies = BTreeMap::new();
    for round in 0..4 {
        for number in 0..6 {
            let document = mail("bob@example.com", &format!("{round}-{number}"));
            sent.push((developer.send(document.clone()), document));
        }
        let some = sent[sent.len() - 4].0.clone();
        until("a beginning", || (!world.kinds_of(&developer, &some).is_empty()).then_some(()));
        world.kill();
        world.start_process();
        // A client that is not answered sends the same request again.
        for (id, document) in &sent {
            if let Some(reply) = developer.try_reply(id) {
                replies.insert(id.clone(), reply);
            }
            if !replies.contains_key(id) {
                developer.send(with(document.clone(), "request_id", id.as_str()));
            }
        }
    }
    let ids: Vec<String> = sent.into_iter().map(|(id, _)| id).collect();
    for id in &ids {
        let reply = replies.remove(id).unwrap_or_else(|| developer.reply(id));
        assert!(matches!(code(&reply), "executed" | "outcome_unknown"), "{reply}");
    }
    let named = || world.query("SELECT seq FROM ledger WHERE approval = 'standing-1' AND kind = 'intended'");
    assert_eq!(named().len(), ids.len());
    assert_eq!(uses(&world), ids.len());
    let effects = world.effects_of("mail");
    assert!(effects.iter().all(|id| effects.iter().filter(|other| *other == id).count() == 1), "{effects:?}");

    // It is ended while calls come in.
    let before: Vec<String> = (0..8).map(|n| developer.send(mail("bob@example.com", &format!("b{n}")))).collect();
    assert_eq!(code(&world.command(json!({ "type": "end_standing_approval", "name": name }))), "executed");
    let after: Vec<String> = (0..4).map(|n| developer.send(mail("bob@example.com", &format!("a{n}")))).collect();
    for id in &after {
        asked(&world, id);
    }
    let end = world.rows().into_iter().find(|row| row.kind == "standing_ended").unwrap().seq;
    assert!(named().iter().all(|row| row["seq"].as_i64().unwrap() < end));
    for id in &before {
        until("its row", || (!world.kinds_of(&developer, id).is_empty()).then_some(()));
    }
    assert_eq!(uses(&world), named().len());
}
