//! The real daemon, killed at every system call with which a request touches a file.

use rustix::process::Pid;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::group::{call, code, with};
use tests::strace::{FILE_CALLS, Lasting, Point, Strace, missing, points};
use tests::world::SCRIPT;
use tests::{Group, History, World, sampled, skipped, until};

/// How many points of one verb are tried unless there is time for all.
const SAMPLED: usize = 36;

/// How often the points are gone through at most. On a busy machine a thread can make its calls in other turns than in
/// the rehearsal, so that a point is missed.
const ROUNDS: usize = 5;

/// A read whose executions are counted.
const PEEK: &str = "[actions.peek]\nlevel = 1\nappend_to = \"peek.log\"\nexposes = []\n";

/// A request that is sent again and again, each time with a death somewhere else in it.
struct Verb {
    group: &'static str,
    document: Value,
    // The codes that may be heard.
    truths: &'static [&'static str],
}

struct Crashes {
    world: World,
    group: Group,
    verb: Verb,
    asked: Vec<String>,
    replies: Vec<(String, Value)>,
}

impl Crashes {
    fn new(verb: Verb) -> Self {
        let world = World::builder().script("demo", &format!("{SCRIPT}\n{PEEK}")).process();
        world.grant("developer", 2);
        let group = world.group(verb.group);
        Self { world, group, verb, asked: Vec::new(), replies: Vec::new() }
    }

    fn send(&mut self) -> String {
        let id = self.group.send(self.verb.document.clone());
        self.asked.push(id.clone());
        id
    }

    fn take(&mut self, id: &str, reply: Value) {
        assert!(self.verb.truths.contains(&code(&reply)), "{reply}");
        self.replies.push((id.to_owned(), reply));
    }

    /// The steps of a daemon that has just started, for one request.
    fn rehearse(&mut self) -> Vec<Point> {
        self.world.kill();
        self.world.start_process();
        let (threads, log) = (self.world.threads(), self.world.outside().join("rehearsal"));
        let trace = format!("trace={}", FILE_CALLS.join(","));
        let all: Vec<Pid> = vec![self.world.pid()];
        let strace = Strace::attach(&all, &["-f", "-e", &trace], &log);
        let id = self.send();
        let reply = self.group.reply(&id);
        assert_eq!(code(&reply), self.verb.truths[0]);
        self.take(&id, reply);
        points(&strace.detach(), &threads).into_iter().map(|(point, _)| point).collect()
    }

    /// One request to a daemon that dies there; whether it did.
    fn die_at(&mut self, point: &Point) -> bool {
        let log = self.world.outside().join("crash");
        let strace = Strace::inject(&self.world.threads(), point, "signal=SIGKILL", Lasting::Once, &log);
        let id = self.send();
        let mut early = None;
        until("a reply, or a death", || {
            early = self.group.try_reply(&id);
            (early.is_some() || self.world.has_died()).then_some(())
        });
        drop(strace);
        let died = self.world.has_died();
        self.world.kill();
        let early = early.or_else(|| self.group.try_reply(&id));
        let was_heard = early.is_some();
        if let Some(reply) = early {
            self.take(&id, reply);
        }
        self.world.start_process();
        // Who was not answered before is answered now, without asking again.
        let late = if was_heard { self.group.try_reply(&id) } else { Some(self.group.reply(&id)) };
        if let Some(reply) = late {
            self.take(&id, reply);
        }
        died
    }

    /// Whether a call whose outcome is unknown has had its effect (or, if `false`, has not).
    fn unknown_that_happened(&self, happened: bool) -> bool {
        let effects = self.world.effects_of("charge");
        let mut unknown = self.replies.iter().filter(|(_, reply)| code(reply) == "outcome_unknown");
        unknown.any(|(id, _)| effects.contains(id) == happened)
    }

    /// Goes through the points until there were enough deaths and these cases; asserts what holds afterwards. Returns
    /// the codes that were heard.
    fn run(&mut self, has_met_its_cases: fn(&Self) -> bool) -> BTreeSet<String> {
        let all = self.rehearse();
        assert!(all.len() > 10, "the points were not found: {all:?}");
        let mut left = sampled(all, SAMPLED);
        let enough = left.len() * 7 / 10;
        let mut deaths = 0;
        for _ in 0..ROUNDS {
            let before = left.len();
            left.retain(|point| !self.die_at(point));
            deaths += before - left.len();
            if deaths >= enough && has_met_its_cases(self) {
                break;
            }
            if left.is_empty() {
                left = self.rehearse();
            }
        }
        assert!(deaths >= enough, "only {deaths} deaths; {enough} are enough");
        self.world.settle();
        let history = History::of(&self.world, &["peek", "charge"], self.asked.clone(), self.replies.clone());
        let rows: Vec<_> = self.asked.iter().map(|id| (id, self.world.kinds_of(&self.group, id))).collect();
        assert_eq!(history.faults(), [], "{rows:?}");
        history.replies.iter().map(|(_, reply)| code(reply).to_owned()).collect()
    }
}

#[test]
fn killed_at_every_system_call_of_a_read_it_is_executed_once_at_most_and_answered_truly() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let document = call("peek", json!({}));
    let mut crashes = Crashes::new(Verb { group: "developer", document, truths: &["executed", "provider_timeout"] });
    crashes.run(|_| true);
}

/// Attack (Repeats, crashes and evidence): `kill -9` at any system call of a write.
/// Defence: The intent is durable first. Nothing is executed at start.
#[test]
fn killed_at_every_system_call_of_a_write_it_is_executed_once_at_most_and_answered_truly() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let document = call("charge", json!({}));
    let mut crashes = Crashes::new(Verb { group: "developer", document, truths: &["executed", "outcome_unknown"] });
    let heard = crashes.run(|so_far| so_far.unknown_that_happened(true) && so_far.unknown_that_happened(false));
    assert_eq!(heard.len(), 2, "no death ever met a call under way: {heard:?}");
    assert!(crashes.unknown_that_happened(true), "no death ever came after the effect");
    assert!(crashes.unknown_that_happened(false), "no death ever came between the intent and the effect");
}

#[test]
fn killed_at_every_system_call_of_a_refusal_it_is_refused_once_and_answered() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let document = call("deploy", json!({}));
    let mut crashes = Crashes::new(Verb { group: "developer", document, truths: &["level_too_low"] });
    crashes.run(|_| true);
    assert_eq!(crashes.world.effects_of("deploy"), [""; 0]);
}

/// Attack (Repeats, crashes and evidence): `kill -9` at any system call of a grant.
/// Defence: One transaction contains the row, the grant and the reply.
#[test]
fn killed_at_every_system_call_of_a_grant_it_takes_effect_as_often_as_it_is_recorded() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let document = json!({ "type": "ext_grant", "group_folder": "security", "provider": "demo", "access_level": 1, "allowed_actions": ["echo"] });
    let mut crashes = Crashes::new(Verb { group: "main", document, truths: &["executed"] });
    crashes.run(|_| true);
    let world = &crashes.world;
    for id in &crashes.asked {
        let kinds = world.kinds_of(&crashes.group, id);
        // A request that was decided and not yet removed is found again.
        let again = kinds.iter().skip(1).all(|kind| kind == "repeated");
        assert!(kinds.first().is_some_and(|kind| kind == "granted") && again, "{id}: {kinds:?}");
    }
    let security = world.group("security");
    assert_eq!(security.snapshot()["capabilities"][0]["access_level"], 1);
    assert_eq!(code(&security.call("echo", json!({}))), "executed");
    let more = with(call("peek", json!({})), "request_id", "more");
    assert_eq!(code(&security.ask(more)), "action_not_allowed");
}
