//! The facts of a call that another call makes. They are judged together.

use super::is_granted;
use crate::clean::Filters;
use config::Policy;
use kernel::call::Call;
use kernel::contract::can_be_nested;
use model::Exposure;
use policy::facts::{Facts, GuardFact, SessionFact};
use shared::{Code, Level, Timestamp};
use store::{StoreError, View};

/// Returns the facts of a nested call, beside those of the call that makes it.
///
/// # Errors
/// [`StoreError`] if a fact cannot be read; the call must then be refused.
pub(super) fn facts(
    connection: &View,
    times: (Timestamp, Timestamp),
    (call, outer): (&Call, &Facts),
    policy: &Policy,
    filters: Option<&Filters>,
) -> Result<Facts, StoreError> {
    let mut facts = super::facts(connection, times, call, (policy, filters), &[])?;
    // One approval covers both calls: its digest has both.
    facts.agreed.clone_from(&outer.agreed);
    // Both add to the session at once, and the value could go anywhere.
    let declared = call.target.operation().map_or(Exposure::NONE, |operation| operation.declaration().exposes);
    facts.session = SessionFact { adds: declared.and(outer.session.adds), own: false, ..facts.session };
    if let (Some(reason), true) = (unsupported(call, times.0), is_granted(&facts.grant, call)) {
        facts.guard = GuardFact::Refuse { code: Code::Guardrail, reason };
    }
    Ok(facts)
}

/// Returns why an action cannot be a nested call.
fn unsupported(call: &Call, now: Timestamp) -> Option<String> {
    let (operation, invocation) = (call.target.operation()?, call.target.invocation()?);
    let is_plain =
        !call.provider.is_namespaced() && can_be_nested(operation.declaration(), invocation, &call.planted, now);
    if !is_plain {
        return Some(format!("Action '{}' of {} cannot take a hidden value.", call.action, call.provider));
    }
    (call.target.demanded() > Level::Write).then(|| {
        format!("Action '{}' of {} is a production action, which takes no hidden value.", call.action, call.provider)
    })
}
