//! The chain: its format does not change unnoticed, and no change of a ledger goes unnoticed.

use crate::ledger::dice::Dice;
use crate::ledger::scribe::{fill, rows, verify};
use crate::ledger::world::World;
use shared::digest::Digest;
use std::collections::BTreeMap;
use store::ledger::chain::{Head, Row, RowKind};
use store::ledger::verifier::{Break, Verifier};

/// A row in which every column is there, and texts look like the encoding's own marks.
fn full() -> Row {
    Row {
        seq: 7,
        ts: 1_771_063_200_123,
        kind: "intended".into(),
        caller: "group:developer".into(),
        person: Some("ada".into()),
        request_id: Some("ext-1-a".into()),
        provider: Some("github".into()),
        action: Some("merge_pr".into()),
        level: Some(3),
        params_digest: Some(Digest::from_bytes([0x11; 32])),
        summary: Some("merge #7 — squash".into()),
        reason_code: Some("ok".into()),
        result_summary: Some(String::new()),
        result_digest: Some(Digest::from_bytes([0x22; 32])),
        task_id: Some("gov-1".into()),
        approval: Some("k7f3qd".into()),
        policy_version: "0123456789ab".into(),
        duration_ms: Some(-5),
        body: r#"{"a":"1:x,"}"#.into(),
        prev_hash: Digest::from_bytes([0x33; 32]),
        event_hash: Digest::ZERO,
    }
}

fn bare() -> Row {
    Row {
        seq: 1,
        ts: 0,
        kind: "started".into(),
        caller: "broker".into(),
        person: None,
        request_id: None,
        provider: None,
        action: None,
        level: None,
        params_digest: None,
        summary: None,
        reason_code: None,
        result_summary: None,
        result_digest: None,
        task_id: None,
        approval: None,
        policy_version: String::new(),
        duration_ms: None,
        body: "{}".into(),
        prev_hash: Digest::ZERO,
        event_hash: Digest::ZERO,
    }
}

#[test]
fn the_hash_of_a_row_is_what_it_has_always_been() {
    // Computed by another implementation of the format's description. If these change, every ledger there is breaks.
    assert_eq!(full().hash().hex(), "6ae1d8b554bbed1068efc064c85c8cc02dc5f73d82a1f040239594403ec53780");
    assert_eq!(bare().hash().hex(), "052691c3217cbb414d71c9ee22f6da4528d0d20e7d5d8007840e8052391a3093");
}

#[test]
fn the_exported_form_of_a_row_is_what_it_has_always_been() {
    let digits = |pair: &str| pair.repeat(32);
    let expected = format!(
        "{{\"seq\":7,\"ts\":1771063200123,\"kind\":\"intended\",\"caller\":\"group:developer\",\"person\":\"ada\",\
         \"request_id\":\"ext-1-a\",\"provider\":\"github\",\"action\":\"merge_pr\",\"level\":3,\
         \"params_digest\":\"sha256:{}\",\"summary\":\"merge #7 — squash\",\"reason_code\":\"ok\",\
         \"result_summary\":\"\",\"result_digest\":\"sha256:{}\",\"task_id\":\"gov-1\",\"approval\":\"k7f3qd\",\
         \"policy_version\":\"0123456789ab\",\"duration_ms\":-5,\"body\":\"{{\\\"a\\\":\\\"1:x,\\\"}}\",\
         \"prev_hash\":\"sha256:{}\",\"event_hash\":\"sha256:{}\"}}",
        digits("11"),
        digits("22"),
        digits("33"),
        digits("00")
    );
    assert_eq!(serde_json::to_string(&full()).unwrap(), expected);
}

#[test]
fn no_two_rows_have_the_same_encoding_because_a_text_moved_to_the_next_column() {
    let moved = |change: fn(&mut Row)| {
        let mut row = bare();
        change(&mut row);
        row.hash()
    };
    let hashes = [
        moved(|row| row.person = Some("x".into())),
        moved(|row| row.request_id = Some("x".into())),
        moved(|row| row.provider = Some("x".into())),
        moved(|row| row.person = Some(String::new())),
        moved(|row| row.person = Some("-".into())),
        moved(|row| row.caller = "broker,1:x".into()),
        moved(|row| row.level = Some(1)),
        moved(|row| row.duration_ms = Some(1)),
        bare().hash(),
    ];
    let different: std::collections::BTreeSet<_> = hashes.iter().collect();
    assert_eq!(different.len(), hashes.len());
}

/// Every way in which a stored row can be changed: one column, to another value of its type, to absent, or to there.
fn edit(row: &mut Row, dice: &mut Dice) -> &'static str {
    fn text(value: &mut String, dice: &mut Dice) {
        if value.pop().is_none() || dice.once_in(3) {
            value.push_str("xx");
        }
    }
    fn optional(value: &mut Option<String>, dice: &mut Dice) {
        match value {
            Some(_) if dice.once_in(3) => *value = None,
            Some(found) => text(found, dice),
            None => *value = Some(if dice.once_in(2) { String::new() } else { "x".into() }),
        }
    }
    fn digest(dice: &mut Dice) -> Digest {
        Digest::of(&dice.next().to_be_bytes())
    }
    fn flipped(value: Digest, dice: &mut Dice) -> Digest {
        let mut bytes = *value.as_bytes();
        bytes[dice.roll(32)] ^= 1 << dice.roll(8);
        Digest::from_bytes(bytes)
    }
    fn optional_digest(value: &mut Option<Digest>, dice: &mut Dice) {
        *value = match *value {
            Some(_) if dice.once_in(3) => None,
            Some(found) => Some(flipped(found, dice)),
            None => Some(digest(dice)),
        };
    }
    fn number(value: &mut Option<i64>, dice: &mut Dice) {
        *value = match *value {
            Some(_) if dice.once_in(3) => None,
            Some(found) => Some(found + 1),
            None => Some(0),
        };
    }
    match dice.roll(21) {
        0 => {
            row.seq += i64::try_from(dice.roll(3)).unwrap() + 1;
            "seq"
        }
        1 => {
            row.ts -= 1;
            "ts"
        }
        2 => {
            row.kind = if row.kind == "refused" { "granted" } else { "refused" }.into();
            "kind"
        }
        3 => (text(&mut row.caller, dice), "caller").1,
        4 => (optional(&mut row.person, dice), "person").1,
        5 => (optional(&mut row.request_id, dice), "request_id").1,
        6 => (optional(&mut row.provider, dice), "provider").1,
        7 => (optional(&mut row.action, dice), "action").1,
        8 => (number(&mut row.level, dice), "level").1,
        9 => (optional_digest(&mut row.params_digest, dice), "params_digest").1,
        10 => (optional(&mut row.summary, dice), "summary").1,
        11 => (optional(&mut row.reason_code, dice), "reason_code").1,
        12 => (optional(&mut row.result_summary, dice), "result_summary").1,
        13 => (optional_digest(&mut row.result_digest, dice), "result_digest").1,
        14 => (optional(&mut row.task_id, dice), "task_id").1,
        15 => (optional(&mut row.approval, dice), "approval").1,
        16 => (text(&mut row.policy_version, dice), "policy_version").1,
        17 => (number(&mut row.duration_ms, dice), "duration_ms").1,
        18 => (text(&mut row.body, dice), "body").1,
        19 => {
            row.prev_hash = flipped(row.prev_hash, dice);
            "prev_hash"
        }
        _ => {
            row.event_hash = flipped(row.event_hash, dice);
            "event_hash"
        }
    }
}

/// Gives every row from here on the number, link and hash that it must have: what somebody would do who can compute.
fn reforge(rows: &mut [Row], from: usize) {
    let mut before = from.checked_sub(1).map_or(Digest::ZERO, |index| rows[index].event_hash);
    for (index, row) in rows.iter_mut().enumerate().skip(from) {
        row.seq = i64::try_from(index).unwrap() + 1;
        row.prev_hash = before;
        row.event_hash = row.hash();
        before = row.event_hash;
    }
}

/// One tampering; what it was.
fn tamper(rows: &mut Vec<Row>, dice: &mut Dice) -> String {
    let at = dice.roll(rows.len());
    match dice.roll(9) {
        0..=2 => format!("edit of {}", edit(&mut rows[at], dice)),
        3 => {
            let last = at + 1 == rows.len();
            rows.remove(at);
            if last { "truncation by one".into() } else { "deletion".into() }
        }
        4 => {
            let other = (at + 1 + dice.roll(rows.len() - 1)) % rows.len();
            rows.swap(at, other);
            "reordering".into()
        }
        5 => {
            let copy = rows[dice.roll(rows.len())].clone();
            rows.insert(at, copy);
            "insertion of a copy".into()
        }
        6 => {
            let mut forged = rows[at].clone();
            forged.caller = "group:forged".into();
            rows.insert(at, forged);
            reforge(rows, at);
            "insertion with all later hashes made anew".into()
        }
        7 => {
            rows.truncate(at);
            "truncation or roll back".into()
        }
        _ => {
            rows[at].summary = Some("nothing happened".into());
            reforge(rows, at);
            "edit with all later hashes made anew".into()
        }
    }
}

/// Attack (Providers and modules): The ledger is changed.
/// Defence: `store::ledger::chain`.
#[test]
fn ten_thousand_random_tamperings_are_found_against_a_kept_head() {
    let mut world = World::new();
    fill(&mut world.ledger, 32);
    let (original, kept) = (rows(world.ledger.view()), world.ledger.head());
    assert_eq!(verify(&original, kept), Ok(()));
    let mut dice = Dice(2026);
    let mut tried: BTreeMap<String, u32> = BTreeMap::new();
    let mut done = 0;
    while done < 10_000 {
        let mut tampered = original.clone();
        let what = tamper(&mut tampered, &mut dice);
        if tampered == original {
            continue;
        }
        done += 1;
        let found = verify(&tampered, kept);
        assert!(found.is_err(), "{what} was not found");
        // Without a kept head, everything but a shorter chain and one that was computed anew is found.
        if !what.starts_with("truncation") && !what.ends_with("made anew") {
            let alone = verify(&tampered, Head::EMPTY);
            assert!(alone.is_err(), "{what} was not found without a kept head");
        }
        *tried.entry(what).or_default() += 1;
    }
    // All 21 columns, and the six other ways.
    assert_eq!(tried.len(), 28, "{tried:#?}");
}

#[test]
fn the_first_bad_row_is_named() {
    let mut world = World::new();
    fill(&mut world.ledger, 20);
    let original = rows(world.ledger.view());
    let first = |rows: &[Row]| {
        let mut verifier = Verifier::new();
        rows.iter().find_map(|row| verifier.take(row).err())
    };
    let with = |change: fn(&mut Vec<Row>)| {
        let mut rows = original.clone();
        change(&mut rows);
        first(&rows)
    };
    assert_eq!(first(&original), None);
    assert_eq!(with(|rows| rows[9].caller.push('x')), Some(Break::Content { seq: 10 }));
    assert_eq!(with(|rows| rows[9].event_hash = Digest::ZERO), Some(Break::Content { seq: 10 }));
    assert_eq!(with(|rows| rows[9].prev_hash = Digest::ZERO), Some(Break::Link { seq: 10 }));
    assert_eq!(with(|rows| drop(rows.remove(9))), Some(Break::Gap { expected: 10, found: 11 }));
    assert_eq!(with(|rows| rows.swap(9, 10)), Some(Break::Gap { expected: 10, found: 11 }));
    assert_eq!(with(|rows| drop(rows.remove(0))), Some(Break::Gap { expected: 1, found: 2 }));
    assert_eq!(
        with(|rows| {
            rows[9].caller.push('x');
            rows[9].event_hash = rows[9].hash();
        }),
        Some(Break::Link { seq: 11 })
    );
}

/// A chain of rows of these kinds, each with the number of the intent it closes.
fn chain(rows: &[(RowKind, Option<i64>)]) -> Vec<Row> {
    let mut chain: Vec<Row> = rows
        .iter()
        .map(|(kind, of)| Row {
            kind: kind.word().into(),
            body: of.map_or_else(|| "{}".to_owned(), |of| format!("{{\"of\":{of}}}")),
            ..bare()
        })
        .collect();
    reforge(&mut chain, 0);
    chain
}

#[test]
fn an_outcome_closes_one_open_intent() {
    let verified = |rows: &[(RowKind, Option<i64>)]| {
        let mut verifier = Verifier::new();
        chain(rows).iter().try_for_each(|row| verifier.take(row)).map(|()| verifier.open().collect::<Vec<_>>())
    };
    for kind in [RowKind::Succeeded, RowKind::Failed, RowKind::TimedOut, RowKind::Unknown] {
        let wrong = Err(Break::Outcome { seq: 2 });
        assert_eq!(verified(&[(RowKind::Intended, None), (kind, Some(1))]), Ok(vec![]));
        assert_eq!(verified(&[(RowKind::Intended, None), (kind, None)]), wrong);
        assert_eq!(verified(&[(RowKind::Intended, None), (kind, Some(2))]), wrong);
        assert_eq!(verified(&[(RowKind::Refused, None), (kind, Some(1))]), wrong);
        let twice = [(RowKind::Intended, None), (kind, Some(1)), (kind, Some(1))];
        assert_eq!(verified(&twice), Err(Break::Outcome { seq: 3 }));
    }
    let open = [
        (RowKind::Intended, None),
        (RowKind::Intended, None),
        (RowKind::Succeeded, Some(1)),
        (RowKind::Intended, None),
    ];
    assert_eq!(verified(&open), Ok(vec![2, 4]));
}

#[test]
fn a_chain_can_be_followed_from_a_head_that_is_believed() {
    let rows = chain(&[
        (RowKind::Intended, None),
        (RowKind::Noted, None),
        (RowKind::Succeeded, Some(1)),
        (RowKind::Failed, Some(4)),
    ]);
    let head = Head { seq: 2, hash: rows[1].event_hash, ts: 0 };
    let mut verifier = Verifier::after(head);
    // The intent was not seen, so its outcome is believed; an outcome of a row that is no intent is not.
    assert_eq!(verifier.take(&rows[2]), Ok(()));
    assert_eq!(verifier.take(&rows[3]), Err(Break::Outcome { seq: 4 }));
    assert_eq!(Verifier::after(Head { hash: Digest::ZERO, ..head }).take(&rows[2]), Err(Break::Link { seq: 3 }));
    assert_eq!(Verifier::after(head).take(&rows[1]), Err(Break::Gap { expected: 3, found: 2 }));
}
