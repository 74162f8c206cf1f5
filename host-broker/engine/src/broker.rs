//! The broker: the state that the pipeline keeps between two events. [`pipeline`](crate::pipeline) has the life of a
//! call.

use crate::capability_replies::CapabilityAnswers;
use crate::catalogue::{Catalogue, CatalogueEntry};
use crate::clean::Filters;
use crate::commands::PolicySigner;
use crate::flows::reads::Reads;
use crate::follow_ups::{FollowUps, Uncommitted};

use config::Config;
use config::Policy;
use kernel::Probe;
use kernel::run_handle::RunHandle;
use model::{EffectMarker, Nonce, Random};
use provider::definitions::Withdrawn;
use secrets::identity::issuers::OwnKey;
use secrets::vault::Vault;
use shared::digest::Digest;
use shared::{Group, Provider, RequestId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::state::intents;

/// The state that turns events into rows.
pub struct Broker {
    pub(crate) config: Arc<Config>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) policy: Policy,
    /// The stored answers to `ext_capabilities`, until a snapshot is stale.
    pub(crate) capability_answers: CapabilityAnswers,
    /// The number of requests of a caller that wait for another one.
    pub(crate) waiting: BTreeMap<Arc<str>, usize>,
    /// Calls that were cancelled before they started.
    pub(crate) cancelled: BTreeSet<(Arc<str>, RequestId)>,
    /// Calls that run, with the handles shared with their callers.
    pub(crate) under_way: BTreeMap<(Arc<str>, RequestId), Arc<RunHandle>>,
    /// Requests that wait for another one. They have no row yet.
    pub(crate) parked: BTreeMap<(Arc<str>, RequestId), WaitingRequest>,
    /// The bytes of flows that groups have read.
    pub(crate) flow_reads: Reads,
    /// The follow-ups of the open transaction.
    pub(crate) follow_ups: FollowUps,
    /// The state of that transaction that is remembered if it commits.
    pub(crate) uncommitted: Uncommitted,
    /// Providers whose definitions were replaced, until the new ruleset is in force.
    pub(crate) replaced: BTreeSet<Provider>,
    /// The tools that servers were last seen to have withdrawn.
    pub(crate) withdrawn: BTreeMap<Provider, Withdrawn>,
    pub(crate) ids: Arc<dyn Random>,
    /// The filter that redacts the broker's own secrets from its texts and inspects outgoing data. Without it, the
    /// broker shows no such text.
    pub(crate) filters: Option<Arc<Filters>>,
    /// The vault that seals persons' credentials; without it, none are sealed again.
    pub(crate) vault: Option<Arc<Vault>>,
    /// The keys of checkpoints; without them, none is written.
    pub(crate) checkpoint_keys: Option<CheckpointKeys>,
    /// The signature of published policies; without it, none is published.
    pub(crate) policy_signer: Option<Arc<dyn PolicySigner>>,
}

/// The keys that sign checkpoints.
#[derive(Debug)]
pub struct CheckpointKeys {
    /// The present key.
    pub key: OwnKey,
    /// The key that signed the last checkpoint, if it is another one that endorses the present key.
    pub earlier: Option<OwnKey>,
}

/// A request that waits for another one.
#[derive(Debug, Clone)]
pub struct WaitingRequest {
    /// The request that it waits for.
    pub of: RequestId,
    /// The person on whose behalf it was made.
    pub person: Option<String>,
    /// Its digest.
    pub request_digest: Digest,
    /// Whether it is a call, which can be cancelled.
    pub is_call: bool,
}

impl Broker {
    /// Makes a broker with this configuration and catalogue.
    pub fn new(config: Arc<Config>, catalogue: Arc<Catalogue>, policy: Policy, ids: Arc<dyn Random>) -> Self {
        Self {
            config,
            catalogue,
            policy,
            capability_answers: CapabilityAnswers::default(),
            waiting: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            under_way: BTreeMap::new(),
            parked: BTreeMap::new(),
            flow_reads: Reads::default(),
            follow_ups: FollowUps::default(),
            uncommitted: Uncommitted::default(),
            replaced: BTreeSet::new(),
            withdrawn: BTreeMap::new(),
            ids,
            filters: None,
            vault: None,
            checkpoint_keys: None,
            policy_signer: None,
        }
    }

    /// Returns the same broker with a vault, so that it can seal credentials again.
    #[must_use]
    pub fn with_vault(self, vault: Arc<Vault>) -> Self {
        Self { vault: Some(vault), ..self }
    }

    /// Returns the same broker with the keys of checkpoints.
    #[must_use]
    pub fn with_checkpoint_keys(self, keys: CheckpointKeys) -> Self {
        Self { checkpoint_keys: Some(keys), ..self }
    }

    /// Returns the same broker with a signature for published policies.
    #[must_use]
    pub fn with_policy_signer(self, signer: Arc<dyn PolicySigner>) -> Self {
        Self { policy_signer: Some(signer), ..self }
    }

    /// Returns the same broker with filters, so that it can show people texts that it read itself.
    #[must_use]
    pub fn with_filters(self, filters: Arc<Filters>) -> Self {
        Self { filters: Some(filters), ..self }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the providers and actions that exist.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// Returns the randomness of ids and nonces.
    pub fn ids(&self) -> &dyn Random {
        self.ids.as_ref()
    }

    /// Returns the filters of results.
    pub fn filters(&self) -> Option<&Arc<Filters>> {
        self.filters.as_ref()
    }

    /// Notes that a call runs.
    pub fn begin_run(&mut self, key: (Arc<str>, RequestId), run_handle: Arc<RunHandle>) {
        self.under_way.insert(key, run_handle);
    }

    /// Notes that a call no longer runs.
    pub fn end_run(&mut self, key: &(Arc<str>, RequestId)) {
        self.under_way.remove(key);
    }

    /// Returns whether this request waits for another one.
    pub fn is_waiting(&self, key: &(Arc<str>, RequestId)) -> bool {
        self.parked.contains_key(key)
    }

    /// Returns the request with this key if it waits for another one, also if it began to in this transaction.
    pub(crate) fn parked(&self, key: &(Arc<str>, RequestId)) -> Option<&WaitingRequest> {
        self.uncommitted.reading.get(key).or_else(|| self.parked.get(key))
    }

    /// Notes that a request waits for another one of the same caller.
    pub fn begin_waiting(&mut self, key: (Arc<str>, RequestId), waiting: WaitingRequest) {
        self.waiting.entry(Arc::clone(&key.0)).and_modify(|count| *count += 1).or_insert(1);
        self.parked.insert(key, waiting);
    }

    /// Notes that a request no longer waits.
    pub fn end_waiting(&mut self, key: &(Arc<str>, RequestId)) {
        self.parked.remove(key);
    }

    /// Notes that so many requests of a caller no longer wait.
    pub fn fewer_waiting(&mut self, caller: &Arc<str>, number: usize) {
        if let Some(waiting) = self.waiting.get_mut(caller) {
            *waiting = waiting.saturating_sub(number);
        }
        self.waiting.retain(|_, waiting| *waiting > 0);
    }

    /// Forgets that a call was cancelled, once it is over.
    pub fn forget_cancelled(&mut self, key: &(Arc<str>, RequestId)) {
        if !self.cancelled.is_empty() {
            self.cancelled.remove(key);
        }
    }

    /// Forgets the replies to `ext_capabilities` of a group whose snapshot is written again.
    pub fn forget_capabilities(&mut self, group: &Group) {
        self.capability_answers.forget(group);
    }

    /// Returns the probe for an outcome that an earlier daemon left unknown.
    pub fn probe_again(&self, outcome: intents::UnknownOutcome) -> Option<Box<Probe>> {
        let CatalogueEntry::Enabled(operation) = self.catalogue.find(&outcome.provider, &outcome.action) else {
            return None;
        };
        let stored = serde_json::from_str(outcome.probe.as_deref()?).ok()?;
        let planted = EffectMarker { request_id: outcome.request_id, nonce: Nonce::stored(outcome.nonce) };
        Probe::stored(operation, stored, planted, outcome.caller, Some(outcome.seq)).map(Box::new)
    }
}
