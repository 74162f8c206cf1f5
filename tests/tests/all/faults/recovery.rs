//! The daemon dies while it takes up what an earlier death has left: at every system call with which a start touches a file.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::group::{call, code};
use tests::strace::{Begun, missing};
use tests::{Group, History, World, evidence, sampled, skipped, until};

/// How many points are tried unless there is time for all.
const SAMPLED: usize = 36;

struct Recoveries {
    world: World,
    group: Group,
    asked: Vec<String>,
    replies: Vec<(String, Value)>,
}

impl Recoveries {
    fn new() -> Self {
        let world = World::builder().process();
        world.grant("developer", 2);
        let group = world.group("developer");
        Self { world, group, asked: Vec::new(), replies: Vec::new() }
    }

    fn send(&mut self, document: Value) -> String {
        let id = self.group.send(document);
        self.asked.push(id.clone());
        id
    }

    /// A daemon dies in the middle of a write and of a read, and more comes while there is none.
    fn leave_behind(&mut self) -> Vec<String> {
        let begun = ["charge", "wait"].map(|action| self.send(call(action, json!({ "ms": 600_000 }))));
        until("both have begun", || {
            begun.iter().all(|id| !self.world.rows_of(&self.group, id).is_empty()).then_some(())
        });
        self.world.kill();
        let waiting = [call("charge", json!({})), call("deploy", json!({}))].map(|document| self.send(document));
        [begun, waiting].concat()
    }

    /// The next daemon finds it, dies there, and the one after it answers everybody.
    fn die_at(&mut self, point: &Begun) -> bool {
        let ids = self.leave_behind();
        let died = !self.world.start_process_that_dies_at(point);
        self.world.kill_if_it_runs();
        self.world.start_process();
        for id in ids {
            let reply = self.group.reply(&id);
            self.replies.push((id, reply));
        }
        died
    }
}

#[test]
fn killed_at_every_system_call_of_a_start_the_next_one_finds_everything_and_answers_everybody() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut recoveries = Recoveries::new();
    recoveries.leave_behind();
    let all = recoveries.world.rehearse_a_start();
    assert!(all.len() > 50, "the points were not found: {all:?}");
    for id in recoveries.asked.clone() {
        let reply = recoveries.group.reply(&id);
        recoveries.replies.push((id, reply));
    }
    let chosen = sampled(all, SAMPLED);
    let deaths = chosen.iter().filter(|point| recoveries.die_at(point)).count();
    assert!(deaths * 10 >= chosen.len() * 7, "only {deaths} deaths at {} points", chosen.len());
    recoveries.world.settle();
    let Recoveries { world, asked, replies, .. } = recoveries;
    let history = History::of(&world, &["charge"], asked, replies);
    assert_eq!(history.faults(), []);
    let heard: BTreeSet<&str> = history.replies.iter().map(|(_, reply)| code(reply)).collect();
    assert_eq!(heard, BTreeSet::from(["executed", "level_too_low", "outcome_unknown", "provider_timeout"]));
}

#[test]
fn a_signal_stops_a_daemon_in_an_orderly_way_as_soon_as_it_says_that_it_is_ready() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut world = World::builder().process();
    world.stop();
    for signal in [Signal::TERM, Signal::INT] {
        world.start_process_with_slow_signal_handlers();
        kill_process(world.pid(), signal).unwrap();
        until("the daemon's end", || world.has_ended().then_some(()));
        let kinds: Vec<String> = evidence::rows(&world.home()).into_iter().rev().map(|row| row.kind).take(2).collect();
        assert_eq!(kinds, ["checkpointed", "stopped"], "{signal:?}");
    }
}
