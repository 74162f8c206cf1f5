//! The loop's own handle: its series by provider, action and group.

use super::Metrics;
use super::described::OTHER;
use engine::catalogue::Catalogue;
use model::external;
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};
use shared::{Action, Group, Provider, Status};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::RowKind;

/// The outcome of a call for its caller: the status of its one reply, with distinctions that matter to an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallOutcome {
    /// The reply has the result.
    Executed,
    /// It was refused before anything was executed.
    Denied,
    /// It failed.
    Failed,
    /// It was not answered in time, and changed nothing.
    TimedOut,
    /// The caller was told that a person is asked.
    Pending,
    /// It is unknown whether the effect happened.
    Unknown,
    /// A dry run, which is only decided.
    Explained,
    /// The request id was used before.
    Repeated,
    /// The evidence could not be written.
    Unrecorded,
}

impl CallOutcome {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Executed,
        Self::Denied,
        Self::Failed,
        Self::TimedOut,
        Self::Pending,
        Self::Unknown,
        Self::Explained,
        Self::Repeated,
        Self::Unrecorded,
    ];

    /// Returns the value of the label.
    pub fn word(self) -> &'static str {
        match self {
            Self::Executed => Status::Executed.word(),
            Self::Denied => Status::Denied.word(),
            Self::Failed => Status::Failed.word(),
            Self::TimedOut => Status::Timeout.word(),
            Self::Pending => Status::Pending.word(),
            Self::Unknown => "unknown",
            Self::Explained => "explained",
            Self::Repeated => "repeated",
            Self::Unrecorded => "unrecorded",
        }
    }
}

impl From<Status> for CallOutcome {
    fn from(status: Status) -> Self {
        match status {
            Status::Executed => Self::Executed,
            Status::Denied => Self::Denied,
            Status::Failed => Self::Failed,
            Status::Timeout => Self::TimedOut,
            Status::Pending => Self::Pending,
        }
    }
}

/// The kinds of rows that record the outcome of an effect.
const EFFECTS: [RowKind; 4] = [RowKind::Succeeded, RowKind::Failed, RowKind::TimedOut, RowKind::Unknown];

type ByOutcome = BTreeMap<CallOutcome, IntCounter>;

/// The series of one action.
#[derive(Debug)]
struct ActionSeries {
    calls: ByOutcome,
    effects: [(RowKind, IntCounter); 4],
}

#[derive(Debug)]
struct ProviderSeries {
    took: Histogram,
    actions: BTreeMap<Action, Arc<ActionSeries>>,
    // Of names that are no actions.
    other: Arc<ActionSeries>,
}

/// The series of one call.
#[derive(Debug, Clone)]
pub struct CallSeries {
    action: Arc<ActionSeries>,
    group: Arc<ByOutcome>,
}

impl CallSeries {
    /// Counts the call.
    pub fn count(&self, outcome: CallOutcome) {
        for series in [&self.action.calls, &*self.group] {
            if let Some(counter) = series.get(&outcome) {
                counter.inc();
            }
        }
    }
}

/// The loop's handle.
#[derive(Debug)]
pub struct Meter {
    metrics: Arc<Metrics>,
    providers: BTreeMap<Provider, ProviderSeries>,
    // Of names that are no providers.
    other: ProviderSeries,
    groups: BTreeMap<Group, Arc<ByOutcome>>,
    other_group: Arc<ByOutcome>,
    // By the value of the label.
    // The gauge of each group, and the most bytes that were seen for it in this round.
    evidence_used: BTreeMap<String, (IntGauge, Cell<u64>)>,
}

fn by_outcome(family: &IntCounterVec, labels: &[&str]) -> Result<ByOutcome, prometheus::Error> {
    let one = |outcome: CallOutcome| {
        Ok((outcome, family.get_metric_with_label_values(&[labels, &[outcome.word()]].concat())?))
    };
    CallOutcome::ALL.into_iter().map(one).collect()
}

fn series_of(metrics: &Metrics, provider: &str, action: &str) -> Result<Arc<ActionSeries>, prometheus::Error> {
    let effect = |kind: RowKind| {
        Ok::<_, prometheus::Error>((
            kind,
            metrics.effects.get_metric_with_label_values(&[provider, action, kind.word()])?,
        ))
    };
    let [succeeded, failed, timed_out, unknown] = EFFECTS.map(effect);
    let calls = by_outcome(&metrics.calls, &[provider, action])?;
    Ok(Arc::new(ActionSeries { calls, effects: [succeeded?, failed?, timed_out?, unknown?] }))
}

fn series_of_provider<'a>(
    metrics: &Metrics,
    provider: &str,
    actions: impl Iterator<Item = &'a Action>,
) -> Result<ProviderSeries, prometheus::Error> {
    let one = |action: &Action| Ok((action.clone(), series_of(metrics, provider, action.as_str())?));
    Ok(ProviderSeries {
        took: metrics.provider_time.get_metric_with_label_values(&[provider])?,
        actions: actions.map(one).collect::<Result<_, prometheus::Error>>()?,
        other: series_of(metrics, provider, OTHER)?,
    })
}

fn series_of_catalogue(
    metrics: &Metrics,
    catalogue: &Catalogue,
) -> Result<BTreeMap<Provider, ProviderSeries>, prometheus::Error> {
    let all = catalogue.providers().map(|(provider, listed)| {
        Ok((provider.clone(), series_of_provider(metrics, provider.as_str(), listed.operations.keys())?))
    });
    all.collect()
}

impl Meter {
    /// Makes the series of everything that can be called, with 0 calls, so that the first one shows as an increase.
    ///
    /// # Errors
    /// A fault in the descriptions.
    pub fn new<'a>(
        metrics: Arc<Metrics>,
        catalogue: &Catalogue,
        groups: impl Iterator<Item = &'a Group>,
    ) -> Result<Self, prometheus::Error> {
        let of_group = |name: &str| by_outcome(&metrics.group_calls, &[name]).map(Arc::new);
        let groups = groups.chain([external()]).map(|group| Ok((group.clone(), of_group(group.as_str())?)));
        let groups = groups.collect::<Result<BTreeMap<_, _>, prometheus::Error>>()?;
        let evidence_used = groups.keys().map(Group::as_str).chain([OTHER]).map(|name| {
            let gauge = metrics.evidence_used.get_metric_with_label_values(&[name])?;
            Ok((name.to_owned(), (gauge, Cell::new(0))))
        });
        Ok(Self {
            providers: series_of_catalogue(&metrics, catalogue)?,
            other: series_of_provider(&metrics, OTHER, [].into_iter())?,
            evidence_used: evidence_used.collect::<Result<_, prometheus::Error>>()?,
            groups,
            other_group: of_group(OTHER)?,
            metrics,
        })
    }

    /// Returns the series without labels.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Makes the series of another catalogue. Those of actions that are gone are no longer served.
    pub fn replace_catalogue(&mut self, catalogue: &Catalogue) {
        match series_of_catalogue(&self.metrics, catalogue) {
            Ok(providers) => {
                let before = std::mem::replace(&mut self.providers, providers);
                self.forget(&before);
            }
            Err(error) => tracing::error!(%error, "the metrics of the new catalogue cannot be made"),
        }
    }

    fn forget(&self, before: &BTreeMap<Provider, ProviderSeries>) {
        let Metrics { calls, effects, provider_time, .. } = &*self.metrics;
        for (provider, series) in before {
            let now = self.providers.get(provider);
            let is_gone = |action: &&str| {
                now.is_none_or(|now| *action != OTHER && !now.actions.keys().any(|known| known.as_str() == *action))
            };
            // Series of the name `other` belong to names that are unknown, too.
            if provider.as_str() == OTHER {
                continue;
            }
            for action in series.actions.keys().map(Action::as_str).chain([OTHER]).filter(is_gone) {
                for outcome in CallOutcome::ALL {
                    calls.remove_label_values(&[provider.as_str(), action, outcome.word()]).ok();
                }
                for kind in EFFECTS {
                    effects.remove_label_values(&[provider.as_str(), action, kind.word()]).ok();
                }
            }
            if now.is_none() {
                provider_time.remove_label_values(&[provider.as_str()]).ok();
            }
        }
    }

    fn provider(&self, provider: &Provider) -> &ProviderSeries {
        self.providers.get(provider).unwrap_or(&self.other)
    }

    fn action(&self, provider: &Provider, action: &Action) -> &Arc<ActionSeries> {
        let provider = self.provider(provider);
        provider.actions.get(action).unwrap_or(&provider.other)
    }

    /// Returns the series of a call. The group is that whose policy applies.
    pub fn call(&self, provider: &Provider, action: &Action, group: Option<&Group>) -> CallSeries {
        let group = group.and_then(|group| self.groups.get(group)).unwrap_or(&self.other_group);
        CallSeries { action: Arc::clone(self.action(provider, action)), group: Arc::clone(group) }
    }

    /// Counts an attempt of an action.
    pub fn effect(&self, provider: &Provider, action: &Action, outcome: RowKind) {
        let series = &self.action(provider, action).effects;
        if let Some((_, counter)) = series.iter().find(|(kind, _)| *kind == outcome) {
            counter.inc();
        }
    }

    /// Notes the evidence that counts against the budget of each caller, in the ledger's form. Of callers that share a
    /// series, the one with the most bytes is shown, because each has a budget of its own.
    ///
    /// `visit` calls its argument with each caller and its bytes.
    pub fn evidence_used(&self, visit: impl FnOnce(&mut dyn FnMut(&str, u64))) {
        visit(&mut |caller, bytes| {
            if let Some((_, most)) = self.evidence_used.get(self.budget_of(caller)) {
                most.set(most.get().max(bytes));
            }
        });
        for (gauge, most) in self.evidence_used.values() {
            gauge.set(i64::try_from(most.take()).unwrap_or(i64::MAX));
        }
    }

    /// Returns the label of the caller's budget: a name of the configuration or of a closed list.
    fn budget_of<'a>(&self, caller: &'a str) -> &'a str {
        match caller.split_once(':') {
            Some(("group", name)) if self.evidence_used.contains_key(name) => name,
            Some(("agent" | "outside", _)) => external().as_str(),
            _ => OTHER,
        }
    }

    /// Notes the time of an attempt at a provider.
    pub fn took(&self, provider: &Provider, took: Duration) {
        self.provider(provider).took.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::catalogue::Listed;
    use prometheus::proto::{Metric, MetricFamily};
    use std::collections::BTreeSet;

    fn catalogue(names: &[&str]) -> Catalogue {
        let mut catalogue = Catalogue::default();
        for name in names {
            catalogue.insert(name.parse().unwrap(), Listed::ready("mock", Vec::new()));
        }
        catalogue
    }

    #[test]
    fn evidence_is_shown_for_configured_groups_only_and_one_external_agent_stands_for_all() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let group = "one".parse().unwrap();
        let meter = Meter::new(Arc::clone(&metrics), &catalogue(&[]), [&group].into_iter()).unwrap();
        let shown = |used: &[(&str, u64)]| {
            meter.evidence_used(|each| used.iter().for_each(|(caller, bytes)| each(caller, *bytes)));
            meter.evidence_used.iter().map(|(name, (gauge, _))| (name.as_str(), gauge.get())).collect::<Vec<_>>()
        };
        let callers =
            [("group:one", 7), ("group:gone", 3), ("agent:0c1d", 5), ("outside:fgrnt_1", 9), ("agent:ffff", 1)];
        assert_eq!(shown(&callers), [("external", 9), ("one", 7), (OTHER, 3)]);
        assert_eq!(shown(&[]), [("external", 0), ("one", 0), (OTHER, 0)]);
    }

    #[test]
    fn the_series_of_a_provider_that_is_gone_are_no_longer_served_and_the_others_keep_their_counts() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let mut meter = Meter::new(Arc::clone(&metrics), &catalogue(&["one", "two"]), [].into_iter()).unwrap();
        let count = |meter: &Meter, provider: &str| {
            meter.call(&provider.parse().unwrap(), &"x".parse().unwrap(), None).count(CallOutcome::Denied);
        };
        let series = || {
            let families = metrics.registry.gather();
            let all = families.iter().flat_map(MetricFamily::get_metric);
            let labels = all.flat_map(Metric::get_label).filter(|label| label.name() == "provider");
            let named: BTreeSet<String> = labels.map(|label| label.value().to_owned()).collect();
            named.into_iter().collect::<Vec<_>>()
        };
        let denied = |provider: &str| {
            metrics.calls.get_metric_with_label_values(&[provider, OTHER, CallOutcome::Denied.word()]).unwrap().get()
        };
        for provider in ["one", "two", "three"] {
            count(&meter, provider);
        }
        assert_eq!(series(), ["one", "other", "two"]);
        meter.replace_catalogue(&catalogue(&["one"]));
        assert_eq!(series(), ["one", "other"]);
        count(&meter, "two");
        assert_eq!((denied("one"), denied(OTHER)), (1, 2));
    }
}
