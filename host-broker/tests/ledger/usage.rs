//! The used actions: what counts as a use, and from when on.

use crate::ledger::plain_rows::{self, PlainRows};
use crate::ledger::world::START;
use serde_json::{Value, json};
use shared::{Level, Timestamp};
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::usage::{ActionUse, Usage, used_since};

const HOUR: i64 = 3_600_000;

/// A row: its kind, its caller, its action, the level, and its body.
#[derive(Debug, Clone)]
struct Line(RowKind, &'static str, &'static str, Level, Value);

impl plain_rows::Line for Line {
    fn draft<T>(&self, append: impl FnOnce(&Draft<'_>) -> T) -> T {
        let Self(kind, caller, action, level, body) = self;
        let (provider, action) = ("demo".parse().unwrap(), action.parse().unwrap());
        append(&Draft {
            provider: Some(&provider),
            action: Some(&action),
            level: Some(*level),
            body: body.clone(),
            ..Draft::new(*kind, caller)
        })
    }
}

fn ran(caller: &'static str, action: &'static str, level: Level) -> Line {
    Line(RowKind::Intended, caller, action, level, json!({ "stage": "run" }))
}

fn of<'a>(usage: &'a Usage, group: &str, provider: &str) -> Vec<(&'a str, ActionUse)> {
    let used = usage.of(&group.parse().unwrap(), &provider.parse().unwrap());
    used.into_iter().flatten().map(|(action, one)| (action.as_str(), *one)).collect()
}

#[test]
fn a_use_is_a_permitted_call_of_a_group_also_one_that_another_call_makes() {
    let mut rows = PlainRows::new();
    let nested = json!({ "provider": "site", "action": "login", "level": 2 });
    rows.write(vec![ran("group:developer", "echo", Level::Read), ran("group:security", "echo", Level::Read)]);
    rows.clock.turn(HOUR);
    rows.write(vec![
        ran("group:developer", "echo", Level::Write),
        Line(RowKind::Refused, "group:developer", "deploy", Level::Production, json!({})),
        Line(RowKind::Intended, "group:developer", "probe", Level::Read, json!({ "stage": "prepare" })),
        Line(RowKind::Intended, "group:developer", "use", Level::Read, json!({ "stage": "run", "nested": nested })),
        ran("outside:fgrnt_00000000", "charge", Level::Write),
        ran("person:alice", "charge", Level::Write),
    ]);
    rows.clock.turn(HOUR);
    let at = |hours: i64| Timestamp::from_millis(START + hours * HOUR);
    let used = |last, calls, level| ActionUse { last: at(last), calls, level };
    let whole = used_since(rows.ledger.view(), at(0), 1_000).unwrap();
    assert_eq!(whole.cut_before, None);
    let expected = [("echo", used(1, 2, Level::Write)), ("use", used(1, 1, Level::Read))];
    assert_eq!(of(&whole, "developer", "demo"), expected);
    assert_eq!(of(&whole, "developer", "site"), [("login", used(1, 1, Level::Write))]);
    assert_eq!(of(&whole, "security", "demo"), [("echo", used(0, 1, Level::Read))]);
    // Only the period counts.
    let late = used_since(rows.ledger.view(), at(1), 1_000).unwrap();
    assert_eq!((of(&late, "security", "demo"), late.cut_before), (vec![], None));
    assert_eq!(of(&late, "developer", "demo")[0], ("echo", used(1, 1, Level::Write)));
    // Of more rows than are read, only the last ones count, and the time says so.
    let part = used_since(rows.ledger.view(), at(0), 3).unwrap();
    assert_eq!(
        (of(&part, "developer", "demo"), part.cut_before),
        (vec![("use", used(1, 1, Level::Read))], Some(at(1)))
    );
    assert_eq!(used_since(rows.ledger.view(), at(0).plus(Duration::from_hours(9)), 1_000).unwrap(), Usage::default());
}
