//! The machine's clock is wrong: it jumps, it was ahead, it is set right.

use serde_json::{Value, json};
use std::time::Duration;
use tests::fakes::real_now;
use tests::group::{call, code, error, with};
use tests::world::{CONFIG, PROFILE};
use tests::{Group, World, until};

const DAY: Duration = Duration::from_secs(24 * 3600 + 60);
const AHEAD: Duration = Duration::from_secs(3 * 24 * 3600);

/// Sets the clock forward; no time passes.
fn jump(world: &World, by: Duration) {
    world.clock.set(world.now().plus(by));
}

/// Waits until the daemon has forgotten what is old.
fn housekeeping(world: &World) {
    let reply = world.group("security").call("echo", json!({}));
    let row = reply["evidence"]["seq"].as_i64().unwrap();
    until("the mark of what has left", || {
        let found = world.query("SELECT seq FROM delivered");
        (found[0]["seq"].as_i64().unwrap() >= row).then_some(())
    });
}

fn keyed(group: &Group) -> Value {
    group.ask(with(call("charge", json!({})), "idempotency_key", "k"))
}

/// Attack (Repeats, crashes and evidence): a clock that is put a day forward, so that keys, pauses
/// and rates are forgotten and a call runs twice
/// Defence: they are dated by a steady clock that only advances while a daemon runs, by the
/// kernel's time since boot
#[test]
fn a_clock_that_jumps_forward_forgets_no_idempotency_key() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    world.grant("security", 1);
    let first = keyed(&developer);
    assert_eq!(code(&first), "executed");
    for restarts in [false, false, true, true] {
        jump(&world, DAY);
        if restarts {
            world.restart();
        }
        housekeeping(&world);
        let again = keyed(&developer);
        assert_eq!((code(&again), &again["data"]), ("executed", &first["data"]), "the stored reply is there, too");
        assert_eq!(world.effects_of("charge").len(), 1);
    }
    // A day has passed, most of it while a daemon ran.
    world.clock.advance(DAY);
    housekeeping(&world);
    assert_eq!(code(&keyed(&developer)), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
}

/// Attack: see `a_clock_that_jumps_forward_forgets_no_idempotency_key`.
#[test]
fn time_without_a_daemon_lets_nothing_be_forgotten() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    world.grant("security", 1);
    assert_eq!(code(&keyed(&developer)), "executed");
    world.stop();
    world.clock.advance(DAY);
    world.start();
    housekeeping(&world);
    assert_eq!(code(&keyed(&developer)), "executed");
    assert_eq!(world.effects_of("charge").len(), 1);
}

/// Attack: see `a_clock_that_jumps_forward_forgets_no_idempotency_key`.
#[test]
fn a_pause_after_a_no_and_a_rate_are_not_over_because_the_clock_is_put_forward() {
    let profile = format!("{PROFILE}[providers.demo]\nactions = {{ charge = \"human\" }}\n");
    let world = World::builder()
        .config(&format!("{CONFIG}\n[limits.\"*\".demo]\nread = {{ rate_per_minute = 1 }}\n"))
        .file("policy/profiles/developer.toml", profile)
        .up();
    world.grant("developer", 2);
    world.grant("security", 1);
    let developer = world.group("developer");
    let id = developer.send(call("charge", json!({ "n": 1 })));
    let answer = until("the approval request", || {
        let found = world.query("SELECT code, request_id FROM approvals WHERE state = 'waiting'");
        Some(found.into_iter().find(|row| row["request_id"] == id)?["code"].as_str()?.to_owned())
    });
    world.command(json!({ "type": "answer", "code": answer, "yes": false, "reason": null }));
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    jump(&world, DAY);
    housekeeping(&world);
    let again = developer.call("charge", json!({ "n": 1 }));
    assert!(error(&again).contains("the broker does not ask about it again before"), "{again}");
    assert_eq!(again["retry_after_ms"], 300_000);
    assert_eq!(code(&developer.call("echo", json!({}))), "rate_limited");
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
}

/// Attack (Repeats, crashes and evidence): a clock that was ahead: rows in the future, and grants
/// and approvals that would last too long once it is set right
/// Defence: nothing is admitted until a person who administers accepts the clock; what was given an
/// end meanwhile ends at once; only the row of that acceptance may be earlier than the one before
/// it
#[test]
fn a_clock_that_was_ahead_is_accepted_by_a_person_and_calls_are_admitted_again() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let right = world.now();
    jump(&world, AHEAD);
    let ahead = world.now();
    world.grant_with("security", 1, json!({ "expires_in_s": 3600 }));
    assert_eq!(code(&world.group("security").call("echo", json!({}))), "executed");
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    world.clock.set(right);
    assert_eq!(code(&developer.call("charge", json!({}))), "evidence_unavailable");
    let said = world.cannot_write();
    assert_eq!((&said["reason"], &said["since"]), (&json!("clock_behind"), &json!(right)));
    let text = said["error"].as_str().unwrap();
    let behind = format!("{} s earlier", AHEAD.as_secs());
    for part in [&ahead.to_string(), &right.to_string(), &behind, "host-broker evidence accept-clock"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let status = world.cli(&["status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.contains(&format!("CANNOT BE WRITTEN since {right}")) && status.contains("accept-clock"),
        "{status}"
    );

    let accepted = world.cli(&["evidence", "accept-clock"]);
    let printed = String::from_utf8_lossy(&accepted.stdout).into_owned();
    assert!(accepted.status.success() && printed.contains("The clock is accepted"), "{accepted:?}");
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    assert_eq!(world.cannot_write(), Value::Null);
    // Access for an hour in the future has expired.
    assert_eq!(code(&world.group("security").call("echo", json!({}))), "grant_expired");
    let rows = world.rows();
    let step = rows.iter().position(|row| row.kind == "clock_accepted").unwrap();
    assert_eq!((rows[step].caller.as_str(), rows[step].time()), ("person:operator", right));
    assert_eq!(rows[step - 1].time(), ahead);
    let body: Value = serde_json::from_str(&rows[step].body).unwrap();
    assert_eq!((&body["last_row"], &body["ended"]["grants"]), (&json!(ahead), &json!(1)));
    assert!(rows[..step].is_sorted_by_key(|row| row.ts) && rows[step..].is_sorted_by_key(|row| row.ts));
    let verified = world.cli(&["evidence", "verify"]);
    assert!(verified.status.success(), "{verified:?}");
    // Where there is nothing to accept, nothing changes.
    let again = world.command(json!({ "type": "accept_clock" }));
    assert_eq!(again["data"]["behind_ms"], 0, "{again}");
}

#[test]
fn an_outcome_waits_for_the_clock_to_be_accepted() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let right = world.now();
    jump(&world, AHEAD);
    let id = developer.send(call("charge", json!({ "ms": 300 })));
    until("the intent", || (world.kinds_of(&developer, &id) == ["intended"]).then_some(()));
    world.clock.set(right);
    until("the outcome that cannot be written", || (world.cannot_write() != Value::Null).then_some(()));
    until("the effect", || (world.effects_of("charge").len() == 1).then_some(()));
    assert_eq!(code(&developer.call("echo", json!({}))), "evidence_unavailable");
    let accepted = world.command(json!({ "type": "accept_clock" }));
    assert_eq!(code(&accepted), "executed", "{accepted}");
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.kinds_of(&developer, &id), ["intended", "succeeded"]);
}

#[test]
fn the_daemon_says_why_it_does_not_start_with_its_clock_behind_and_starts_once_the_clock_is_accepted() {
    // The first daemon has a clock that is two days ahead of the machine's; the next one has the machine's.
    let mut world = World::builder().clock(real_now().plus(2 * DAY)).up();
    world.grant("developer", 2);
    world.stop();
    assert!(!world.try_start_process());
    let log = world.daemon_log();
    assert!(log.contains("evidence accept-clock"), "{log}");
    world.kill();
    let accepted = world.cli(&["evidence", "accept-clock"]);
    assert!(accepted.status.success(), "{accepted:?}");
    world.start_process();
    // A grant from the future is over.
    world.grant("developer", 2);
    assert_eq!(code(&world.group("developer").call("charge", json!({}))), "executed");
    let verified = world.cli(&["evidence", "verify"]);
    assert!(verified.status.success(), "{verified:?}");
}
