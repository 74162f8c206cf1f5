//! The sinks: each sends every durable row to a place outside, in the order of the chain.
//!
//! ```text
//! batch is synced ──► SyncedRows ──► the next rows ──► verified ──► sent ──► accepted ──► position
//!                                        ▲                           │                       │
//!                                        ├──────── pause ◄── not accepted                    │
//!                                        └───────────────────────────────────────────────────┘
//! ```
//! The position is written after the place has accepted the rows. So no row is left out. Rows are sent twice if the daemon
//! dies in between. The rows wait in the ledger, so a slow place costs no memory.

pub mod position;
mod rows;
mod sender;
mod traces;

use futures_util::FutureExt as _;
use kernel::SyncedRows;
use model::Clock;
use platform::delivery::pause;
use platform::home::Home;
use position::Position;
use rows::Rows;
pub use sender::Sink;
use serde::Serialize;
use shared::Timestamp;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The time in which rows are gathered, so that many calls cause few requests.
const GATHER: Duration = Duration::from_millis(200);
/// How long the last rows may still be sent when the daemon has stopped. The next daemon sends the others.
const END: Duration = Duration::from_secs(2);

/// The state of a sink.
#[derive(Debug, Clone, Serialize)]
pub struct SinkState {
    /// Its kind.
    pub kind: &'static str,
    /// The last row that was accepted.
    pub accepted: i64,
    /// The number of durable rows that were not accepted yet.
    pub behind: i64,
    /// Why nothing is accepted now; `None` if rows are accepted.
    pub failing: Option<Failing>,
}

/// Why a sink accepts nothing.
#[derive(Debug, Clone, Serialize)]
pub struct Failing {
    /// The time of the first failure.
    pub since: Timestamp,
    /// The reason of the last one.
    pub reason: String,
}

/// The states of all sinks, for people.
#[derive(Debug, Clone, Default)]
pub struct SinkStates {
    states: Arc<Mutex<BTreeMap<String, SinkState>>>,
    synced: Option<watch::Receiver<SyncedRows>>,
}

impl SinkStates {
    /// Returns the state of each sink.
    pub fn all(&self) -> BTreeMap<String, SinkState> {
        let last = self.synced.as_ref().map_or(0, |synced| synced.borrow().last());
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for state in states.values_mut() {
            state.behind = last.saturating_sub(state.accepted).max(0);
        }
        states
    }

    fn change(&self, sink: &Sink, change: impl FnOnce(&mut SinkState)) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || SinkState { kind: sink.kind(), accepted: 0, behind: 0, failing: None };
        change(states.entry(sink.name().to_owned()).or_insert_with(new));
    }
}

/// The sinks, before they start.
pub struct Sinks {
    /// Their states.
    pub states: SinkStates,
    forwarders: Vec<(Forwarder, watch::Receiver<SyncedRows>)>,
    is_over: Arc<Mutex<bool>>,
}

/// The running sinks.
pub struct RunningSinks {
    tasks: JoinSet<()>,
    is_over: Arc<Mutex<bool>>,
}

/// One sink at work.
struct Forwarder {
    home: PathBuf,
    sink: Arc<Sink>,
    states: SinkStates,
    clock: Arc<dyn Clock>,
    // No position is written any more. A write that has begun holds it.
    is_over: Arc<Mutex<bool>>,
}

impl Sinks {
    /// Takes the sinks. `synced` has the rows that are durable.
    pub fn new(
        (home, clock): (&Home, &Arc<dyn Clock>),
        sinks: &[Arc<Sink>],
        synced: &watch::Receiver<SyncedRows>,
    ) -> Self {
        let states = SinkStates { states: Arc::default(), synced: Some(synced.clone()) };
        let is_over: Arc<Mutex<bool>> = Arc::default();
        let forwarder = |sink: &Arc<Sink>| {
            states.change(sink, |_| {});
            let (home, sink, clock) = (home.path().to_owned(), Arc::clone(sink), Arc::clone(clock));
            (Forwarder { home, sink, states: states.clone(), clock, is_over: Arc::clone(&is_over) }, synced.clone())
        };
        Self { forwarders: sinks.iter().map(forwarder).collect(), states, is_over }
    }

    /// Starts them.
    pub fn start(self, runtime: &Handle) -> RunningSinks {
        let mut tasks = JoinSet::new();
        for (forwarder, synced) in self.forwarders {
            tasks.spawn_on(forwarder.run(synced), runtime);
        }
        RunningSinks { tasks, is_over: self.is_over }
    }
}

impl RunningSinks {
    /// Waits a little until the last rows are sent. The loop has ended, so there are no more.
    pub fn end(self, runtime: &Handle) {
        let Self { mut tasks, is_over } = self;
        runtime.block_on(async {
            timeout(END, async { while tasks.join_next().await.is_some() {} }).await.ok();
            tasks.shutdown().await;
        });
        // A thread may still write a position.
        *is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Forwarder {
    /// Sends rows until there are no more, which is when the loop has ended.
    async fn run(self, mut synced: watch::Receiver<SyncedRows>) {
        let (mut failures, mut is_writable) = (0_u32, false);
        loop {
            let is_last = synced.has_changed().is_err();
            let sent = AssertUnwindSafe(self.send_next(&mut synced, &mut is_writable)).catch_unwind().await;
            match sent.unwrap_or_else(|_panic| {
                Err("the broker's own code failed; for the reason: host-broker logs".to_owned())
            }) {
                Ok(true) => {
                    self.succeeded();
                    failures = 0;
                    if !is_last {
                        sleep(GATHER).await;
                    }
                }
                // The next daemon sends what is left.
                Ok(false) | Err(_) if is_last => return,
                Ok(false) => {
                    self.succeeded();
                    failures = 0;
                    // The loop has ended, or there are new rows.
                    synced.changed().await.ok();
                }
                Err(reason) => {
                    failures = failures.saturating_add(1);
                    self.failed(&reason);
                    self.pause(failures, &mut synced).await;
                }
            }
        }
    }

    /// Waits before the next attempt, but not longer than the loop runs.
    async fn pause(&self, failures: u32, synced: &mut watch::Receiver<SyncedRows>) {
        let ended = async { while synced.changed().await.is_ok() {} };
        timeout(pause(failures), ended).await.ok();
    }

    /// Sends the next rows. Returns `false` if there are none. `is_writable` says whether the position could be written
    /// last: rows whose acceptance cannot be remembered would be sent again and again.
    async fn send_next(
        &self,
        synced: &mut watch::Receiver<SyncedRows>,
        is_writable: &mut bool,
    ) -> Result<bool, String> {
        let path = position::path(&self.home, self.sink.name());
        let place = path.clone();
        let position = blocking(move || position::read(&place)).await?.unwrap_or(Position::START);
        self.states.change(&self.sink, |state| state.accepted = position.seq);
        let proof = synced.borrow_and_update().clone();
        if position.seq == proof.last() {
            return Ok(false);
        }
        let (home, durable) = (self.home.clone(), proof.clone());
        let is_with_earlier = self.sink.needs_earlier_rows();
        let read = move || Rows::after(&home, position, &durable, is_with_earlier);
        let Some(rows) = blocking(read).await? else { return Ok(false) };
        let (end, place) = (rows.end(), path.clone());
        if !*is_writable {
            self.write(place, position).await?;
        }
        *is_writable = false;
        // ORDER: the position follows the acceptance.
        self.sink.send(rows, &proof).await?;
        self.write(path, end).await?;
        *is_writable = true;
        self.states.change(&self.sink, |state| state.accepted = end.seq);
        Ok(true)
    }

    async fn write(&self, path: PathBuf, position: Position) -> Result<(), String> {
        let is_over = Arc::clone(&self.is_over);
        blocking(move || {
            let is_over = is_over.lock().unwrap_or_else(PoisonError::into_inner);
            if *is_over { Err("the daemon has stopped".to_owned()) } else { position::write(&path, position) }
        })
        .await
    }

    fn succeeded(&self) {
        let mut failed = None;
        self.states.change(&self.sink, |state| failed = state.failing.take());
        if failed.is_some() {
            tracing::info!(sink = self.sink.name(), "the sink accepts rows again");
        }
    }

    fn failed(&self, reason: &str) {
        let (mut is_new, since) = (false, self.clock.now());
        self.states.change(&self.sink, |state| {
            let before = state.failing.take();
            // The same reason again and again says nothing new.
            is_new = before.as_ref().is_none_or(|before| before.reason != reason);
            let since = before.map_or(since, |before| before.since);
            state.failing = Some(Failing { since, reason: reason.to_owned() });
        });
        if is_new {
            tracing::warn!(sink = self.sink.name(), reason, "the sink does not accept rows; they wait in the ledger");
        }
    }
}

/// Does work that waits for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_panic| Err("the broker's own code failed; for the reason: host-broker logs".to_owned()))
}
