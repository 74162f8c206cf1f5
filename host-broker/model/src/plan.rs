//! Plans: several calls that a person approves at once, and that run in order.

use crate::approval::ApprovalReason;
use shared::digest::Digest;
use shared::{Action, Level, Provider, RequestId};
use std::collections::BTreeSet;

/// The state of a call of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// It has not started.
    Waiting,
    /// It has its approval, and its outcome is not known yet.
    Started,
    /// It succeeded.
    Succeeded,
    /// It was refused, it failed, or its outcome is unknown.
    Failed,
    /// It will not start, because the plan has ended.
    Skipped,
}

impl StepState {
    /// The states that are stored.
    pub const STORED: [Self; 4] = [Self::Started, Self::Succeeded, Self::Failed, Self::Skipped];

    /// Returns the word in replies and in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// Returns whether the call is over, or will not start.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Skipped)
    }
}

/// A call of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStep {
    /// The number of the plan's approval.
    pub plan: i64,
    /// Its place: 1 for the first call.
    pub step: i64,
    /// The request under which it runs. An agent learns it when the plan is over.
    pub request_id: RequestId,
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The level that it demands.
    pub level: Level,
    /// The digest of everything that is approved about it.
    pub digest: Digest,
    /// The reasons for asking a person about it.
    pub asks: BTreeSet<ApprovalReason>,
    /// Its state.
    pub state: StepState,
    /// Why it did not succeed.
    pub code: Option<String>,
}
