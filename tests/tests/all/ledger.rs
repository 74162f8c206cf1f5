//! The ledger on its worst day: locked, full, changed by somebody.

use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::json;
use tests::group::{call, code, with};
use tests::{World, evidence, until};

/// The largest file that the daemon may write from now on: enough for a reply, too little for the ledger's log.
pub(super) fn limit_files(world: &World, bytes: Option<u64>) {
    prlimit(Some(world.pid()), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

pub(super) const SMALL: Option<u64> = Some(4096);

fn world_with_limits() -> World {
    let mut world = World::builder().down();
    world.start_process_that_survives_limits();
    world.grant("developer", 2);
    world.grant("security", 2);
    world
}

/// Attack (Repeats, crashes and evidence): The ledger cannot be written.
/// Defence: Nothing is executed, and the reply says so.
#[test]
fn a_ledger_that_cannot_be_written_executes_nothing_says_so_and_recovers_by_itself() {
    let world = world_with_limits();
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    let before = world.rows().len();
    limit_files(&world, SMALL);
    for group in ["developer", "security"] {
        for document in [
            call("charge", json!({})),
            call("echo", json!({})),
            call("deploy", json!({})),
            json!({ "type": "ext_capabilities" }),
        ] {
            let reply = world.group(group).ask(document.clone());
            assert_eq!(code(&reply), "evidence_unavailable", "{document}");
            assert!(reply.get("evidence").is_none(), "there is none: {reply}");
        }
    }
    assert_eq!(world.cannot_write()["reason"], "io_error");
    assert_eq!(developer.waiting(), 0, "what was turned away is not found again");
    let grant = json!({ "type": "grant", "group_folder": "main", "provider": "demo", "access_level": 1 });
    assert_eq!(code(&world.command(grant)), "evidence_unavailable");
    limit_files(&world, None);
    assert_eq!(world.rows().len(), before, "nothing was written");
    // Nobody calls, and the daemon finds out by itself.
    until("a ledger that can be written", || world.cannot_write().is_null().then_some(()));
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
    assert_eq!(code(&world.group("main").call("echo", json!({}))), "no_grant");
}

/// Attack (Repeats, crashes and evidence): The ledger fails after the effect.
/// Defence: The result is not disclosed.
#[test]
fn an_outcome_that_cannot_be_written_is_not_handed_over_and_is_written_when_it_can_be() {
    let world = world_with_limits();
    let developer = world.group("developer");
    let id = developer.send(call("charge", json!({ "ms": 500 })));
    until("the intent", || (world.kinds_of(&developer, &id) == ["intended"]).then_some(()));
    limit_files(&world, SMALL);
    until("the effect", || (world.effects_of("charge").len() == 1).then_some(()));
    // Nothing new is admitted while an outcome waits to be written.
    assert_eq!(code(&world.group("security").call("echo", json!({}))), "evidence_unavailable");
    assert_eq!(developer.try_reply(&id), None);
    limit_files(&world, None);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.kinds_of(&developer, &id), ["intended", "succeeded"]);
    // The space for outcomes was given up for this one, and is taken again before anything new is admitted.
    let security = world.group("security");
    until("room for new calls", || (code(&security.call("echo", json!({}))) == "executed").then_some(()));
}

#[test]
fn a_caller_whose_outcome_cannot_be_written_hears_that_it_is_unknown_before_it_leaves() {
    let world = world_with_limits();
    let developer = world.group("developer");
    let id = developer.send(with(call("charge", json!({ "ms": 400 })), "timeout_ms", 3000));
    until("the intent", || (world.kinds_of(&developer, &id) == ["intended"]).then_some(()));
    limit_files(&world, SMALL);
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "outcome_unknown", "{reply}");
    limit_files(&world, None);
    until("the outcome", || (world.kinds_of(&developer, &id) == ["intended", "succeeded"]).then_some(()));
    let asked = developer.ask(json!({ "type": "ext_result", "of": id }));
    assert_eq!(code(&asked), "executed", "what is known later can be asked for");
    assert_eq!(world.effects_of("charge").len(), 1);
}

#[test]
fn a_host_killed_while_it_could_not_write_leaves_an_unknown_outcome_and_no_second_effect() {
    let mut world = world_with_limits();
    let developer = world.group("developer");
    let id = developer.send(call("lossy", json!({})));
    developer.reply(&id);
    let id = developer.send(with(call("charge", json!({ "ms": 400 })), "idempotency_key", "k"));
    until("the intent", || (world.kinds_of(&developer, &id) == ["intended"]).then_some(()));
    limit_files(&world, SMALL);
    until("the effect", || (world.effects_of("charge").len() == 1).then_some(()));
    world.kill();
    world.start_process();
    assert_eq!(code(&developer.reply(&id)), "outcome_unknown");
    let again = with(call("charge", json!({ "ms": 400 })), "idempotency_key", "k");
    assert_eq!(code(&developer.ask(again)), "outcome_unknown", "the key is held");
    assert_eq!(world.effects_of("charge").len(), 1);
}

#[test]
fn a_database_that_somebody_else_has_locked_is_waited_for_and_then_refused() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let other = Connection::open(world.path("ledger.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let id = developer.send(call("charge", json!({})));
    assert_eq!(code(&developer.reply(&id)), "evidence_unavailable");
    assert_eq!(world.cannot_write()["reason"], "locked");
    let status = String::from_utf8(world.cli(&["status"]).stdout).unwrap();
    assert!(status.contains("CANNOT BE WRITTEN since") && status.contains("another process holds"), "{status}");
    let waiting = developer.send(call("charge", json!({})));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(code(&developer.reply(&waiting)), "executed", "a short lock is only a delay");
    assert_eq!(world.effects_of("charge"), [waiting]);
}

#[test]
fn the_ledger_refuses_to_be_changed_even_by_who_can_write_the_file() {
    let world = World::with_grant();
    world.group("developer").call("charge", json!({}));
    let other = Connection::open(world.path("ledger.db")).unwrap();
    other.execute_batch("PRAGMA recursive_triggers = ON").unwrap();
    for sql in [
        "UPDATE ledger SET summary = 'nothing' WHERE seq = 2",
        "DELETE FROM ledger WHERE seq = 2",
        "DELETE FROM ledger",
        "INSERT OR REPLACE INTO ledger SELECT * FROM ledger WHERE seq = 2",
        "INSERT INTO ledger SELECT seq + 100, ts, kind, caller, person, request_id, provider, action, level,
             params_digest, summary, reason_code, result_summary, result_digest, task_id, approval, policy_version,
             duration_ms, body, prev_hash, event_hash FROM ledger WHERE seq = 2",
    ] {
        assert!(other.execute(sql, []).is_err(), "{sql}");
    }
}

/// Attack (Repeats, crashes and evidence): A row is changed.
/// Defence: The chain detects it, and the host does not start.
#[test]
fn a_host_does_not_start_on_evidence_that_was_tampered_with_and_names_the_row() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    for _ in 0..3 {
        developer.call("charge", json!({}));
    }
    world.stop();
    let ledger = world.path("ledger.db");
    let whole = std::fs::read(&ledger).unwrap();
    let gone = |sql: &str| {
        format!(
            "DROP TRIGGER ledger_is_append_only_update; DROP TRIGGER ledger_is_append_only_delete;
             DROP TRIGGER ledger_has_no_gaps; {sql}"
        )
    };
    for (sql, row) in [
        ("UPDATE ledger SET caller = 'group:security' WHERE seq = 4", "row 4"),
        ("UPDATE ledger SET ts = ts + 1 WHERE seq = 4", "row 4"),
        ("UPDATE ledger SET reason_code = 'x' WHERE seq = 4", "row 4"),
        ("UPDATE ledger SET body = replace(body, '4', '5') WHERE seq = 5", "row 5"),
        ("DELETE FROM ledger WHERE seq = 4", "row 5"),
        (
            "UPDATE ledger SET seq = 1000 WHERE seq = 4; UPDATE ledger SET seq = 4 WHERE seq = 5; UPDATE ledger SET seq = 5 WHERE seq = 1000",
            "row 4",
        ),
        ("UPDATE ledger SET event_hash = zeroblob(32) WHERE seq = 4", "row 4"),
    ] {
        let other = Connection::open(&ledger).unwrap();
        other.execute_batch(&gone(sql)).unwrap();
        drop(other);
        let fault = world.try_start().expect_err(sql).to_string();
        assert!(fault.starts_with("the evidence is broken") && fault.contains(row), "{sql}: {fault}");
        for beside in ["ledger.db-wal", "ledger.db-shm"] {
            std::fs::remove_file(world.path(beside)).ok();
        }
        std::fs::write(&ledger, &whole).unwrap();
    }
    world.start();
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
}

#[test]
fn a_host_does_not_start_with_a_ledger_key_that_is_not_its_own_or_that_others_may_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut world = World::with_grant();
    world.stop();
    let key = world.path("keys/ledger.key");
    let bytes = std::fs::read(&key).unwrap();
    std::fs::write(&key, "short").unwrap();
    assert!(world.try_start().unwrap_err().to_string().contains("32 bytes"));
    std::fs::write(&key, bytes).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(world.try_start().unwrap_err().to_string().contains("chmod 600"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    world.start();
    assert_eq!(code(&world.group("developer").call("charge", json!({}))), "executed");
}

#[test]
fn every_reply_rests_on_a_row_that_exists_with_that_hash() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let calls = ["echo", "charge", "broken", "deploy", "vanish"].map(|action| call(action, json!({})));
    let asked = [json!({ "type": "ext_list" }), json!({ "type": "ext_capabilities" }), json!({ "type": "what" })];
    for document in calls.into_iter().chain(asked) {
        let reply = developer.ask(document);
        let receipt = &reply["evidence"];
        let rows = world.rows();
        let row = rows.iter().find(|row| Some(row.seq) == receipt["seq"].as_i64()).expect("the row");
        assert_eq!(receipt["event_hash"], row.event_hash.to_string());
        assert_eq!(receipt["prev_hash"], row.prev_hash.to_string());
        assert_eq!(row.request_id.as_deref(), reply["request_id"].as_str());
    }
    for row in world.rows().iter().filter(|row| row.kind == "succeeded") {
        let of = evidence::body(row)["of"].as_i64().unwrap();
        assert!(of < row.seq, "an outcome follows its intent");
    }
}

#[test]
fn status_and_doctor_name_old_rows_that_a_daemon_leaves_without_a_checkpoint() {
    // The clock of the world is weeks behind the clock of the commands, so each row is old for them.
    let mut world = World::new();
    let said = |world: &World, arguments: &[&str]| String::from_utf8(world.cli(arguments).stdout).unwrap();
    let shown = said(&world, &["status"]);
    let words = format!("the oldest of {}; for the remedy: ", world.now());
    assert!(shown.contains("NO CHECKPOINT covers ") && shown.contains(&words), "{shown}");
    let found = said(&world, &["doctor"]);
    let problem = format!("the oldest of {}", world.now());
    assert!(found.contains("PROBLEM  checkpoints: no checkpoint covers ") && found.contains(&problem), "{found}");
    assert!(found.contains("if this stays, for the reason: "), "{found}");
    world.stop();
    let shown = said(&world, &["status"]);
    assert!(shown.contains(" rows signed 60 d ago, 0 rows after it") && !shown.contains("NO CHECKPOINT"), "{shown}");
    assert!(!said(&world, &["doctor"]).contains("PROBLEM  checkpoints"));
    world.clock.advance(std::time::Duration::from_secs(3600));
    world.start();
    let shown = said(&world, &["status"]);
    let words = format!("the oldest of {}; for the remedy: ", world.now());
    assert!(shown.contains(" rows signed 60 d ago, ") && shown.contains(&words), "{shown}");
}
