//! The page of the evidence: the end of the ledger, its verification and its growth as they really are.

use super::{ALICE, WEB, alice, builder, is_sound};
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use store::ledger::chain::Head;
use store::ledger::segments::{self, Due};
use tests::group::code;
use tests::visitor::{Page, Visitor};
use tests::world::CONFIG;
use tests::{World, until};

#[test]
fn the_page_shows_the_head_the_verification_and_the_rows_of_the_last_day() {
    let world = builder("audits = true\n").up();
    world.grant("developer", 2);
    let (alice, developer) = (alice(&world), world.group("developer"));
    for _ in 0..5 {
        assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    }
    world.settle();
    let rows = world.rows();
    let head = rows.last().unwrap();
    // The verification runs beside the calls.
    let verified = || Some(alice.get("/evidence")).filter(|page| page.text.contains("All rows up to row "));
    let page = tests::until("the verification", verified);
    assert_eq!(page.status, 200, "{}", page.text);
    is_sound(&page.text);
    for words in [
        format!("{}:{}", head.seq, head.event_hash),
        "host-broker evidence verify</code>".to_owned(),
        "24 bars, from ".to_owned(),
        format!(" rows: {}. The highest bar is {}, at ", rows.len(), rows.len()),
        "All rows are in the database.".to_owned(),
        "Above 1024 MiB".to_owned(),
        "64 MiB an hour".to_owned(),
        "256 MiB (".to_owned(),
        "data-fragment=\"/evidence/fragment\" data-events=\"/evidence/events\" data-every=\"5000\"".to_owned(),
        "Verify all rows</button>".to_owned(),
    ] {
        assert!(page.text.contains(&words), "no `{words}` in {}", page.text);
    }
    let fragment = alice.get("/evidence/fragment").text;
    assert!(fragment.contains(&head.event_hash.to_string()) && !fragment.contains("<svg"), "{fragment}");

    world.clock.advance(Duration::from_secs(3 * 3600));
    let alice = super::alice(&world);
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    world.settle();
    let page = alice.get("/evidence").text;
    assert!(page.contains(&format!(" rows: {}. The highest bar is {}, at ", world.rows().len(), rows.len())), "{page}");
}

/// Presses the button on the page.
fn press(visitor: &mut Visitor) -> Page {
    let form = visitor.get("/evidence").field("form");
    visitor.post("/evidence/verify", &[("form", &form)])
}

/// Waits for the end of a verification that was started at the world's time; the part of the page with its result.
fn ended(world: &World, visitor: &Visitor) -> String {
    let now = world.now().to_string().split('.').next().unwrap().replace('T', " ");
    let is_now = |page: &String| {
        let rest = page.split_once("The last verification ended ").map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split("</time>").next()).is_some_and(|time| time.ends_with(&format!(">{now}")))
    };
    until("the end of the verification", || Some(visitor.get("/evidence/fragment").text).filter(is_now))
}

/// The number of rows about verifications.
fn noted(world: &World) -> usize {
    world.rows().iter().filter(|row| row.kind == "noted" && row.body.contains("\"verification\"")).count()
}

#[test]
fn an_auditor_has_all_rows_verified_and_not_again_within_a_minute() {
    let world = builder("audits = true\n").up();
    world.grant("developer", 2);
    let (mut alice, developer) = (alice(&world), world.group("developer"));
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    world.settle();
    let page = alice.get("/evidence").text;
    assert!(!page.contains("The last verification ended"), "only the start has verified rows: {page}");
    let mut lines = alice.watch_at("/evidence/events");
    assert_eq!(lines.next().as_deref(), Some("watching"));
    let last = world.rows().last().unwrap().seq;
    let pressed = press(&mut alice);
    assert_eq!((pressed.status, pressed.header("location")), (303, Some("/evidence")), "{}", pressed.text);
    assert_eq!(lines.next().as_deref(), Some("changed"), "an open page hears of it");
    let page = ended(&world, &alice);
    // These are more rows than those that the start has verified.
    assert!(page.contains(&format!("All rows up to row {last} are valid.")), "{page}");
    assert_eq!(noted(&world), 0, "there is nothing to note");

    let refused = press(&mut alice);
    let from = world.now().plus(Duration::from_millis(60_999)).clock();
    assert_eq!(refused.status, 429, "{}", refused.text);
    for words in ["No verification was started", &format!("Start another one at {from} or later.")] {
        assert!(refused.text.contains(words), "no `{words}` in {}", refused.text);
    }
    // The minute is the same for everybody.
    let mut operator = Visitor::signed_in(&world);
    world.clock.advance(Duration::from_secs(59));
    assert_eq!(press(&mut operator).status, 429);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(press(&mut operator).status, 303);
    ended(&world, &alice);
    assert_eq!(alice.get("/evidence/verify").status, 405);
}

/// A segment that is read through a pipe: a verification waits until the test writes into it.
struct Pipe {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Pipe {
    /// Notes the first three rows of a world as a segment. They stay in the database, too.
    fn of(world: &World) -> Self {
        let _written = segments::write(&world.home(), Due { after: Head::EMPTY, last: 3 }).unwrap();
        let path = world.path("segments/000000000001-000000000003.jsonl.gz");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let database = Connection::open(world.path("ledger.db")).unwrap();
        database.busy_timeout(tests::DEADLINE).unwrap();
        let note = "INSERT INTO segments SELECT 1, seq, event_hash, ts FROM ledger WHERE seq = 3";
        assert_eq!(database.execute(note, []).unwrap(), 1);
        Self { path, bytes }
    }

    /// Lets the verification that waits read the rows, and makes the pipe a file.
    fn write(&self) {
        std::fs::write(&self.path, &self.bytes).unwrap();
        std::fs::remove_file(&self.path).unwrap();
        std::fs::write(&self.path, &self.bytes).unwrap();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The daemon of a test that fails can end.
            rustix::fs::open(&self.path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok();
            std::fs::remove_file(&self.path).ok();
        }
    }
}

#[test]
fn a_press_from_any_page_joins_the_verification_that_runs() {
    let token = String::from(config::web::TokenDigest::of("alices-token"));
    // Rows that are in a segment stay in the database.
    let config = CONFIG.replace("[broker]", "[broker]\nledger_mib = 0");
    let world = World::builder().config(&format!("{config}\n{WEB}{ALICE}{token}\"\naudits = true\n")).up();
    world.grant("developer", 2);
    let (mut alice, developer) = (alice(&world), world.group("developer"));
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    world.settle();
    let pipe = Pipe::of(&world);
    let last = world.rows().last().unwrap().seq;
    assert_eq!(press(&mut alice).status, 303);
    let mut operator = Visitor::signed_in(&world);
    for visitor in [&mut alice, &mut operator] {
        let page = visitor.get("/evidence").text;
        is_sound(&page);
        assert!(page.contains("A verification of all rows has started") && page.contains("<progress"), "{page}");
        assert!(!page.contains("/evidence/verify"), "there is no button: {page}");
        assert_eq!(press(visitor).status, 303, "it joins");
    }
    assert_eq!(code(&developer.call("echo", json!({}))), "executed", "calls go on");
    pipe.write();
    let page = ended(&world, &alice);
    assert!(page.contains(&format!("All rows up to row {last} are valid.")), "{page}");
    assert!(page.contains("Verify all rows</button>"), "{page}");
    assert_eq!(press(&mut operator).status, 429, "the presses were one verification, which has just ended");
}

/// Changes the database as another process can. Its triggers are there afterwards.
fn tamper(world: &World, sql: &str) {
    let database = Connection::open(world.path("ledger.db")).unwrap();
    database.busy_timeout(tests::DEADLINE).unwrap();
    let trigger = "SELECT sql FROM sqlite_schema WHERE name = 'ledger_is_append_only_update'";
    let trigger: String = database.query_row(trigger, [], |row| row.get(0)).unwrap();
    let drop = "DROP TRIGGER ledger_is_append_only_update";
    database.execute_batch(&format!("BEGIN IMMEDIATE; {drop}; {sql}; {trigger}; COMMIT")).unwrap();
}

#[test]
fn a_row_that_is_changed_under_the_daemon_is_found_and_no_call_is_admitted_until_it_is_right() {
    let world = builder("audits = true\n").up();
    world.grant("developer", 2);
    let (mut alice, developer) = (alice(&world), world.group("developer"));
    let call = || code(&developer.call("echo", json!({}))).to_owned();
    assert_eq!(call(), "executed");
    world.settle();
    let seq = world.rows().iter().find(|row| row.kind == "succeeded").unwrap().seq;
    tamper(&world, &format!("UPDATE ledger SET ts = ts + 1 WHERE seq = {seq}"));
    assert_eq!(call(), "executed", "nobody has looked yet");
    world.settle();

    // A second look finds the same, which is no news.
    for _ in 0..2 {
        assert_eq!(press(&mut alice).status, 303);
        let page = ended(&world, &alice);
        assert!(page.contains(&format!("The evidence is broken at row {seq}, so no call is admitted.")), "{page}");
        assert!(page.contains("Verify all rows</button>"), "{page}");
        assert_eq!(call(), "evidence_unavailable");
        world.clock.advance(Duration::from_secs(60));
    }
    until("the row about the break", || (noted(&world) == 1).then_some(()));

    tamper(&world, &format!("UPDATE ledger SET ts = ts - 1 WHERE seq = {seq}"));
    assert_eq!(call(), "evidence_unavailable", "until all rows are verified");
    assert_eq!(press(&mut alice).status, 303);
    let is_whole = || alice.get("/evidence/fragment").text.contains("All rows up to row ").then_some(());
    until("the end of the break", is_whole);
    assert_eq!(call(), "executed");
    assert_eq!(noted(&world), 2, "the break and its end");
}
