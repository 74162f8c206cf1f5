//! A sender removes its request while the host writes the row. Whoever removes the file first decides.

use rustix::process::Pid;
use serde_json::{Value, json};
use tests::group::{call, code, with};
use tests::strace::{Strace, missing};
use tests::{Group, World, skipped, until};

/// How long the sync takes: longer than a slow machine needs to remove a file.
const SYNC: &str = "inject=fdatasync:delay_enter=4000000:when=1";

/// Sends a request, removes its file while its row is synced, and waits until the row is durable.
fn withdrawn_in_time(world: &World, group: &Group, document: Value) -> String {
    let wal = world.path("ledger.db-wal");
    let written = || std::fs::metadata(&wal).ok().and_then(|found| found.modified().ok());
    let pids: Vec<Pid> = world.threads().into_iter().map(|(_, pid)| pid).collect();
    let log = world.outside().join("trace");
    let strace = Strace::attach(&pids, &["-e", "trace=fdatasync", "-e", SYNC], &log);
    let before = written();
    let id = group.send(document);
    until("the row is written", || (written() != before).then_some(()));
    std::fs::remove_file(group.task(&format!("{id}.json"))).expect("the file is there until the row is durable");
    until("the row", || (!world.rows_of(group, &id).is_empty()).then_some(()));
    let trace = strace.detach();
    assert!(trace.contains("DELAYED"), "{trace}");
    id
}

/// Attack (The group's socket): A shim removes the file of its request while the host writes the
/// row.
/// Defence: Of two that remove a file, one succeeds. If it is the shim, no effect begins.
#[test]
fn a_request_whose_file_is_removed_while_its_row_is_written_has_no_effect() {
    if let Some(reason) = missing() {
        return skipped(reason);
    }
    let world = World::builder().process();
    world.grant("developer", 2);
    let group = world.group("developer").by_files();
    let keyed = || with(call("charge", json!({})), "idempotency_key", "k1");
    let id = withdrawn_in_time(&world, &group, keyed());
    until("the outcome", || (world.rows_of(&group, &id).len() == 2).then_some(()));
    assert_eq!(world.kinds_of(&group, &id), ["intended", "failed"]);
    assert_eq!(world.effects_of("charge").len(), 0);
    let result = group.ask(json!({ "type": "ext_result", "of": id }));
    assert_eq!(code(&result), "cancelled", "{result}");
    // Its agent may send it again, under another id and with the same key.
    assert_eq!(code(&group.ask(keyed())), "executed");
    assert_eq!(world.effects_of("charge").len(), 1);
}

/// Attack: see `a_request_whose_file_is_removed_while_its_row_is_written_has_no_effect`.
#[test]
fn a_question_whose_file_is_removed_while_its_row_is_written_is_withdrawn() {
    if let Some(reason) = missing() {
        return skipped(reason);
    }
    let profile = "write = \"human\"\n";
    let world = World::builder().file("policy/profiles/developer.toml", profile).process();
    world.grant("developer", 2);
    let group = world.group("developer").by_files();
    let id = withdrawn_in_time(&world, &group, call("charge", json!({})));
    until("the approval request is over", || {
        let open = world.query("SELECT id FROM approvals WHERE state <> 'closed'");
        open.is_empty().then_some(())
    });
    assert_eq!(world.kinds_of(&group, &id), ["asked", "refused"]);
    assert_eq!(world.effects_of("charge").len(), 0);
}
