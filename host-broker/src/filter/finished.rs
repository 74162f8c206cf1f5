//! From [`Executed`] to [`Filtered`]: nothing that a provider brought back goes on unfiltered.
//!
//! To audit: `Filtered { ` is constructed in this file only, in [`filter`].

use crate::filter::Rules;
use crate::ledger::LedgerKey;
use crate::ledger::transaction::Effect;
use crate::providers::contract::{Failure, Invocation, Probed, Success};
use crate::providers::execution::{Brought, Executed};
use serde_json::Value;
use shared::digest::Digest;
use shared::reply::{Evidence, Notice};
use shared::{Code, json};
use std::time::Duration;

/// An attempted effect whose outcome is safe to show.
#[must_use]
#[derive(Debug)]
pub struct Filtered {
    /// What was attempted.
    pub(crate) effect: Effect,
    /// Its intent.
    pub(crate) intent: Evidence,
    /// What came of it.
    pub(crate) outcome: Outcome,
    /// How long it took.
    pub(crate) took: Duration,
    /// What a probe needs, if the outcome is unknown; filled in when it is settled.
    pub(crate) probe: Option<Value>,
}

/// What came of an effect.
pub enum Outcome {
    /// It succeeded.
    Succeeded(Shown),
    /// The call now has the remote facts it needs.
    Prepared(Box<dyn Invocation>),
    /// A probe was answered.
    Probed {
        /// Whether the effect is proven to have happened.
        happened: bool,
        /// What was found.
        shown: Shown,
    },
    /// It did not succeed, or nobody knows.
    Failed {
        /// Why.
        code: Code,
        /// One sentence.
        reason: String,
        /// When to try again.
        retry_after: Option<Duration>,
    },
}

/// A result that is safe to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The result; `null` where it was withheld.
    pub data: Value,
    /// The keyed digest of its canonical form.
    pub digest: Digest,
    /// One line.
    pub summary: String,
    /// What the filter did.
    pub notices: Vec<Notice>,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Succeeded(_) => f.write_str("Succeeded"),
            Self::Prepared(_) => f.write_str("Prepared"),
            Self::Probed { happened, .. } => write!(f, "Probed({happened})"),
            Self::Failed { code, .. } => write!(f, "Failed({code})"),
        }
    }
}

/// Filters what an effect brought back. Runs on a worker.
pub fn filter(executed: Executed, rules: &Rules, key: &LedgerKey) -> Filtered {
    let (effect, intent, result, took) = executed.into_parts();
    let changes = match &effect {
        Effect::Run(call) => call.mutating,
        Effect::Prepare(_) | Effect::Probe(_) => false,
    };
    let outcome = match result {
        Ok(Brought::Result(success)) => succeeded(success, changes, rules, key),
        Ok(Brought::Facts(invocation)) => Outcome::Prepared(invocation),
        Ok(Brought::Probe(probed)) => probed_outcome(probed, rules, key),
        Err(failure) => failed(failure, changes, rules),
    };
    Filtered { effect, intent, outcome, took, probe: None }
}

/// A result that is withheld from a write is still a success: it happened, and must not be repeated.
fn succeeded(success: Success, changes: bool, rules: &Rules, key: &LedgerKey) -> Outcome {
    let cleaned = rules.clean(success.data);
    match cleaned.data {
        Some(data) => Outcome::Succeeded(shown(data, &success.summary, cleaned.notices, rules, key)),
        None if changes => Outcome::Succeeded(shown(Value::Null, &success.summary, cleaned.notices, rules, key)),
        None => Outcome::Failed {
            code: Code::InvalidOutput,
            reason: Code::InvalidOutput.meaning().into(),
            retry_after: None,
        },
    }
}

fn probed_outcome(probed: Probed, rules: &Rules, key: &LedgerKey) -> Outcome {
    match probed {
        Probed::Happened(success) => {
            let cleaned = rules.clean(success.data);
            let data = cleaned.data.unwrap_or(Value::Null);
            Outcome::Probed { happened: true, shown: shown(data, &success.summary, cleaned.notices, rules, key) }
        }
        Probed::Absent { message } | Probed::State { message } => {
            Outcome::Probed { happened: false, shown: shown(Value::Null, &message, Vec::new(), rules, key) }
        }
    }
}

fn shown(data: Value, summary: &str, notices: Vec<Notice>, rules: &Rules, key: &LedgerKey) -> Shown {
    let digest = key.digest(&json::canonical(&data));
    Shown { data, digest, summary: rules.clean_text(summary), notices }
}

fn failed(failure: Failure, changes: bool, rules: &Rules) -> Outcome {
    let say = |code: Code, message: &str| Outcome::Failed {
        code,
        reason: sentence(&rules.clean_text(message), code),
        retry_after: None,
    };
    match failure {
        Failure::RateLimited { retry_after, message } => Outcome::Failed {
            code: Code::ProviderRateLimited,
            reason: sentence(&rules.clean_text(&message), Code::ProviderRateLimited),
            retry_after,
        },
        Failure::Guard(refusal) => say(refusal.code, &refusal.reason),
        Failure::Timeout => say(Code::ProviderTimeout, ""),
        // A write whose answer is not usable was still sent.
        Failure::InvalidOutput { message } | Failure::Unknown { message } if changes => {
            say(Code::OutcomeUnknown, &message)
        }
        Failure::InvalidOutput { message } => say(Code::InvalidOutput, &message),
        // Nothing is unknown about a read: it changed nothing.
        Failure::Refused { message } | Failure::Unknown { message } => say(Code::ProviderFailed, &message),
    }
}

/// The code's meaning, and what the provider said.
fn sentence(message: &str, code: Code) -> String {
    let message = message.trim().trim_end_matches('.');
    if message.is_empty() {
        code.meaning().to_owned()
    } else {
        format!("{} The provider says: {message}.", code.meaning())
    }
}
