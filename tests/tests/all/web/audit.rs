//! The pages of activity and access: read by people who audit, and changed by nobody else.

use super::{alice, ask, builder};
use serde_json::json;
use tests::World;
use tests::group::code;
use tests::visitor::Visitor;

/// A world in which Alice has this line, and she signed in.
fn as_alice(line: &str) -> (World, Visitor) {
    let world = builder(line).up();
    world.grant("developer", 2);
    let alice = alice(&world);
    (world, alice)
}

/// Attack (The inbox): Text of an agent in the list of calls runs, hides, or breaks the page on a
/// telephone.
/// Defence: Every text is escaped, apart from the text around it; tables scroll by themselves.
#[test]
fn every_call_is_listed_with_its_story() {
    let (world, alice) = as_alice("audits = true\n");
    let developer = world.group("developer");
    let hostile = json!({ "text": "<script>alert(1)</script>\u{202e}" });
    assert_eq!(code(&developer.call("echo", hostile)), "executed");
    let refused = developer.call("wreck", json!({}));
    let id = refused["request_id"].as_str().unwrap().to_owned();
    let page = alice.get("/activity").text;
    for words in ["demo.echo", "executed", "denied", "data-every=\"5000\"", &format!("/activity/developer/{id}")] {
        assert!(page.contains(words), "no `{words}` in {page}");
    }
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'), "{page}");
    let story = alice.get(&format!("/activity/developer/{id}"));
    for words in ["refused; nothing was executed", "decided by", "policy version", "sha256:"] {
        assert!(story.text.contains(words), "no `{words}` in {}", story.text);
    }
    // The filter is that of the command line.
    let denied = alice.get("/activity?status=denied&group=developer").text;
    assert!(denied.contains(&id) && !denied.contains(">executed</td>"), "{denied}");
    assert!(alice.get("/activity?group=security").text.contains("No call matches."));
    let fragment = alice.get("/activity/fragment?status=denied").text;
    assert!(fragment.contains(&id) && !fragment.contains("<html"), "{fragment}");
    for (path, status) in [
        ("/activity?status=often", 400),
        ("/activity?group=../x", 400),
        ("/activity?sort=time", 400),
        ("/activity?before=x", 400),
        ("/activity/developer/none", 404),
        ("/activity/security/none/more", 404),
        (&format!("/activity/security/{id}"), 404),
    ] {
        assert_eq!(alice.get(path).status, status, "{path}");
    }
}

#[test]
fn older_calls_are_on_further_pages() {
    let (world, alice) = as_alice("audits = true\n");
    let developer = world.group("developer");
    let ids: Vec<String> = (0..103).map(|_| developer.send(tests::group::call("echo", json!({})))).collect();
    for id in &ids {
        developer.reply(id);
    }
    let first = alice.get("/activity").text;
    let (_, rest) = first.split_once("href=\"/activity?before=").expect("a link to older calls");
    let before = rest.split('"').next().unwrap();
    let second = alice.get(&format!("/activity?before={before}")).text;
    assert!(!second.contains("data-every") && !second.contains("Older calls"), "{second}");
    let on = |page: &str| ids.iter().filter(|id| page.contains(&format!("/activity/developer/{id}\""))).count();
    assert_eq!((on(&first), on(&second)), (100, 3));
}

/// Attack (The inbox): A person who may only approve reads what all groups have done, or revokes a
/// grant.
/// Defence: `http::web::activity`, `http::web::access`: `audits = true` reads, and `admin = true`
/// revokes.
///
/// Attack (The inbox): A person without the right, or a form of another site, ends the access of an
/// external agent.
/// Defence: `http::web::flows`: `audits = true` reads. `admin = true` revokes, with a form of the
/// session and the exact `Origin`.
#[test]
fn only_auditors_read_the_activity() {
    let (world, mut alice) = as_alice("approves = {}\n");
    let (_, id, _) = ask(&world, json!({}));
    let story = format!("/activity/developer/{id}");
    let pages = [
        "/activity",
        "/activity/fragment",
        "/activity/events",
        "/access",
        "/providers",
        "/flows",
        "/evidence",
        "/evidence/fragment",
        "/evidence/events",
    ];
    for path in pages.into_iter().chain([story.as_str()]) {
        let refused = alice.get(path);
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.text.contains("audits = true") && !refused.text.contains(&id), "{path}: {}", refused.text);
        let stranger = Visitor::of(&world).get(path);
        assert!([303, 401].contains(&stranger.status), "{path}: {}", stranger.status);
    }
    let inbox = alice.get("/");
    assert!(pages.iter().all(|path| !inbox.text.contains(&format!("href=\"{path}\""))), "{}", inbox.text);
    // Who may not read the evidence has it verified neither, also with a form of her own making.
    let refused = alice.post("/evidence/verify", &[("form", &inbox.field("form"))]);
    assert!(refused.status == 403 && refused.text.contains("audits = true"), "{}", refused.text);
    let operator = Visitor::signed_in(&world);
    let page = operator.get("/evidence").text;
    assert!(page.contains("Verify all rows") && !page.contains("The last verification ended"), "{page}");
    let shown = operator.get("/").text;
    let led_to = pages.iter().filter(|path| shown.contains(&format!("href=\"{path}\""))).count();
    assert_eq!(led_to, 5, "{shown}");
}

/// Attack: see `only_auditors_read_the_activity`.
#[test]
fn access_is_a_matrix_in_which_an_administrator_revokes() {
    let (world, mut auditor) = as_alice("audits = true\n");
    let page = auditor.get("/access").text;
    for words in ["developer", "demo", "L2 (write)", "by "] {
        assert!(page.contains(words), "no `{words}` in {page}");
    }
    assert!(!page.contains("Revoke"), "who audits changes nothing: {page}");
    // Also not with a form of her own making.
    let form = auditor.get("/").field("form");
    let refused = auditor.post("/access/developer/demo/revoke", &[("form", &form)]);
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert!(refused.text.contains("may not administer"), "{}", refused.text);
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    let mut operator = Visitor::signed_in(&world);
    let page = operator.get("/access");
    assert!(page.text.contains("Revoke the access of developer at demo"), "{}", page.text);
    let form = page.field("form");
    assert_eq!(operator.post("/access/developer/demo/revoke", &[("form", "other")]).status, 403);
    assert_eq!(operator.post("/access/developer/%2e%2e/revoke", &[("form", &form)]).status, 404);
    assert_eq!(operator.get("/access/developer/demo/revoke").status, 405);
    let done = operator.post("/access/developer/demo/revoke", &[("form", &form)]);
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "no_grant");
    assert!(operator.get("/access").text.contains("No group has access to anything."));
    let row = world.rows().into_iter().find(|row| row.kind == "revoked").unwrap();
    assert_eq!(row.caller, "person:operator");
}
