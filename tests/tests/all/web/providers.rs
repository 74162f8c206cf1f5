//! The page of the providers: calls, breakers, actions and definitions as they really are.

use super::{alice, builder, cells, is_sound};
use kernel::{BatchWriter, Effect, Ledger, Step, WriteError};
use regex::Regex;
use serde_json::json;
use shared::digest::Digest;
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::{Durability, Transaction};
use tests::World;
use tests::group::code;
use tests::world::SCRIPT;

/// A provider that cannot be reached, one that is switched off, and a breaker that opens soon.
const MORE: &str = "audits = true\n
[limits.\"*\".demo]
breaker = { faults = 2, open_s = 600 }

[providers.off]
kind = \"mock\"
script = \"demo.toml\"
enabled = false
";

const DOWN: &str = r#"
[actions.down]
level = 1
down = true
exposes = []
description = "</td><script>alert(1)</script>\u202e<img src=x onerror=alert(2)>"
"#;

fn world() -> World {
    let world = builder(MORE).script("demo", &format!("{SCRIPT}{DOWN}")).up();
    world.grant("developer", 2);
    world
}

#[test]
fn calls_are_counted_by_provider_and_outcome_and_the_breaker_is_the_real_one() {
    let world = world();
    let (alice, developer) = (alice(&world), world.group("developer"));
    let page = alice.get("/providers");
    assert_eq!(page.status, 200, "{}", page.text);
    is_sound(&page.text);
    let zeros = || ["0"; 6].map(str::to_owned).to_vec();
    let expected = |start: &[&str], took: &str| {
        let start = start.iter().map(ToString::to_string);
        start.chain(zeros()).chain([took.to_owned(), took.to_owned()]).collect::<Vec<_>>()
    };
    assert_eq!(cells(&page.text, "#provider-demo"), expected(&["demo", "mock", "ready", "closed"], ""));
    let off = expected(&["off", "mock", "switched off by the configuration", "closed"], "");
    assert_eq!(cells(&page.text, "#provider-off"), off);
    assert!(page.text.contains("No calls in the last 24 hours.") && !page.text.contains("<svg"), "{}", page.text);

    for (action, status) in [
        ("echo", "executed"),
        ("echo", "executed"),
        ("echo", "executed"),
        ("broken", "provider_failed"),
        ("wreck", "unknown_action"),
        ("vanish", "outcome_unknown"),
        ("echo", "executed"),
        ("down", "provider_failed"),
        ("down", "provider_failed"),
        ("echo", "breaker_open"),
    ] {
        let reply = developer.call(action, json!({}));
        assert_eq!(code(&reply), status, "{action}: {reply}");
    }
    let elsewhere = json!({ "type": "ext_call", "provider": "elsewhere", "action": "x", "params": {} });
    developer.ask(elsewhere);
    let page = alice.get("/providers").text;
    is_sound(&page);
    let demo = cells(&page, "#provider-demo");
    assert_eq!(demo[2..10], ["ready", "open for 1 caller", "4", "2", "3", "0", "1", "0"], "{demo:?}");
    assert!(demo[10].ends_with(" ms") && demo[11].ends_with(" ms"), "{demo:?}");
    for words in [
        "Calls to demo in each hour",
        "24 bars, from ",
        " executed: 4. denied: 2. failed: 3. timeout: 0. unknown: 1. running: 0. The highest bar is 10, at ",
        "<li class=\"denied\">denied: 2</li>",
        "developer</bdi>: 2 consecutive faults, open, ",
        "Calls to names that are no providers: 1.",
        "Times of calls to demo in each hour, in milliseconds",
        "1 of 24 hours has calls with a time. The slowest hour begins at ",
        "<li class=\"median\">median</li>",
    ] {
        assert!(page.contains(words), "no `{words}` in {page}");
    }
    assert_eq!(page.matches("<svg").count(), 2, "outcomes and times; the others have no calls");
    // The table beside the drawing has the same numbers, of every hour and of all calls that have an outcome.
    let table = page.split("<figure class=\"plot latency\"").nth(1).unwrap().split("</details>").next().unwrap();
    let hours = Regex::new("<td class=\"number\">(\\d+)</td><td class=\"number\">(\\d+ ms)?</td>").unwrap();
    let hours: Vec<(u64, bool)> =
        hours.captures_iter(table).map(|hour| (hour[1].parse().unwrap(), hour.get(2).is_some())).collect();
    assert_eq!((hours.len(), hours.iter().map(|(calls, _)| calls).sum::<u64>()), (24, 8), "{table}");
    assert!(hours.iter().all(|(calls, has_time)| (*calls > 0) == *has_time), "{hours:?}");
    // The numbers are those of the activity, which counts an unknown outcome as a failure.
    let activity = alice.get("/activity?provider=demo").text;
    let listed = |word: &str| activity.matches(&format!(">{word}</td>")).count();
    assert_eq!(["executed", "denied", "failed"].map(listed), [4, 2, 4], "{activity}");

    world.command(json!({ "type": "kill", "scope": { "provider": "demo" }, "on": true }));
    let page = alice.get("/providers").text;
    assert_eq!(cells(&page, "#provider-demo")[2], "stopped by a kill switch");
    assert_eq!(cells(&page, "#provider-private")[2], "ready");
    world.clock.advance(Duration::from_secs(25 * 3600));
    let page = super::alice(&world).get("/providers").text;
    assert!(!page.contains("<svg"), "the calls are older than a day: {page}");
}

/// Attack (The inbox): A server's description of its tools runs as script on the page of providers.
/// Defence: Every text is escaped, and a plot is made of numbers and of the broker's own words.
#[test]
fn every_action_is_listed_with_its_level_and_what_a_provider_says_is_text() {
    let world = world();
    let page = alice(&world).get("/providers").text;
    is_sound(&page);
    for raw in ["<img", "\u{202e}", "<script>alert"] {
        assert!(!page.contains(raw), "{raw}: {page}");
    }
    let down = cells(&page, ">down</bdi>");
    assert_eq!(down[1], "L1 (read)");
    assert!(down[2].contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{down:?}");
    assert_eq!(cells(&page, ">deploy</bdi>")[1], "L3 (production)");
}

/// Rows of refused calls, which a ledger has many of after an agent has gone wild.
#[derive(Debug)]
struct Refusal;

impl From<Effect> for Refusal {
    fn from(effect: Effect) -> Self {
        panic!("nothing starts here: {effect:?}")
    }
}

struct Writer;

impl BatchWriter<Refusal> for Writer {
    type FollowUps = ();

    fn write<'tx>(&mut self, tx: &Transaction<'tx>, event: Refusal) -> Result<Step<'tx, Refusal>, WriteError<Refusal>> {
        let provider = "demo".parse().unwrap();
        let draft = Draft {
            provider: Some(&provider),
            params_digest: Some(Digest::of(b"params")),
            ..Draft::new(RowKind::Refused, "group:developer")
        };
        match tx.append(&draft) {
            Ok(_) => Ok(kernel::close(tx, event, None)),
            Err(error) => Err(WriteError { event, error }),
        }
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}

/// Attack (The inbox): An agent makes so many rows that a page reads for a long time and holds up
/// others.
/// Defence: A page reads a bounded part of the ledger, in rows and bytes. These reads share a
/// connection that no other page uses, and run one after the other. Names that are no providers are
/// only counted.
#[test]
fn of_a_huge_ledger_the_pages_read_a_bounded_part() {
    const ROWS: i64 = 60_000;
    let mut world = builder("audits = true\n").up();
    world.stop();
    let mut ledger = Ledger::open(&world.home(), world.clock.clone(), "v1".to_owned()).unwrap();
    while ledger.head().seq < ROWS {
        let batch = (0..1_000).map(|_| Refusal).collect();
        assert!(ledger.batch(Durability::Normal, batch, &mut Writer).unwritten.is_empty());
    }
    drop(ledger);
    world.start();
    let alice = alice(&world);
    let page = alice.get("/providers").text;
    assert!(page.contains("The ledger has very many rows, so only calls since "), "{page}");
    let denied: i64 = cells(&page, "#provider-demo")[5].parse().unwrap();
    assert!((49_000..=50_000).contains(&denied), "{denied}");
    let evidence = alice.get("/evidence").text;
    assert!(evidence.contains(&format!("rows: {}", world.rows().len())), "{evidence}");
    assert!(page.len() < 100_000 && evidence.len() < 100_000, "{} and {} bytes", page.len(), evidence.len());
}
