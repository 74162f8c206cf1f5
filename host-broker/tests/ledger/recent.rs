//! The rows and calls of the last hours: what is counted, and that a large ledger is not read whole.

use crate::ledger::plain_rows::{self, PlainRows};
use crate::ledger::world::START;
use serde_json::{Value, json};
use shared::Timestamp;
use shared::digest::Digest;
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::recent::{CallState, calls_since, first_since, rows_between};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// A row: its kind, its caller, its provider, whether it has a digest of parameters, and its body.
#[derive(Debug, Clone)]
struct Line(RowKind, &'static str, Option<&'static str>, bool, Value);

impl plain_rows::Line for Line {
    fn draft<T>(&self, append: impl FnOnce(&Draft<'_>) -> T) -> T {
        let Self(kind, caller, provider, has_digest, body) = self;
        let provider = provider.map(|name| name.parse().unwrap());
        append(&Draft {
            provider: provider.as_ref(),
            params_digest: has_digest.then(|| Digest::of(b"params")),
            duration_ms: body.get("of").map(|_| 7),
            body: body.clone(),
            ..Draft::new(*kind, caller)
        })
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

fn noted() -> Line {
    Line(RowKind::Noted, "broker", None, false, json!({}))
}

fn refused() -> Line {
    Line(RowKind::Refused, "group:developer", Some("demo"), true, json!({}))
}

#[test]
fn the_first_row_since_a_time_is_found_and_the_rows_of_each_part_are_counted() {
    let mut rows = PlainRows::new();
    assert_eq!(first_since(rows.ledger.view(), at(0)).unwrap(), 1, "there is no row");
    for count in [3, 1, 0, 4] {
        rows.write(vec![noted(); count]);
        rows.clock.turn(HOUR);
    }
    let view = rows.ledger.view();
    for (since, first) in [(-HOUR, 1), (0, 1), (1, 4), (HOUR, 4), (HOUR + 1, 5), (3 * HOUR, 5), (3 * HOUR + 1, 9)] {
        assert_eq!(first_since(view, at(since)).unwrap(), first, "{since}");
    }
    let times: Vec<Timestamp> = (-1..=4).map(|hour| at(hour * HOUR)).collect();
    assert_eq!(rows_between(view, &times).unwrap(), [0, 3, 1, 0, 4]);
    assert_eq!(rows_between(view, &[]).unwrap(), [0; 0]);
}

#[test]
fn a_call_counts_once_with_its_last_state() {
    let mut rows = PlainRows::new();
    let intended =
        |provider, stage| Line(RowKind::Intended, "group:developer", Some(provider), true, json!({ "stage": stage }));
    let outcome = |kind, of| Line(kind, "group:developer", None, false, json!({ "of": of, "stage": "run" }));
    let settled =
        |of, word| Line(RowKind::Settled, "group:developer", None, false, json!({ "settles": of, "as": word }));
    rows.write(vec![
        intended("a", "run"),
        outcome(RowKind::Succeeded, 1),
        // A read of remote facts is no call.
        intended("a", "prepare"),
        outcome(RowKind::Succeeded, 3),
        intended("b", "run"),
        outcome(RowKind::Failed, 5),
        intended("b", "run"),
        outcome(RowKind::TimedOut, 7),
        intended("c", "run"),
        outcome(RowKind::Unknown, 9),
        intended("c", "run"),
        outcome(RowKind::Unknown, 11),
        settled(11, "succeeded"),
        intended("c", "run"),
        outcome(RowKind::Unknown, 14),
        settled(14, "failed"),
        intended("d", "run"),
        refused(),
        // A refused command is no call, and neither is anything of a person or of the broker.
        Line(RowKind::Refused, "group:main", Some("demo"), false, json!({})),
        Line(RowKind::Refused, "person:alice", Some("demo"), true, json!({})),
        Line(RowKind::Intended, "broker", Some("demo"), true, json!({ "stage": "run" })),
        Line(RowKind::Refused, "outside:fgrnt_00000000", Some("demo"), true, json!({})),
    ]);
    let found = calls_since(rows.ledger.view(), at(0), 1_000).unwrap();
    assert_eq!(found.cut_before, None);
    let states: Vec<_> = found.calls.iter().map(|call| (call.provider.as_str(), call.state)).collect();
    let expected = [
        ("a", CallState::Executed),
        ("b", CallState::Failed),
        ("b", CallState::TimedOut),
        ("c", CallState::Unknown),
        ("c", CallState::Executed),
        ("c", CallState::Failed),
        ("d", CallState::Running),
        ("demo", CallState::Denied),
        ("demo", CallState::Denied),
    ];
    assert_eq!(states, expected);
    let took = |place: usize| found.calls[place].took;
    assert_eq!((took(0), took(6), took(7)), (Some(Duration::from_millis(7)), None, None));
}

/// Attack: see `of_a_huge_ledger_the_pages_read_a_bounded_part`.
#[test]
fn of_a_large_ledger_only_the_last_rows_are_read() {
    let mut rows = PlainRows::new();
    for _ in 0..5 {
        rows.write(vec![refused(); 100]);
        rows.clock.turn(MINUTE);
    }
    let found = |since, most| calls_since(rows.ledger.view(), at(since), most).unwrap();
    let whole = found(0, 500);
    assert_eq!((whole.calls.len(), whole.cut_before), (500, None));
    let part = found(0, 150);
    assert_eq!((part.calls.len(), part.cut_before), (150, Some(at(3 * MINUTE))));
    let last = found(4 * MINUTE, 150);
    assert_eq!((last.calls.len(), last.cut_before), (100, None));
    assert_eq!(found(5 * MINUTE, 150).calls.len(), 0);
}

#[test]
fn of_large_rows_only_those_within_the_bytes_are_read() {
    let mut rows = PlainRows::new();
    let text = "x".repeat(1 << 20);
    for _ in 0..70 {
        rows.write(vec![Line(
            RowKind::Intended,
            "group:developer",
            Some("demo"),
            true,
            json!({ "stage": "run", "text": text }),
        )]);
        rows.clock.turn(MINUTE);
    }
    let found = calls_since(rows.ledger.view(), at(0), 1_000).unwrap();
    assert_eq!((found.calls.len(), found.cut_before), (63, Some(at(7 * MINUTE))));
}
