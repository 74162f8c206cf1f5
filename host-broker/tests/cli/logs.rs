//! The log: in files that `logs` shows, on standard error, and never in the way of a call.

use super::world::{World, finish};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

#[test]
fn the_log_of_a_daemon_is_kept_and_shown_by_level_number_and_time() {
    let world = World::with_mock();
    world.run(&["logs"]).fails(3, &["there is no log yet"]);
    let daemon = world.serve();
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    assert_eq!(super::world::mode(&world.home.join("log/broker.jsonl")), 0o600);
    let shown = world.run(&["logs"]).ok();
    let last = shown.lines().last().unwrap();
    assert!(last.contains(" INFO  the last row is written row=") && last.contains(" commits="), "{shown}");
    let documents = world.run(&["logs", "--json"]).ok();
    for line in documents.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["timestamp"].is_string() && line["fields"]["message"].is_string(), "{line}");
    }
    assert_eq!(documents.lines().count(), shown.lines().count());
    assert_eq!(world.run(&["logs", "-n", "1"]).ok().trim_end(), last);
    assert_eq!(world.run(&["logs", "--since", "1h"]).ok(), shown);
    assert!(!world.run(&["logs", "--level", "error"]).ok().contains(" INFO "));
    let old = r#"{"timestamp":"2020-01-01T00:00:00.0Z","level":"ERROR","fields":{"message":"old"},"target":"x"}"#;
    std::fs::write(world.home.join("log/broker.1.jsonl"), format!("{old}\n")).unwrap();
    assert_eq!(world.run(&["logs", "--level", "error"]).ok(), "2020-01-01T00:00:00.0Z ERROR old\n");
    assert_eq!(world.run(&["logs", "--level", "error", "--since", "7d"]).ok(), "");
    world.run(&["logs", "--since", "soon"]).fails(2, &["--since"]);
    world.run(&["logs", "--level", "loud"]).fails(2, &["possible values: error, warn, info"]);
}

/// Attack (Providers and modules): Text in the log redraws the operator's terminal.
/// Defence: `cli::logs` shows control characters as escapes
#[test]
fn lines_that_are_cut_or_foreign_are_left_out_and_their_signs_are_shown() {
    let world = World::with_mock();
    std::fs::create_dir(world.home.join("log")).unwrap();
    let log = world.home.join("log/broker.jsonl");
    let fields = json!({ "message": "a\u{1b}[2Jb\nc", "path": "/x", "count": 3 });
    let line = json!({ "timestamp": "2026-01-01T00:00:00Z", "level": "WARN", "fields": fields, "target": "x" });
    let text = line.to_string();
    let cut = text.split_at(20).0;
    std::fs::write(&log, format!("no json\n\n[1]\n{text}\n\u{feff}\n{cut}")).unwrap();
    assert_eq!(world.run(&["logs"]).ok(), "2026-01-01T00:00:00Z WARN  a\\u{1b}[2Jb\\nc path=/x count=3\n");
}

#[test]
fn new_lines_are_followed_into_the_next_file() {
    let world = World::with_mock();
    std::fs::create_dir(world.home.join("log")).unwrap();
    let log = world.home.join("log/broker.jsonl");
    let line = |text: &str| {
        let line = json!({ "timestamp": "t", "level": "INFO", "fields": { "message": text }, "target": "x" });
        format!("{line}\n")
    };
    std::fs::write(&log, line("one")).unwrap();
    let mut following = world.start(&["logs", "--follow"]);
    assert_eq!(following.line(), "t INFO  one");
    let append = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let two = line("two");
    let (begin, end) = two.split_at(10);
    append(begin);
    append(end);
    assert_eq!(following.line(), "t INFO  two");
    append(&line("three"));
    std::fs::rename(&log, world.home.join("log/broker.1.jsonl")).unwrap();
    std::fs::write(&log, line("four")).unwrap();
    assert_eq!([following.line(), following.line()], ["t INFO  three", "t INFO  four"]);
}

/// Attack (Providers and modules): An agent causes many log lines, or a terminal is stopped, so
/// that writing the log would hold up the loop.
/// Defence: bounded queues that drop lines
#[test]
fn a_terminal_that_stands_still_holds_up_no_call() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    // Nobody reads the pipe, and it is full.
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(b"x").is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    let mut command = world.command(&["serve"]);
    let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
    // The command holds an end of the pipe, too.
    drop(command);
    let mut out = BufReader::new(daemon.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert_eq!(world.call("r1", "echo", &json!({}), None)["status"], "executed");
    world.run(&["stop"]).ok();
    assert!(daemon.wait().unwrap().success());
    assert!(world.run(&["logs"]).ok().contains("the last row is written"), "the other output has every line");
}

#[test]
fn standard_error_has_json_lines_where_the_operator_wants_them() {
    let world = World::with_mock();
    for (arguments, variable) in [(&["serve", "--log-format", "json"][..], None), (&["serve"], Some("json"))] {
        let mut command = world.command(arguments);
        command.envs(variable.map(|format| ("EXT_BROKER_LOG_FORMAT", format)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut daemon = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        world.run(&["stop"]).ok();
        let output = daemon.wait_with_output().unwrap();
        let lines = String::from_utf8(output.stderr).unwrap();
        assert!(lines.lines().count() > 0);
        for line in lines.lines() {
            assert!(serde_json::from_str::<Value>(line).unwrap()["fields"]["message"].is_string(), "{line}");
        }
    }
    let wrong = finish(world.command(&["serve"]).env("EXT_BROKER_LOG_FORMAT", "xml"));
    wrong.fails(2, &["EXT_BROKER_LOG_FORMAT must be text or json"]);
}
