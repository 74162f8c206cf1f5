//! The metrics of the daemon, in the text format of Prometheus.
//!
//! ```text
//! loop ─► Meter ─► counters and histograms ◄─┐
//!                                            ├─ Exporter ◄─ scrape
//! store, disk, mailboxes ◄───────────────────┘
//! ```
//! The loop has looked its series up before, so it adds to atomic numbers and takes no lock. All other values are read
//! by the scrape, beside the loop and within a time. The labels have values of the operator's configuration and of closed
//! lists only, so no caller can make a series. There is no label for a person, a parameter or a request.

pub mod described;
mod exporter;
mod meter;

pub use exporter::{ByteLimits, Exporter, Health, Unhealthy};
pub use meter::{CallOutcome, CallSeries, Meter};

use described::Described;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The upper bounds of the buckets of decisions, in seconds.
const DECISION: [f64; 10] = [0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25];
/// The same of commits.
const COMMIT: [f64; 12] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0];
/// The same of providers.
const PROVIDER: [f64; 13] = [0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0];
/// The same of calls that wait for their batch.
const QUEUE: [f64; 12] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];
/// The same of filters. An external classifier can take seconds.
const FILTER: [f64; 12] = [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];
/// The same of people's answers: ten seconds to a week.
const ANSWER: [f64; 12] =
    [10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0];
/// The upper bounds of the buckets of batches, in events.
const BATCH: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The series that the loop changes.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: IntCounterVec,
    group_calls: IntCounterVec,
    effects: IntCounterVec,
    provider_time: HistogramVec,
    decision_time: Histogram,
    commit_time: Histogram,
    queue_time: Histogram,
    filter_time: Histogram,
    answer_time: Histogram,
    batch: Histogram,
    evidence_used: IntGaugeVec,
    invalid_documents: IntCounter,
    approval_requests: IntCounter,
    state: LoopState,
}

/// The state of the loop after its last turn.
#[derive(Debug)]
struct LoopState {
    queued: IntGauge,
    in_flight: IntGauge,
    unwritten: IntGauge,
    rows: IntGauge,
    is_stopping: AtomicBool,
    began: Instant,
    // Milliseconds since then.
    turned: AtomicU64,
}

/// The state of the loop, which it tells after each turn.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// The events that wait for the next batch.
    pub queued: usize,
    /// The effects that run.
    pub in_flight: usize,
    /// The events that could not be written yet.
    pub unwritten: usize,
    /// The number of the last row.
    pub row: i64,
    /// Whether the daemon stops.
    pub is_stopping: bool,
}

impl Metrics {
    /// Makes the series that have no labels, and the families of the others.
    ///
    /// # Errors
    /// A fault in the descriptions.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let state = LoopState {
            queued: described::QUEUED_EVENTS.gauge(&registry)?,
            in_flight: described::CALLS_IN_FLIGHT.gauge(&registry)?,
            unwritten: described::UNWRITTEN_EVENTS.gauge(&registry)?,
            rows: described::LEDGER_ROWS.gauge(&registry)?,
            is_stopping: AtomicBool::new(false),
            began: Instant::now(),
            turned: AtomicU64::new(0),
        };
        let histogram = |one: &Described, buckets: &[f64]| {
            one.histograms(&registry, buckets)?.get_metric_with_label_values::<&str>(&[])
        };
        Ok(Self {
            calls: described::CALLS.counters(&registry)?,
            group_calls: described::GROUP_CALLS.counters(&registry)?,
            effects: described::EFFECTS.counters(&registry)?,
            provider_time: described::PROVIDER_DURATION.histograms(&registry, &PROVIDER)?,
            decision_time: histogram(&described::DECISION_DURATION, &DECISION)?,
            commit_time: histogram(&described::COMMIT_DURATION, &COMMIT)?,
            queue_time: histogram(&described::QUEUE_DURATION, &QUEUE)?,
            filter_time: histogram(&described::FILTER_DURATION, &FILTER)?,
            answer_time: histogram(&described::APPROVAL_ANSWER_DURATION, &ANSWER)?,
            batch: histogram(&described::BATCH_EVENTS, &BATCH)?,
            evidence_used: described::EVIDENCE_BUDGET_USED.gauges(&registry)?,
            invalid_documents: described::INVALID_DOCUMENTS.counter(&registry)?,
            approval_requests: described::APPROVAL_REQUESTS.counter(&registry)?,
            state,
            registry,
        })
    }

    /// Notes the state of the loop.
    pub fn turned(&self, turn: Turn) {
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let state = &self.state;
        state.queued.set(gauge(turn.queued));
        state.in_flight.set(gauge(turn.in_flight));
        state.unwritten.set(gauge(turn.unwritten));
        state.rows.set(turn.row);
        state.is_stopping.store(turn.is_stopping, Ordering::Release);
        let now = u64::try_from(state.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        state.turned.store(now, Ordering::Release);
    }

    /// Notes a batch of so many events.
    pub fn batch(&self, events: usize) {
        self.batch.observe(u32::try_from(events).map_or(f64::MAX, f64::from));
    }

    /// Notes the time of the commits of a batch.
    pub fn committed(&self, took: Duration) {
        self.commit_time.observe(took.as_secs_f64());
    }

    /// Notes the time of one decision.
    pub fn decided(&self, took: Duration) {
        self.decision_time.observe(took.as_secs_f64());
    }

    /// Notes the time that a call waited for its batch.
    pub fn queued(&self, took: Duration) {
        self.queue_time.observe(took.as_secs_f64());
    }

    /// Notes the time of the filters on one result.
    pub fn filtered(&self, took: Duration) {
        self.filter_time.observe(took.as_secs_f64());
    }

    /// Notes the time that people took to answer an approval request.
    pub fn answered(&self, took: Duration) {
        self.answer_time.observe(took.as_secs_f64());
    }

    /// Notes a document that is no valid request.
    pub fn invalid_document(&self) {
        self.invalid_documents.inc();
    }

    /// Notes an approval request.
    pub fn asked(&self) {
        self.approval_requests.inc();
    }

    /// Returns the time since the last turn of the loop.
    fn since_turn(&self) -> Duration {
        let turned = Duration::from_millis(self.state.turned.load(Ordering::Acquire));
        self.state.began.elapsed().saturating_sub(turned)
    }
}
