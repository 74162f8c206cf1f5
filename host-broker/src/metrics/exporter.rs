//! The scrape: reads what is not counted by the loop, and writes everything as text.

use super::Metrics;
use super::described::{self, OTHER};
use crate::fleet_policy::UsedPolicy;
use crate::mailboxes::Mailboxes;
use crate::sinks::SinkStates;
use config::BrokerTable;
use engine::catalogue::Catalogue;
use engine::limits::shared_figures::{self, SharedUse};
use model::Clock;
use model::errors::chain;
use policy::shared_quotas::SharedQuotas;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use shared::{Timestamp, limits};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use store::StoreError;
use store::ledger::checkpoints::{self, Coverage};
use store::ledger::figures::{self, Figures, Sizes, Space};
use store::ledger::health::{self, Verification};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// How long a scrape waits for the reads of another one.
const WAIT: Duration = Duration::from_secs(2);
/// How long a scrape reads the ledger and the disk.
const READ: Duration = Duration::from_secs(2);
/// The time after which a loop that does not turn counts as hung.
const HUNG: Duration = limits::HOST_DEAD;

/// Makes the documents for monitoring.
pub struct Exporter {
    /// The series of the loop.
    pub metrics: Arc<Metrics>,
    /// The state of the ledger.
    pub health: watch::Receiver<health::Health>,
    /// The present catalogue.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// The mailboxes of the groups.
    pub mailboxes: Mailboxes,
    /// Where the ledger lies.
    pub home: PathBuf,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The state of the sinks.
    pub sinks: SinkStates,
    /// The start of the daemon.
    pub started_at: Timestamp,
    /// The limits of the configuration.
    pub limits: ByteLimits,
    /// The quotas that all callers share.
    pub shared_quotas: SharedQuotas,
    /// The published policy that the daemon uses, if it uses one.
    pub policy: Option<watch::Receiver<UsedPolicy>>,
    /// Lets one scrape read at a time.
    pub one_at_a_time: Arc<Semaphore>,
}

/// The limits of the configuration, in bytes. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteLimits {
    /// The free space of the disk below which callers are refused.
    pub free_space: u64,
    /// The size of the database above which rows move into segments.
    pub ledger: u64,
    /// The evidence that a caller may cause in an hour.
    pub evidence: u64,
}

impl ByteLimits {
    /// Returns the limits of this configuration.
    pub fn of(broker: &BrokerTable) -> Self {
        let bytes = |mib: u64| mib.saturating_mul(1024 * 1024);
        Self {
            free_space: bytes(broker.free_space_mib),
            ledger: bytes(broker.ledger_mib),
            evidence: bytes(broker.evidence_mib_per_hour),
        }
    }
}

/// The reason why no call is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unhealthy {
    /// The daemon stops.
    Stopping,
    /// The loop has ended.
    Ended,
    /// The loop does not turn: a disk does not answer, or the machine is overloaded.
    Hung,
    /// Rows of the evidence are missing or changed.
    Broken,
    /// The ledger cannot be written.
    CannotWrite(health::Reason),
    /// Outcomes could not be written yet.
    Unwritten,
}

impl Unhealthy {
    /// Returns the word of the document.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::Ended => "ended",
            Self::Hung => "hung",
            Self::Broken => "evidence_broken",
            Self::CannotWrite(_) => "evidence_unwritable",
            Self::Unwritten => "outcomes_unwritten",
        }
    }

    /// Returns the sentence for people. It names no path and no error of the system.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Stopping => "the daemon stops",
            Self::Ended => "the loop of the daemon has ended; for the reason: host-broker logs",
            Self::Hung => "the loop of the daemon does not turn; a disk may not answer",
            Self::Broken => "rows of the evidence are missing or changed; see host-broker status",
            Self::CannotWrite(reason) => reason.sentence(),
            Self::Unwritten => "outcomes of earlier calls could not be written yet; for the reason: host-broker logs",
        }
    }
}

/// The document of `/healthz`.
#[derive(Debug)]
pub struct Health {
    /// Why no call is admitted; `None` if calls are admitted.
    pub unhealthy: Option<Unhealthy>,
    /// The document.
    pub document: Value,
}

/// The broker's own code failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotWritten;

/// The values that a scrape reads beside the loop.
struct Read {
    figures: Option<(Figures, Vec<SharedUse>)>,
    coverage: Option<Coverage>,
    sizes: Sizes,
    space: Option<Space>,
}

impl Exporter {
    /// Returns the document of `/healthz`. It reads neither the ledger nor the disk.
    pub fn health(&self) -> Health {
        let unhealthy = self.unhealthy();
        let verification = match &self.health.borrow().verification {
            Verification::Waiting => json!({ "state": "waiting" }),
            Verification::Running { row, of } => json!({ "state": "running", "row": row, "of": of }),
            Verification::Whole { row } => json!({ "state": "whole", "row": row }),
            Verification::Broken { row, .. } => json!({ "state": "broken", "row": row }),
            Verification::Unfinished { row, .. } => json!({ "state": "unfinished", "row": row }),
        };
        let mut document = json!({
            "status": if unhealthy.is_none() { "ok" } else { "unavailable" },
            "version": env!("CARGO_PKG_VERSION"),
            "verification": verification,
        });
        if let (Some(unhealthy), Some(members)) = (unhealthy, document.as_object_mut()) {
            members.insert("reason".to_owned(), unhealthy.word().into());
            members.insert("message".to_owned(), unhealthy.sentence().into());
            if let Unhealthy::CannotWrite(reason) = unhealthy {
                members.insert("detail".to_owned(), json!(reason));
            }
        }
        Health { unhealthy, document }
    }

    fn unhealthy(&self) -> Option<Unhealthy> {
        let state = &self.metrics.state;
        if self.health.has_changed().is_err() {
            return Some(Unhealthy::Ended);
        }
        if state.is_stopping.load(Ordering::Acquire) {
            return Some(Unhealthy::Stopping);
        }
        let health = self.health.borrow();
        if matches!(health.verification, Verification::Broken { .. }) {
            return Some(Unhealthy::Broken);
        }
        if let Some(cannot) = &health.cannot_write {
            return Some(Unhealthy::CannotWrite(cannot.reason));
        }
        if state.unwritten.get() > 0 {
            return Some(Unhealthy::Unwritten);
        }
        (self.metrics.since_turn() >= HUNG).then_some(Unhealthy::Hung)
    }

    /// Returns all metrics as text. If the ledger and the disk cannot be read in time, the metrics that come from there
    /// are absent.
    ///
    /// # Errors
    /// `NotWritten`.
    pub async fn text(self: Arc<Self>) -> Result<String, NotWritten> {
        let read = self.read().await;
        match tokio::task::spawn_blocking(move || self.write(read)).await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => {
                tracing::error!(%error, "the metrics cannot be written");
                Err(NotWritten)
            }
            Err(_panic) => Err(NotWritten),
        }
    }

    async fn read(&self) -> Option<Read> {
        let permit = timeout(WAIT, Arc::clone(&self.one_at_a_time).acquire_owned()).await.ok()?.ok()?;
        let (home, clock, quotas) = (self.home.clone(), Arc::clone(&self.clock), self.shared_quotas.clone());
        let read = tokio::task::spawn_blocking(move || {
            // A read that the disk holds up keeps the permit, so that threads do not pile up.
            let _permit = permit;
            let unreadable = |error: &StoreError| {
                tracing::warn!(error = chain(&error), "a scrape of the metrics cannot read the ledger");
            };
            let view = store::reader_until(&home, Instant::now() + READ);
            let read = view.and_then(|view| {
                let figures = figures::figures(&view, clock.now())?;
                let shared = shared_figures::used(&view, clock.now(), &quotas)?;
                Ok((figures, shared, checkpoints::coverage(&view).inspect_err(unreadable).ok()))
            });
            let (figures, coverage) = match read.inspect_err(unreadable) {
                Ok((figures, shared, coverage)) => (Some((figures, shared)), coverage),
                Err(_unreadable) => (None, None),
            };
            Read { figures, coverage, sizes: figures::sizes(&home), space: Space::of(&home) }
        });
        timeout(READ * 2, read).await.ok()?.ok()
    }

    fn write(&self, read: Option<Read>) -> Result<String, prometheus::Error> {
        let registry = Registry::new();
        self.write_state(&registry)?;
        let is_readable = read.as_ref().is_some_and(|read| read.figures.is_some());
        described::LEDGER_READABLE.gauge(&registry)?.set(i64::from(is_readable));
        if let Some(Read { figures, coverage, sizes, space }) = read {
            if let Some((figures, shared)) = figures {
                self.write_figures(&registry, &figures)?;
                write_shared(&registry, &shared)?;
            }
            if let Some(coverage) = coverage {
                described::CHECKPOINT_LAG.is(&registry, coverage.lag(self.clock.now()).as_secs_f64())?;
            }
            let bytes = described::LEDGER_BYTES.gauges(&registry)?;
            for (part, size) in [("database", sizes.database), ("log", sizes.log), ("segments", sizes.segments)] {
                bytes.get_metric_with_label_values(&[part])?.set(signed(size));
            }
            if let Some(space) = space {
                described::DISK_FREE.gauge(&registry)?.set(signed(space.free));
                // A limit that is switched off has no gauge.
                if self.limits.free_space > 0 {
                    let watermark = space.watermark(self.limits.free_space);
                    described::DISK_WATERMARK.gauge(&registry)?.set(signed(watermark));
                }
            }
        }
        let mut families = self.metrics.registry.gather();
        families.extend(registry.gather());
        families.sort_by(|one, other| one.name().cmp(other.name()));
        TextEncoder::new().encode_to_string(&families)
    }

    /// Writes what the process knows without a read.
    fn write_state(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let is_admitting = self.unhealthy().is_none();
        let health = self.health.borrow().clone();
        let is_broken = matches!(health.verification, Verification::Broken { .. });
        let verified = match health.verification {
            Verification::Running { row, .. } | Verification::Whole { row } => row,
            // These name the first row that was not verified.
            Verification::Broken { row, .. } | Verification::Unfinished { row, .. } => row.saturating_sub(1),
            Verification::Waiting => 0,
        };
        described::ADMITS_CALLS.gauge(registry)?.set(i64::from(is_admitting));
        described::EVIDENCE_WRITABLE.gauge(registry)?.set(i64::from(health.cannot_write.is_none()));
        described::EVIDENCE_BROKEN.gauge(registry)?.set(i64::from(is_broken));
        described::VERIFIED_ROW.gauge(registry)?.set(verified);
        let is_in_force = self.policy.as_ref().is_none_or(|policy| policy.borrow().fault.is_none());
        described::POLICY_IN_FORCE.gauge(registry)?.set(i64::from(is_in_force));
        let undecided: usize = self.mailboxes.mailboxes().map(|mailbox| mailbox.undecided()).sum();
        described::UNDECIDED_DOCUMENTS.gauge(registry)?.set(i64::try_from(undecided).unwrap_or(i64::MAX));
        described::SINCE_TURN.is(registry, self.metrics.since_turn().as_secs_f64())?;
        described::START_TIME.gauge(registry)?.set(self.started_at.millis() / 1000);
        let behind = described::SINK_BEHIND.gauges(registry)?;
        let failing = described::SINK_FAILING.gauges(registry)?;
        for (name, state) in self.sinks.all() {
            behind.get_metric_with_label_values(&[&name])?.set(state.behind);
            failing.get_metric_with_label_values(&[&name])?.set(i64::from(state.failing.is_some()));
        }
        let limits =
            [(described::LEDGER_LIMIT, self.limits.ledger), (described::EVIDENCE_BUDGET_LIMIT, self.limits.evidence)];
        for (described, limit) in limits.into_iter().filter(|(_, limit)| *limit > 0) {
            described.gauge(registry)?.set(signed(limit));
        }
        let build = described::BUILD_INFO.gauges(registry)?;
        build.get_metric_with_label_values(&[env!("CARGO_PKG_VERSION")])?.set(1);
        Ok(())
    }

    fn write_figures(&self, registry: &Registry, figures: &Figures) -> Result<(), prometheus::Error> {
        described::LEDGER_USED.gauge(registry)?.set(signed(figures.used));
        described::OPEN_INTENTS.gauge(registry)?.set(figures.open_intents);
        described::UNKNOWN_OUTCOMES.gauge(registry)?.set(figures.unknown_outcomes);
        described::WAITING_APPROVALS.gauge(registry)?.set(figures.waiting_approvals);
        let switches = described::KILL_SWITCHES.gauges(registry)?;
        let mut scopes = BTreeMap::from([("all", 0), ("group", 0), ("provider", 0)]);
        for scope in &figures.kill_switches {
            // The stored form is `all`, `group:NAME` or `provider:NAME`.
            if let Some(count) = scope.split(':').next().and_then(|kind| scopes.get_mut(kind)) {
                *count += 1;
            }
        }
        for (scope, count) in scopes {
            switches.get_metric_with_label_values(&[scope])?.set(count);
        }
        let breakers = described::OPEN_BREAKERS.gauges(registry)?;
        let catalogue = Arc::clone(&self.catalogue.borrow());
        let mut open: BTreeMap<&str, i64> = catalogue.providers().map(|(name, _)| (name.as_str(), 0)).collect();
        for (provider, count) in &figures.open_breakers {
            let known = open.contains_key(provider.as_str());
            *open.entry(if known { provider } else { OTHER }).or_default() += count;
        }
        for (provider, count) in open {
            breakers.get_metric_with_label_values(&[provider])?.set(count);
        }
        Ok(())
    }
}

/// Writes the shared quotas. Amounts are shown as the configuration has them.
fn write_shared(registry: &Registry, shared: &[SharedUse]) -> Result<(), prometheus::Error> {
    let (used, limit) =
        (described::SHARED_QUOTA_USED.numbers(registry)?, described::SHARED_QUOTA_LIMIT.numbers(registry)?);
    for one in shared {
        let labels = [one.provider.as_str(), one.scope.as_str()];
        used.get_metric_with_label_values(&labels)?.set(one.used);
        limit.get_metric_with_label_values(&labels)?.set(one.most);
    }
    Ok(())
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
