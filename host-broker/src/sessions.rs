//! Sessions: what a caller has been exposed to since its session began.
//!
//! An action exposes from its intent on, whether its answer came or not. Only the host ends a session: what an agent has
//! read stays with it until its sandbox is made anew.

use crate::approvals::card::{Bringer, Together};
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use model::{Declaration, Exposure};
use policy::facts::Exposed;
use rusqlite::{Connection, params};
use shared::{Provider, Timestamp};

/// The actions that the caller's session has called, in the order of their first calls.
///
/// # Errors
/// [`LedgerError`] if they cannot be read; nothing that exposes may then be permitted.
pub fn exposures(connection: &Connection, caller: &str) -> Result<Vec<Exposed>, LedgerError> {
    const SELECT: &str = "SELECT provider, action, exposes, at FROM exposures WHERE caller = ?1 ORDER BY seq";
    let failed = at("read what a session was exposed to");
    let mut statement = connection.prepare_cached(SELECT).map_err(at("read what a session was exposed to"))?;
    let rows = statement
        .query_map(params![caller], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .and_then(Iterator::collect::<Result<Vec<(String, String, u8, i64)>, _>>)
        .map_err(failed)?;
    let exposed = |(provider, action, exposes, at): (String, String, u8, i64)| {
        Ok(Exposed {
            provider: provider.parse().map_err(|_bad| LedgerError::Stored { what: "provider" })?,
            action: action.parse().map_err(|_bad| LedgerError::Stored { what: "action" })?,
            at: Timestamp::from_millis(at),
            exposes: exposure(exposes),
        })
    };
    rows.into_iter().map(exposed).collect()
}

/// Whether to call this action would add nothing that the session does not know.
pub fn knows(earlier: &[Exposed], declaration: &Declaration) -> bool {
    declaration.exposes == Exposure::NONE
        || earlier.iter().any(|exposed| {
            exposed.provider == declaration.provider
                && exposed.action == declaration.action
                && exposed.exposes.and(declaration.exposes) == exposed.exposes
        })
}

/// How many earlier actions each list of [`together`] names; the latest are left out.
const NAMED_MAX: usize = 8;

/// The earlier actions of a session, and this one, by what they expose.
pub fn together(earlier: &[Exposed], adds: Exposure, reason: usize) -> Together {
    let list = |is: fn(&Exposure) -> bool| -> Vec<Bringer> {
        let bring = |exposed: &&Exposed| is(&exposed.exposes);
        let more = earlier.iter().filter(bring).count().saturating_sub(NAMED_MAX);
        let named = earlier.iter().filter(bring).take(NAMED_MAX).map(|exposed| Bringer {
            action: format!("{}.{}", exposed.provider, exposed.action),
            at: Some(exposed.at),
        });
        let say = |words: String| Bringer { action: words, at: None };
        let this = is(&adds).then(|| say("this call".to_owned()));
        named.chain(this).chain((more > 0).then(|| say(format!("{more} more")))).collect()
    };
    Together {
        reason,
        private: list(|exposes| exposes.sensitive),
        others: list(|exposes| exposes.untrusted),
        ways_out: list(|exposes| exposes.egress),
    }
}

/// Notes that the session calls this action, with the intent's row.
///
/// # Errors
/// [`LedgerError`]; the intent must then not be written.
pub fn expose(tx: &Transaction<'_>, caller: &str, declaration: &Declaration, intent: i64) -> Result<(), LedgerError> {
    add(tx, caller, (&declaration.provider, declaration.action.as_str()), declaration.exposes, intent)
}

/// Notes that the session's agent has given access to this provider: a way out to another group.
///
/// # Errors
/// [`LedgerError`]; the grant must then not be written.
pub fn let_out(tx: &Transaction<'_>, caller: &str, provider: &Provider, row: i64) -> Result<(), LedgerError> {
    add(tx, caller, (provider, "ext_grant"), Exposure { egress: true, ..Exposure::NONE }, row)
}

fn add(
    tx: &Transaction<'_>,
    caller: &str,
    (provider, action): (&Provider, &str),
    exposes: Exposure,
    row: i64,
) -> Result<(), LedgerError> {
    const UPSERT: &str = "INSERT INTO exposures VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (caller, provider, action) DO UPDATE SET exposes = exposes | excluded.exposes";
    tx.connection()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.execute(params![caller, provider.as_str(), action, bits(exposes), row, tx.now().millis(),]))
        .map_err(at("note what a session is exposed to"))?;
    Ok(())
}

/// Ends the caller's session, and says how many actions it had called.
///
/// SECURITY: what it was answered goes with it. Whoever could ask for that again would read private data anew, in a
/// session that knows of none.
///
/// # Errors
/// [`LedgerError`]; the session goes on.
pub fn reset(tx: &Transaction<'_>, caller: &str) -> Result<usize, LedgerError> {
    for answers in ["DELETE FROM replies WHERE caller = ?1", "DELETE FROM quarantine WHERE caller = ?1"] {
        tx.connection()
            .prepare_cached(answers)
            .and_then(|mut s| s.execute(params![caller]))
            .map_err(at("forget what a session was answered"))?;
    }
    tx.connection()
        .prepare_cached("DELETE FROM exposures WHERE caller = ?1")
        .and_then(|mut s| s.execute(params![caller]))
        .map_err(at("end a session"))
}

fn bits(exposes: Exposure) -> u8 {
    u8::from(exposes.untrusted) | (u8::from(exposes.sensitive) << 1) | (u8::from(exposes.egress) << 2)
}

fn exposure(bits: u8) -> Exposure {
    Exposure { untrusted: bits & 1 != 0, sensitive: bits & 2 != 0, egress: bits & 4 != 0 }
}
