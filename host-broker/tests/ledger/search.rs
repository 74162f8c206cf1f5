//! The search in the list of calls: each condition by itself, and calls that wait.

use crate::ledger::plain_rows::{self, PlainRows};
use crate::ledger::world::START;
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Code, Timestamp};
use store::ledger::calls::{Filter, list};
use store::ledger::chain::{Draft, RowKind};

const HOUR: i64 = 3_600_000;

/// A row: its kind, its request, its person, its action, its code and its body.
#[derive(Debug, Clone)]
struct Line(RowKind, &'static str, Option<&'static str>, &'static str, Option<Code>, Value);

impl plain_rows::Line for Line {
    fn draft<T>(&self, append: impl FnOnce(&Draft<'_>) -> T) -> T {
        let Self(kind, request, person, action, reason_code, body) = self;
        let (provider, action) = ("demo".parse().unwrap(), action.parse().unwrap());
        let request = request.parse().unwrap();
        append(&Draft {
            request_id: Some(&request),
            person: person.map(str::to_owned),
            provider: Some(&provider),
            action: Some(&action),
            reason_code: *reason_code,
            params_digest: Some(Digest::of(b"params")),
            body: body.clone(),
            ..Draft::new(*kind, "group:developer")
        })
    }
}

#[test]
fn a_call_is_found_by_each_of_its_facts() {
    let mut rows = PlainRows::new();
    let ran = json!({ "stage": "run" });
    let (ann, ben) = (Some("ash:ann"), Some("ash:ben"));
    rows.write(vec![
        Line(RowKind::Intended, "r-1", ann, "echo", None, ran.clone()),
        Line(RowKind::Failed, "r-1", ann, "echo", Some(Code::ProviderFailed), json!({ "of": 1, "stage": "run" })),
    ]);
    rows.clock.turn(HOUR);
    rows.write(vec![Line(RowKind::Refused, "r-2", ben, "echo", Some(Code::NoGrant), json!({}))]);
    rows.clock.turn(HOUR);
    rows.write(vec![
        Line(RowKind::Intended, "r-3", None, "charge", None, ran),
        Line(RowKind::Succeeded, "r-3", None, "charge", None, json!({ "of": 4, "stage": "run" })),
    ]);
    let at = |hours: i64| Some(Timestamp::from_millis(START + hours * HOUR));
    let found = |filter: Filter| -> Vec<String> {
        list(rows.ledger.view(), &filter, 10).unwrap().into_iter().filter_map(|call| call.request_id).collect()
    };
    let none = Filter::default;
    let person = |name: &str| Some(name.to_owned());
    for (filter, expected) in [
        (none(), &["r-1", "r-2", "r-3"][..]),
        (Filter { request_id: Some("r-2".parse().unwrap()), ..none() }, &["r-2"]),
        (Filter { request_id: Some("r-9".parse().unwrap()), ..none() }, &[]),
        (Filter { request_id: Some("r-2".parse().unwrap()), group: Some("main".parse().unwrap()), ..none() }, &[]),
        (Filter { action: Some("echo".parse().unwrap()), ..none() }, &["r-1", "r-2"]),
        (Filter { person: person("ash:ann"), ..none() }, &["r-1"]),
        (Filter { person: person("ash:carl"), ..none() }, &[]),
        (Filter { reason: Some(Code::NoGrant), ..none() }, &["r-2"]),
        (Filter { reason: Some(Code::ProviderFailed), ..none() }, &["r-1"]),
        (Filter { reason: Some(Code::GrantExpired), ..none() }, &[]),
        (Filter { since: at(1), ..none() }, &["r-2", "r-3"]),
        (Filter { until: at(1), ..none() }, &["r-1"]),
        (Filter { since: at(1), until: at(2), ..none() }, &["r-2"]),
        (Filter { since: at(3), ..none() }, &[]),
        (Filter { since: at(0), until: at(9), person: person("ash:ben"), ..none() }, &["r-2"]),
        // The ends of a page hold, too.
        (Filter { since: at(0), before: 3, ..none() }, &["r-1"]),
        (Filter { until: at(9), after: 1, ..none() }, &["r-2", "r-3"]),
    ] {
        assert_eq!(found(filter.clone()), expected, "{filter:?}");
    }
}
