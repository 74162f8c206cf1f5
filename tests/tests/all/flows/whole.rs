//! The whole way of the guide: from a flow to real log lines outside, to the end of the access; and many at once.

use super::external::{Agent, TOOLS};
use super::operators::{ALL, Operator};
use super::{answer, approved, asked, bundle, flow, said, with};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tests::group::code;
use tests::visitor::Visitor;
use tests::world::CONFIG;
use tests::{World, until};

/// The tables that the guide shows for external agents, at a free port.
fn from_the_guide() -> String {
    let guide = include_str!("../../../../docs/guide/external-agents.md");
    let (_, block) = guide.split_once("```toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    assert!(block.contains("[[flows.external_agent.allowed_tools]]"), "{block}");
    block.replace("127.0.0.1:7420", "127.0.0.1:0")
}

/// The output of a command, for programs.
fn told(world: &World, arguments: &[&str]) -> Value {
    let output = world.cli(&[&["--json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn from_a_flow_to_real_log_lines_and_to_the_end_of_the_access() {
    let logs = tempfile::tempdir().unwrap();
    let provider = format!(
        "[providers.cloud-logs]\nkind = \"cloud-logs\"\n[[providers.cloud-logs.backends]]\nkind = \"files\"\n\
         paths = [\"{}/*.log\"]\n",
        logs.path().display()
    );
    let mut world = World::builder().config(&format!("{CONFIG}\n{provider}\n{}", from_the_guide())).up();
    let at = world.now().minus(Duration::from_mins(1)).to_string();
    let line = |message: &str| json!({ "timestamp": at, "level": "error", "message": message }).to_string() + "\n";
    std::fs::write(logs.path().join("shop.log"), line("timeout while paying") + &line("all is well")).unwrap();
    std::fs::write(logs.path().join("bank.log"), line("timeout, too")).unwrap();

    told(&world, &["flow", "propose", "--starter", "incident_triage"]);
    told(&world, &["flow", "approve", "flow_incident_triage", "1.0.0"]);
    answer(&world, &asked(&world), true);
    let words = ["flow", "grant", "mint", "flow_incident_triage", "1.0.0", "--tool", "query_logs", "--actor", "bot"];
    let minted = told(&world, &words);
    let bearer = minted["bearer"].as_str().unwrap().to_owned();
    world.keep_secret(bearer.clone());
    let grant = minted["grant"]["grant_id"].as_str().unwrap().to_owned();
    let agent = Agent { visitor: Visitor::of(&world), bearer, grant: grant.clone() };

    let (_, read) = agent.read("flow_incident_triage");
    let rendered: Value = serde_json::from_str(read["data"]["projection"]["rendered"].as_str().unwrap()).unwrap();
    assert_eq!((&rendered["allowed_tools"], &rendered["steps"][2]["ordinal"]), (&json!(["query_logs"]), &json!(3)));
    let (status, found) = agent.invoke("query_logs", &json!({ "query": "timeout" }));
    let messages = |found: &Value| -> Vec<String> {
        let entries = found["data"]["entries"].as_array().unwrap_or_else(|| panic!("{found}"));
        entries.iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (status, messages(&found)),
        (200, vec!["timeout while paying".to_owned()]),
        "another service's: {found}"
    );
    let (status, other) = agent.invoke("query_logs", &json!({ "service": "bank" }));
    assert_eq!((status, code(&other)), (400, "invalid_params"), "{other}");

    // A flow from elsewhere that names what is not allowed is refused before anything of it is kept.
    let before = world.query("SELECT flow_id FROM flow_versions");
    let foreign = world.path("foreign.json");
    let invalid = bundle("1.0.0", "Search.", &["query_logs", "web_search"]);
    std::fs::write(&foreign, invalid.to_string()).unwrap();
    let refused = world.cli(&["--json", "flow", "import", foreign.to_str().unwrap()]);
    let refused: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(refused["code"], "FLOW_IMPORT_EXTERNAL_TOOL_DENIED", "{refused}");
    assert_eq!(world.query("SELECT flow_id FROM flow_versions"), before);
    std::fs::remove_file(foreign).unwrap();

    // People work by another version from now on.
    let mut next = told(&world, &["flow", "export", "flow_incident_triage"]);
    next["flow"]["version"] = json!("1.1.0");
    assert_eq!(code(&flow(&world, &with("flow_propose", &next))), "executed");
    assert_eq!(agent.invoke("query_logs", &json!({})).0, 200, "what is only proposed changes nothing");
    told(&world, &["flow", "approve", "flow_incident_triage", "1.1.0"]);
    answer(&world, &asked(&world), true);
    assert_eq!(agent.no("query_logs"), "FLOW_EXTERNAL_GRANT_FLOW_MISMATCH");
    assert_eq!(code(&agent.read("flow_incident_triage").1), "FLOW_EXTERNAL_GRANT_FLOW_MISMATCH");
    told(&world, &["flow", "grant", "revoke", &grant]);
    assert_eq!(agent.no("query_logs"), "FLOW_EXTERNAL_GRANT_REVOKED");
}

#[test]
fn a_bundle_has_all_of_the_flow_and_what_is_imported_has_nobodys_access() {
    let mut world = World::builder().config(&format!("{CONFIG}\n{TOOLS}")).up();
    let own = bundle("1.0.0", "Read ``` and \u{2028} \"all\".", &["note", "charge", "never_allowed"]);
    approved(&world, &own);
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note"] }));
    let (_, first) = agent.read("flow_daily");
    let (_, second) = agent.read("flow_daily");
    let rendered = |read: &Value| read["data"]["projection"]["rendered"].as_str().unwrap().to_owned();
    assert_eq!(rendered(&first), rendered(&second), "what is read twice is the same");
    let read: Value = serde_json::from_str(&rendered(&first)).unwrap();
    assert_eq!((&read["flow_version"], &read["scope"]), (&json!("1.0.0"), &json!("project")), "{read}");
    let (step, of) = (&read["steps"][0], &own["steps"][0]);
    for member in ["instruction", "skill_refs", "verification", "boundaries", "owned_job", "trigger", "when_not_to_run"]
    {
        assert_eq!(step[member], of[member], "{member}");
    }
    // With what is exported nobody is given anything, here or in another vault.
    let exported = flow(&world, &json!({ "type": "flow_export", "flow_id": "flow_daily" }));
    assert_eq!(exported["data"], own);
    let elsewhere = with("flow_import", &bundle("1.0.0", "Read.", &["note"]));
    let imported = world.command(json!({ "type": "flow", "vault": "other", "request": elsewhere }));
    assert_eq!((code(&imported), &imported["data"]["state"]), ("executed", &json!("proposed")), "{imported}");
    let listed =
        world.command(json!({ "type": "flow", "vault": "other", "request": { "type": "flow_external_grant_list" } }));
    assert_eq!(listed["data"]["grants"], json!([]), "{listed}");
    // The list shows the terms of an access, before and after its end, and never its bearer.
    let listed = || {
        let all = flow(&world, &json!({ "type": "flow_external_grant_list", "flow_id": "flow_daily" }));
        all["data"]["grants"][0].clone()
    };
    let before = listed();
    assert_eq!((&before["grant_id"], &before["allowed_tools"]), (&json!(agent.grant), &json!(["note"])), "{before}");
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    let (mut after, mut before) = (listed(), before);
    assert!(after["revoked_at"].take().is_string() && before["revoked_at"].take().is_null(), "{after}");
    assert_eq!(after, before);
    assert!(!after.to_string().contains("bearer"), "{after}");
}

#[test]
fn many_who_give_access_at_once_give_as_many_as_there_can_be() {
    let mut world = World::builder().config(&format!("{CONFIG}\n{TOOLS}")).up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
    let operators: Vec<Operator> = (0..4).map(|_| Operator::with(&mut world, &["--scopes", ALL])).collect();
    let wanted = json!({ "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
                         "requested_tools": ["note"] });
    let main = world.group("main");
    let minted: Vec<Value> = std::thread::scope(|scope| {
        let over_http = operators
            .iter()
            .map(|operator| scope.spawn(|| (0..8).map(|_| operator.ask(&wanted).1).collect::<Vec<_>>()));
        let mut all: Vec<_> = over_http.collect();
        all.push(scope.spawn(|| (0..8).map(|_| main.ask(wanted.clone())).collect()));
        let over_the_socket: Vec<_> = (0..8).map(|_| flow(&world, &wanted)).collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).chain(over_the_socket).collect()
    });
    let [mut ids, mut bearers] = [BTreeSet::new(), BTreeSet::new()];
    for reply in &minted {
        assert_eq!(code(reply), "executed", "{reply}");
        ids.insert(reply["data"]["grant"]["grant_id"].as_str().unwrap().to_owned());
        let bearer = reply["data"]["bearer"].as_str().unwrap().to_owned();
        world.keep_secret(bearer.clone());
        bearers.insert(bearer);
    }
    assert_eq!((ids.len(), bearers.len()), (48, 48));
    let stored = world.query("SELECT grant_id FROM flow_grants ORDER BY grant_id");
    assert!(ids.iter().eq(stored.iter().map(|row| row["grant_id"].as_str().unwrap())), "{stored:?}");
    // A page at a time, all of them are listed, and no bearer.
    let mut listed = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let asked = json!({ "type": "flow_external_grant_list", "limit": 20, "cursor": cursor });
        let page = flow(&world, &asked);
        listed.extend(page["data"]["grants"].as_array().unwrap().iter().map(|grant| grant["grant_id"].clone()));
        cursor = page["data"]["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(listed.len(), 48);
    // Two places are left, and four come for them.
    world.stop();
    given_before(&world, 99_950, "printf('group:g%02d', i % 20)", "NULL");
    world.start();
    let operators: Vec<Operator> = operators.into_iter().map(|operator| operator.again(&world)).collect();
    let last = std::thread::scope(|scope| {
        let all = operators.iter().map(|operator| scope.spawn(|| operator.ask(&wanted))).collect::<Vec<_>>();
        all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    for (_, reply) in &last {
        if let Some(bearer) = reply["data"]["bearer"].as_str() {
            world.keep_secret(bearer.to_owned());
        }
    }
    let mut codes: Vec<&str> = last.iter().map(|(_, reply)| code(reply)).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["busy", "busy", "executed", "executed"]);
    assert_eq!(
        world.query("SELECT n, (SELECT count(*) FROM flow_grants) AS m FROM flow_grants_count")[0],
        json!({ "n": 100_000, "m": 100_000 })
    );
}

/// As if so many accesses like the first one had been given before, by these.
fn given_before(world: &World, count: usize, issued_by: &str, revoked_at: &str) {
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    let copies = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
        INSERT INTO flow_grants SELECT printf('fgrnt_%08d', i), randomblob(32), vault, scope, flow_id, version, tools,
            randomblob(32), {issued_by}, issued_at, expires_at, {revoked_at}, max_invocations, 0
        FROM (SELECT * FROM flow_grants LIMIT 1), n"
    );
    assert_eq!(ledger.execute(&copies, []).unwrap(), count);
}

/// Attack (Flows and external agents): A token or group creates access without end.
/// Defence: The limit is 10,000 per caller and 100,000 in total.
#[test]
fn one_who_gives_access_without_end_takes_nobody_elses_places() {
    let mut world = World::builder().config(&format!("{CONFIG}\n{TOOLS}")).up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
    let [greedy, other] = [(); 2].map(|()| Operator::with(&mut world, &["--scopes", ALL]));
    let wanted = json!({ "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
                         "requested_tools": ["note"] });
    let mint = |world: &mut World, operator: &Operator| {
        let reply = operator.ask(&wanted).1;
        if let Some(bearer) = reply["data"]["bearer"].as_str() {
            world.keep_secret(bearer.to_owned());
        }
        reply
    };
    assert_eq!(code(&mint(&mut world, &greedy)), "executed");
    world.stop();
    // They are over, because no more than a few of one issuer live at once, and not forgotten yet.
    given_before(&world, 9_998, "issued_by", "issued_at");
    world.start();
    let (greedy, other) = (greedy.again(&world), other.again(&world));
    assert_eq!(code(&mint(&mut world, &greedy)), "executed", "the last place of its own");
    let refused = mint(&mut world, &greedy);
    assert_eq!(code(&refused), "busy", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("You have given as many"), "{refused}");
    assert_eq!(code(&mint(&mut world, &other)), "executed");
    // All of them end with the token, and are forgotten a day after they would have been over.
    said(&world.cli(&["operator-token", "revoke", &greedy.token]));
    let in_force = "SELECT issued_by FROM flow_grants WHERE revoked_at IS NULL";
    assert_eq!(world.query(in_force), [json!({ "issued_by": format!("operator:{}", other.token) })]);
    world.clock.advance(Duration::from_hours(26));
    let main = world.group("main");
    until("all are forgotten", || {
        main.ask(json!({ "type": "ext_capabilities" }));
        world.query("SELECT n FROM flow_grants_by").is_empty().then_some(())
    });
    assert_eq!(world.query("SELECT n FROM flow_grants_count"), [json!({ "n": 0 })]);
    assert_eq!(world.query("SELECT grant_id FROM flow_grants"), [Value::Null; 0]);
}
