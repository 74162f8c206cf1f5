//! The providers, for people who audit: state, breakers, and the calls of the last day.

use super::{Shared, html, last_day, page};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::catalogue::Catalogue;
use shared::{Provider, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::ledger::recent::{self, CallState, RecentCalls};
use store::ledger::usage::ROWS_MAX;
use store::state::counters::{self, Used};
use store::state::kill;
use store::{StoreError, View};

/// The path of the page.
const PATH: &str = "/providers";
/// The most breakers that are read. Those of groups come first.
const BREAKERS_MAX: u32 = 1_000;

/// The content of the page.
pub(super) struct ProvidersPage {
    /// The present catalogue.
    pub(super) catalogue: Arc<Catalogue>,
    /// The calls of the last day to each provider of the catalogue.
    pub(super) figures: BTreeMap<Provider, CallFigures>,
    /// The number of calls to names that are no providers.
    pub(super) other: u64,
    /// The time before which calls are not counted, if there are too many.
    pub(super) cut_before: Option<Timestamp>,
    /// The breakers that have counted faults.
    pub(super) breakers: Vec<Used>,
    /// The providers that a kill switch stops for everybody.
    pub(super) killed: BTreeSet<Provider>,
}

/// The calls of one provider.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CallFigures {
    // By the part of the day and the state.
    counts: BTreeMap<(usize, CallState), u64>,
    // The times that the provider took, sorted.
    pub(super) took: Vec<Duration>,
    // The same in each part of the day.
    took_in: BTreeMap<usize, Vec<Duration>>,
}

impl CallFigures {
    /// Returns the number of calls in this part of the day that have this state.
    pub(super) fn count(&self, part: usize, state: CallState) -> u64 {
        self.counts.get(&(part, state)).copied().unwrap_or_default()
    }

    /// Returns the times that the provider took in this part of the day, sorted.
    pub(super) fn took_in(&self, part: usize) -> &[Duration] {
        self.took_in.get(&part).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the number of calls that have this state.
    pub(super) fn total(&self, state: CallState) -> u64 {
        (0..last_day::PARTS).map(|part| self.count(part, state)).sum()
    }
}

/// The facts of the ledger.
struct ProviderFacts {
    calls: RecentCalls,
    breakers: Vec<Used>,
    killed: BTreeSet<Provider>,
}

/// `GET /providers`
pub(super) async fn list(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let now = shared.web.clock.now();
    let catalogue = Arc::clone(&shared.web.dispatcher.catalogue.borrow());
    let looked = Arc::clone(&catalogue);
    let look = move |ledger: &View| ledger.at_one_moment(|ledger| facts(ledger, &looked, now));
    let show = move |facts: ProviderFacts| {
        let providers = ProvidersPage::of(catalogue, facts, now);
        html(StatusCode::OK, page::providers::page(&visitor, now, &providers))
    };
    shared.read_long(look, show).await
}

fn facts(ledger: &View, catalogue: &Catalogue, now: Timestamp) -> Result<ProviderFacts, StoreError> {
    let mut killed = BTreeSet::new();
    for (name, _) in catalogue.providers() {
        if kill::find(ledger, None, name)?.is_some() {
            killed.insert(name.clone());
        }
    }
    Ok(ProviderFacts {
        calls: recent::calls_since(ledger, last_day::begin(now), ROWS_MAX)?,
        breakers: counters::breakers(ledger, now, BREAKERS_MAX)?,
        killed,
    })
}

impl ProvidersPage {
    fn of(catalogue: Arc<Catalogue>, facts: ProviderFacts, now: Timestamp) -> Self {
        let ProviderFacts { calls: RecentCalls { calls, cut_before }, breakers, killed } = facts;
        let mut figures: BTreeMap<Provider, CallFigures> =
            catalogue.providers().map(|(name, _)| (name.clone(), CallFigures::default())).collect();
        let mut other = 0;
        for call in calls {
            // An agent can call any name, so names that are no providers are only counted.
            match call.provider.parse::<Provider>().ok().and_then(|name| figures.get_mut(&name)) {
                Some(figures) => {
                    let part = last_day::part_of(now, call.at);
                    *figures.counts.entry((part, call.state)).or_default() += 1;
                    figures.took.extend(call.took);
                    figures.took_in.entry(part).or_default().extend(call.took);
                }
                None => other += 1,
            }
        }
        for figures in figures.values_mut() {
            figures.took.sort_unstable();
            figures.took_in.values_mut().for_each(|took| took.sort_unstable());
        }
        Self { catalogue, figures, other, cut_before, breakers, killed }
    }
}
