//! A disk that is really full.

use rustix::process::Pid;
use serde_json::json;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use tests::group::{call, code, with};
use tests::strace::{Strace, missing};
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

/// Attack (Repeats, crashes and evidence): The disk is full.
/// Defence: The call is refused before the effect. Space is reserved for outcomes.
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
    hold(&world);
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
    // Before, a reply that a group has taken can free the page of one write. From here on, it is one fault.
    let on_reserve = world.cannot_write();
    assert_eq!(on_reserve["reason"], "disk_full", "{on_reserve}");
    assert_eq!(code(&developer.call("charge", json!({}))), "evidence_unavailable", "the rest is for outcomes");
    assert_eq!(world.cannot_write()["since"], on_reserve["since"], "it is the same fault");
    drop(reader);
    std::fs::remove_file(world.path("filler")).unwrap();
    until("calls work again", || (code(&developer.call("charge", json!({}))) == "executed").then_some(()));
    assert_eq!(world.effects_of("charge").len(), 1);
    until("a ledger that can be written", || world.cannot_write().is_null().then_some(()));
    until("space is reserved again", || world.path("reserve").exists().then_some(()));
    // It would wait for a reader at the end.
    std::fs::remove_file(world.path("held.log")).unwrap();
}

/// The action that waits until its effect is read.
fn hold(world: &World) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, world.path("held.log"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_caller_whose_outcome_cannot_be_written_keeps_the_loop_from_no_wait() {
    if let Some(reason) = missing() {
        return skipped(reason);
    }
    let builder = World::builder().script("demo", &format!("{SCRIPT}\n{HELD}"));
    let mut world = builder.file("policy/profiles/developer.toml", "write = \"human\"\n").down();
    hold(&world);
    world.start_process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let held = developer.send(with(call("held", json!({})), "timeout_ms", 10_000));
    let asked = || world.query("SELECT code FROM approvals WHERE state = 'waiting'");
    let approval = until("the approval request", || asked().pop())["code"].as_str().unwrap().to_owned();
    let yes = json!({ "type": "answer", "code": approval, "yes": true, "reason": null });
    assert_eq!(code(&world.command(yes)), "executed");
    until("the intent", || world.kinds_of(&developer, &held).contains(&"intended".to_owned()).then_some(()));
    let pids: Vec<Pid> = world.threads().into_iter().map(|(_, pid)| pid).collect();
    let (log, full) = (world.outside().join("trace"), "inject=pwrite64,fdatasync:error=ENOSPC");
    let seen = "trace=pwrite64,fdatasync,poll,ppoll,epoll_wait,epoll_pwait,epoll_pwait2";
    let strace = Strace::attach(&pids, &["-e", seen, "-e", full], &log);
    File::open(world.path("held.log")).unwrap().read_to_string(&mut String::new()).unwrap();
    assert_eq!(code(&developer.reply(&held)), "outcome_unknown");
    let trace = strace.detach();
    assert!(trace.contains("INJECTED"), "{trace}");
    let waits = trace.lines().filter(|line| line.contains("poll") && !line.contains("resumed")).count();
    assert!(waits < 2_000, "the loop has waited {waits} times");
    let outcome = || world.kinds_of(&developer, &held).contains(&"succeeded".to_owned());
    until("the outcome", || outcome().then_some(()));
    std::fs::remove_file(world.path("held.log")).unwrap();
}

/// Attack (Providers and modules): The disk of the log is full.
/// Defence: `tracing` reports no fault of its own.
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
