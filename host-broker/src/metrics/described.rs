//! The list of all metrics: name, kind, labels, meaning. The pages for operators are made from it.

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows, from 0 at each start of the daemon.
    Counter,
    /// A number that is as it is now.
    Gauge,
    /// Counts of observations in buckets, with their number and sum.
    Histogram,
}

impl Kind {
    /// Returns the word of the text format.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The labels.
    pub labels: &'static [&'static str],
    /// The meaning, in a sentence or two.
    pub meaning: &'static str,
}

/// The value of a label for everything that is not in the configuration or the catalogue.
pub const OTHER: &str = "other";

macro_rules! metrics {
    ($($constant:ident $name:literal $kind:ident [$($label:literal)*] $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub const $constant: Described = Described {
                name: concat!("host_broker_", $name),
                kind: Kind::$kind,
                labels: &[$($label),*],
                meaning: $meaning,
            };
        )+

        /// All metrics.
        pub const ALL: &[Described] = &[$($constant),+];
    };
}

metrics! {
    CALLS "calls_total" Counter ["provider" "action" "outcome"]
        "Calls by the status of their one reply. `unknown`: it is unknown whether the effect happened. `pending`: the caller was told that a person is asked. `explained`: a dry run. `repeated`: the request id was used before. `unrecorded`: the evidence could not be written. A name that is not in the catalogue counts as `other`.";
    GROUP_CALLS "group_calls_total" Counter ["group" "outcome"]
        "The same calls by group. The group `external` stands for all external agents. A caller that is no configured group counts as `other`.";
    EFFECTS "effects_total" Counter ["provider" "action" "outcome"]
        "Attempts of an action at its provider, by the kind of their outcome row: `succeeded`, `failed`, `timed_out` or `unknown`. An approved call counts here when it has run, also if its reply was `pending`.";
    APPROVAL_REQUESTS "approval_requests_total" Counter []
        "Approval requests about which a caller waited when they were sent.";
    INVALID_DOCUMENTS "invalid_documents_total" Counter []
        "Documents of groups that are no valid requests, as far as the broker has read them.";
    DECISION_DURATION "decision_duration_seconds" Histogram []
        "Time of one decision on a call inside its transaction: facts, policy, rules and the row.";
    COMMIT_DURATION "commit_duration_seconds" Histogram []
        "Time of the commits and syncs of one batch.";
    PROVIDER_DURATION "provider_duration_seconds" Histogram ["provider"]
        "Time of one attempt at a provider: a call, or the read before its decision.";
    QUEUE_DURATION "queue_duration_seconds" Histogram []
        "Time from the arrival of a call until the start of the batch that decides on it. A call that waits for another request of its caller is observed again when it goes on.";
    FILTER_DURATION "filter_duration_seconds" Histogram []
        "Time of the filters on one result: redaction, the schema and the inspection.";
    APPROVAL_ANSWER_DURATION "approval_answer_duration_seconds" Histogram []
        "Time from an approval request until people have approved or denied it. Requests that expire are not observed.";
    BATCH_EVENTS "batch_events" Histogram []
        "Events that were written in one batch.";
    QUEUED_EVENTS "queued_events" Gauge []
        "Events that wait for the next batch.";
    UNDECIDED_DOCUMENTS "undecided_documents" Gauge []
        "Documents of groups that are read and whose request has not ended.";
    CALLS_IN_FLIGHT "calls_in_flight" Gauge []
        "Effects that run now.";
    UNWRITTEN_EVENTS "unwritten_events" Gauge []
        "Outcomes and other events that could not be written yet. No call is admitted while there are any.";
    OPEN_INTENTS "open_intents" Gauge []
        "Intents without an outcome row.";
    UNKNOWN_OUTCOMES "unknown_outcomes" Gauge []
        "Effects whose outcome is unknown. A person or a probe settles them.";
    WAITING_APPROVALS "waiting_approvals" Gauge []
        "Approval requests that wait for an answer.";
    OPEN_BREAKERS "open_breakers" Gauge ["provider"]
        "Callers for which the circuit breaker of a provider is open.";
    KILL_SWITCHES "kill_switches" Gauge ["scope"]
        "Kill switches that are set, by their scope: `all`, `group` or `provider`.";
    ADMITS_CALLS "admits_calls" Gauge []
        "1 if calls are admitted, 0 if not. It is what `/healthz` says.";
    EVIDENCE_WRITABLE "evidence_writable" Gauge []
        "1 if the last write of the ledger succeeded, 0 if the ledger cannot be written.";
    EVIDENCE_BROKEN "evidence_broken" Gauge []
        "1 if rows of the ledger are missing or changed, 0 if none were found.";
    VERIFIED_ROW "verified_row" Gauge []
        "The last row up to which the present daemon has verified all rows; 0 while it has verified none.";
    CHECKPOINT_LAG "checkpoint_lag_seconds" Gauge []
        "Seconds since the oldest row that no checkpoint covers was written; 0 if all rows are covered. The daemon signs a checkpoint each minute while rows are written.";
    LEDGER_ROWS "ledger_rows" Gauge []
        "The number of the last row, which is the number of rows.";
    LEDGER_BYTES "ledger_bytes" Gauge ["part"]
        "Bytes of the ledger's files: `database`, `log` (the write-ahead log) and `segments`.";
    LEDGER_USED "ledger_used_bytes" Gauge []
        "Bytes of the database that are in use, without its free pages. The file itself does not shrink.";
    LEDGER_LIMIT "ledger_limit_bytes" Gauge []
        "Bytes of the database above which old rows move into segments: `ledger_mib` of the configuration. Absent if rows never move.";
    EVIDENCE_BUDGET_USED "evidence_budget_used_bytes" Gauge ["group"]
        "Bytes of rows and stored bodies that count against the hourly evidence budget of a group. `external` is the external agent with the most bytes. A caller that is no configured group counts as `other`.";
    EVIDENCE_BUDGET_LIMIT "evidence_budget_limit_bytes" Gauge []
        "The hourly evidence budget of each group and each external agent: `evidence_mib_per_hour` of the configuration. Absent if there is no limit.";
    SHARED_QUOTA_USED "shared_quota_used" Gauge ["provider" "scope"]
        "The part of a shared quota that callers of this host have used today. The sum over the hosts of a fleet is the use. The scope is a level, or `amount:` and the action.";
    SHARED_QUOTA_LIMIT "shared_quota_limit" Gauge ["provider" "scope"]
        "The largest use of a shared quota in a day: `shared_quotas` of the configuration.";
    POLICY_IN_FORCE "policy_in_force" Gauge []
        "1 if the policy of this host is in force, as far as it knows. 0 if it cannot use the last publication of its fleet, and so executes no call, or cannot read it. A host with its own policy has 1.";
    LEDGER_READABLE "ledger_readable" Gauge []
        "1 if this scrape could read the ledger in time. If not, the metrics that come from it are absent.";
    SINK_BEHIND "sink_rows_behind" Gauge ["sink"]
        "Durable rows that a sink has not accepted yet.";
    SINK_FAILING "sink_failing" Gauge ["sink"]
        "1 if the last attempt to send rows to a sink failed, 0 if not.";
    DISK_FREE "disk_free_bytes" Gauge []
        "Free bytes of the disk of the home.";
    DISK_WATERMARK "disk_watermark_bytes" Gauge []
        "Free bytes of the disk below which callers are refused: `free_space_mib`, but at most a fiftieth of the disk. Absent if it is 0.";
    SINCE_TURN "loop_idle_seconds" Gauge []
        "Seconds since the last turn of the loop, which turns at least every two seconds.";
    START_TIME "start_time_seconds" Gauge []
        "The start of the daemon, in seconds since 1970.";
    BUILD_INFO "build_info" Gauge ["version"]
        "1, with the version as its label.";
}

impl Described {
    fn opts(&self) -> Opts {
        Opts::new(self.name, self.meaning)
    }

    /// Registers the family of counters.
    pub(super) fn counters(&self, registry: &Registry) -> Result<IntCounterVec, prometheus::Error> {
        let family = IntCounterVec::new(self.opts(), self.labels)?;
        registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// Registers the counter.
    pub(super) fn counter(&self, registry: &Registry) -> Result<IntCounter, prometheus::Error> {
        let counter = IntCounter::with_opts(self.opts())?;
        registry.register(Box::new(counter.clone()))?;
        Ok(counter)
    }

    /// Registers the family of histograms with these buckets.
    pub(super) fn histograms(&self, registry: &Registry, buckets: &[f64]) -> Result<HistogramVec, prometheus::Error> {
        let opts = HistogramOpts { common_opts: self.opts(), buckets: buckets.to_vec() };
        let family = HistogramVec::new(opts, self.labels)?;
        registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// Registers the gauge.
    pub(super) fn gauge(&self, registry: &Registry) -> Result<IntGauge, prometheus::Error> {
        let gauge = IntGauge::with_opts(self.opts())?;
        registry.register(Box::new(gauge.clone()))?;
        Ok(gauge)
    }

    /// Registers the family of gauges.
    pub(super) fn gauges(&self, registry: &Registry) -> Result<IntGaugeVec, prometheus::Error> {
        let family = IntGaugeVec::new(self.opts(), self.labels)?;
        registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// Registers the family of gauges whose values need not be whole.
    pub(super) fn numbers(&self, registry: &Registry) -> Result<GaugeVec, prometheus::Error> {
        let family = GaugeVec::new(self.opts(), self.labels)?;
        registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// Registers the gauge with this value, which need not be whole.
    pub(super) fn is(&self, registry: &Registry, value: f64) -> Result<(), prometheus::Error> {
        let gauge = Gauge::with_opts(self.opts())?;
        gauge.set(value);
        registry.register(Box::new(gauge))
    }
}
