//! Measures how long the loop stands still while rows of a large ledger are deleted that nobody has read for long.
//!
//! ```text
//! LEDGER_MIB=1024 cargo test -p host-broker --test ledger -- --ignored --nocapture rows_of_a_cold_ledger
//! ```
//! It makes a ledger of that size below TMPDIR, takes its pages out of the kernel's cache, moves rows into a segment, and
//! prints the time of each deletion with its commit, and of the commits of one row in between.

use crate::ledger::world::{Hand, START, open};
use kernel::{BatchWriter, Effect, Ledger, Step, WriteError};
use rustix::fs::{Advice, fadvise};
use serde_json::json;
use shared::digest::Digest;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::ledger::chain::{Draft, RowKind};
use store::ledger::segments;
use store::ledger::segments::Written;
use store::{Durability, Transaction};

/// The rows in the segment.
const ROWS: i64 = 20_000;
/// The commits of one row between two deletions.
const BETWEEN: usize = 10;

#[derive(Debug)]
enum Happening {
    Row(i64),
    Rotated(Box<Written>),
    Delete,
}

impl From<Effect> for Happening {
    fn from(effect: Effect) -> Self {
        panic!("nothing starts here: {effect:?}")
    }
}

struct Writer;

impl BatchWriter<Happening> for Writer {
    type FollowUps = ();

    fn write<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        event: Happening,
    ) -> Result<Step<'tx, Happening>, WriteError<Happening>> {
        let written = match &event {
            Happening::Row(number) => {
                // Ids of clients are random: each is in another place of the index.
                let id = format!("ext-{}", Digest::of(&number.to_be_bytes()).hex()).parse().unwrap();
                let body = json!({ "request": "x".repeat(480) });
                tx.append(&Draft { request_id: Some(&id), body, ..Draft::new(RowKind::Noted, "group:developer") })
                    .map(|_| ())
            }
            Happening::Rotated(written) => segments::note(tx, written),
            Happening::Delete => segments::delete_rows(tx),
        };
        match written {
            Ok(()) => Ok(kernel::close(tx, event, None)),
            Err(error) => Err(WriteError { event, error }),
        }
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}

fn timed(ledger: &mut Ledger, event: Happening) -> Duration {
    let began = Instant::now();
    let batch = ledger.batch(Durability::Full, vec![event], &mut Writer);
    assert!(batch.unwritten.is_empty(), "{batch:?}");
    ledger.shorten_log();
    began.elapsed()
}

fn forget_pages(home: &Path) {
    for name in ["ledger.db", "ledger.db-wal"] {
        // The log goes with the last connection.
        let Ok(file) = std::fs::File::open(home.join(name)) else { continue };
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!("{what}: {} times, median {:?}, p99 {:?}, longest {:?}", times.len(), at(50), at(99), at(100));
}

#[test]
#[ignore = "measures, for some minutes, on a gigabyte of disk"]
#[expect(clippy::disallowed_methods, reason = "the size of the ledger is a setting of the measurement")]
fn rows_of_a_cold_ledger_are_deleted_in_short_steps() {
    let mebibytes: u64 = std::env::var("LEDGER_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(1024);
    let home = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::new(START));
    let mut ledger = open(home.path(), &clock).unwrap();
    let size = || std::fs::metadata(home.path().join("ledger.db")).unwrap().len() >> 20;
    let mut number = 0;
    while size() < mebibytes {
        let rows = (0..256).map(|step| Happening::Row(number + step)).collect();
        number += 256;
        assert!(ledger.batch(Durability::Normal, rows, &mut Writer).unwritten.is_empty());
        ledger.shorten_log();
    }
    println!("{} MiB, {} rows", size(), ledger.head().seq);
    clock.turn(25 * 3_600_000);
    let due = ledger.due_segment(0, ROWS).unwrap().unwrap();
    let written = segments::write(home.path(), due).unwrap();
    let others = |ledger: &mut Ledger, number: &mut i64, times: &mut Vec<Duration>| {
        for _ in 0..BETWEEN {
            *number += 1;
            times.push(timed(ledger, Happening::Row(*number)));
        }
    };
    let (mut before, mut between, mut deletions) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..50 {
        others(&mut ledger, &mut number, &mut before);
    }
    drop(ledger);
    forget_pages(home.path());
    let mut ledger = open(home.path(), &clock).unwrap();
    timed(&mut ledger, Happening::Rotated(Box::new(written)));
    while segments::has_deletable(ledger.view()).unwrap() {
        deletions.push(timed(&mut ledger, Happening::Delete));
        others(&mut ledger, &mut number, &mut between);
    }
    println!("{} rows are deleted at once on average", ROWS / i64::try_from(deletions.len()).unwrap());
    print("a row before", before);
    print("a row between deletions", between);
    print("a deletion", deletions);
}
