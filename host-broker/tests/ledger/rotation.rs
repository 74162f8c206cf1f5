//! Rotation: the oldest rows move into segments, nothing is lost, and nothing runs again.

use crate::ledger::checkpoints::signing;
use crate::ledger::scribe::{Clerk, Happening, fill, raw, verify, write};
use crate::ledger::world::{World, open};
use engine::event::Event;
use engine::request::{Command, CommandRequest, Parsed};
use kernel::{Committed, Ledger};
use model::Clock as _;
use serde_json::{Value, json};
use shared::request::ResultRequest;
use std::io::Read as _;
use std::path::Path;
use std::process::Output;
use store::ledger::chain::{Head, Row};
use store::ledger::checkpoints::{Coverage, Covered, Signed, Uncovered, coverage};
use store::ledger::health::{Health, Verification};
use store::ledger::segments;
use store::ledger::segments::{Due, Segment};
use store::ledger::verification;
use store::{Durability, StoreError};

const DAY: i64 = 24 * 3_600_000;

fn due(ledger: &Ledger) -> Option<Due> {
    ledger.due_segment(0, 100).unwrap()
}

/// Every row, in segments and in the database.
fn all(ledger: &Ledger) -> Vec<Row> {
    let mut rows = Vec::new();
    segments::each(ledger.home(), ledger.view(), 1, |row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    rows
}

fn first(ledger: &Ledger) -> i64 {
    raw(ledger).query_row("SELECT min(seq) FROM ledger", [], |row| row.get(0)).unwrap()
}

/// Lets time pass until no row of a segment is left: how many are deleted at once depends on the machine.
fn tick(world: &mut World) {
    loop {
        let event = Event::Ticked { delivered: i64::MAX };
        let batch = world.ledger.batch(Durability::Full, vec![event], &mut world.broker);
        assert!(batch.unwritten.is_empty(), "{batch:?}");
        if !segments::has_deletable(world.ledger.view()).unwrap() {
            return;
        }
    }
}

/// Writes a segment and notes it; the rows stay until the next tick.
fn rotate(world: &mut World) -> Segment {
    let written = segments::write(world.ledger.home(), due(&world.ledger).unwrap()).unwrap();
    let batch = world.ledger.batch(Durability::Full, vec![Event::Rotated(Box::new(written))], &mut world.broker);
    assert!(batch.unwritten.is_empty(), "{batch:?}");
    *segments::list(world.ledger.view()).unwrap().last().unwrap()
}

/// A home with access for `developer`.
fn granted() -> World {
    let mut world = World::new();
    world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 2 }));
    world
}

/// A home whose first two hundred rows are in segments.
fn rotated() -> (World, Head) {
    let mut world = World::new();
    fill(&mut world.ledger, 250);
    world.clock.turn(DAY + 1);
    for last in [100, 200] {
        assert_eq!(rotate(&mut world).last.seq, last);
        tick(&mut world);
    }
    let head = world.ledger.head();
    (world, head)
}

/// Attack (Load and space): The ledger only grows.
/// Defence: Above `ledger_mib`, the oldest rows move into compressed segments. Each segment is read
/// back and verified before its rows are deleted. A row of the chain names it.
#[test]
fn old_rows_move_into_segments_and_the_chain_goes_on() {
    let mut world = World::new();
    fill(&mut world.ledger, 250);
    let before = all(&world.ledger);
    assert_eq!(due(&world.ledger), None, "the rows are young");
    world.clock.turn(DAY + 1);
    assert_eq!(world.ledger.due_segment(1 << 30, 100).unwrap(), None, "the database is small");
    let segment = rotate(&mut world);
    assert_eq!((segment.first, segment.last.seq, first(&world.ledger)), (1, 100, 1));
    assert_eq!(due(&world.ledger), None, "the rows of the last one go first");
    assert!(all(&world.ledger).starts_with(&before), "a row comes twice");
    tick(&mut world);
    assert_eq!(first(&world.ledger), 101);
    assert!(all(&world.ledger).starts_with(&before));
    rotate(&mut world);
    tick(&mut world);
    assert_eq!(due(&world.ledger), None, "too few rows are left");

    let head = world.ledger.head();
    drop(world.ledger);
    world.ledger = open(world.home.path(), &world.clock).unwrap();
    assert_eq!(world.ledger.head(), head);
    fill(&mut world.ledger, 300);
    let rows = all(&world.ledger);
    assert_eq!(first(&world.ledger), 201);
    assert_eq!(verify(&rows, world.ledger.head()), Ok(()));
    let named: Vec<Value> =
        rows.iter().filter(|row| row.kind == "rotated").map(|row| serde_json::from_str(&row.body).unwrap()).collect();
    assert_eq!(named.len(), 2);
    assert_eq!(named[0]["last_hash"], json!(rows[99].event_hash));
    let file = std::fs::read(world.ledger.home().join("segments").join(named[0]["file"].as_str().unwrap())).unwrap();
    assert_eq!(named[0]["sha256"], json!(shared::digest::Digest::of(&file)));
}

#[test]
fn rows_after_a_checkpoint_that_is_in_a_segment_count_as_old() {
    let mut world = signing(World::new());
    fill(&mut world.ledger, 50);
    let sign = vec![Event::CheckpointDue];
    assert!(world.ledger.batch(Durability::Full, sign, &mut world.broker).unwritten.is_empty());
    let row = world.ledger.head().seq;
    while world.ledger.head().seq < 100 {
        write(&mut world.ledger, vec![Happening::Row("old")]);
    }
    let old = world.clock.now();
    world.clock.turn(DAY + 1);
    write(&mut world.ledger, vec![Happening::Row("new")]);
    rotate(&mut world);
    let found = |world: &World| coverage(world.ledger.view()).unwrap();
    let uncovered = Some(Uncovered { rows: world.ledger.head().seq - row, since: old });
    let at = Some(old);
    assert_eq!(found(&world), Coverage { covered: Some(Covered { size: row - 1, at }), uncovered });
    tick(&mut world);
    assert_eq!(first(&world.ledger), 101);
    let uncovered = Some(Uncovered { rows: world.ledger.head().seq - row, since: old });
    assert_eq!(found(&world), Coverage { covered: Some(Covered { size: row - 1, at: None }), uncovered });
    assert!(found(&world).is_overdue(world.clock.now()), "the rows of the database alone are young");
}

#[test]
fn rows_that_something_still_needs_stay() {
    let mut world = granted();
    let asked = world.call("developer", "ask", &json!({}), None);
    world.admit(Durability::Full, vec![asked]);
    let needed = all(&world.ledger).iter().find(|row| row.kind == "asked").unwrap().seq;
    fill(&mut world.ledger, 250);
    world.clock.turn(DAY + 1);
    assert_eq!(due(&world.ledger), None, "a person is asked since row {needed}");
    tick(&mut world);
    assert_eq!(due(&world.ledger), None, "still");
    raw(&world.ledger).execute_batch("UPDATE approvals SET state = 'closed'").unwrap();
    assert_eq!(due(&world.ledger).map(|due| due.last), Some(100));

    let called = world.call("developer", "write", &json!({}), None);
    let started = world.admit(Durability::Full, vec![called]);
    assert!(matches!(started.committed.as_slice(), [Committed::Start(_)]));
    fill(&mut world.ledger, 500);
    world.clock.turn(DAY + 1);
    tick(&mut world);
    for last in [100, 200] {
        assert_eq!(rotate(&mut world).last.seq, last);
        tick(&mut world);
    }
    assert_eq!(due(&world.ledger), None, "an effect is under way");
}

#[test]
fn a_reply_that_may_still_be_asked_for_keeps_its_row() {
    let mut world = World::new();
    write(&mut world.ledger, vec![Happening::Answered("group:developer")]);
    fill(&mut world.ledger, 150);
    world.clock.turn(DAY + 1);
    assert_eq!(due(&world.ledger), None);
    tick(&mut world);
    assert_eq!(due(&world.ledger).map(|due| due.last), Some(100));
}

/// Attack: see `a_request_whose_first_row_is_in_a_segment_is_nobodys`.
#[test]
fn an_id_stays_burnt_when_its_row_is_in_a_segment() {
    let mut world = granted();
    let call = world.call("developer", "nothing", &json!({}), None);
    let id = call.header.request_id.clone();
    world.admit(Durability::Full, vec![call]);
    fill(&mut world.ledger, 150);
    world.clock.turn(DAY + 1);
    tick(&mut world);
    rotate(&mut world);
    tick(&mut world);
    assert_eq!(first(&world.ledger), 101);
    let mut again = world.call("developer", "write", &json!({}), None);
    again.header.request_id = id;
    let batch = world.admit(Durability::Full, vec![again]);
    assert!(matches!(batch.committed.as_slice(), [Committed::Close(..)]), "{batch:?}");
    let last = all(&world.ledger).pop().unwrap();
    assert_eq!((last.kind.as_str(), last.reason_code.as_deref()), ("refused", Some("replayed_request")));
}

/// Attack: see `old_rows_move_into_segments_and_the_chain_goes_on`.
#[test]
fn a_crash_at_any_point_loses_no_row_and_shows_none_twice() {
    let mut world = World::new();
    fill(&mut world.ledger, 250);
    world.clock.turn(DAY + 1);
    let before = all(&world.ledger);
    let directory = world.ledger.home().join("segments");
    // The first try ended in the middle, the second one before its row.
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("next.tmp"), b"half").unwrap();
    segments::write(world.ledger.home(), due(&world.ledger).unwrap()).unwrap();
    drop(world.ledger);
    world.ledger = open(world.home.path(), &world.clock).unwrap();
    assert!(all(&world.ledger) == before);
    rotate(&mut world);
    drop(world.ledger);
    world.ledger = open(world.home.path(), &world.clock).unwrap();
    assert!(all(&world.ledger).starts_with(&before));
    tick(&mut world);
    assert_eq!((first(&world.ledger), verify(&all(&world.ledger), world.ledger.head())), (101, Ok(())));
    let files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["000000000001-000000000100.jsonl.gz"]);
}

#[test]
fn a_segment_is_not_noted_if_the_rows_are_not_what_they_were() {
    let mut world = World::new();
    fill(&mut world.ledger, 250);
    world.clock.turn(DAY + 1);
    let due = due(&world.ledger).unwrap();
    let attack = "DROP TRIGGER ledger_is_append_only_update; UPDATE ledger SET caller = 'x' WHERE seq = 50";
    raw(&world.ledger).execute_batch(attack).unwrap();
    let refused = segments::write(world.ledger.home(), due).unwrap_err();
    assert!(matches!(refused, StoreError::Broken(_)), "{refused}");
    assert_eq!((first(&world.ledger), segments::list(world.ledger.view()).unwrap()), (1, Vec::new()));
}

/// Attack (Load and space): After its first row has moved, a request appears to belong to another
/// person who used its id.
/// Defence: Such a request belongs to nobody. Its result is not disclosed and its id cannot run
/// again.
#[test]
fn a_request_whose_first_row_is_in_a_segment_is_nobodys() {
    let mut world = granted();
    let call = world.call("developer", "nothing", &json!({}), None);
    let id = call.header.request_id.clone();
    world.admit(Durability::Full, vec![call]);
    fill(&mut world.ledger, 120);
    // Somebody else of the group uses the id later.
    let mut again = world.call("developer", "write", &json!({}), None);
    again.header.request_id = id.clone();
    world.admit(Durability::Full, vec![again]);
    fill(&mut world.ledger, 200);
    world.clock.turn(DAY + 1);
    tick(&mut world);
    rotate(&mut world);
    tick(&mut world);
    let left = "SELECT count(*) FROM ledger WHERE caller = 'group:developer' AND request_id = ?1";
    let left: i64 = raw(&world.ledger).query_row(left, [id.as_str()], |row| row.get(0)).unwrap();
    assert_eq!(left, 1, "a later row of the id is in the database");
    let command = Command::Result(ResultRequest { of: id, timeout_ms: None });
    let command_request = Box::new(CommandRequest {
        header: world.header("developer"),
        command,
        asked: false,
        calls: Vec::new(),
        failed_read: None,
    });
    let arrived = vec![Event::Arrived(Parsed::CommandRequest(command_request))];
    assert!(world.ledger.batch(Durability::Full, arrived, &mut world.broker).unwritten.is_empty());
    assert_eq!(all(&world.ledger).pop().unwrap().reason_code.as_deref(), Some("unknown_request"));
}

#[test]
fn approval_requests_keep_their_rows_for_a_week_and_no_longer() {
    let mut world = granted();
    let (write, ask) =
        (world.call("developer", "write", &json!({}), None), world.call("developer", "ask", &json!({}), None));
    world.admit(Durability::Full, vec![write, ask]);
    world.ledger.batch(Durability::Full, vec![Event::Started], &mut world.broker);
    fill(&mut world.ledger, 150);
    world.clock.turn(6 * DAY);
    tick(&mut world);
    assert_eq!(due(&world.ledger), None);
    world.clock.turn(2 * DAY);
    tick(&mut world);
    assert_eq!(due(&world.ledger).map(|due| due.last), Some(100));
}

/// Attack (Load and space): Somebody forges rows beside a segment, or a table that places
/// everything in segments.
/// Defence: Copies are verified. Rows with numbers below 1 are never deleted. At start, segments
/// behind the end of the chain are refused.
#[test]
fn forged_rows_beside_a_segment_are_found_and_not_deleted() {
    let mut world = World::new();
    fill(&mut world.ledger, 250);
    world.clock.turn(DAY + 1);
    let verified = |world: &World| evidence(world.home.path(), &["verify", "--json"]).1;
    rotate(&mut world);
    assert_eq!(verified(&world)["ok"], true);
    let forge = |sql: &str| raw(&world.ledger).execute_batch(sql).unwrap();
    forge(
        "DROP TRIGGER ledger_is_append_only_update; DROP TRIGGER ledger_has_no_gaps;
           UPDATE ledger SET caller = 'x' WHERE seq = 50",
    );
    assert_eq!(verified(&world)["first_bad"], 50, "a copy of a row that is in a segment");
    tick(&mut world);
    assert_eq!(verified(&world)["ok"], true, "the copies are gone");
    raw(&world.ledger).execute_batch("INSERT INTO ledger SELECT -5, ts, kind, caller, person, request_id, provider, action, level, params_digest, summary, reason_code, result_summary, result_digest, task_id, approval, policy_version, duration_ms, body, prev_hash, event_hash FROM ledger WHERE seq = 150").unwrap();
    tick(&mut world);
    assert_eq!(verified(&world)["ok"], false, "a row before the first");
    // A table that says that everything is in segments does not make a daemon delete everything.
    raw(&world.ledger).execute_batch("INSERT INTO segments VALUES (101, 9000000000, zeroblob(32), 0)").unwrap();
    let (home, clock) = (world.home, world.clock);
    drop(world.ledger);
    assert!(matches!(open(home.path(), &clock), Err(StoreError::Broken(_))));
}

#[test]
fn only_rows_that_are_in_a_segment_can_be_deleted() {
    let (world, _) = rotated();
    let refused = raw(&world.ledger).execute_batch("DELETE FROM ledger WHERE seq = 201").unwrap_err();
    assert!(refused.to_string().contains("append-only"), "{refused}");
    assert_eq!(first(&world.ledger), 201);
}

#[expect(clippy::disallowed_methods, reason = "the program itself")]
fn evidence(home: &Path, arguments: &[&str]) -> (Output, Value) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_host-broker"));
    command.args(["evidence"]).args(arguments).arg("--home").arg(home);
    let output = command.output().unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, document)
}

/// Attack (Load and space): Somebody removes, changes or truncates a segment.
/// Defence: `evidence verify` names it and fails. A kept head also detects a rewritten segment.
#[test]
fn the_command_verifies_and_exports_segments_and_names_one_that_is_missing_changed_or_cut() {
    let (world, head) = rotated();
    let home = world.home.path();
    let verified = |arguments: &[&str]| evidence(home, &[&["verify", "--json"], arguments].concat());
    let (_, whole) = verified(&[]);
    assert_eq!(
        (&whole["ok"], &whole["rows"], &whole["head"]["seq"]),
        (&json!(true), &json!(head.seq), &json!(head.seq))
    );
    let (_, part) = verified(&["--from", "101"]);
    assert_eq!((&part["ok"], &part["rows"]), (&json!(true), &json!(head.seq - 100)));
    let (refused, _) = verified(&["--from", "50"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(refused.contains("a segment begins with row 1, 101"), "{refused}");

    let export = evidence(home, &["export"]).0.stdout;
    let file = home.join("x.jsonl");
    std::fs::write(&file, &export).unwrap();
    let (_, exported) = verified(&["--file", file.to_str().unwrap()]);
    assert_eq!((&exported["ok"], &exported["rows"]), (&json!(true), &json!(head.seq)));
    let later = evidence(home, &["export", "--from", "150"]).0.stdout;
    assert!(export.ends_with(&later) && String::from_utf8_lossy(&later).starts_with("{\"seq\":150,"));

    let segment = segments::list(world.ledger.view()).unwrap()[0];
    let path = segment.path(home);
    let bytes = std::fs::read(&path).unwrap();
    let fails = |what: &str| {
        let (failed, _) = verified(&[]);
        let said = String::from_utf8_lossy(&failed.stdout).into_owned() + &String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(5), "{said}");
        assert!(said.contains(what), "{said}");
        assert_eq!(verified(&["--from", "101"]).1["ok"], true);
    };
    std::fs::remove_file(&path).unwrap();
    fails("000000000001-000000000100.jsonl.gz (rows 1 to 100) cannot be used");
    let (failed, _) = evidence(home, &["export"]);
    assert_eq!(failed.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("--from 101"));
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    fails("cannot be used");
    let lines = export.split_inclusive(|byte| *byte == b'\n').take(100);
    let text = String::from_utf8(lines.flatten().copied().collect()).unwrap();
    std::fs::write(&path, gzip(&text.replacen("group:developer", "group:main", 1))).unwrap();
    fails("does not have the hash of its content");
    let cut: String = text.split_inclusive('\n').take(99).collect();
    std::fs::write(&path, gzip(&cut)).unwrap();
    fails("it is cut");
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn rows_can_be_written_while_a_segment_is() {
    let mut world = World::new();
    fill(&mut world.ledger, 5_000);
    world.clock.turn(DAY + 1);
    let (home, due) = (world.ledger.home().to_owned(), world.ledger.due_segment(0, 4_000).unwrap().unwrap());
    let writer = std::thread::spawn(move || segments::write(&home, due).unwrap());
    let mut clerk = Clerk::default();
    while !writer.is_finished() {
        assert!(world.ledger.batch(Durability::Full, vec![Happening::Row("a")], &mut clerk).unwritten.is_empty());
    }
    let written = writer.join().unwrap();
    world.ledger.batch(Durability::Full, vec![Event::Rotated(Box::new(written))], &mut world.broker);
    while segments::has_deletable(world.ledger.view()).unwrap() {
        tick(&mut world);
    }
    assert_eq!(verify(&all(&world.ledger), world.ledger.head()), Ok(()));
}

/// The result of the verification of all rows.
fn verification(ledger: &Ledger) -> Verification {
    verified(ledger).0
}

fn verified(ledger: &Ledger) -> (Verification, Option<Signed>) {
    let (sender, result) = std::sync::mpsc::channel();
    let health = tokio::sync::watch::channel(Health::default()).0;
    let report = move |found, signed| sender.send((found, signed)).unwrap();
    let _running = verification::start(ledger.home(), (ledger.head(), None), health, report).unwrap();
    result.recv().unwrap()
}

/// Attack (Repeats, crashes and evidence): a segment that is deleted, cut or damaged, so that its
/// rows cannot be verified
/// Defence: it counts as a change of its rows; only an error that may pass does not
///
/// Attack: see
/// `a_row_that_was_changed_long_ago_is_found_after_the_start_and_no_call_is_admitted_any_more`.
#[test]
fn all_rows_are_verified_those_of_segments_too_and_a_file_that_is_missing_or_damaged_counts_as_broken() {
    let (world, head) = rotated();
    assert_eq!(verification(&world.ledger), Verification::Whole { row: head.seq });
    let segments = segments::list(world.ledger.view()).unwrap();
    let (path, kept) = (segments[1].path(world.home.path()), world.home.path().join("kept"));
    std::fs::rename(&path, &kept).unwrap();
    let is_broken = |row: i64| {
        let found = verification(&world.ledger);
        let Verification::Broken { row: at, error } = &found else { panic!("{found:?}") };
        assert!(*at == row && error.contains(&segments[1].name()), "{found:?}");
    };
    is_broken(101);
    let bytes = std::fs::read(&kept).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
    is_broken(201);
    std::fs::write(&path, "no archive").unwrap();
    is_broken(101);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    is_broken(101);
    std::fs::remove_dir(&path).unwrap();
    // Another row of the same number, in a file that is whole by itself.
    let mut lines = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&kept).unwrap()).read_to_string(&mut lines).unwrap();
    let changed = lines.replacen("\"kind\":\"", "\"kind\":\"x", 1);
    std::fs::write(&path, gzip(&changed)).unwrap();
    let error = "row 101 does not have the hash of its content".to_owned();
    assert_eq!(verification(&world.ledger), Verification::Broken { row: 101, error });
    std::fs::write(&path, gzip(&lines)).unwrap();
    assert_eq!(verification(&world.ledger), Verification::Whole { row: head.seq });
    let change = "DROP TRIGGER ledger_is_append_only_update; UPDATE ledger SET summary = 'x' WHERE seq = 220";
    raw(&world.ledger).execute_batch(change).unwrap();
    let error = "row 220 does not have the hash of its content".to_owned();
    assert_eq!(verification(&world.ledger), Verification::Broken { row: 220, error });
}

#[test]
fn a_large_ledger_without_a_checkpoint_gets_one_once_all_rows_are_verified() {
    let (world, _) = rotated();
    let mut world = signing(world);
    drop(world.ledger);
    world.ledger = open(world.home.path(), &world.clock).unwrap();
    assert!(world.ledger.signed().is_none(), "its tree is not known");
    let (found, signed) = verified(&world.ledger);
    assert!(matches!(found, Verification::Whole { .. }));
    let rows = world.ledger.head().seq;
    fill(&mut world.ledger, rows + 5);
    world.ledger.adopt(signed.unwrap());
    let batch = world.ledger.batch(Durability::Full, vec![Event::CheckpointDue], &mut world.broker);
    assert!(batch.unwritten.is_empty());
    let head = world.ledger.head();
    assert!(head.seq > rows + 5 && world.ledger.signed().unwrap().unsigned() == 0);
    assert_eq!(verify(&all(&world.ledger), head), Ok(()));
}

/// Attack: see
/// `a_row_that_was_changed_long_ago_is_found_after_the_start_and_no_call_is_admitted_any_more`.
#[test]
fn a_history_that_was_rewritten_before_the_row_of_the_start_is_found() {
    let (_world, head) = rotated();
    // Every row of it is right by itself.
    let mut other = World::new();
    fill(&mut other.ledger, head.seq);
    assert_ne!(other.ledger.head().hash, head.hash);
    let (sender, result) = std::sync::mpsc::channel();
    let health = tokio::sync::watch::channel(Health::default()).0;
    let _running =
        verification::start(other.home.path(), (head, None), health, move |found, _| sender.send(found).unwrap())
            .unwrap();
    let found = result.recv().unwrap();
    assert!(matches!(found, Verification::Broken { row, .. } if row == head.seq + 1), "{found:?}");
}

#[test]
fn no_transaction_is_open_while_rows_are_handed_on_and_rows_that_move_meanwhile_come_once() {
    let mut world = World::new();
    fill(&mut world.ledger, 2_500);
    world.clock.turn(DAY + 1);
    let before = all(&world.ledger);
    let reader = store::reader(world.home.path()).unwrap();
    let home = world.home.path().to_owned();
    let mut read = Vec::new();
    segments::each(&home, &reader, 1, |row| {
        if row.seq == 1 {
            for _ in 0..12 {
                rotate(&mut world);
                tick(&mut world);
            }
            assert_eq!(first(&world.ledger), 1_201);
        }
        if row.seq % 500 == 0 {
            // SQLite begins its log anew only while nobody reads.
            let begin = "PRAGMA wal_checkpoint(RESTART)";
            let busy: i64 = raw(&world.ledger).query_row(begin, [], |row| row.get(0)).unwrap();
            assert_eq!(busy, 0, "row {}", row.seq);
        }
        read.push(row);
        Ok(())
    })
    .unwrap();
    assert_eq!(read, before);
}
