//! The pages for a person: differences between requests, hidden text, changes, and results of an answer.

use super::{ask, builder, world};
use serde_json::{Value, json};
use tests::group::{Group, call, code};
use tests::visitor::{Visitor, reference};
use tests::{World, until};

const FILES: &str = "[providers.files]\nkind = \"files\"\n";

/// A world in which developers propose changes to files.
fn with_files() -> World {
    let world = builder(FILES).up();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    world
}

/// Proposes this content of `notes.md`, and gives the question's name.
fn propose(world: &World, content: &str) -> String {
    let mut document = json!({ "type": "ext_call", "provider": "files", "action": "write_file" });
    document["params"] = json!({ "path": "notes.md", "content": content });
    let reply = world.group("developer").ask(document);
    assert_eq!(reply["data"]["status"], "hitl_required", "{reply}");
    reference(world)
}

/// Says yes to changes of files, and wants them now.
fn apply(visitor: &mut Visitor, name: &str) -> String {
    let shown = visitor.get(&format!("/approvals/{name}"));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let fields = [("form", form.as_str()), ("digest", digest.as_str()), ("answer", "apply")];
    let done = visitor.post(&format!("/approvals/{name}/answer"), &fields);
    assert_eq!(done.status, 200, "{}", done.text);
    done.text
}

/// The page's part between two texts.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("no {from} in {page}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to} in {rest}")).0
}

#[test]
fn the_list_shows_what_tells_one_question_from_another() {
    let world = with_files();
    world.grant("developer", 2);
    let operator = Visitor::signed_in(&world);
    let developer = world.group("developer");
    let long = "x".repeat(5_000);
    for to in ["alice", "bob"] {
        send_one_more(&world, &developer, call("charge", json!({ "aaa": long, "to": to, "n": 7 })));
    }
    std::fs::write(world.path("workspaces/developer/notes.md"), "one\ntwo\n").unwrap();
    world.group("developer");
    let mut document = json!({ "type": "ext_call", "provider": "files", "action": "write_file" });
    document["params"] = json!({ "path": "notes.md", "content": "one\nzwei\ndrei\n" });
    assert_eq!(developer.ask(document)["data"]["status"], "hitl_required");
    world.clock.advance(std::time::Duration::from_secs(61));
    let page = operator.get("/").text;
    let approval_requests: Vec<&str> = page.split("<article").skip(1).collect();
    assert_eq!(approval_requests.len(), 3, "{page}");
    for (approval_request, to) in approval_requests.iter().zip(["alice", "bob"]) {
        for words in [&format!("&quot;{to}&quot;"), ">7<", ">developer<", "asked ", "1 min 1 s ago", "L2 (write)"] {
            assert!(approval_request.contains(words), "no `{words}` in {approval_request}");
        }
        assert!(!approval_request.contains(&long) && approval_request.contains("xxx…"), "{approval_request}");
        // The short values stand before the long one.
        assert!(approval_request.find(">to<") < approval_request.find(">aaa<"), "{approval_request}");
    }
    for words in ["+2 -1", "MODIFY notes.md", ">developer<"] {
        assert!(approval_requests[2].contains(words), "no `{words}` in {}", approval_requests[2]);
    }
    assert!(!page.contains("hitl-"), "an id tells a person nothing: {page}");
}

#[test]
fn a_question_about_production_is_marked_in_words_and_in_form() {
    let world = builder("").up();
    let main = world.group("main");
    let grant = |level: u8, group: &str| {
        let mut document = json!({ "type": "ext_grant", "group_folder": group, "provider": "demo" });
        document["access_level"] = json!(level);
        main.send(document)
    };
    let operator = Visitor::signed_in(&world);
    grant(2, "developer");
    let write = reference(&world);
    let page = operator.get("/").text + &operator.get(&format!("/approvals/{write}")).text;
    assert!(!page.contains("class=\"stakes\"") && !page.contains("production or money"), "{page}");
    grant(3, "security");
    until("both", || (world.query("SELECT id FROM approvals WHERE state = 'waiting'").len() == 2).then_some(()));
    let list = operator.get("/").text;
    let grave = list.split("<article").nth(2).unwrap();
    let name = between(grave, "/approvals/", "\"");
    for page in [grave, &operator.get(&format!("/approvals/{name}")).text] {
        for words in ["<p class=\"stakes\"><strong>L3</strong> · production or money", " grave\""] {
            assert!(page.contains(words), "no `{words}` in {page}");
        }
    }
}

/// Attack (Cards): Values, names or files on a card contain invisible characters.
/// Defence: Each has its name beside it. A warning above the card counts them.
#[test]
fn hidden_characters_are_named_where_they_stand_and_counted_above_the_card() {
    let world = with_files();
    world.grant("developer", 2);
    let mut operator = Visitor::signed_in(&world);
    let hidden = "a\u{202e}b\u{200b}c\u{e0041}d\u{1b}e\u{a0}f p\u{430}ypal";
    let (_, _, name) = ask(&world, json!({ "to": hidden, "emoji": "\u{1f600}" }));
    let page = operator.get(&format!("/approvals/{name}")).text;
    let warning = between(&page, "<section class=\"warning\"", "</section>");
    assert!(warning.contains("6 hidden or misleading characters"), "{warning}");
    for words in ["changes of direction: 1", "without width: 1", "tags or selectors: 1", "look-alike letters: 1"] {
        assert!(warning.contains(words), "no `{words}` in {warning}");
    }
    assert!(page.find("class=\"warning\"") < page.find("aria-label=\"Who asks\""), "above the card");
    for named in ["right-to-left override", "zero width space", "tag A", "escape", "no-break space"] {
        assert!(page.contains(&format!("<mark data-name=\"{named}\">")), "no {named} in {page}");
    }
    operator.answer(&name, false, "");
    let name = propose(&world, "x\u{202e}y\u{2069}\n");
    let page = operator.get(&format!("/approvals/{name}")).text;
    assert!(page.contains("2 hidden or misleading characters"), "{page}");
    assert!(page.contains("<ins data-n=\"1\">x<mark data-name=\"right-to-left override\">"), "{page}");
    operator.answer(&name, false, "");
    let (_, _, plain) = ask(&world, json!({ "to": "Müller <b@example.com>\n\tПривет" }));
    assert!(!operator.get(&format!("/approvals/{plain}")).text.contains("class=\"warning\""));
}

#[test]
fn names_and_hashes_are_folded_below_the_diff_and_nothing_that_runs_is() {
    let world = with_files();
    let operator = Visitor::signed_in(&world);
    std::fs::write(world.path("workspaces/developer/notes.md"), "one\n").unwrap();
    let name = propose(&world, "two\n");
    let page = operator.get(&format!("/approvals/{name}")).text;
    let (above, folded) = page.split_once("<details").unwrap();
    assert!(above.contains("class=\"diff\""), "{above}");
    for id in [">hitl-", "sha256:"] {
        assert!(folded.contains(id) && !above.contains(id), "{id}: {page}");
    }
    assert!(!above.contains(&format!(">{name}<")) && folded.contains(&format!(">{name}<")), "{page}");
    let hash = "ab".repeat(32);
    world.grant("developer", 2);
    let developer = world.group("developer");
    developer.send(call("charge", json!({ "sha": hash })));
    until("both", || (world.query("SELECT id FROM approvals WHERE state = 'waiting'").len() == 2).then_some(()));
    let list = operator.get("/").text;
    let second = between(list.split("<article").nth(2).unwrap(), "/approvals/", "\"");
    let page = operator.get(&format!("/approvals/{second}")).text;
    assert!(page.split_once("<details").unwrap().0.contains(&hash), "a value that is sent stays in sight: {page}");
}

#[test]
fn times_are_in_one_zone_that_is_said_once_with_their_age_beside() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let (_, _, name) = ask(&world, json!({}));
    world.clock.advance(std::time::Duration::from_secs(65));
    for path in ["/".to_owned(), format!("/approvals/{name}")] {
        let page = operator.get(&path).text;
        assert_eq!(page.matches("UTC").count(), 1, "{path}: {page}");
        assert!(page.contains("All times are UTC.") && page.contains("1 min 5 s ago"), "{path}: {page}");
    }
    let script = operator.get("/").text;
    let script = operator.get(&format!("/assets/inbox-{}", between(&script, "src=\"/assets/inbox-", "\""))).text;
    assert!(!script.contains("toLocale"), "the script puts no other zone beside it");
}

#[test]
fn the_trifecta_is_shown_as_three_lists() {
    let more = "\n[providers.diary]\nkind = \"mock\"\nscript = \"diary.toml\"\n";
    let script = "[actions.read]\nlevel = 1\nexposes = [\"sensitive\"]\n\n[actions.mail]\nlevel = 1\nexposes = [\"untrusted\"]\n";
    let world = builder(more).file("diary.toml", script).up();
    world.grant("developer", 2);
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "diary", "access_level": 1 });
    assert_eq!(code(&world.command(grant)), "executed");
    let developer = world.group("developer");
    for action in ["read", "mail"] {
        let document = json!({ "type": "ext_call", "provider": "diary", "action": action, "params": {} });
        assert_eq!(code(&developer.ask(document)), "executed");
    }
    let (_, _, name) = ask(&world, json!({}));
    let operator = Visitor::signed_in(&world);
    let page = operator.get(&format!("/approvals/{name}")).text;
    let lists = between(&page, "<div class=\"together\">", "</div>");
    let lists: Vec<&str> = lists.split("<section>").skip(1).collect();
    let expected =
        [("Private data", "diary.read"), ("Untrusted content", "diary.mail"), ("Egress channels", "this call")];
    assert_eq!(lists.len(), expected.len(), "{page}");
    for (list, (name, call)) in lists.iter().zip(expected) {
        assert!(list.contains(&format!("<h3>{name}</h3>")) && list.contains(call), "{name}: {list}");
        assert_eq!(list.matches("<li>").count(), 1, "{list}");
    }
    assert!(!page.contains("an egress channel ("), "in place of the sentence: {page}");
}

#[test]
fn a_grant_is_shown_before_and_after() {
    let world = builder("").up();
    world.grant("developer", 1);
    let main = world.group("main");
    let mut document = json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo" });
    document["access_level"] = json!(2);
    main.send(document);
    let operator = Visitor::signed_in(&world);
    let name = reference(&world);
    let page = operator.get(&format!("/approvals/{name}")).text;
    let row = between(&page, "access_level</bdi></th>", "</tr>");
    assert_eq!(row, "<td><bdi dir=\"ltr\">1</bdi></td><td><bdi dir=\"ltr\">2</bdi></td>");
    let actions = between(&page, "actions</bdi></th>", "</tr>");
    let (before, after) = actions.split_once("</td>").unwrap();
    assert!(!before.contains("charge") && after.contains("charge") && before.contains("echo"), "{actions}");
    assert!(page.contains("<th scope=\"col\">Before</th><th scope=\"col\">After</th>"), "{page}");
}

fn send_two(world: &World, developer: &Group) -> [String; 2] {
    [1, 2].map(|n| send_one_more(world, developer, call("charge", json!({ "n": n }))))
}

/// Sends a call, and waits for its question: a directory has no order, so two that are sent at once come in any.
fn send_one_more(world: &World, developer: &Group, document: Value) -> String {
    let waiting = || world.query("SELECT id FROM approvals WHERE state = 'waiting'").len();
    let before = waiting();
    let id = developer.send(document);
    until("one question more", || (waiting() > before).then_some(()));
    id
}

#[test]
fn after_an_answer_the_page_says_what_came_of_it_and_what_is_next() {
    let world = world();
    let developer = world.group("developer");
    let ids = send_two(&world, &developer);
    let mut operator = Visitor::signed_in(&world);
    let asked = world.query("SELECT asked_seq FROM approvals ORDER BY id");
    let names: Vec<String> = asked.iter().map(|row| format!("ask-{}", row["asked_seq"])).collect();
    let done = operator.answer(&names[0], true, "").text;
    for words in [
        "approved",
        "Outcome: it was done (<bdi dir=\"ltr\">charge answered</bdi>).",
        "1 approval request waits for you.",
    ] {
        assert!(done.contains(words), "no `{words}` in {done}");
    }
    assert!(done.contains(&format!("id=\"next\" href=\"/approvals/{}\"", names[1])), "{done}");
    assert_eq!(world.effects_of("charge"), std::slice::from_ref(&ids[0]));
    let done = operator.answer(&names[1], false, "").text;
    for words in ["denied", "will not run", "Nothing else waits for you."] {
        assert!(done.contains(words), "no `{words}` in {done}");
    }
    assert!(!done.contains("Outcome: ") && !done.contains("id=\"next\""), "{done}");
    let list = operator.get("/").text;
    assert!(list.contains("approved, and started</span>: it was done"), "{list}");
}

#[test]
fn a_call_that_fails_after_its_yes_says_so_on_the_page() {
    let script =
        format!("{}\n[actions.fails]\nlevel = 2\nhuman = true\nfail = \"no\"\nexposes = []\n", tests::world::SCRIPT);
    let world = builder("").script("demo", &script).up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let id = developer.send(call("fails", json!({})));
    let name = reference(&world);
    let mut operator = Visitor::signed_in(&world);
    let done = operator.answer(&name, true, "").text;
    assert!(done.contains("Outcome: it was not done:"), "{done}");
    let reply: Value = developer.reply(&id);
    assert_eq!(reply["status"], "failed", "{reply}");
}

#[test]
fn after_approve_and_make_it_now_the_page_says_whether_the_change_was_made() {
    let world = with_files();
    let mut operator = Visitor::signed_in(&world);
    let file = world.path("workspaces/developer/notes.md");
    std::fs::write(&file, "one\n").unwrap();
    let name = propose(&world, "two\n");
    let done = apply(&mut operator, &name);
    assert!(done.contains("Outcome: it was done"), "{done}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    let name = propose(&world, "three\n");
    std::fs::write(&file, "changed meanwhile\n").unwrap();
    let done = apply(&mut operator, &name);
    assert!(done.contains("Outcome: it was not done:"), "{done}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed meanwhile\n");
    assert!(operator.get(&format!("/approvals/{name}")).text.contains("it was not done:"));
}
