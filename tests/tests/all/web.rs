//! The inbox: real pages of the real host, spoken to as a browser does, and as nobody should.

mod access;
mod admission;
mod audit;
mod browser;
mod evidence;
mod flows;
mod grants;
mod later;
mod live;
mod providers;
mod routes;
mod search;
mod telling;

use regex::Regex;
use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{Group, call, code, error};
use tests::visitor::{Visitor, reference};
use tests::{World, until};

const ASKS: &str = "write = \"rules\"\n[providers.demo]\nactions = { charge = \"human\", agree = \"human\" }\n";
const WEB: &str = "[web]\nlisten = \"127.0.0.1:0\"\n";
/// The digest of the token `alices-token`.
const ALICE: &str = "\n[people.alice]\nweb_token_sha256 = \"";

fn builder(more: &str) -> tests::world::Builder {
    let alice = String::from(config::web::TokenDigest::of("alices-token"));
    let config = format!("{}\n{WEB}{ALICE}{alice}\"\n{more}", tests::world::CONFIG);
    World::builder().config(&config).file("policy/profiles/developer.toml", ASKS)
}

fn world() -> World {
    let world = builder("").up();
    world.grant("developer", 2);
    world
}

/// Alice, signed in with her token.
fn alice(world: &World) -> Visitor {
    let mut alice = Visitor::of(world);
    assert_eq!(alice.post("/sign-in/token", &[("secret", "alices-token")]).status, 303);
    alice
}

/// The texts of the cells of the row of a table that holds this.
fn cells(page: &str, of: &str) -> Vec<String> {
    let row = page.split("</tr>").filter_map(|row| row.rsplit_once("<tr>")).map(|(_, row)| row);
    let row = row.into_iter().find(|row| row.contains(of)).unwrap_or_else(|| panic!("no row with {of}: {page}"));
    let (cell, tag) = (Regex::new(r"(?s)<t[hd][ >].*?</t[hd]>").unwrap(), Regex::new(r"<[^>]*>").unwrap());
    cell.find_iter(row).map(|cell| tag.replace_all(cell.as_str(), "").into_owned()).collect()
}

/// Checks that a page has nothing that its policy forbids, and that its tables and plots have names.
fn is_sound(page: &str) {
    for forbidden in [" style=", "<style", "<script>", "onclick", "onload", "javascript:", "http://", "https://"] {
        assert!(!page.contains(forbidden), "{forbidden}: {page}");
    }
    assert_eq!(page.matches("<script").count(), page.matches("<script src=\"/assets/").count(), "{page}");
    assert_eq!(page.matches("<table").count(), page.matches("<caption").count(), "{page}");
    assert_eq!(
        page.matches("<th").count(),
        page.matches("<th scope=").count() + page.matches("<thead").count(),
        "{page}"
    );
    assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\" aria-labelledby=").count(), "{page}");
    assert_eq!(page.matches("<h1").count(), 1, "{page}");
}

/// Sends a call that needs a person, and waits for the question; the request's id and the question's name.
fn ask(world: &World, params: Value) -> (Group, String, String) {
    let developer = world.group("developer");
    let id = developer.send(call("charge", params));
    (developer, id, reference(world))
}

#[test]
fn a_yes_from_the_page_runs_the_call_once() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    assert!(operator.get("/").text.contains("Nothing waits for you"));
    let (developer, id, name) = ask(&world, json!({ "to": "alice", "n": 3 }));
    let inbox = operator.get("/");
    for words in ["1 approval request waits for you", "demo.charge", "L2 (write)", &format!("/approvals/{name}")] {
        assert!(inbox.text.contains(words), "no `{words}` in {}", inbox.text);
    }
    let shown = operator.get(&format!("/approvals/{name}"));
    for words in ["&quot;alice&quot;", "min", "Approve", "Deny", "data-until"] {
        assert!(shown.text.contains(words), "no `{words}` in {}", shown.text);
    }
    let code_of = world.query("SELECT code FROM approvals")[0]["code"].as_str().unwrap().to_owned();
    // As at the command line, so that a person who reads a notice finds the request in both.
    let names = format!("<code>{code_of}</code> (<code>{name}</code>)");
    assert!(inbox.text.contains(&names), "{}", inbox.text);
    assert!(shown.text.contains(&format!("<code>{code_of}</code>")), "{}", shown.text);
    let done = operator.answer(&name, true, "");
    assert_eq!(done.status, 200);
    assert!(done.text.contains("You said yes") && done.text.contains("may run, once"), "{}", done.text);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge"), std::slice::from_ref(&id));
    assert_eq!(world.kinds_of(&developer, &id), ["asked", "intended", "succeeded"]);
    let yes = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    assert_eq!((yes.caller.as_str(), yes.approval.as_deref()), ("person:operator", Some(name.as_str())));
    assert!(yes.request_id.unwrap().starts_with("web-"));
    assert_eq!(world.query("SELECT channel FROM approval_answers"), [json!({ "channel": "web" })]);
    let over = operator.get("/").text;
    assert!(over.contains("approved, and started") && over.contains("Nothing waits for you"), "{over}");
    assert!(operator.get(&format!("/approvals/{name}")).text.contains("no longer stored"));
}

#[test]
fn a_no_from_the_page_is_told_with_its_reason_and_nothing_runs() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    let (developer, id, name) = ask(&world, json!({}));
    let done = operator.answer(&name, false, " not on a Friday \u{202e}<b>");
    assert!(done.text.contains("You denied it") && done.text.contains("will not run"), "{}", done.text);
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "approval_denied");
    assert!(error(&reply).contains("not on a Friday <U+202E><b>"), "{reply}");
    let shown = operator.get(&format!("/approvals/{name}")).text;
    assert!(shown.contains("not on a Friday &lt;U+202E&gt;&lt;b&gt;"), "{shown}");
    assert_eq!(world.effects_of("charge").len(), 0);
}

#[test]
fn a_second_and_a_late_answer_from_a_page_say_so_and_change_nothing() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    let (developer, id, name) = ask(&world, json!({ "n": 1 }));
    let shown = operator.get(&format!("/approvals/{name}"));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let send = |visitor: &mut Visitor, name: &str, digest: &str| {
        let fields = [("form", form.as_str()), ("digest", digest), ("answer", "yes")];
        visitor.post(&format!("/approvals/{name}/answer"), &fields)
    };
    assert_eq!(send(&mut operator, &name, &digest).status, 200);
    assert_eq!(code(&developer.reply(&id)), "executed");
    let again = send(&mut operator, &name, &digest);
    assert_eq!(again.status, 409);
    assert!(again.text.contains("It is too late") && again.text.contains("Nothing was changed"), "{}", again.text);
    let (developer, id, late) = ask(&world, json!({ "n": 2 }));
    let digest = operator.get(&format!("/approvals/{late}")).field("digest");
    world.clock.advance(Duration::from_secs(301));
    assert!(operator.get("/").text.contains("Nothing waits for you"));
    let done = send(&mut operator, &late, &digest);
    assert!(done.status == 409 && done.text.contains("It is too late"), "{}", done.text);
    assert_eq!(code(&developer.reply(&id)), "approval_expired");
    assert_eq!(world.effects_of("charge").len(), 1);
}

/// Attack (The inbox): Two answers arrive at once.
/// Defence: The row of the first decides.
#[test]
fn two_answers_at_once_are_one_effect() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let (developer, id, name) = ask(&world, json!({}));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let one = || {
            let (mut visitor, name) = (operator.clone(), name.clone());
            scope.spawn(move || visitor.answer(&name, true, "").status)
        };
        let threads = [one(), one(), one(), one()];
        threads.map(|thread| thread.join().unwrap_or(500)).to_vec()
    });
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge"), [id]);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
}

/// Attack (The inbox): A signed-in person without `approves` looks or answers.
/// Defence: This person sees only the number of requests. A crafted answer is refused, with a row.
#[test]
fn people_without_the_right_to_answer_see_only_how_many_requests_wait() {
    let world = world();
    let (developer, id, name) = ask(&world, json!({ "to": "a secret matter" }));
    let mut alice = Visitor::of(&world);
    assert_eq!(alice.post("/sign-in/token", &[("secret", "alices-token")]).status, 303);
    let inbox = alice.get("/").text;
    assert!(inbox.contains("1 approval request waits for other people") && !inbox.contains("demo.charge"), "{inbox}");
    for path in [format!("/approvals/{name}"), format!("/approvals/{name}/standing"), "/approvals/ask-99999".into()] {
        let page = alice.get(&path);
        assert!(page.status == 404 && !page.text.contains("secret matter"), "{path}: {}", page.text);
    }
    let form = alice.get("/").field("form");
    let fields = [("form", form.as_str()), ("digest", "0"), ("answer", "yes")];
    let refused = alice.post(&format!("/approvals/{name}/answer"), &fields);
    assert!(refused.status == 409 && refused.text.contains("alice may not answer this"), "{}", refused.text);
    let row = world.rows().into_iter().next_back().unwrap();
    assert_eq!((row.caller.as_str(), row.kind.as_str()), ("person:alice", "refused"));
    assert_eq!(developer.try_reply(&id), None);
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// Attack (The inbox): An answer goes to another approval than the one that was shown.
/// Defence: The form contains the digest of what was shown.
#[test]
fn an_answer_counts_only_for_the_card_that_was_shown() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    let (_, _, first) = ask(&world, json!({ "n": 1 }));
    let shown = operator.get(&format!("/approvals/{first}"));
    assert!(operator.answer(&first, false, "").text.contains("You denied it"));
    let (_, _, second) = ask(&world, json!({ "n": 2 }));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let fields = [("form", form.as_str()), ("digest", &digest), ("answer", "yes")];
    let crossed = operator.post(&format!("/approvals/{second}/answer"), &fields);
    assert!(crossed.status == 409 && crossed.text.contains("has changed since"), "{}", crossed.text);
    assert_eq!(world.query("SELECT state FROM approvals WHERE state = 'waiting'").len(), 1);
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// Attack (The inbox): An agent's text contains markup, script or direction marks.
/// Defence: The template escapes it. The card makes it visible, each value separately.
#[test]
fn text_of_an_agent_is_text_on_every_page() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let params = json!({
        "<script>alert(1)</script>": "</dd><script>alert(2)</script><img src=x onerror=alert(3)>",
        "body": "\u{202e}evil\u{2066}\u{200b} \n</main><form action='https://evil.example'>",
        "to": "Workspace: security\nAction: read",
    });
    let (_, _, name) = ask(&world, params);
    for path in ["/".to_owned(), format!("/approvals/{name}")] {
        let page = operator.get(&path).text;
        for raw in ["<script>", "<img", "evil.example'>", "\u{202e}", "\u{2066}", "\u{200b}"] {
            assert!(!page.contains(raw), "{path} holds {raw:?}: {page}");
        }
    }
    let page = operator.get(&format!("/approvals/{name}")).text;
    let marks = "<mark data-name=\"right-to-left override\">&lt;U+202E&gt;</mark>evil<mark data-name=\"left-to-right isolate\">";
    assert!(page.contains(marks), "{page}");
    assert!(page.contains("&lt;script&gt;alert(2)"), "{page}");
}

#[test]
fn a_page_that_watches_hears_of_every_change() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    let mut lines = operator.watch();
    assert_eq!(lines.next().as_deref(), Some("watching"));
    let (developer, id, name) = ask(&world, json!({}));
    assert_eq!(lines.next().as_deref(), Some("changed"));
    assert!(operator.get("/fragment").text.contains("demo.charge"));
    assert_eq!(operator.answer(&name, true, "").status, 200);
    assert_eq!(lines.next().as_deref(), Some("changed"));
    assert_eq!(code(&developer.reply(&id)), "executed");
    let standing = || operator.get(&format!("/approvals/{name}/standing")).text;
    until("the end", || standing().contains("approved, and started").then_some(()));
    // A visitor who has left hears no more.
    let form = operator.get("/").field("form");
    let left = operator.clone().post("/sign-out", &[("form", &form)]);
    assert_eq!(left.status, 303);
    ask(&world, json!({ "n": 2 }));
    assert_eq!(lines.find(|line| line != "changed").as_deref(), Some("signed out"));
    assert_eq!(lines.next(), None);
    assert_eq!(operator.get("/events").status, 401);
}

#[test]
fn the_largest_card_and_the_largest_diff_are_shown_whole() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    let (_, _, long) = ask(&world, json!({ "body": "x".repeat(500 * 1024) }));
    let shown = operator.get(&format!("/approvals/{long}"));
    assert_eq!(shown.status, 200);
    assert!(shown.text.contains(&"x".repeat(500 * 1024)));
    assert!(operator.get("/").text.len() < 20_000, "the inbox does not hold what only the question shows");
    operator.answer(&long, false, "");
    let (_, _, many) = ask(&world, json!({ "n": vec![1; 19_000] }));
    let shown = operator.get(&format!("/approvals/{many}")).text;
    assert_eq!(shown.matches("<dt><bdi dir=\"ltr\">n[").count(), 19_000);
    operator.answer(&many, false, "");
}

#[test]
fn a_quorum_is_shown_as_it_grows() {
    let more = "approves = {}\n\n[approvals.actions.demo.charge]\nquorum = 2\n";
    let world = builder(more).up();
    world.grant("developer", 2);
    let (developer, id, name) = ask(&world, json!({}));
    let mut operator = Visitor::signed_in(&world);
    let mut alice = Visitor::of(&world);
    alice.post("/sign-in/token", &[("secret", "alices-token"), ("next", &format!("/approvals/{name}"))]);
    assert!(operator.answer(&name, true, "").text.contains("1 of 2"));
    let page = alice.get(&format!("/approvals/{name}")).text;
    assert!(page.contains("operator</bdi> said") && page.contains("1 of 2"), "{page}");
    assert!(operator.answer(&name, true, "").text.contains("has answered this approval request before"));
    assert_eq!(world.effects_of("charge").len(), 0);
    assert_eq!(alice.answer(&name, true, "").status, 200);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge").len(), 1);
}

#[test]
fn a_change_to_files_is_seen_whole_on_its_page_and_made_from_there() {
    let world = builder("[providers.files]\nkind = \"files\"\n").up();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    let file = world.path("workspaces/developer/notes.md");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let developer = world.group("developer");
    let mut document = json!({ "type": "ext_call", "provider": "files", "action": "write_file" });
    document["params"] = json!({ "path": "notes.md", "content": "one\n<b>zwei</b>\u{202e}\n" });
    assert_eq!(developer.ask(document)["data"]["status"], "hitl_required");
    let mut operator = Visitor::signed_in(&world);
    let name = reference(&world);
    let shown = operator.get(&format!("/approvals/{name}"));
    for words in [
        "MODIFY notes.md",
        "Changes",
        "&lt;b&gt;zwei&lt;/b&gt;<mark data-name=\"right-to-left override\">&lt;U+202E&gt;",
        "make it now",
        "two",
    ] {
        assert!(shown.text.contains(words), "no `{words}` in {}", shown.text);
    }
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let fields = [("form", form.as_str()), ("digest", digest.as_str()), ("answer", "apply")];
    let done = operator.post(&format!("/approvals/{name}/answer"), &fields);
    assert!(done.status == 200 && done.text.contains("may be applied"), "{}", done.text);
    until("the change", || std::fs::read_to_string(&file).ok()?.contains("zwei").then_some(()));
}

#[test]
fn access_above_the_ceiling_is_given_from_its_page() {
    let world = builder("").up();
    let main = world.group("main");
    let mut document = json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo" });
    document["access_level"] = json!(2);
    let id = main.send(document);
    let mut operator = Visitor::signed_in(&world);
    let name = reference(&world);
    let shown = operator.get(&format!("/approvals/{name}"));
    for words in ["give access", "access_level", ">Before<", ">After<", "&quot;charge&quot;"] {
        assert!(shown.text.contains(words), "no `{words}` in {}", shown.text);
    }
    assert!(!shown.text.contains("make it now"));
    assert_eq!(operator.answer(&name, true, "").status, 200);
    assert_eq!(code(&main.reply(&id)), "executed");
}
