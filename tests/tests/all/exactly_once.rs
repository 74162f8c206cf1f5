//! The real daemon, killed at any moment under load: no effect twice, no effect without a row, no acknowledged row
//! lost, every request answered.

mod failover;
mod fleet;

use serde_json::{Value, json};
use shared::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use store::ledger::chain::Row;
use tests::group::{call, code, with};
use tests::world::CONFIG;
use tests::{Builder, Group, History, World, evidence, until};

const KILLS: usize = 50;
/// How many clients send at once, each its own request after the other.
const CLIENTS: usize = 6;

/// A client that is never sure whether it was heard: it sends the same request again until it is answered, and the
/// same call under a new id, with the same key.
struct Client {
    group: Group,
    number: usize,
    turn: usize,
    waiting: Option<(String, Value)>,
    answered: Vec<(String, Value)>,
    /// The replies that the ledger could not be written. After one, the client sends the same request again.
    unavailable: Vec<(String, Timestamp)>,
}

impl Client {
    /// Takes a reply, if there is one.
    fn take(&mut self) {
        let Some((id, document)) = &self.waiting else { return };
        let Some(reply) = self.group.try_reply(id) else { return };
        if code(&reply) == "evidence_unavailable" {
            self.unavailable.push((id.clone(), reply["timestamp"].as_str().unwrap().parse().unwrap()));
            self.group.send(document.clone());
            return;
        }
        self.answered.push((id.clone(), reply));
        self.waiting = None;
        self.turn += 1;
    }

    fn key(&self) -> String {
        // Two turns share a key: the second is a repeat of the first under another id.
        format!("key-{}-{}", self.number, self.turn / 2)
    }

    /// Takes a reply if there is one, and sends the next request if nothing waits.
    fn step(&mut self) {
        self.take();
        if self.waiting.is_none() {
            let action = if self.number.is_multiple_of(2) { "charge" } else { "lossy" };
            let latency = (self.turn * 7 + self.number) % 12;
            // The effects of a key are the same each time.
            let latency = if self.turn.is_multiple_of(2) { latency } else { ((self.turn - 1) * 7 + self.number) % 12 };
            let id = self.group.fresh_id();
            let document = with(call(action, json!({ "ms": latency })), "idempotency_key", self.key());
            self.send(with(document, "request_id", id));
        }
    }

    fn send(&mut self, document: Value) {
        let id = self.group.send(document.clone());
        self.waiting = Some((id, document));
    }

    /// After a crash nobody knows whether the request was heard, so it is sent again as it is.
    fn send_again(&mut self) {
        if let Some((id, document)) = &self.waiting
            && !self.group.task(&format!("{id}.json")).exists()
        {
            self.group.send(document.clone());
        }
    }
}

/// How often each line is there.
fn counted(lines: Vec<String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for line in lines {
        *counted.entry(line).or_default() += 1;
    }
    counted
}

fn intents<'a>(rows: &'a [Row], action: &str) -> Vec<&'a Row> {
    let of = |row: &&Row| row.kind == "intended" && row.action.as_deref() == Some(action);
    rows.iter().filter(of).filter(|row| evidence::body(row)["stage"] == "run").collect()
}

/// A world whose breakers never open, because chance may bring one lost reply after the other.
fn patient() -> Builder {
    let patient = "[limits.\"*\".demo]\nbreaker = { faults = 0, open_s = 1 }\n";
    World::builder().config(&format!("{CONFIG}\n{patient}"))
}

/// Sends calls, and disturbs them so many times at random moments, until each has an answer. In each round, fewer than
/// `calls` are answered before.
fn under_load(
    world: &mut World,
    (rounds, calls): (usize, u64),
    mut disturb: impl FnMut(&mut World, usize),
) -> Vec<Client> {
    world.grant("developer", 2);
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|number| Client {
            group: world.group("developer"),
            number,
            turn: 0,
            waiting: None,
            answered: Vec::new(),
            unavailable: Vec::new(),
        })
        .collect();
    let answered = |clients: &[Client]| clients.iter().map(|client| client.answered.len()).sum::<usize>();
    for round in 0..rounds {
        // A random amount of progress, then a random moment within the next few milliseconds.
        let target = answered(&clients) + usize::try_from(world.ids.below(calls)).unwrap();
        until("progress", || {
            clients.iter_mut().for_each(Client::step);
            (answered(&clients) >= target).then_some(())
        });
        std::thread::park_timeout(Duration::from_micros(world.ids.below(9_000)));
        disturb(world, round);
        clients.iter_mut().for_each(Client::send_again);
    }
    // Everybody gets an answer in the end.
    until("all answers", || {
        clients.iter_mut().for_each(Client::take);
        clients.iter().all(|client| client.waiting.is_none()).then_some(())
    });
    clients
}

/// Stops the world, and returns its rows: nothing happened twice or without a row, and every reply tells the truth.
fn nothing_twice_and_nothing_lost(world: &mut World, clients: &[Client]) -> Vec<Row> {
    // Probes of unknown outcomes begin after the replies. The daemon ends them before it stops.
    world.stop();
    let rows = evidence::verify(&world.home());
    for action in ["charge", "lossy"] {
        let effects = counted(world.effects_of(action));
        assert!(effects.len() > 20, "{action} was hardly called: {}", effects.len());
        assert!(effects.values().all(|count| *count == 1), "an effect happened twice: {effects:?}");
        let intended = counted(intents(&rows, action).iter().filter_map(|row| row.request_id.clone()).collect());
        assert!(intended.values().all(|count| *count == 1), "intended twice: {intended:?}");
        assert!(effects.keys().all(|id| intended.contains_key(id)), "an effect without a row");
    }
    let replies: Vec<_> = clients.iter().flat_map(|client| client.answered.clone()).collect();
    let asked = replies.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(History::of(world, &["charge", "lossy"], asked, replies).faults(), []);
    one_effect_for_each_key(world, clients, &rows);
    replies_tell_the_truth(world, clients, &rows);
    unknown_outcomes_have_settled(world, &rows);
    nothing_was_intended_before(clients, &rows);
    rows
}

/// Attack (Repeats, crashes and evidence): `kill -9` at any moment.
/// Defence: There are two rows, stored replies, and reconciliation at start.
#[test]
fn killed_fifty_times_under_load_nothing_happens_twice_and_nothing_acknowledged_is_lost() {
    let mut world = patient().process();
    let clients = under_load(&mut world, (KILLS, 12), |world, _| {
        world.kill();
        let head = evidence::rows(&world.home()).last().map(|row| (row.seq, row.event_hash));
        world.start_process();
        if let Some((seq, hash)) = head {
            let rows = evidence::rows(&world.home());
            assert_eq!(rows.iter().find(|row| row.seq == seq).map(|row| row.event_hash), Some(hash));
        }
    });
    let rows = nothing_twice_and_nothing_lost(&mut world, &clients);
    // A kill may come before the first row of a start.
    assert!((KILLS / 2..=KILLS + 1).contains(&rows.iter().filter(|row| row.kind == "started").count()));
    let cut_short = rows.iter().filter(|row| evidence::body(row)["why"] == "the broker died in between").count();
    assert!(cut_short > 0, "no kill ever met a call under way");
}

/// A key stands for one effect at most, whatever ids it came under.
fn one_effect_for_each_key(world: &World, clients: &[Client], rows: &[Row]) {
    let mut by_key: BTreeMap<String, usize> = BTreeMap::new();
    let effects: Vec<String> = world.effects_of("charge").into_iter().chain(world.effects_of("lossy")).collect();
    for client in clients {
        for (turn, (id, _)) in client.answered.iter().enumerate() {
            let key = format!("key-{}-{}", client.number, turn / 2);
            *by_key.entry(key).or_default() += effects.iter().filter(|effect| *effect == id).count();
        }
    }
    assert!(by_key.values().all(|count| *count <= 1), "a key executed twice: {by_key:?}");
    assert!(rows.iter().any(|row| row.kind == "answered"), "no repeat was ever answered from what is stored");
}

/// The replies of a client agree with the ledger and the counted effects.
fn replies_tell_the_truth(world: &World, clients: &[Client], rows: &[Row]) {
    let charged = world.effects_of("charge");
    for (id, reply) in clients.iter().flat_map(|client| &client.answered) {
        let Some(seq) = reply["evidence"]["seq"].as_i64() else {
            assert_eq!(code(reply), "outcome_unknown", "{reply}");
            continue;
        };
        let row = rows.iter().find(|row| row.seq == seq).expect("an acknowledged row is still there");
        assert_eq!(reply["evidence"]["event_hash"], row.event_hash.to_string());
        assert!(["executed", "outcome_unknown", "stale_request", "busy"].contains(&code(reply)), "{reply}");
        if row.kind == "succeeded" && row.action.as_deref() == Some("charge") {
            assert!(charged.contains(id), "told `executed`, but it never happened: {reply}");
        }
        if ["stale_request", "busy"].contains(&code(reply)) {
            assert!(!charged.contains(id), "told that it was not executed, but it was: {reply}");
        }
    }
}

/// Who was told that the ledger could not be written had no intent then.
fn nothing_was_intended_before(clients: &[Client], rows: &[Row]) {
    for (id, at) in clients.iter().flat_map(|client| &client.unavailable) {
        let of = |row: &&Row| row.request_id.as_ref() == Some(id) && row.ts <= at.millis();
        assert!(!rows.iter().filter(of).any(|row| row.kind == "intended"), "{id} was intended before {at}");
    }
}

/// Every unknown outcome whose effect happened has been settled by asking, once.
fn unknown_outcomes_have_settled(world: &World, rows: &[Row]) {
    let happened = world.effects_of("lossy");
    let settled =
        counted(rows.iter().filter(|row| row.kind == "settled").filter_map(|row| row.request_id.clone()).collect());
    assert!(settled.values().all(|count| *count == 1), "{settled:?}");
    for id in &happened {
        assert!(settled.contains_key(id), "{id} happened and is not settled");
    }
    assert!(settled.keys().all(|id| happened.contains(id)), "settled as succeeded, but it never happened");
}

#[test]
fn a_call_that_was_under_way_when_the_host_died_is_answered_outcome_unknown() {
    let mut world = World::builder().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let write = developer.send(call("charge", json!({ "ms": 600_000 })));
    let read = developer.send(call("wait", json!({ "ms": 600_000 })));
    for id in [&write, &read] {
        until("the intent", || (world.kinds_of(&developer, id) == ["intended"]).then_some(()));
    }
    world.kill();
    world.start_process();
    assert_eq!(code(&developer.reply(&write)), "outcome_unknown");
    assert_eq!(code(&developer.reply(&read)), "provider_timeout", "a read changed nothing");
    // The request's file may have outlived the daemon. Then the next one has read it again.
    let kinds = |id| world.kinds_of(&developer, id).into_iter().filter(|kind| kind != "repeated").collect::<Vec<_>>();
    assert_eq!(kinds(&write), ["intended", "unknown"]);
    assert_eq!(kinds(&read), ["intended", "timed_out"]);
    assert!(world.effects_of("charge").is_empty(), "nothing is executed again at a start");
    // The client that never heard asks again under the same id, and under the same key: neither executes.
    let again = with(call("charge", json!({ "ms": 600_000 })), "request_id", write);
    assert_eq!(code(&developer.ask(again)), "outcome_unknown");
    assert!(world.effects_of("charge").is_empty());
}

#[test]
fn a_reply_that_was_lost_with_the_host_is_delivered_by_the_next_one() {
    let mut world = World::builder().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    // The reply cannot leave: something lies where it should be. So it is durable, and undelivered.
    let blocked = developer.response("late.json");
    std::fs::create_dir_all(blocked.join("x")).unwrap();
    developer.send(with(call("charge", json!({})), "request_id", "late"));
    until("the outcome", || (world.kinds_of(&developer, "late") == ["intended", "succeeded"]).then_some(()));
    world.kill();
    std::fs::remove_dir_all(&blocked).unwrap();
    world.start_process();
    assert_eq!(code(&developer.reply("late")), "executed");
    assert_eq!(world.effects_of("charge"), ["late"]);
}

#[test]
fn a_graceful_stop_lets_what_runs_finish_and_leaves_the_rest_for_the_next_start() {
    let mut world = World::builder().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let running = developer.send(call("charge", json!({ "ms": 500 })));
    until("the intent", || (world.kinds_of(&developer, &running) == ["intended"]).then_some(()));
    world.stop();
    let waiting = developer.send(call("charge", json!({})));
    assert_eq!(code(&developer.reply(&running)), "executed");
    assert_eq!(world.kinds_of(&developer, &running), ["intended", "succeeded"]);
    let last: Vec<String> = world.rows().into_iter().rev().take(2).map(|row| row.kind).collect();
    assert_eq!(last, ["checkpointed", "stopped"]);
    world.start_process();
    assert_eq!(code(&developer.reply(&waiting)), "executed");
    assert_eq!(world.effects_of("charge"), [running, waiting]);
}
