//! The source's own transcripts: `fixtures/ash-bridge-transcripts.jsonl`.

use super::checks::{KEY, signed};
use super::envelope::{BridgeReply, read, request};
use super::{PUBLIC_KEY, definitions};
use model::ChatType;
use serde_json::{Value, json};
use shared::{Level, Provider};
use std::collections::BTreeSet;

const TRANSCRIPTS: &str = include_str!("../../../../tests/fixtures/ash-bridge-transcripts.jsonl");

fn transcripts() -> Vec<(Value, Value)> {
    let pairs = TRANSCRIPTS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let pairs: Vec<_> = pairs.map(|pair| (pair["request"].clone(), pair["response"].clone())).collect();
    assert_eq!(pairs.len(), 14);
    pairs
}

fn gog() -> Provider {
    "gog".parse().unwrap()
}

#[test]
fn request_envelopes_are_equal_to_those_of_the_reference() {
    let proper = |asked: &&(Value, Value)| {
        asked.0["version"] == 1 && asked.0["namespace"] == "gog" && asked.0["params"].is_object()
    };
    let pairs = transcripts();
    let asked: Vec<_> = pairs.iter().filter(proper).collect();
    assert_eq!(asked.len(), 8);
    for (asked, _) in asked {
        let (id, method) = (asked["id"].as_str().unwrap(), asked["method"].as_str().unwrap());
        let line = request(id, &gog(), method, &asked["params"]);
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), *asked);
    }
}

#[test]
fn every_answer_of_the_source_is_read() {
    for (_, answered) in transcripts() {
        // Where a request had no id, the answer has an empty one.
        let id = answered["id"].as_str().unwrap();
        let answer = read(answered.to_string().as_bytes(), id).unwrap();
        let expected = match (answered.get("result"), answered.get("error")) {
            (Some(Value::Object(result)), None) => BridgeReply::Result(result.clone()),
            (None, Some(error)) => BridgeReply::Error {
                code: error["code"].as_str().unwrap().to_owned(),
                message: error["message"].as_str().unwrap().to_owned(),
            },
            _ => panic!("{answered}"),
        };
        assert_eq!(answer, expected);
    }
}

#[test]
fn the_capabilities_of_the_source_can_be_registered() {
    let (_, answered) = transcripts().swap_remove(0);
    let definitions = definitions::read(answered["result"].as_object().unwrap().clone()).unwrap();
    let registered = definitions::register(&gog(), &definitions, &BTreeSet::new()).unwrap();
    let found: Vec<_> = registered
        .iter()
        .flat_map(|capability| {
            capability.operations.iter().map(|operation| {
                assert_eq!(capability.chat_types, [ChatType::Private]);
                assert!(operation.requires_auth);
                assert_eq!(operation.input_schema, json!({ "type": "object" }));
                (format!("{}.{}", capability.provider, operation.action), operation.level)
            })
        })
        .collect();
    let expected = [
        ("gog.email.list_messages", Level::Read),
        ("gog.email.search_messages", Level::Read),
        ("gog.email.get_message", Level::Read),
        ("gog.email.get_thread", Level::Read),
        ("gog.email.send_message", Level::Write),
        ("gog.email.archive_messages", Level::Write),
        ("gog.email.update_labels", Level::Write),
        ("gog.calendar.list_events", Level::Read),
        ("gog.calendar.create_event", Level::Write),
    ];
    assert_eq!(found, expected.map(|(name, level)| (name.to_owned(), level)));
    assert!(
        definitions::register(&"other".parse().unwrap(), &definitions, &BTreeSet::new()).is_err(),
        "they are of another namespace"
    );
}

#[test]
fn sensitive_capabilities_are_for_private_chats_unless_more_are_named() {
    let chats = |more: Value| {
        let mut definition = json!({
            "id": "gog.x", "description": "x", "operations": { "a": { "description": "b", "level": 3, "tier": "human" } },
        });
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let said = json!({ "definitions": [definition] });
        let read = definitions::read(said.as_object().unwrap().clone()).unwrap();
        let registered = definitions::register(&gog(), &read, &BTreeSet::new()).unwrap().remove(0);
        assert_eq!(registered.operations[0].level, Level::Production, "stated, and higher");
        registered.chat_types
    };
    assert_eq!(chats(json!({})), []);
    assert_eq!(chats(json!({ "sensitive": true })), [ChatType::Private]);
    assert_eq!(chats(json!({ "sensitive": true, "allowed_chat_types": [] })), [ChatType::Private]);
    let both = json!({ "sensitive": true, "allowed_chat_types": ["group", "private"] });
    assert_eq!(chats(both), [ChatType::Group, ChatType::Private]);
}

#[test]
fn malformed_definitions_are_refused() {
    let definition = |more: Value| {
        let mut definition =
            json!({ "id": "gog.x", "description": "x", "operations": [{ "name": "a", "description": "b" }] });
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "definitions": [definition] })
    };
    let read = |said: Value| definitions::read(said.as_object().unwrap().clone());
    assert!(read(definition(json!({}))).is_ok());
    for more in [
        json!({ "operations": null }),
        json!({ "operations": "a" }),
        json!({ "operations": { "a": { "name": "b", "description": "c" } } }),
        json!({ "operations": { "a": [] } }),
        json!({ "operations": [{ "name": "a", "description": "b", "secret": true }] }),
        json!({ "operations": [{ "name": "a", "description": "b", "mutating": "no" }] }),
        json!({ "version": 2 }),
        json!({ "description": null }),
    ] {
        assert!(read(definition(more.clone())).is_err(), "{more}");
    }
    for said in [json!({}), json!({ "definitions": {} }), json!({ "definitions": [], "more": 1 })] {
        assert!(read(said.clone()).is_err(), "{said}");
    }
    assert!(definitions::register(&gog(), &[], &BTreeSet::new()).is_err(), "nothing is no capability");
}

/// The blocks of the document under this heading, in order.
fn blocks(kind: &str) -> Vec<Value> {
    let document = include_str!("../../../../docs/providers/bridge-v1.md");
    let mark = format!("```json {kind}\n");
    let begun = document.split(&mark).skip(1);
    begun.map(|block| serde_json::from_str(block.split_once("```").unwrap().0).unwrap()).collect()
}

#[test]
fn the_exchange_of_the_document_is_what_the_example_answers() {
    use model::Clock as _;
    use platform::clock::SystemClock;
    use std::process::{Command, Stdio};
    let (requests, answers) = (blocks("request"), blocks("answer"));
    assert_eq!((requests.len(), answers.len()), (4, 4));
    let folder = tempfile::tempdir().unwrap();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/bridges/notes.mjs");
    let token = signed("notes", SystemClock.now());
    for (asked, answered) in requests.into_iter().zip(answers) {
        let id = asked["id"].as_str().unwrap().to_owned();
        let namespace: Provider = asked["namespace"].as_str().unwrap().parse().unwrap();
        // The broker writes exactly what the document shows.
        let line = request(&id, &namespace, asked["method"].as_str().unwrap(), &asked["params"]);
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), asked);
        let line = String::from_utf8(line).unwrap().replace("CONTEXT_TOKEN", &token);
        #[expect(clippy::disallowed_methods, reason = "the program under test is a child process")]
        let started = Command::new("node")
            .arg(program)
            .env("HOME", folder.path())
            .env(PUBLIC_KEY, KEY.public_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            eprintln!("skipped: there is no node to run the example of a bridge with");
            return;
        };
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), line.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), answered, "{asked}");
        read(&output.stdout, &id).unwrap();
    }
}
