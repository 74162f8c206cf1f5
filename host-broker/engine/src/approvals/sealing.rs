//! The sealed request of an approval: stored with it, restored to its call, and compared.
//!
//! ```text
//! asked    ─► sealed with the call's nonce ─► shown, digested, stored
//! approval ─► parsed again ─► gets the stored one back, with its nonce ─► seals the same bytes? ─► intent ─► sent
//! ```

use config::Policy;
use kernel::call::Call;
use model::approval::Approval;
use store::state::approvals;
use store::{StoreError, Transaction, View};

/// Restores the shown request to its call after an approval, with its nonce. The nonce is written down with the intent,
/// and a probe looks for it.
///
/// # Errors
/// [`StoreError`] if it cannot be looked up.
pub fn hand_back(tx: &Transaction<'_>, call: &mut Call) -> Result<(), StoreError> {
    if !call.is_resumed() {
        return Ok(());
    }
    let approval = approvals::of_request(tx.view(), &call.header.caller_key, &call.header.request_id)?;
    call.sealed = match approval {
        Some(approval) => approvals::sealed(tx.view(), approval.id)?,
        None => None,
    };
    if let Some(sealed) = &call.sealed {
        call.planted.nonce = sealed.nonce.clone();
    }
    Ok(())
}

/// Returns whether the approval is for this very call, and the call would send the shown request, byte for byte.
///
/// # Errors
/// [`StoreError`] if the approval cannot be read.
pub fn is_about(connection: &View, approval: &Approval, call: &Call, policy: &Policy) -> Result<bool, StoreError> {
    let stored = approvals::sealed(connection, approval.id)?;
    // An equal call has another nonce until it gets the one of this approval.
    let nonce = stored.as_ref().map_or(&call.planted.nonce, |sealed| &sealed.nonce);
    let now = call.target.invocation().and_then(|invocation| invocation.seal(nonce));
    Ok(now == stored && approval.digest == crate::approvals::digest_of(call, now.as_ref(), policy))
}
