//! Limits: how much a caller may do in a time, and when a provider that fails is left alone.
//!
//! What a call would use is looked up with its other facts and charged in the transaction that writes its intent, so a
//! refused call uses nothing and a restart forgets nothing. The rate counts what leaves for the provider, the quota what
//! was attempted there. A rate is a bucket that leaks steadily and holds a minute's calls; all that is stored of it is
//! when it will be empty, by the steady clock. A quota is a calendar day's. Only faults of the provider open its breaker, and one call finds out when to close it.

use crate::call::Call;
use crate::flows::grants::issuer_key;
use crate::grants::{self, Grant};
use crate::ledger::chain::{Draft, Kind};
use crate::ledger::transaction::{Effect, Transaction};
use crate::ledger::{LedgerError, at, steady};
use policy::facts::LimitsFact;
use policy::limits::Charge;
use policy::limits::{AmountTable, BreakerTable, Limits, RateTable};
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};
use serde_json::{Value, json};
use shared::{Code, Level, Timestamp};
use std::time::Duration;

const MINUTE_US: i64 = 60_000_000;
const DAY_MS: i64 = 86_400_000;
/// A millionth is what amounts are counted in.
const MILLION: f64 = 1e6;
/// When to ask again while one call finds out whether a provider works again.
const TRIAL_RETRY: Duration = Duration::from_secs(1);

/// Whether there is room for the call.
///
/// # Errors
/// [`LedgerError`] if what was used cannot be read; nothing may then be permitted.
pub fn fact(
    connection: &Connection,
    (now, steady): (Timestamp, Timestamp),
    (call, counted_as): (&Call, &str),
    limits: &Limits,
    grant: Option<&Grant>,
) -> Result<LimitsFact, LedgerError> {
    let Some(group) = call.header.caller.policy_group() else { return Ok(LimitsFact::Within(Vec::new())) };
    let table = limits.of(group, &call.provider);
    let desk = Desk { connection, now, steady, call, counted_as };
    let mut charges = Vec::new();
    match desk.breaker(table.breaker)? {
        Ok(trial) => charges.extend(trial),
        Err(exceeded) => return Ok(exceeded),
    }
    let demanded = call.target.demanded();
    let scopes = [(word(demanded), table.rates(demanded)), ("grant", of_grant(grant))];
    for (scope, rates) in scopes {
        match desk.rate(scope, rates)? {
            Ok(charge) => charges.extend(charge),
            Err(exceeded) => return Ok(exceeded),
        }
        match desk.quota(scope, rates)? {
            Ok(charge) => charges.extend(charge),
            Err(exceeded) => return Ok(exceeded),
        }
    }
    if let Some(amount) = table.amounts.get(&call.action) {
        let issuer = issuer_key(connection, &call.header.caller)?;
        for of in [None].into_iter().chain(issuer.map(Some)) {
            match desk.amount(amount, of)? {
                Ok(charge) => charges.extend(charge),
                Err(exceeded) => return Ok(exceeded),
            }
        }
    }
    Ok(LimitsFact::Within(charges))
}

fn word(level: Level) -> &'static str {
    match level {
        Level::None | Level::Read => "read",
        Level::Write => "write",
        Level::Production => "production",
    }
}

fn of_grant(grant: Option<&Grant>) -> RateTable {
    grant.map_or(RateTable::NONE, |grant| RateTable {
        rate_per_minute: grant.rate_per_minute,
        soft_daily_quota: None,
        daily_quota: grant.daily_quota,
    })
}

/// Where one call's use is looked up: within a limit, or how it is exceeded.
struct Desk<'a> {
    connection: &'a Connection,
    now: Timestamp,
    steady: Timestamp,
    call: &'a Call,
    counted_as: &'a str,
}

type Room = Result<Result<Option<Charge>, LimitsFact>, LedgerError>;

impl Desk<'_> {
    fn breaker(&self, table: BreakerTable) -> Room {
        const SELECT: &str = "SELECT open_until, trial IS NOT NULL FROM breakers WHERE caller = ?1 AND provider = ?2";
        let key = params![&*self.call.header.caller_key, self.call.provider.as_str()];
        let found: Option<(Option<i64>, bool)> = self
            .connection
            .prepare_cached(SELECT)
            .and_then(|mut s| s.query_row(key, |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .map_err(at("look a breaker up"))?;
        let Some((Some(open_until), on_trial)) = found.filter(|_| table.faults > 0) else { return Ok(Ok(None)) };
        let left = Timestamp::from_millis(open_until).since(self.steady);
        let wait = match (left.is_zero(), on_trial) {
            (true, false) => return Ok(Ok(Some(Charge::Trial))),
            (true, true) => TRIAL_RETRY,
            (false, _) => left,
        };
        Ok(Err(LimitsFact::Exceeded {
            code: Code::BreakerOpen,
            reason: format!("Provider {} has failed too often and is left alone for a while.", self.call.provider),
            retry_after: Some(wait),
        }))
    }

    fn rate(&self, scope: &str, rates: RateTable) -> Room {
        const SELECT: &str = "SELECT empty_at FROM buckets WHERE caller = ?1 AND provider = ?2 AND scope = ?3";
        // Once for a call: what it took for its remote facts it does not take again.
        let Some(per_minute) = rates.rate_per_minute.filter(|_| !self.call.prepared) else { return Ok(Ok(None)) };
        let key = params![self.counted_as, self.call.provider.as_str(), scope];
        let empty_at = self.number(SELECT, key, "look a rate up")?;
        let over = after(empty_at, self.steady, per_minute) - micros(self.steady) - MINUTE_US;
        if over <= 0 {
            return Ok(Ok(Some(Charge::Rate { scope: scope.to_owned(), per_minute })));
        }
        Ok(Err(LimitsFact::Exceeded {
            code: Code::RateLimited,
            reason: format!("No more than {per_minute} {} calls a minute.", of_scope(scope)),
            retry_after: Some(Duration::from_micros(u64::try_from(over).unwrap_or(0))),
        }))
    }

    fn quota(&self, scope: &str, rates: RateTable) -> Room {
        if rates.daily_quota.is_none() && rates.soft_daily_quota.is_none() {
            return Ok(Ok(None));
        }
        let used = self.used(self.counted_as, scope)?;
        if let Some(quota) = rates.daily_quota.filter(|quota| used >= i64::from(*quota)) {
            return Ok(Err(self.used_up(format!("No more than {quota} {} calls a day.", of_scope(scope)))));
        }
        let soft = rates.soft_daily_quota.map(i64::from);
        let near = soft.is_some_and(|soft| used >= soft);
        Ok(Ok(Some(Charge::Quota { scope: scope.to_owned(), uses: 1, soft, near, of: None })))
    }

    /// The amount under the key of the call, or under this one.
    fn amount(&self, table: &AmountTable, of: Option<String>) -> Room {
        let Self { call, .. } = self;
        let value = call.params.value().pointer(&table.pointer()).and_then(Value::as_f64).filter(|value| *value >= 0.0);
        let Some(value) = value else {
            let param = &table.param;
            let reason = format!("Parameter '{param}' limits {}, and is no number from 0 on.", call.action);
            return Ok(Err(LimitsFact::Exceeded { code: Code::QuotaExceeded, reason, retry_after: None }));
        };
        if let Some(cap) = table.per_call.filter(|cap| value > *cap) {
            let reason = format!("No more than {cap} in one call of {}.", call.action);
            return Ok(Err(LimitsFact::Exceeded { code: Code::QuotaExceeded, reason, retry_after: None }));
        }
        let Some(cap) = table.per_day else { return Ok(Ok(None)) };
        let scope = format!("amount:{}", call.action);
        let uses = millionths(value);
        if self.used(of.as_deref().unwrap_or(self.counted_as), &scope)?.saturating_add(uses) > millionths(cap) {
            return Ok(Err(self.used_up(format!("No more than {cap} a day with {}.", call.action))));
        }
        Ok(Ok(Some(Charge::Quota { scope, uses, soft: None, near: false, of })))
    }

    fn used(&self, counted_as: &str, scope: &str) -> Result<i64, LedgerError> {
        const SELECT: &str = "SELECT CASE WHEN day = ?4 THEN used ELSE 0 END FROM quotas
            WHERE caller = ?1 AND provider = ?2 AND scope = ?3";
        let key = params![counted_as, self.call.provider.as_str(), scope, day(self.now)];
        self.number(SELECT, key, "look a quota up")
    }

    /// The one number of the one row, or 0.
    fn number(&self, select: &str, key: &[&dyn ToSql], doing: &'static str) -> Result<i64, LedgerError> {
        let found =
            self.connection.prepare_cached(select).and_then(|mut s| s.query_row(key, |row| row.get(0)).optional());
        found.map(Option::unwrap_or_default).map_err(at(doing))
    }

    fn used_up(&self, reason: String) -> LimitsFact {
        let tomorrow = Timestamp::from_millis((day(self.now) + 1) * DAY_MS);
        LimitsFact::Exceeded { code: Code::QuotaExceeded, reason, retry_after: Some(tomorrow.since(self.now)) }
    }
}

fn of_scope(scope: &str) -> &str {
    if scope == "grant" { "granted" } else { scope }
}

fn micros(time: Timestamp) -> i64 {
    time.millis().saturating_mul(1000)
}

fn day(time: Timestamp) -> i64 {
    time.millis().div_euclid(DAY_MS)
}

/// When the bucket will be empty with one more call in it.
fn after(empty_at: i64, steady: Timestamp, per_minute: u32) -> i64 {
    empty_at.max(micros(steady)).saturating_add(MINUTE_US / i64::from(per_minute.max(1)))
}

/// Rounded up, so that many small amounts are not nothing.
fn millionths(amount: f64) -> i64 {
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "saturates, and is held to 1e12 before"
    )]
    let millionths = (amount * MILLION).ceil() as i64;
    millionths
}

/// Uses up what the intent of this effect uses.
///
/// # Errors
/// [`LedgerError`]; the intent must then not be written.
pub fn charge(
    tx: &Transaction<'_>,
    effect: &Effect,
    (charges, counted_as): (&[Charge], &str),
    intent: i64,
) -> Result<(), LedgerError> {
    let (call, runs) = match effect {
        Effect::Run(call) => (call, true),
        Effect::Prepare(call) => (call, false),
        Effect::Probe(_) => return Ok(()),
    };
    let (caller, provider) = (&*call.header.caller_key, call.provider.as_str());
    for charge in charges {
        match charge {
            Charge::Rate { scope, per_minute } => {
                const UPSERT: &str = "INSERT INTO buckets VALUES (?1, ?2, ?3, ?4)
                    ON CONFLICT (caller, provider, scope) DO UPDATE SET
                        empty_at = max(empty_at, ?5) + ?4 - ?5";
                let (now, then) = (micros(tx.steady()), after(i64::MIN, tx.steady(), *per_minute));
                tx.connection()
                    .prepare_cached(UPSERT)
                    .and_then(|mut s| s.execute(params![counted_as, provider, scope, then, now]))
                    .map_err(at("charge a rate"))?;
            }
            Charge::Quota { scope, uses, soft, of, .. } if runs => {
                let used = use_up(tx, of.as_deref().unwrap_or(counted_as), provider, scope, *uses)?;
                if *soft == Some(used) {
                    note_soft(tx, call, scope, used)?;
                }
            }
            // Nothing is attempted yet.
            Charge::Quota { .. } => {}
            Charge::Trial => {
                tx.connection()
                    .prepare_cached("UPDATE breakers SET trial = ?3 WHERE caller = ?1 AND provider = ?2")
                    .and_then(|mut s| s.execute(params![caller, provider, intent]))
                    .map_err(at("try a provider again"))?;
            }
        }
    }
    Ok(())
}

/// The questions that a caller may ask at once on one person's behalf, and the time until one more.
const QUESTIONS: i64 = 20;
const QUESTION_EVERY: Duration = Duration::from_secs(30);

/// Charges one question to people. If the caller has asked too many on this person's behalf, returns the wait instead.
///
/// # Errors
/// [`LedgerError`]; no person may be asked then.
pub fn charge_question(
    tx: &Transaction<'_>,
    caller: &str,
    person: Option<&str>,
) -> Result<Option<Duration>, LedgerError> {
    const SELECT: &str = "SELECT empty_at FROM buckets WHERE caller = ?1 AND provider = '' AND scope = ?2";
    const UPSERT: &str = "INSERT INTO buckets VALUES (?1, '', ?2, ?3)
        ON CONFLICT (caller, provider, scope) DO UPDATE SET empty_at = excluded.empty_at";
    let scope = person.map_or_else(|| "questions".to_owned(), |person| format!("questions:{person}"));
    let every = i64::try_from(QUESTION_EVERY.as_micros()).unwrap_or(i64::MAX);
    let found: Option<i64> = tx
        .connection()
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![caller, scope], |row| row.get(0)).optional())
        .map_err(at("look up how many questions were asked"))?;
    let empty_at = found.unwrap_or(i64::MIN).max(micros(tx.steady())).saturating_add(every);
    let over = empty_at - micros(tx.steady()) - QUESTIONS.saturating_mul(every);
    if over > 0 {
        return Ok(Some(Duration::from_micros(u64::try_from(over).unwrap_or(0))));
    }
    tx.connection()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.execute(params![caller, scope, empty_at]))
        .map_err(at("charge a question"))?;
    Ok(None)
}

/// Forgets the buckets that are empty.
///
/// # Errors
/// [`LedgerError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), LedgerError> {
    tx.connection()
        .prepare_cached("DELETE FROM buckets WHERE empty_at < ?1")
        .and_then(|mut s| s.execute(params![micros(tx.steady())]))
        .map_err(at("forget a rate"))?;
    Ok(())
}

fn use_up(tx: &Transaction<'_>, caller: &str, provider: &str, scope: &str, uses: i64) -> Result<i64, LedgerError> {
    const UPSERT: &str = "INSERT INTO quotas VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (caller, provider, scope) DO UPDATE SET
            used = excluded.used + CASE WHEN day = excluded.day THEN used ELSE 0 END, day = excluded.day
        RETURNING used";
    tx.connection()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.query_row(params![caller, provider, scope, day(tx.now()), uses], |row| row.get(0)))
        .map_err(at("charge a quota"))
}

fn note_soft(tx: &Transaction<'_>, call: &Call, scope: &str, used: i64) -> Result<(), LedgerError> {
    tracing::warn!(caller = %call.header.caller_key, provider = %call.provider, scope, used, "a soft quota is used up");
    tx.append(&Draft {
        person: call.header.behalf.key(),
        provider: Some(&call.provider),
        body: json!({ "soft_quota": scope, "used": used, "of_request": call.header.request_id }),
        ..Draft::new(Kind::Noted, &call.header.caller_key)
    })?;
    Ok(())
}

/// The provider did not do its part: after so many times in a row it is left alone.
///
/// # Errors
/// [`LedgerError`].
pub fn fault(tx: &Transaction<'_>, call: &Call, limits: &Limits) -> Result<(), LedgerError> {
    const UPSERT: &str = "INSERT INTO breakers VALUES (?1, ?2, 1, CASE WHEN ?3 <= 1 THEN ?4 END, NULL)
        ON CONFLICT (caller, provider) DO UPDATE SET
            faults = faults + 1, open_until = CASE WHEN faults + 1 >= ?3 THEN ?4 END, trial = NULL";
    let Some(group) = call.header.caller.policy_group() else { return Ok(()) };
    let BreakerTable { faults, open_s } = limits.of(group, &call.provider).breaker;
    if faults == 0 {
        return Ok(());
    }
    let open_until = tx.steady().plus(Duration::from_secs(open_s)).millis();
    tx.connection()
        .prepare_cached(UPSERT)
        .and_then(|mut s| {
            s.execute(params![&*call.header.caller_key, call.provider.as_str(), i64::from(faults), open_until])
        })
        .map_err(at("count a fault"))?;
    Ok(())
}

/// The provider answered, whatever it said.
///
/// # Errors
/// [`LedgerError`].
pub fn answered(tx: &Transaction<'_>, call: &Call) -> Result<(), LedgerError> {
    tx.connection()
        .prepare_cached("DELETE FROM breakers WHERE caller = ?1 AND provider = ?2")
        .and_then(|mut s| s.execute(params![&*call.header.caller_key, call.provider.as_str()]))
        .map_err(at("close a breaker"))?;
    Ok(())
}

/// The provider answered what was asked before the action itself: that says nothing of the action, which finds out now.
///
/// # Errors
/// [`LedgerError`].
pub fn prepared(tx: &Transaction<'_>, call: &Call) -> Result<(), LedgerError> {
    tx.connection()
        .prepare_cached("UPDATE breakers SET trial = NULL WHERE caller = ?1 AND provider = ?2")
        .and_then(|mut s| s.execute(params![&*call.header.caller_key, call.provider.as_str()]))
        .map_err(at("hand a trial on"))?;
    Ok(())
}

/// Whoever was to find out has died with the broker; the next call does.
///
/// # Errors
/// [`LedgerError`].
pub fn forget_trials(tx: &Transaction<'_>) -> Result<(), LedgerError> {
    tx.connection()
        .execute("UPDATE breakers SET trial = NULL WHERE trial IS NOT NULL", [])
        .map_err(at("forget a trial"))?;
    Ok(())
}

/// What one caller has used at one provider, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Used {
    /// Who.
    pub caller: String,
    /// Where.
    pub provider: String,
    /// Of what: a level, `grant`, `amount:<action>`, `breaker`.
    pub scope: String,
    /// How much of today's quota, in calls or millionths; of a breaker the faults in a row.
    pub used: i64,
    /// So many calls a day, and no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_quota: Option<u32>,
    /// So many calls a minute, and no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<u32>,
    /// How many of these calls are taken now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<i64>,
    /// Until when a breaker is open.
    pub open_until: Option<Timestamp>,
}

/// What is used up today, and which breakers have counted faults.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn list(connection: &Connection, now: Timestamp) -> Result<Vec<Used>, LedgerError> {
    const SELECT: &str = "SELECT caller, provider, scope, used, NULL FROM quotas WHERE day = ?1
        UNION ALL SELECT caller, provider, 'breaker', faults, open_until FROM breakers ORDER BY 1, 2, 3";
    let steady = steady::estimate(connection, now)?;
    let wall = |until| now.plus(Timestamp::from_millis(until).since(steady));
    connection
        .prepare(SELECT)
        .and_then(|mut s| {
            s.query_map(params![day(now)], |row| {
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
            })?
            .collect()
        })
        .map_err(at("list what is used"))
}

/// What [`list`] gives, and each rate and quota that holds for a grant in force, whether it was used or not.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn in_force(connection: &Connection, now: Timestamp, limits: &Limits) -> Result<Vec<Used>, LedgerError> {
    const TAKEN: &str = "SELECT empty_at FROM buckets WHERE caller = ?1 AND provider = ?2 AND scope = ?3";
    let (mut all, steady) = (list(connection, now)?, steady::estimate(connection, now)?);
    for grant in grants::list(connection, None)?.iter().filter(|grant| grant.is_live(now)) {
        let table = limits.of(&grant.group, &grant.provider);
        let levels = [Level::Read, Level::Write, Level::Production].into_iter().filter(|level| *level <= grant.level);
        let scopes = levels.map(|level| (word(level), table.rates(level))).chain([("grant", of_grant(Some(grant)))]);
        for (scope, rates) in scopes.filter(|(_, rates)| *rates != RateTable::NONE) {
            let (caller, provider) = (format!("group:{}", grant.group), grant.provider.to_string());
            let is_its = |used: &Used| (&*used.caller, &*used.provider, &*used.scope) == (&*caller, &*provider, scope);
            let found = all.iter().position(is_its).map(|place| all.swap_remove(place));
            let empty_at: i64 = connection
                .prepare_cached(TAKEN)
                .and_then(|mut s| s.query_row(params![caller, provider, scope], |row| row.get(0)).optional())
                .map_err(at("look a rate up"))?
                .unwrap_or_default();
            let left = empty_at.saturating_sub(micros(steady)).max(0);
            let taken = |rate: u32| left.saturating_mul(i64::from(rate)).saturating_add(MINUTE_US - 1) / MINUTE_US;
            all.push(Used {
                used: found.map_or(0, |found| found.used),
                daily_quota: rates.daily_quota,
                rate_per_minute: rates.rate_per_minute,
                taken: rates.rate_per_minute.map(taken),
                open_until: None,
                scope: scope.to_owned(),
                caller,
                provider,
            });
        }
    }
    all.sort_by(|a, b| (&a.caller, &a.provider, &a.scope).cmp(&(&b.caller, &b.provider, &b.scope)));
    Ok(all)
}
