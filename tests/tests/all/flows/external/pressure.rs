//! External agents that send too much: they take no place of people, and cost little before it is known who they are.

use super::*;
use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

const INVOKE: &str = "/api/v1/flows/external-tools/note/invoke";

/// Sends a request on a connection that stays open. Returns whether the connection is still there after the answer.
fn stays(stream: &mut TcpStream, request: &[u8]) -> bool {
    let mut read = [0; 4096];
    let mut said = Vec::new();
    if stream.write_all(request).is_err() {
        return false;
    }
    loop {
        match stream.read(&mut read) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return false,
            Ok(length) => said.extend_from_slice(&read[..length]),
        }
        let text = String::from_utf8_lossy(&said).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if length.is_some_and(|length| body.len() >= length) {
            return true;
        }
    }
}

/// Attack (The inbox): an external agent, also one whose access has ended, keeps many connections
/// to the inbox open
/// Defence: only a request of an access in force that is under way keeps its connection; the oldest
/// of all others gives way to a person
#[test]
fn connections_of_an_access_in_force_or_not_leave_people_a_place() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let operator = Visitor::signed_in(&world);
    let bearer = format!("Bearer {}", agent.bearer);
    let path = "/api/v1/flows/flow_daily/projection?harness=agent_bundle";
    let request = agent.visitor.request("GET", path, &[("Authorization", &bearer)], "");
    let request = String::from_utf8(request).unwrap().replace("Connection: close\r\n", "");
    for is_revoked in [false, true] {
        if is_revoked {
            flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
        }
        let open = || {
            let stream = agent.visitor.connect();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream
        };
        let mut streams: Vec<_> = (0..64).map(|_| open()).collect();
        streams.retain_mut(|stream| stays(stream, request.as_bytes()));
        assert!(streams.len() >= 40, "the inbox takes connections: {}", streams.len());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // No connection is idle for long, so none ends by itself.
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) && !streams.is_empty() {
                    streams.retain_mut(|stream| stays(stream, request.as_bytes()));
                }
            });
            let status = operator.get("/").status;
            is_over.store(true, Ordering::Release);
            assert_eq!(status, 200, "revoked: {is_revoked}");
        });
    }
}

/// Attack: see `an_external_request_of_too_many_values_is_refused`.
#[test]
fn a_long_request_of_an_unauthorized_client_is_not_read() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let accept = ("Accept", "application/json, text/event-stream");
    let long = ("Content-Length", "100000");
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    // Nothing of the body is sent, so whoever reads it waits.
    let (status, refused) = heard(&agent.say("POST", INVOKE, &[long], ""));
    assert_eq!((status, code(&refused)), (403, "FLOW_EXTERNAL_GRANT_REVOKED"), "{refused}");
    let (status, refused) = heard(&agent.say("POST", "/mcp", &[accept, long], ""));
    assert_eq!((status, &refused["error"]["data"]["code"]), (403, &json!("FLOW_EXTERNAL_GRANT_REVOKED")), "{refused}");
    // A short one is decided on like every other, and recorded.
    assert_eq!(agent.no("note"), "FLOW_EXTERNAL_GRANT_REVOKED");
    let refused = world.rows().into_iter().filter(|row| row.kind == "refused");
    let callers: Vec<String> = refused.map(|row| row.caller).collect();
    assert!(callers.contains(&"outside".to_owned()), "the long ones are counted: {callers:?}");
    assert!(callers.contains(&format!("outside:{}", agent.grant)), "{callers:?}");
}

/// Attack (Flows and external agents): long requests from outside cost time before the authority of
/// their bearer is known
/// Defence: at most 20,000 values and keys, shared by the messages of a batch; the broker reads at
/// most 4 KiB of a bearer that is not in force
#[test]
fn an_external_request_of_too_many_values_is_refused() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let accept = ("Accept", "application/json, text/event-stream");
    let given = |values: usize| format!(r#"{{"text":[{}1]}}"#, "1,".repeat(values));
    let call = |values: usize| {
        let params = format!(r#"{{"name":"note","arguments":{}}}"#, given(values));
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
    };
    let (status, refused) = heard(&agent.say("POST", INVOKE, &[], &given(20_000)));
    assert_eq!((status, code(&refused)), (400, "invalid_params"), "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("more than 20000 values"), "{refused}");
    let (status, refused) = heard(&agent.say("POST", "/mcp", &[accept], &call(20_000)));
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32602)), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("more than 20000 values"), "{refused}");
    // The messages of a batch share the bound.
    let batch = format!("[{}]", vec![call(6_000); 4].join(","));
    let (status, answers) = heard(&agent.say("POST", "/mcp", &[accept], &batch));
    let is_refused =
        |answer: &Value| answer["error"]["message"].as_str().is_some_and(|why| why.contains("more than 5000"));
    assert!(status == 200 && answers.as_array().unwrap().iter().all(is_refused), "{answers}");
    assert_eq!(count(&world, &agent.grant), 0);
    assert_eq!(heard(&agent.say("POST", INVOKE, &[], &given(10_000))).0, 200);
}
