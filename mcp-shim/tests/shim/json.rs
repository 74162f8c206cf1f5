//! The JSON that a client may write into a call, and that nothing in it is changed on the way to the host.

use super::harness::{Client, Era, World, text};
use serde_json::{Value, json};
use std::path::Path;

const HANDSHAKE: Era = Era::Handshake("2025-11-25");

/// A call under this id, with these bytes as its one parameter.
fn call(id: u64, value: &[u8]) -> Vec<u8> {
    let head =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"ext_call","arguments":"#);
    [head.as_bytes(), &arguments(value), b"}}"].concat()
}

fn arguments(value: &[u8]) -> Vec<u8> {
    [br#"{"provider":"github","action":"a","params":{"v":"#, value, b"}}"].concat()
}

/// The value as the host reads it from a request, unchanged; a value that would not survive unchanged never reaches it.
fn as_the_host_reads(value: &[u8]) -> Option<Value> {
    let document = shared::json::parse(&arguments(value)).ok()?;
    let lost = shared::json::loses_digits(std::str::from_utf8(value).ok()?);
    (!lost).then(|| document["params"]["v"].clone())
}

/// Makes the call; `None` if it was answered with a protocol error.
fn outcome(world: &World, client: &mut Client, id: u64, value: &[u8]) -> Option<Value> {
    client.send_line(call(id, value));
    if as_the_host_reads(value).is_none() {
        let answer = client.next(|message| message.get("error").is_some());
        let code = answer["error"]["code"].as_i64().unwrap();
        let known = answer.get("id").is_some_and(|answered| *answered == id);
        assert!(if known { code == -32602 } else { code == -32700 }, "{answer}");
        return None;
    }
    let request = world.take();
    world.reply(&request, json!({"status": "executed", "data": "taken"}));
    assert_eq!(text(&client.result(id)), "taken");
    Some(request["params"]["v"].clone())
}

/// Attack (Providers and modules): A tool's arguments contain duplicate keys or numbers with too
/// many digits, which an MCP library would drop or round.
/// Defence: `mcp_shim::transport` reads the line strictly before the call continues.
#[test]
fn every_text_of_the_suite_reaches_the_host_as_it_was_written_or_is_refused_and_the_shim_lives_on() {
    let world = World::with_snapshot();
    let mut client = world.client(HANDSHAKE);
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/json/test_parsing");
    let mut seen = [0; 3];
    for (id, entry) in (100..).step_by(2).zip(std::fs::read_dir(suite).unwrap()) {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        let kind = name.split_at(2).0;
        // Between tokens a space says the same; where a line break is the fault it must stay, and breaks the line.
        let bytes = if kind == "y_" { String::from_utf8(bytes).unwrap().replace('\n', " ").into() } else { bytes };
        let taken = if bytes.contains(&b'\n') {
            // The rest after the break may cause complaints as well, so this conversation has ended.
            outcome(&world, &mut world.client(HANDSHAKE), id, &bytes)
        } else {
            let taken = outcome(&world, &mut client, id, &bytes);
            assert_eq!(outcome(&world, &mut client, id + 1, &bytes), taken, "{name}");
            taken
        };
        assert_eq!(taken, as_the_host_reads(&bytes), "{name}");
        match kind {
            "y_" => {
                seen[0] += 1;
                let lost = shared::json::loses_digits(std::str::from_utf8(&bytes).unwrap());
                assert_eq!(taken.is_some(), !lost && !name.contains("duplicated_key"), "{name}");
            }
            "n_" => {
                seen[1] += 1;
                assert_eq!(taken, None, "{name}");
            }
            _ => seen[2] += 1,
        }
        assert!(client.request("ping", json!({})).get("result").is_some(), "{name}");
    }
    assert!(seen[0] > 90 && seen[1] > 180 && seen[2] > 30, "{seen:?}");
    assert!(world.tasks().is_empty());
}

#[test]
fn json_that_parsing_would_change_is_refused_and_quoted_nowhere() {
    let world = World::with_snapshot();
    let mut client = world.client(HANDSHAKE);
    for (value, why) in [
        ("12345678901234567890123", "cannot be kept exactly"),
        ("18446744073709551616", "cannot be kept exactly"),
        ("-9223372036854775809", "cannot be kept exactly"),
        ("[{\"x\": 1.0000000000000000001}]", "cannot be kept exactly"),
        ("0.1000000000000000055", "cannot be kept exactly"),
        (r#"{"hunter2":1,"hunter2":2}"#, "duplicate key"),
        (r#"[{"a":1,"\u0061":{}}]"#, "duplicate key"),
        (r#"1},"params":{"v":2"#, "duplicate key"),
        (r#"1}},"arguments":{"provider":"github","action":"b","params":{"v":2"#, ""),
        (r#"1}}},"params":{"name":"ext_call","arguments":{"provider":"github","action":"b","params":{"v":2"#, ""),
        (r#"1}}},"id":77,"x":{"x":{"x":{"x":2"#, ""),
        (r#"1}}},"method":"tools/call","x":{"x":{"x":{"x":2"#, ""),
    ] {
        client.send_line(call(77, value.as_bytes()));
        let answer = client.next(|message| message.get("error").is_some());
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.contains(why) && !said.contains("hunter2") && !said.contains("345"), "{value}: {answer}");
        if !why.is_empty() {
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(77), &json!(-32602)), "{value}: {answer}");
        }
    }
    assert!(world.tasks().is_empty());
    // The host sees these as they are, and refuses them with the place.
    for kept in ["9007199254740993", "18446744073709551615", "-9223372036854775808"] {
        assert_eq!(outcome(&world, &mut client, 78, kept.as_bytes()).unwrap().to_string(), kept);
    }
    // Members outside the arguments are the client's own affair: an id out of a clock of nanoseconds, for one.
    client.send_line(
        br#"{"jsonrpc":"2.0","id":1763746723123456789,"method":"tools/call","params":{"name":"ext_call","_meta":{"n":9007199254740993},"arguments":{"provider":"github","action":"a","params":{}}}}"#,
    );
    let request = world.take();
    world.reply(&request, json!({"status": "executed", "data": "taken"}));
    assert_eq!(text(&client.result(1_763_746_723_123_456_789)), "taken");
}
