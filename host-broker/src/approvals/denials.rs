//! Calls that a person refused: the broker does not ask about the same call again until a pause is over.
//!
//! Calls are the same if their caller, person, provider, action and parameters are. The pause doubles with each no,
//! from five minutes to a day. The rows of the ledger prove the answers; this table only spares people.

use super::{Approval, Kind};
use crate::call::Call;
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use rusqlite::{OptionalExtension as _, params};
use shared::Timestamp;
use std::time::Duration;

/// The pause after the first no, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(24 * 3600));
/// The time after a pause within which the same refusal doubles the next pause.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// Records that a person said no to this call. Other kinds of approvals are not recorded.
///
/// # Errors
/// [`LedgerError`]; nothing is recorded.
pub fn note(tx: &Transaction<'_>, approval: &Approval) -> Result<(), LedgerError> {
    // The row of the question holds the caller, the person and the digest of the parameters.
    const UPSERT: &str = "INSERT INTO denials
        SELECT caller, coalesce(person, ''), provider, action, params_digest, 1, ?2 FROM ledger
        WHERE seq = ?1 AND provider IS NOT NULL AND action IS NOT NULL AND params_digest IS NOT NULL
        ON CONFLICT (caller, person, provider, action, params_digest) DO UPDATE SET times = times + 1
        RETURNING caller, person, provider, action, params_digest, times";
    const PAUSE: &str = "UPDATE denials SET until = ?6
        WHERE caller = ?1 AND person = ?2 AND provider = ?3 AND action = ?4 AND params_digest = ?5";
    if approval.kind != Kind::Call {
        return Ok(());
    }
    let connection = tx.connection();
    let noted = connection
        .prepare_cached(UPSERT)
        .and_then(|mut s| {
            s.query_row(params![approval.asked_seq, tx.steady().millis()], |row| {
                let text = |index| row.get::<_, String>(index);
                Ok(([text(0)?, text(1)?, text(2)?, text(3)?], row.get::<_, Vec<u8>>(4)?, row.get::<_, u32>(5)?))
            })
            .optional()
        })
        .map_err(at("note a no"))?;
    let Some(([caller, person, provider, action], digest, times)) = noted else { return Ok(()) };
    let until = tx.steady().plus(pause(times)).millis();
    connection
        .prepare_cached(PAUSE)
        .and_then(|mut s| s.execute(params![caller, person, provider, action, digest, until]))
        .map_err(at("note a no"))?;
    Ok(())
}

/// Returns the time until which people are not asked about this call, if a person refused it.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn find(tx: &Transaction<'_>, call: &Call) -> Result<Option<Timestamp>, LedgerError> {
    const SELECT: &str = "SELECT until FROM denials WHERE caller = ?1 AND person = ?2 AND provider = ?3 AND action = ?4
        AND params_digest = ?5 AND until > ?6";
    let until: Option<i64> = tx
        .connection()
        .prepare_cached(SELECT)
        .and_then(|mut s| {
            s.query_row(
                params![
                    &*call.header.caller_key,
                    call.header.behalf.key().unwrap_or_default(),
                    call.provider.as_str(),
                    call.action.as_str(),
                    call.params_digest.as_bytes(),
                    tx.steady().millis(),
                ],
                |row| row.get(0),
            )
            .optional()
        })
        .map_err(at("look for a no"))?;
    Ok(until.map(|until| tx.now().plus(Timestamp::from_millis(until).since(tx.steady()))))
}

/// Deletes the refusals whose pause ended more than a day ago.
///
/// # Errors
/// [`LedgerError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), LedgerError> {
    tx.connection()
        .prepare_cached("DELETE FROM denials WHERE until < ?1")
        .and_then(|mut s| s.execute(params![tx.steady().minus(REMEMBERED).millis()]))
        .map_err(at("forget a no"))?;
    Ok(())
}

/// Returns the pause after this many refusals.
fn pause(times: u32) -> Duration {
    let (first, longest) = PAUSES;
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1))).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_five_minutes_to_a_day() {
        let minutes: Vec<u64> = (1..=10).map(|times| pause(times).as_secs() / 60).collect();
        assert_eq!(minutes, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1440]);
        assert_eq!(pause(u32::MAX), PAUSES.1);
    }
}
