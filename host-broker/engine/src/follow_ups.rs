//! The follow-ups of a transaction's events after its commit, and the state that the broker remembers of it.

use crate::approval_requests::Resolved;
use crate::broker::{Broker, WaitingRequest};
use crate::capability_replies::{CapabilityAnswer, Form};
use crate::file_proposals::ToApply;
use shared::{Group, Provider, RequestId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The actions of the daemon after a transaction is committed.
#[derive(Debug, Default)]
pub struct FollowUps {
    /// The groups whose snapshot differs from the database.
    pub stale_snapshots: BTreeSet<Group>,
    /// The requests whose approval request has ended.
    pub resolved: Vec<Resolved>,
    /// The proposals to be applied now.
    pub to_apply: Vec<ToApply>,
    /// The approved calls that are decided again after a moment.
    pub postponed: Vec<(Arc<str>, RequestId)>,
    /// Whether an approved proposal is to be applied after a moment.
    pub is_wanted: bool,
    /// Whether approval requests have changed, so the next one may expire at another time.
    pub approvals_changed: bool,
    /// The time that people took to answer, for each approval request that an answer has ended.
    pub answered_in: Vec<Duration>,
}

impl FollowUps {
    /// Adds the follow-ups of the next transaction.
    pub fn append(&mut self, next: Self) {
        let Self {
            mut stale_snapshots,
            mut resolved,
            mut to_apply,
            mut postponed,
            is_wanted,
            approvals_changed,
            mut answered_in,
        } = next;
        self.is_wanted |= is_wanted;
        self.approvals_changed |= approvals_changed;
        self.stale_snapshots.append(&mut stale_snapshots);
        self.resolved.append(&mut resolved);
        self.to_apply.append(&mut to_apply);
        self.postponed.append(&mut postponed);
        self.answered_in.append(&mut answered_in);
    }
}

/// The state that the broker remembers of a transaction if it is committed. Later events of the transaction already see
/// it.
#[derive(Debug, Default)]
pub(crate) struct Uncommitted {
    /// Calls that were cancelled before they started.
    pub(crate) cancelled: BTreeSet<(Arc<str>, RequestId)>,
    /// Answers to `ext_capabilities`.
    pub(crate) capability_answers: Vec<(Group, Form, CapabilityAnswer)>,
    /// The bytes of flows that groups have read, with the times.
    pub(crate) flow_reads: Vec<(Group, usize, Timestamp)>,
    /// Providers whose definitions were replaced.
    pub(crate) replaced: BTreeSet<Provider>,
    /// Plans that wait for the facts of one of their calls.
    pub(crate) reading: BTreeMap<(Arc<str>, RequestId), WaitingRequest>,
}

impl Broker {
    /// Remembers a committed transaction, and returns its follow-ups.
    pub(crate) fn remember(&mut self) -> FollowUps {
        let Uncommitted { mut cancelled, capability_answers, flow_reads, mut replaced, reading } =
            std::mem::take(&mut self.uncommitted);
        for (key, waiting) in reading {
            match self.parked.get_mut(&key) {
                Some(parked) => *parked = waiting,
                None => self.begin_waiting(key, waiting),
            }
        }
        self.cancelled.append(&mut cancelled);
        self.replaced.append(&mut replaced);
        for (group, form, answer) in capability_answers {
            self.capability_answers.keep(&group, form, answer);
        }
        for (group, bytes, at) in flow_reads {
            self.flow_reads.count(&group, bytes, at);
        }
        let follow_ups = std::mem::take(&mut self.follow_ups);
        // ORDER: an answer of this transaction may be older than the change of the same transaction.
        for group in &follow_ups.stale_snapshots {
            self.capability_answers.forget(group);
        }
        follow_ups
    }

    /// Forgets a transaction that was rolled back.
    pub(crate) fn forget(&mut self) {
        self.uncommitted = Uncommitted::default();
        self.follow_ups = FollowUps::default();
    }

    /// Returns whether the call was cancelled before it started.
    pub(crate) fn is_cancelled(&self, key: &(Arc<str>, RequestId)) -> bool {
        (!self.cancelled.is_empty() && self.cancelled.contains(key)) || self.uncommitted.cancelled.contains(key)
    }

    /// Returns whether the definitions of the provider were replaced, and the new ruleset is not in force yet.
    pub(crate) fn is_replaced(&self, provider: &Provider) -> bool {
        self.replaced.contains(provider) || self.uncommitted.replaced.contains(provider)
    }
}
