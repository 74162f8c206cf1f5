//! Checkpoints: what they find in a ledger that somebody rewrote with all of its hashes, and proofs for others.

use super::rows::fill;
use super::world::{World, wait_for};
use rusqlite::Connection;
use serde_json::{Value, json};
use shared::digest::Digest;
use std::path::Path;
use store::ledger::chain::Row;
use store::ledger::export;

/// A home with two checkpoints, each of one run of the daemon, and the output of `evidence checkpoint` after each.
fn world() -> (World, [String; 2]) {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let notes = ["e1", "e2"].map(|id| {
        let daemon = world.serve();
        world.call(id, "note", &json!({}), None);
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
        world.run(&["evidence", "checkpoint"]).ok()
    });
    (world, notes)
}

fn rows(world: &World) -> Vec<Row> {
    let exported = world.run(&["evidence", "export"]).ok();
    exported.lines().map(|line| export::parse_line(line).unwrap()).collect()
}

/// Cuts the ledger after these rows, and writes them with all of their hashes, as somebody with the file could.
fn rewrite(world: &World, rows: Vec<Row>) {
    let mut connection = Connection::open(world.home.join("ledger.db")).unwrap();
    let transaction = connection.transaction().unwrap();
    let last = rows.len();
    transaction
        .execute_batch(&format!(
            "DROP TRIGGER IF EXISTS ledger_is_append_only_update;
             DROP TRIGGER IF EXISTS ledger_is_append_only_delete;
             CREATE TABLE IF NOT EXISTS whole AS SELECT * FROM ledger;
             DELETE FROM ledger; DELETE FROM checkpoint;
             INSERT INTO ledger SELECT * FROM whole WHERE seq <= {last} ORDER BY seq;"
        ))
        .unwrap();
    let mut before = Digest::ZERO;
    for mut row in rows {
        row.prev_hash = before;
        row.event_hash = row.hash();
        before = row.event_hash;
        let columns = rusqlite::params![row.seq, row.caller, row.prev_hash.as_bytes(), row.event_hash.as_bytes()];
        let update = "UPDATE ledger SET caller = ?2, prev_hash = ?3, event_hash = ?4 WHERE seq = ?1";
        assert_eq!(transaction.execute(update, columns), Ok(1));
    }
    transaction.commit().unwrap();
}

fn key(world: &World) -> String {
    world.run(&["evidence", "checkpoint", "--public-key"]).ok().trim().to_owned()
}

/// Another hash, in base64.
fn other(hash: &str) -> String {
    let first = if hash.starts_with('A') { 'B' } else { 'A' };
    std::iter::once(first).chain(hash.chars().skip(1)).collect()
}

fn write_key(path: &Path, byte: u8) {
    std::fs::write(path, [byte; 32]).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

/// Stores a text in a file beside the home.
fn file(world: &World, name: &str, text: &str) -> String {
    let path = world.home.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn each_stop_signs_all_rows_and_a_kept_checkpoint_is_found_again() {
    let (world, notes) = world();
    let verified = world.run(&["evidence", "verify", "--json"]).json();
    let last = verified["rows"].as_i64().unwrap();
    let key = key(&world);
    let expected = json!({ "row": last, "size": last - 1, "unsigned": 0, "key": key, "endorsed": true });
    assert_eq!(verified["checkpoint"], expected);
    let kept = notes.map(|note| note.lines().nth(1).unwrap().parse::<i64>().unwrap());
    assert_eq!(kept[1], last - 1);
    for (name, note) in [("first", &notes_of(&world, 0)), ("second", &notes_of(&world, 1))] {
        let path = file(&world, name, note);
        world.run(&["evidence", "verify", "--checkpoint", &path, "--key", &key]).ok();
    }
    let document = world.run(&["evidence", "checkpoint", "--json"]).json();
    assert_eq!((&document["row"], &document["key"]), (&json!(last), &json!(key)));
    world.run(&["evidence", "verify", "--key", "nonsense"]).fails(2, &["ORIGIN+ID+BASE64"]);
    let other = file(&world, "other", "no checkpoint");
    world.run(&["evidence", "verify", "--checkpoint", &other]).fails(2, &["it has no signature"]);
}

/// The notes in the rows of the ledger.
fn notes_of(world: &World, index: usize) -> String {
    let bodies = rows(world).into_iter().filter(|row| row.kind == "checkpointed").map(|row| row.body);
    let note = |body: String| serde_json::from_str::<Value>(&body).unwrap()["note"].as_str().unwrap().to_owned();
    bodies.map(note).nth(index).unwrap()
}

#[test]
fn a_ledger_that_was_rewritten_with_all_of_its_hashes_is_found() {
    let (world, notes) = world();
    let (kept, key) = (file(&world, "kept", &notes[0]), key(&world));
    let changed = |mut rows: Vec<Row>| {
        rows[1].caller = "group:main".to_owned();
        rows
    };
    // With its checkpoints, it contradicts itself.
    let whole = rows(&world);
    let signed = whole.iter().find(|row| row.kind == "checkpointed").unwrap().seq;
    rewrite(&world, changed(whole.clone()));
    let words = format!("row {signed} is a checkpoint of other rows");
    world.run(&["evidence", "verify"]).fails(5, &[&words]);
    world.run(&["serve"]).fails(5, &[&words]);
    // Without them, the checkpoint beside the keys shows it, or the one that somebody else kept, or the key.
    let unsigned: Vec<Row> = whole.iter().take_while(|row| row.kind != "checkpointed").cloned().collect();
    let cut = unsigned.len();
    rewrite(&world, changed(unsigned.clone()));
    world.run(&["evidence", "verify"]).fails(5, &[&format!("the ledger ends at row {cut}, but row")]);
    let verify = ["evidence", "verify", "--checkpoint", &kept];
    let words = format!("the first {cut} rows are not those of the kept checkpoint");
    world.run(&verify).fails(5, &[&words]);
    let note = world.home.join("keys/checkpoint.note");
    std::fs::rename(&note, world.home.join("note")).unwrap();
    world.run(&["evidence", "verify"]).ok();
    world.run(&["evidence", "verify", "--key", &key]).fails(5, &["no checkpoint is signed with a key of --key"]);
    std::fs::rename(world.home.join("note"), &note).unwrap();
    // A truncated one ends too early.
    rewrite(&world, unsigned.into_iter().take(cut - 1).collect());
    world.run(&verify).fails(5, &[&format!("the ledger ends at row {}, but row {cut} was acknowledged", cut - 1)]);
}

/// The daemon starts, so that people can stop and revoke. It admits no call and signs nothing.
fn signs_nothing(world: &World, fault: &str) {
    let before = rows(world).iter().filter(|row| row.kind == "checkpointed").count();
    let daemon = world.serve();
    let status = world.run(&["status"]).ok();
    assert!(status.contains("EVIDENCE BROKEN") && status.contains(fault), "{status}");
    let reply = world.call("c1", "note", &json!({}), None);
    assert_eq!(reply["code"], "evidence_unavailable", "{reply}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    assert_eq!(rows(world).iter().filter(|row| row.kind == "checkpointed").count(), before);
}

#[test]
fn a_daemon_never_signs_another_history_than_the_one_that_it_signed() {
    let (world, _) = world();
    let whole = rows(&world);
    let first = whole.iter().position(|row| row.kind == "checkpointed").unwrap();
    let second = whole.len();
    // Without the checkpoints, and with other rows.
    let mut stripped: Vec<Row> = whole.iter().take(first).cloned().collect();
    stripped[1].caller = "group:main".to_owned();
    rewrite(&world, stripped);
    let words = format!("row {second} is no checkpoint, although one was signed there");
    signs_nothing(&world, &words);
    // Cut after an earlier checkpoint.
    rewrite(&world, whole.iter().take(first + 1).cloned().collect());
    signs_nothing(&world, &words);
    // Put right again.
    rewrite(&world, whole);
    tamper_none(&world);
    let daemon = world.serve();
    wait_for(|| world.run(&["status", "--json"]).json()["daemon"]["evidence"]["verification"]["state"] == "whole");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    world.run(&["evidence", "verify"]).ok();
}

/// Forgets the finding that the broken ledger had, as the whole one never had it.
fn tamper_none(world: &World) {
    Connection::open(world.home.join("ledger.db")).unwrap().execute_batch("DELETE FROM broken_evidence").unwrap();
}

#[test]
fn a_changed_table_of_checkpoints_signs_nothing_false() {
    let (world, _) = world();
    let key = key(&world);
    for change in [
        "UPDATE checkpoint SET peaks = zeroblob(32)",
        "UPDATE checkpoint SET seq = 2",
        "UPDATE checkpoint SET key = 'x'",
        "DELETE FROM checkpoint",
    ] {
        Connection::open(world.home.join("ledger.db")).unwrap().execute_batch(change).unwrap();
        let daemon = world.serve();
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
        let verified = world.run(&["evidence", "verify", "--key", &key, "--json"]).json();
        assert_eq!(verified["checkpoint"]["unsigned"], 0, "{change}");
    }
}

#[test]
fn rows_that_no_checkpoint_covers_are_counted() {
    let (world, _) = world();
    let export: String = world.run(&["evidence", "export"]).ok().split_inclusive('\n').take(8).collect();
    let signed = export.lines().position(|line| line.contains(r#""kind":"checkpointed""#)).unwrap();
    let path = file(&world, "export", &export);
    let verify = ["evidence", "verify", "--file", &path, "--key", &key(&world)];
    let found = world.run(&verify).ok();
    assert!(found.contains(&format!("No signature covers the {} rows after it.", 7 - signed)), "{found}");
    let document = world.run(&[&verify[..], &["--json"]].concat()).json();
    assert_eq!(document["checkpoint"]["unsigned"], 7 - signed);
}

#[test]
fn a_restored_home_signs_with_a_new_key_that_the_old_one_endorses() {
    let (world, _) = world();
    let key = key(&world);
    let [backup, home] = ["backup", "restored"].map(|name| world.home.parent().unwrap().join(name));
    let (backup, home) = (backup.to_str().unwrap(), home.to_str().unwrap());
    world.run(&["backup", backup, "--with-keys"]).ok();
    world.run(&["--home", home, "restore", backup]).ok();
    let mut daemon = world.start(&["--home", home, "serve"]);
    assert_eq!(daemon.line(), "ready");
    world.run(&["--home", home, "stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let new = world.run(&["--home", home, "evidence", "checkpoint", "--public-key"]).ok();
    assert_ne!(new.trim(), key);
    for known in [&key, new.trim()] {
        world.run(&["--home", home, "evidence", "verify", "--key", known]).ok();
    }
    // A checkpoint that was signed after the backup is of another history.
    let running = world.serve();
    world.call("after", "note", &json!({}), None);
    world.run(&["stop"]).ok();
    assert_eq!(running.end(), 0);
    let later = file(&world, "later", &world.run(&["evidence", "checkpoint"]).ok());
    world.run(&["--home", home, "evidence", "verify", "--checkpoint", &later]).fails(5, &["the kept checkpoint"]);
}

#[test]
fn one_row_is_proved_to_somebody_without_the_ledger() {
    let (world, _) = world();
    let (elsewhere, key) = (World::with_mock(), key(&world));
    let verify = |proof: &str, key: &str| {
        let path = file(&elsewhere, "proof", proof);
        elsewhere.run(&["evidence", "verify", "--proof", &path, "--key", key])
    };
    for row in rows(&world).iter().rev().skip(1) {
        let proof = world.run(&["evidence", "prove", &row.seq.to_string()]).ok();
        assert!(verify(&proof, &key).ok().contains(&export::line(row)));
    }
    let proof = world.run(&["evidence", "prove", "3"]).ok();
    let document = world.run(&["evidence", "prove", "3", "--json"]).json();
    assert_eq!((&document["proof"], &document["row"]["seq"]), (&json!(proof), &json!(3)));
    let unrelated = {
        let daemon = elsewhere.serve();
        elsewhere.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
        super::checkpoints::key(&elsewhere)
    };
    verify(&proof, &unrelated).fails(5, &["no given key signed the checkpoint"]);
    let hash = proof.lines().nth(3).unwrap().to_owned();
    verify(&proof.replace(&hash, &other(&hash)), &key).fails(5, &["is not in the tree"]);
    verify(&proof.replace(&format!("{hash}\n"), ""), &key).fails(5, &["is not in the tree"]);
    verify(&proof.replace("index 2", "index 3"), &key).fails(2, &["its index is not the one of its row"]);
    verify(&proof.replace("tlog-proof@v1", "tlog-proof@v2"), &key).fails(2, &["the name of the format"]);
    verify("", &key).fails(2, &["it has no checkpoint"]);
    let last = rows(&world).len();
    world.run(&["evidence", "prove", &last.to_string()]).fails(3, &["the next checkpoint covers it"]);
    World::with_mock().run(&["evidence", "prove", "1"]).fails(3, &["has no checkpoint yet"]);
}

#[test]
fn a_later_checkpoint_is_proved_to_continue_an_earlier_one() {
    let (world, notes) = world();
    let (elsewhere, key) = (World::with_mock(), key(&world));
    let old = notes[0].lines().nth(1).unwrap();
    let proof = world.run(&["evidence", "consistency", old]).ok();
    let verify = |proof: &str, kept: &str| {
        let (proof, kept) = (file(&elsewhere, "proof", proof), file(&elsewhere, "kept", kept));
        elsewhere.run(&["evidence", "verify", "--consistency", &proof, "--checkpoint", &kept, "--key", &key])
    };
    let found = verify(&proof, &notes[0]).ok();
    assert!(found.contains(&format!("continues the kept checkpoint of {old} rows")), "{found}");
    verify(&proof, &notes[1]).fails(5, &["it is about an earlier checkpoint of"]);
    let hash = proof.lines().nth(1).unwrap().to_owned();
    verify(&proof.replace(&hash, &other(&hash)), &notes[0]).fails(5, &["does not continue"]);
    world.run(&["evidence", "consistency", "9999"]).fails(3, &["which are fewer than 9999"]);
}

#[test]
fn a_new_key_is_endorsed_and_a_replaced_one_is_reported() {
    let (world, _) = world();
    let first = key(&world);
    let run = || {
        let daemon = world.serve();
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
    };
    let keys = world.home.join("keys");
    let renewed = world.run(&["evidence", "renew-key", "--json"]).json();
    let second = key(&world);
    assert!(second != first && renewed["key"] == second, "{renewed}");
    assert!(!keys.join("checkpoint-before.key").exists(), "it has endorsed the new key");
    run();
    for known in [&first, &second] {
        world.run(&["evidence", "verify", "--key", known]).ok();
    }
    // A proof rests on the new key alone.
    let proof = file(&world, "proof", &world.run(&["evidence", "prove", "2"]).ok());
    let verify = ["evidence", "verify", "--proof", &proof, "--key", &first];
    world.run(&verify).fails(5, &["no given key signed the checkpoint"]);
    world.run(&[&verify[..], &["--key", &second]].concat()).ok();
    let daemon = world.serve();
    world.run(&["evidence", "renew-key"]).fails(3, &["the daemon is running; stop it first"]);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    // A renewal that was killed before its checkpoint ends with the next start.
    std::fs::rename(keys.join("checkpoint.key"), keys.join("checkpoint-before.key")).unwrap();
    write_key(&keys.join("checkpoint.key"), 9);
    run();
    run();
    assert!(!keys.join("checkpoint-before.key").exists());
    for known in [&first, &second] {
        world.run(&["evidence", "verify", "--key", known]).ok();
    }
    // A lost key is not made new.
    let path = keys.join("checkpoint.key");
    std::fs::remove_file(&path).unwrap();
    world.run(&["serve"]).fails(4, &["checkpoint.key", "restore it from a backup"]);
    write_key(&path, 7);
    let words = "is a checkpoint without a valid signature";
    signs_nothing(&world, words);
    tamper_none(&world);
    std::fs::remove_file(keys.join("checkpoint.note")).unwrap();
    run();
    let changed = rows(&world).len();
    let words = format!("from row {changed} on, the checkpoints are signed with a key that the earlier key does not");
    for known in [&first, &second] {
        world.run(&["evidence", "verify", "--key", known]).fails(5, &[&words]);
    }
    let found = world.run(&["evidence", "verify"]).ok();
    assert!(found.contains(&format!("From row {changed} on, a new key signs")), "{found}");
    assert_eq!(world.run(&["evidence", "verify", "--json"]).json()["checkpoint"]["endorsed"], false);
    world.run(&["evidence", "verify", "--key", &key(&world)]).ok();
}

#[test]
fn a_daemon_that_is_killed_signs_its_rows_after_the_next_start() {
    let world = World::with_mock();
    let daemon = world.serve();
    world.call("k1", "state", &json!({}), None);
    drop(daemon);
    world.run(&["evidence", "checkpoint"]).fails(3, &["has no checkpoint yet"]);
    let daemon = world.serve();
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let verified = world.run(&["evidence", "verify", "--json"]).json();
    assert_eq!(verified["checkpoint"]["size"], verified["rows"].as_i64().unwrap() - 1);
}

#[test]
fn status_warns_of_rows_without_a_checkpoint_until_one_is_signed() {
    let world = World::with_mock();
    let shown = || world.run(&["status"]).ok();
    let document = || world.run(&["status", "--json"]).json()["checkpoint"].clone();
    assert_eq!(document()["warning"], Value::Null, "there are no rows");
    // Without any checkpoint, young rows are enough.
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let found = document();
    let first = found["warning"].as_str().unwrap();
    assert!(first.starts_with("no checkpoint covers ") && first.ends_with("a running daemon signs one each minute"));
    assert!(shown().contains(first), "{}", shown());
    assert_eq!((&found["row"], &found["size"], &found["time"]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!(found["uncovered"], rows(&world).len());
    let run = || {
        let daemon = world.serve();
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
    };
    run();
    let row = rows(&world).len();
    let line = format!("checkpoint: {} rows signed less than a minute ago, 0 rows after it", row - 1);
    assert!(shown().contains(&line), "{}", shown());
    let found = document();
    let expected = json!({
        "row": row, "size": row - 1, "time": found["time"], "uncovered": 0, "uncovered_since": null, "warning": null,
    });
    assert!(found["time"].is_string() && found == expected, "{found}");
    // A table that its row does not confirm is no checkpoint.
    let database = || Connection::open(world.home.join("ledger.db")).unwrap();
    database().execute_batch("UPDATE checkpoint SET peaks = zeroblob(32)").unwrap();
    assert!(shown().contains(&format!("no checkpoint covers {row} rows yet;")), "{}", shown());
    run();
    assert_eq!(document()["warning"], Value::Null);
}

#[test]
fn status_warns_of_old_rows_if_the_daemon_cannot_write_its_checkpoint() {
    const REFUSED: &str =
        "CREATE TRIGGER refused BEFORE INSERT ON checkpoint BEGIN SELECT RAISE(ABORT, 'refused'); END";
    let world = World::with_mock();
    fill(&world.home, 999);
    let database = || Connection::open(world.home.join("ledger.db")).unwrap();
    let run = || {
        let daemon = world.serve();
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
        world.run(&["status"]).ok()
    };
    database().execute_batch(REFUSED).unwrap();
    let shown = run();
    let words = "NO CHECKPOINT covers ";
    let rest = "rows, the oldest of 2026-02-14T10:00:00.000Z; for the remedy: host-broker doctor";
    assert!(shown.contains(words) && shown.contains(rest), "{shown}");
    database().execute_batch("DROP TRIGGER refused").unwrap();
    let shown = run();
    assert!(shown.contains("0 rows after it") && !shown.to_lowercase().contains("no checkpoint"), "{shown}");
}
