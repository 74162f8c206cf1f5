//! The tests that kill, fail and cut must be able to fail themselves: their checker finds every kind of wrong history.

use serde_json::{Value, json};
use shared::digest::Digest;
use std::path::Path;
use store::ledger::chain::Row;
use store::ledger::verifier::Break;
use tests::group::{call, code};
use tests::history::Fault;
use tests::{History, World, evidence};

/// A true history: calls that were executed, refused, lost.
fn truth(world: &World) -> History {
    let developer = world.group("developer");
    let (mut asked, mut replies) = (Vec::new(), Vec::new());
    for action in ["charge", "echo", "deploy", "vanish", "charge"] {
        let id = developer.send(call(action, json!({})));
        replies.push((id.clone(), developer.reply(&id)));
        asked.push(id);
    }
    world.settle();
    let mut history = History::of(world, &["charge", "vanish"], asked, replies);
    history.kept = history.rows.iter().map(|row| (row.seq, row.event_hash)).collect();
    assert_eq!(history.faults(), []);
    history
}

/// The same chain without some rows, every hash as it would be if they had never been written.
fn without(rows: &[Row], is_gone: impl Fn(&Row) -> bool) -> Vec<Row> {
    let mut prev_hash = Digest::ZERO;
    let mut seqs = vec![0];
    let mut left = Vec::new();
    for row in rows {
        if is_gone(row) {
            seqs.push(0);
            continue;
        }
        let mut row = row.clone();
        row.seq = i64::try_from(left.len()).unwrap() + 1;
        seqs.push(row.seq);
        let mut body = evidence::body(&row);
        if let Some(of) = body["of"].as_i64() {
            body["of"] = seqs[usize::try_from(of).unwrap()].into();
            row.body = body.to_string();
        }
        row.prev_hash = prev_hash;
        row.event_hash = row.hash();
        prev_hash = row.event_hash;
        left.push(row);
    }
    left
}

fn id(history: &History, n: usize) -> String {
    history.asked[n].clone()
}

#[test]
fn a_ledger_whose_synced_end_was_cut_off_is_found() {
    let world = World::with_grant();
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    let cut = world.outside().join("cut");
    std::fs::create_dir(&cut).unwrap();
    let mut history = truth(&world);
    let copy = |to: &Path| {
        for name in ["ledger.db", "ledger.db-wal"] {
            std::fs::copy(world.path(name), to.join(name)).unwrap();
        }
    };
    // The files as a disk would have them that lost what it had acknowledged.
    copy(&cut);
    let last = history.asked.len() - 1;
    let later = developer.send(call("charge", json!({})));
    history.replies.push((later.clone(), developer.reply(&later)));
    history.asked.push(later.clone());
    world.settle();
    history.effects = world.effects_of("charge").into_iter().chain(world.effects_of("vanish")).collect();
    history.rows = evidence::rows(&cut);
    assert_eq!(
        history.faults(),
        [Fault::Unlogged { id: later.clone() }, Fault::WithoutEvidence { id: later }],
        "the call after {last} is not in the ledger"
    );
    history.rows = world.rows();
    assert_eq!(history.faults(), []);
    history.rows.truncate(3);
    assert!(history.faults().contains(&Fault::Lost { seq: 4 }));
}

#[test]
fn an_effect_that_happened_twice_or_without_a_row_is_found() {
    let world = World::with_grant();
    let mut history = truth(&world);
    let first = id(&history, 0);
    history.effects.push(first.clone());
    assert_eq!(history.faults(), [Fault::HappenedTwice { id: first }]);
    history.effects.pop();
    history.effects.push("nobody-asked".into());
    assert_eq!(history.faults(), [Fault::Unlogged { id: "nobody-asked".into() }]);
}

#[test]
fn an_outcome_without_an_intent_and_an_intent_without_an_outcome_are_found() {
    let world = World::with_grant();
    let mut history = truth(&world);
    history.kept.clear();
    history.replies.clear();
    history.asked.clear();
    let (rows, first) = (history.rows.clone(), world.effects_of("charge").remove(0));
    let is_of_the_first = |row: &Row, kind: &str| row.kind == kind && row.request_id.as_ref() == Some(&first);
    history.rows = without(&rows, |row| is_of_the_first(row, "intended"));
    let seq = rows.iter().find(|row| is_of_the_first(row, "succeeded")).unwrap().seq - 1;
    assert_eq!(history.faults(), [Fault::Broken(Break::Outcome { seq }), Fault::Unlogged { id: first.clone() }]);
    history.rows = without(&rows, |row| is_of_the_first(row, "succeeded"));
    let seq = rows.iter().find(|row| is_of_the_first(row, "intended")).unwrap().seq;
    assert_eq!(history.faults(), [Fault::Open { seq }]);
    history.rows = without(&rows, |_| false);
    assert_eq!(history.faults(), []);
    history.rows[2].ts += 1;
    assert_eq!(history.faults(), [Fault::Broken(Break::Content { seq: 3 })]);
}

#[test]
fn a_request_that_was_decided_twice_is_found() {
    let world = World::with_grant();
    let mut history = truth(&world);
    let refused = id(&history, 2);
    let mut again = history.rows.iter().find(|row| row.kind == "refused").unwrap().clone();
    let last = history.rows.last().unwrap();
    (again.seq, again.prev_hash) = (last.seq + 1, last.event_hash);
    again.event_hash = again.hash();
    history.rows.push(again);
    assert_eq!(history.faults(), [Fault::DecidedTwice { id: refused }]);
}

#[test]
fn replies_that_are_missing_double_or_untrue_are_found() {
    let world = World::with_grant();
    let history = truth(&world);
    let replaced = |n: usize, change: &dyn Fn(&mut Value)| {
        let mut history = history.clone();
        change(&mut history.replies[n].1);
        history.faults()
    };
    let (charge, refused) = (id(&history, 0), id(&history, 2));
    let says = |code: &'static str| move |reply: &mut Value| *reply = json!({ "status": "denied", "code": code });
    assert_eq!(replaced(0, &says("evidence_unavailable")), [Fault::DeniedAnEffect { id: charge.clone() }]);
    assert_eq!(
        replaced(0, &|reply| reply["code"] = "provider_timeout".into()),
        [Fault::DeniedAnEffect { id: charge.clone() }]
    );
    assert_eq!(replaced(2, &says("level_too_low")), [Fault::WithoutEvidence { id: refused.clone() }]);
    let other_hash = |reply: &mut Value| reply["evidence"]["event_hash"] = Digest::ZERO.to_string().into();
    assert_eq!(replaced(2, &other_hash), [Fault::WithoutEvidence { id: refused.clone() }]);
    let mut never = history.clone();
    never.effects.retain(|effect| *effect != charge);
    assert_eq!(never.faults(), [Fault::NeverHappened { id: charge.clone() }]);
    let mut missing = history.clone();
    missing.replies.remove(2);
    assert_eq!(missing.faults(), [Fault::Unanswered { id: refused.clone() }]);
    let mut double = history.clone();
    double.replies.push(history.replies[2].clone());
    assert_eq!(double.faults(), [], "the same answer again");
    double.replies.last_mut().unwrap().1["error"] = "another".into();
    assert_eq!(double.faults(), [Fault::AnsweredTwice { id: refused }]);
}
