//! What follows from the events of a transaction, once it is committed.

use crate::approval_requests::Resolved;
use crate::broker::Broker;
use crate::capability_replies::{CapabilityAnswer, Form};
use crate::file_proposals::ToApply;
use shared::{Group, Provider, RequestId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What follows from the events of a transaction. Later events of the same transaction already see it.
#[derive(Debug, Default)]
pub struct FollowUps {
    /// The groups whose snapshot differs from the database.
    pub stale_snapshots: BTreeSet<Group>,
    /// The requests whose approval request has ended.
    pub resolved: Vec<Resolved>,
    /// The proposals to be applied now.
    pub to_apply: Vec<ToApply>,
    /// Whether approval requests have changed, so the next one may expire at another time.
    pub approvals_changed: bool,
    pub(crate) cancelled: BTreeSet<(Arc<str>, RequestId)>,
    pub(crate) capability_answers: BTreeMap<Group, Vec<(Form, CapabilityAnswer)>>,
    pub(crate) flow_reads: Vec<(Group, usize, Timestamp)>,
    pub(crate) replaced: BTreeSet<Provider>,
}

impl FollowUps {
    /// Adds what follows from the next transaction.
    pub fn append(&mut self, mut next: Self) {
        self.stale_snapshots.append(&mut next.stale_snapshots);
        self.resolved.append(&mut next.resolved);
        self.to_apply.append(&mut next.to_apply);
        self.approvals_changed |= next.approvals_changed;
    }
}

impl Broker {
    /// Remembers what later batches need of a committed transaction.
    pub fn remember(&mut self, follow_ups: &mut FollowUps) {
        self.cancelled.append(&mut follow_ups.cancelled);
        for (group, answers) in std::mem::take(&mut follow_ups.capability_answers) {
            for (form, answer) in answers {
                self.capability_answers.keep(&group, form, answer);
            }
        }
        for (group, bytes, at) in follow_ups.flow_reads.drain(..) {
            self.flow_reads.count(&group, bytes, at);
        }
    }

    /// Returns whether the call was cancelled before it started.
    pub(crate) fn is_cancelled(&self, key: &(Arc<str>, RequestId)) -> bool {
        (!self.cancelled.is_empty() && self.cancelled.contains(key)) || self.follow_ups.cancelled.contains(key)
    }
}
