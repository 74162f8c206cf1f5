//! The cost of a call of an external agent beside the same call of a group, and whether a hundred thousand accesses and
//! ten thousand flows make a difference.

use super::{ROUNDS, median_of};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use tests::World;
use tests::group::{Group, call, code};
use tests::visitor::{Page, Visitor};
use tests::world::CONFIG;

const STEPS: usize = 100;
const OUTSIDE: &str = "\n[web]\nlisten = \"127.0.0.1:0\"\n\n[flows.external_agent]\nenabled = true\nmax_invocations = 0\n\
    allow_unlimited = true\nallowed_tools = [{ id = \"echo\", description = \"Says it back\", provider = \"demo\", \
    action = \"echo\", open = [\"text\"] }]\n";

fn flow(world: &World, request: &Value) -> Value {
    let reply = world.command(json!({ "type": "flow", "vault": "default", "request": request }));
    assert_eq!(code(&reply), "executed", "{reply}");
    reply
}

fn mint(world: &World) -> String {
    // One agent has few grants that live.
    static AGENTS: AtomicU64 = AtomicU64::new(0);
    let label = format!("agent {}", AGENTS.fetch_add(1, Ordering::Relaxed));
    let wanted = json!({ "type": "flow_external_grant_mint", "flow_id": "flow_bench", "flow_version": "1.0.0",
                         "requested_tools": ["echo"], "actor_label": label });
    flow(world, &wanted)["data"]["bearer"].as_str().unwrap().to_owned()
}

/// A canonical flow of many steps.
fn approve(world: &World) {
    let step = |n: usize| {
        json!({
            "schema": "knowtation.flow_step/v0", "step_id": format!("flow_bench#{n}"), "flow_id": "flow_bench",
            "ordinal": n, "owned_job": "Read", "instruction": "Read what is new, and say what matters of it.",
            "trigger": "Each morning", "when_not_to_run": "On holidays", "boundaries": ["Writes nothing"],
            "skill_refs": [{ "kind": "external_tool", "id": "echo" }], "output_shape": "A list",
            "verification": { "kind": "human_review", "evidence_required": true, "description": "Somebody has read it" },
            "automatable": "manual",
        })
    };
    let names: Vec<String> = (1..=STEPS).map(|n| format!("flow_bench#{n}")).collect();
    flow(
        world,
        &json!({
            "type": "flow_propose",
            "flow": {
                "schema": "knowtation.flow/v0", "flow_id": "flow_bench", "title": "Bench", "version": "1.0.0",
                "scope": "project", "summary": "Many steps.", "steps": names, "updated": "2026-02-14T10:00:00.000Z",
                "truncated": false,
            },
            "steps": (1..=STEPS).map(step).collect::<Vec<_>>(),
        }),
    );
    flow(world, &json!({ "type": "flow_approve", "flow_id": "flow_bench", "version": "1.0.0" }));
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    world.command(json!({ "type": "answer", "code": approval_request, "yes": true, "reason": null }));
}

/// As if so many had been given and approved before.
fn fill(world: &World, accesses: usize, flows: usize) {
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    ledger.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let copies = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {accesses})
         INSERT INTO flow_grants SELECT printf('fgrnt_%08d', i), randomblob(32), vault, scope, flow_id, version, tools,
            randomblob(32), printf('group:g%02d', i % 20), issued_at, expires_at, NULL, max_invocations, 0
         FROM (SELECT * FROM flow_grants LIMIT 1), n"
    );
    ledger.execute(&copies, []).unwrap();
    if flows == 0 {
        return;
    }
    let copies = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {flows})
         INSERT INTO flow_versions SELECT vault, printf('flow_n%05d', i), version, state, scope, title, steps, digest,
            proposed_by, proposed_at, NULL, decided_by, decided_at, approved_seq
         FROM flow_versions, n WHERE flow_id = 'flow_bench'"
    );
    ledger.execute(&copies, []).unwrap();
}

pub(super) fn all() {
    println!("\nagents outside, the median of {}; the flow has {STEPS} steps", ROUNDS * 4);
    println!(
        "{:<40} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "", "group", "HTTP alone", "invoke", "mint", "bundle", "list"
    );
    let mut world = World::builder().config(&format!("{CONFIG}{OUTSIDE}")).down();
    world.start_process();
    world.grant("developer", 1);
    approve(&world);
    measure(&world, "one access, one flow");
    fill(&world, 9_000, 10_000);
    measure(&world, "9,000 accesses, 10,000 flows");
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    ledger.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    ledger
        .execute(
            "UPDATE flow_grants SET grant_id = replace(grant_id, 'fgrnt_0', 'fgrnt_9') WHERE grant_id LIKE 'fgrnt_0%'",
            [],
        )
        .unwrap();
    drop(ledger);
    fill(&world, 90_000, 0);
    measure(&world, "99,000 accesses, 10,000 flows");
}

fn measure(world: &World, name: &str) {
    let rounds = ROUNDS * 4;
    let developer: Group = world.group("developer");
    let by_group = median_of(rounds, || {
        let reply = developer.ask(call("echo", json!({ "text": "x" })));
        assert_eq!(code(&reply), "executed", "{reply}");
    });
    let visitor = Visitor::of(world);
    // Each for itself: an access can be used so fast, and no faster.
    let [invoking, reading] = [mint(world), mint(world)].map(|bearer| format!("Bearer {bearer}"));
    let say = |authorization: &str, method: &str, path: &str, host: Option<&str>, body: &str| -> Page {
        let mut headers = vec![("Authorization", authorization), ("Content-Type", "application/json")];
        headers.extend(host.map(|host| ("Host", host)));
        visitor.say(&visitor.request(method, path, &headers, body))
    };
    let invoke = "/api/v1/flows/external-tools/echo/invoke";
    // A connection, a request and a reply, and nothing done.
    let floor = median_of(rounds, || assert_eq!(say("", "POST", invoke, Some("nobody.example"), "{}").status, 421));
    let invoked = median_of(rounds, || {
        let page = say(&invoking, "POST", invoke, None, r#"{"text": "x"}"#);
        assert_eq!(page.status, 200, "{page:?}");
    });
    let minted = median_of(rounds, || drop(mint(world)));
    let bundle = median_of(rounds, || {
        let page = say(&reading, "GET", "/api/v1/flows/flow_bench/projection?harness=agent_bundle", None, "");
        assert_eq!(page.status, 200, "{page:?}");
    });
    let listed = median_of(rounds, || drop(flow(world, &json!({ "type": "flow_external_grant_list" }))));
    println!(
        "{name:<40} {by_group:>12.2?} {floor:>12.2?} {invoked:>12.2?} {minted:>12.2?} {bundle:>12.2?} {listed:>12.2?}"
    );
}
