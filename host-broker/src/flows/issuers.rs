//! On whose right the accesses of external agents rest, and whether it still holds.

use crate::config::flows::FlowsTable;
use crate::ledger::{LedgerError, at};
use crate::operators;
use model::TokenId;
use rusqlite::Connection;
use shared::Timestamp;

/// Returns the reason why the accesses of an issuer are refused, for operators; `None` if they hold.
///
/// An access holds only while its issuer has the right to administer. A token has the right of its creator.
///
/// # Errors
/// [`LedgerError`] if the token cannot be read; nothing may then be permitted.
pub fn lost_right(connection: &Connection, flows: &FlowsTable, issuer: &str) -> Result<Option<String>, LedgerError> {
    let administrators = &flows.administrators;
    let lost = |person: &str| (!administrators.holds(person)).then(|| format!("{person} no longer administers"));
    Ok(match issuer.split_once(':') {
        Some(("person", person)) => lost(person),
        Some(("group", group)) => {
            (!administrators.is_main(group)).then(|| format!("{group} is no longer the main group"))
        }
        Some(("operator", token)) => {
            let token: TokenId = token.parse().map_err(|_bad| LedgerError::Stored { what: "access" })?;
            match operators::find(connection, &token)? {
                Some(operator) => lost(operator.maker()),
                None => Some("its token is forgotten".to_owned()),
            }
        }
        Some(_) | None => Some("nobody knows who gave it".to_owned()),
    })
}

/// Returns the issuers of living accesses that do not hold any more: the issuer, how many accesses, and why.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn without_right(
    connection: &Connection,
    flows: &FlowsTable,
    now: Timestamp,
) -> Result<Vec<(String, i64, String)>, LedgerError> {
    const SELECT: &str = "SELECT issued_by, count(*) FROM flow_grants WHERE revoked_at IS NULL AND expires_at > ?1
        GROUP BY issued_by ORDER BY issued_by";
    let issuers: Vec<(String, i64)> = connection
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_map([now.millis()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(at("count accesses"))?;
    let mut found = Vec::new();
    for (issuer, count) in issuers {
        if let Some(why) = lost_right(connection, flows, &issuer)? {
            found.push((issuer, count, why));
        }
    }
    Ok(found)
}
