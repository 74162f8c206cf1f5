//! A disk that is really full.

use serde_json::json;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use tests::group::{call, code};
use tests::world::{CONFIG, SCRIPT};
use tests::{World, evidence, skipped, until};

/// The database, its log and what is reserved, and not much more.
const MEBIBYTES: u32 = 24;

/// An effect that takes place when somebody reads it. It waits a moment first, so that it waits for its reader where
/// effects run and not where they begin.
const HELD: &str = "[actions.held]\nlevel = 2\nlatency_ms = 1\nappend_to = \"held.log\"\nexposes = [\"egress\"]\n";

/// Writes until there is no space left.
fn fill(world: &World) {
    let mut filler = File::create(world.path("filler")).unwrap();
    for block in [1 << 20, 1 << 12, 1] {
        while filler.write_all(&vec![b'x'; block]).is_ok() {}
    }
}

#[test]
fn on_a_full_disk_nothing_is_executed_what_was_under_way_is_recorded_and_freed_space_is_enough_to_go_on() {
    let mut world = World::builder().script("demo", &format!("{SCRIPT}\n{HELD}")).down();
    if let Err(why) = world.move_to_a_small_disk(MEBIBYTES) {
        return skipped(&why);
    }
    // Effects are counted on another disk.
    let counted = world.outside().join("charge.log");
    File::create(&counted).unwrap();
    symlink(&counted, world.path("charge.log")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("held.log"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    world.start_process();
    world.grant("developer", 2);
    let (developer, security) = (world.group("developer"), world.group("security"));
    let held = developer.send(call("held", json!({})));
    until("the intent", || (world.kinds_of(&developer, &held) == ["intended"]).then_some(()));
    // Somebody reads the ledger for long, so that its log can only grow.
    let reader = evidence::connection(&world.home());
    reader.execute_batch("BEGIN; SELECT count(*) FROM ledger;").unwrap();
    fill(&world);
    // Each of these changes takes a page of the log.
    let writer = rusqlite::Connection::open(world.home().join("ledger.db")).unwrap();
    while writer.execute("UPDATE delivered SET turn = 1 - turn", []).is_ok() {}
    drop(writer);
    assert_eq!(code(&security.call("echo", json!({}))), "evidence_unavailable");
    for action in ["charge", "echo", "deploy"] {
        let reply = developer.call(action, json!({}));
        assert_eq!(code(&reply), "evidence_unavailable");
        assert!(reply.get("evidence").is_none(), "there is none: {reply}");
    }
    let status = String::from_utf8(world.cli(&["--json", "status"]).stdout).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let cannot_write = &status["daemon"]["evidence"]["cannot_write"];
    assert_eq!(cannot_write["reason"], "disk_full", "{status}");
    assert_eq!(world.effects_of("charge"), [""; 0]);
    assert_eq!(world.kinds_of(&developer, &held), ["intended"]);
    assert!(world.path("reserve").exists(), "refusing needs no space");
    // Now what was under way comes to its end.
    let mut effect = String::new();
    File::open(world.path("held.log")).unwrap().read_to_string(&mut effect).unwrap();
    assert_eq!(effect.trim(), held);
    assert_eq!(code(&developer.reply(&held)), "executed");
    assert_eq!(world.kinds_of(&developer, &held), ["intended", "succeeded"]);
    assert_eq!(code(&developer.call("charge", json!({}))), "evidence_unavailable", "the rest is for outcomes");
    assert_eq!(world.cannot_write()["since"], cannot_write["since"], "it is the same fault");
    drop(reader);
    std::fs::remove_file(world.path("filler")).unwrap();
    until("calls work again", || (code(&developer.call("charge", json!({}))) == "executed").then_some(()));
    assert_eq!(world.effects_of("charge").len(), 1);
    until("a ledger that can be written", || world.cannot_write().is_null().then_some(()));
    until("space is reserved again", || world.path("reserve").exists().then_some(()));
    // It would wait for a reader at the end.
    std::fs::remove_file(world.path("held.log")).unwrap();
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    // A provider without its secret is a line of the log.
    let config = format!("{CONFIG}\n[providers.github]\nkind = \"github\"\n");
    let mut world = World::builder().config(&config).down();
    world.start_process_without_log();
    world.grant("developer", 1);
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    assert_eq!(world.daemon_log(), "");
}
