//! Charges of an intent: rates, quotas, the trial of a provider.

use crate::call::Call;
use crate::proofs::Effect;
use policy::limits::Charge;
use serde_json::json;
use store::ledger::chain::{Draft, RowKind};
use store::state::counters::{self, Counter};
use store::state::shared_quotas;
use store::{StoreError, Transaction};

/// Charges the rates, quotas and trial that the intent of this effect uses.
///
/// # Errors
/// [`StoreError`]; the intent must then not be written.
pub(crate) fn charge(
    tx: &Transaction<'_>,
    effect: &Effect,
    (charges, counted_as): (&[Charge], &str),
    intent: i64,
) -> Result<(), StoreError> {
    match effect {
        Effect::Run(call) => charge_call(tx, (call, true), (charges, counted_as), intent),
        Effect::Prepare(call) => charge_call(tx, (call, false), (charges, counted_as), intent),
        Effect::Probe(_) => Ok(()),
    }
}

/// The same for one call. `runs` is false while only its remote facts are fetched.
pub(crate) fn charge_call(
    tx: &Transaction<'_>,
    (call, runs): (&Call, bool),
    (charges, counted_as): (&[Charge], &str),
    intent: i64,
) -> Result<(), StoreError> {
    let (caller, provider) = (&*call.header.caller_key, call.provider.as_str());
    let counter = |counted_as, scope| Counter { counted_as, provider, scope };
    for charge in charges {
        match charge {
            Charge::Rate { scope, per_minute } => counters::fill(tx, &counter(counted_as, scope), *per_minute)?,
            Charge::Quota { scope, uses, most, soft, of, .. } if runs => {
                let used = counters::use_up(tx, &counter(of.as_deref().unwrap_or(counted_as), scope), *uses, *most)?;
                if *soft == Some(used) {
                    note_soft(tx, call, scope, used)?;
                }
            }
            Charge::Shared { provider, scope, uses, most } if runs => {
                shared_quotas::use_up(tx, (provider, scope), *uses, *most)?;
            }
            // Nothing is attempted yet.
            Charge::Quota { .. } | Charge::Shared { .. } => {}
            Charge::Trial => counters::begin_trial(tx, caller, provider, intent)?,
        }
    }
    Ok(())
}

fn note_soft(tx: &Transaction<'_>, call: &Call, scope: &str, used: i64) -> Result<(), StoreError> {
    tracing::warn!(caller = %call.header.caller_key, provider = %call.provider, scope, used, "a soft quota is used up");
    tx.append(&Draft {
        person: call.header.behalf.key(),
        provider: Some(&call.provider),
        body: json!({ "soft_quota": scope, "used": used, "of_request": call.header.request_id }),
        ..Draft::new(RowKind::Noted, &call.header.caller_key)
    })?;
    Ok(())
}
