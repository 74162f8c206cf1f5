//! Every system call with which a request touches a file fails, once or until somebody has seen to it: bad disk, full disk, no
//! file descriptors. The host tells the truth about that request, and then requests work again, without a restart.

use rustix::process::Pid;
use serde_json::{Value, json};
use tests::group::{call, code};
use tests::strace::{FILE_CALLS, Lasting, Point, Strace, missing, points};
use tests::{Group, History, World, sampled, skipped, until};

/// How many faults of one kind are tried unless there is time for all.
const SAMPLED: usize = 24;
/// So often a fault that lasts is met before it is over, if nothing is said before.
const MET: usize = 3;

struct Failing {
    world: World,
    group: Group,
    asked: Vec<String>,
    replies: Vec<(String, Value)>,
    // Requests whose reply did not come, although the next one's did.
    late: Vec<String>,
    // Requests at whose own file the fault has struck.
    struck_at_their_file: Vec<String>,
}

impl Failing {
    /// The same with files over both transports.
    fn by_files(mut self) -> Self {
        self.group = self.group.by_files();
        self
    }

    fn new() -> Self {
        let world = World::builder().process();
        world.grant("developer", 2);
        let group = world.group("developer");
        Self {
            world,
            group,
            asked: Vec::new(),
            replies: Vec::new(),
            late: Vec::new(),
            struck_at_their_file: Vec::new(),
        }
    }

    fn take(&mut self, id: &str, reply: Value) {
        let truths = ["executed", "outcome_unknown", "evidence_unavailable", "provider_failed", "malformed_request"];
        assert!(truths.contains(&code(&reply)), "{reply}");
        self.replies.push((id.to_owned(), reply));
    }

    /// The system calls of one request that can fail, and what they name.
    fn rehearse(&self) -> Vec<(Point, String)> {
        let (threads, log) = (self.world.threads(), self.world.outside().join("rehearsal"));
        let trace = format!("trace={}", FILE_CALLS.join(","));
        let all: Vec<Pid> = vec![self.world.pid()];
        let strace = Strace::attach(&all, &["-f", "-y", "-e", &trace], &log);
        let reply = self.group.call("charge", json!({}));
        assert_eq!(code(&reply), "executed");
        // The descriptor that wakes a thread is no file, and never fails.
        let is_a_file = |(_, arguments): &(Point, String)| !arguments.contains("anon_inode");
        points(&strace.detach(), &threads).into_iter().filter(is_a_file).collect()
    }

    /// One request, with that fault there.
    fn fail_at(&mut self, point: &Point, error: &str, lasting: Lasting) -> bool {
        let log = self.world.outside().join("fault");
        let strace = Strace::inject(&self.world.threads(), point, &format!("error={error}"), lasting, &log);
        let most = if lasting == Lasting::Once { 1 } else { MET };
        let id = self.group.send(call("charge", json!({})));
        self.asked.push(id.clone());
        let mut reply = None;
        until("a reply, or the fault", || {
            reply = self.group.try_reply(&id);
            (reply.is_some() || strace.strikes() >= most || strace.has_missed()).then_some(())
        });
        let (has_struck, has_missed) = (strace.has_struck(), strace.has_missed());
        if strace.has_struck_at("/tasks") {
            self.struck_at_their_file.push(id.clone());
        }
        drop(strace);
        if has_missed {
            // Which of a thread's calls wakes another thread is not always the same. That one cannot fail, and nobody
            // needs to survive it.
            self.world.kill();
            self.world.start_process();
        }
        assert!(!self.world.has_died(), "{point:?} {error}: {}", self.world.daemon_log());
        // The fault is over: sooner or later a call works.
        until("a call that works", || {
            let next = self.group.call("echo", json!({}));
            assert!(["executed", "evidence_unavailable"].contains(&code(&next)), "{point:?} {error}: {next}");
            (code(&next) == "executed").then_some(())
        });
        match reply.or_else(|| self.group.try_reply(&id)) {
            Some(reply) => self.take(&id, reply),
            None => self.late.push(id),
        }
        has_struck && !has_missed
    }
}

fn every_call_fails_with(error: &str, lasting: Lasting) {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut failing = Failing::new();
    let mut all = failing.rehearse();
    if lasting == Lasting::FromThereOn {
        // The first of its name, and all that follow it.
        all.retain(|(point, _)| point.nth == 1);
    }
    let chosen = sampled(all, SAMPLED);
    let struck = chosen.iter().filter(|(point, _)| failing.fail_at(point, error, lasting)).count();
    assert!(struck * 10 >= chosen.len() * 7, "only {struck} faults at {} points", chosen.len());
    // A client without a reply asks for the result; the next listing finds everything that a failing call has lost.
    for id in std::mem::take(&mut failing.late) {
        let reply = until("an answer", || {
            let told = failing.group.ask(json!({ "type": "ext_result", "of": id }));
            failing.group.try_reply(&id).or_else(|| (code(&told) != "unknown_request").then_some(told))
        });
        failing.take(&id, reply);
    }
    failing.world.settle();
    let history = History::of(&failing.world, &["charge"], failing.asked.clone(), failing.replies.clone());
    assert_eq!(history.faults(), []);
}

#[test]
fn a_reply_that_could_not_be_written_is_written_when_it_can_be() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut failing = Failing::new().by_files();
    let replies: Vec<_> =
        failing.rehearse().into_iter().filter(|(_, arguments)| arguments.contains("/responses")).collect();
    assert!(!replies.is_empty(), "no reply was written");
    for (point, _) in &replies {
        failing.fail_at(point, "ENOSPC", Lasting::Once);
    }
    for id in std::mem::take(&mut failing.late) {
        failing.group.reply(&id);
    }
}

#[test]
fn a_request_that_could_not_be_read_is_read_when_it_can_be() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut failing = Failing::new().by_files();
    let reads: Vec<_> = failing.rehearse().into_iter().filter(|(_, arguments)| arguments.contains("/tasks")).collect();
    assert!(!reads.is_empty(), "no request was read");
    for (point, _) in &reads {
        failing.fail_at(point, "EMFILE", Lasting::Once);
    }
    // On a busy machine a point can be another call, such as that of the effect.
    for (id, reply) in failing.replies.iter().filter(|(id, _)| failing.struck_at_their_file.contains(id)) {
        assert_eq!(code(reply), "executed", "{id}: {reply}");
    }
    assert!(!failing.struck_at_their_file.is_empty(), "no fault has met a request's file");
}

/// Attack (Repeats, crashes and evidence): Any one system call of the disk fails.
/// Defence: There is no proof without a commit. The next call starts from a clean state.
#[test]
fn every_file_call_of_a_write_that_meets_a_bad_disk_leaves_the_truth_and_a_host_that_works() {
    every_call_fails_with("EIO", Lasting::Once);
}

#[test]
fn every_file_call_of_a_write_that_meets_a_full_disk_leaves_the_truth_and_a_host_that_works() {
    every_call_fails_with("ENOSPC", Lasting::Once);
}

#[test]
fn every_file_call_of_a_write_that_gets_no_file_descriptor_leaves_the_truth_and_a_host_that_works() {
    every_call_fails_with("EMFILE", Lasting::Once);
}

#[test]
fn a_disk_that_stays_bad_a_disk_that_stays_full_and_no_more_descriptors_leave_the_truth_and_a_host_that_works_afterwards()
 {
    for error in ["EIO", "ENOSPC", "EMFILE"] {
        every_call_fails_with(error, Lasting::FromThereOn);
    }
}

#[test]
fn a_request_that_goes_away_while_it_is_looked_at_was_never_there() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let failing = Failing::new().by_files();
    let (group, log) = (&failing.group, failing.world.outside().join("delay"));
    let all: Vec<Pid> = vec![failing.world.pid()];
    // Between the moment in which the host finds the file and the one in which it looks at it lies a second.
    let delay = ["-f", "-e", "trace=openat2,fstat", "-e", "inject=fstat:delay_enter=1000000"];
    let strace = Strace::attach(&all, &delay, &log);
    let id = group.send(call("charge", json!({})));
    until("it is found", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(&id)).then_some(()));
    // So does a shim that gives up, and so does the host itself when it has decided what it meets a second time.
    std::fs::remove_file(group.task(&format!("{id}.json"))).unwrap();
    until("it is looked at", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("st_mode")).then_some(()));
    strace.detach();
    assert_eq!(code(&group.call("echo", json!({}))), "executed");
    assert_eq!(group.try_reply(&id), None);
    assert_eq!(failing.world.kinds_of(group, &id), [""; 0]);
}
