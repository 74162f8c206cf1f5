//! The end of everything in a restored ledger that permits something, or that may have been used since its backup.
//!
//! The ledger is a copy of an earlier state. What was revoked, spent or answered later is missing in it. So nothing that
//! permits a call, an approval or a disclosure stays. Keys of idempotency, denials and the exposure of sessions stay:
//! they only refuse.

use crate::{StoreError, Transaction, View, at};
use rusqlite::params;

/// The number of records of each kind that ended, by the name that people see.
pub type Ended = Vec<(&'static str, usize)>;

/// Ends all access but the grants of groups and the approval requests, in the name of `by`. `row` is the row that says so.
///
/// # Errors
/// [`StoreError`]; nothing ended.
pub fn end_access(tx: &Transaction<'_>, by: &str, row: i64) -> Result<Ended, StoreError> {
    const STANDING: &str = "UPDATE standing_approvals SET ended_at = ?1, ended_by = ?2, pattern = NULL
        WHERE ended_at IS NULL";
    const EXTERNAL: &str = "UPDATE flow_grants SET revoked_at = ?1 WHERE revoked_at IS NULL";
    const OPERATORS: &str = "UPDATE operator_tokens SET revoked_at = ?1 WHERE revoked_at IS NULL";
    const GATES: &str = "UPDATE gate_approvals SET spent_by = ?1 WHERE spent_by IS NULL";
    let change = |statement: &str, with: &[&dyn rusqlite::ToSql]| {
        let changed = tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with));
        changed.map_err(at("end the access of a restored ledger"))
    };
    let now = tx.now().millis();
    let ended = vec![
        ("standing_approvals", change(STANDING, params![now, by])?),
        ("external_grants", change(EXTERNAL, params![now])?),
        ("operator_tokens", change(OPERATORS, params![now])?),
        ("gate_approvals", change(GATES, params![row])?),
        ("account_shares", change("DELETE FROM account_shares", &[])?),
        ("link_sessions", change("DELETE FROM auth_flows", &[])?),
        ("one_time_values", change("DELETE FROM one_time_values", &[])?),
    ];
    Ok(ended)
}

/// Has no outcome probed that is unknown: the remote may have been asked since, and a person records what is found out.
///
/// # Errors
/// [`StoreError`]; outcomes are probed as before.
pub fn forget_probes(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const FORGET: &str = "UPDATE unknown_outcomes SET probe = NULL WHERE probe IS NOT NULL";
    tx.view().prepare_cached(FORGET).and_then(|mut s| s.execute([])).map_err(at("forget probes"))?;
    Ok(())
}

/// Returns the keys of the sessions that the ledger knows: those that are exposed, and those of groups with a grant.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn sessions(view: &View) -> Result<Vec<String>, StoreError> {
    const SELECT: &str = "SELECT caller FROM exposures UNION SELECT 'group:' || group_folder FROM grants
        UNION SELECT 'group:' || group_folder FROM temporary_grants
        UNION SELECT 'issuer:' || issued_by FROM flow_grants WHERE issued_by NOT LIKE 'person:%'
        UNION SELECT 'agent:' || substr(lower(hex(actor)), 1, 32) FROM flow_grants WHERE issued_by LIKE 'person:%'";
    view.prepare(SELECT)
        .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
        .map_err(at("list the sessions of a restored ledger"))
}
