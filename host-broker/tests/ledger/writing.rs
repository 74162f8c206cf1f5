//! Writing: what the tables refuse, what a failure leaves behind, and what a commit promises.

use crate::ledger::scribe::{Clerk, Happening, callers, commits_fail, fill, raw, rows, verify, write};
use crate::ledger::world::{START, World};
use engine::event::Event;
use engine::request::{InvalidDocument, Parsed};
use kernel::call::Origin;
use kernel::{Batch, BatchWriter, Committed, Step, WriteError};
use model::Caller;
use rusqlite::Connection;
use serde_json::json;
use shared::Code;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::health::Verification;
use store::{Durability, StoreError, StoreStats, Transaction};

use Happening::{Answered, Fails, Row};

fn beside(world: &World) -> Connection {
    Connection::open(world.home.path().join("ledger.db")).unwrap()
}

fn closed(batch: &Batch<Happening>) -> Vec<&Happening> {
    batch
        .committed
        .iter()
        .map(|committed| match committed {
            Committed::Close(event, _) => event,
            other @ (Committed::Start(_)
            | Committed::Wait(..)
            | Committed::Ask(_)
            | Committed::Notify(..)
            | Committed::Receive(..)) => {
                panic!("{other:?}")
            }
        })
        .collect()
}

fn unwritten(batch: &Batch<Happening>) -> Vec<&Happening> {
    batch.unwritten.iter().map(|(event, _)| event).collect()
}

#[test]
fn the_tables_refuse_to_change_delete_replace_or_skip_a_row() {
    let mut world = World::new();
    fill(&mut world.ledger, 10);
    let before = rows(world.ledger.view());
    let columns = "ts, kind, caller, person, request_id, provider, action, level, params_digest, summary, reason_code,
        result_summary, result_digest, task_id, approval, policy_version, duration_ms, body, prev_hash, event_hash";
    // Another program's connection has none of our settings; the tables must hold against it too.
    for connection in [&beside(&world), &raw(&world.ledger)] {
        for attack in [
            "UPDATE ledger SET caller = 'x' WHERE seq = 5".to_owned(),
            "UPDATE OR REPLACE ledger SET seq = 6 WHERE seq = 5".to_owned(),
            "UPDATE OR IGNORE ledger SET ts = 0".to_owned(),
            "DELETE FROM ledger WHERE seq = 5".to_owned(),
            "DELETE FROM ledger WHERE seq = (SELECT max(seq) FROM ledger)".to_owned(),
            "DELETE FROM ledger".to_owned(),
            format!("INSERT OR REPLACE INTO ledger SELECT 5, {columns} FROM ledger WHERE seq = 6"),
            format!("REPLACE INTO ledger SELECT seq, {columns} FROM ledger"),
            format!("INSERT INTO ledger SELECT 5, {columns} FROM ledger WHERE seq = 6"),
            format!("INSERT INTO ledger SELECT (SELECT max(seq) + 2 FROM ledger), {columns} FROM ledger WHERE seq = 6"),
            format!("INSERT INTO ledger SELECT 0, {columns} FROM ledger WHERE seq = 6"),
            format!("INSERT INTO ledger SELECT -1, {columns} FROM ledger WHERE seq = 6"),
            format!("INSERT INTO ledger SELECT NULL, {columns} FROM ledger WHERE seq = 6"),
            format!("INSERT OR IGNORE INTO ledger SELECT 5, {columns} FROM ledger WHERE seq = 6"),
            format!(
                "INSERT INTO ledger SELECT 5, {columns} FROM ledger WHERE seq = 6
                 ON CONFLICT (seq) DO UPDATE SET caller = 'x'"
            ),
        ] {
            assert!(connection.execute_batch(&attack).is_err(), "{attack}");
        }
    }
    assert_eq!(rows(world.ledger.view()), before);
}

#[test]
fn a_failed_event_leaves_no_trace_while_the_others_of_its_batch_are_committed() {
    let mut world = World::new();
    let batch = write(&mut world.ledger, vec![Row("a"), Fails("b"), Answered("c"), Fails("d"), Row("e")]);
    assert_eq!(closed(&batch), [&Row("a"), &Answered("c"), &Row("e")]);
    assert_eq!(unwritten(&batch), [&Fails("b"), &Fails("d")]);
    assert_eq!(callers(&world.ledger), ["a", "c", "e"]);
    assert_eq!(verify(&rows(world.ledger.view()), world.ledger.head()), Ok(()));
    let kept: i64 = raw(&world.ledger).query_row("SELECT count(*) FROM replies", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1);
}

#[test]
fn an_error_that_ends_the_whole_transaction_costs_only_its_own_event() {
    let mut world = World::new();
    write(&mut world.ledger, vec![Row("before")]);
    raw(&world.ledger)
        .execute_batch(
            "CREATE TRIGGER kills BEFORE INSERT ON ledger WHEN NEW.caller = 'killer'
             BEGIN SELECT RAISE(ROLLBACK, 'the transaction is over'); END;",
        )
        .unwrap();
    let mut dispatcher = Clerk::default();
    let events = vec![Row("a"), Answered("b"), Row("killer"), Row("c"), Row("killer"), Fails("d"), Row("e")];
    let batch = world.ledger.batch(Durability::Full, events, &mut dispatcher);
    assert_eq!(closed(&batch), [&Row("a"), &Answered("b"), &Row("c"), &Row("e")]);
    assert_eq!(unwritten(&batch), [&Row("killer"), &Row("killer"), &Fails("d")]);
    assert_eq!(callers(&world.ledger), ["before", "a", "b", "c", "e"]);
    assert_eq!(verify(&rows(world.ledger.view()), world.ledger.head()), Ok(()));
    // Each of the three that fail costs those before it one more try, and those after it none.
    assert_eq!(dispatcher.asked.iter().filter(|event| **event == Row("a")).count(), 4);
    assert_eq!(dispatcher.asked.iter().filter(|event| **event == Row("c")).count(), 3);
    assert_eq!(dispatcher.asked.iter().filter(|event| **event == Row("e")).count(), 1);
    // And it goes on.
    assert!(write(&mut world.ledger, vec![Row("after")]).unwritten.is_empty());
}

#[test]
fn events_that_are_tried_again_keep_their_order() {
    let mut world = World::new();
    raw(&world.ledger)
        .execute_batch(
            "CREATE TRIGGER kills BEFORE INSERT ON ledger WHEN NEW.caller = 'killer'
             BEGIN SELECT RAISE(ROLLBACK, 'the transaction is over'); END;",
        )
        .unwrap();
    let batch = write(&mut world.ledger, vec![Row("a"), Fails("b"), Answered("c"), Row("killer"), Row("d")]);
    assert_eq!(closed(&batch), [&Row("a"), &Answered("c"), &Row("d")]);
    assert_eq!(callers(&world.ledger), ["a", "c", "d"]);
}

#[test]
fn a_commit_that_fails_leaves_nothing_and_the_next_one_works() {
    let mut world = World::new();
    write(&mut world.ledger, vec![Row("before")]);
    commits_fail(&world.ledger, "NEW.caller = 'orphan'");
    let batch = write(&mut world.ledger, vec![Row("a"), Row("orphan"), Answered("b")]);
    assert_eq!(closed(&batch), [&Row("a"), &Answered("b")]);
    assert_eq!(unwritten(&batch), [&Row("orphan")]);
    assert_eq!(callers(&world.ledger), ["before", "a", "b"]);
    assert_eq!(verify(&rows(world.ledger.view()), world.ledger.head()), Ok(()));
}

#[test]
fn nothing_is_written_while_the_clock_is_more_than_thirty_seconds_behind_the_last_row() {
    let mut world = World::new();
    write(&mut world.ledger, vec![Row("a")]);
    world.clock.turn(-30_000);
    assert!(write(&mut world.ledger, vec![Row("b")]).unwritten.is_empty());
    world.clock.turn(-1);
    let batch = write(&mut world.ledger, vec![Row("c"), Answered("d")]);
    assert_eq!(unwritten(&batch), [&Row("c"), &Answered("d")]);
    for (_, error) in &batch.unwritten {
        let said = error.to_string();
        assert!(matches!(error.as_ref(), StoreError::Clock { .. }), "{said}");
        let parts = ["2026-02-14T10:00:00.000Z", "2026-02-14T09:59:29.999Z", "30 s earlier", "evidence accept-clock"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    world.clock.turn(1);
    assert!(write(&mut world.ledger, vec![Row("e")]).unwritten.is_empty());
    world.clock.turn(40_000);
    assert!(write(&mut world.ledger, vec![Row("f")]).unwritten.is_empty());
    let written = rows(world.ledger.view());
    let times: Vec<i64> = written.iter().map(|row| row.ts - START).collect();
    // Rows never go back in time.
    assert_eq!(times, [0, 0, 0, 10_000]);
    assert_eq!(callers(&world.ledger), ["a", "b", "e", "f"]);
}

#[test]
fn a_row_names_the_version_of_the_policy_that_it_was_written_under() {
    let mut world = World::new();
    write(&mut world.ledger, vec![Row("a")]);
    world.ledger.set_policy_version("v2".to_owned());
    write(&mut world.ledger, vec![Row("b")]);
    let versions: Vec<String> = rows(world.ledger.view()).into_iter().map(|row| row.policy_version).collect();
    assert_eq!(versions, ["v1", "v2"]);
}

/// A sync is a commit, and a commit is written only if it changes something.
fn turn(world: &World) -> i64 {
    raw(&world.ledger).query_row("SELECT turn FROM delivered", [], |row| row.get(0)).unwrap()
}

/// How a commit of the writer is synced now (1: ordered only, 2: synced), and how many rows it has changed so far.
fn synced(world: &World) -> (i64, u64) {
    (world.ledger.view().synchronous().unwrap(), world.ledger.stats().changes)
}

#[test]
fn only_the_intents_of_reads_are_committed_without_a_sync() {
    let mut world = World::new();
    world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 1 }));
    assert_eq!(synced(&world).0, 2);
    let read = world.call("developer", "read", &json!({}), None);
    let before = synced(&world).1;
    assert!(matches!(world.admit(Durability::Normal, vec![read]).committed.as_slice(), [Committed::Start(_)]));
    // The row, the note that it is open, and its place in the minute's calls.
    assert_eq!(synced(&world), (1, before + 3));
    assert_eq!(turn(&world), 0);

    let calls =
        vec![world.call("developer", "read", &json!({}), None), world.call("developer", "write", &json!({}), None)];
    let batch = world.admit(Durability::Normal, calls);
    assert!(matches!(batch.committed.as_slice(), [Committed::Start(_), Committed::Close(_, Some(_))]));
    // Two rows and their records (the refusal's reply, and its bytes). Then one more change, whose commit syncs all
    // that came before it.
    assert_eq!(synced(&world), (2, before + 3 + 6 + 1));
    assert_eq!(turn(&world), 1);

    // That was for once: the next intent of a read is not synced, the next batch of another kind is.
    for (durability, level, changes) in [(Durability::Normal, 1, 3), (Durability::Full, 2, 6)] {
        let read = world.call("developer", "read", &json!({}), None);
        world.admit(durability, vec![read]);
        assert_eq!(synced(&world), (level, before + 3 + 6 + 1 + changes));
    }
}

/// From now on a sync after a commit fails. A synced commit does not change this table.
fn syncs_fail(world: &World) {
    const TRIGGER: &str =
        "CREATE TRIGGER no_sync BEFORE UPDATE ON delivered BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END;";
    raw(&world.ledger).execute_batch(TRIGGER).unwrap();
}

#[test]
fn a_refusal_whose_sync_fails_is_not_told() {
    let mut world = World::new();
    syncs_fail(&world);
    let batch =
        world.ledger.batch(Durability::Normal, vec![Row("a"), Answered("b"), Fails("c")], &mut Clerk::default());
    assert_eq!(closed(&batch), [&Row("a")]);
    assert_eq!(unwritten(&batch), [&Fails("c"), &Answered("b")]);
}

/// Attack (Load and space): refusals that cause syncs, for which other groups wait
/// Defence: while events of others are under way, refusals wait for one sync with them, a
/// millisecond at most; a counted refusal needs none
#[test]
fn a_refusal_waits_for_the_sync_of_another_event() {
    let mut world = World::new();
    world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 1 }));
    let before = world.ledger.stats().syncs;
    let calls =
        vec![world.call("developer", "read", &json!({}), None), world.call("developer", "write", &json!({}), None)];
    let Batch { committed, held, .. } = world.admit(Durability::Deferred, calls);
    assert!(matches!(committed.as_slice(), [Committed::Start(_)]), "a read starts at once");
    assert_eq!((held.len(), world.ledger.has_synced(&held)), (1, false));
    assert_eq!(world.ledger.stats().syncs, before);
    world.ledger.batch(Durability::Full, vec![Row("a")], &mut Clerk::default());
    assert!(world.ledger.has_synced(&held));
    let released = world.ledger.release(held);
    assert!(matches!(released.committed.as_slice(), [Committed::Close(_, Some(_))]));
    assert_eq!(world.ledger.stats().syncs, before + 1);

    // Without another event it is synced when it is released.
    let refused = world.call("developer", "write", &json!({}), None);
    let held = world.admit(Durability::Deferred, vec![refused]).held;
    let released = world.ledger.release(held);
    assert!(matches!(released.committed.as_slice(), [Committed::Close(_, Some(_))]));
    assert_eq!(released.costs.len(), 1);
    assert_eq!(world.ledger.stats().syncs, before + 2);
}

#[test]
fn an_effect_that_is_no_harmless_read_never_starts_before_its_sync() {
    let mut world = World::new();
    world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 2 }));
    for durability in [Durability::Normal, Durability::Deferred] {
        let before = world.ledger.stats().syncs;
        let calls =
            vec![world.call("developer", "write", &json!({}), None), world.call("developer", "none", &json!({}), None)];
        let batch = world.admit(durability, calls);
        assert!(matches!(batch.committed.as_slice(), [Committed::Start(_), Committed::Close(_, Some(_))]));
        assert_eq!((batch.held.len(), world.ledger.stats().syncs), (0, before + 1));
    }
}

/// Attack (Repeats, crashes and evidence): The grant of a write arrives while the write is checked,
/// and the sync after the commit fails.
/// Defence: The transaction is rolled back and repeated with a synced commit.
#[test]
fn urgent_events_are_committed_with_a_sync_and_not_synced_again() {
    for durability in [Durability::Normal, Durability::Deferred] {
        for action in ["write", "ask"] {
            let mut world = World::new();
            world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 2 }));
            syncs_fail(&world);
            let StoreStats { commits, syncs, .. } = world.ledger.stats();
            let calls = ["read", action, "none"].map(|action| world.call("developer", action, &json!({}), None));
            let batch = world.admit(durability, calls.into());
            assert!(
                matches!(
                    batch.committed.as_slice(),
                    [Committed::Start(_), Committed::Start(_) | Committed::Ask(_), Committed::Close(_, Some(_))]
                ),
                "{batch:?}"
            );
            assert_eq!((batch.held.len(), batch.unwritten.len()), (0, 0));
            let after = world.ledger.stats();
            assert_eq!((after.commits, after.syncs), (commits + 1, syncs + 1), "{action}");
        }
    }
}

/// Attack: see `a_refusal_waits_for_the_sync_of_another_event`.
#[test]
fn a_counted_refusal_needs_no_sync() {
    let mut world = World::new();
    let invalid = |id: &str| {
        let caller = Caller::Group("developer".parse().unwrap());
        Event::Arrived(Parsed::InvalidDocument(Box::new(InvalidDocument {
            caller_key: caller.to_string().into(),
            caller,
            request_id: Some(id.parse().unwrap()),
            origin: Origin::Broker,
            code: Code::MalformedRequest,
            reason: "It is no request.".to_owned(),
        })))
    };
    // The first one has a row of its own.
    let first = world.ledger.batch(Durability::Deferred, vec![invalid("r-1")], &mut world.broker);
    assert_eq!((first.committed.len(), first.held.len()), (0, 1));
    // The next one rests on that row, which is not synced yet.
    let second = world.ledger.batch(Durability::Deferred, vec![invalid("r-2")], &mut world.broker);
    assert_eq!((second.committed.len(), second.held.len()), (0, 1));
    let held = first.held.into_iter().chain(second.held).collect();
    assert_eq!(world.ledger.release(held).committed.len(), 2);
    let (last, syncs) = (world.ledger.head(), world.ledger.stats().syncs);
    let third = world.ledger.batch(Durability::Deferred, vec![invalid("r-3")], &mut world.broker);
    assert!(matches!(third.committed.as_slice(), [Committed::Close(_, Some(_))]));
    assert_eq!((third.held.len(), world.ledger.head(), world.ledger.stats().syncs), (0, last, syncs));
}

#[test]
fn a_held_refusal_whose_sync_fails_is_not_told() {
    let mut world = World::new();
    syncs_fail(&world);
    let batch = world.ledger.batch(Durability::Deferred, vec![Row("a"), Answered("b")], &mut Clerk::default());
    assert_eq!((batch.committed.len(), batch.held.len()), (0, 2));
    let released = world.ledger.release(batch.held);
    assert_eq!(closed(&released), [&Row("a")]);
    assert_eq!(unwritten(&released), [&Answered("b")]);
}

#[test]
fn an_alarm_stays_if_its_row_is_written_and_a_later_event_of_its_batch_is_not() {
    let mut world = World::with_people("[[channels]]\nname = \"log\"\nkind = \"command\"\ncommand = [\"true\"]\n");
    commits_fail(&world.ledger, "NEW.body LIKE '%reopened%'");
    let broken = || Verification::Broken { row: 7, error: "row 7 is wrong".to_owned() };
    let reopened = || Event::MailboxReopened("developer".parse().unwrap());
    let events = vec![Event::Verified(Box::new(broken())), reopened()];
    let batch = world.ledger.batch(Durability::Full, events, &mut world.broker);
    let alarms = |batch: &kernel::Batch<Event, engine::follow_ups::FollowUps>| -> usize {
        let of = |committed: &Committed<Event>| {
            if let Committed::Notify(_, notices) = committed { notices.len() } else { 0 }
        };
        batch.committed.iter().map(of).sum()
    };
    assert_eq!((batch.committed.len(), batch.unwritten.len(), alarms(&batch)), (1, 1, 1));
    // An alarm without a row is forgotten.
    raw(&world.ledger).execute_batch("DROP TRIGGER orphans; CREATE TRIGGER orphans AFTER INSERT ON ledger BEGIN INSERT INTO child VALUES (1); END;").unwrap();
    let batch = world.ledger.batch(Durability::Full, vec![Event::Verified(Box::new(broken()))], &mut world.broker);
    assert_eq!((batch.unwritten.len(), alarms(&batch)), (1, 0));
}

#[test]
fn an_error_of_one_event_is_no_fault_of_the_ledger_while_others_are_written_and_a_failed_sync_is_one() {
    let mut world = World::new();
    let mut batch = |durability, events| world.ledger.batch(durability, events, &mut Clerk::default());
    let deferred = batch(Durability::Deferred, vec![Answered("a"), Fails("b")]);
    assert_eq!((deferred.committed.len(), deferred.held.len(), deferred.unwritten.len()), (0, 1, 1));
    assert!(deferred.fault().is_none(), "one event is written");
    assert!(batch(Durability::Full, vec![Fails("c")]).fault().is_some(), "none is");
    let held = batch(Durability::Deferred, vec![Row("d")]).held;
    syncs_fail(&world);
    let fault = |batch: &Batch<Happening>| batch.fault().map(ToString::to_string);
    let failed = Some("the ledger could not sync".to_owned());
    assert_eq!(fault(&world.ledger.release(held)), failed);
    let unsynced = world.ledger.batch(Durability::Normal, vec![Row("e"), Answered("f")], &mut Clerk::default());
    assert_eq!((closed(&unsynced), fault(&unsynced)), (vec![&Row("e")], failed));
}

/// Remembers the events of committed transactions, and notes what it remembered when each event came.
#[derive(Default)]
struct Remembering {
    remembered: Vec<String>,
    uncommitted: Vec<String>,
    seen: Vec<(String, Vec<String>)>,
}

impl BatchWriter<Happening> for Remembering {
    type FollowUps = Vec<String>;

    fn write<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        event: Happening,
    ) -> Result<Step<'tx, Happening>, WriteError<Happening>> {
        let (Row(name) | Fails(name) | Answered(name)) = &event else { panic!("{event:?}") };
        let known = self.remembered.iter().chain(&self.uncommitted).cloned().collect();
        self.seen.push(((*name).to_owned(), known));
        self.uncommitted.push((*name).to_owned());
        let row = tx.append(&Draft::new(RowKind::Noted, name));
        match row
            .and_then(|_row| if matches!(event, Fails(_)) { Err(StoreError::Stored { what: "test" }) } else { Ok(()) })
        {
            Ok(()) => Ok(kernel::close(tx, event, None)),
            Err(error) => Err(WriteError { event, error }),
        }
    }

    fn committed(&mut self) -> Vec<String> {
        let committed = std::mem::take(&mut self.uncommitted);
        self.remembered.extend(committed.iter().cloned());
        committed
    }

    fn rolled_back(&mut self) {
        self.uncommitted.clear();
    }

    fn accepts_clock(&self, _event: &Happening) -> bool {
        true
    }
}

#[test]
fn a_transaction_sees_what_an_earlier_one_of_its_batch_committed() {
    let mut world = World::new();
    write(&mut world.ledger, vec![Row("a")]);
    // Together they are refused, and one by one they are written.
    world.clock.set(-3_600_000);
    let mut writer = Remembering::default();
    let batch = world.ledger.batch(Durability::Full, vec![Row("b"), Row("c")], &mut writer);
    assert_eq!((batch.committed.len(), batch.follow_ups), (2, vec![vec!["b".to_owned()], vec!["c".to_owned()]]));
    assert_eq!(writer.seen, [("b".to_owned(), vec![]), ("c".to_owned(), vec!["b".to_owned()])]);
}

#[test]
fn nothing_is_remembered_and_nothing_follows_of_a_transaction_that_is_rolled_back() {
    let mut world = World::new();
    let mut writer = Remembering::default();
    let batch = world.ledger.batch(Durability::Full, vec![Row("a"), Fails("b"), Row("c")], &mut writer);
    assert_eq!(batch.follow_ups, [["a", "c"]]);
    assert_eq!(writer.remembered, ["a", "c"]);
    let of = |name: &str| writer.seen.iter().rev().find(|(seen, _)| seen == name).unwrap().1.clone();
    assert_eq!((of("a"), of("c")), (vec![], vec!["a".to_owned()]), "the second try begins with nothing");
}
