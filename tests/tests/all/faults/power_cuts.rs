//! The power is cut after every write to the ledger: what was acknowledged is there, and what was executed is known.

use super::recording::{ARGUMENTS, FILES, Luck, Recording};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tests::group::{call, code};
use tests::history::Fault;
use tests::strace::{Strace, missing};
use tests::{History, World, evidence, sampled, skipped, until};

/// How many moments are tried, each with every kind of luck, unless there is time for all.
const SAMPLED: usize = 40;
/// After how many cuts the real host starts on what is left.
const STARTS: usize = 8;

struct Session {
    world: World,
    recording: Recording,
    asked: Vec<String>,
    replies: Vec<(String, Value)>,
}

/// A world whose disk is being watched.
struct Watch {
    world: World,
    strace: Strace,
    trace: PathBuf,
    before: Vec<Vec<u8>>,
}

impl Watch {
    fn new(faults: &[&str]) -> Self {
        let world = World::builder().process();
        world.grant("developer", 2);
        let trace = world.outside().join("recording");
        let all: Vec<Pid> = vec![world.pid()];
        let strace = Strace::attach(&all, &[&ARGUMENTS, faults].concat(), &trace);
        // The files as the kernel shows them: all was acknowledged before, or is in the recording as well.
        let before = FILES.iter().map(|name| std::fs::read(world.path(name)).unwrap()).collect();
        Self { world, strace, trace, before }
    }

    /// How often the log was moved into the database so far.
    fn checkpoints(&self) -> usize {
        let text = std::fs::read_to_string(&self.trace).unwrap_or_default();
        let synced = |line: &&str| line.contains("sync(") && line.contains(r"\x2e\x64\x62>");
        text.lines().filter(synced).count()
    }

    fn end(self, asked: Vec<String>, replies: Vec<(String, Value)>) -> Session {
        let recording = Recording::read(&self.strace.detach(), self.before);
        Session { world: self.world, recording, asked, replies }
    }
}

/// Some calls of every kind, recorded, with these faults in them.
fn record(faults: &[&str], rounds: usize) -> Session {
    let watch = Watch::new(faults);
    let (developer, main) = (watch.world.group("developer").by_files(), watch.world.group("main").by_files());
    let (mut asked, mut replies) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut sent = Vec::new();
        for action in ["charge", "echo", "deploy", "charge", "lossy", "charge"] {
            sent.push((&developer, developer.send(call(action, json!({})))));
        }
        let grant = json!({ "type": "ext_grant", "group_folder": "security", "provider": "demo", "access_level": 1 });
        sent.push((&main, main.send(grant)));
        sent.push((&developer, developer.send(call("charge", json!({ "ms": 5 })))));
        for (group, id) in sent {
            replies.push((id.clone(), group.reply(&id)));
            asked.push(id);
        }
        // Long replies fill the log until it is moved into the database.
        while faults.is_empty() && round == 0 && watch.checkpoints() == 0 {
            let long: Vec<String> =
                (0..8).map(|_| developer.send(call("echo", json!({ "long": "x".repeat(100_000) })))).collect();
            for id in long {
                replies.push((id.clone(), developer.reply(&id)));
                asked.push(id);
            }
        }
    }
    watch.end(asked, replies)
}

impl Session {
    /// The facts that were known when the power was cut, and those that are left.
    fn history(&self, cut: usize) -> History {
        let was_handed = |id: &str| self.recording.handed.iter().any(|(at, name)| *at < cut && name == id);
        let replies = self.replies.iter().filter(|(id, _)| was_handed(id)).cloned().collect();
        let effects = self.recording.effects.iter().filter(|(at, _)| *at < cut).map(|(_, id)| id.clone()).collect();
        let counted = vec!["charge".to_owned(), "lossy".to_owned()];
        History { rows: Vec::new(), counted, effects, asked: Vec::new(), replies, kept: Vec::new() }
    }

    /// Cuts the power at that moment, and looks at what is left in this home.
    fn cut(&self, cut: usize, luck: Luck, home: &Path) -> Vec<Fault> {
        for (name, bytes) in FILES.iter().zip(self.recording.files_after(cut, luck, &self.world.ids)) {
            std::fs::write(home.join(name), bytes).unwrap();
        }
        // It was only in memory.
        std::fs::remove_file(home.join("ledger.db-shm")).ok();
        let mut history = self.history(cut);
        history.rows = evidence::rows(home);
        let mut faults = history.faults();
        // Calls that were under way are closed by the next start.
        faults.retain(|fault| !matches!(fault, Fault::Open { .. }));
        faults
    }

    fn cut_everywhere(&self, moments: usize) -> Vec<(usize, Luck, Vec<Fault>)> {
        let home = self.world.outside().join("after");
        std::fs::create_dir_all(&home).unwrap();
        let moments = sampled(self.recording.moments(), moments);
        let cuts = moments.iter().flat_map(|moment| Luck::ALL.map(|luck| (*moment, luck)));
        cuts.map(|(cut, luck)| (cut, luck, self.cut(cut, luck, &home)))
            .filter(|(.., faults)| !faults.is_empty())
            .collect()
    }
}

/// Attack (Repeats, crashes and evidence): A power cut at any moment loses any part of the unsynced
/// data.
/// Defence: An outcome is synced before its reply, and the intent of a write before the write.
#[test]
fn after_a_power_cut_at_any_moment_everything_acknowledged_is_there_and_the_rest_is_closed_by_the_next_start() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let mut session = record(&[], 3);
    let moments = session.recording.moments();
    assert!(moments.len() > 200, "hardly anything was recorded: {moments:?}");
    assert_eq!(session.history(usize::MAX).replies.len(), session.asked.len(), "every reply is in the recording");
    assert!(session.recording.effects.len() >= 12, "and every effect: {:?}", session.recording.effects);
    let faults = session.cut_everywhere(SAMPLED);
    assert!(faults.is_empty(), "{faults:?}");
    let all = moments.len();
    for (n, cut) in moments.into_iter().enumerate().filter(|(n, _)| n % (all / STARTS) == 0) {
        session.world.kill_if_it_runs();
        let luck = Luck::ALL[n % Luck::ALL.len()];
        let home = session.world.home();
        assert_eq!(session.cut(cut, luck, &home), [], "{luck:?} at {cut}");
        let mut history = session.history(cut);
        for action in ["charge", "lossy"] {
            std::fs::write(session.world.path(&format!("{action}.log")), "").unwrap();
        }
        session.world.start_process();
        session.world.settle();
        history.rows = session.world.rows();
        assert_eq!(history.faults(), [], "{luck:?} at {cut}");
        assert_eq!(session.world.effects_of("charge"), [""; 0], "nothing is executed again");
    }
}

/// The behaviour of a kernel after a failed sync: it forgets the unwritten pages, and the next sync succeeds.
fn failing(nth: usize) -> String {
    format!("inject=fdatasync,fsync:error=EIO:when={nth}")
}

#[test]
fn after_a_sync_that_failed_and_a_power_cut_everything_acknowledged_is_there() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    for nth in 1..=4 {
        let session = record(&["-e", &failing(nth)], 1);
        let faults = session.cut_everywhere(SAMPLED / 4);
        assert!(faults.is_empty(), "the failure of sync {nth}: {faults:?}");
        let answers: Vec<&str> = session.replies.iter().map(|(_, reply)| code(reply)).collect();
        assert!(answers.contains(&"executed"), "{answers:?}");
    }
}

#[test]
fn a_failed_sync_after_the_intent_of_a_read_leaves_no_hole_in_the_log() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let watch = Watch::new(&["-e", &failing(1)]);
    let developer = watch.world.group("developer");
    // Its intent is committed without a sync, and no outcome follows.
    let read = developer.send(call("wait", json!({ "ms": 600_000 })));
    until("the intent", || (watch.world.kinds_of(&developer, &read) == ["intended"]).then_some(()));
    let (mut asked, mut replies) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let id = developer.send(call("charge", json!({})));
        replies.push((id.clone(), developer.reply(&id)));
        asked.push(id);
    }
    let mut session = watch.end(asked, replies);
    let faults = session.cut_everywhere(SAMPLED / 4);
    // The call that waits ends with its host.
    session.world.kill();
    session.world.start_process();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn a_disk_that_only_says_that_it_has_synced_is_found_out_by_these_tests() {
    if let Some(why) = missing() {
        return skipped(why);
    }
    let session = record(&["-e", "inject=fdatasync,fsync:retval=0"], 1);
    let faults: Vec<Fault> = session.cut_everywhere(SAMPLED).into_iter().flat_map(|(.., faults)| faults).collect();
    assert!(faults.iter().any(|fault| matches!(fault, Fault::WithoutEvidence { .. })), "{faults:?}");
    assert!(faults.iter().any(|fault| matches!(fault, Fault::Unlogged { .. })), "{faults:?}");
}
