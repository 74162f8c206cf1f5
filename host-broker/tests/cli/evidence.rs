//! `evidence`: whole, tampered with, cut, exported, and recomputed by somebody else.

use super::world::World;
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn world_with_rows() -> World {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let daemon = world.serve();
    world.call("e1", "note", &json!({ "n": 1 }), None);
    world.call("e2", "note", &json!({}), None);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    world
}

/// Changes the ledger as somebody with the file could.
fn tamper(world: &World, sql: &str) {
    let connection = Connection::open(world.home.join("ledger.db")).unwrap();
    connection
        .execute_batch(&format!(
            "DROP TRIGGER ledger_is_append_only_update; DROP TRIGGER ledger_is_append_only_delete; {sql}"
        ))
        .unwrap();
}

fn broken(world: &World, arguments: &[&str], first_bad: i64) {
    let done = world.run(&[&["evidence", "verify", "--json"], arguments].concat());
    assert_eq!(done.code, 5, "{done:?}");
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&document["ok"], &document["first_bad"]), (&json!(false), &json!(first_bad)), "{document}");
    assert_eq!(document["rows"], first_bad - 1);
}

#[test]
fn a_whole_ledger_is_verified_with_and_without_a_daemon() {
    let world = World::with_mock();
    assert_eq!(world.run(&["evidence", "verify", "--json"]).json()["rows"], 0);
    assert_eq!(world.run(&["evidence", "head", "--json"]).json()["seq"], 0);
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let _daemon = world.serve();
    world.call("v1", "note", &json!({ "n": 1 }), None);
    let verified = world.run(&["evidence", "verify", "--json"]).json();
    assert_eq!((&verified["ok"], &verified["open_intents"]), (&json!(true), &json!([])));
    let head = world.run(&["evidence", "head"]).ok();
    assert_eq!(head.trim(), format!("{}:{}", verified["rows"], verified["head"]["event_hash"].as_str().unwrap()));
    assert!(world.run(&["evidence", "verify", "--kept", head.trim()]).ok().contains("is intact"));
    world.run(&["evidence", "verify", "--kept", "7"]).fails(2, &["SEQ:sha256:HASH"]);
}

#[test]
fn a_changed_row_is_named() {
    let world = world_with_rows();
    tamper(&world, "UPDATE ledger SET caller = 'group:main' WHERE seq = 3;");
    world.run(&["evidence", "verify"]).fails(5, &["row 3 does not have the hash of its content", "The 2 rows before"]);
    broken(&world, &[], 3);
    world.run(&["serve"]).fails(5, &["the evidence is broken", "row 3"]);
}

#[test]
fn a_missing_row_a_spoilt_row_and_a_second_outcome_are_named() {
    let world = world_with_rows();
    tamper(&world, "DELETE FROM ledger WHERE seq = 2;");
    broken(&world, &[], 2);
    let world = world_with_rows();
    tamper(&world, "UPDATE ledger SET event_hash = x'00' WHERE seq = 4;");
    broken(&world, &[], 4);
    let world = world_with_rows();
    tamper(&world, "UPDATE ledger SET prev_hash = zeroblob(32) WHERE seq = 5;");
    broken(&world, &[], 5);
}

#[test]
fn a_cut_or_rewritten_ledger_does_not_hold_a_head_that_was_kept() {
    let world = world_with_rows();
    let head = world.run(&["evidence", "head"]).ok();
    let last: i64 = head.split(':').next().unwrap().parse().unwrap();
    let forged = format!("{last}:sha256:{}", "0".repeat(64));
    broken(&world, &["--kept", &forged], last);
    tamper(&world, &format!("DELETE FROM ledger WHERE seq = {last};"));
    world.run(&["evidence", "verify"]).fails(5, &["no checkpoint of the ledger has the key of the kept checkpoint"]);
    std::fs::remove_file(world.home.join("keys/checkpoint.note")).unwrap();
    world.run(&["evidence", "verify"]).ok();
    broken(&world, &["--kept", head.trim()], last);
}

#[test]
fn an_export_is_verified_by_this_program_and_by_another() {
    let world = world_with_rows();
    let export = world.run(&["evidence", "export", "--format", "jsonl"]).ok();
    let rows: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let head = world.run(&["evidence", "head", "--json"]).json();
    assert_eq!((rows.len(), &rows.last().unwrap()["event_hash"]), (7, &head["event_hash"]));
    let mut previous = json!(format!("sha256:{}", "0".repeat(64)));
    for row in &rows {
        assert_eq!(row["prev_hash"], previous);
        assert_eq!(row["event_hash"], recomputed(row));
        previous = row["event_hash"].clone();
    }
    let file = world.home.join("x.jsonl");
    let path = file.to_str().unwrap();
    std::fs::write(&file, &export).unwrap();
    assert_eq!(world.run(&["evidence", "verify", "--file", path, "--json"]).json()["rows"], 7);
    world.run(&["evidence", "verify", "--file", "/nowhere"]).fails(2, &["/nowhere"]);
    for (bad, from, to) in [(4, "note", "nota"), (5, "\"seq\":5", "\"seq\":5,\"more\":1"), (6, "{", "")] {
        let line = |(number, line): (usize, &str)| {
            if number + 1 == bad { line.replacen(from, to, 1) } else { line.to_owned() }
        };
        let changed: Vec<_> = export.lines().enumerate().map(line).collect();
        assert_ne!(changed.join("\n"), export.trim_end());
        std::fs::write(&file, changed.join("\n")).unwrap();
        broken(&world, &["--file", path], i64::try_from(bad).unwrap());
    }
}

/// A verifier that knows only the documented format.
fn recomputed(row: &Value) -> String {
    const COLUMNS: [&str; 20] = [
        "seq",
        "ts",
        "kind",
        "caller",
        "person",
        "request_id",
        "provider",
        "action",
        "level",
        "params_digest",
        "summary",
        "reason_code",
        "result_summary",
        "result_digest",
        "task_id",
        "approval",
        "policy_version",
        "duration_ms",
        "body",
        "prev_hash",
    ];
    let mut text = b"ext-broker ledger row v1\n".to_vec();
    for name in COLUMNS {
        let bytes = match &row[name] {
            Value::Null => {
                text.extend(b"-,");
                continue;
            }
            Value::String(digest) if name.ends_with("_digest") || name.ends_with("_hash") => {
                base16ct::lower::decode_vec(digest.strip_prefix("sha256:").unwrap()).unwrap()
            }
            Value::String(word) => word.clone().into_bytes(),
            other @ (Value::Number(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                other.to_string().into_bytes()
            }
        };
        text.extend(bytes.len().to_string().bytes().chain([b':']).chain(bytes).chain([b',']));
    }
    format!("sha256:{}", base16ct::lower::encode_string(&Sha256::digest(&text)))
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let world = world_with_rows();
    for arguments in [&["evidence", "export"][..], &["reason-codes"], &["reason-codes", "--json"], &["--help"]] {
        assert_eq!(world.run_unread(arguments), 0, "{arguments:?}");
    }
}
