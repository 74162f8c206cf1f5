//! Measures what one hostile group costs the others: each weapon in turn, then all together, at full speed.
//!
//! ```text
//! cargo bench --workspace --bench siege                 # ten seconds a weapon
//! SIEGE_SECONDS=40 cargo bench --workspace --bench siege  # ten minutes for each kind of group
//! ```
//! A group that was quiet may use 200 ms of the loop at once. So the first half second of an attack has a column of its
//! own, and the others are of an attack that goes on. The bench times another group's reads alone, beside an attack on an unserved directory, and beside the attack
//! itself. The attack on the unserved directory shows what the attacker takes from the machine without the broker. The
//! bench also shows the daemon's memory, the bytes of its home, and whether its evidence verifies.
//!
//! With `SIEGE_PINNED=1` the attacker has the last processor to itself and everything else has the others, as with a
//! cpuset for its sandbox. Then the figures do not contain how the system shares processors.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot run has nothing to say")]
#![expect(clippy::indexing_slicing, reason = "figures")]
#![expect(clippy::print_stdout, reason = "the figures")]
#![expect(clippy::disallowed_methods, reason = "it starts processes")]

#[path = "../roundtrip/figures.rs"]
mod figures;
#[path = "../roundtrip/parts.rs"]
#[expect(dead_code, reason = "shared with the other bench, which starts more")]
mod parts;

use figures::{median, micros, percentile};
use parts::{Broker, Client, Programs, Transport, call, client, request};
use shared::mailbox::Directory;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most documents of the attacker in its directory: the use of its own disk is not measured.
const PENDING: u64 = 2_000;

/// The time between two reads of the other group, so that it stays below its own budget of evidence: a refusal must not
/// pass for a read.
const PAUSE: Duration = Duration::from_millis(5);

/// The beginning of an attack, which uses up what the attacker's group has saved.
const BEGINNING: Duration = Duration::from_millis(500);

/// A document by its number.
type Weapon = fn(u64) -> String;

const WEAPONS: [(&str, Weapon); 14] = [
    ("calls that are refused", |n| document(n, "echo", "{}", "")),
    ("equal numbers that cannot be kept", |n| {
        document(n, "echo", &format!(r#"{{"n":[{}9007199254740993]}}"#, "9007199254740993,".repeat(3_900)), "")
    }),
    ("lists in lists", |n| {
        let nest = format!("{}{},", "[".repeat(56), "]".repeat(56));
        document(n, "echo", &format!(r#"{{"n":[{}0]}}"#, nest.repeat(1_000_000 / nest.len())), "")
    }),
    ("many keys", |n| {
        let keys: Vec<String> = (0..80_000).map(|key| format!(r#""k{key}":1"#)).collect();
        document(n, "echo", &format!("{{{}}}", keys.join(",")), "")
    }),
    ("as many values as a document may have", |n| {
        document(n, "echo", &format!(r#"{{"n":[{}0]}}"#, "[0],".repeat(9_000)), "")
    }),
    ("long texts", |n| document(n, "note", &format!(r#"{{"text":"{}"}}"#, "ab cd ".repeat(150_000)), "")),
    ("what may I", |n| format!(r#"{{"type":"ext_capabilities","request_id":"{}","include_unavailable":true}}"#, id(n))),
    ("dry runs", |n| document(n, "note", "{}", r#","dry_run":true"#)),
    ("one id again and again", |n| document(0, "echo", &format!(r#"{{"n":{n}}}"#), "")),
    ("keys of idempotency", |n| document(n, "echo", "{}", &format!(r#","idempotency_key":"key-{n}""#))),
    ("no documents", |n| format!("{{ {n}")),
    ("lists of proposals", of_files),
    ("plans of sixteen such lists", |n| {
        let list = r#"{"provider":"files","action":"list_proposals","params":{}}"#;
        let calls = [list; 16].join(",");
        format!(r#"{{"type":"ext_plan","request_id":"{}","reason":"Work","calls":[{calls}]}}"#, id(n))
    }),
    ("requests for access", |n| {
        format!(
            r#"{{"type":"ext_request","request_id":"{}","provider":"mock","access_level":2,"reason":"Work","duration_s":3600}}"#,
            id(n)
        )
    }),
];

/// The rows that the attacker's group has left behind before.
const OLD_ROWS: u64 = 100_000;

/// Fills the records with the idempotency keys and the proposals of a long history. Their rows of the ledger are in
/// segments by then, so they have none.
fn remember(home: &Path) {
    let ledger = rusqlite::Connection::open(home.join("ledger.db")).unwrap();
    let numbers = format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {OLD_ROWS})");
    let filled = format!(
        "BEGIN;
         {numbers} INSERT INTO idempotency SELECT 'group:g1', '', '', 'mock', 'echo', 'old-' || i, zeroblob(32), 'old-' || i,
             -i, (SELECT ms FROM steady) FROM n;
         {numbers} INSERT INTO approvals (code, kind, caller, request_id, provider, action, level, digest, quorum, state,
             became, asked_seq, asked_at, expires_at, reply_by, told)
             SELECT 'old-' || i, 'file', 'group:g1', 'old-' || i, 'files', 'apply_proposal', 2, zeroblob(32), 1, 'closed',
             'denied', -i, 0, 0, 0, 1 FROM n;
         INSERT INTO proposals (id, approval, caller, proposed_by, path, summary, patch_hash, until, is_revert)
             SELECT 'hitl-' || id, id, caller, request_id, 'a', 'a', digest, 0, 0 FROM approvals;
         COMMIT;"
    );
    ledger.execute_batch(&filled).unwrap();
}

fn of_files(n: u64) -> String {
    let id = id(n);
    format!(r#"{{"type":"ext_call","request_id":"{id}","provider":"files","action":"list_proposals","params":{{}}}}"#)
}

fn id(n: u64) -> String {
    format!("siege-{n}")
}

fn document(n: u64, action: &str, params: &str, more: &str) -> String {
    format!(
        r#"{{"type":"ext_call","request_id":"{}","provider":"mock","action":"{action}","params":{params}{more}}}"#,
        id(n)
    )
}

/// An attack that goes on until it is dropped.
struct Attack {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

/// The two sides of a pinned siege.
#[derive(Clone, Copy, PartialEq)]
enum Pinned {
    Attacker,
    Others,
}

/// Pins the calling thread, and the threads and processes that it starts from now on.
fn pin(side: Pinned) {
    // A pinned thread no longer sees all processors, so the first call counts them.
    static LAST: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if std::env::var_os("SIEGE_PINNED").is_none() {
        return;
    }
    let last = *LAST.get_or_init(|| processors - 1);
    assert!(last > 0, "SIEGE_PINNED needs two processors");
    let mut set = rustix::thread::CpuSet::new();
    match side {
        Pinned::Attacker => set.set(last),
        Pinned::Others => (0..last).for_each(|processor| set.set(processor)),
    }
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

impl Attack {
    /// One thread at full speed with the weapons in turn. More threads would measure how the system shares processors.
    fn on(mailbox: &Path, weapons: &[Weapon], begin: u64) -> Self {
        // The bytes of the last attack are not those of this one.
        rustix::fs::sync();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, tasks, weapons) = (Arc::clone(&stop), mailbox.join("tasks"), weapons.to_vec());
        let thread = std::thread::spawn(move || {
            pin(Pinned::Attacker);
            let directory = Directory::open(&tasks).unwrap();
            let mut sent = 0;
            for weapon in weapons.iter().cycle().take_while(|_| !stopped.load(Ordering::Relaxed)) {
                sent += 1;
                let name = format!("w{}.json", sent % PENDING);
                directory.write(&name, weapon(begin + sent).as_bytes(), 0o644).unwrap();
            }
            sent
        });
        Self { stop, thread }
    }

    /// Ends the attack, and returns how many documents there were.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

async fn reads(own: &Client, length: Duration) -> Vec<Duration> {
    let (began, mut figures) = (Instant::now(), Vec::new());
    while began.elapsed() < length {
        let (sent, request) = (Instant::now(), request("ext_call", call("echo")));
        let answer = own.call_tool(request).await.expect("an answer");
        figures.push(sent.elapsed());
        assert_ne!(answer.is_error, Some(true), "{answer:?}");
        tokio::time::sleep(PAUSE).await;
    }
    figures
}

fn bytes_below(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            let is_mailbox = entry.file_name() == "ipc";
            Some(if metadata.is_dir() && !is_mailbox { bytes_below(&entry.path()) } else { metadata.len() })
        })
        .sum()
}

/// The figures of one attack, and its documents.
struct Measured<'a> {
    beginning: &'a [Duration],
    later: &'a [Duration],
    elsewhere: &'a [Duration],
    documents: u64,
}

fn print(name: &str, alone: &[Duration], measured: &Measured<'_>) {
    let Measured { beginning, later, elsewhere, documents } = measured;
    let [p50, p99] = [micros(median(later)), micros(percentile(later, 99))];
    let against = |other: &[Duration]| p99 / micros(percentile(other, 99));
    let most = micros(percentile(beginning, 100));
    println!(
        "{name:<44} {p50:>9.0} {p99:>9.0} {:>9.2} {:>12.2} {most:>9.0} {documents:>10}",
        against(alone),
        against(elsewhere)
    );
}

async fn siege(programs: &Programs, home: &Path, level: Option<u8>, each: Duration) {
    Broker::prepare_home(home, 2);
    let config = home.join("broker.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    // The timed group has no limits; the attacker has the limits of every group.
    let text = text.replace("[limits.\"*\".\"*\"]", "[limits.g0.\"*\"]").replace("1000000", "64");
    let text = format!("{text}[providers.files]\nkind = \"files\"\n");
    std::fs::write(&config, text).unwrap();
    let grants = [Some((0, 1)), level.map(|level| (1, level))];
    for (group, level) in grants.into_iter().flatten() {
        let mut grant = Command::new(&programs.broker);
        grant.args(["grant", &format!("g{group}"), "mock", &level.to_string(), "--home"]).arg(home);
        assert!(grant.stdout(Stdio::null()).status().unwrap().success());
    }
    remember(home);
    let mut broker = Broker::serve(programs, home);
    let own = client(programs.shim(&broker.mailbox(0), Transport::Socket)).await;
    let nobody = home.with_extension("nobody");
    std::fs::create_dir_all(nobody.join("tasks")).unwrap();
    let whose = level.map_or("a group without any grant".to_owned(), |level| format!("a group with L{level}"));
    println!(
        "\n{whose:<44} {:>9} {:>9} {:>9} {:>12} {:>9} {:>10}",
        "p50 µs", "p99 µs", "× alone", "× unserved", "begins µs", "documents"
    );
    let beginning = reads(&own, BEGINNING).await;
    let alone = reads(&own, each).await;
    print("alone", &alone, &Measured { beginning: &beginning, later: &alone, elsewhere: &alone, documents: 0 });
    let mut begin = 0;
    let all: Vec<Weapon> = WEAPONS.iter().map(|(_, weapon)| *weapon).collect();
    let sieges = WEAPONS.iter().map(|(name, weapon)| (*name, vec![*weapon])).chain([("all of them", all)]);
    for (name, weapons) in sieges {
        let attack = Attack::on(&nobody, &weapons, begin);
        let elsewhere = reads(&own, each / 2).await;
        attack.end();
        let attack = Attack::on(&broker.mailbox(1), &weapons, begin);
        let beginning = reads(&own, BEGINNING).await;
        let later = reads(&own, each).await;
        let documents = attack.end();
        begin += documents + PENDING;
        print(name, &alone, &Measured { beginning: &beginning, later: &later, elsewhere: &elsewhere, documents });
    }
    drop(own);
    println!(
        "  memory at most: {} MiB, home without mailboxes: {} MiB",
        broker.peak_kib() >> 10,
        bytes_below(home) >> 20
    );
    broker.stop();
    broker.verify();
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let seconds = std::env::var("SIEGE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let programs = Programs::build();
    pin(Pinned::Others);
    let scratch = tempfile::tempdir().unwrap();
    for level in [None, Some(1), Some(2)] {
        let home = scratch.path().join(format!("home-{}", level.unwrap_or(0)));
        runtime.block_on(siege(&programs, &home, level, Duration::from_secs(seconds)));
    }
}
