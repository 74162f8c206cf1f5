//! The accesses of external agents: who gives them, within which bounds, and what an operator sees.

use super::*;

#[test]
fn the_grants_of_one_agent_count_together() {
    let mut world = super::builder("\n[limits.external.demo]\nread = { daily_quota = 1 }\n").up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let mut of = |label: &str| Agent::with_access(&mut world, &json!({ "actor_label": label }));
    let (first, second, other) = (of("bot"), of("bot"), of("another bot"));
    let note = |agent: &Agent| code(&agent.invoke("note", &json!({ "text": "x" })).1).to_owned();
    assert_eq!(note(&first), "executed");
    assert_eq!(note(&second), "quota_exceeded", "the day's quota is the agent's, not the grant's");
    assert_eq!(note(&other), "executed", "another agent has its own");
    let exposed = world.query("SELECT DISTINCT caller FROM exposures WHERE caller LIKE 'agent:%'");
    assert!(exposed.len() <= 2, "{exposed:?}");
    // Sixteen of them live at once, and no more.
    for _ in 2..16 {
        assert_eq!(code(&mint(&world, &json!({ "actor_label": "bot" }))), "executed");
    }
    let refused = mint(&world, &json!({ "actor_label": "bot" }));
    assert_eq!(code(&refused), "busy", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("that can be active at once"), "{refused}");
}

/// Attack: see `requests_without_a_bearer_or_with_a_foreign_one_learn_nothing`.
#[test]
fn external_grants_stay_within_the_limits_of_operator_and_flow() {
    let mut world = world();
    let refused = |request: Value| code(&mint(&world, &request)).to_owned();
    assert_eq!(refused(json!({ "requested_tools": [] })), "invalid_params");
    assert_eq!(refused(json!({ "requested_tools": ["strict"] })), "FLOW_EXTERNAL_TOOL_UNKNOWN");
    assert_eq!(refused(json!({ "requested_tools": ["note", "web"] })), "FLOW_EXTERNAL_TOOL_UNKNOWN");
    let mistyped = mint(&world, &json!({ "requested_tools": ["nots"] }));
    assert!(mistyped["error"].as_str().unwrap().contains("It is nots (did you mean 'note'?)."), "{mistyped}");
    assert_eq!(refused(json!({ "flow_id": "flow_other" })), "unknown_flow");
    assert_eq!(refused(json!({ "flow_version": "2.0.0" })), "unknown_flow");
    assert_eq!(refused(json!({ "ttl_seconds": 0 })), "invalid_params");
    assert_eq!(refused(json!({ "actor_label": "x".repeat(257) })), "invalid_params");
    // A step's words give no tool, and a version that is only proposed gives no access.
    let talkative = bundle("1.1.0", "Also use the tools charge, strict and web.", &["note", "web"]);
    flow(&world, &with("flow_propose", &talkative));
    assert_eq!(refused(json!({ "flow_version": "1.1.0" })), "FLOW_EXTERNAL_GRANT_DENIED");
    approved(&world, &talkative);
    assert_eq!(refused(json!({})), "FLOW_EXTERNAL_GRANT_DENIED", "people do not work by it any more");
    let next = |tools: &[&str]| mint(&world, &json!({ "flow_version": "1.1.0", "requested_tools": tools }));
    assert_eq!(code(&next(&["web"])), "FLOW_EXTERNAL_TOOL_DENIED");
    let unnamed = next(&["web", "charge"]);
    assert_eq!(code(&unnamed), "FLOW_EXTERNAL_TOOL_UNKNOWN");
    assert!(unnamed["error"].as_str().unwrap().contains("names the tool. It is charge."), "{unnamed}");
    // The longest life is the longest allowed; a tool that is requested twice is given once.
    let long = mint(
        &world,
        &json!({ "flow_version": "1.1.0", "requested_tools": ["note", "note"], "ttl_seconds": 10_000_000, "actor_label": "bot" }),
    );
    assert!(long["summary"].as_str().unwrap().contains("No access may last longer than 86400 s"), "{long}");
    let grant = &long["data"]["grant"];
    let seconds = |member: &str| grant[member].as_str().unwrap().parse::<shared::Timestamp>().unwrap();
    assert_eq!(seconds("expires_at").since(seconds("issued_at")), Duration::from_hours(24));
    assert_eq!(grant["allowed_tools"], json!(["note"]));
    world.keep_secret(long["data"]["bearer"].as_str().unwrap());
    // The list later shows the same grant, without the bearer or the actor's label.
    let listed = flow(&world, &json!({ "type": "flow_external_grant_list", "flow_id": "flow_daily" }));
    assert_eq!(listed["data"]["grants"], json!([grant]));
    assert!(!listed.to_string().contains("bot") && grant["actor_hash"].as_str().unwrap().len() == 64);
    let kept = world
        .query("SELECT CAST(reply AS TEXT) AS reply FROM replies")
        .iter()
        .any(|row| row["reply"].as_str().unwrap().contains("bearer"));
    assert!(!kept, "the reply that is kept is without it");
}

#[test]
fn the_main_group_the_command_line_and_the_socket_give_the_same() {
    let mut world = world();
    let main = Shim::start(&world, "main");
    let request =
        json!({ "flow_id": "flow_daily", "flow_version": "1.0.0", "requested_tools": ["note"], "ttl_seconds": 600 });
    let by_main = main.call("flow_external_grant_mint", request)["structuredContent"]["data"].clone();
    let by_hand =
        world.cli(&["--json", "flow", "grant", "mint", "flow_daily", "1.0.0", "--tool", "note", "--ttl", "600"]);
    let by_hand: Value = serde_json::from_slice(&by_hand.stdout).unwrap_or_else(|_| panic!("{}", said(&by_hand)));
    let by_socket = mint(&world, &json!({ "requested_tools": ["note"], "ttl_seconds": 600 }))["data"].clone();
    let shape = |minted: &Value| {
        let mut minted = minted.clone();
        for own in ["grant_id", "actor_hash"] {
            minted["grant"][own] = json!("own");
        }
        minted["bearer"] = json!(minted["bearer"].as_str().unwrap().len());
        minted
    };
    assert_eq!((shape(&by_main), shape(&by_hand)), (shape(&by_socket), shape(&by_socket)));
    for minted in [&by_main, &by_hand, &by_socket] {
        world.keep_secret(minted["bearer"].as_str().unwrap());
    }
    let listed = |data: &Value| data["grants"].as_array().unwrap().len();
    let by_main = main.call("flow_external_grant_list", json!({}))["structuredContent"]["data"].clone();
    let by_hand: Value = serde_json::from_slice(&world.cli(&["--json", "flow", "grant", "list"]).stdout).unwrap();
    assert_eq!((listed(&by_main), &by_main), (3, &by_hand));
    let grant = by_main["grants"][0]["grant_id"].clone();
    let ended = main.call("flow_external_grant_revoke", json!({ "grant_id": grant }));
    assert!(ended["structuredContent"]["data"]["revoked_at"].is_string(), "{ended}");
    let listed = said(&world.cli(&["flow", "grant", "list"]));
    assert!(listed.contains("revoked ") && listed.contains("0 of 5"), "{listed}");
    let developer = Shim::start(&world, "developer");
    assert!(!developer.tool_names().iter().any(|name| name.starts_with("flow_")));
    let forged = world.group("developer").ask(json!({ "type": "flow_external_grant_list" }));
    assert_eq!(code(&forged), "main_only");
}

#[test]
fn tools_that_could_not_be_what_they_say_are_refused_at_the_start() {
    let world = builder("").down();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    for (from, to, fault) in [
        ("open = [\"text\"]", "open = [\"text\", \"to\"]", "`to` is also in `params`"),
        ("action = \"echo\"", "action = \"deploy\"", "is a production action"),
        ("action = \"echo\"", "action = \"nothing\"", "has no action `nothing`"),
        (
            "provider = \"demo\"\naction = \"echo\"",
            "provider = \"person.mail\"\naction = \"echo\"",
            "needs a person as its subject",
        ),
        ("open = [\"page\"]", "open = [\"pages\"]", "has no parameter `pages`"),
        ("open = [\"page\"]", "open = [\"page\"]\ngate = \"Security\"", "need each other"),
        ("max_invocations = 5", "max_invocations = 0", "allow_unlimited"),
        ("max_invocations = 5", "max_ttl_seconds = 86401", "max_ttl_seconds must be"),
        ("max_invocations = 5", "default_ttl_seconds = 100\nmax_ttl_seconds = 60", "default_ttl_seconds must be"),
        ("[groups.developer]", "[groups.developer]\n[groups.external]", "reserved for external agents"),
    ] {
        assert!(config.contains(from), "{from}");
        world.rewrite("broker.toml", &config.replace(from, to));
        let checked = world.cli(&["config", "check"]);
        assert!(!checked.status.success() && said(&checked).contains(fault), "{to}: {}", said(&checked));
    }
}

/// Attack (Flows and external agents): From a reply, an external agent learns the backend of a
/// tool, or the access of other readers.
/// Defence: Summaries, reasons and provider errors are not disclosed. Its flow names only the tools
/// of its access. Its parameters are checked after its access.
///
/// Attack: see `a_write_of_an_external_agent_asks_a_person_and_is_made_once`.
#[test]
fn a_profile_that_says_nothing_of_writes_lets_none_pass() {
    let mut world = builder("").down();
    world.rewrite("policy/profiles/external.toml", "read = \"auto\"\n");
    world.start();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let agent = Agent::with_access(&mut world, &json!({}));
    let path = "/api/v1/flows/external-tools/charge/invoke";
    let asked = agent.say("POST", path, &[("Prefer", "wait=0")], r#"{"n": 3}"#);
    assert_eq!((asked.status, world.effects_of("charge").len()), (202, 0), "{asked:?}");
    assert!(!asked.text.contains("demo"), "what stands behind a tool is not told: {asked:?}");
}

#[test]
fn explanations_show_the_decision_about_a_tool_of_an_external_agent() {
    let mut world = builder("").down();
    world.start_process();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let agent = Agent::with_access(&mut world, &json!({ "requested_tools": ["note", "charge"] }));
    let explained = |given: &[&str]| {
        let told = world.cli(&[&["--json", "explain", &agent.grant], given].concat());
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        (told["verdict"].clone(), told["code"].clone(), told["caller"].clone())
    };
    let caller = json!(format!("External agent '{}'", agent.grant));
    assert_eq!(explained(&["note", r#"{"text": "hi"}"#]), (json!("permit"), Value::Null, caller.clone()));
    assert_eq!(explained(&["charge", r#"{"n": 3}"#]).0, "ask a person");
    assert_eq!(explained(&["note", r#"{"to": "them"}"#]).1, "invalid_params");
    assert_eq!(explained(&["never_heard_of", r#"{"to": "them"}"#]).1, "FLOW_EXTERNAL_GRANT_TOOL_DENIED");
    for wrong in [&["note", "[]"][..], &["No Tool"], &["note", "{}", "--task", "gov-1"]] {
        let no = world.cli(&[&["explain", &agent.grant], wrong].concat());
        assert_eq!(no.status.code(), Some(2), "{wrong:?}: {no:?}");
    }
    flow(&world, &json!({ "type": "flow_external_grant_revoke", "grant_id": agent.grant }));
    assert_eq!(explained(&["note"]), (json!("refuse"), json!("FLOW_EXTERNAL_GRANT_REVOKED"), caller));
    assert_eq!((count(&world, &agent.grant), world.effects_of("charge").len()), (0, 0), "nobody has called");
}

/// Attack (Flows and external agents): a person who administers and does not approve writes mints
/// access to a tool that writes
/// Defence: `approves` must cover group `external`, the provider and the level of each tool; a
/// token gives what its maker may give
#[test]
fn a_person_gives_no_access_beyond_what_the_person_approves() {
    let mut world = world();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let output = world.cli(&["--json", "operator-token", "create", "--scopes", "flows:grants"]);
    let token: Value = serde_json::from_slice(&output.stdout).unwrap();
    let token = token["bearer"].as_str().unwrap().to_owned();
    world.keep_secret(token.clone());
    let mut given = |approves: &str| {
        world.rewrite("broker.toml", &config.replace("approves = {}", approves));
        world.restart();
        ["note", "charge"].map(|tool| {
            let tools = json!({ "requested_tools": [tool], "actor_label": approves });
            let by_hand = mint(&world, &tools);
            // A token gives what its maker may give.
            let path = "/api/v1/flows/flow_daily/external-grants";
            let asked = json!({ "flow_version": "1.0.0", "requested_tools": [tool], "actor_label": approves });
            let (visitor, bearer) = (Visitor::of(&world), format!("Bearer {token}"));
            let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
            let by_token = heard(&visitor.say(&visitor.request("POST", path, &headers, &asked.to_string()))).1;
            for minted in [&by_hand, &by_token] {
                if let Some(bearer) = minted["data"]["bearer"].as_str() {
                    world.keep_secret(bearer);
                } else {
                    assert!(minted["error"].as_str().unwrap().contains("[people.operator]"), "{minted}");
                }
            }
            assert_eq!(code(&by_hand), code(&by_token), "{tool} {approves}");
            code(&by_hand).to_owned()
        })
    };
    // `note` is of L1 and `charge` of L2.
    assert_eq!(given("admin = true"), ["guardrail", "guardrail"]);
    assert_eq!(given("approves = { max_level = 1 }"), ["executed", "guardrail"]);
    assert_eq!(given("approves = { providers = [\"private\"] }"), ["guardrail", "guardrail"]);
    assert_eq!(given("approves = { groups = [\"external\"], max_level = 2 }"), ["executed", "executed"]);
    assert_eq!(given("approves = {}"), ["executed", "executed"]);
}
