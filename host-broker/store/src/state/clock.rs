//! Records that end when a person accepts a clock that is behind the last row.

use crate::{StoreError, Transaction, at};
use rusqlite::params;

/// The statements that end records made while the clock was ahead, by the name that people see.
const ENDED: [(&str, &str); 6] = [
    ("grants", "UPDATE grants SET expires_at = ?1 WHERE active AND granted_at > ?1 AND expires_at > ?1"),
    ("temporary_grants", "UPDATE temporary_grants SET expires_at = ?1 WHERE granted_at > ?1 AND expires_at > ?1"),
    (
        "standing_approvals",
        "UPDATE standing_approvals SET until = ?1 WHERE ended_at IS NULL AND given_at > ?1 AND until > ?1",
    ),
    ("external_grants", "UPDATE flow_grants SET expires_at = ?1 WHERE issued_at > ?1 AND expires_at > ?1"),
    ("operator_tokens", "UPDATE operator_tokens SET expires_at = ?1 WHERE issued_at > ?1 AND expires_at > ?1"),
    ("approvals", "UPDATE approvals SET expires_at = ?1 WHERE state = 'waiting' AND asked_at > ?1 AND expires_at > ?1"),
];
/// Counts days in the future as today, with all use of them.
const QUOTAS: &str = "UPDATE quotas SET day = ?1 / 86400000 WHERE day > ?1 / 86400000";

/// Ends the records that were made later than now, and returns how many of each ended.
///
/// # Errors
/// [`StoreError`]; nothing ended.
pub fn end_later(tx: &Transaction<'_>) -> Result<Vec<(&'static str, usize)>, StoreError> {
    let now = tx.now().millis();
    let change = |sql: &str| {
        let changed = tx.view().prepare_cached(sql).and_then(|mut s| s.execute(params![now]));
        changed.map_err(at("end grants of the time when the clock was ahead"))
    };
    let ended: Vec<_> =
        ENDED.iter().map(|(name, sql)| change(sql).map(|count| (*name, count))).collect::<Result<_, _>>()?;
    change(QUOTAS)?;
    Ok(ended)
}
