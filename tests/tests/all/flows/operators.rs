//! Operators elsewhere: how far their tokens reach, what ends them, and that every surface gives the same.

use super::external::{Agent, TOOLS, heard};
use super::{answer, approved, asked, bundle, flow, said, version, with};
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt as _;
use std::sync::mpsc;
use std::time::Duration;
use tests::group::code;
use tests::shim::Shim;
use tests::visitor::Visitor;
use tests::world::CONFIG;
use tests::{DEADLINE, World};

fn world(tools: &str) -> World {
    World::builder().config(&format!("{CONFIG}\n{tools}")).up()
}

/// Somebody with a token.
pub(super) struct Operator {
    visitor: Visitor,
    bearer: String,
    pub(super) token: String,
}

pub(super) const ALL: &str = "flows:read,flows:write,flows:grants";

impl Operator {
    /// By a person at the command line; the bearer must be found nowhere when the world ends.
    pub(super) fn with(world: &mut World, arguments: &[&str]) -> Self {
        let output = world.cli(&[&["--json", "operator-token", "create"], arguments].concat());
        let minted: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
        let bearer = minted["bearer"].as_str().unwrap().to_owned();
        world.keep_secret(bearer.clone());
        let token = minted["token_id"].as_str().unwrap().to_owned();
        Self { visitor: Visitor::of(world), bearer, token }
    }

    pub(super) fn again(self, world: &World) -> Self {
        Self { visitor: Visitor::of(world), ..self }
    }

    fn say(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.bearer);
        let mut all = vec![("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        all.extend(headers);
        heard(&self.visitor.say(&self.visitor.request(method, path, &all, body)))
    }

    /// Asks over HTTP what elsewhere is asked with this document.
    pub(super) fn ask(&self, document: &Value) -> (u16, Value) {
        let mut asked: Map<String, Value> = document.as_object().unwrap().clone();
        let kind = asked.remove("type").unwrap();
        let mut named = |name: &str| asked.remove(name).map_or(String::new(), |id| id.as_str().unwrap().to_owned());
        let (method, path) = match kind.as_str().unwrap() {
            "flow_list" => ("GET", "/api/v1/flows".to_owned()),
            "flow_propose" => ("POST", "/api/v1/flows".to_owned()),
            "flow_import" => ("POST", "/api/v1/flows/import".to_owned()),
            "flow_get" => ("GET", format!("/api/v1/flows/{}", named("flow_id"))),
            "flow_export" => ("GET", format!("/api/v1/flows/{}/export", named("flow_id"))),
            "flow_project" => ("GET", format!("/api/v1/flows/{}/projection", named("flow_id"))),
            "flow_approve" => ("POST", format!("/api/v1/flows/{}/approve", named("flow_id"))),
            "flow_deprecate" => ("POST", format!("/api/v1/flows/{}/deprecate", named("flow_id"))),
            "flow_external_grant_mint" => ("POST", format!("/api/v1/flows/{}/external-grants", named("flow_id"))),
            "flow_external_grant_list" => ("GET", "/api/v1/flows/external-grants".to_owned()),
            "flow_external_grant_revoke" => ("DELETE", format!("/api/v1/flows/external-grants/{}", named("grant_id"))),
            other => panic!("{other}"),
        };
        if method == "POST" {
            return self.say(method, &path, &[], &Value::Object(asked).to_string());
        }
        let pairs = asked.iter().map(|(name, value)| format!("{name}={}", value.to_string().trim_matches('"')));
        let query = pairs.collect::<Vec<_>>().join("&");
        self.say(method, &format!("{path}?{query}"), &[], "")
    }

    /// The same, as a tool of `/mcp`.
    fn call(&self, document: &Value) -> Value {
        let mut arguments = document.clone();
        let name = arguments.as_object_mut().unwrap().remove("type").unwrap();
        self.mcp("tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    fn mcp(&self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let accept = [("Accept", "application/json, text/event-stream")];
        self.say("POST", "/mcp", &accept, &request.to_string()).1
    }

    fn tools(&self) -> Vec<String> {
        let listed = self.mcp("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// One request of each kind, none of which changes what the next one meets.
fn requests() -> [Value; 11] {
    let named = |kind: &str| json!({ "type": kind, "flow_id": "flow_daily" });
    [
        json!({ "type": "flow_list" }),
        named("flow_get"),
        named("flow_export"),
        json!({ "type": "flow_project", "flow_id": "flow_daily", "harness": "cursor_rule" }),
        json!({ "type": "flow_external_grant_list", "flow_id": "flow_daily" }),
        with("flow_propose", &bundle("2.0.0", "Note it.", &[])),
        with("flow_import", &bundle("2.0.0", "Note it.", &[])),
        version("flow_approve", "9.0.0"),
        version("flow_deprecate", "9.0.0"),
        json!({ "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "9.0.0",
                "requested_tools": ["note"] }),
        json!({ "type": "flow_external_grant_revoke", "grant_id": "fgrnt_00000000" }),
    ]
}

#[test]
fn every_surface_gives_the_same() {
    for tools in [TOOLS, "[web]\nlisten = \"127.0.0.1:0\"\n"] {
        let mut world = world(tools);
        approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
        let operator = Operator::with(&mut world, &["--scopes", ALL]);
        let main = Shim::start(&world, "main");
        let mut all = requests().to_vec();
        all.extend(["cli_runbook", "agent_bundle"].map(|harness| {
            json!({ "type": "flow_project", "flow_id": "flow_daily", "harness": harness, "version": "1.0.0" })
        }));
        all.extend([
            with("flow_import", &bundle("2.0.0", "Note it.", &["never_allowed"])),
            with("flow_propose", &bundle("0.9.0", "It goes backwards.", &[])),
            json!({ "type": "flow_list", "state": "proposed", "limit": 1 }),
            json!({ "type": "flow_list", "limit": 201 }),
            json!({ "type": "flow_list", "cursor": "x" }),
            json!({ "type": "flow_get", "flow_id": "flow_other" }),
            json!({ "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
                    "requested_tools": ["never_allowed"] }),
        ]);
        // The first proposal is the proposal for all of them.
        main.call("flow_propose", bundle("2.0.0", "Note it.", &[]));
        for request in &all {
            let by_hand = flow(&world, request);
            let (status, over_http) = operator.ask(request);
            let mut arguments = request.clone();
            let kind = arguments.as_object_mut().unwrap().remove("type").unwrap();
            let by_main = main.call(kind.as_str().unwrap(), arguments)["structuredContent"].clone();
            let client = operator.call(request)["result"].clone();
            assert_eq!((code(&by_hand), &by_hand["data"]), (code(&over_http), &over_http["data"]), "{request}");
            assert_eq!((code(&by_hand), &by_hand["data"]), (code(&by_main), &by_main["data"]), "{request}");
            if code(&by_hand) == "executed" {
                assert_eq!((status, &client["structuredContent"]), (200, &by_hand["data"]), "{request}");
            } else {
                let text = client["content"][0]["text"].as_str().unwrap();
                assert!(status >= 400 && client["isError"] == true, "{request}: {over_http}");
                assert!(text.contains(over_http["error"].as_str().unwrap()), "{request}: {text}");
            }
        }
        // An access, with what it says of itself alone different.
        let mint = json!({ "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
                           "requested_tools": ["note"], "ttl_seconds": 600 });
        let mut all = [flow(&world, &mint), operator.ask(&mint).1, json!({})];
        all[2]["data"] = operator.call(&mint)["result"]["structuredContent"].clone();
        if tools == TOOLS {
            for minted in &mut all {
                let data = &mut minted["data"];
                world.keep_secret(data["bearer"].as_str().unwrap_or_else(|| panic!("{data}")));
                for own in ["/bearer", "/grant/grant_id", "/grant/actor_hash"] {
                    *data.pointer_mut(own).unwrap() = json!("own");
                }
            }
            assert_eq!((&all[0]["data"], &all[0]["data"]), (&all[1]["data"], &all[2]["data"]));
        } else {
            assert_eq!([code(&all[0]), code(&all[1])], ["FLOW_EXTERNAL_AGENT_DISABLED"; 2]);
        }
    }
}

/// Attack (Flows and external agents): A remote operator token is used outside its scope: for
/// another vault or tier, for tools, or to answer an approval.
/// Defence: Scope, tier, vault, expiry and creator are checked in each request's transaction. Every
/// other command is refused. A flow of another tier looks like a missing one.
#[test]
fn a_token_reaches_what_it_says_and_nothing_else() {
    let mut world = world(TOOLS);
    approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
    let kinds = requests().map(|request| request["type"].as_str().unwrap().to_owned());
    for (scopes, reached) in [("flows:read", &kinds[..5]), ("flows:write", &kinds[5..9]), ("flows:grants", &kinds[9..])]
    {
        let operator = Operator::with(&mut world, &["--scopes", scopes]);
        for request in requests() {
            let kind = request["type"].as_str().unwrap().to_owned();
            let (status, reply) = operator.ask(&request);
            let is_reached = code(&reply) != "operator_token_denied";
            assert_eq!(is_reached, reached.contains(&kind), "{scopes} {kind}: {status} {reply}");
            assert!(is_reached || status == 403, "{reply}");
            let nobody = Operator { visitor: operator.visitor.clone(), bearer: String::new(), token: String::new() };
            assert_eq!(nobody.ask(&request).0, 401, "{kind}");
            let client = operator.call(&request);
            assert_eq!(client["result"].is_object(), is_reached, "{scopes} {kind}: {client}");
        }
        let mut tools = operator.tools();
        tools.sort();
        let mut reached = reached.to_vec();
        reached.sort();
        assert_eq!(tools, reached);
        // Commands of others are not theirs: calls of external agents, answers of people, and messages of channels.
        let invoke = operator.say("POST", "/api/v1/flows/external-tools/note/invoke", &[], "{}");
        assert_eq!((invoke.0, code(&invoke.1)), (403, "FLOW_EXTERNAL_GRANT_DENIED"));
        let result = operator.say("GET", "/api/v1/flows/external-calls/out-1", &[], "");
        assert_eq!((result.0, code(&result.1)), (403, "FLOW_EXTERNAL_GRANT_DENIED"));
        let handed = operator.say("POST", "/api/v1/answers", &[], r#"{"from": "telegram:1", "text": "approve x"}"#);
        assert!([401, 421].contains(&handed.0), "{handed:?}");
    }
    assert!(world.rows().iter().all(|row| row.kind != "intended"), "nothing was called");
}

/// Attack: see `a_token_reaches_what_it_says_and_nothing_else`.
#[test]
fn flows_of_other_scopes_are_as_good_as_none() {
    let mut world = world(TOOLS);
    let scoped = |id: &str, number: &str, scope: &str| {
        let text = bundle(number, "Note it.", &["note"]).to_string().replace("flow_daily", id);
        serde_json::from_str::<Value>(&text.replace("\"project\"", &format!("\"{scope}\""))).unwrap()
    };
    for (id, scope) in [("flow_mine", "personal"), ("flow_ours", "org")] {
        flow(&world, &with("flow_propose", &scoped(id, "1.0.0", scope)));
        flow(&world, &json!({ "type": "flow_approve", "flow_id": id, "version": "1.0.0" }));
        answer(&world, &asked(&world), true);
        let mint = json!({ "type": "flow_external_grant_mint", "flow_id": id, "flow_version": "1.0.0",
                           "requested_tools": ["note"] });
        world.keep_secret(flow(&world, &mint)["data"]["bearer"].as_str().unwrap());
    }
    flow(&world, &with("flow_propose", &scoped("flow_ours", "2.0.0", "org")));
    let operator = Operator::with(&mut world, &["--scopes", ALL, "--tiers", "personal,project"]);
    let whole = Operator::with(&mut world, &["--scopes", ALL]);
    let ids = |reply: &Value| {
        let flows = reply["data"]["flows"].as_array().or_else(|| reply["data"]["grants"].as_array()).unwrap();
        flows.iter().map(|row| row["flow_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for kind in ["flow_list", "flow_external_grant_list"] {
        assert_eq!(ids(&operator.ask(&json!({ "type": kind })).1), ["flow_mine"]);
        assert_eq!(ids(&whole.ask(&json!({ "type": kind })).1), ["flow_mine", "flow_ours"]);
    }
    assert_eq!(ids(&operator.ask(&json!({ "type": "flow_list", "scope": "org" })).1), [""; 0]);
    assert_eq!(ids(&operator.ask(&json!({ "type": "flow_list", "state": "proposed" })).1), [""; 0]);
    // One that is not theirs and one that never was say the same.
    for kind in
        ["flow_get", "flow_export", "flow_project", "flow_approve", "flow_deprecate", "flow_external_grant_mint"]
    {
        let request = |id: &str| {
            let mut request = json!({ "type": kind, "flow_id": id });
            match kind {
                "flow_project" => request["harness"] = json!("cursor_rule"),
                "flow_approve" | "flow_deprecate" => request["version"] = json!("2.0.0"),
                "flow_external_grant_mint" => {
                    request["flow_version"] = json!("1.0.0");
                    request["requested_tools"] = json!(["note"]);
                }
                _ => {}
            }
            operator.ask(&request)
        };
        let ([theirs, nobodys], shape) =
            ([request("flow_ours"), request("flow_nobodys")], |(status, reply): &(u16, Value)| {
                (*status, reply["code"].clone(), reply["error"].clone())
            });
        assert_eq!((shape(&theirs), theirs.0), (shape(&nobodys), 404), "{kind}: {theirs:?}");
    }
    let grants = whole.ask(&json!({ "type": "flow_external_grant_list", "flow_id": "flow_ours" })).1;
    let theirs = &grants["data"]["grants"][0]["grant_id"];
    for id in [theirs, &json!("fgrnt_00000000")] {
        let (status, reply) = operator.ask(&json!({ "type": "flow_external_grant_revoke", "grant_id": id }));
        assert_eq!((status, code(&reply)), (403, "FLOW_EXTERNAL_GRANT_DENIED"), "{reply}");
        let (status, reply) = operator.ask(&json!({ "type": "flow_external_grant_list", "cursor": id }));
        assert_eq!((status, code(&reply)), (403, "FLOW_EXTERNAL_GRANT_DENIED"), "{reply}");
    }
    // Nor is anything put there, or in the place of what is there.
    for (kind, bundle) in [
        ("flow_import", scoped("flow_new", "1.0.0", "org")),
        ("flow_propose", scoped("flow_new", "1.0.0", "org")),
        ("flow_propose", scoped("flow_ours", "2.0.0", "project")),
        ("flow_import", scoped("flow_ours", "3.0.0", "personal")),
    ] {
        let (status, reply) = operator.ask(&with(kind, &bundle));
        assert_eq!((status, code(&reply)), (403, "FLOW_IMPORT_SCOPE_DENIED"), "{reply}");
    }
    assert_eq!(operator.ask(&with("flow_import", &scoped("flow_new", "1.0.0", "project"))).0, 200);
    assert_eq!(world.query("SELECT flow_id FROM flow_versions").len(), 4);
}

/// Attack (Flows and external agents): such a token outlives the person who created it, or is
/// disclosed later
/// Defence: it ends when its maker no longer administers; the bearer is 256 random bits, shown
/// once, of which the hash is stored
#[test]
fn a_token_ends_with_time_with_a_word_and_with_the_person_who_made_it() {
    let mut world = world(TOOLS);
    let wanted = json!({ "type": "flow_list" });
    let [short, ended, last] = [["--for", "60s"], ["--for", "8h"], ["--label", "gateway"]]
        .map(|more| Operator::with(&mut world, &[["--scopes", "flows:read"], more].concat()));
    assert_eq!(short.ask(&wanted).0, 200);
    world.clock.advance(Duration::from_secs(61));
    let over = short.ask(&wanted);
    let revoked = said(&world.cli(&["operator-token", "revoke", &ended.token]));
    assert!(revoked.starts_with("Revoked "), "{revoked}");
    let bearer = format!("optk_bearer_{}", "0".repeat(64));
    let forged = Operator { visitor: Visitor::of(&world), token: ended.token.clone(), bearer };
    for (status, reply) in [over, ended.ask(&wanted), forged.ask(&wanted)] {
        assert_eq!((status, code(&reply)), (403, "operator_token_denied"), "{reply}");
    }
    let listed = said(&world.cli(&["operator-token", "list"]));
    assert!(listed.contains("gateway") && listed.contains("revoked ") && !listed.contains("bearer"), "{listed}");
    assert!(!world.cli(&["operator-token", "revoke", "optk_000000000000000000000000"]).status.success());
    // It outlives the broker, and not the person.
    world.restart();
    let last = last.again(&world);
    assert_eq!(last.ask(&wanted).0, 200);
    let by = world.query(&format!("SELECT issued_by FROM operator_tokens WHERE token_id = '{}'", last.token));
    let name = by[0]["issued_by"].as_str().unwrap().strip_prefix("person:").unwrap().to_owned();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    assert!(config.contains(&format!("[people.{name}]")), "{name}");
    let own = format!("uid = {}\n", std::fs::metadata(world.home()).unwrap().uid());
    // The person is gone, or administers no longer.
    for now in [config.replace(&name, "another"), config.replace(&own, "uid = 65533\n")] {
        assert_ne!(now, config);
        world.rewrite("broker.toml", &now);
        world.restart();
        let last = Operator { visitor: Visitor::of(&world), bearer: last.bearer.clone(), token: String::new() };
        assert_eq!(code(&last.ask(&wanted).1), "operator_token_denied");
    }
    // Nothing of it is left after a day, once another one is made.
    world.rewrite("broker.toml", &config);
    world.restart();
    world.clock.advance(Duration::from_hours(40));
    let next = Operator::with(&mut world, &["--scopes", "flows:read"]);
    assert_eq!(world.query("SELECT token_id FROM operator_tokens"), [json!({ "token_id": next.token })]);
}

/// Attack: see `a_token_reaches_what_it_says_and_nothing_else`.
#[test]
fn a_token_is_for_one_vault_and_what_it_reads_is_kept_nowhere() {
    let mut world = world(TOOLS);
    approved(&world, &bundle("1.0.0", "Kept in one place alone.", &["note"]));
    let operator = Operator::with(&mut world, &["--scopes", ALL]);
    let other = Operator::with(&mut world, &["--scopes", ALL, "--vault", "other"]);
    let list = |operator: &Operator, vault: &str| operator.say("GET", "/api/v1/flows", &[("X-Vault-Id", vault)], "");
    assert_eq!(list(&operator, "default").1["data"]["flows"].as_array().unwrap().len(), 1);
    assert_eq!((list(&operator, "other").0, list(&operator, "").0, list(&other, "default").0), (404, 404, 404));
    assert_eq!(list(&other, "other").1["data"]["flows"], json!([]));
    assert_eq!(other.ask(&json!({ "type": "flow_get", "flow_id": "flow_daily" })).0, 404);
    let got = operator.ask(&json!({ "type": "flow_export", "flow_id": "flow_daily" })).1;
    assert!(got.to_string().contains("Kept in one place"), "{got}");
    let rows = world.query("SELECT reply FROM replies WHERE caller LIKE 'operator:%'");
    assert!(rows.iter().all(|row| !row.to_string().contains("Kept in one place")), "{rows:?}");
    // Whose hand it was is in the evidence.
    let proposed = operator.ask(&with("flow_propose", &bundle("1.1.0", "Note it.", &[]))).1;
    assert_eq!(code(&proposed), "executed");
    let row = world.rows().into_iter().rfind(|row| row.kind == "flow").unwrap();
    assert_eq!(row.caller, format!("operator:{}", operator.token));
    let made = world.rows().into_iter().find(|row| row.body.contains(&operator.token)).unwrap();
    assert!(made.caller.starts_with("person:"), "{made:?}");
}

/// Attack (Flows and external agents): A leaked operator token continues in the access that it has
/// given, or ends approved versions.
/// Defence: That access ends with the token. Only people end canonical versions.
#[test]
fn external_grants_of_a_token_end_with_it_and_it_cannot_end_approved_flows() {
    let mut world = world(TOOLS);
    approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
    let operator = Operator::with(&mut world, &["--scopes", ALL]);
    let theirs = Agent::by_token(&mut world, &operator);
    let own = Agent::with_access(&mut world, &json!({ "requested_tools": ["note"] }));
    assert_eq!(theirs.invoke("note", &json!({})).0, 200);
    let (status, refused) = operator.ask(&version("flow_deprecate", "1.0.0"));
    assert_eq!((status, code(&refused)), (403, "guardrail"), "{refused}");
    // A proposal of a person is not its own, either.
    flow(&world, &with("flow_propose", &bundle("2.0.0", "Note it well.", &[])));
    assert_eq!(code(&operator.ask(&version("flow_deprecate", "2.0.0")).1), "guardrail");
    assert_eq!(code(&operator.ask(&with("flow_propose", &bundle("2.0.0", "Note nothing.", &[]))).1), "guardrail");
    let ended = said(&world.cli(&["operator-token", "revoke", &operator.token]));
    assert!(ended.contains("every access that it created"), "{ended}");
    assert_eq!(theirs.no("note"), "FLOW_EXTERNAL_GRANT_REVOKED");
    assert_eq!(own.invoke("note", &json!({})).0, 200, "another's is what it was");
}

/// Attack: see `repeated_replies_are_stored_once_and_failures_name_no_remote_text`.
#[test]
fn operators_find_a_place_however_many_agents_wait() {
    let mut world = world(TOOLS);
    approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
    let operator = Operator::with(&mut world, &["--scopes", ALL]);
    let agents: Vec<Agent> =
        (0..4).map(|_| Agent::with_access(&mut world, &json!({ "requested_tools": ["note"] }))).collect();
    let slow: Vec<_> = agents
        .iter()
        .flat_map(|agent| {
            let bearer = format!("Bearer {}", agent.bearer);
            (0..8).map(move |_| {
                let headers = [("Authorization", bearer.as_str()), ("Content-Length", "100000")];
                let mut stream = agent.visitor.connect();
                stream.write_all(&agent.visitor.request("POST", "/mcp", &headers, "")).unwrap();
                stream
            })
        })
        .collect();
    // Eight of thirty-two found no place; the others keep theirs.
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for stream in &slow {
            let tell = tell.clone();
            scope.spawn(move || {
                let mut line = String::new();
                BufReader::new(stream).read_line(&mut line).ok();
                tell.send(line).ok();
            });
        }
        for _ in 0..8 {
            let line = told.recv_timeout(DEADLINE).unwrap();
            assert!(line.starts_with("HTTP/1.1 429 "), "{line}");
        }
        assert_eq!(operator.ask(&json!({ "type": "flow_list" })).0, 200);
        assert!(told.try_recv().is_err(), "they still send");
        for stream in &slow {
            stream.shutdown(Shutdown::Both).ok();
        }
    });
}

/// Attack (Flows and external agents): An operator's request has different meanings in path and
/// body, contains members of the envelope, or fills the disk.
/// Defence: Ambiguous requests are refused. The envelope is the broker's. There are 100 requests at
/// once and 10 per second. Reads are not stored.
#[test]
fn requests_of_operators_are_parsed_strictly() {
    let mut world = world(TOOLS);
    approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
    let operator = Operator::with(&mut world, &["--scopes", ALL]);
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for (method, path, body) in [
        ("GET", "/api/v1/flows?limit=1&limit=2", ""),
        ("GET", "/api/v1/flows?limit=-1", ""),
        ("GET", "/api/v1/flows?sate=approved", ""),
        ("GET", "/api/v1/flows?type=flow_get", ""),
        ("GET", "/api/v1/flows/flow_daily?flow_id=flow_other", ""),
        ("GET", "/api/v1/flows/..%2F..%2Fetc", ""),
        ("GET", "/api/v1/flows/%FF", ""),
        ("POST", "/api/v1/flows", ""),
        ("POST", "/api/v1/flows", "[]"),
        ("POST", "/api/v1/flows", "{\"flow\": {}, \"flow\": {}}"),
        ("POST", "/api/v1/flows", &deep),
        ("POST", "/api/v1/flows/flow_daily/approve", "{\"version\": \"1.0.0\", \"context_token\": \"x\"}"),
        ("POST", "/api/v1/flows/flow_daily/approve", "{\"version\": \"1.0.0\", \"flow_id\": \"flow_other\"}"),
        ("DELETE", "/api/v1/flows/external-grants/x", ""),
    ] {
        let (status, reply) = operator.say(method, path, &[], body);
        assert_eq!((status, code(&reply)), (400, "invalid_params"), "{method} {path}: {reply}");
    }
    assert_eq!(operator.say("POST", "/api/v1/flows", &[], &"x".repeat(300 * 1024)).0, 413);
    assert_eq!(operator.say("PUT", "/api/v1/flows", &[], "{}").0, 405);
    let bare = operator.visitor.say(&operator.visitor.request("GET", "/api/v1/flows", &[], ""));
    assert_eq!((bare.status, bare.header("www-authenticate")), (401, Some("Bearer")));
    // An operator that asks faster than rows are to be written is told to wait; another one is not.
    let slowed = (0..300).map(|_| operator.ask(&json!({ "type": "flow_list" })).0).find(|status| *status == 429);
    assert_eq!(slowed, Some(429));
    let other = Operator::with(&mut world, &["--scopes", ALL]);
    assert_eq!(other.ask(&json!({ "type": "flow_list" })).0, 200);
    let described = operator.visitor.say(&operator.visitor.request("GET", "/api/v1/openapi.json", &[], ""));
    let described: Value = serde_json::from_str(&described.text).unwrap();
    assert_eq!(described["openapi"], "3.1.1");
    assert!(described["paths"]["/api/v1/flows/{flow_id}/external-grants"]["post"]["requestBody"].is_object());
}
