//! Counters of limits: buckets of rates, quotas of days, breakers of providers, and the bucket of approval requests.
//!
//! A rate is a bucket that leaks steadily and holds a minute's calls. The store keeps only the time at which it will be
//! empty, by the steady clock. A quota is a calendar day's.

use crate::{StoreError, Transaction, View, at, steady};
use rusqlite::{OptionalExtension as _, params};
use shared::Timestamp;
use std::time::Duration;

/// A minute, in the microseconds in which buckets are stored.
pub const MINUTE_US: i64 = 60_000_000;
const DAY_MS: i64 = 86_400_000;

/// The key of a counter.
#[derive(Debug, Clone, Copy)]
pub struct Counter<'a> {
    /// The caller, or all grants of one external agent.
    pub counted_as: &'a str,
    /// The provider.
    pub provider: &'a str,
    /// A level, `grant`, or `amount:<action>`.
    pub scope: &'a str,
}

/// A breaker that has counted faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// The time until which it is open, by the steady clock; `None` while it has counted too few faults.
    pub open_until: Option<Timestamp>,
    /// Whether one call tests now whether the provider works again.
    pub on_trial: bool,
}

/// Converts a time to the microseconds in which buckets are stored.
pub fn micros(time: Timestamp) -> i64 {
    time.millis().saturating_mul(1000)
}

/// Returns the number of a calendar day, UTC.
fn day(time: Timestamp) -> i64 {
    time.millis().div_euclid(DAY_MS)
}

/// Returns the beginning of the next calendar day.
pub fn tomorrow(now: Timestamp) -> Timestamp {
    Timestamp::from_millis((day(now) + 1) * DAY_MS)
}

/// Returns the time at which a bucket will be empty with one more call in it.
pub fn empty_after(empty_at: i64, steady: Timestamp, per_minute: u32) -> i64 {
    empty_at.max(micros(steady)).saturating_add(MINUTE_US / i64::from(per_minute.max(1)))
}

/// Returns the breaker of a provider for a caller, if it has counted faults.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn breaker(view: &View, caller: &str, provider: &str) -> Result<Option<Breaker>, StoreError> {
    if !may_have_breakers(view)? {
        return Ok(None);
    }
    view.prepare_cached("SELECT open_until, trial IS NOT NULL FROM breakers WHERE caller = ?1 AND provider = ?2")
        .and_then(|mut s| {
            s.query_row(params![caller, provider], |row| {
                let open_until: Option<i64> = row.get(0)?;
                Ok(Breaker { open_until: open_until.map(Timestamp::from_millis), on_trial: row.get(1)? })
            })
            .optional()
        })
        .map_err(at("look a breaker up"))
}

fn may_have_breakers(view: &View) -> Result<bool, StoreError> {
    view.kept(
        |cache| *cache.has_breakers.facts(),
        has_breakers,
        |cache, has| cache.has_breakers.keep(|facts| *facts = Some(*has)),
    )
}

/// Returns whether any provider has failed any caller.
pub(crate) fn has_breakers(view: &View) -> Result<bool, StoreError> {
    view.prepare_cached("SELECT 1 FROM breakers LIMIT 1")
        .and_then(|mut s| s.exists([]))
        .map_err(at("look for breakers"))
}

/// Returns the time at which the bucket will be empty, in microseconds of the steady clock; 0 if nothing was put into
/// it.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn empty_at(view: &View, counter: &Counter<'_>) -> Result<i64, StoreError> {
    let Counter { counted_as, provider, scope } = counter;
    let found = view
        .prepare_cached("SELECT empty_at FROM buckets WHERE caller = ?1 AND provider = ?2 AND scope = ?3")
        .and_then(|mut s| s.query_row(params![counted_as, provider, scope], |row| row.get(0)).optional());
    found.map(Option::unwrap_or_default).map_err(at("look a rate up"))
}

/// Returns the use of today's quota, in calls or millionths.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn used(view: &View, counter: &Counter<'_>, now: Timestamp) -> Result<i64, StoreError> {
    const SELECT: &str = "SELECT CASE WHEN day = ?4 THEN used ELSE 0 END FROM quotas
        WHERE caller = ?1 AND provider = ?2 AND scope = ?3";
    let Counter { counted_as, provider, scope } = counter;
    let found = view
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![counted_as, provider, scope, day(now)], |row| row.get(0)).optional());
    found.map(Option::unwrap_or_default).map_err(at("look a quota up"))
}

/// Puts one call into the bucket.
///
/// # Errors
/// [`StoreError`], also if the bucket is full; the intent must then not be written.
pub fn fill(tx: &Transaction<'_>, counter: &Counter<'_>, per_minute: u32) -> Result<(), StoreError> {
    const UPSERT: &str = "INSERT INTO buckets VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (caller, provider, scope) DO UPDATE SET
            empty_at = max(empty_at, ?5) + ?4 - ?5
        WHERE max(empty_at, ?5) + ?4 - ?5 <= ?5 + ?6";
    let Counter { counted_as, provider, scope } = counter;
    let (now, then) = (micros(tx.steady()), empty_after(i64::MIN, tx.steady(), per_minute));
    let filled = tx
        .view()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.execute(params![counted_as, provider, scope, then, now, MINUTE_US]))
        .map_err(at("charge a rate"))?;
    if filled == 1 { Ok(()) } else { Err(StoreError::Conflict { what: "rate" }) }
}

/// Uses this much of today's quota, which permits at most `most`. Returns the use after it.
///
/// # Errors
/// [`StoreError`], also if the quota does not permit it; the intent must then not be written.
pub fn use_up(tx: &Transaction<'_>, counter: &Counter<'_>, uses: i64, most: Option<i64>) -> Result<i64, StoreError> {
    const UPSERT: &str = "INSERT INTO quotas SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?5 <= ?6
        ON CONFLICT (caller, provider, scope) DO UPDATE SET
            used = excluded.used + CASE WHEN day = excluded.day THEN used ELSE 0 END, day = excluded.day
        WHERE excluded.used + CASE WHEN day = excluded.day THEN used ELSE 0 END <= ?6
        RETURNING used";
    let Counter { counted_as, provider, scope } = counter;
    let with = params![counted_as, provider, scope, day(tx.now()), uses, most.unwrap_or(i64::MAX)];
    tx.view()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.query_row(with, |row| row.get(0)).optional())
        .map_err(at("charge a quota"))?
        .ok_or(StoreError::Conflict { what: "quota" })
}

/// The approval requests that a caller may send at once on one person's behalf, and the time until one more.
const QUESTIONS: i64 = 20;
const QUESTION_EVERY: Duration = Duration::from_secs(30);

/// Charges one approval request. If the caller has sent too many on this person's behalf, returns the wait instead.
///
/// # Errors
/// [`StoreError`]; no approval request may be sent then.
pub fn charge_approval_request(
    tx: &Transaction<'_>,
    caller: &str,
    person: Option<&str>,
) -> Result<Option<Duration>, StoreError> {
    const SELECT: &str = "SELECT empty_at FROM buckets WHERE caller = ?1 AND provider = '' AND scope = ?2";
    const UPSERT: &str = "INSERT INTO buckets VALUES (?1, '', ?2, ?3)
        ON CONFLICT (caller, provider, scope) DO UPDATE SET empty_at = excluded.empty_at";
    let scope = person.map_or_else(|| "questions".to_owned(), |person| format!("questions:{person}"));
    let every = i64::try_from(QUESTION_EVERY.as_micros()).unwrap_or(i64::MAX);
    let found: Option<i64> = tx
        .view()
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![caller, scope], |row| row.get(0)).optional())
        .map_err(at("count the latest approval requests"))?;
    let empty_at = found.unwrap_or(i64::MIN).max(micros(tx.steady())).saturating_add(every);
    let over = empty_at - micros(tx.steady()) - QUESTIONS.saturating_mul(every);
    if over > 0 {
        return Ok(Some(Duration::from_micros(u64::try_from(over).unwrap_or(0))));
    }
    tx.view()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.execute(params![caller, scope, empty_at]))
        .map_err(at("charge an approval request"))?;
    Ok(None)
}

/// Forgets the buckets that are empty.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    change(tx, "DELETE FROM buckets WHERE empty_at < ?1", params![micros(tx.steady())], "forget a rate")
}

/// Notes that the call with this intent tests whether the provider works again.
///
/// # Errors
/// [`StoreError`]; the intent must then not be written.
pub fn begin_trial(tx: &Transaction<'_>, caller: &str, provider: &str, intent: i64) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE breakers SET trial = ?3 WHERE caller = ?1 AND provider = ?2";
    change(tx, UPDATE, params![caller, provider, intent], "try a provider again")
}

/// Leaves the test of the provider to the next call.
///
/// # Errors
/// [`StoreError`].
pub fn hand_trial_on(tx: &Transaction<'_>, caller: &str, provider: &str) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE breakers SET trial = NULL WHERE caller = ?1 AND provider = ?2";
    change(tx, UPDATE, params![caller, provider], "hand a trial on")
}

/// Forgets all trials: the testing calls have died with the broker, and the next calls test.
///
/// # Errors
/// [`StoreError`].
pub fn forget_trials(tx: &Transaction<'_>) -> Result<(), StoreError> {
    change(tx, "UPDATE breakers SET trial = NULL WHERE trial IS NOT NULL", [], "forget a trial")
}

/// Counts a fault of a provider. After this many in a row the breaker opens for this time.
///
/// # Errors
/// [`StoreError`].
pub fn count_fault(
    tx: &Transaction<'_>,
    (caller, provider): (&str, &str),
    (faults, open): (u32, Duration),
) -> Result<(), StoreError> {
    const UPSERT: &str = "INSERT INTO breakers VALUES (?1, ?2, 1, CASE WHEN ?3 <= 1 THEN ?4 END, NULL)
        ON CONFLICT (caller, provider) DO UPDATE SET
            faults = faults + 1, open_until = CASE WHEN faults + 1 >= ?3 THEN ?4 END, trial = NULL";
    let open_until = tx.steady().plus(open).millis();
    change(tx, UPSERT, params![caller, provider, i64::from(faults), open_until], "count a fault")
}

/// Closes the breaker of a provider, and forgets its faults.
///
/// # Errors
/// [`StoreError`].
pub fn close_breaker(tx: &Transaction<'_>, caller: &str, provider: &str) -> Result<(), StoreError> {
    const DELETE: &str = "DELETE FROM breakers WHERE caller = ?1 AND provider = ?2";
    if !may_have_breakers(tx.view())? {
        return Ok(());
    }
    change(tx, DELETE, params![caller, provider], "close a breaker")
}

fn change(
    tx: &Transaction<'_>,
    statement: &str,
    with: impl rusqlite::Params,
    doing: &'static str,
) -> Result<(), StoreError> {
    tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map(drop).map_err(at(doing))
}

/// The use of one caller at one provider, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Used {
    /// The caller.
    pub caller: String,
    /// The provider.
    pub provider: String,
    /// The counter: a level, `grant`, `amount:<action>`, `breaker`.
    pub scope: String,
    /// The use of today's quota, in calls or millionths; for a breaker, the faults in a row.
    pub used: i64,
    /// The most calls a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_quota: Option<u32>,
    /// The most calls a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<u32>,
    /// The number of these calls that are used now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<i64>,
    /// The time until which a breaker is open.
    pub open_until: Option<Timestamp>,
}

/// Returns the use of today, and the breakers that have counted faults.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn list(view: &View, now: Timestamp) -> Result<Vec<Used>, StoreError> {
    const SELECT: &str = "SELECT caller, provider, scope, used, NULL FROM quotas WHERE day = ?1
        UNION ALL SELECT caller, provider, 'breaker', faults, open_until FROM breakers ORDER BY 1, 2, 3";
    let read = reader(view, now)?;
    view.prepare(SELECT)
        .and_then(|mut s| s.query_map(params![day(now)], read)?.collect())
        .map_err(at("list used limits"))
}

/// Returns the breakers that are open, at most `most`, by caller and provider.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn open_breakers(view: &View, now: Timestamp, most: u32) -> Result<Vec<Used>, StoreError> {
    const SELECT: &str = "SELECT caller, provider, 'breaker', faults, open_until FROM breakers WHERE open_until > ?1
        ORDER BY caller, provider LIMIT ?2";
    let (read, steady) = (reader(view, now)?, steady::estimate(view, now)?.millis());
    view.prepare_cached(SELECT)
        .and_then(|mut s| s.query_map(params![steady, most], read)?.collect())
        .map_err(at("list open breakers"))
}

/// Returns the breakers that have counted faults, at most `most`, by caller and provider.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn breakers(view: &View, now: Timestamp, most: u32) -> Result<Vec<Used>, StoreError> {
    const SELECT: &str = "SELECT caller, provider, 'breaker', faults, open_until FROM breakers
        ORDER BY caller, provider LIMIT ?1";
    let read = reader(view, now)?;
    view.prepare_cached(SELECT).and_then(|mut s| s.query_map([most], read)?.collect()).map_err(at("list breakers"))
}

/// Returns the reader of rows with caller, provider, scope, use, and the steady time until which a breaker is open.
fn reader(view: &View, now: Timestamp) -> Result<impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<Used>, StoreError> {
    let steady = steady::estimate(view, now)?;
    let wall = move |until| now.plus(Timestamp::from_millis(until).since(steady));
    Ok(move |row: &rusqlite::Row<'_>| {
        Ok(Used {
            caller: row.get(0)?,
            provider: row.get(1)?,
            scope: row.get(2)?,
            used: row.get(3)?,
            daily_quota: None,
            rate_per_minute: None,
            taken: None,
            open_until: row.get::<_, Option<i64>>(4)?.map(wall),
        })
    })
}
