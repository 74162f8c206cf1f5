//! The broker's own secrets in what agents and people write: refused as a whole, and kept nowhere.

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use tests::group::{call, code, error, with};
use tests::{World, until};

/// It is a name in every grammar of the protocol.
pub(super) const SECRET: &str = "ghp_Kx8vQmT2wLpR9sNcY4bHjD7fGzA1eUo3iXq0";

/// A home whose broker has the secret, and in which it must be found nowhere when the world ends.
fn home() -> World {
    let asks = "write = \"rules\"\n[providers.demo]\nactions = { agree = \"human\" }\n";
    let mut world = World::builder().file("policy/profiles/developer.toml", asks).down();
    learn(&world);
    world.keep_secret(SECRET);
    world
}

/// Gives the broker of this home the secret.
pub(super) fn learn(world: &World) {
    let path = world.path("own.key");
    std::fs::write(&path, SECRET).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}\n[identity.issuers.ash]\nsecret = {{ file = {path:?} }}\n"));
}

fn up() -> World {
    let mut world = home();
    world.start();
    world.grant("developer", 2);
    world
}

/// Attack (Order of the stages, and content): a secret of the broker's own in a part of a request
/// that is no parameter: a name, a title, a reason, an idempotency key, the request's own id
/// Defence: every group's document is searched whole, for every type and level, and is refused
/// before anything of it is decided or stored; a request's id that holds one is in no row and names
/// no reply
#[test]
fn a_request_that_holds_a_secret_of_the_broker_is_refused_at_every_type_and_level() {
    let world = up();
    let (main, developer) = (world.group("main"), world.group("developer"));
    let (one, two) = SECRET.split_at(20);
    let hexadecimal = SECRET.bytes().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let long = "plain words ".repeat(20 * 1024);
    let echo = || call("echo", json!({}));
    for document in [
        // A read that lets nothing leave.
        call("echo", json!({ "text": SECRET })),
        call("echo", json!({ "text": hexadecimal })),
        call("echo", json!({ "text": format!("{long}{SECRET}") })),
        call("echo", json!({ "text": one, "more": "noise", "rest": two })),
        call("echo", json!({ (SECRET): 1 })),
        // A call that a person would be asked about.
        call("agree", json!({ "note": SECRET })),
        with(echo(), "idempotency_key", SECRET),
        with(echo(), "timestamp", SECRET),
        with(call("echo", json!({ "text": SECRET })), "dry_run", true),
        // Calls that would be refused anyway.
        with(call("deploy", json!({})), "task_id", SECRET),
        with(call("read", json!({ "text": SECRET })), "provider", "private"),
        json!({ "type": "ext_result", "of": SECRET }),
        json!({ "type": "ext_cancel", "of": SECRET }),
    ] {
        let reply = developer.ask(document);
        assert_eq!(code(&reply), "own_secret", "{reply}");
        assert!(!reply.to_string().contains(SECRET), "{reply}");
    }
    for document in [
        json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": 3,
                "chat_ids": [SECRET] }),
        json!({ "type": "task_create", "title": format!("Deploy with {SECRET}"), "group_folder": "developer" }),
        json!({ "type": "flow_list", "cursor": SECRET }),
    ] {
        let reply = main.ask(document);
        assert_eq!(code(&reply), "own_secret", "{reply}");
    }
    for table in ["approvals", "tasks", "flow_versions"] {
        assert_eq!(world.query(&format!("SELECT 1 FROM {table}")), Vec::<Value>::new(), "{table}");
    }
    // One who has no access learns no more than that.
    let stranger = world.group("security").ask(call("echo", json!({ "text": SECRET })));
    assert_eq!(code(&stranger), "own_secret", "{stranger}");
    assert_eq!(code(&developer.call("echo", json!({ "text": "plain words" }))), "executed");
}

/// Attack: see `a_request_that_holds_a_secret_of_the_broker_is_refused_at_every_type_and_level`.
#[test]
fn the_name_of_a_request_that_is_a_secret_of_the_brokers_own_is_in_no_row_and_no_reply() {
    let world = up();
    let developer = world.group("developer");
    for (name, document) in [
        ("named.json".to_owned(), with(call("echo", json!({})), "request_id", SECRET).to_string()),
        (format!("{SECRET}.json"), call("echo", json!({})).to_string()),
        // These are no requests at all.
        ("rubbish.json".to_owned(), json!({ "type": "ext_call", "request_id": SECRET }).to_string()),
        (format!("{SECRET}-2.json"), "no JSON".to_owned()),
    ] {
        developer.put(&name, document);
        until("it is gone", || (developer.waiting() == 0).then_some(()));
    }
    assert_eq!(developer.names("responses"), Vec::<String>::new());
    let refused = world.rows().into_iter().find(|row| row.reason_code.as_deref() == Some("own_secret"));
    let refused = refused.expect("a row of the refusal");
    assert_eq!((refused.request_id, refused.provider, refused.task_id), (None, None, None));
}

/// Attack (Order of the stages, and content): the same in what a person answers or creates, so that
/// it reaches an agent
/// Defence: the command is refused, and can be given again without it
#[test]
fn a_persons_reason_or_title_with_a_secret_of_the_brokers_own_is_refused_and_can_be_given_again() {
    let world = up();
    let developer = world.group("developer");
    let id = developer.send(call("agree", json!({ "note": "hello" })));
    let approval_request =
        until("the approval request", || world.query("SELECT code FROM approvals").pop())["code"].clone();
    let answer = |reason: &str| {
        world.command(json!({ "type": "answer", "code": approval_request, "yes": false, "reason": reason }))
    };
    let refused = answer(&format!("use {SECRET} instead"));
    assert_eq!(code(&refused), "own_secret", "{refused}");
    assert!(error(&refused).contains("leave the secret out"), "{refused}");
    assert_eq!(world.query("SELECT state FROM approvals")[0]["state"], "waiting");
    assert_eq!(code(&answer("not now")), "executed");
    assert!(error(&developer.reply(&id)).contains("not now"));
    let task = json!({ "type": "task_create", "title": SECRET, "group_folder": "developer" });
    assert_eq!(code(&world.command(task)), "own_secret");
    let said = json!({ "type": "chat_answer", "from": "telegram:1", "text": format!("deny abcdef because {SECRET}") });
    assert_eq!(code(&world.command(said)), "own_secret");
}

#[test]
fn a_secret_of_the_brokers_own_is_refused_without_a_daemon_too() {
    let world = home();
    let task = json!({ "type": "task_create", "title": SECRET, "group_folder": "developer" });
    let refused = world.in_place(&serde_json::from_value(task).unwrap());
    assert_eq!(code(&refused), "own_secret", "{refused}");
}

/// Attack (Order of the stages, and content): a call or a grant that waits since before the broker
/// had the secret
/// Defence: the stored request is searched again before it is decided on
#[test]
fn a_call_that_waits_since_before_the_broker_had_a_secret_is_refused_when_it_holds_that_secret() {
    let asks = "write = \"rules\"\n[providers.demo]\nactions = { agree = \"human\" }\n";
    let mut world = World::builder().file("policy/profiles/developer.toml", asks).up();
    world.grant("developer", 2);
    let (developer, main) = (world.group("developer").by_files(), world.group("main").by_files());
    let call_id = developer.send(call("agree", json!({ "note": SECRET })));
    let plain_id = developer.send(call("agree", json!({ "note": "hello" })));
    let grant = json!({ "type": "ext_grant", "group_folder": "security", "provider": "demo", "access_level": 2,
                        "chat_ids": [SECRET] });
    let grant_id = main.send(grant);
    until("the questions", || {
        (world.query("SELECT 1 FROM approvals WHERE state = 'waiting'").len() == 3).then_some(())
    });
    world.stop();
    learn(&world);
    world.start();
    // A question is not put to anybody any more, once its call is to be refused whatever the answer is.
    let waiting = world.query("SELECT request_id, code FROM approvals WHERE state = 'waiting'");
    for asked in waiting {
        world.command(json!({ "type": "answer", "code": asked["code"], "yes": true, "reason": null }));
    }
    for (group, id) in [(&developer, &call_id), (&main, &grant_id)] {
        let reply = group.reply(id);
        assert_eq!(code(&reply), "own_secret", "{reply}");
        assert!(!reply.to_string().contains(SECRET), "{reply}");
    }
    assert_eq!(code(&developer.reply(&plain_id)), "executed");
    let effects = world.effects_of("agree");
    assert!(effects.len() == 1 && !effects[0].contains(SECRET), "{effects:?}");
    let refused = world.rows().into_iter().filter(|row| row.reason_code.as_deref() == Some("own_secret"));
    assert_eq!(refused.count(), 2);
}
