//! The texts that people and agents read, whole, as files: cards, notices, pages, refusals, errors of the command line.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p tests --test all snapshots` writes them again. Read the difference before a commit.

mod cards;
mod notices;
mod pages;

use regex::Regex;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use tests::group::{call, with};
use tests::visitor::{Visitor, reference};
use tests::world::CONFIG;
use tests::{World, until};

const PROFILE: &str = "write = \"rules\"\nproduction = \"human\"\n[providers.demo]\nactions = { charge = \"human\" }\n";

/// Compares with the file, or writes it.
#[expect(clippy::disallowed_methods, reason = "whether to write the files is said outside")]
fn is_current(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, text, "{name}: UPDATE_SNAPSHOTS=1 cargo test -p tests --test all snapshots");
}

/// Replaces the parts that differ from run to run, and joins wrapped lines, whose ends depend on such parts.
fn normalised(world: &World, text: &str) -> String {
    let mut text = text.replace("\n    ¦ ", "").replace(world.home().to_str().unwrap(), "HOME");
    for code in world.query("SELECT code FROM approvals") {
        text = text.replace(code["code"].as_str().unwrap(), "CODE");
    }
    for (pattern, with) in [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?", "TIME"),
        (r"\b\d\d:\d\d(:\d\d)? UTC", "TIME"),
        // The tests start the program by a descriptor.
        (r"Usage: \d+ ", "Usage: host-broker "),
        (r"sha256:[0-9a-f]{64}", "DIGEST"),
        (r"\b[0-9a-f]{16,64}\b", "HEX"),
        (r"\b\d+ (d|h|min|s)( \d+ (h|min|s))? (left|ago)", "N $4"),
        (r"inbox-[0-9a-f]+", "inbox-HEX"),
        (r"(\\n|\b)(ask|standing|row|r)([- ])\d{1,3}\b", "$1$2${3}N"),
        (r"hitl-[0-9a-f-]{36}", "hitl-ID"),
        (r"\b\d+\.\d (KiB|MiB|GiB)", "SIZE"),
        (r"(?i)localhost:\d+", "localhost:PORT"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

/// The words of a page, one block in a line.
fn visible(page: &str) -> String {
    let hidden = Regex::new(r"(?s)<(script|style|head)\b.*?</(script|style|head)>").unwrap().replace_all(page, "");
    let blocks = "p|div|h\\d|li|ul|ol|tr|td|th|dt|dd|dl|section|article|form|button|pre|table|caption|thead|tbody|main|\
                  header|footer|nav|label|summary|details|textarea|option|select|figure|figcaption|svg|title|desc|text";
    let blocks = Regex::new(&format!(r"</?({blocks})\b[^>]*>")).unwrap();
    // Styles put space between neighbours.
    let apart = hidden
        .replace("</span><span", "</span> <span")
        .replace("</code><span", "</code> <span")
        .replace("</bdi><bdi", "</bdi> <bdi");
    let lines = blocks.replace_all(&apart, "\n");
    let text = Regex::new(r"<[^>]*>").unwrap().replace_all(&lines, "").into_owned();
    let text = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n") + "\n"
}

/// The main part of a page, without the frame that is the same around all pages.
fn main(page: &str) -> String {
    let (_, rest) = page.split_once("<main").unwrap_or_else(|| panic!("no main part: {page}"));
    visible(&format!("<main{}", rest.split("</main>").next().unwrap()))
}

fn ask(world: &World) -> String {
    let id = world.group("developer").send(call("charge", json!({ "to": "alice", "amount": 3 })));
    until("an approval request", || world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop());
    id
}

#[test]
fn the_page_of_an_approval_request() {
    let config = format!("{CONFIG}\n[web]\nlisten = \"127.0.0.1:0\"\n");
    let world = World::builder().config(&config).file("policy/profiles/developer.toml", PROFILE).up();
    world.grant("developer", 2);
    ask(&world);
    let page = Visitor::signed_in(&world).get(&format!("/approvals/{}", reference(&world)));
    is_current("page-approval.txt", &normalised(&world, &visible(&page.text)));
}

#[test]
fn the_notices_of_an_approval_request() {
    let mut world = World::builder().file("policy/profiles/developer.toml", PROFILE).down();
    let file = world.outside().join("notices");
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let script = format!("\"/bin/sh\", \"-c\", \"cat >> \\\"$0\\\"\", {:?}", file.display().to_string());
    world.rewrite(
        "broker.toml",
        &format!("{text}\n[[channels]]\nname = \"ops\"\nkind = \"command\"\ncommand = [{script}]\n"),
    );
    world.start();
    world.grant("developer", 2);
    ask(&world);
    let notice = until("a notice", || {
        let text = std::fs::read_to_string(&file).ok()?;
        serde_json::from_str::<Value>(text.lines().next()?).ok()
    });
    let text = serde_json::to_string_pretty(&notice).unwrap() + "\n";
    is_current("notice-asked.json", &normalised(&world, &text));
}

#[test]
fn the_refusals_that_an_agent_reads() {
    let world = World::new();
    let developer = world.group("developer");
    let mut text = String::new();
    let mut note = |reply: &Value| {
        let text_of = |member: &str| reply[member].as_str().unwrap_or("-").to_owned();
        writeln!(text, "{} {}: {}", text_of("status"), text_of("code"), text_of("error")).unwrap();
    };
    note(&developer.ask(call("echo", json!({}))));
    world.grant("developer", 1);
    note(&developer.ask(call("charge", json!({}))));
    note(&developer.ask(call("no_such_action", json!({}))));
    note(&developer.ask(with(call("echo", json!({})), "provider", "no_such_provider")));
    note(&developer.ask(with(call("echo", json!({})), "task_id", "no-such-task")));
    note(&developer.ask(json!({ "type": "ext_call" })));
    note(&developer.ask(json!({ "type": "no_such_type" })));
    note(
        &developer.ask(json!({ "type": "grant", "group_folder": "developer", "provider": "demo", "access_level": 3 })),
    );
    note(&developer.ask(json!({ "type": "ext_result", "of": "no-such-request" })));
    let revoke = json!({ "type": "revoke", "group_folder": "developer", "provider": "demo" });
    world.command(revoke);
    note(&developer.ask(call("echo", json!({}))));
    is_current("refusals.txt", &normalised(&world, &text));
}

#[test]
fn the_errors_of_the_command_line() {
    let world = World::new();
    let mut text = String::new();
    for arguments in [
        &["grant", "nobody", "demo", "1"][..],
        &["grant", "developer", "nothing", "1"],
        &["grant", "developer", "demo", "9"],
        &["revoke", "developer", "demo"],
        &["approvals", "show", "zzzzzz"],
        &["approvals", "approve", "zzzzzz"],
        &["calls", "show", "no-such-call"],
        &["explain", "developer", "demo", "no_such_action"],
        &["provider", "check", "nothing"],
        &["provider", "accept", "demo"],
        &["kill", "--group", "nobody"],
        &["task", "close", "no-such-task"],
        &["evidence", "verify", "--from", "9999"],
        &["reload", "--now"],
    ] {
        let output = world.cli(arguments);
        let said = String::from_utf8(output.stderr).unwrap() + &String::from_utf8(output.stdout).unwrap();
        writeln!(text, "$ host-broker {}\n{}[{}]\n", arguments.join(" "), said, output.status.code().unwrap()).unwrap();
    }
    is_current("errors.txt", &normalised(&world, &text));
}
