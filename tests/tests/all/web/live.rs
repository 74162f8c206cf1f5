//! The streams about rows: a line after a row, few lines for many rows, and an end with the session.

use super::{alice, builder};
use serde_json::json;
use std::time::Instant;
use tests::group::{call, code};
use tests::visitor::Visitor;

/// The calls of a moment. Each writes an intent and an outcome.
const CALLS: usize = 500;

/// The streams that one person may have.
const STREAMS_OF_ONE: usize = 8;

const STREAMS: [&str; 2] = ["/activity/events", "/evidence/events"];

/// The number of the last row on the page.
fn head_of(page: &str) -> i64 {
    let (_, rest) = page.split_once("<dt>row</dt><dd>").unwrap_or_else(|| panic!("no row: {page}"));
    rest.split('<').next().unwrap().parse().unwrap()
}

#[test]
fn a_call_reaches_an_open_page_without_a_poll() {
    let world = builder("audits = true\n").up();
    world.grant("developer", 2);
    let (alice, developer) = (alice(&world), world.group("developer"));
    for path in STREAMS {
        let fragment = path.replace("events", "fragment");
        let mut lines = alice.watch_at(path);
        assert_eq!(lines.next().as_deref(), Some("watching"), "{path}");
        let id = developer.send(call("echo", json!({})));
        assert_eq!(code(&developer.reply(&id)), "executed");
        let last = world.rows().last().unwrap().seq;
        assert_eq!(lines.next().as_deref(), Some("changed"), "{path}");
        // Any row makes a line. What counts is what the page then asks for.
        let text = alice.get(&fragment).text;
        let has_it = if path.starts_with("/activity") { text.contains(&id) } else { head_of(&text) >= last };
        assert!(has_it, "{path}, {id}, row {last}: {text}");
    }
    // A search has its own stream, with the checks of its page.
    assert_eq!(alice.watch_at("/activity/events?code=no_grant").next().as_deref(), Some("watching"));
    assert_eq!(alice.get("/activity/events?status=often").status, 400);
}

#[test]
fn one_person_cannot_take_the_streams_of_all_others() {
    let world = builder("audits = true\n").up();
    let (alice, operator) = (alice(&world), Visitor::signed_in(&world));
    let mut streams: Vec<_> = (0..STREAMS_OF_ONE).map(|_| alice.watch()).collect();
    assert!(streams.iter_mut().all(|lines| lines.next().as_deref() == Some("watching")));
    for path in STREAMS.into_iter().chain(["/events"]) {
        let refused = alice.get(path);
        assert!(refused.status == 503 && refused.text.contains("Close some of them"), "{path}: {refused:?}");
    }
    assert_eq!(operator.watch().next().as_deref(), Some("watching"));
    streams.pop();
    tests::until("a free place", || alice.watch().next());
}

#[test]
fn a_thousand_rows_are_few_lines_and_a_closed_session_ends_the_stream() {
    let world = builder("audits = true\n").up();
    world.grant("developer", 2);
    let (mut alice, developer) = (alice(&world), world.group("developer"));
    let before = world.rows().len();
    let began = Instant::now();
    let mut streams = STREAMS.map(|path| {
        let mut lines = alice.watch_at(path);
        assert_eq!(lines.next().as_deref(), Some("watching"), "{path}");
        lines
    });
    let ids: Vec<String> = (0..CALLS).map(|_| developer.send(call("echo", json!({})))).collect();
    for id in &ids {
        assert_eq!(code(&developer.reply(id)), "executed");
    }
    assert!(world.rows().len() >= before + 2 * CALLS);
    for (path, lines) in STREAMS.iter().zip(&mut streams) {
        assert_eq!(lines.next().as_deref(), Some("changed"), "{path}");
    }
    let form = alice.get("/").field("form");
    let cookie = alice.cookie.clone();
    assert_eq!(alice.post("/sign-out", &[("form", &form)]).status, 303);
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    for (path, lines) in STREAMS.into_iter().zip(streams) {
        let mut lines: Vec<String> = lines.collect();
        assert_eq!(lines.pop().as_deref(), Some("signed out"), "{path}");
        assert!(lines.iter().all(|line| line == "changed"), "{path}: {lines:?}");
        // A second at least is between two lines, however many rows there are.
        let most = began.elapsed().as_secs() + 1;
        assert!(u64::try_from(lines.len() + 1).unwrap() <= most, "{path}: {} lines in {most} s", lines.len());
    }
    alice.cookie = cookie;
    for path in STREAMS {
        assert_eq!(alice.get(path).status, 401, "{path}");
    }
}
