//! The page of the flows: accesses of external agents as they really are, and the button that ends one.

use super::super::flows::{approved, bundle, flow};
use super::{alice, builder, cells, is_sound};
use serde_json::json;
use std::time::Duration;
use tests::World;
use tests::group::code;
use tests::visitor::Visitor;

const MORE: &str = "audits = true\n
[flows]
vaults = [\"default\", \"other\"]

[flows.external_agent]
enabled = true
max_invocations = 3

[[flows.external_agent.allowed_tools]]
id = \"note\"
description = \"Says it back\"
provider = \"demo\"
action = \"echo\"
open = [\"text\"]
";

/// A world with a canonical flow, and an access to it: its name and its bearer.
fn world() -> (World, String, String) {
    let mut world = builder(MORE).up();
    let mut own = bundle("1.0.0", "Note it.", &["note"]);
    own["flow"]["title"] = json!("</td><script>alert(1)</script>");
    approved(&world, &own);
    let (grant, bearer) = mint(&mut world);
    (world, grant, bearer)
}

fn mint(world: &mut World) -> (String, String) {
    let minted = flow(
        world,
        &json!({
            "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
            "requested_tools": ["note"], "ttl_seconds": 3600,
        }),
    );
    assert_eq!(code(&minted), "executed", "{minted}");
    let bearer = minted["data"]["bearer"].as_str().unwrap().to_owned();
    world.keep_secret(bearer.clone());
    (minted["data"]["grant"]["grant_id"].as_str().unwrap().to_owned(), bearer)
}

/// Calls the tool as the external agent does; the status.
fn invoke(world: &World, bearer: &str) -> u16 {
    let agent = Visitor::of(world);
    let bearer = format!("Bearer {bearer}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let body = json!({ "text": "hi" }).to_string();
    agent.say(&agent.request("POST", "/api/v1/flows/external-tools/note/invoke", &headers, &body)).status
}

/// Changes the stored state of an access.
fn change(world: &World, sql: &str) {
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    ledger.busy_timeout(tests::DEADLINE).unwrap();
    ledger.execute(sql, []).unwrap();
}

#[test]
fn an_access_is_shown_with_its_issuer_its_end_its_state_and_its_calls() {
    let (world, grant, bearer) = world();
    let alice = alice(&world);
    assert_eq!(invoke(&world, &bearer), 200);
    let page = alice.get("/flows");
    assert_eq!(page.status, 200, "{}", page.text);
    is_sound(&page.text);
    assert!(!page.text.contains(&bearer) && !page.text.contains("<script>alert"), "{}", page.text);
    let row = cells(&page.text, &grant);
    assert_eq!(row.len(), 8, "who audits has no button: {row:?}");
    assert!(row[1].starts_with("flow_daily@1.0.0") && row[1].contains("project, vault default"), "{row:?}");
    assert_eq!((row[2].as_str(), row[5].as_str(), row[7].as_str()), ("note", "in force", "1 of 3"), "{row:?}");
    assert!(row[4].starts_with("operator") && row[6].contains(" left"), "{row:?}");
    let version = cells(&page.text, "&lt;script&gt;");
    assert_eq!(version[..3], ["flow_daily", "1.0.0", "project"], "{version:?}");
    for words in ["State: approved", "vault <bdi dir=\"ltr\">other</bdi>", "There are no flows."] {
        assert!(page.text.contains(words), "no `{words}` in {}", page.text);
    }

    // The state is what decides about the next call.
    let state = || cells(&alice.get("/flows").text, &grant)[5].clone();
    for (status, expected) in [(200, "in force"), (200, "all calls are used"), (403, "all calls are used")] {
        assert_eq!((invoke(&world, &bearer), state().as_str()), (status, expected));
    }
    change(&world, "UPDATE flow_grants SET invocations = 0, issued_by = 'person:bob'");
    assert_eq!(state(), "refused: bob no longer administers");
    assert_eq!(invoke(&world, &bearer), 403);
    change(&world, "UPDATE flow_grants SET issued_by = 'person:operator'");
    world.command(json!({ "type": "kill", "scope": { "group": "external" }, "on": true }));
    assert!(state().starts_with("refused: "), "{}", state());
    world.command(json!({ "type": "kill", "scope": { "group": "external" }, "on": false }));
    assert_eq!(state(), "in force");
    world.clock.advance(Duration::from_secs(3601));
    let after = super::alice(&world).get("/flows").text;
    assert_eq!(cells(&after, &grant)[5], "expired");
}

/// Attack: see `only_auditors_read_the_activity`.
#[test]
fn an_administrator_revokes_an_access_from_a_page_and_from_nowhere_else() {
    let (world, grant, bearer) = world();
    let mut auditor = alice(&world);
    let path = format!("/flows/accesses/default/{grant}/revoke");
    // Who audits changes nothing, also with a form of her own making.
    let form = auditor.get("/").field("form");
    let refused = auditor.post(&path, &[("form", &form)]);
    assert!(refused.status == 409 && refused.text.contains("may not administer"), "{}", refused.text);
    let mut operator = Visitor::signed_in(&world);
    let page = operator.get("/flows");
    is_sound(&page.text);
    assert!(page.text.contains(&format!("Revoke the access {grant}")), "{}", page.text);
    let form = page.field("form");
    let body = format!("form={form}");
    let send = |origin: &[(&str, &str)]| operator.say(&operator.request("POST", &path, origin, &body)).status;
    assert_eq!([send(&[]), send(&[("Origin", "http://evil.example")]), send(&[("Origin", "null")])], [403; 3]);
    assert_eq!(operator.get(&format!("{path}?{body}")).status, 405);
    for (path, fields, status) in [
        (path.as_str(), [("form", "other")], 403),
        (path.as_str(), [("x", "y")], 422),
        (&format!("/flows/accesses/other/{grant}/revoke"), [("form", form.as_str())], 409),
        (&format!("/flows/accesses/nowhere/{grant}/revoke"), [("form", form.as_str())], 409),
        ("/flows/accesses/default/fgrnt_00000000/revoke", [("form", form.as_str())], 409),
        ("/flows/accesses/default/%2e%2e/revoke", [("form", form.as_str())], 404),
    ] {
        let page = operator.post(path, &fields);
        assert_eq!(page.status, status, "{path} {fields:?}: {}", page.text);
    }
    let mut stranger = Visitor::of(&world);
    assert!([303, 401].contains(&stranger.post(&path, &[("form", &form)]).status));
    assert_eq!(invoke(&world, &bearer), 200, "nothing of that has ended it");
    assert_eq!(operator.post(&path, &[("form", &form)]).status, 200);
    assert_eq!(invoke(&world, &bearer), 403);
    let row = cells(&operator.get("/flows").text, &grant);
    assert!(row[5].starts_with("revoked ") && row[8].is_empty(), "{row:?}");
    let row = world.rows().into_iter().rfind(|row| row.kind == "flow").unwrap();
    assert_eq!(row.caller, "person:operator");
    assert!(row.request_id.unwrap().starts_with("web-"));
}

#[test]
fn more_accesses_are_on_further_pages() {
    let (world, grant, _) = world();
    let alice = alice(&world);
    let copy = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 149)
         INSERT INTO flow_grants SELECT printf('fgrnt_%08d', i), randomblob(32), vault, scope, flow_id, version, tools,
             actor, issued_by, issued_at, expires_at + i, revoked_at, max_invocations, invocations
         FROM flow_grants, n WHERE grant_id = '{grant}'"
    );
    change(&world, &copy);
    let on = |page: &str| page.matches("<th scope=\"row\"><code>fgrnt_").count();
    let first = alice.get("/flows").text;
    let (_, rest) = first.split_once("href=\"/flows?after=").expect("a link to more accesses");
    let after = rest.split('"').next().unwrap();
    assert_eq!(after, "fgrnt_00000050", "those that expire last come first");
    let second = alice.get(&format!("/flows?after={after}")).text;
    assert_eq!((on(&first), on(&second)), (100, 50));
    assert!(second.contains(&grant) && !second.contains("More accesses"), "{second}");
    for (path, status) in [("/flows?after=../x", 400), ("/flows?before=1", 400), ("/flows?after=fgrnt_99999999", 404)] {
        assert_eq!(alice.get(path).status, status, "{path}");
    }
}

#[test]
fn without_external_agents_the_page_says_so() {
    let world = builder("audits = true\n").up();
    let page = alice(&world).get("/flows").text;
    for words in ["External agents are switched off", "There are no accesses.", "There are no flows."] {
        assert!(page.contains(words), "no `{words}` in {page}");
    }
}
