//! JSONTestSuite, on the parser of requests and through real files.

use serde_json::json;
use shared::request::{Malformed, Request, parse};
use std::path::Path;
use tests::World;
use tests::group::code;

/// Every case: its name, and its bytes.
fn cases() -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/json/test_parsing");
    let mut cases: Vec<(String, Vec<u8>)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    cases.sort();
    assert!(cases.len() > 300);
    cases
}

/// A call with these bytes as one parameter.
fn wrapped(id: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!(
        "{{\"type\":\"ext_call\",\"request_id\":\"{id}\",\"provider\":\"demo\",\"action\":\"wait\",\"params\":{{\"v\":"
    );
    [head.as_bytes(), bytes, b"}}"].concat()
}

/// The cases that the suite accepts and this protocol does not: a key twice.
fn is_stricter(name: &str) -> bool {
    name.contains("duplicated_key")
}

#[test]
fn every_text_that_must_parse_is_accepted_as_a_parameter_and_every_other_refused() {
    for (name, bytes) in cases() {
        let parsed = parse(&wrapped("r", &bytes));
        match name.split_at(2).0 {
            "y_" if is_stricter(&name) => {
                assert!(matches!(parsed.unwrap_err().why, Malformed::Json(_)), "{name}");
            }
            "y_" => {
                let Request::Call(call) = parsed.unwrap_or_else(|fault| panic!("{name}: {fault:?}")).request else {
                    panic!("{name} is no call");
                };
                let text = std::str::from_utf8(&bytes).unwrap();
                assert_eq!(call.params["v"], serde_json::from_str::<serde_json::Value>(text).unwrap(), "{name}");
            }
            // Two cases become valid within another document: an empty text and a lone space do not.
            "n_" => {
                let refused = parsed.map(|document| format!("{document:?}"));
                assert!(refused.is_err(), "{name}: {refused:?}");
            }
            "i_" => drop(parsed),
            other => panic!("an unknown kind of case: {other}"),
        }
    }
}

#[test]
fn every_text_of_the_suite_alone_is_refused_and_none_is_a_crash() {
    for (name, bytes) in cases() {
        assert!(parse(&bytes).is_err(), "{name}");
    }
}

/// Attack (Files in the group's directory): JSON is deep, invalid, or has duplicate keys.
/// Defence: `shared::json` refuses it.
#[test]
fn every_text_of_the_suite_is_answered_through_real_files() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let mut sent = Vec::new();
    for (index, (name, bytes)) in cases().into_iter().enumerate() {
        let id = format!("j-{index}");
        developer.put(&format!("{id}.json"), wrapped(&id, &bytes));
        sent.push((id, name));
    }
    for (id, name) in &sent {
        let reply = developer.reply(id);
        match name.split_at(2).0 {
            "y_" if is_stricter(name) => assert_eq!(code(&reply), "malformed_request", "{name}"),
            // Numbers that a double cannot hold are well-formed, and no parameters.
            "y_" => assert!(["executed", "invalid_params", "busy"].contains(&code(&reply)), "{name}: {reply}"),
            "n_" => assert_eq!(code(&reply), "malformed_request", "{name}"),
            _ => {}
        }
    }
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
}
