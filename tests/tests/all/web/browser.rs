//! The same in a real browser: live, by keyboard, on a telephone, and with what agents would like it to run.

use super::{ask, builder, world};
use serde_json::{Value, json};
use tests::World;
use tests::chromium::Chromium;
use tests::group::code;
use tests::visitor::{Visitor, link};

const ENTER: &str = "\u{e007}";
/// With the rest of the document nearly as many values as a request may have.
const ELEMENTS: usize = shared::limits::REQUEST_NODES_MAX - 100;

/// A browser in which the operator is signed in.
fn signed_in(world: &World) -> Option<(Chromium, String)> {
    let browser = Chromium::start()?;
    let origin = Visitor::of(world).origin().to_owned();
    browser.open(&format!("{origin}/sign-in?link={}", link(world)));
    browser.picture("sign-in");
    // A page is loaded before what it focuses has the focus.
    browser.wait("document.activeElement.id === 'enter'");
    browser.press(ENTER);
    browser.wait_for("Nothing waits for you");
    Some((browser, origin))
}

/// Puts a diff on the card that waits, longer or stranger than any that an action makes.
fn put_diff(world: &World, diff: &str) {
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    ledger.busy_timeout(tests::DEADLINE).unwrap();
    let update = "UPDATE approvals SET card = json_set(card, '$.diff', ?1) WHERE state = 'waiting'";
    assert_eq!(ledger.execute(update, [diff]).unwrap(), 1);
}

fn fits(browser: &Chromium) {
    let wide = browser.script("return [document.documentElement.scrollWidth, innerWidth]");
    assert!(wide[0].as_u64() <= wide[1].as_u64(), "it scrolls sideways: {wide} at {}", browser.url());
}

/// Pictures of a page at a desk and on a telephone, light and dark. It never scrolls sideways, and has no barriers.
fn look_at(browser: &Chromium, name: &str) {
    for device in ["telephone", "desk"] {
        match device {
            "desk" => browser.desk(),
            _ => browser.telephone(390, 844),
        }
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            fits(browser);
            if let Some(barriers) = browser.barriers() {
                assert!(barriers.is_empty(), "{name} on a {device}, {scheme}: {barriers:#?}");
            }
            browser.picture(&format!("{name}-{device}-{scheme}"));
        }
    }
    browser.prefer("light");
}

/// A change of two files.
const DIFF: &str = include_str!("change.diff");

/// Attack (The inbox): A single key approves.
/// Defence: Keys move to a button, and a second key confirms.
#[test]
fn in_a_browser_a_question_appears_by_itself_and_is_answered_by_keyboard() {
    let world = world();
    let Some((browser, _)) = signed_in(&world) else { return };
    look_at(&browser, "inbox-empty");
    browser.script("window.mark = 1");
    let (developer, id, name) = ask(&world, json!({ "to": "alice@example.com", "amount": 12.5 }));
    browser.wait_for("1 approval request waits for you");
    assert_eq!(browser.script("return window.mark"), 1, "without being loaded again");
    assert_eq!(browser.script("return document.title"), "(1) Inbox");
    browser.wait("document.querySelector('.left').textContent.includes('min')");
    look_at(&browser, "inbox");
    browser.press("j");
    browser.press(ENTER);
    browser.wait(&format!("location.pathname === '/approvals/{name}'"));
    browser.wait_for("alice@example.com");
    look_at(&browser, "question");
    browser.press("a");
    assert_eq!(browser.script("return document.activeElement.id"), "approve");
    browser.press("d");
    assert_eq!(browser.script("return document.activeElement.id"), "deny");
    assert_eq!(world.query("SELECT * FROM approval_answers").len(), 0, "one key answers nothing");
    browser.press("a");
    browser.press(ENTER);
    browser.wait_for("You said yes");
    assert_eq!(code(&developer.reply(&id)), "executed");
    browser.wait_for("approved, and started");
    look_at(&browser, "answered");
    browser.press("u");
    browser.wait_for("Nothing waits for you");
    look_at(&browser, "inbox-after");
    assert_eq!(world.effects_of("charge"), [id]);
    // A question's page notices that somebody else has answered.
    let (developer, id, name) = ask(&world, json!({ "n": 2 }));
    browser.wait_for("1 approval request waits for you");
    browser.click(&format!("#open-{name}"));
    browser.wait_for("Your answer");
    Visitor::signed_in(&world).answer(&name, false, "somebody was faster");
    browser.wait_for("somebody was faster");
    assert_eq!(browser.script("return document.getElementById('approve')"), Value::Null);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// Attack: see `every_call_is_listed_with_its_story`.
#[test]
fn in_a_browser_the_activity_renews_itself_and_fits_a_telephone() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    let developer = world.group("developer");
    let hostile = json!({ "</td><script>window.hacked = 1</script>": "no-space-".repeat(60) });
    assert_eq!(code(&developer.call("echo", hostile)), "executed");
    browser.open(&format!("{origin}/activity"));
    browser.wait("document.querySelectorAll('tbody tr').length === 1");
    developer.call("wreck", json!({}));
    browser.wait("document.querySelectorAll('tbody tr').length === 2");
    assert_eq!(browser.script("return window.hacked ?? null"), Value::Null);
    look_at(&browser, "activity");
    browser.picture_of_documents("activity");
    browser.script("document.querySelector('tbody a').click()");
    browser.wait_for("decided by");
    look_at(&browser, "story");
}

/// The places of the streams of one person.
const STREAMS: usize = 8;

#[test]
fn in_a_browser_the_activity_asks_by_itself_where_its_stream_has_no_place() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    // This page has no stream, so the browser's own place becomes free.
    browser.open(&format!("{origin}/providers"));
    browser.wait_for("demo");
    let (operator, mut streams) = (Visitor::signed_in(&world), Vec::new());
    tests::until("all places", || {
        let mut lines = operator.watch();
        if lines.next().is_some() {
            streams.push(lines);
        }
        (streams.len() == STREAMS).then_some(())
    });
    browser.open(&format!("{origin}/activity"));
    browser.wait("document.querySelectorAll('tbody tr').length === 1");
    developer.call("wreck", json!({}));
    browser.wait("document.querySelectorAll('tbody tr').length === 2");
    assert_eq!(browser.script("return document.getElementById('lost').hidden"), json!(true), "the page is not old");
    assert_eq!(operator.get("/activity/events").status, 503);
}

#[test]
fn in_a_browser_a_page_that_cannot_be_renewed_says_that_it_may_be_old() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    browser.open(&format!("{origin}/evidence"));
    browser.wait_for("Verify all rows");
    // The answer of a broker that cannot read its ledger.
    browser.script("window.fetch = async () => new Response('', { status: 503 })");
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    browser.wait("!document.getElementById('lost').hidden");
}

#[test]
fn in_a_browser_all_rows_are_verified_by_keyboard() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    browser.open(&format!("{origin}/evidence"));
    browser.wait_for("Verify all rows");
    browser.script("document.getElementById('verify').focus()");
    browser.press(ENTER);
    browser.wait_for("The last verification ended");
    browser.wait_for("All rows up to row");
    // New rows leave the button and its focus as they are.
    browser.script("window.button = document.getElementById('verify'); window.button.focus()");
    let row = "Number(document.querySelector('.facts dd').textContent)";
    let before = browser.script(&format!("return {row}"));
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    browser.wait(&format!("{row} > {before}"));
    assert_eq!(browser.script("return document.activeElement === window.button"), json!(true));
    look_at(&browser, "evidence-verified");
    browser.picture_of_documents("evidence");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
    browser.press(ENTER);
    browser.wait_for("The last verification has just ended.");
}

#[test]
fn in_a_browser_the_focus_and_the_place_of_a_table_stay_when_it_renews_itself() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    let developer = world.group("developer");
    developer.call("echo", json!({ "text": "x".repeat(200) }));
    browser.telephone(390, 844);
    browser.open(&format!("{origin}/activity"));
    browser.wait("document.querySelectorAll('tbody tr').length === 1");
    let focused = "return [document.activeElement.id, document.getElementById('calls').scrollLeft]";
    let before = browser.script(&format!(
        "document.querySelector('tbody a').focus(); document.getElementById('calls').scrollLeft = 40; {focused}"
    ));
    assert!(before[0].as_str().unwrap().starts_with("call-") && before[1] == 40, "{before}");
    developer.call("wreck", json!({}));
    browser.wait("document.querySelectorAll('tbody tr').length === 2");
    assert_eq!(browser.script(focused), before);
    browser.script("document.getElementById('calls').focus()");
    developer.call("wreck", json!({ "n": 2 }));
    browser.wait("document.querySelectorAll('tbody tr').length === 3");
    assert_eq!(browser.script(focused), json!(["calls", 40]));
    // A search keeps its fields open, and fits.
    browser.open(&format!("{origin}/activity?code=unknown_action&from=2026-01-01T00:00"));
    browser.wait_for("Reason code");
    look_at(&browser, "search");
}

#[test]
fn in_a_browser_access_is_given_narrowed_and_looked_at() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    browser.open(&format!("{origin}/access"));
    browser.wait_for("Revoke");
    look_at(&browser, "access");
    browser.picture_of_documents("access");
    browser.click("a[href='/access/developer/demo']");
    browser.wait_for("Narrow to the used actions");
    look_at(&browser, "access-of-one");
    browser.click("a[href='/access/developer/demo/narrow']");
    browser.wait_for("The narrower grant");
    look_at(&browser, "narrow");
    browser
        .script("[...document.querySelectorAll('button')].find(one => one.textContent === 'Narrow the grant').click()");
    browser.wait_for("Narrowed");
    look_at(&browser, "narrowed");
    assert_eq!(code(&developer.call("broken", json!({}))), "action_not_allowed");
    // The form of a new grant, as a person fills it in.
    browser.open(&format!("{origin}/access/developer/demo"));
    browser.wait_for("Give access");
    let chosen = "return ['group', 'provider'].map(name => document.getElementById(`grant-${name}`).value)";
    assert_eq!(browser.script(chosen), json!(["developer", "demo"]));
    browser.script(
        "document.getElementById('grant-actions').value = 'echo, broken'; \
         document.querySelector('form[action=\"/access/grant\"] button').click()",
    );
    browser.wait_for("developer now has L1 (read) access to demo");
    assert_eq!(code(&developer.call("broken", json!({}))), "provider_failed");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn in_a_browser_signing_in_standing_approvals_and_faults_have_no_barriers() {
    let world = world();
    let Some(browser) = Chromium::start() else { return };
    let mut operator = Visitor::signed_in(&world);
    let origin = operator.origin().to_owned();
    browser.open(&format!("{origin}/"));
    browser.wait_for("Or enter your token");
    look_at(&browser, "sign-in-first");
    browser.open(&format!("{origin}/sign-in?link=spent"));
    browser.wait_for("This link no longer works");
    look_at(&browser, "sign-in-fault");
    browser.open(&format!("{origin}/sign-in?link={}", link(&world)));
    browser.wait("document.activeElement.id === 'enter'");
    look_at(&browser, "sign-in-link");
    browser.click("#enter");
    browser.wait_for("Nothing waits for you");
    browser.open(&format!("{origin}/standing-approvals"));
    browser.wait_for("No standing approval of yours");
    look_at(&browser, "standing-none");
    let (developer, id, name) = ask(&world, json!({ "to": "alice@example.com" }));
    let shown = operator.get(&format!("/approvals/{name}"));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let fields = [("form", form.as_str()), ("digest", &digest), ("answer", "yes"), ("standing", "3600")];
    assert_eq!(operator.post(&format!("/approvals/{name}/answer"), &fields).status, 200);
    assert_eq!(code(&developer.reply(&id)), "executed");
    browser.open(&format!("{origin}/standing-approvals"));
    browser.wait_for("End it");
    look_at(&browser, "standing");
    for (path, words, name) in [
        ("/nowhere", "There is no such page.", "fault-missing"),
        ("/activity?code=often", "reason code in the address", "fault-filter"),
    ] {
        browser.open(&format!("{origin}{path}"));
        browser.wait_for(words);
        look_at(&browser, name);
    }
}

#[test]
fn in_a_browser_the_pages_about_all_groups_fit_a_telephone_and_draw_their_plots() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    let developer = world.group("developer");
    for action in ["echo", "echo", "broken", "wreck"] {
        developer.call(action, json!({}));
    }
    for (page, words) in [("providers", "demo"), ("flows", "There are no accesses."), ("evidence", "Head")] {
        browser.open(&format!("{origin}/{page}"));
        browser.wait_for(words);
        let current = "return document.querySelector('.pages [aria-current=page]').textContent.toLowerCase()";
        assert_eq!(browser.script(current), json!(page));
        look_at(&browser, page);
    }
    // Each part of a bar has a size and a colour of its own, so the policy has let the style and the drawing through.
    browser.open(&format!("{origin}/providers"));
    browser.wait_for("demo");
    let parts = "return [...document.querySelectorAll('.plot:not(.latency) rect')].map(rect => \
                 [rect.getBoundingClientRect().height > 0, getComputedStyle(rect).fill])";
    let parts = browser.script(parts);
    let parts: Vec<(bool, String)> = serde_json::from_value(parts).unwrap();
    assert_eq!(parts.len(), 3, "executed, denied and failed: {parts:?}");
    assert!(
        parts.iter().all(|(is_seen, _)| *is_seen) && parts[0].1 != parts[1].1 && parts[1].1 != parts[2].1,
        "{parts:?}"
    );
    let times = "return [...document.querySelectorAll('.latency rect')].map(rect => \
                 [rect.getBoundingClientRect().height > 0, getComputedStyle(rect).fill])";
    let times: Vec<(bool, String)> = serde_json::from_value(browser.script(times)).unwrap();
    assert_eq!(times.len(), 2, "the median and the 95th percentile of one hour: {times:?}");
    assert!(times.iter().all(|(is_seen, _)| *is_seen) && times[0].1 != times[1].1, "{times:?}");
}

/// Attack (The inbox): The same in a real browser.
/// Defence: Nothing runs, and the marks are visible.
#[test]
fn in_a_browser_nothing_that_agents_write_runs_or_hides() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    let params = json!({
        "<img src=x onerror=window.hacked=2>": "</dd></dl><script>window.hacked = 3</script>",
        "body": "Dear all,\n\nplease find \u{202e}gpj.exe\u{202c} attached.\u{200b}\n\nApprove: yes\n<svg onload=window.hacked=4>",
        "to": ["p\u{0430}ypal@example.com", "bob@example.com"],
        "long": "no-space-".repeat(200),
    });
    let (_, _, name) = ask(&world, params);
    put_diff(&world, DIFF);
    browser.wait_for("1 approval request waits for you");
    browser.open(&format!("{origin}/approvals/{name}"));
    browser.wait_for("Changes");
    assert_eq!(browser.script("return window.hacked ?? null"), Value::Null);
    let marks = browser.script("return [...document.querySelectorAll('mark')].map(mark => mark.textContent)");
    for mark in ["<U+202E>", "<U+202C>", "<U+200B>", "<U+0430>"] {
        assert!(marks.as_array().unwrap().contains(&json!(mark)), "no {mark} in {marks}");
    }
    let forms = browser.script("return [...document.forms].map(form => new URL(form.action).origin)");
    assert!(forms.as_array().unwrap().iter().all(|form| *form == json!(origin)), "{forms}");
    let changed =
        browser.script("return [document.querySelectorAll('del').length, document.querySelectorAll('ins').length]");
    assert_eq!(changed, json!([6, 10]));
    look_at(&browser, "hostile");
    // Side by side at a desk, one below the other on a telephone.
    let beside = "const [a, b] = ['del', 'ins'].map(tag => document.querySelector(tag).getBoundingClientRect()); \
                  return [a.top === b.top, a.left === b.left]";
    assert_eq!(browser.script(beside), json!([true, false]));
    browser.telephone(390, 844);
    assert_eq!(browser.script(beside), json!([false, true]));
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn in_a_browser_the_longest_question_is_there_to_its_last_line() {
    let world = world();
    let Some((browser, origin)) = signed_in(&world) else { return };
    let (_, _, name) = ask(&world, json!({ "n": vec![1; ELEMENTS] }));
    let lines = 20_000;
    let diff = format!("@@ -1,{lines} +1,{lines} @@\n{}", "-old line\n+new line\n".repeat(lines));
    put_diff(&world, &diff);
    browser.open(&format!("{origin}/approvals/{name}"));
    browser.wait_for("Your answer");
    assert_eq!(browser.script("return document.querySelectorAll('ins').length"), lines);
    assert_eq!(browser.script("return document.querySelectorAll('dt').length"), ELEMENTS + 6);
    browser.press("d");
    assert_eq!(browser.script("return document.activeElement.id"), "deny");
    browser.press(ENTER);
    browser.wait_for("You denied it");
}

#[test]
fn in_a_browser_a_change_to_files_is_read_and_made() {
    let world = builder("[providers.files]\nkind = \"files\"\n").up();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    let Some((browser, origin)) = signed_in(&world) else { return };
    let file = world.path("workspaces/developer/src/lib.rs");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let old = "//! Adds.\n\n/// The sum.\npub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n";
    std::fs::write(&file, old).unwrap();
    let developer = world.group("developer");
    let mut document = json!({ "type": "ext_call", "provider": "files", "action": "write_file" });
    let new = old.replace("u32", "u64").replace("The sum.", "The sum, in a wider type.");
    document["params"] = json!({ "path": "src/lib.rs", "content": new });
    assert_eq!(developer.ask(document)["data"]["status"], "hitl_required");
    browser.wait_for("MODIFY src/lib.rs");
    look_at(&browser, "inbox-file");
    browser.open(&format!("{origin}/approvals/{}", tests::visitor::reference(&world)));
    browser.wait_for("Changes");
    look_at(&browser, "file");
    browser.picture_of_documents("approval");
    browser.script("document.querySelector('button[value=apply]').click()");
    browser.wait_for("may be applied");
    tests::until("the change", || (std::fs::read_to_string(&file).ok()? == new).then_some(()));
}

#[test]
fn in_a_browser_access_to_production_is_marked_and_shown_before_and_after() {
    let world = builder("").up();
    world.grant("developer", 1);
    let Some((browser, origin)) = signed_in(&world) else { return };
    let mut document = json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo" });
    document["access_level"] = json!(3);
    world.group("main").send(document);
    browser.wait_for("1 approval request waits for you");
    // Words and the form of the frame say it, whatever colours a person sees.
    let marked = "const found = document.querySelector('.grave'); \
                  return [getComputedStyle(found).borderTopStyle, document.querySelector('.stakes').textContent]";
    assert_eq!(browser.script(marked), json!(["double", "L3 · production or money"]));
    look_at(&browser, "production");
    browser.open(&format!("{origin}/approvals/{}", tests::visitor::reference(&world)));
    browser.wait_for("The grant");
    assert_eq!(browser.script(marked), json!(["double", "L3 · production or money"]));
    look_at(&browser, "grant");
    let beside = "const [a, b] = [...document.querySelectorAll('.sides tbody tr:first-child td')]; \
                  return a.getBoundingClientRect().top === b.getBoundingClientRect().top";
    for width in [390, 320] {
        browser.telephone(width, 844);
        assert_eq!(browser.script(beside), json!(true), "before and after stand side by side at {width}");
        fits(&browser);
    }
}
