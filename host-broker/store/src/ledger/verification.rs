//! The verification of all rows beside a running daemon, once after each start.
//!
//! A start verifies the last rows only. A thread with a view of its own then follows the whole chain, through the
//! segments and the database, up to the row with which the daemon started. It is slow on purpose: it works for a short
//! time and then rests four times as long, and no transaction is open while it rests.

use crate::ledger::chain::Head;
use crate::ledger::checkpoints::{Kept, Signed};
use crate::ledger::health::{Health, Verification};
use crate::ledger::segments;
use crate::ledger::verifier::{Break, Verifier};
use crate::{StoreError, open};
use model::errors::chain;
use rusqlite::ErrorCode;
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The approximate time of work between two rests.
const WORK: Duration = Duration::from_millis(5);
/// The ratio of a rest to the work before it.
const REST: u32 = 4;
/// The number of rows between two checks of the time.
const LOOK: i64 = 64;
/// The lowest priority: everything else on the machine goes first.
const NICE: i32 = 19;

/// A verification that is under way; dropping it stops the thread.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Returns whether the thread has ended, also by a panic.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

/// The reason why following the chain ended early.
enum Ended {
    Stopped,
    Failed(StoreError),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Verifies all rows up to this one on a thread of its own, also against the last checkpoint that the broker has signed.
/// `health` shows its progress. `report` gets the result and, if all rows are right, the signed state, unless it is stopped.
///
/// # Errors
/// The error of the system: no thread was started.
pub fn start(
    home: &Path,
    (last, kept): (Head, Option<Kept>),
    health: watch::Sender<Health>,
    report: impl FnOnce(Verification, Option<Signed>) + Send + 'static,
) -> Result<Running, std::io::Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let (home, stopped) = (home.to_owned(), Arc::clone(&stop));
    let run = move || {
        // On Linux this is the priority of the calling thread alone.
        rustix::process::setpriority_process(None, NICE).ok();
        let mut verifier = Verifier::new();
        if let Some(result) = verify(&home, (last, kept.as_ref()), (&mut verifier, &health), &stopped) {
            let is_whole = matches!(result, Verification::Whole { .. });
            report(result, Signed::verified(verifier.checkpoints()).filter(|_| is_whole));
        }
    };
    let thread = std::thread::Builder::new().name("verifier".to_owned()).spawn(run)?;
    Ok(Running { stop, thread: Some(thread) })
}

/// Follows the chain; `None` if it is stopped.
fn verify(
    home: &Path,
    (last, kept): (Head, Option<&Kept>),
    (verifier, health): (&mut Verifier, &watch::Sender<Health>),
    stop: &AtomicBool,
) -> Option<Verification> {
    let mut work = Instant::now();
    let followed = follow(home, last, |row| {
        verifier.take(row).map_err(StoreError::from)?;
        if let Some(other) = kept.and_then(|kept| kept.differs(verifier.checkpoints().tree())) {
            return Err(StoreError::from(other).into());
        }
        if row.seq % LOOK != 0 {
            return Ok(());
        }
        if stop.load(Ordering::Acquire) {
            return Err(Ended::Stopped);
        }
        if work.elapsed() >= WORK {
            health.send_if_modified(|health| {
                // The finding of an earlier daemon stays until all rows are right.
                let shows = !matches!(health.verification, Verification::Broken { .. });
                if shows {
                    health.verification = Verification::Running { row: row.seq, of: last.seq };
                }
                shows
            });
            std::thread::park_timeout(work.elapsed().saturating_mul(REST));
            work = Instant::now();
        }
        Ok(())
    });
    let head = verifier.head();
    let broken = |fault: &Break| Some(Verification::Broken { row: fault.row(), error: fault.to_string() });
    match followed {
        Ok(()) if head.seq < last.seq => broken(&Break::Short { found: head.seq, expected: last.seq }),
        // The daemon appends to the chain that it found; these rows must be that chain.
        Ok(()) if head.hash != last.hash => broken(&Break::Link { seq: last.seq.saturating_add(1) }),
        Ok(()) => {
            let contradiction = |kept: &Kept| kept.contradiction(&Signed::verified(verifier.checkpoints())?);
            let found = kept.and_then(contradiction);
            found.as_ref().map_or(Some(Verification::Whole { row: last.seq }), broken)
        }
        Err(Ended::Stopped) => None,
        Err(Ended::Failed(StoreError::Broken(fault))) => broken(&fault),
        Err(Ended::Failed(error)) => {
            let (row, text) = (head.seq.saturating_add(1), chain(&error));
            Some(if may_pass(&error) {
                Verification::Unfinished { row, error: text }
            } else {
                Verification::Broken { row, error: text }
            })
        }
    }
}

/// Returns whether the rows may be readable later. Otherwise they count as missing or damaged.
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Segment { source, .. } | StoreError::File { source, .. } => {
            Errno::from_io_error(source).is_some_and(|errno| PASSING.contains(&errno))
        }
        StoreError::Open { source, .. } | StoreError::Statement { source, .. } => {
            source.0.sqlite_error_code().is_some_and(|code| PASSING_CODES.contains(&code))
        }
        StoreError::Locked { .. } | StoreError::Clock { .. } | StoreError::Fleet(_) => true,
        StoreError::Version { .. }
        | StoreError::Broken(_)
        | StoreError::Conflict { .. }
        | StoreError::Stored { .. } => false,
    }
}

/// Errors of the system that say nothing about the file.
const PASSING: [Errno; 7] =
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN, Errno::IO, Errno::TIMEDOUT];
/// The same for SQLite.
const PASSING_CODES: [ErrorCode; 6] = [
    ErrorCode::DatabaseBusy,
    ErrorCode::DatabaseLocked,
    ErrorCode::OutOfMemory,
    ErrorCode::OperationInterrupted,
    ErrorCode::SystemIoFailure,
    ErrorCode::CannotOpen,
];

fn follow(
    home: &Path,
    last: Head,
    mut each: impl FnMut(&crate::ledger::chain::Row) -> Result<(), Ended>,
) -> Result<(), Ended> {
    let view = open::reader(home)?;
    segments::between(home, &view, 1, last.seq, |row| each(&row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at;
    use rusqlite::Connection;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_thread_that_has_panicked_is_finished() {
        let directory = tempfile::tempdir().unwrap();
        let (sender, health) = watch::channel(Health::default());
        let wait = Arc::new(std::sync::Barrier::new(2));
        let at_report = Arc::clone(&wait);
        let running = start(directory.path(), (Head::EMPTY, None), sender, move |_, _| {
            at_report.wait();
            panic!("as the test wants");
        });
        let running = running.unwrap();
        assert!(!running.is_finished());
        wait.wait();
        let begun = Instant::now();
        while !running.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the thread goes on");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        drop((running, health));
    }

    /// Attack: see
    /// `all_rows_are_verified_those_of_segments_too_and_a_file_that_is_missing_or_damaged_counts_as_broken`.
    #[test]
    fn only_an_error_that_says_nothing_about_the_rows_may_pass() {
        let segment = |source| StoreError::Segment { path: "1.gz".into(), first: 1, last: 2, source };
        let passes = |errno: Errno| may_pass(&segment(Error::from_raw_os_error(errno.raw_os_error())));
        assert!([Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO].into_iter().all(passes));
        assert!(![Errno::NOENT, Errno::NOTDIR, Errno::ISDIR, Errno::LOOP, Errno::ACCESS].into_iter().any(passes));
        for kind in [ErrorKind::UnexpectedEof, ErrorKind::InvalidInput, ErrorKind::InvalidData, ErrorKind::Other] {
            assert!(!may_pass(&segment(Error::new(kind, "damaged"))), "{kind}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        std::fs::write(&path, vec![b'x'; 8192]).unwrap();
        let fails = |connection: &Connection| at("read rows")(connection.prepare("SELECT 1 FROM ledger").unwrap_err());
        assert!(!may_pass(&fails(&Connection::open(&path).unwrap())), "it is no database");
        assert!(!may_pass(&fails(&Connection::open_in_memory().unwrap())), "there is no such table");
        let held = directory.path().join("held.db");
        let open = || Connection::open(&held).unwrap();
        let (holder, reader) = (open(), open());
        holder.execute_batch("CREATE TABLE ledger (n); BEGIN EXCLUSIVE").unwrap();
        reader.busy_timeout(Duration::ZERO).unwrap();
        assert!(may_pass(&fails(&reader)), "somebody holds it");
    }
}
