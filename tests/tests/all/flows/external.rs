//! External agents: what they are given, how they use it, and everything that ends it.

mod exposure;
mod giving;
mod mcp;
mod people;
mod pressure;
mod secrets;
mod shares;

use super::operators::Operator;
use super::{answer, approved, bundle, flow, said, version, with};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::sync::mpsc;
use std::time::Duration;
use tests::group::code;
use tests::shim::Shim;
use tests::visitor::{Page, Visitor};
use tests::world::CONFIG;
use tests::{DEADLINE, World, until};

/// Three tools, one of which nobody may be given for lack of a step that names it.
pub(super) const TOOLS: &str = r#"
[web]
listen = "127.0.0.1:0"

[flows]
vaults = ["default", "other"]

[flows.external_agent]
enabled = true
max_invocations = 5

[[flows.external_agent.allowed_tools]]
id = "note"
description = "Says it back"
provider = "demo"
action = "echo"
params = { to = "us" }
open = ["text"]

[[flows.external_agent.allowed_tools]]
id = "charge"
description = "Charges"
provider = "demo"
action = "charge"
open = ["n", "ms"]

[[flows.external_agent.allowed_tools]]
id = "strict"
description = "Is strict"
provider = "demo"
action = "strict"
open = ["page"]
params = { repo = "a" }
"#;

fn builder(more: &str) -> tests::world::Builder {
    World::builder().config(&format!("{CONFIG}\n{TOOLS}{more}"))
}

/// With a canonical flow whose step names two of the tools.
fn world() -> World {
    let world = builder("").up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    world
}

fn mint(world: &World, request: &Value) -> Value {
    let mut document = json!({ "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
                               "requested_tools": ["note", "charge"] });
    document.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
    flow(world, &document)
}

/// An external agent with this bearer.
pub(super) struct Agent {
    pub(super) visitor: Visitor,
    pub(super) bearer: String,
    pub(super) grant: String,
}

impl Agent {
    /// Given access by a person; the bearer must be found nowhere when the world ends.
    pub(super) fn with_access(world: &mut World, request: &Value) -> Self {
        let minted = mint(world, request);
        assert_eq!(code(&minted), "executed", "{minted}");
        Self::of(world, &minted)
    }

    /// Given access to the tool `note` by an operator token.
    pub(super) fn by_token(world: &mut World, operator: &Operator) -> Self {
        let minted = operator.ask(&json!({
            "type": "flow_external_grant_mint",
            "flow_id": "flow_daily",
            "flow_version": "1.0.0",
            "requested_tools": ["note"],
        }));
        Self::of(world, &minted.1)
    }

    fn of(world: &mut World, minted: &Value) -> Self {
        let bearer = minted["data"]["bearer"].as_str().unwrap().to_owned();
        world.keep_secret(bearer.clone());
        let grant = minted["data"]["grant"]["grant_id"].as_str().unwrap().to_owned();
        Self { visitor: Visitor::of(world), bearer, grant }
    }

    fn say(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let bearer = format!("Bearer {}", self.bearer);
        let mut all = vec![("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers);
        self.visitor.say(&self.visitor.request(method, path, &all, body))
    }

    pub(super) fn read(&self, flow: &str) -> (u16, Value) {
        heard(&self.say("GET", &format!("/api/v1/flows/{flow}/projection?harness=agent_bundle"), &[], ""))
    }

    pub(super) fn invoke(&self, tool: &str, given: &Value) -> (u16, Value) {
        heard(&self.say("POST", &format!("/api/v1/flows/external-tools/{tool}/invoke"), &[], &given.to_string()))
    }

    /// The code of a no.
    pub(super) fn no(&self, tool: &str) -> String {
        let (status, reply) = self.invoke(tool, &json!({}));
        assert!((400..500).contains(&status), "{status} {reply}");
        reply["code"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }
}

pub(super) fn heard(page: &Page) -> (u16, Value) {
    assert_eq!(page.header("content-type"), Some("application/json"), "{page:?}");
    (page.status, serde_json::from_str(&page.text).unwrap_or_else(|_| panic!("{page:?}")))
}

fn count(world: &World, grant: &str) -> i64 {
    let found = world.query(&format!("SELECT invocations FROM flow_grants WHERE grant_id = '{grant}'"));
    found[0]["invocations"].as_i64().unwrap()
}

/// Attack (Flows and external agents): An external agent calls a tool that it was not given, or
/// sets fixed values. It calls too often, too late, or after a newer version. It calls after its
/// access has ended or the operator has changed the rules.
/// Defence: Every condition is checked in each call's transaction. The call is counted in the
/// intent's transaction.
#[test]
fn an_external_agent_reads_its_flow_and_calls_its_tools_and_nothing_else() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note"], "actor_label": "slack-bot" }));
    let (status, read) = agent.read("flow_daily");
    assert_eq!(status, 200, "{read}");
    let rendered: Value = serde_json::from_str(read["data"]["projection"]["rendered"].as_str().unwrap()).unwrap();
    assert_eq!((&rendered["grant_required"], &rendered["flow_version"]), (&json!(true), &json!("1.0.0")), "{rendered}");
    let (status, reply) = agent.invoke("note", &json!({ "text": "hi" }));
    assert_eq!((status, code(&reply)), (200, "executed"), "{reply}");
    assert_eq!(reply["data"], json!({ "to": "us", "text": "hi" }), "what is fixed and what was given");
    let row = world.rows().into_iter().rfind(|row| row.kind == "intended").unwrap();
    assert_eq!(row.caller, format!("outside:{}", agent.grant));
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!((row.action.as_deref(), &body["tool"]), (Some("echo"), &json!("note")));
    assert_eq!(count(&world, &agent.grant), 1);
    let listed = said(&world.cli(&["calls", "list"]));
    assert!(listed.contains(&agent.grant) && listed.contains("echo"), "{listed}");
    // Nothing fixed can be given, nor anything else; and nothing that it has no access to.
    for (given, closed) in [(json!({ "to": "them" }), "/to"), (json!({ "x": 1 }), "/x")] {
        let (status, reply) = agent.invoke("note", &given);
        assert_eq!((status, code(&reply)), (400, "invalid_params"), "{reply}");
        assert!(reply["error"].as_str().unwrap().contains(closed), "{reply}");
    }
    assert_eq!(agent.no("charge"), "FLOW_EXTERNAL_GRANT_TOOL_DENIED");
    assert_eq!(agent.no("never_heard_of"), "FLOW_EXTERNAL_GRANT_TOOL_DENIED");
    assert_eq!(agent.read("flow_other").1["code"], "FLOW_EXTERNAL_GRANT_FLOW_MISMATCH");
    assert_eq!(count(&world, &agent.grant), 1, "a no is no call");
    // Where groups and people are served there is nothing for it.
    for path in ["/", "/events", "/api/v1/flows", "/api/v1/answers", "/api/v1/flows/flow_daily"] {
        let page = agent.say("GET", path, &[], "");
        assert!(page.status >= 300, "{path}: {page:?}");
    }
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// Attack (Flows and external agents): A bearer is guessed, or used with another name. It is read
/// from the database, a log, a list or a stored reply.
/// Defence: It has 256 random bits and is shown once; only its hash is stored. Wrong bearers get
/// one answer, are slowed down, and are counted in the ledger.
#[test]
fn requests_without_a_bearer_or_with_a_foreign_one_learn_nothing() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let other = Agent::with_access(&mut world, &json!({}));
    let path = "/api/v1/flows/external-tools/note/invoke";
    let with = |headers: &[(&str, &str)]| heard(&agent.say("POST", path, headers, "{}"));
    let bare = agent.visitor.say(&agent.visitor.request("POST", path, &[], "{}"));
    assert_eq!((bare.status, bare.header("www-authenticate")), (401, Some("Bearer")), "{bare:?}");
    let unknown = with(&[("Authorization", &format!("Bearer fgrnt_bearer_{}", "0".repeat(64)))]);
    assert_eq!((unknown.0, code(&unknown.1)), (403, "FLOW_EXTERNAL_GRANT_DENIED"));
    // Somebody else's access, an access that there is not, and no bearer at all say the same.
    assert_eq!(with(&[("X-Flow-Grant-Id", &other.grant)]), unknown);
    assert_eq!(with(&[("X-Flow-Grant-Id", "fgrnt_00000000")]), unknown);
    assert_eq!(with(&[("Authorization", "Bearer x")]), unknown);
    assert_eq!(with(&[("X-Flow-External-Bearer", "x")]), unknown, "it is not the other header that counts then");
    assert_eq!(with(&[("X-Flow-Grant-Id", &agent.grant)]).0, 200);
    assert_eq!(with(&[("Authorization", "Bearer x"), ("X-Flow-External-Bearer", &agent.bearer)]).0, 200);
    // Another's calls are as good as none.
    let (_, reply) = agent.invoke("note", &json!({}));
    let id = reply["request_id"].as_str().unwrap();
    let asked =
        |agent: &Agent, id: &str| heard(&agent.say("GET", &format!("/api/v1/flows/external-calls/{id}"), &[], ""));
    assert_eq!(asked(&agent, id).0, 200);
    let (status, theirs) = asked(&other, id);
    let (_, nobodys) = asked(&other, "out-0000");
    assert_eq!((status, &theirs["code"], &theirs["error"]), (404, &nobodys["code"], &nobodys["error"]));
    // Wrong ones are slowed down, and counted where an auditor sees it.
    let slowed = (0..200).map(|_| with(&[("Authorization", "Bearer x")]).0).find(|status| *status == 429);
    assert_eq!(slowed, Some(429));
    assert_eq!(agent.invoke("note", &json!({})).0, 200, "whoever has one is not");
    let refused = world.rows().into_iter().filter(|row| row.caller == "outside" && row.kind == "refused").count();
    assert_eq!(refused, 1, "counted in one row, not one each");
}

/// Attack: see `an_external_agent_reads_its_flow_and_calls_its_tools_and_nothing_else`.
#[test]
fn an_access_ends_with_time_with_a_word_and_with_the_version() {
    let mut world = world();
    let [short, ended, last] =
        [60, 3600, 3600].map(|ttl| Agent::with_access(&mut world, &json!({ "ttl_seconds": ttl })));
    assert_eq!(short.invoke("note", &json!({})).0, 200);
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(short.no("note"), "FLOW_EXTERNAL_GRANT_EXPIRED");
    let revoked = said(&world.cli(&["flow", "grant", "revoke", &ended.grant]));
    assert!(revoked.contains("Revoked "), "{revoked}");
    assert_eq!(ended.no("note"), "FLOW_EXTERNAL_GRANT_REVOKED");
    assert_eq!(ended.read("flow_daily").1["code"], "FLOW_EXTERNAL_GRANT_REVOKED");
    let again = flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": ended.grant }));
    assert_eq!(code(&again), "executed", "twice is as good as once");
    let theirs = json!({ "type": "flow_external_grant_revoke", "grant_id": last.grant });
    let elsewhere = world.command(json!({ "type": "flow", "vault": "other", "request": theirs }));
    assert_eq!(code(&elsewhere), "FLOW_EXTERNAL_GRANT_DENIED", "another vault's");
    // People work by another version now, and then by none.
    assert_eq!(last.invoke("note", &json!({})).0, 200);
    approved(&world, &bundle("1.1.0", "Note it well.", &["note"]));
    assert_eq!(last.no("note"), "FLOW_EXTERNAL_GRANT_FLOW_MISMATCH");
    flow(&world, &version("flow_deprecate", "1.1.0"));
    assert_eq!(last.no("note"), "FLOW_EXTERNAL_GRANT_DENIED");
    // An ended access is forgotten after a day, and then it never was.
    world.clock.advance(Duration::from_hours(26));
    let main = world.group("main");
    until("it is forgotten", || {
        main.ask(json!({ "type": "ext_capabilities" }));
        world.query("SELECT grant_id FROM flow_grants").is_empty().then_some(())
    });
    assert_eq!(ended.no("note"), "FLOW_EXTERNAL_GRANT_DENIED");
    assert_eq!(world.query("SELECT n FROM flow_grants_count")[0]["n"], 0);
    assert_eq!(world.query("SELECT caller FROM exposures WHERE caller LIKE 'outside:%'"), [Value::Null; 0]);
}

/// Attack: see `an_external_agent_reads_its_flow_and_calls_its_tools_and_nothing_else`.
#[test]
fn switched_off_external_agents_do_nothing_and_accesses_can_still_be_ended() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    for (line, refusal) in [
        ("enabled = false", "FLOW_EXTERNAL_AGENT_DISABLED"),
        ("enabled = true\nforbidden = true", "FLOW_EXTERNAL_AGENT_POLICY_FORBIDDEN"),
    ] {
        world.rewrite("broker.toml", &config.replace("enabled = true", line));
        world.restart();
        let agent = Agent { visitor: Visitor::of(&world), bearer: agent.bearer.clone(), grant: agent.grant.clone() };
        assert_eq!(agent.no("note"), refusal);
        assert_eq!(code(&mint(&world, &json!({}))), refusal);
        assert_eq!(code(&flow(&world, &json!({ "type": "flow_external_grant_list" }))), "executed");
    }
    let revoked = flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    assert_eq!(code(&revoked), "executed", "{revoked}");
    // A tool that is allowed no more is called no more, whatever was given.
    world.rewrite("broker.toml", &config);
    world.restart();
    let agent = Agent::with_access(&mut world, &json!({}));
    world.rewrite("broker.toml", &config.replace("id = \"note\"", "id = \"notes\""));
    world.restart();
    let agent = Agent { visitor: Visitor::of(&world), ..agent };
    assert_eq!(agent.no("note"), "FLOW_EXTERNAL_TOOL_DENIED");
    assert_eq!(agent.no("notes"), "FLOW_EXTERNAL_GRANT_TOOL_DENIED");
}

/// Attack (Flows and external agents): An external write is made without a person, twice, or after
/// its access has ended.
/// Defence: The tier is `human`, unless a profile sets another one for writes. The card names the
/// flow, its version and who gave the access. The call is decided again after the approval.
#[test]
fn a_write_of_an_external_agent_asks_a_person_and_is_made_once() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let path = "/api/v1/flows/external-tools/charge/invoke";
    let headers = [("Prefer", "respond-async, wait=0"), ("Idempotency-Key", "k-1")];
    let asked = agent.say("POST", path, &headers, r#"{"n": 3}"#);
    assert_eq!(asked.status, 202, "{asked:?}");
    let place = asked.header("location").unwrap().to_owned();
    assert!(asked.text.contains(&place) && !asked.text.contains("ext_result"), "{}", asked.text);
    assert_eq!(count(&world, &agent.grant), 0, "nothing has begun");
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    let shown = said(&world.cli(&["approvals", "show", approval_request.as_str().unwrap()]));
    for part in [
        &format!("External agent: {}", agent.grant),
        "Flow: flow_daily@1.0.0",
        "Access given by: person:",
        "Tool: charge",
        "Action: demo.charge",
        "n: 3",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(agent.say("GET", &place, &[], "").status, 202);
    // The broker ends in between; the question does not.
    world.restart();
    let agent = Agent { visitor: Visitor::of(&world), ..agent };
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    assert_eq!(code(&answer(&world, approval_request.as_str().unwrap(), true)), "executed");
    let (status, reply) = heard(&agent.say("GET", &place, &[("Prefer", "wait=30")], ""));
    assert_eq!((status, code(&reply)), (200, "executed"), "{reply}");
    assert_eq!((world.effects_of("charge").len(), count(&world, &agent.grant)), (1, 1));
    // The same again is the same.
    let again = agent.say("POST", path, &headers, r#"{"n": 3}"#);
    assert_eq!((again.status, world.effects_of("charge").len()), (200, 1), "{again:?}");
    let another = heard(&agent.say("POST", path, &headers, r#"{"n": 4}"#));
    assert_eq!((another.0, code(&another.1)), (409, "idempotency_conflict"));
    // A no is told, and an access that ends meanwhile ends what waits.
    let asked = agent.say("POST", path, &[("Prefer", "wait=0")], r#"{"n": 5}"#);
    let place = asked.header("location").unwrap().to_owned();
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    answer(&world, approval_request.as_str().unwrap(), true);
    let ended = heard(&agent.say("GET", &place, &[("Prefer", "wait=30")], ""));
    assert_eq!((ended.0, code(&ended.1)), (403, "FLOW_EXTERNAL_GRANT_REVOKED"), "{ended:?}");
    assert_eq!(world.effects_of("charge").len(), 1);
}

/// Attack: see `an_external_agent_reads_its_flow_and_calls_its_tools_and_nothing_else`.
#[test]
fn concurrent_calls_never_exceed_the_given_number_even_if_the_daemon_dies() {
    let mut world = builder("").down();
    world.rewrite("policy/profiles/external.toml", "write = \"auto\"\n");
    world.start();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let agent = Agent::with_access(&mut world, &json!({}));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let call = |n: usize| {
            scope.spawn({
                let agent = &agent;
                move || agent.invoke("charge", &json!({ "n": n })).0
            })
        };
        let running: Vec<_> = (0..8).map(call).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 3, "{statuses:?}");
    assert_eq!((world.effects_of("charge").len(), count(&world, &agent.grant)), (5, 5));
    assert_eq!(agent.no("note"), "FLOW_EXTERNAL_GRANT_DENIED");
}

/// Attack: see `an_external_agent_reads_its_flow_and_calls_its_tools_and_nothing_else`.
#[test]
fn started_calls_are_counted_even_if_the_daemon_dies() {
    let mut world = builder("").down();
    world.rewrite("policy/profiles/external.toml", "write = \"auto\"\n");
    world.start_process();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let agent = Agent::with_access(&mut world, &json!({}));
    let begun = |world: &World| {
        let rows = world.rows().into_iter();
        i64::try_from(rows.filter(|row| row.kind == "intended" && row.caller.starts_with("outside:")).count()).unwrap()
    };
    std::thread::scope(|scope| {
        let slow =
            scope.spawn(|| agent.say("POST", "/api/v1/flows/external-tools/charge/invoke", &[], r#"{"ms": 600000}"#));
        until("it has begun", || (begun(&world) == 1).then_some(()));
        world.kill();
        assert_eq!(slow.join().unwrap().status, 0, "the connection is gone with the broker");
    });
    world.start_process();
    assert_eq!((count(&world, &agent.grant), begun(&world)), (1, 1));
    let agent = Agent { visitor: Visitor::of(&world), ..agent };
    assert_eq!(agent.invoke("note", &json!({})).0, 200);
    assert_eq!((count(&world, &agent.grant), begun(&world)), (2, 2));
}

/// Attack (Flows and external agents): A foreign name, a browser page or an unintended proxy sends
/// requests of external agents.
/// Defence: Only literal names of this machine and named hosts are accepted. A request through a
/// proxy must use a named host. Other origins are refused.
#[test]
fn a_host_that_nobody_has_named_and_a_browser_are_turned_away() {
    let mut world = builder("").down();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let named = config.replace("max_invocations = 5", "hosted_hostnames = [\"flows.example\"]");
    world.rewrite("broker.toml", &named);
    world.start();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let agent = Agent::with_access(&mut world, &json!({}));
    let path = "/api/v1/flows/flow_daily/projection?harness=agent_bundle";
    let from = |agent: &Agent, headers: &[(&str, &str)]| heard(&agent.say("GET", path, headers, ""));
    assert_eq!(from(&agent, &[("Host", "evil.example")]).0, 421, "a name that somebody made lead here");
    assert_eq!(from(&agent, &[("Host", "flows.example.evil.example")]).0, 421);
    let hosted = from(&agent, &[("Host", "flows.example")]);
    assert_eq!((hosted.0, code(&hosted.1)), (403, "FLOW_HOSTED_PROJECTION_DISABLED"));
    for origin in
        ["https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1:x", "localhost:80", ""]
    {
        assert_eq!(from(&agent, &[("Origin", origin)]).0, 403, "{origin}");
    }
    // Somebody in between says so, and by which name it was asked.
    for between in ["Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host"] {
        assert_eq!(from(&agent, &[(between, "1.1 somebody")]).0, 421, "{between}");
    }
    let bearer = format!("Bearer {}", agent.bearer);
    let absolute =
        agent.visitor.request("GET", &format!("http://evil.example{path}"), &[("Authorization", &bearer)], "");
    assert_eq!(agent.visitor.say(&absolute).status, 421);
    assert_eq!(from(&agent, &[("Authorization", &bearer.replace("Bearer", "bEARER"))]).0, 200);
    for origin in ["http://localhost:6274", "http://127.0.0.1", "http://[::1]:80"] {
        assert_eq!(from(&agent, &[("Origin", origin)]).0, 200, "{origin}");
    }
    assert_eq!(from(&agent, &[]).0, 200);
    for own in ["127.0.0.1", "127.0.0.1:7420", "localhost:80", "[::1]:7420"] {
        assert_eq!(from(&agent, &[("Host", own)]).0, 200, "{own}");
    }
    for other in ["127.0.0.1.evil.example", "localhost.evil.example:80", "127.0.0.1:80:80", ""] {
        assert_eq!(from(&agent, &[("Host", other)]).0, 421, "{other}");
    }
    world.rewrite("broker.toml", &named.replace("hosted_hostnames", "hosted_projection = true\nhosted_hostnames"));
    world.restart();
    let agent = Agent { visitor: Visitor::of(&world), ..agent };
    assert_eq!(from(&agent, &[("Host", "flows.example")]).0, 200);
    assert_eq!(from(&agent, &[("Host", "flows.example"), ("X-Forwarded-For", "192.0.2.1")]).0, 200);
    assert_eq!(from(&agent, &[("Host", "evil.example")]).0, 421);
    assert_eq!(agent.say("GET", "/", &[("Host", "flows.example")], "").status, 421, "the inbox is not there");
    // Behind a proxy, its name is no name of this machine's own.
    let public = named.replace("[web]", "[web]\npublic_url = \"https://inbox.example\"");
    // The port is known to nobody but the proxy, so it is fixed for a moment.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    world.rewrite("broker.toml", &public.replace("127.0.0.1:0", &format!("127.0.0.1:{port}")));
    world.restart();
    let agent = Agent { visitor: Visitor::at("http://127.0.0.1", port), ..agent };
    assert_eq!(from(&agent, &[("Host", "inbox.example")]).0, 421);
    assert_eq!(from(&agent, &[("Host", "127.0.0.1")]).0, 200);
}

#[test]
fn every_refusal_of_the_interface_has_a_code_and_an_unknown_path_is_not_found() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let own = ("Host", "127.0.0.1");
    for (method, path, headers, status) in [
        ("GET", "/api/v1/nothing", &[own][..], 404),
        ("POST", "/api/v1/flow", &[own], 404),
        ("GET", "/api/v1/nothing", &[("Host", "evil.example")], 421),
        ("GET", "/api/v1/flows", &[own, ("Authorization", "Bearer x")], 403),
        ("GET", "/api/v1/flows", &[own, ("Authorization", "Basic x")], 401),
        ("GET", "/api/v1/flows", &[own, ("Origin", "https://evil.example")], 403),
        ("PUT", "/api/v1/flows", &[own], 405),
        ("POST", "/api/v1/answers", &[("Authorization", "Bearer x")], 401),
        ("POST", "/api/v1/answers", &[("Host", "evil.example")], 421),
    ] {
        let (found, refused) = heard(&agent.say(method, path, headers, if method == "GET" { "" } else { "{}" }));
        assert_eq!(found, status, "{method} {path} {headers:?}: {refused}");
        let code = refused["code"].as_str().unwrap_or_default();
        assert!(shared::Code::ALL.iter().any(|known| known.word() == code), "{method} {path}: {refused}");
    }
}

/// Attack (Flows and external agents): An external agent asks for a result after its access has
/// ended, or reads while everything is stopped.
/// Defence: The access and the kill switch are checked for results and flows as for calls.
///
/// Attack: see `a_profile_that_says_nothing_of_writes_lets_none_pass`.
#[test]
fn revocation_and_kill_switch_end_an_external_grant_completely() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note"] }));
    let (_, reply) = agent.invoke("note", &json!({ "text": "hi" }));
    let id = reply["request_id"].as_str().unwrap().to_owned();
    let heard_of = || heard(&agent.say("GET", &format!("/api/v1/flows/external-calls/{id}"), &[], "")).1;
    assert_eq!(code(&heard_of()), "executed");
    let (_, read) = agent.read("flow_daily");
    let rendered: Value = serde_json::from_str(read["data"]["projection"]["rendered"].as_str().unwrap()).unwrap();
    assert_eq!(rendered["allowed_tools"], json!(["note"]), "not what others may be given");
    for scope in [&["kill", "all"][..], &["kill", "group", "external"]] {
        assert!(world.cli(scope).status.success());
        assert_eq!((agent.no("note"), code(&agent.read("flow_daily").1)), ("kill_switch".into(), "kill_switch"));
        assert_eq!(code(&heard_of()), "kill_switch");
        assert!(world.cli(&[scope, &["--lift"][..]].concat()).status.success());
    }
    assert_eq!(code(&heard_of()), "executed");
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    assert_eq!(code(&heard_of()), "FLOW_EXTERNAL_GRANT_REVOKED");
    // Nor does it learn which tools there are by giving what none takes.
    for tool in ["note", "charge", "never_heard_of"] {
        assert_eq!(code(&agent.invoke(tool, &json!({ "zz": 1 })).1), "FLOW_EXTERNAL_GRANT_REVOKED", "{tool}");
    }
}

#[test]
fn a_production_tool_takes_its_gate_and_a_person_each_time() {
    let more = "[[flows.external_agent.allowed_tools]]\nid = \"ship\"\ndescription = \"Ships\"\nprovider = \"demo\"\n\
                action = \"deploy\"\ngate = \"Security\"\ntask_id = \"gov-7\"\n";
    let mut world = builder(more).up();
    approved(&world, &bundle("1.0.0", "Ship it.", &["ship"]));
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["ship"] }));
    assert_eq!(agent.no("ship"), "task_unknown");
    for arguments in
        [&["task", "create", "main", "Ship it", "--id", "gov-7"][..], &["gate", "approve", "gov-7", "Security"]]
    {
        let output = world.cli(arguments);
        assert!(output.status.success(), "{}", said(&output));
    }
    let path = "/api/v1/flows/external-tools/ship/invoke";
    let asked = agent.say("POST", path, &[("Prefer", "wait=0")], "{}");
    assert_eq!((asked.status, world.effects_of("deploy").len()), (202, 0), "{asked:?}");
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    answer(&world, approval_request.as_str().unwrap(), true);
    let told = heard(&agent.say("GET", asked.header("location").unwrap(), &[("Prefer", "wait=30")], ""));
    assert_eq!((told.0, code(&told.1), world.effects_of("deploy").len()), (200, "executed", 1), "{told:?}");
    assert_eq!(agent.no("ship"), "gate_missing", "an open gate serves one call");
    assert_eq!(world.effects_of("deploy").len(), 1);
}

/// Attack (Flows and external agents): An external agent fills the disk with repeated answers, uses
/// up a provider's hourly limit, or leaves operators no place.
/// Defence: No copy of an earlier answer is stored. Each access has 120 reads and 30 writes per
/// minute, including lookups before a write. Operators have places of their own.
///
/// Attack: see `a_profile_that_says_nothing_of_writes_lets_none_pass`.
#[test]
fn repeated_replies_are_stored_once_and_failures_name_no_remote_text() {
    let more = "[[flows.external_agent.allowed_tools]]\nid = \"broken\"\ndescription = \"Fails\"\nprovider = \"demo\"\n\
                action = \"broken\"\n";
    let mut world = builder(more).up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "broken"]));
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note", "broken"] }));
    let path = "/api/v1/flows/external-tools/note/invoke";
    let given = json!({ "text": "x".repeat(50_000) }).to_string();
    let call = || heard(&agent.say("POST", path, &[("Idempotency-Key", "k-1")], &given)).1;
    let first = call();
    let id = first["request_id"].as_str().unwrap().to_owned();
    let kept = || world.query("SELECT count(*) AS n FROM replies")[0]["n"].clone();
    let before = kept();
    for _ in 0..5 {
        let told = heard(&agent.say("GET", &format!("/api/v1/flows/external-calls/{id}"), &[], "")).1;
        assert_eq!((&told["data"], &call()["data"]), (&first["data"], &first["data"]));
    }
    assert_eq!((kept(), count(&world, &agent.grant)), (before, 1));
    let (status, failed) = agent.invoke("broken", &json!({}));
    assert_eq!((status, code(&failed)), (502, "provider_failed"), "{failed}");
    assert!(!failed.to_string().contains("the remote said no"), "{failed}");
}

/// Attack (Flows and external agents): An external agent sends data that the broker and a reader
/// interpret differently.
/// Defence: Duplicate keys, inexact numbers and unpaired surrogates are refused, over HTTP and at
/// `/mcp`.
#[test]
fn ambiguous_or_lossy_json_of_external_agents_is_refused() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let mcp = |body: &str| agent.say("POST", "/mcp", &[("Accept", "application/json, text/event-stream")], body);
    let call = |arguments: &str| {
        let params = format!(r#"{{"name": "note", "arguments": {arguments}}}"#);
        format!(r#"{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}"#)
    };
    for given in [
        r#"{"text": 12345678901234567890123}"#,
        r#"{"text": 1.00000000000000000001}"#,
        r#"{"text": "a", "text": "b"}"#,
        r#"{"text": "\ud800"}"#,
    ] {
        let page = agent.say("POST", "/api/v1/flows/external-tools/note/invoke", &[], given);
        assert_eq!(page.status, 400, "{given}: {page:?}");
        assert_eq!(mcp(&call(given)).status, 400, "{given}");
    }
    assert_eq!(mcp(&call(r#"{"text": 1.5}"#)).status, 200);
    assert_eq!(count(&world, &agent.grant), 1);
}

/// Attack (Flows and external agents): A lost reply to the last permitted call leads to no call, or
/// to a second one.
/// Defence: The same key and parameters are the same call, also when all calls are used.
#[test]
fn the_last_call_once_more_is_that_call() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let again = |key: &str, text: &str| {
        let given = json!({ "text": text }).to_string();
        heard(&agent.say("POST", "/api/v1/flows/external-tools/note/invoke", &[("Idempotency-Key", key)], &given))
    };
    for n in 0..5 {
        assert_eq!(again(&format!("key-{n}"), "x").0, 200);
    }
    let (status, last) = again("key-4", "x");
    assert_eq!((status, &last["data"]["text"], count(&world, &agent.grant)), (200, &json!("x"), 5), "{last}");
    assert_eq!(code(&again("key-4", "y").1), "FLOW_EXTERNAL_GRANT_DENIED");
    assert_eq!(code(&again("key-5", "x").1), "FLOW_EXTERNAL_GRANT_DENIED");
}

/// Attack: see `a_client_sees_the_tools_of_its_access_and_calls_them`.
#[test]
fn one_who_sends_slowly_or_waits_long_keeps_nobody_else_out() {
    let mut world = world();
    let [slow, other] = [(); 2].map(|()| Agent::with_access(&mut world, &json!({})));
    let bearer = format!("Bearer {}", slow.bearer);
    let begun: Vec<_> = (0..40)
        .map(|n| {
            let path = ["/mcp", "/api/v1/flows/external-tools/note/invoke"][n % 2];
            let headers = [("Authorization", bearer.as_str()), ("Content-Length", "100000")];
            let head = slow.visitor.request("POST", path, &headers, "");
            let mut stream = slow.visitor.connect();
            stream.write_all(&head).unwrap();
            stream.write_all(b"{").unwrap();
            stream
        })
        .collect();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for stream in &begun {
            let tell = tell.clone();
            scope.spawn(move || {
                let mut line = String::new();
                BufReader::new(stream).read_line(&mut line).ok();
                tell.send(line).ok();
            });
        }
        for n in 0..32 {
            let line = told.recv_timeout(DEADLINE).unwrap();
            assert!(line.starts_with("HTTP/1.1 429 "), "{n}: {line}");
        }
        assert_eq!(other.invoke("note", &json!({})).0, 200);
        assert!(told.try_recv().is_err(), "eight are under way");
        for stream in &begun {
            stream.shutdown(Shutdown::Both).ok();
        }
    });
}

#[test]
fn an_approval_covers_the_shown_call_even_if_the_tool_has_changed() {
    let mut world = world();
    let agent = Agent::with_access(&mut world, &json!({}));
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let charge = "provider = \"demo\"\naction = \"charge\"\nopen = [\"n\", \"ms\"]";
    for (now, code_then) in [
        // A fixed parameter is given, or a closed one; or the tool is another action, or none.
        (charge.replace("\"n\", ", "") + "\nparams = { n = 4 }", "approval_required"),
        (charge.replace("\"n\", ", ""), "approval_required"),
        (charge.to_owned() + "\nparams = { to = \"them\" }", "approval_required"),
        // No tool of the access stands for the action that was called.
        (charge.replace("action = \"charge\"", "action = \"lossy\""), "FLOW_EXTERNAL_TOOL_DENIED"),
        (charge.replace("open", "task_id = \"t-1\"\ngate = \"Security\"\nopen"), "task_unknown"),
    ] {
        let path = "/api/v1/flows/external-tools/charge/invoke";
        let agent = Agent { visitor: Visitor::of(&world), bearer: agent.bearer.clone(), grant: agent.grant.clone() };
        let asked = agent.say("POST", path, &[("Prefer", "wait=0")], r#"{"n": 3}"#);
        let place = asked.header("location").unwrap_or_else(|| panic!("{asked:?}")).to_owned();
        world.rewrite("broker.toml", &config.replace(charge, &now));
        world.restart();
        let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
        answer(&world, approval_request.as_str().unwrap(), true);
        let agent = Agent { visitor: Visitor::of(&world), ..agent };
        let (status, reply) = heard(&agent.say("GET", &place, &[("Prefer", "wait=30")], ""));
        assert_eq!((status, code(&reply)), (403, code_then), "{now}: {reply}");
        assert!(world.query("SELECT code FROM approvals WHERE state IN ('waiting', 'approved')").is_empty());
        world.rewrite("broker.toml", &config);
        world.restart();
    }
    assert_eq!((world.effects_of("charge").len(), world.effects_of("lossy").len()), (0, 0));
    assert_eq!(count(&world, &agent.grant), 0);
}
