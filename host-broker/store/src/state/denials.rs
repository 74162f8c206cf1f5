//! Denials: the broker does not ask for the same approval again until a pause is over.
//!
//! Approval requests are the same if their caller, person, provider, action and subject are. The subject is the digest
//! of a call's parameters, the hash of a proposal's diff, or the contents of a grant or a flow. All grants of one
//! external agent are one caller. The pause doubles with each denial, from five minutes to a day. The rows of the
//! ledger prove the answers; this table only spares people.

use crate::Transaction;
use crate::state::external_grants::counted_as;
use crate::{StoreError, at};
use model::approval::Approval;
use rusqlite::{OptionalExtension as _, params};
use shared::digest::Digest;
use shared::{Action, Provider, Timestamp};
use std::time::Duration;

/// The pause after the first denial, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(24 * 3600));
/// The time after a pause within which the same denial doubles the next pause.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// Records that a person denied this subject.
///
/// # Errors
/// [`StoreError`]; nothing is recorded.
pub fn note(tx: &Transaction<'_>, approval: &Approval, subject: Digest) -> Result<(), StoreError> {
    // The row of the approval request holds the person.
    const SELECT: &str = "SELECT coalesce(person, '') FROM ledger WHERE seq = ?1";
    const UPSERT: &str = "INSERT INTO denials VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)
        ON CONFLICT (caller, person, provider, action, params_digest) DO UPDATE SET times = times + 1
        RETURNING times";
    const PAUSE: &str = "UPDATE denials SET until = ?6
        WHERE caller = ?1 AND person = ?2 AND provider = ?3 AND action = ?4 AND params_digest = ?5";
    let view = tx.view();
    let found: Option<String> = view
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![approval.asked_seq], |row| row.get(0)).optional())
        .map_err(at("note a denial"))?;
    let Some(person) = found else { return Ok(()) };
    let caller = counted_as(view, &approval.caller)?;
    let (provider, action) = (approval.provider.as_str(), approval.action.as_str());
    let now = tx.steady().millis();
    let times: u32 = view
        .prepare_cached(UPSERT)
        .and_then(|mut s| {
            s.query_row(params![caller, person, provider, action, subject.as_bytes(), now], |row| row.get(0))
        })
        .map_err(at("note a denial"))?;
    let until = tx.steady().plus(pause(times)).millis();
    view.prepare_cached(PAUSE)
        .and_then(|mut s| s.execute(params![caller, person, provider, action, subject.as_bytes(), until]))
        .map_err(at("note a denial"))?;
    Ok(())
}

/// A subject that a person may have denied.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The caller, in the ledger's form.
    pub caller: &'a str,
    /// The person on whose behalf it is, if there is one.
    pub person: Option<&'a str>,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The digest of the subject.
    pub digest: &'a Digest,
}

/// Returns the time at which people may be asked about this again, if one of them denied it.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn paused_until(tx: &Transaction<'_>, subject: &Subject<'_>) -> Result<Option<Timestamp>, StoreError> {
    const SELECT: &str = "SELECT until FROM denials WHERE caller = ?1 AND person = ?2 AND provider = ?3 AND action = ?4
        AND params_digest = ?5 AND until > ?6";
    let Subject { caller, person, provider, action, digest } = subject;
    let caller = counted_as(tx.view(), caller)?;
    let (person, now) = (person.unwrap_or_default(), tx.steady().millis());
    let until: Option<i64> = tx
        .view()
        .prepare_cached(SELECT)
        .and_then(|mut s| {
            let key = params![caller, person, provider.as_str(), action.as_str(), digest.as_bytes(), now];
            s.query_row(key, |row| row.get(0)).optional()
        })
        .map_err(at("look for a no"))?;
    Ok(until.map(|until| tx.now().plus(Timestamp::from_millis(until).since(tx.steady()))))
}

/// Deletes the denials whose pause ended more than a day ago.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached("DELETE FROM denials WHERE until < ?1")
        .and_then(|mut s| s.execute(params![tx.steady().minus(REMEMBERED).millis()]))
        .map_err(at("forget a denial"))?;
    Ok(())
}

/// Returns the pause after this many denials.
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
