//! The pages of the inbox, and the pages that say why there is nothing to show.

use super::super::flows::{approved, bundle, flow};
use super::{is_current, normalised, visible};
use regex::Regex;
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;
use tests::group::{call, code, with};
use tests::visitor::{Page, Visitor, reference};
use tests::world::CONFIG;
use tests::{World, until};

const PROFILE: &str = "write = \"rules\"\nproduction = \"human\"\n[providers.demo]\nactions = { charge = \"human\" }\n";

const FLOWS: &str = "
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

/// A world in which the pages have something to show. Its clock stands at a fixed time, so hours are the same each day.
fn world() -> World {
    let token = String::from(config::web::TokenDigest::of("alices-token"));
    let config =
        format!("{CONFIG}{FLOWS}\n[web]\nlisten = \"127.0.0.1:0\"\n\n[people.alice]\nweb_token_sha256 = \"{token}\"\n");
    let builder = World::builder().config(&config).file("policy/profiles/developer.toml", PROFILE);
    let world = builder.clock("2026-02-14T10:00:05.000Z".parse().unwrap()).up();
    world.grant_with("developer", 3, json!({ "requires_task_gate": "Security", "daily_quota": 100 }));
    world
}

fn alice(world: &World) -> Visitor {
    let mut alice = Visitor::of(world);
    assert_eq!(alice.post("/sign-in/token", &[("secret", "alices-token")]).status, 303);
    alice
}

fn compare(world: &World, name: &str, page: &Page) {
    is_current(&format!("page-{name}.txt"), &text(world, page));
}

/// The status and the words of a page, without names that differ from run to run.
fn text(world: &World, page: &Page) -> String {
    let kind = page.header("content-type").unwrap_or_default();
    let words = if kind.starts_with("text/html") { visible(&page.text) } else { format!("{}\n", page.text) };
    let text = normalised(world, &format!("[{}]\n{words}", page.status));
    let text = Regex::new(r"(?m)^[0-9a-f]{12}$").unwrap().replace_all(&text, "AGENT").into_owned();
    let text = Regex::new(r"\b\d+:DIGEST").unwrap().replace_all(&text, "N:DIGEST").into_owned();
    Regex::new(r"policy version [0-9a-f]{12}").unwrap().replace_all(&text, "policy version HEX").into_owned()
}

/// Answers the approval request of this name with these further fields.
fn answer(visitor: &mut Visitor, name: &str, more: &[(&str, &str)]) -> Page {
    let shown = visitor.get(&format!("/approvals/{name}"));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let fields = [&[("form", form.as_str()), ("digest", &digest)], more].concat();
    visitor.post(&format!("/approvals/{name}/answer"), &fields)
}

#[test]
fn the_inbox_and_what_becomes_of_an_answer() {
    let world = world();
    let (developer, mut operator) = (world.group("developer"), Visitor::signed_in(&world));
    compare(&world, "inbox-empty", &operator.get("/"));
    let charged = developer.send(call("charge", json!({ "to": "alice", "amount": 3 })));
    let first = reference(&world);
    compare(&world, "answered-yes", &answer(&mut operator, &first, &[("answer", "yes")]));
    assert_eq!(code(&developer.reply(&charged)), "executed");
    let over = || Some(operator.get(&format!("/approvals/{first}"))).filter(|page| page.text.contains("it was done"));
    compare(&world, "approval-over", &until("the outcome", over));

    let denied = developer.send(call("charge", json!({ "to": "bob", "amount": 4 })));
    let second = reference(&world);
    let no = [("answer", "no"), ("reason", "not on a Friday")];
    compare(&world, "answered-no", &answer(&mut operator, &second, &no));
    assert_eq!(code(&developer.reply(&denied)), "approval_denied");

    developer.send(call("charge", json!({ "to": "carol", "amount": 5 })));
    reference(&world);
    world.task("t1", "developer");
    let opened = world.command(json!({ "type": "gate_approve", "task_id": "t1", "gate": "Security" }));
    assert_eq!(code(&opened), "executed", "{opened}");
    developer.send(with(call("deploy", json!({ "service": "shop" })), "task_id", "t1"));
    until("both approval requests", || {
        (world.query("SELECT code FROM approvals WHERE state = 'waiting'").len() == 2).then_some(())
    });
    world.clock.advance(Duration::from_secs(61));
    compare(&world, "inbox", &operator.get("/"));
}

#[test]
fn the_standing_approvals() {
    let world = world();
    let (developer, mut operator) = (world.group("developer"), Visitor::signed_in(&world));
    compare(&world, "standing-approvals-empty", &operator.get("/standing-approvals"));
    let id = developer.send(call("charge", json!({ "to": "alice", "amount": 3 })));
    let name = reference(&world);
    let given = answer(&mut operator, &name, &[("answer", "yes"), ("standing", "3600")]);
    compare(&world, "answered-standing", &given);
    assert_eq!(code(&developer.reply(&id)), "executed");
    let page = operator.get("/standing-approvals");
    compare(&world, "standing-approvals", &page);
    let name = world.query("SELECT id FROM standing_approvals").remove(0)["id"].to_string();
    let ended = operator.post(&format!("/standing-approvals/standing-{name}/end"), &[("form", &page.field("form"))]);
    compare(&world, "standing-approval-ended", &ended);
}

#[test]
fn the_activity_and_the_story_of_one_call() {
    let world = world();
    let (developer, mut operator) = (world.group("developer"), Visitor::signed_in(&world));
    compare(&world, "activity-empty", &operator.get("/activity?status=denied"));
    assert_eq!(code(&developer.call("echo", json!({ "text": "hello" }))), "executed");
    assert_eq!(code(&developer.call("broken", json!({}))), "provider_failed");
    assert_eq!(code(&world.group("security").call("echo", json!({}))), "no_grant");
    let id = developer.send(call("charge", json!({ "to": "alice", "amount": 3 })));
    let name = reference(&world);
    assert_eq!(answer(&mut operator, &name, &[("answer", "yes")]).status, 200);
    assert_eq!(code(&developer.reply(&id)), "executed");
    world.settle();
    compare(&world, "activity", &operator.get("/activity"));
    compare(&world, "story", &operator.get(&format!("/activity/developer/{id}")));
}

#[test]
fn the_access_of_groups() {
    let world = world();
    let (developer, mut operator) = (world.group("developer"), Visitor::signed_in(&world));
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    compare(&world, "access", &operator.get("/access"));
    compare(&world, "access-one", &operator.get("/access/developer/demo"));
    let narrow = operator.get("/access/developer/demo/narrow");
    compare(&world, "access-narrow", &narrow);
    let form = narrow.field("form");
    let fields: Vec<(&str, String)> =
        ["shown", "level", "actions"].into_iter().map(|name| (name, narrow.field(name))).collect();
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    fields.push(("form", &form));
    compare(&world, "access-narrowed", &operator.post("/access/developer/demo/narrow", &fields));
    let fields = [("form", form.as_str()), ("group", "security"), ("provider", "demo"), ("level", "1")];
    compare(&world, "access-granted", &operator.post("/access/grant", &fields));
    compare(&world, "access-revoked", &operator.post("/access/security/demo/revoke", &[("form", &form)]));
}

#[test]
fn the_providers() {
    let world = world();
    let (developer, operator) = (world.group("developer"), Visitor::signed_in(&world));
    compare(&world, "providers-unused", &operator.get("/providers"));
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    assert_eq!(code(&developer.call("broken", json!({}))), "provider_failed");
    world.settle();
    compare(&world, "providers", &operator.get("/providers"));
}

#[test]
fn the_flows() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    compare(&world, "flows-empty", &operator.get("/flows"));
    approved(&world, &bundle("1.0.0", "Note it.", &["note"]));
    let minted = flow(
        &world,
        &json!({
            "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
            "requested_tools": ["note"], "ttl_seconds": 3600,
        }),
    );
    let grant = minted["data"]["grant"]["grant_id"].as_str().unwrap_or_else(|| panic!("{minted}")).to_owned();
    let hide = |mut page: Page| {
        page.text = page.text.replace(&grant, "GRANT");
        page
    };
    let page = operator.get("/flows");
    let form = page.field("form");
    compare(&world, "flows", &hide(page));
    let revoked = operator.post(&format!("/flows/accesses/default/{grant}/revoke"), &[("form", &form)]);
    compare(&world, "flows-revoked", &hide(revoked));
}

#[test]
fn the_evidence() {
    let world = world();
    let (developer, mut operator) = (world.group("developer"), Visitor::signed_in(&world));
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    world.settle();
    // Some rows may be written after the start's verification has ended.
    let form = operator.get("/evidence").field("form");
    assert_eq!(operator.post("/evidence/verify", &[("form", &form)]).status, 303);
    let verified = || Some(operator.get("/evidence")).filter(|page| page.text.contains("The last verification ended"));
    compare(&world, "evidence", &until("the verification", verified));
}

#[test]
fn the_sign_in() {
    let world = world();
    let mut stranger = Visitor::of(&world);
    let secret = tests::visitor::link(&world);
    let mut link = stranger.get(&format!("/sign-in?link={secret}"));
    link.text = link.text.replace(&secret, "SECRET");
    compare(&world, "sign-in-link", &link);
    let mut text_of = String::new();
    let mut note = |title: &str, page: &Page| write!(text_of, "--- {title} ---\n{}\n", text(&world, page)).unwrap();
    note("no session", &stranger.get("/"));
    note("led by another site", &{
        let from = [("Sec-Fetch-Site", "cross-site")];
        stranger.say(&stranger.request("GET", "/approvals/ask-1", &from, ""))
    });
    note("a spent link", &stranger.get("/sign-in?link=0123456789abcdef"));
    note("an unknown token", &stranger.post("/sign-in/token", &[("secret", "nobodys-token")]));
    is_current("page-sign-in.txt", &text_of);
}

#[test]
fn the_pages_that_show_nothing() {
    let world = world();
    let (mut operator, mut alice) = (Visitor::signed_in(&world), alice(&world));
    world.group("developer").send(call("charge", json!({ "to": "alice", "amount": 3 })));
    let name = reference(&world);
    let own = operator.get(&format!("/approvals/{name}")).field("form");
    let form = [("form", own.as_str())];
    let mut text_of = String::new();
    let mut note = |title: &str, page: &Page| {
        // The frame is the same around all pages.
        let mut page = page.clone();
        if let Some((_, rest)) = page.text.split_once("<main") {
            page.text = format!("<main{}", rest.split("</main>").next().unwrap());
        }
        write!(text_of, "--- {title} ---\n{}\n", text(&world, &page)).unwrap();
    };
    for (path, title) in [
        ("/nowhere", "an unknown page"),
        ("/approvals/ask-999", "an unknown approval request"),
        ("/approvals/none", "no name of an approval request"),
        ("/hosts/b/approvals/ask-1", "an unknown host"),
        ("/activity/developer/none", "an unknown request"),
        ("/activity?status=nothing", "an unknown state"),
        ("/activity?nothing=1", "an unknown filter"),
        ("/access/nobody/demo", "access of an unknown group"),
        ("/access/security/demo/narrow", "no grant to narrow"),
        ("/flows?after=nothing", "no access to go on after"),
    ] {
        note(title, &operator.get(path));
    }
    note("a page for auditors", &alice.get("/activity"));
    note("an approval request of other people", &alice.get(&format!("/approvals/{name}")));
    note("an answer of the wrong person", &alice.post(&format!("/approvals/{name}/answer"), &form));
    let stale = [("form", "0"), ("digest", "0"), ("answer", "yes")];
    note("an answer from an old page", &operator.post(&format!("/approvals/{name}/answer"), &stale));
    let other = [("form", own.as_str()), ("digest", "0"), ("answer", "yes")];
    note("an answer to another content", &operator.post(&format!("/approvals/{name}/answer"), &other));
    note("no answer", &operator.post(&format!("/approvals/{name}/answer"), &form));
    note("a grant without a level", &operator.post("/access/grant", &form));
    let nobody = [("form", own.as_str()), ("group", "nobody"), ("provider", "demo"), ("level", "1")];
    note("a grant to an unknown group", &operator.post("/access/grant", &nobody));
    note("a revocation of nothing", &operator.post("/access/security/demo/revoke", &form));
    note("an unknown standing approval", &operator.post("/standing-approvals/standing-9/end", &form));
    note("an unknown access", &operator.post("/flows/accesses/default/nothing/revoke", &form));
    assert_eq!(operator.post("/evidence/verify", &form).status, 303);
    let again = || Some(operator.clone().post("/evidence/verify", &form)).filter(|page| page.status == 429);
    note("a verification too soon", &until("the end of the first", again));
    note("a sign-out from an old page", &operator.post("/sign-out", &[("form", "0")]));
    let foreign = operator.request("POST", "/access/grant", &[("Origin", "https://evil.example")], "form=0");
    note("a form of another site", &operator.say(&foreign));
    note("another host name", &operator.say(&operator.request("GET", "/", &[("Host", "evil.example")], "")));
    let long = "x".repeat(20_000);
    note("a long form", &operator.post("/access/grant", &[("form", &long)]));
    is_current("page-errors.txt", &text_of);
}
