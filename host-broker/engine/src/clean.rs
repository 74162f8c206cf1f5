//! The step from [`Executed`] to [`Filtered`]: no provider output passes unfiltered.
//!
//! To audit: `Filtered { ` is constructed in this file only, in [`filter()`].

use crate::commands::read_of_plan;
use crate::event::Event;
use crate::event_results::event_of;
use crate::inspection::{Inspection, Inspector};
use aho_corasick::BuildError;
use filter::credentials;
use filter::credentials::{Extent, Scrubbed};
use filter::inspect;
use filter::inspect::Verdict;
use filter::scrub::Scrubber;
use filter::{Cleaned, Rules, Strictness, clean_text, redacted_with, shorten};
use jsonschema::Validator;
use kernel::Effect;
use kernel::call::{Call, Origin, Preparation, Prepared};
use kernel::contract::{Failure, Invocation, Probed, SideOutput, Success};
use kernel::execution::{Attempted, Executed, ProviderOutput};
use model::{Declaration, LedgerKey, Tier, Treatment};
use policy::facts::EgressFact;
use secrets::vault::Vault;
use secrets::vault::seen_secrets::SeenSecrets;
use serde_json::Value;
use shared::digest::Digest;
use shared::limits::SUMMARY_BYTES_MAX;
use shared::reply::{Evidence, Notice};
use shared::{Action, Code, Provider, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::RowKind;
use tokio::time::Instant;

/// The most bytes of canonical JSON that are searched for the broker's own secrets. Longer data does not leave.
const DEPARTING_MAX: usize = 1024 * 1024;

/// The most bytes of canonical JSON that are inspected. A person decides about longer data.
const INSPECTED_MAX: usize = 64 * 1024;

/// The output schemas, compiled, by provider and action.
pub type Schemas = BTreeMap<(Provider, Action), Arc<Validator>>;

/// The filters of every result: the broker's own secrets, and the schema of each action.
pub struct Filters {
    /// Finds the broker's own secrets.
    pub scrubber: Arc<Scrubber>,
    /// The output schemas, compiled, by provider and action.
    pub schemas: Arc<Schemas>,
    /// The key of digests.
    pub key: Arc<LedgerKey>,
    /// The inspector of untrusted content.
    pub inspector: Arc<Inspector>,
    /// The vault, which knows the credentials of persons; `None` where no call is executed.
    pub vault: Option<Arc<Vault>>,
}

impl Filters {
    /// Returns the same filters with the secrets that an execution has seen, and with those of other accounts; `None` if
    /// there are none.
    fn beside(&self, seen: &SeenSecrets, others: &SeenSecrets) -> Result<Option<Self>, BuildError> {
        let with = |scrubber| Self {
            scrubber: Arc::new(scrubber),
            schemas: Arc::clone(&self.schemas),
            key: Arc::clone(&self.key),
            inspector: Arc::clone(&self.inspector),
            vault: self.vault.clone(),
        };
        // Each search is kept for the next call, so the two are made apart.
        let scrubber = self.scrubber.with_seen(seen)?;
        let wider = scrubber.as_ref().unwrap_or(&self.scrubber).with_seen(others)?;
        Ok(wider.or(scrubber).map(with))
    }

    fn rules(&self, effect: &Effect) -> Rules<'_> {
        let (provider, action) = match effect {
            Effect::Run(call) | Effect::Prepare(call) => (&call.provider, &call.action),
            Effect::Probe(probe) => (&probe.operation.declaration().provider, &probe.operation.declaration().action),
        };
        let verbatim = match effect {
            Effect::Run(call) | Effect::Prepare(call) => call.target.operation(),
            Effect::Probe(probe) => Some(&probe.operation),
        };
        let verbatim = verbatim.is_some_and(|operation| operation.declaration().verbatim);
        let is_namespaced = provider.as_str().contains('.');
        Rules {
            scrubber: &self.scrubber,
            // The output of a probe is not the output of the action.
            output_schema: match effect {
                Effect::Run(call) => {
                    // The result of a nested call is that of its action.
                    let nested = call.nested.as_ref().map(|nested| (&nested.call.provider, &nested.call.action));
                    let (provider, action) = nested.unwrap_or((provider, action));
                    self.schemas.get(&(provider.clone(), action.clone())).map(Arc::as_ref)
                }
                Effect::Prepare(_) | Effect::Probe(_) => None,
            },
            strictness: match is_namespaced {
                _ if verbatim => Strictness::OwnSecrets,
                true => Strictness::Namespaced,
                false => Strictness::Ordinary,
            },
        }
    }

    /// Cleans a result and inspects it before an agent reads it.
    async fn look(&self, effect: &Effect, attempted: &Attempted, success: Success, rules: &Rules<'_>) -> Seen {
        let Success { data, mut summary, .. } = success;
        let cleaned = redacted_with(data, &mut summary, rules);
        let mut seen = Seen { cleaned, summary, looked: None, withheld_result: None };
        let (Effect::Run(call), Ok(data)) = (effect, &seen.cleaned.data) else { return seen.shortened() };
        let Some(operation) = call.target.operation() else { return seen.shortened() };
        let nested = call.nested.as_ref().and_then(|nested| nested.call.target.operation());
        let nested = nested.map(|nested| of_nested(nested.declaration(), operation.declaration()));
        let declaration = nested.as_ref().unwrap_or_else(|| operation.declaration());
        let until = call.header.reply_deadline();
        let looked = self
            .inspector
            .look(attempted, call.header.caller.policy_group(), declaration, data, &self.scrubber, until)
            .await;
        seen = seen.shortened();
        if looked.verdict.is_clean() {
            return seen;
        }
        if let Ok(data) = &mut seen.cleaned.data {
            match looked.treatment {
                Treatment::Off => {}
                // A result that is written back must be unchanged, so it gets a notice only.
                Treatment::Annotate if declaration.verbatim => {
                    seen.cleaned.notices.extend([Notice::UntrustedContent, Notice::Unmarked]);
                }
                Treatment::Annotate if self.inspector.fence(data, &looked.verdict) => {
                    seen.cleaned.notices.push(Notice::UntrustedContent);
                }
                Treatment::Annotate | Treatment::Withhold => {
                    let data = std::mem::take(data);
                    let (verdict, summary) = (looked.verdict.clone(), self.line(&seen.summary));
                    seen.withheld_result = Some(WithheldResult { verdict, data, summary });
                    seen.cleaned.notices = vec![Notice::Withheld];
                }
            }
        }
        seen.looked = Some(looked);
        seen
    }

    /// Returns the findings in the outgoing data of a call.
    ///
    /// The thread that runs this serves every group. So only the search for the broker's own secrets reads a long text
    /// to its end.
    pub fn departing(&self, params: &Value) -> EgressFact {
        let length = shared::json::canonical(params).len();
        if length > DEPARTING_MAX {
            let why = "It is longer than 1 MiB, the limit of the search for the broker's own secrets.";
            return EgressFact::Hostile(vec![why.to_owned()]);
        }
        let mut value = params.clone();
        let mut sentences: Vec<String> = Vec::new();
        if credentials::scrub(&mut value, &self.scrubber, Extent::Own) != Scrubbed::Untouched {
            return EgressFact::Hostile(vec!["It holds a secret of the broker's own.".to_owned()]);
        }
        if length > INSPECTED_MAX {
            return EgressFact::Suspicious(vec!["It is longer than 64 KiB, the limit of the inspection.".to_owned()]);
        }
        if credentials::scrub(&mut value, &self.scrubber, Extent::All) != Scrubbed::Untouched {
            sentences.push("It holds text that looks like a credential.".to_owned());
        }
        let verdict = inspect::departing(&value);
        sentences.extend(verdict.reasons().iter().map(|reason| reason.sentence().to_owned()));
        match verdict {
            Verdict::Hostile(_) => EgressFact::Hostile(sentences),
            Verdict::Clean if sentences.is_empty() => EgressFact::Clean,
            Verdict::Clean | Verdict::Suspicious(_) => EgressFact::Suspicious(sentences),
        }
    }

    /// Redacts the broker's own secrets from a text. Returns `false` if that is impossible; then the text must not be
    /// shown.
    pub fn own_secrets(&self, text: &mut String) -> bool {
        let mut value = Value::String(std::mem::take(text));
        let scrubbed = credentials::scrub(&mut value, &self.scrubber, Extent::Own);
        let (Scrubbed::Untouched | Scrubbed::Redacted, Value::String(clean)) = (scrubbed, value) else { return false };
        *text = clean;
        true
    }

    /// Returns one line of a remote's failure message; a remote's text is untrusted.
    fn said(&self, text: &str) -> String {
        const NOT_SHOWN: &str = "(its message looks like an attack on an agent, and is not shown)";
        let line = self.line(text);
        if inspect::inspect_text(&line).is_clean() { line } else { NOT_SHOWN.to_owned() }
    }

    fn line(&self, text: &str) -> String {
        clean_text(text, SUMMARY_BYTES_MAX, &self.scrubber)
    }
}

/// Returns the declaration by which the result of a nested call is inspected: that of its action, with the exposure of
/// both.
fn of_nested(nested: &Declaration, outer: &Declaration) -> Declaration {
    Declaration { exposes: nested.exposes.and(outer.exposes), ..nested.clone() }
}

/// A result that was cleaned and inspected.
struct Seen {
    cleaned: Cleaned,
    summary: String,
    looked: Option<Inspection>,
    withheld_result: Option<WithheldResult>,
}

impl Seen {
    fn shortened(mut self) -> Self {
        self.cleaned = shorten(self.cleaned);
        self
    }
}

/// An attempted effect whose outcome is safe to show.
#[must_use]
#[derive(Debug)]
pub struct Filtered {
    /// The attempted effect.
    pub(crate) effect: Effect,
    /// The intent.
    pub(crate) intent: Evidence,
    /// The outcome.
    pub(crate) outcome: Outcome,
    /// The duration.
    pub(crate) took: Duration,
    /// The duration of the filtering.
    pub(crate) filter_took: Duration,
    /// The output for the broker's own stores.
    pub(crate) aside: Option<Box<SideOutput>>,
    /// The data that a probe needs, if the outcome is unknown; filled in when it is settled.
    pub(crate) probe: Option<Value>,
    /// The finding of the inspection, if the result is not clean.
    pub(crate) looked: Option<Inspection>,
    /// The result, if it is withheld.
    pub(crate) withheld_result: Option<Box<WithheldResult>>,
    /// Whether the nested call was started.
    pub(crate) nested_begun: bool,
    /// Whether the caller was told that the outcome is unknown, because it could not be written in time.
    pub(crate) withheld: bool,
}

impl Filtered {
    /// Returns the call that was attempted; `None` for a probe.
    pub fn call(&self) -> Option<&Call> {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => Some(call),
            Effect::Probe(_) => None,
        }
    }

    /// Returns the kind of the row that records the outcome.
    pub fn row_kind(&self) -> RowKind {
        match &self.outcome {
            Outcome::Succeeded(_) | Outcome::Probed { .. } | Outcome::Prepared(_) => RowKind::Succeeded,
            Outcome::Failed { code: Code::OutcomeUnknown, .. } => RowKind::Unknown,
            Outcome::Failed { code: Code::ProviderTimeout, .. } => RowKind::TimedOut,
            Outcome::Failed { .. } => RowKind::Failed,
        }
    }

    /// Returns the time that the provider took.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Returns the time that the filtering took.
    pub fn filter_took(&self) -> Duration {
        self.filter_took
    }

    /// Returns whether it is the attempt of a call's own action, not of a preparation or a probe.
    pub fn is_run(&self) -> bool {
        matches!(self.effect, Effect::Run(_))
    }

    /// Takes the origin of the request out, to tell its caller that the outcome is unknown. The outcome is then kept and
    /// not delivered.
    pub fn withhold(&mut self) -> Option<Origin> {
        self.withheld = true;
        match &mut self.effect {
            Effect::Run(call) | Effect::Prepare(call) => {
                let header = call.plan.as_deref_mut().map_or(&mut call.header, |plan| &mut plan.header);
                Some(std::mem::replace(&mut header.origin, Origin::Broker))
            }
            Effect::Probe(_) => None,
        }
    }

    /// Returns whether the remote facts of the call were fetched, so it is decided again.
    pub fn is_prepared(&self) -> bool {
        matches!((&self.effect, &self.outcome), (Effect::Prepare(_), Outcome::Prepared(_)))
    }

    /// Returns the event that continues the request: the call with its remote facts, or the plan for which the call was
    /// read.
    ///
    /// # Errors
    /// The same, if the request is over. So is a plan whose caller was told that nothing is known.
    pub fn into_next(self: Box<Self>) -> Result<Event, Box<Self>> {
        let is_for_plan = self.call().is_some_and(|call| call.plan.is_some());
        if is_for_plan && self.withheld {
            return Err(self);
        }
        match self.into_prepared() {
            Ok(call) => Ok(event_of(call)),
            Err(filtered) if is_for_plan => read_of_plan(filtered),
            Err(filtered) => Err(filtered),
        }
    }

    /// Returns the call with its remote facts.
    ///
    /// # Errors
    /// The same, if it has none: see [`Self::is_prepared`].
    fn into_prepared(self: Box<Self>) -> Result<Box<Call>, Box<Self>> {
        if !self.is_prepared() {
            return Err(self);
        }
        match *self {
            Self { effect: Effect::Prepare(mut call), outcome: Outcome::Prepared(invocation), .. } => {
                call.prepared = match call.preparation {
                    Preparation::Renewal => Prepared::Renewed,
                    Preparation::Facts => Prepared::Complete,
                };
                call.target.resume(invocation);
                Ok(call)
            }
            other => Err(Box::new(other)),
        }
    }
}

/// A result that is withheld from an agent until a person has looked at it.
#[derive(Debug, Clone, PartialEq)]
pub struct WithheldResult {
    /// The finding.
    pub verdict: Verdict,
    /// The result, cleaned.
    pub data: Value,
    /// The summary.
    pub summary: String,
}

/// The outcome of an effect.
pub enum Outcome {
    /// It succeeded.
    Succeeded(Shown),
    /// The call has its remote facts.
    Prepared(Box<dyn Invocation>),
    /// A probe was answered.
    Probed {
        /// Whether the effect is proven to have happened.
        happened: bool,
        /// The finding.
        shown: Shown,
    },
    /// The effect failed, or its outcome is unknown.
    Failed {
        /// The reason code.
        code: Code,
        /// The reason: one sentence.
        reason: String,
        /// The time after which to try again.
        retry_after: Option<Duration>,
        /// Whether the provider failed.
        fault: bool,
    },
}

impl Outcome {
    /// Makes a refusal without a fault of the provider.
    pub fn of(code: Code, reason: String) -> Self {
        Self::Failed { code, reason, retry_after: None, fault: false }
    }
}

/// A result that is safe to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The result; `null` if it was withheld.
    pub data: Value,
    /// The keyed digest of its canonical form.
    pub digest: Digest,
    /// The summary, one line.
    pub summary: String,
    /// The notices of the filter.
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

/// Filters the output of an effect. It waits only for a classifier, if one is configured.
pub async fn filter(executed: Executed, filters: &Filters) -> Filtered {
    let began = Instant::now();
    let vault = filters.vault.as_ref().filter(|_| !executed.kept_out().is_empty());
    let others = vault.map(|vault| vault.passwords_of_others(executed.kept_out(), &executed));
    let (others, left_out) = others.unwrap_or_default();
    if left_out > 0 {
        tracing::debug!(left_out, "the result is not searched for these credentials of other accounts");
    }
    let seen = SeenSecrets::of(executed.slots());
    if !seen.is_empty() || !others.is_empty() {
        // The filters are also built off the loop.
        tokio::task::yield_now().await;
    }
    let wider = filters.beside(&seen, &others);
    let nested_begun = executed.nested_begun();
    let (effect, intent, result, took, attempted) = executed.into_parts();
    let (filters, result) = match (&wider, result) {
        (Ok(Some(wider)), result) => (wider, result),
        (Ok(None), result) => (filters, result),
        // Secrets that cannot be searched for cannot be redacted, so nothing is shown.
        (Err(_too_long), result) => {
            let message = "its result cannot be searched for the credential".to_owned();
            (
                filters,
                result
                    .and(Err(Failure::InvalidOutput { message: message.clone() }))
                    .map_err(|_any| Failure::InvalidOutput { message }),
            )
        }
    };
    let (changes, codes) = match &effect {
        Effect::Run(call) => (call.mutating, Codes::of(&call.provider)),
        Effect::Prepare(call) => (false, Codes::of(&call.provider)),
        Effect::Probe(probe) => (false, Codes::of(&probe.operation.declaration().provider)),
    };
    let (mut aside, mut looked, mut withheld_result) = (None, None, None);
    let outcome = match result {
        Ok(ProviderOutput::Result(mut success)) => {
            let success_reveals = success.aside.as_ref().is_some_and(|aside| aside.one_time.is_some());
            aside = success.aside.take();
            let rules = filters.rules(&effect);
            let proposed = aside.as_mut().and_then(|aside| aside.proposed.as_mut());
            if success_reveals && !may_reveal(&effect) {
                Outcome::of(Code::Guardrail, "The action may not reveal a value, so its result is withheld.".to_owned())
            } else if proposed.is_none_or(|proposed| filters.own_secrets(&mut proposed.diff)) {
                let seen = filters.look(&effect, &attempted, success, &rules).await;
                (looked, withheld_result) = (seen.looked, seen.withheld_result.map(Box::new));
                succeeded(seen.cleaned, &seen.summary, changes, codes, filters)
            } else {
                let reason = "The changes hold secrets that cannot be redacted, so they cannot be shown.";
                Outcome::of(Code::Guardrail, reason.to_owned())
            }
        }
        Ok(ProviderOutput::Facts(invocation)) => Outcome::Prepared(invocation),
        Ok(ProviderOutput::Probe(mut probed)) => {
            if let Probed::Happened(success) = &mut probed {
                aside = success.aside.take();
            }
            probed_outcome(probed, &filters.rules(&effect), filters)
        }
        Err(failure) => failed(failure, changes, codes, filters),
    };
    if !matches!(outcome, Outcome::Succeeded(_) | Outcome::Probed { happened: true, .. }) {
        aside = None;
    }
    Filtered {
        effect,
        intent,
        outcome,
        took,
        filter_took: began.elapsed(),
        aside,
        probe: None,
        looked,
        withheld_result,
        nested_begun,
        withheld: false,
    }
}

/// Returns whether the effect may have a one-time value. The decision lets no action with such a value run without an
/// approval of exactly this call.
fn may_reveal(effect: &Effect) -> bool {
    let Effect::Run(call) = effect else { return false };
    let declaration = call.target.operation().map(|operation| operation.declaration());
    declaration.is_some_and(|declaration| declaration.reveals && declaration.tier == Some(Tier::Human))
}

/// Makes the outcome of a success. A write whose result is withheld is still a success: it happened, and must not be
/// repeated.
fn succeeded(cleaned: Cleaned, summary: &str, changes: bool, codes: Codes, filters: &Filters) -> Outcome {
    match cleaned.data {
        Ok(data) => Outcome::Succeeded(shown(data, summary, cleaned.notices, filters)),
        Err(_) if changes => Outcome::Succeeded(shown(Value::Null, summary, cleaned.notices, filters)),
        Err(why) => {
            let reason = format!("{} To be precise: {why}.", codes.invalid_output.meaning());
            Outcome::Failed { code: codes.invalid_output, reason, retry_after: None, fault: true }
        }
    }
}

fn probed_outcome(probed: Probed, rules: &Rules<'_>, filters: &Filters) -> Outcome {
    match probed {
        Probed::Happened(success) => {
            let Success { data, mut summary, .. } = success;
            let cleaned = shorten(redacted_with(data, &mut summary, rules));
            let data = cleaned.data.unwrap_or(Value::Null);
            Outcome::Probed { happened: true, shown: shown(data, &summary, cleaned.notices, filters) }
        }
        Probed::Absent { message } | Probed::State { message } => {
            Outcome::Probed { happened: false, shown: shown(Value::Null, &message, Vec::new(), filters) }
        }
    }
}

fn shown(data: Value, summary: &str, notices: Vec<Notice>, filters: &Filters) -> Shown {
    let digest = filters.key.digest(&json::canonical(&data));
    Shown { data, digest, summary: filters.line(summary), notices }
}

/// The codes of provider faults. Those of capabilities have codes of their own.
#[derive(Clone, Copy)]
struct Codes {
    invalid_output: Code,
    unavailable: Code,
}

impl Codes {
    fn of(provider: &Provider) -> Self {
        if provider.is_namespaced() {
            let (invalid_output, unavailable) = (Code::CapabilityInvalidOutput, Code::CapabilityBackendUnavailable);
            Self { invalid_output, unavailable }
        } else {
            Self { invalid_output: Code::InvalidOutput, unavailable: Code::ProviderFailed }
        }
    }
}

fn failed(failure: Failure, changes: bool, codes: Codes, filters: &Filters) -> Outcome {
    let is_fault = failure.is_fault();
    let say = |code: Code, message: &str, retry_after: Option<Duration>| Outcome::Failed {
        code,
        reason: sentence(&filters.said(message), code),
        retry_after,
        fault: is_fault,
    };
    match failure {
        Failure::RateLimited { retry_after, message } => say(Code::ProviderRateLimited, &message, retry_after),
        Failure::Guard(refusal) => Outcome::of(refusal.code, filters.line(&refusal.reason)),
        Failure::Timeout => say(Code::ProviderTimeout, "", None),
        // A write with an unusable answer was still sent.
        Failure::InvalidOutput { message } | Failure::Unknown { message } if changes => {
            say(Code::OutcomeUnknown, &message, None)
        }
        Failure::InvalidOutput { message } => say(codes.invalid_output, &message, None),
        Failure::Coded { code, message } => say(code, &message, None),
        Failure::Unavailable { message } => say(codes.unavailable, &message, None),
        // The outcome of a read is never unknown: it changed nothing.
        Failure::Refused { message } | Failure::Unknown { message } => say(Code::ProviderFailed, &message, None),
    }
}

/// Returns the code's meaning with the provider's message.
fn sentence(message: &str, code: Code) -> String {
    let message = message.trim().trim_end_matches('.');
    if message.is_empty() {
        code.meaning().to_owned()
    } else {
        format!("{} The provider says: {message}.", code.meaning())
    }
}
