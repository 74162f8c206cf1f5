//! The rules of JSON-RPC for messages: those that cannot be read, those that are none, and those that come in batches.

use super::harness::{Client, Era, World};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;

const BATCHES: Era = Era::Handshake("2025-03-26");

/// The error that is answered to a line, and nothing else.
fn complaint(client: &mut Client, line: &str) -> Value {
    client.send_line(line);
    client.next(|message| message.get("error").is_some() || message.is_array())
}

fn is_answered(client: &mut Client, line: &str, code: i64, id: &Value) {
    let answer = complaint(client, line);
    assert_eq!((&answer["jsonrpc"], &answer["error"]["code"]), (&json!("2.0"), &json!(code)), "{line}: {answer}");
    assert_eq!(answer.get("id"), Some(id), "{line}: {answer}");
}

#[test]
fn lines_that_are_no_message_are_answered_before_and_after_the_handshake() {
    let world = World::with_snapshot();
    let mut client = world.start();
    for greeted in [false, true] {
        if greeted {
            client.begin(Era::Handshake("2025-11-25"));
        }
        for line in ["{", "[1,", "[}", "}", "nonsense", r#"{"jsonrpc":"2.0","id":1,"method":"ping""#] {
            is_answered(&mut client, line, -32700, &Value::Null);
        }
        for line in [
            "1",
            "null",
            "{}",
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":5}"#,
            r#"{"method":"ping"}"#,
        ] {
            is_answered(&mut client, line, -32600, &Value::Null);
        }
        for line in [r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, r#"{"jsonrpc":"2.0","id":"a","method":5}"#] {
            is_answered(&mut client, line, -32600, &json!("a"));
        }
    }
    // Answers are never answered: whoever sends our complaints back would hear of them for ever.
    let echoed = complaint(&mut client, "nonsense").to_string();
    let odd = r#"{"jsonrpc":"2.0","id":{},"error":5}"#;
    for line in [echoed.as_str(), odd, r#"{"id":1,"result":null}"#, "", "\r", "\u{feff}  "] {
        client.send_line(line);
    }
    let id = client.ask("ping", json!({}));
    let next = client.next(|_| true);
    assert_eq!(next["id"], id, "{next}");
    assert!(world.tasks().is_empty());
}

#[test]
fn a_complaint_is_written_although_the_input_ends_right_after_the_line() {
    let world = World::with_snapshot();
    for _ in 0..20 {
        let mut child = world.command().stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"{\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &Value::Null));
    }
}

fn call(id: u64) -> Value {
    let params = json!({"name": "github__list_issues", "arguments": {"repo": format!("r{id}")}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn answered(batch: &Value, id: &Value) -> Vec<Value> {
    batch.as_array().unwrap().iter().filter(|answer| answer["id"] == *id).cloned().collect()
}

#[test]
fn a_batch_is_answered_as_one_when_the_last_of_it_is_there() {
    let world = World::with_snapshot();
    let mut client = world.client(BATCHES);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let initialize = json!({"jsonrpc": "2.0", "id": 104, "method": "initialize", "params": {
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let nameless = json!({"jsonrpc": "2.0", "id": null, "method": "ping"});
    client.send(&json!([call(101), note, 1, call(102), call(101), initialize, nameless]));
    let requests = [world.take(), world.take()];
    // One that comes meanwhile is not held up.
    assert!(client.request("ping", json!({})).get("result").is_some());
    for request in &requests {
        world.reply(request, json!({"status": "executed", "data": request["params"]["repo"]}));
    }
    let batch = client.next(Value::is_array);
    assert_eq!(batch.as_array().unwrap().len(), 6, "{batch}");
    for id in [101, 102] {
        let result = &answered(&batch, &json!(id))[0]["result"];
        assert_eq!(result["structuredContent"]["data"], format!("r{id}"), "{batch}");
    }
    assert_eq!(answered(&batch, &json!(104))[0]["error"]["code"], -32600);
    let complaints = answered(&batch, &Value::Null);
    assert!(complaints.len() == 3 && complaints.iter().all(|one| one["error"]["code"] == -32600), "{batch}");
    // Answered, so the ids are free again; what is cancelled is not waited for, and what asks nothing has no answer.
    let cancel = |id: u64| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&json!([call(101), {"jsonrpc": "2.0", "id": 103, "method": "ping"}]));
    world.take();
    client.send(&json!([cancel(101)]));
    let batch = client.next(Value::is_array);
    assert_eq!((batch.as_array().unwrap().len(), answered(&batch, &json!(103)).len()), (1, 1), "{batch}");
    client.send(&json!([call(105), cancel(105)]));
    let id = client.ask("ping", json!({}));
    let next = client.next(|_| true);
    assert_eq!(next["id"], id, "{next}");
}

#[test]
fn a_batch_is_refused_as_a_whole_where_there_are_none_and_where_it_is_too_long() {
    let world = World::with_snapshot();
    let one = json!([call(101)]).to_string();
    let mut early = world.start();
    let refused = |client: &mut Client, line: &str, why: &str| {
        let answer = complaint(client, line);
        let told = (answer.get("id"), &answer["error"]["code"]);
        assert_eq!(told, (Some(&Value::Null), &json!(-32600)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
    };
    refused(&mut early, &one, "2025-03-26");
    for era in [Era::Handshake("2024-11-05"), Era::Handshake("2025-06-18"), Era::Stateless] {
        refused(&mut world.client(era), &one, "2025-03-26");
    }
    let mut client = world.client(BATCHES);
    refused(&mut client, "[]", "empty");
    let many: Vec<Value> = (0..9).map(|n| call(200 + n)).collect();
    refused(&mut client, &json!(many).to_string(), "at most 8");
    assert!(client.request("ping", json!({})).get("result").is_some());
    assert!(world.tasks().is_empty(), "nothing of them was executed");
}
