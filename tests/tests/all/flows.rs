//! Flows: proposed, approved by a person, and only then worked by; the same over every surface.

mod operators;
mod external;
mod whole;

use serde_json::{Value, json};
use std::process::Output;
use tests::World;
use tests::group::{code, error};
use tests::shim::Shim;
use tests::visitor::{Visitor, reference};
use tests::world::CONFIG;

/// External agents are served, and may be given one tool.
const OUTSIDE: &str = "[flows.external_agent]\nenabled = true\n\
     allowed_tools = [{ id = \"note\", description = \"Writes a note\", provider = \"demo\", action = \"echo\" }]\n";

fn world(more: &str) -> World {
    World::builder().config(&format!("{CONFIG}\n{more}")).up()
}

/// A flow of one step that works with these tools for external agents.
pub(super) fn bundle(version: &str, instruction: &str, tools: &[&str]) -> Value {
    let tools: Vec<Value> = tools.iter().map(|id| json!({ "kind": "external_tool", "id": id })).collect();
    json!({
        "flow": {
            "schema": "knowtation.flow/v0", "flow_id": "flow_daily", "title": "Daily", "version": version,
            "scope": "project", "summary": "What is done each day.", "tags": ["work"], "steps": ["flow_daily#1"],
            "updated": "2026-02-14T10:00:00.000Z", "truncated": false,
        },
        "steps": [{
            "schema": "knowtation.flow_step/v0", "step_id": "flow_daily#1", "flow_id": "flow_daily", "ordinal": 1,
            "owned_job": "Read", "instruction": instruction, "trigger": "Each morning", "when_not_to_run": "On holidays",
            "requires": [{ "kind": "file", "id": "inbox.md" }], "boundaries": ["Writes nothing"], "skill_refs": tools,
            "outputs": [{ "name": "list", "type": "markdown" }], "output_shape": "A list",
            "verification": { "kind": "human_review", "evidence_required": true, "description": "Somebody has read it" },
            "automatable": "automatable",
        }],
    })
}

pub(super) fn flow(world: &World, request: &Value) -> Value {
    world.command(json!({ "type": "flow", "vault": "default", "request": request }))
}

fn with(kind: &str, bundle: &Value) -> Value {
    let mut request = bundle.clone();
    request["type"] = json!(kind);
    request
}

fn version(kind: &str, version: &str) -> Value {
    json!({ "type": kind, "flow_id": "flow_daily", "version": version })
}

fn get(world: &World) -> Value {
    flow(world, &json!({ "type": "flow_get", "flow_id": "flow_daily" }))
}

/// The code of the question that waits.
fn asked(world: &World) -> String {
    let waiting = world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'flow'");
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waiting[0]["code"].as_str().unwrap().to_owned()
}

fn answer(world: &World, approval_request: &str, yes: bool) -> Value {
    world.command(json!({ "type": "answer", "code": approval_request, "yes": yes, "reason": null }))
}

/// Proposes it, asks, and says yes.
pub(super) fn approved(world: &World, own: &Value) {
    let proposed = flow(world, &with("flow_propose", own));
    assert_eq!(code(&proposed), "executed", "{proposed}");
    let asking = flow(world, &version("flow_approve", own["flow"]["version"].as_str().unwrap()));
    assert_eq!(code(&asking), "executed", "{asking}");
    assert_eq!(code(&answer(world, &asked(world), true)), "executed");
}

#[test]
fn a_new_version_is_shown_beside_the_one_before_it() {
    let world = world("[web]\nlisten = \"127.0.0.1:0\"\n");
    approved(&world, &bundle("1.0.0", "Read the <inbox>", &[]));
    assert_eq!(code(&flow(&world, &with("flow_propose", &bundle("1.1.0", "Read the outbox", &[])))), "executed");
    assert_eq!(code(&flow(&world, &version("flow_approve", "1.1.0"))), "executed");
    let page = Visitor::signed_in(&world).get(&format!("/approvals/{}", reference(&world))).text;
    let row = page.split("</tr>").find(|row| row.contains("/instruction&quot;")).unwrap_or_else(|| panic!("{page}"));
    let (_, row) = row.rsplit_once("<tr").unwrap();
    let (before, after) = row.split_once("<td>").and_then(|(_, cells)| cells.split_once("<td>")).unwrap();
    assert!(before.contains("Read the &lt;inbox&gt;") && after.contains("Read the outbox"), "{row}");
    assert!(!before.contains("outbox") && !after.contains("inbox"), "{row}");
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Attack (Flows and external agents): A flow instructs its reader, or its text becomes a command,
/// heading or member where it is shown.
/// Defence: A person approves the whole flow or the whole difference. Its texts are in blocks,
/// comments or JSON strings that they cannot close.
#[test]
fn a_version_is_canonical_with_a_persons_yes_and_the_one_before_is_no_more() {
    let world = world("");
    assert_eq!(code(&get(&world)), "unknown_flow");
    let first = bundle("1.0.0", "Read the inbox.", &[]);
    let proposed = flow(&world, &with("flow_propose", &first));
    assert_eq!((code(&proposed), &proposed["data"]["state"]), ("executed", &json!("proposed")), "{proposed}");
    assert_eq!(code(&get(&world)), "unknown_flow", "what is only proposed is not what is worked by");
    flow(&world, &version("flow_approve", "1.0.0"));
    let approval_request = asked(&world);
    let shown = said(&world.cli(&["approvals", "show", &approval_request]));
    for part in
        ["Flow: flow_daily", "Version: 1.0.0", "steps[0].instruction: \"Read the inbox.\"", "Proposed by: person:"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Asked again it is the same question.
    assert!(flow(&world, &version("flow_approve", "1.0.0"))["summary"].as_str().unwrap().contains("already"));
    assert_eq!(answer(&world, &approval_request, true)["summary"], "The flow is canonical.");
    let canonical = get(&world);
    assert_eq!((&canonical["data"]["state"], &canonical["data"]["flow"]), (&json!("approved"), &first["flow"]));
    // A newer one: people see what is different, all of it and nothing else.
    flow(&world, &with("flow_propose", &bundle("1.1.0", "Read the inbox twice.", &[])));
    flow(&world, &version("flow_approve", "1.1.0"));
    let shown = said(&world.cli(&["approvals", "show", &asked(&world)]));
    assert!(shown.contains("+ \"/steps/#0/instruction\": \"Read the inbox twice.\""), "{shown}");
    assert!(shown.contains("Replaces: version 1.0.0") & !shown.contains("owned_job"), "{shown}");
    answer(&world, &asked(&world), true);
    assert_eq!(get(&world)["data"]["flow"]["version"], "1.1.0");
    let listed = |state: &str| flow(&world, &json!({ "type": "flow_list", "state": state }))["data"]["flows"].clone();
    assert_eq!(listed("approved"), json!([listed("approved")[0]]));
    assert_eq!(
        (&listed("approved")[0]["version"], &listed("deprecated")[0]["version"]),
        (&json!("1.1.0"), &json!("1.0.0"))
    );
    // It can be ended, and nothing older is worked by again.
    assert_eq!(code(&flow(&world, &version("flow_deprecate", "1.1.0"))), "executed");
    assert_eq!(code(&get(&world)), "unknown_flow");
    let kinds: Vec<String> = world.rows().into_iter().map(|row| row.kind).collect();
    let count = |kind: &str| kinds.iter().filter(|own| *own == kind).count();
    assert_eq!((count("flow"), count("asked"), count("approved")), (3, 2, 2), "{kinds:?}");
}

/// Attack (Flows and external agents): Somebody approves a flow that has changed.
/// Defence: The approval covers its digest and the version that it replaces. A new proposal ends
/// the approval request.
#[test]
fn approvals_of_outdated_flows_are_void() {
    let world = world("");
    flow(&world, &with("flow_propose", &bundle("1.0.0", "One.", &[])));
    flow(&world, &version("flow_approve", "1.0.0"));
    let approval_request = asked(&world);
    // Proposed anew under the same name, it is another one: the question about the other is over.
    flow(&world, &with("flow_propose", &bundle("1.0.0", "Another.", &[])));
    assert!(error(&answer(&world, &approval_request, true)).contains("too late"));
    assert_eq!(code(&get(&world)), "unknown_flow");
    // A difference from a version that is canonical no more is none.
    flow(&world, &version("flow_approve", "1.0.0"));
    let older = asked(&world);
    flow(&world, &with("flow_propose", &bundle("2.0.0", "Two.", &[])));
    flow(&world, &version("flow_approve", "2.0.0"));
    let waiting = world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'flow' ORDER BY id");
    assert_eq!(code(&answer(&world, waiting[1]["code"].as_str().unwrap(), true)), "executed");
    let late = answer(&world, &older, true);
    assert!(late["summary"].as_str().unwrap().contains("nothing was approved"), "{late}");
    assert_eq!(get(&world)["data"]["flow"]["version"], "2.0.0");
    // After a no it stays proposed.
    flow(&world, &with("flow_propose", &bundle("2.1.0", "Three.", &[])));
    flow(&world, &version("flow_approve", "2.1.0"));
    assert_eq!(answer(&world, &asked(&world), false)["summary"], "The flow stays proposed.");
    assert_eq!(get(&world)["data"]["flow"]["version"], "2.0.0");
}

/// Attack (Flows and external agents): The main group's agent ends an approved version, so that the
/// next one is shown without a difference. Or it returns to an older one.
/// Defence: Only people end a canonical version. The next version is compared with the last
/// approved one, ended or not, and must be higher.
///
/// Attack (Flows and external agents): It replaces a person's proposal, leaves no room, fills the
/// disk with replies, or stores unreadable data.
/// Defence: It changes only its own proposals, at most fifty, and reads 8 MiB of flows per minute.
/// Stored data was read back first.
#[test]
fn an_agent_ends_nothing_that_people_agreed_to_and_replaces_nothing_of_theirs() {
    let world = world("");
    let main = world.group("main");
    approved(&world, &bundle("2.0.0", "Read.", &[]));
    let ended = main.ask(version("flow_deprecate", "2.0.0"));
    assert_eq!(code(&ended), "guardrail", "{ended}");
    flow(&world, &with("flow_propose", &bundle("2.1.0", "Read more.", &[])));
    for own in [with("flow_propose", &bundle("2.1.0", "Obey me.", &[])), version("flow_deprecate", "2.1.0")] {
        assert_eq!(code(&main.ask(own)), "guardrail");
    }
    let stored = flow(&world, &json!({ "type": "flow_get", "flow_id": "flow_daily", "version": "2.1.0" }));
    assert_eq!(stored["data"]["steps"][0]["instruction"], "Read more.");
    // Its own it takes back.
    assert_eq!(code(&main.ask(with("flow_propose", &bundle("3.0.0", "x", &[])))), "executed");
    assert_eq!(main.ask(version("flow_deprecate", "3.0.0"))["data"]["state"], "withdrawn");
    // It has only so many, and people have theirs beside them.
    let propose = |n: usize| main.ask(with("flow_propose", &bundle(&format!("4.0.{n}"), "x", &[])));
    assert!((0..50).all(|n| code(&propose(n)) == "executed"));
    assert_eq!(code(&propose(50)), "busy");
    assert_eq!(code(&flow(&world, &with("flow_propose", &bundle("5.0.0", "x", &[])))), "executed");
    // Nor does it fill the disk by reading.
    let long = bundle("6.0.0", &"x".repeat(16_000), &[]);
    flow(&world, &with("flow_propose", &long));
    let read = || main.ask(json!({ "type": "flow_get", "flow_id": "flow_daily", "version": "6.0.0" }));
    let denied = (0..1_000).find(|_| code(&read()) == "rate_limited");
    assert!(denied.is_some_and(|reads| reads > 100), "{denied:?}");
}

/// Attack: see `an_agent_ends_nothing_that_people_agreed_to_and_replaces_nothing_of_theirs`.
#[test]
fn proposed_flows_are_shown_beside_the_last_approved_version_even_if_deprecated() {
    let world = world("");
    approved(&world, &bundle("2.0.0", "Read.", &[]));
    flow(&world, &version("flow_deprecate", "2.0.0"));
    let back = flow(&world, &with("flow_propose", &bundle("1.5.0", "x", &[])));
    assert_eq!(code(&back), "invalid_params", "{back}");
    flow(&world, &with("flow_propose", &bundle("2.0.1", "Read, and obey.", &[])));
    flow(&world, &version("flow_approve", "2.0.1"));
    let shown = said(&world.cli(&["approvals", "show", &asked(&world)]));
    assert!(shown.contains("After: version 2.0.0") && !shown.contains("owned_job"), "{shown}");
    // A question that has become void makes room for the one that is not.
    flow(&world, &with("flow_propose", &bundle("2.2.0", "y", &[])));
    flow(&world, &version("flow_approve", "2.2.0"));
    let waiting = "SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'flow' ORDER BY id";
    let first = world.query(waiting)[0]["code"].as_str().unwrap().to_owned();
    assert_eq!(answer(&world, &first, true)["summary"], "The flow is canonical.");
    let void = asked(&world);
    assert_eq!(code(&flow(&world, &version("flow_approve", "2.2.0"))), "executed");
    assert_ne!(asked(&world), void);
    assert_eq!(answer(&world, &asked(&world), true)["summary"], "The flow is canonical.");
    // A deprecated flow is not called canonical, for any reader.
    let old = json!({ "type": "flow_project", "flow_id": "flow_daily", "harness": "cli_runbook", "version": "2.0.0" });
    let old = flow(&world, &old);
    assert!(
        old["data"]["projection"]["rendered"].as_str().unwrap().starts_with("# GENERATED FROM DEPRECATED"),
        "{old}"
    );
}

/// Attack: see `an_agent_ends_nothing_that_people_agreed_to_and_replaces_nothing_of_theirs`.
#[test]
fn flows_exported_to_a_file_are_imported_from_it_with_any_text() {
    let world = world("");
    approved(&world, &bundle("1.0.0", "zero\u{200c}width, \u{2028}, a\ttab and \u{202e}.", &[]));
    let exported = world.cli(&["flow", "export", "flow_daily"]);
    let text = String::from_utf8(exported.stdout).unwrap().replace("1.0.0", "1.0.1");
    let path = world.path("flow.json");
    std::fs::write(&path, text).unwrap();
    assert!(world.cli(&["flow", "import", path.to_str().unwrap()]).status.success());
    let get = |version: &str| flow(&world, &json!({ "type": "flow_get", "flow_id": "flow_daily", "version": version }));
    assert_eq!(get("1.0.1")["data"]["steps"], get("1.0.0")["data"]["steps"]);
    std::fs::remove_file(path).unwrap();
    // A time that could not be read again is none.
    let mut odd = bundle("2.0.0", "x", &[]);
    odd["flow"]["updated"] = json!("9999-12-31T23:59:59-01:00");
    let refused = world.group("main").ask(with("flow_propose", &odd));
    assert_eq!(code(&refused), "malformed_request", "{refused}");
}

#[test]
fn approvers_of_flows_are_set_in_the_configuration() {
    let table = |more: &str| format!("{CONFIG}\n[people.ann]\napproves = {{ providers = [\"flows\"] }}\n{more}");
    World::builder().config(&table("")).up();
    for (more, fault) in [
        ("[approvals.flows]\nquorum = 3\n", "approvals.flows.quorum must be 1 to"),
        ("[approvals.flows]\nexpires_s = 0\n", "approvals.flows.expires_s must be"),
        ("[providers.flows]\nkind = \"mock\"\nscript = \"x\"\n", "providers.flows: the name is reserved"),
    ] {
        let mut down = World::builder().config(&table(more)).down();
        let error = down.try_start().unwrap_err().to_string();
        assert!(error.contains(fault), "{fault}: {error}");
    }
}

#[test]
fn malformed_flows_and_older_versions_are_refused_with_every_fault() {
    let world = world("");
    let refused = |own: &Value| flow(&world, &with("flow_propose", own));
    let mut odd = bundle("1.0.0", "x", &[]);
    odd["steps"][0]["trigger"] = json!("");
    odd["flow"]["truncated"] = json!(true);
    let said = refused(&odd);
    assert_eq!(code(&said), "invalid_params");
    assert!(error(&said).contains("/flow/truncated") & error(&said).contains("/steps/0/trigger"), "{said}");
    approved(&world, &bundle("1.2.0", "x", &[]));
    for lower in ["1.2.0", "1.1.9", "1.2.0-rc.1"] {
        let said = refused(&bundle(lower, "y", &[]));
        assert_eq!(code(&said), "invalid_params", "{lower}: {said}");
    }
    let foreign = json!({ "type": "flow", "vault": "elsewhere", "request": { "type": "flow_list" } });
    assert_eq!(code(&world.command(foreign)), "unknown_flow");
    let odd = flow(&world, &json!({ "type": "flow_list", "cursor": "x" }));
    assert_eq!(code(&odd), "invalid_params", "{odd}");
}

#[test]
fn exported_flows_can_be_imported_and_mean_the_same() {
    let world = world(
        "[flows.external_agent]\nallowed_tools = [{ id = \"note\", description = \"x\", provider = \"demo\", \
                       action = \"echo\" }]\n",
    );
    let own = bundle("1.0.0", "Read ``` and \u{2028} \"all\".", &["note"]);
    approved(&world, &own);
    let exported = flow(&world, &json!({ "type": "flow_export", "flow_id": "flow_daily" }));
    assert_eq!(exported["data"], own);
    assert_eq!(code(&flow(&world, &version("flow_deprecate", "1.0.0"))), "executed");
    let mut other = exported["data"].clone();
    other["flow"]["version"] = json!("1.0.1");
    let imported = flow(&world, &with("flow_import", &other));
    assert_eq!((code(&imported), &imported["data"]["state"]), ("executed", &json!("proposed")), "{imported}");
}

/// Attack (Flows and external agents): An imported flow contains tools.
/// Defence: Every tool that it names must be allowed, or nothing is imported. Its text names none.
#[test]
fn a_flow_from_elsewhere_brings_no_tool_that_is_not_allowed() {
    for (policy, outcome) in [("reject", "FLOW_IMPORT_EXTERNAL_TOOL_DENIED"), ("strip_inert", "executed")] {
        let world = world(&format!("{OUTSIDE}import_policy = \"{policy}\"\n"));
        let imported = flow(&world, &with("flow_import", &bundle("1.0.0", "Use web_search.", &["note", "web_search"])));
        assert_eq!(code(&imported), outcome, "{imported}");
        let told = imported[if policy == "reject" { "error" } else { "summary" }].as_str().unwrap();
        assert!(told.contains("web_search") && !told.contains("note"), "{imported}");
        // Refused as a whole: nothing of it is there.
        let found = flow(&world, &json!({ "type": "flow_get", "flow_id": "flow_daily", "version": "1.0.0" }));
        if policy == "reject" {
            assert_eq!(code(&found), "unknown_flow");
        } else {
            let refs = json!([{ "kind": "external_tool", "id": "note" }]);
            assert_eq!(found["data"]["steps"][0]["skill_refs"], refs);
        }
        // The author of a flow may name any tool here; naming gives nothing.
        let proposed = flow(&world, &with("flow_propose", &bundle("2.0.0", "x", &["web_search"])));
        assert_eq!(code(&proposed), "executed", "{proposed}");
    }
}

#[test]
fn a_harness_reads_the_canonical_version_and_hears_when_it_is_stale() {
    let world = world(OUTSIDE);
    approved(&world, &bundle("1.0.0", "Read.\n```\n# Heading", &["note", "web_search"]));
    let project = |harness: &str, version: Option<&str>| {
        flow(
            &world,
            &json!({ "type": "flow_project", "flow_id": "flow_daily", "harness": harness, "version": version }),
        )
    };
    for harness in ["cursor_rule", "cli_runbook", "agent_bundle"] {
        let projected = project(harness, None);
        let data = &projected["data"];
        assert_eq!(
            (&data["schema"], &data["stale"]),
            (&json!("knowtation.flow_project/v0"), &json!(false)),
            "{projected}"
        );
        assert_eq!(data["projection"]["harness"], harness);
    }
    let inner: Value =
        serde_json::from_str(project("agent_bundle", None)["data"]["projection"]["rendered"].as_str().unwrap())
            .unwrap();
    assert_eq!((&inner["allowed_tools"], &inner["grant_required"]), (&json!(["note"]), &json!(true)));
    flow(&world, &with("flow_propose", &bundle("1.1.0", "x", &[])));
    assert_eq!(code(&project("cli_runbook", Some("1.1.0"))), "unknown_flow", "nobody works by what is only proposed");
    approved(&world, &bundle("1.2.0", "x", &[]));
    let old = project("cursor_rule", Some("1.0.0"));
    assert_eq!((&old["data"]["stale"], &old["data"]["canonical_version"]), (&json!(true), &json!("1.2.0")), "{old}");
}

#[test]
fn external_agents_are_off_unless_they_are_switched_on_and_can_be_forbidden() {
    for (table, outcome) in [
        ("", "FLOW_HARNESS_UNSUPPORTED"),
        ("[flows.external_agent]\nenabled = true\nforbidden = true\n", "FLOW_EXTERNAL_AGENT_POLICY_FORBIDDEN"),
    ] {
        let world = world(table);
        approved(&world, &bundle("1.0.0", "x", &[]));
        let wanted = json!({ "type": "flow_project", "flow_id": "flow_daily", "harness": "agent_bundle" });
        assert_eq!(code(&flow(&world, &wanted)), outcome);
    }
    // A tool that no action is behind keeps the host from starting.
    let table = OUTSIDE.replace("action = \"echo\"", "action = \"absent\"");
    let mut down = World::builder().config(&format!("{CONFIG}\n{table}")).down();
    let error = down.try_start().unwrap_err().to_string();
    assert!(error.contains("allowed_tools.note: provider demo has no action `absent`"), "{error}");
}

/// Attack (Flows and external agents): Another group reads or writes flows.
/// Defence: Only the main group and people can.
#[test]
fn the_main_group_and_the_command_line_do_the_same_and_nobody_else_does_anything() {
    let world = world("");
    let main = Shim::start(&world, "main");
    let tools = main.tool_names();
    for tool in ["flow_list", "flow_get", "flow_propose", "flow_import", "flow_export", "flow_approve", "flow_project"]
    {
        assert!(tools.iter().any(|own| own == tool), "{tool}: {tools:?}");
    }
    let own = bundle("1.0.0", "Read.", &[]);
    let proposed = main.call("flow_propose", own.clone());
    assert_eq!(proposed["isError"], false, "{proposed}");
    let asking = main.call("flow_approve", json!({ "flow_id": "flow_daily", "version": "1.0.0" }));
    assert!(!asking.to_string().contains(&asked(&world)), "no agent learns the code: {asking}");
    answer(&world, &asked(&world), true);
    let by_main = main.call("flow_get", json!({ "flow_id": "flow_daily" }))["structuredContent"]["data"].clone();
    let by_person: Value = serde_json::from_slice(&world.cli(&["--json", "flow", "get", "flow_daily"]).stdout).unwrap();
    assert_eq!(by_main, by_person);
    assert_eq!(by_main["proposed_by"], "group:main");
    // Another group has none of it.
    let developer = Shim::start(&world, "developer");
    assert!(!developer.tool_names().iter().any(|tool| tool.starts_with("flow_")));
    let refused = world.group("developer").ask(json!({ "type": "flow_list" }));
    assert_eq!(code(&refused), "main_only");
}

#[test]
fn the_command_line_proposes_what_ships_and_says_what_is_wrong_with_the_rest() {
    let world = world("");
    for starter in ["dependency_review", "incident_triage", "release_notes"] {
        let proposed = world.cli(&["flow", "propose", "--starter", starter]);
        assert!(proposed.status.success(), "{starter}: {}", said(&proposed));
    }
    // The same from elsewhere brings tools that are not allowed here.
    let path = world.path("own.json");
    let exported = world.cli(&["flow", "export", "flow_incident_triage", "--flow-version", "1.0.0"]);
    std::fs::write(&path, String::from_utf8(exported.stdout).unwrap().replace("1.0.0", "1.0.1")).unwrap();
    let denied = world.cli(&["flow", "import", path.to_str().unwrap()]);
    assert_eq!(denied.status.code(), Some(3), "{}", said(&denied));
    assert!(said(&denied).contains("names an external tool that is not allowed"), "{}", said(&denied));
    for (text, fault) in [
        ("{", "the document is not a flow"),
        ("[]", "the document is not a flow"),
        ("{\"flow\": {}, \"steps\": []}", "the document is not a flow: flow"),
        ("{\"flow\": {\"flow_id\": \"x\", \"flow_id\": \"y\"}}", "the document is not a flow"),
    ] {
        std::fs::write(&path, text).unwrap();
        let refused = world.cli(&["flow", "propose", path.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(2), "{text}: {}", said(&refused));
        assert!(said(&refused).contains(fault), "{text}: {}", said(&refused));
    }
    std::fs::write(&path, bundle("1.0.0", "Read.", &[]).to_string()).unwrap();
    assert!(world.cli(&["flow", "propose", path.to_str().unwrap()]).status.success());
    let listed = said(&world.cli(&["flow", "list", "--state", "proposed"]));
    assert!(listed.contains("flow_daily") & listed.contains("1.0.0"), "{listed}");
    assert_eq!(world.cli(&["flow", "get", "flow_other"]).status.code(), Some(3));
    assert!(said(&world.cli(&["flow", "deprecate", "flow_daily", "1.0.0"])).contains("withdrawn"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn ten_thousand_flows_are_listed_page_by_page() {
    let world = world("");
    approved(&world, &bundle("1.0.0", "x", &[]));
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    ledger.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    // As if so many had been approved before.
    let copy = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
        INSERT INTO flow_versions
        SELECT vault, printf('flow_n%05d', i), version, state, scope, title, steps, digest, proposed_by, proposed_at,
               NULL, decided_by, decided_at, approved_seq FROM flow_versions, n WHERE flow_id = 'flow_daily'";
    assert_eq!(ledger.execute(copy, []).unwrap(), 10_000);
    let mut cursor = Value::Null;
    let mut seen = std::collections::BTreeSet::new();
    let pages = (0..60).find(|_| {
        let page = flow(&world, &json!({ "type": "flow_list", "limit": 200, "cursor": cursor }));
        let flows = page["data"]["flows"].as_array().unwrap();
        seen.extend(flows.iter().map(|flow| flow["flow_id"].as_str().unwrap().to_owned()));
        cursor = page["data"]["next_cursor"].clone();
        cursor.is_null()
    });
    assert_eq!((pages, seen.len()), (Some(50), 10_001));
}
