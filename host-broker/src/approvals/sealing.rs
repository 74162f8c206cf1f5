//! The request that a person is asked about: kept with the question, handed back to its call, and compared.
//!
//! ```text
//! asked ─► sealed with the call's nonce ─► shown, digested, stored
//! yes   ─► parsed again ─► gets the stored one back, with its nonce ─► seals the same bytes? ─► intent ─► they are sent
//! ```

use crate::approvals::{self, Approval};
use crate::authorize::Policy;
use crate::call::Call;
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use model::SealedRequest;
use rusqlite::{Connection, params};

/// Stores the request with the question.
///
/// # Errors
/// [`LedgerError`]; the question must then not stand either.
pub fn keep(tx: &Transaction<'_>, approval: i64, sealed: &SealedRequest) -> Result<(), LedgerError> {
    let sealed = serde_json::to_string(sealed).map_err(|_bad| LedgerError::Stored { what: "sealed request" })?;
    approvals::changed_one(tx, "UPDATE approvals SET sealed = ?2 WHERE id = ?1", params![approval, sealed])
}

/// Hands a call about which a person was asked the request that was shown, and the nonce in it: that nonce is written
/// down with the intent, and a probe looks for it.
///
/// # Errors
/// [`LedgerError`] if it cannot be looked up.
pub fn hand_back(tx: &Transaction<'_>, call: &mut Call) -> Result<(), LedgerError> {
    if !call.was_asked() {
        return Ok(());
    }
    let approval = approvals::of_request(tx.connection(), &call.header.caller_key, &call.header.request_id)?;
    call.sealed = match approval {
        Some(approval) => stored(tx.connection(), &approval)?,
        None => None,
    };
    if let Some(sealed) = &call.sealed {
        call.planted.nonce = sealed.nonce.clone();
    }
    Ok(())
}

/// Whether the question is about this very call, and what it would send now is what was shown, byte for byte.
///
/// # Errors
/// [`LedgerError`] if the question cannot be read.
pub fn is_about(
    connection: &Connection,
    approval: &Approval,
    call: &Call,
    policy: &Policy,
) -> Result<bool, LedgerError> {
    let stored = stored(connection, approval)?;
    // An equal call has another nonce until it is this question's.
    let nonce = stored.as_ref().map_or(&call.planted.nonce, |sealed| &sealed.nonce);
    let now = call.target.invocation().and_then(|invocation| invocation.seal(nonce));
    Ok(now == stored && approval.digest == approvals::digest_of(call, now.as_ref(), policy))
}

/// The request that was shown. One that cannot be read is none, and then nothing that has one is agreed to.
fn stored(connection: &Connection, approval: &Approval) -> Result<Option<SealedRequest>, LedgerError> {
    let text: Option<String> = connection
        .prepare_cached("SELECT sealed FROM approvals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![approval.id], |row| row.get(0)))
        .map_err(at("read a sealed request"))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}
