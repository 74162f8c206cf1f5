//! External agents as MCP clients: what they call, how they collect what waited, and how they hear what is wrong.

use super::{Agent, TOOLS, answer, approved, builder, bundle, count, flow, heard, world};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use tests::group::code;
use tests::visitor::{Page, Visitor};
use tests::world::CONFIG;
use tests::{World, until};

const HELLO: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#;
/// The header that every message to `/mcp` has.
const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

fn post(agent: &Agent, headers: &[(&str, &str)], body: &str) -> Page {
    agent.say("POST", "/mcp", &[&[ACCEPT], headers].concat(), body)
}

fn ask(agent: &Agent, method: &str, params: &Value) -> (u16, Value) {
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    // Nobody waits for a person in a test, unless it says so.
    heard(&post(agent, &[("Prefer", "wait=0")], &request.to_string()))
}

fn call(agent: &Agent, name: &str, arguments: &Value) -> Value {
    ask(agent, "tools/call", &json!({ "name": name, "arguments": arguments })).1
}

/// Waits for the outcome as long as a call does.
fn collect(agent: &Agent, of: &str) -> Value {
    let params = json!({ "name": "ext_result", "arguments": { "of": of } });
    let request = json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params });
    heard(&post(agent, &[("Prefer", "wait=30")], &request.to_string())).1["result"].clone()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

fn approval_request(world: &World) -> String {
    until("the approval request", || {
        let waiting = world.query("SELECT code FROM approvals WHERE state = 'waiting'");
        Some(waiting.first()?["code"].as_str().unwrap().to_owned())
    })
}

/// The request id of a call that waits for a person.
fn waiting(agent: &Agent, n: u64) -> String {
    let called = call(agent, "charge", &json!({ "n": n }))["result"].clone();
    assert_eq!((&called["isError"], &called["structuredContent"]["status"]), (&json!(false), &json!("pending")));
    let of = called["structuredContent"]["request_id"].as_str().unwrap().to_owned();
    assert!(text(&called).contains(&format!(r#"ext_result with {{"of": "{of}"}}"#)), "{called}");
    assert_eq!(called["structuredContent"]["note"], text(&called));
    of
}

/// Attack (Flows and external agents): an external MCP client takes over another's session, sees
/// tools that it was not given, or holds connections open
/// Defence: there are no sessions; each request is its own, with its bearer, and has twenty seconds
/// to arrive; eight of an access at a time, 32 of all that the broker works on
#[test]
fn a_client_sees_the_tools_of_its_access_and_calls_them() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note"] }));
    let (status, greeted) = ask(&agent, "initialize", &serde_json::from_str(HELLO).unwrap());
    assert_eq!((status, &greeted["result"]["protocolVersion"]), (200, &json!("2025-11-25")), "{greeted}");
    assert_eq!(greeted["result"]["capabilities"], json!({ "tools": {} }));
    let (_, listed) = ask(&agent, "tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["note", "ext_result", "ext_cancel"]);
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[0]["inputSchema"]["additionalProperties"], false);
    assert_eq!(tools[0]["inputSchema"]["properties"], json!({ "text": {} }), "what is fixed is not offered");
    let called = call(&agent, "note", &json!({ "text": "hi" }));
    assert_eq!(called["result"]["structuredContent"], json!({ "to": "us", "text": "hi" }), "{called}");
    let id = called["result"]["_meta"]["broker/request_id"].as_str().unwrap();
    let row = world.rows().into_iter().rfind(|row| row.kind == "intended").unwrap();
    assert_eq!((row.caller, row.request_id.as_deref()), (format!("outside:{}", agent.grant), Some(id)));
    let no = |called: Value| text(&called["result"]).to_owned();
    assert!(no(call(&agent, "note", &json!({ "to": "them" }))).contains("no such parameter"));
    for method in ["prompts/list", "resources/list", "completion/complete", "nothing"] {
        assert_eq!(ask(&agent, method, &json!({})).1["error"]["code"], -32601, "{method}");
    }
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    assert_eq!(ask(&agent, "tools/list", &json!({})).1["result"]["tools"], json!([]));
    assert!(no(call(&agent, "note", &json!({}))).contains("was revoked"));
}

#[test]
fn a_tool_has_the_schema_of_its_result_and_is_gone_while_its_provider_is_off() {
    let typed = "[actions.echo]\nlevel = 1\nreply = \"$params\"\nexposes = []\noutput_schema = { type = \"object\" }\n\
                 [actions.charge]\nlevel = 2\nexposes = [\"egress\"]\n[actions.strict]\nlevel = 1\nexposes = []\n";
    let mut world = World::builder().config(&format!("{CONFIG}\n{TOOLS}")).script("demo", typed).up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let agent = Agent::with_access(&mut world, &json!({}));
    let tools = |agent: &Agent| ask(agent, "tools/list", &json!({})).1["result"]["tools"].as_array().unwrap().clone();
    let listed = tools(&agent);
    assert_eq!([&listed[0]["name"], &listed[1]["name"]], ["charge", "note"]);
    assert_eq!(listed[1]["_meta"]["broker/outputSchema"], json!({ "type": "object" }));
    assert!(listed.iter().all(|tool| tool.get("outputSchema").is_none()), "a refusal need not fit it: {listed:?}");
    assert_eq!(listed[0].get("_meta"), None);
    assert!(world.cli(&["kill", "provider", "demo"]).status.success());
    let names = |agent: &Agent| tools(agent).iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&agent), ["ext_result", "ext_cancel"]);
    assert!(world.cli(&["kill", "provider", "demo", "--lift"]).status.success());
    assert_eq!(names(&agent).len(), 4);
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("[providers.demo]", "[providers.demo]\nenabled = false"));
    world.restart();
    let agent = Agent { visitor: Visitor::of(&world), ..agent };
    assert_eq!(names(&agent), ["ext_result", "ext_cancel"]);
}

/// Attack (Flows and external agents): An external agent collects or cancels another access's call
/// at `/mcp`, or its own after its access has ended.
/// Defence: `ext_result` and `ext_cancel` look up the call under the requesting access and check
/// the access each time.
#[test]
fn approved_calls_are_collected_only_by_the_external_agent_that_asked() {
    let mut world = world();
    let [agent, other] = [(); 2].map(|()| Agent::with_access(&mut world, &json!({})));
    let of = waiting(&agent, 3);
    // Asked too early it is still the question; to somebody else there is no such call.
    let early = call(&agent, "ext_result", &json!({ "of": of }))["result"].clone();
    assert_eq!(early["structuredContent"]["status"], "pending", "{early}");
    for stranger in [call(&other, "ext_result", &json!({ "of": of })), call(&other, "ext_cancel", &json!({ "of": of }))]
    {
        let told = &stranger["result"];
        assert_eq!((&told["isError"], &told["structuredContent"]["code"]), (&json!(true), &json!("unknown_request")));
    }
    assert_eq!(code(&answer(&world, &approval_request(&world), true)), "executed");
    let collected = collect(&agent, &of);
    assert_eq!((&collected["isError"], collected["structuredContent"].is_object()), (&json!(false), true));
    assert_eq!(collect(&agent, &of)["content"], collected["content"], "as often as it is asked");
    assert_eq!((world.effects_of("charge").len(), count(&world, &agent.grant)), (1, 1));
    // A no is collected, too, with its code and what to do next.
    let of = waiting(&agent, 4);
    answer(&world, &approval_request(&world), false);
    let refused = collect(&agent, &of);
    assert_eq!((&refused["isError"], &refused["structuredContent"]["code"]), (&json!(true), &json!("approval_denied")));
    // A call that does not fit has a result that a model can read.
    for arguments in [json!({}), json!({ "of": "../x" }), json!({ "of": of, "timeout_ms": 1 })] {
        let fault = call(&agent, "ext_result", &arguments)["result"].clone();
        assert_eq!(fault["structuredContent"]["code"], "invalid_params", "{fault}");
    }
    // An agent whose access has ended collects nothing.
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    for name in ["ext_result", "ext_cancel"] {
        let ended = call(&agent, name, &json!({ "of": of }))["result"].clone();
        assert_eq!(ended["structuredContent"]["code"], "FLOW_EXTERNAL_GRANT_REVOKED", "{name}: {ended}");
    }
}

#[test]
fn a_question_is_withdrawn_by_the_agent_that_asked() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let of = waiting(&agent, 3);
    let approval_request = approval_request(&world);
    let cancelled = call(&agent, "ext_cancel", &json!({ "of": of }))["result"].clone();
    assert_eq!(cancelled["structuredContent"]["cancelled"], true, "{cancelled}");
    assert_eq!(collect(&agent, &of)["structuredContent"]["code"], "cancelled");
    assert_ne!(code(&answer(&world, &approval_request, true)), "executed");
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// Calls `charge`. Returns the connection, whose client has not read.
fn sent(agent: &Agent, n: u64, revision: &str, meta: &Value) -> TcpStream {
    let params = json!({ "name": "charge", "arguments": { "n": n }, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params }).to_string();
    let bearer = format!("Bearer {}", agent.bearer);
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ACCEPT,
        ("MCP-Protocol-Version", revision),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "charge"),
    ];
    let mut stream = agent.visitor.connect();
    stream.write_all(&agent.visitor.request("POST", "/mcp", &headers, &body)).unwrap();
    stream
}

/// The metadata of a request in the revision that has no sessions.
fn stateless() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "x", "version": "1" },
    })
}

/// The stateless revision says that to leave is to cancel; before it, a connection that breaks cancels nothing.
#[test]
fn leaving_agents_withdraw_their_approval_request_if_the_revision_says_so() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let leave = |n: u64, revision: &str, meta: Value| {
        let _connection = sent(&agent, n, revision, &meta);
        approval_request(&world)
    };
    let state = |approval_request: &str| {
        world.query(&format!("SELECT state FROM approvals WHERE code = '{approval_request}'"))[0]["state"].clone()
    };
    let gone = leave(1, "2026-07-28", stateless());
    until("it is withdrawn", || (state(&gone) != "waiting").then_some(()));
    let kept = leave(2, "2025-11-25", json!({}));
    // The connection is closed by now; a later request of this agent has been served since.
    assert_eq!(ask(&agent, "tools/list", &json!({})).0, 200);
    assert_eq!(code(&answer(&world, &kept, true)), "executed");
    until("it is made", || (world.effects_of("charge").len() == 1).then_some(()));
}

#[test]
fn a_client_of_an_older_revision_withdraws_its_call_with_a_notification() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let other = Agent::with_access(&mut world, &json!({ "actor_label": "another" }));
    let _connection = sent(&agent, 7, "2025-11-25", &json!({}));
    let approval_request = approval_request(&world);
    let is_waiting = || !world.query("SELECT id FROM approvals WHERE state = 'waiting'").is_empty();
    let cancel = |agent: &Agent, id: Value| {
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        let bearer = format!("Bearer {}", agent.bearer);
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ACCEPT];
        let page = post(agent, &headers, &message.to_string());
        assert_eq!(page.status, 202, "{message}");
        // A later call of this agent is decided after the withdrawal.
        call(agent, "ext_result", &json!({ "of": "r-unknown" }));
    };
    for (agent, id) in [(&other, json!(7)), (&agent, json!(8)), (&agent, json!("7")), (&agent, json!(null))] {
        cancel(agent, id);
        assert!(is_waiting(), "that is no request of this client");
    }
    cancel(&agent, json!(7));
    until("it is withdrawn", || (!is_waiting()).then_some(()));
    assert_ne!(code(&answer(&world, &approval_request, true)), "executed");
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// The call is parsed beside the loop, so its withdrawal must not overtake it.
#[test]
fn an_agent_that_leaves_at_once_withdraws_its_undecided_call() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    // As many notes as the access has invocations.
    for n in 1..=5 {
        drop(sent(&agent, n, "2026-07-28", &stateless()));
        // A call that is answered was parsed after those that came before it.
        let noted = call(&agent, "note", &json!({ "text": format!("{n}") }));
        assert_eq!(noted["result"]["isError"], false, "{noted}");
        until("each is withdrawn", || {
            world.query("SELECT id FROM approvals WHERE state = 'waiting'").is_empty().then_some(())
        });
    }
    let seen = world.query("SELECT id FROM approvals").len();
    assert!(seen > 0, "some calls arrive before their connection ends");
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// A call that waits for a person, by a client that wants to hear of it, once it has heard.
fn followed(agent: &Agent, n: u64) -> BufReader<TcpStream> {
    let params = json!({ "name": "charge", "arguments": { "n": n }, "_meta": { "progressToken": format!("p{n}") } });
    let body = json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params }).to_string();
    let bearer = format!("Bearer {}", agent.bearer);
    let headers =
        [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ACCEPT, ("Prefer", "wait=60")];
    let mut stream = agent.visitor.connect();
    stream.write_all(&agent.visitor.request("POST", "/mcp", &headers, &body)).unwrap();
    BufReader::new(stream)
}

/// The next message of a stream of events.
fn event(stream: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data:").filter(|data| data.trim().starts_with('{')) {
            return serde_json::from_str(data.trim()).unwrap();
        }
    }
}

#[test]
fn a_client_that_wants_to_hear_of_it_has_a_stream_of_progress_until_its_reply() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let mut stream = followed(&agent, 3);
    let approval_request = approval_request(&world);
    let first = event(&mut stream);
    assert_eq!((&first["method"], &first["params"]["progressToken"]), (&json!("notifications/progress"), &json!("p3")));
    let second = event(&mut stream);
    assert!(second["params"]["progress"].as_f64() > first["params"]["progress"].as_f64(), "{first} {second}");
    assert_eq!(code(&answer(&world, &approval_request, true)), "executed");
    let last = std::iter::repeat_with(|| event(&mut stream)).find(|message| message["id"] == 3).unwrap();
    assert_eq!(last["result"]["isError"], false, "{last}");
    assert_eq!(world.effects_of("charge").len(), 1);
}

/// Attack (Flows and external agents): an external agent holds streams of progress open to make
/// room for more
/// Defence: a stream keeps the place and the turn of its request until it ends
#[test]
fn a_stream_of_progress_holds_its_place_until_it_ends() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let mut streams: Vec<_> = (0..8).map(|n| followed(&agent, n)).collect();
    for stream in &mut streams {
        assert_eq!(event(stream)["method"], "notifications/progress");
    }
    assert_eq!(ask(&agent, "tools/list", &json!({})).0, 429, "eight are under way");
    drop(streams);
    until("a place is free", || (ask(&agent, "tools/list", &json!({})).0 == 200).then_some(()));
}

#[test]
fn a_refusal_says_its_code_and_what_to_do_next() {
    let more = "[[flows.external_agent.allowed_tools]]\nid = \"broken\"\ndescription = \"Fails\"\nprovider = \"demo\"\n\
                action = \"broken\"\n";
    let mut world = builder(more).up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "broken"]));
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note", "broken"] }));
    let refused = |called: Value, status: &str, code: &str, next: &str| {
        let result = &called["result"];
        let told = &result["structuredContent"];
        assert_eq!((&result["isError"], &told["status"], &told["code"]), (&json!(true), &json!(status), &json!(code)));
        assert!(text(result).starts_with(&format!("External call {status}: ")), "{result}");
        assert!(text(result).contains(next) && told["error"].as_str().unwrap().contains(next), "{result}");
    };
    refused(call(&agent, "note", &json!({ "x": 1 })), "denied", "invalid_params", "no such parameter");
    refused(call(&agent, "broken", &json!({})), "failed", "provider_failed", "Ask the issuer of your access.");
    assert!(world.cli(&["kill", "group", "external"]).status.success());
    refused(call(&agent, "note", &json!({})), "denied", "kill_switch", "Wait until the operator lifts the stop.");
    assert!(world.cli(&["kill", "group", "external", "--lift"]).status.success());
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    refused(
        call(&agent, "note", &json!({})),
        "denied",
        "FLOW_EXTERNAL_GRANT_REVOKED",
        "Ask the issuer for a new grant",
    );
}

#[test]
fn a_tool_that_is_not_in_the_list_is_unknown_and_that_it_was_called_is_recorded() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note"] }));
    for name in ["not a tool", "charge", "never_heard_of", "demo__echo"] {
        let error = call(&agent, name, &json!({}))["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!(format!("Unknown tool: {name}"))));
    }
    let refused = world.rows().into_iter().filter(|row| row.kind == "refused").count();
    assert!(refused > 0, "what could be a tool is refused where it is written down");
}

/// An error of the protocol, and never another body.
fn error(page: &Page, status: u16, number: i64) -> Value {
    let (found, body) = heard(page);
    assert_eq!((found, &body["jsonrpc"], &body["error"]["code"]), (status, &json!("2.0"), &json!(number)), "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|message| message.len() > 10), "{body}");
    assert!(body.as_object().unwrap().contains_key("id"), "{body}");
    body
}

#[test]
fn every_error_of_http_is_an_error_of_the_protocol() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let bare = agent.visitor.say(&agent.visitor.request("POST", "/mcp", &[("Content-Type", "application/json")], "{}"));
    assert_eq!(bare.header("www-authenticate"), Some("Bearer"));
    assert_eq!(error(&bare, 401, -32000)["error"]["data"]["code"], "FLOW_EXTERNAL_GRANT_DENIED");
    for (bearer, denied) in [
        ("x", "FLOW_EXTERNAL_GRANT_DENIED"),
        ("fgrnt_bearer_0", "FLOW_EXTERNAL_GRANT_DENIED"),
        ("optk_bearer_0", "operator_token_denied"),
    ] {
        let wrong = post(&agent, &[("Authorization", &format!("Bearer {bearer}"))], ping);
        assert_eq!(wrong.header("www-authenticate"), Some(r#"Bearer error="invalid_token""#));
        assert_eq!(error(&wrong, 401, -32000)["error"]["data"]["code"], denied, "{bearer}");
    }
    for method in ["GET", "DELETE"] {
        let page = agent.say(method, "/mcp", &[("Accept", "text/event-stream")], "");
        assert_eq!(error(&page, 405, -32600)["id"], Value::Null, "{method}");
    }
    error(&post(&agent, &[("Host", "evil.example")], ping), 421, -32600);
    error(&post(&agent, &[("Origin", "http://evil.example")], ping), 403, -32000);
    error(&agent.say("POST", "/mcp", &[("Accept", "text/html")], ping), 406, -32600);
    error(&post(&agent, &[("Content-Type", "text/plain")], ping), 415, -32600);
    error(&post(&agent, &[("MCP-Protocol-Version", "1999-01-01")], ping), 400, -32600);
    let long = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(300_000));
    error(&post(&agent, &[], &long), 413, -32600);
    let fast = (0..200).map(|_| post(&agent, &[], ping)).find(|page| page.status == 429).expect("a limit");
    assert_eq!(error(&fast, 429, -32000)["error"]["data"]["code"], "rate_limited");
    assert_eq!(fast.header("retry-after"), Some("1"));
}

/// Attack: see `ambiguous_or_lossy_json_of_external_agents_is_refused`.
#[test]
fn bodies_that_are_no_message_are_answered_as_the_specification_says() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let call = |arguments: &str| {
        let params = format!(r#"{{"name":"note","arguments":{arguments}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}"#)
    };
    for (body, number, id) in [
        ("", -32700, Value::Null),
        ("nonsense", -32700, Value::Null),
        ("{", -32700, Value::Null),
        ("[1,", -32700, Value::Null),
        ("1", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, json!(7)),
        (&call(r#"{"text":12345678901234567890123}"#), -32602, json!("a")),
        (&call(r#"{"text":"a","text":"b"}"#), -32602, json!("a")),
        (&call(r#"{"text":"\ud800"}"#), -32602, json!("a")),
    ] {
        assert_eq!(error(&post(&agent, &[], body), 400, number)["id"], id, "{body}");
    }
    assert_eq!(count(&world, &agent.grant), 0);
    assert_eq!(post(&agent, &[], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).status, 202);
    assert_eq!(post(&agent, &[], &call(r#"{"text":1.5}"#)).status, 200);
}

/// Attack (Flows and external agents): An external agent sends many requests as one batch.
/// Defence: Each message counts as a request of its access. A batch has at most eight.
#[test]
fn a_batch_is_answered_as_one_where_the_revision_has_batches_and_costs_what_its_messages_cost() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let note = |id: u64| {
        let params = json!({ "name": "note", "arguments": { "text": id } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let initialize = json!({ "jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {} });
    let said = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let batch = json!([note(1), said, 1, note(2), initialize, { "jsonrpc": "2.0", "id": null, "method": "ping" }]);
    for headers in [&[][..], &[("MCP-Protocol-Version", "2025-03-26")]] {
        let (status, answers) = heard(&post(&agent, headers, &batch.to_string()));
        let of = |id: Value| answers.as_array().unwrap().iter().filter(move |answer| answer["id"] == id);
        assert_eq!((status, answers.as_array().unwrap().len()), (200, 5), "{answers}");
        for id in [1, 2] {
            assert_eq!(of(json!(id)).next().unwrap()["result"]["structuredContent"]["text"], id, "{answers}");
        }
        assert_eq!(of(json!(5)).next().unwrap()["error"]["code"], -32600);
        assert!(of(Value::Null).all(|answer| answer["error"]["code"] == -32600), "{answers}");
    }
    assert_eq!(count(&world, &agent.grant), 4);
    assert_eq!(post(&agent, &[], &json!([said]).to_string()).status, 202, "nothing in it is answered");
    // Refused as a whole: with one error, and nothing is executed.
    let many: Vec<Value> = (0..9).map(note).collect();
    for (headers, body, why) in [
        (&[("MCP-Protocol-Version", "2025-06-18")][..], json!([note(1)]), "2025-03-26"),
        (&[], json!([]), "empty"),
        (&[], json!(many), "at most 8"),
    ] {
        let refused = error(&post(&agent, headers, &body.to_string()), 400, -32600);
        assert!(refused["error"]["message"].as_str().unwrap().contains(why), "{refused}");
        assert_eq!(refused["id"], Value::Null);
    }
    assert_eq!(count(&world, &agent.grant), 4);
    // Each message is a request where requests are counted, so many batches are no way round.
    let pings: Vec<Value> = (0..8).map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).collect();
    let pings = json!(pings).to_string();
    let answered: usize = (0..30)
        .map(|_| {
            let page = post(&agent, &[], &pings);
            let answers: Value = serde_json::from_str(&page.text).unwrap();
            answers.as_array().map_or(0, |all| all.iter().filter(|answer| answer.get("result").is_some()).count())
        })
        .sum();
    assert!((40..200).contains(&answered), "{answered}");
}
