//! A verifier in another language, written from the format's description alone, agrees with ours.

use crate::ledger::dice::Dice;
use crate::ledger::scribe::{fill, raw, rows, verify};
use crate::ledger::world::World;
use rusqlite::Connection;
use serde_json::json;
use shared::digest::Digest;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use store::View;
use store::ledger::chain::Head;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/verify_ledger.py");

#[expect(clippy::disallowed_methods, reason = "a test runs an interpreter directly")]
fn python(arguments: &[&str]) -> Option<Output> {
    Command::new("python3").args(arguments).output().ok()
}

/// The script's judgement of a file: whether it holds, and its line.
fn script(file: &Path, kept: Head) -> (bool, String) {
    let head = format!("{}:{}", kept.seq, kept.hash.hex());
    let output = python(&[SCRIPT, file.to_str().unwrap(), &head]).unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), said.trim().to_owned())
}

/// Our own judgement of a database.
fn ours(file: &Path, kept: Head) -> Result<(), String> {
    verify(&rows(&of_file(file)), kept)
}

/// The reads of a database that is no home's.
fn of_file(file: &Path) -> View {
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(file, home.path().join("ledger.db")).unwrap();
    store::reader(home.path()).unwrap()
}

fn export(world: &World, to: &Path) {
    let lines: Vec<String> =
        rows(world.ledger.view()).iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    fs::write(to, lines.concat()).unwrap();
}

/// Changes of a database that its tables would refuse. A digest keeps its length and a text its form, so that ours
/// can read what it is to judge; what cannot be read has a test of its own.
fn tamper(connection: &Connection, dice: &mut Dice, last: i64) -> String {
    let at = i64::try_from(dice.roll(usize::try_from(last).unwrap())).unwrap() + 1;
    let column = [
        "ts = ts + 1",
        "kind = 'succeeded'",
        "kind = 'noted '",
        "caller = caller || 'x'",
        "person = 'eve'",
        "request_id = 'ext-2'",
        "provider = coalesce(provider || 'x', 'x')",
        "action = coalesce(action || 'x', '')",
        "level = coalesce(level + 1, 0)",
        "params_digest = zeroblob(32)",
        "summary = coalesce(summary || 'x', '')",
        "reason_code = 'none'",
        "result_summary = coalesce(result_summary || 'x', '')",
        "result_digest = zeroblob(32)",
        "task_id = 'gov-2'",
        "approval = ''",
        "policy_version = ''",
        "duration_ms = coalesce(duration_ms + 1, 0)",
        "body = body || ' '",
        "prev_hash = event_hash",
        "event_hash = prev_hash",
        "seq = 1000000",
    ];
    let sql = match dice.roll(column.len() + 3) {
        index if index < column.len() => format!("UPDATE ledger SET {} WHERE seq = {at}", column[index]),
        index if index == column.len() => format!("DELETE FROM ledger WHERE seq = {at}"),
        index if index == column.len() + 1 => format!("DELETE FROM ledger WHERE seq >= {at}"),
        _ => format!(
            "UPDATE ledger SET seq = 0 WHERE seq = {at}; UPDATE ledger SET seq = {at} WHERE seq = {next};
             UPDATE ledger SET seq = {next} WHERE seq = 0",
            next = at % last + 1
        ),
    };
    connection.execute_batch(&sql).unwrap();
    sql
}

/// The number in `row 7 …`, which both name first.
fn place(said: &str) -> Option<&str> {
    said.split("row ").nth(1)?.split(' ').next()
}

/// Attack: see `ten_thousand_random_tamperings_are_found_against_a_kept_head`.
#[test]
fn a_verifier_in_another_language_agrees_on_good_and_on_tampered_ledgers() {
    if python(&["--version"]).is_none() {
        println!("skipped: python3 is not installed");
        return;
    }
    let mut world = World::new();
    fill(&mut world.ledger, 400);
    let kept = world.ledger.head();
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("export.jsonl");
    export(&world, &lines);
    // The real file, with most rows still in its log.
    let real = world.home.path().join("ledger.db");
    for file in [&real, &lines] {
        let (holds, said) = script(file, kept);
        assert!(holds && said.starts_with(&format!("{} rows, head {}", kept.seq, kept.hash)), "{said}");
        assert!(!script(file, Head { seq: kept.seq + 1, ..kept }).0);
        assert!(!script(file, Head { hash: Digest::ZERO, ..kept }).0);
    }
    let whole = directory.path().join("whole.db");
    raw(&world.ledger).execute("VACUUM INTO ?1", [whole.to_str().unwrap()]).unwrap();
    assert_eq!(ours(&whole, kept), Ok(()));
    let mut dice = Dice(11);
    for round in 0..60 {
        let copy = directory.path().join(format!("{round}.db"));
        fs::copy(&whole, &copy).unwrap();
        let connection = Connection::open(&copy).unwrap();
        connection
            .execute_batch(
                "DROP TRIGGER ledger_is_append_only_update; DROP TRIGGER ledger_is_append_only_delete;
                 DROP TRIGGER ledger_has_no_gaps;",
            )
            .unwrap();
        let what = tamper(&connection, &mut dice, kept.seq);
        drop(connection);
        let (found, (holds, said)) = (ours(&copy, kept), script(&copy, kept));
        let changed = rows(&of_file(&copy)) != rows(world.ledger.view());
        assert_eq!(found.is_err(), changed, "{what}");
        assert_eq!(holds, found.is_ok(), "{what}: {said}, ours: {found:?}");
        if let Err(found) = found {
            assert!(said.contains("ends at") || place(&said) == place(&found), "{what}: {said}, ours: {found}");
        }
    }
}

#[test]
fn a_verifier_in_another_language_refuses_what_ours_cannot_read() {
    if python(&["--version"]).is_none() {
        println!("skipped: python3 is not installed");
        return;
    }
    let mut world = World::new();
    fill(&mut world.ledger, 20);
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.db");
    raw(&world.ledger).execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    let connection = Connection::open(&copy).unwrap();
    connection
        .execute_batch("DROP TRIGGER ledger_is_append_only_update; UPDATE ledger SET event_hash = x'00' WHERE seq = 7;")
        .unwrap();
    let (holds, said) = script(&copy, Head::EMPTY);
    assert!(!holds && place(&said) == Some("7"), "{said}");
    let ours = store::ledger::export::each(&of_file(&copy), 1, |_| Ok(())).unwrap_err().to_string();
    assert_eq!(place(&ours), Some("7"), "{ours}");
}

/// Attack: see `a_clock_that_was_ahead_is_accepted_by_a_person_and_calls_are_admitted_again`.
#[test]
fn a_row_earlier_than_the_one_before_it_takes_a_row_that_accepts_the_clock() {
    let mut world = World::new();
    fill(&mut world.ledger, 20);
    world.clock.set(-3_600_000);
    let accepted = world.say(json!({ "type": "accept_clock" }));
    assert_eq!(accepted["data"]["behind_ms"], 3_600_000, "{accepted}");
    fill(&mut world.ledger, 30);
    let written = rows(world.ledger.view());
    let step = written.iter().find(|row| row.kind == "clock_accepted").unwrap().seq;
    assert_eq!(verify(&written, world.ledger.head()), Ok(()));
    // The same chain with that row of another kind, hashed anew.
    let mut forged = written;
    let mut before = Digest::ZERO;
    for row in &mut forged {
        if row.seq == step {
            "noted".clone_into(&mut row.kind);
        }
        row.prev_hash = before;
        row.event_hash = row.hash();
        before = row.event_hash;
    }
    let said = verify(&forged, Head::EMPTY).unwrap_err();
    assert_eq!(said, format!("row {step} is earlier than the row before it"));
    if python(&["--version"]).is_none() {
        println!("skipped: python3 is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("export.jsonl");
    export(&world, &lines);
    assert!(script(&lines, world.ledger.head()).0);
    let text: Vec<String> = forged.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    fs::write(&lines, text.concat()).unwrap();
    assert_eq!(script(&lines, Head::EMPTY), (false, said));
}
