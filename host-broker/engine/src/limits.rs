//! Limits: the use of a caller per time, and the pause of a provider that fails.
//!
//! The use of a call is read with its other facts and charged in the transaction that writes its intent. So a refused
//! call uses nothing and a restart forgets nothing. The rate counts requests to the provider, the quota attempted
//! actions. A rate is a bucket that leaks steadily and holds a minute's calls. The store keeps only the time at which
//! it will be empty, by the steady clock. A quota is a calendar day's. Only faults of the provider open its breaker,
//! and one call tests whether the provider works again.

pub mod shared_figures;

use kernel::call::{Call, Prepared};
use policy::facts::LimitsFact;
use policy::limits::Charge;
use policy::limits::{AmountTable, BreakerTable, Limits, RateTable};
use policy::shared_quotas::{SharedQuotaTable, SharedQuotas};
use serde_json::Value;
use shared::numbers::counted;
use shared::{Action, Code, Level, Timestamp};
use shared_figures::Shared;
use std::collections::BTreeSet;
use std::time::Duration;
use store::fleet::QuotaLook;
use store::state::counters::{self, Counter, MINUTE_US, Used, micros};
use store::state::external_grants::issuer_key;
use store::state::grants::{self, Grant};
use store::state::shared_quotas::{self, EVERYONE};
use store::{StoreError, Transaction, View, steady_estimate};

/// The number of stored units in an amount of 1.
const MILLION: f64 = 1e6;
/// The time after which to ask again while one call tests a provider.
const TRIAL_RETRY: Duration = Duration::from_secs(1);

/// Returns whether the call is within the limits.
///
/// # Errors
/// [`StoreError`] if the use cannot be read; nothing may then be permitted.
pub fn fact(
    view: &View,
    (now, steady): (Timestamp, Timestamp),
    (call, counted_as): (&Call, &str),
    (limits, shared): (&Limits, &SharedQuotas),
    grant: Option<&Grant>,
) -> Result<LimitsFact, StoreError> {
    let Some(group) = call.header.caller.policy_group() else { return Ok(LimitsFact::Within(Vec::new())) };
    let table = limits.of(group, &call.provider);
    let lookup = LimitLookup { view, now, steady, call, counted_as };
    let mut charges = Vec::new();
    match lookup.breaker(table.breaker)? {
        Ok(trial) => charges.extend(trial),
        Err(exceeded) => return Ok(exceeded),
    }
    let demanded = call.target.demanded();
    let scopes = [(word(demanded), table.rates(demanded)), ("grant", of_grant(grant))];
    for (scope, rates) in scopes {
        match lookup.rate(scope, rates)? {
            Ok(charge) => charges.extend(charge),
            Err(exceeded) => return Ok(exceeded),
        }
        match lookup.quota(scope, rates)? {
            Ok(charge) => charges.extend(charge),
            Err(exceeded) => return Ok(exceeded),
        }
    }
    if let Some(amount) = table.amounts.get(&call.action) {
        let issuer = issuer_key(view, &call.header.caller)?;
        for of in [None].into_iter().chain(issuer.map(Some)) {
            match lookup.amount(amount, of)? {
                Ok(charge) => charges.extend(charge),
                Err(exceeded) => return Ok(exceeded),
            }
        }
    }
    for (provider, table) in shared.of(&call.provider) {
        for charge in [lookup.shared_calls(provider, table)?, lookup.shared_amount(provider, table)?] {
            match charge {
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

/// The inputs for checking one call's use against the limits.
struct LimitLookup<'a> {
    view: &'a View,
    now: Timestamp,
    steady: Timestamp,
    call: &'a Call,
    counted_as: &'a str,
}

type Headroom = Result<Result<Option<Charge>, LimitsFact>, StoreError>;

impl LimitLookup<'_> {
    fn counter<'b>(&'b self, scope: &'b str) -> Counter<'b> {
        Counter { counted_as: self.counted_as, provider: self.call.provider.as_str(), scope }
    }

    fn breaker(&self, table: BreakerTable) -> Headroom {
        let found = counters::breaker(self.view, &self.call.header.caller_key, self.call.provider.as_str())?;
        let Some(breaker) = found.filter(|_| table.faults > 0) else { return Ok(Ok(None)) };
        let Some(open_until) = breaker.open_until else { return Ok(Ok(None)) };
        let left = open_until.since(self.steady);
        let wait = match (left.is_zero(), breaker.on_trial) {
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

    fn rate(&self, scope: &str, rates: RateTable) -> Headroom {
        // A call is charged once: its read of remote facts and its action count as one.
        let Some(per_minute) = rates.rate_per_minute.filter(|_| self.call.prepared == Prepared::Not) else {
            return Ok(Ok(None));
        };
        let empty_at = counters::empty_at(self.view, &self.counter(scope))?;
        let over = counters::empty_after(empty_at, self.steady, per_minute) - micros(self.steady) - MINUTE_US;
        if over <= 0 {
            return Ok(Ok(Some(Charge::Rate { scope: scope.to_owned(), per_minute })));
        }
        Ok(Err(LimitsFact::Exceeded {
            code: Code::RateLimited,
            reason: format!("No more than {} a minute.", calls(per_minute, scope)),
            retry_after: Some(Duration::from_micros(u64::try_from(over).unwrap_or(0))),
        }))
    }

    fn quota(&self, scope: &str, rates: RateTable) -> Headroom {
        if rates.daily_quota.is_none() && rates.soft_daily_quota.is_none() {
            return Ok(Ok(None));
        }
        let used = self.used(self.counted_as, scope)?;
        if let Some(quota) = rates.daily_quota.filter(|quota| used >= i64::from(*quota)) {
            return Ok(Err(self.used_up(format!("No more than {} a day.", calls(quota, scope)))));
        }
        let soft = rates.soft_daily_quota.map(i64::from);
        let near = soft.is_some_and(|soft| used >= soft);
        let most = rates.daily_quota.map(i64::from);
        Ok(Ok(Some(Charge::Quota { scope: scope.to_owned(), uses: 1, most, soft, near, of: None })))
    }

    /// Checks the amount under the key of the call, or under this one.
    fn amount(&self, table: &AmountTable, of: Option<String>) -> Headroom {
        let Self { call, .. } = self;
        let value = match self.value(table) {
            Ok(value) => value,
            Err(exceeded) => return Ok(Err(exceeded)),
        };
        let Some(cap) = table.per_day else { return Ok(Ok(None)) };
        let scope = amount_scope(&call.action);
        let uses = millionths(value);
        if self.used(of.as_deref().unwrap_or(self.counted_as), &scope)?.saturating_add(uses) > millionths(cap) {
            return Ok(Err(self.used_up(format!("No more than {cap} a day with {}.", call.action))));
        }
        Ok(Ok(Some(Charge::Quota { scope, uses, most: Some(millionths(cap)), soft: None, near: false, of })))
    }

    /// Returns the amount of the call, if one call may have it.
    fn value(&self, table: &AmountTable) -> Result<f64, LimitsFact> {
        let Self { call, .. } = self;
        let refused = |reason| LimitsFact::Exceeded { code: Code::QuotaExceeded, reason, retry_after: None };
        let value = call.params.value().pointer(&table.pointer()).and_then(Value::as_f64).filter(|value| *value >= 0.0);
        let Some(value) = value else {
            let param = &table.param;
            return Err(refused(format!("Parameter '{param}' limits {}, and is no number from 0 on.", call.action)));
        };
        match table.per_call.filter(|cap| value > *cap) {
            Some(cap) => Err(refused(format!("No more than {cap} in one call of {}.", call.action))),
            None => Ok(value),
        }
    }

    /// Checks the number of calls of all callers.
    fn shared_calls(&self, provider: &str, table: &SharedQuotaTable) -> Headroom {
        let demanded = self.call.target.demanded();
        let Some(most) = table.calls(demanded) else { return Ok(Ok(None)) };
        let reason = format!("No more than {} a day for all groups together.", calls(most, word(demanded)));
        self.shared((provider, word(demanded)), (1, i64::from(most)), reason)
    }

    /// Checks the sum of the amounts of all callers.
    fn shared_amount(&self, provider: &str, table: &SharedQuotaTable) -> Headroom {
        let action = &self.call.action;
        let Some(amount) = table.amounts.get(action) else { return Ok(Ok(None)) };
        let value = match self.value(amount) {
            Ok(value) => value,
            Err(exceeded) => return Ok(Err(exceeded)),
        };
        let Some(cap) = amount.per_day else { return Ok(Ok(None)) };
        let reason = format!("No more than {cap} a day with {action} for all groups together.");
        self.shared((provider, &amount_scope(action)), (millionths(value), millionths(cap)), reason)
    }

    fn shared(&self, (provider, scope): (&str, &str), (uses, most): (i64, i64), reason: String) -> Headroom {
        let quota = shared_quotas::find(self.view, (provider, scope), self.now)?;
        if let Some(wait) = quota.held {
            let reason = format!("Other hosts use the shared quota of {provider} at this moment.");
            return Ok(Err(LimitsFact::Exceeded { code: Code::Busy, reason, retry_after: Some(wait) }));
        }
        if quota.used.saturating_add(uses) > most {
            let (code, retry_after) = (Code::QuotaExceeded, Some(quota.left));
            return Ok(Err(LimitsFact::Exceeded { code, reason, retry_after }));
        }
        let (provider, scope) = (provider.to_owned(), scope.to_owned());
        Ok(Ok(Some(Charge::Shared { provider, scope, uses, most })))
    }

    fn used(&self, counted_as: &str, scope: &str) -> Result<i64, StoreError> {
        counters::used(self.view, &Counter { counted_as, ..self.counter(scope) }, self.now)
    }

    fn used_up(&self, reason: String) -> LimitsFact {
        let retry_after = Some(counters::tomorrow(self.now).since(self.now));
        LimitsFact::Exceeded { code: Code::QuotaExceeded, reason, retry_after }
    }
}

fn amount_scope(action: &Action) -> String {
    format!("amount:{action}")
}

fn calls(count: u32, scope: &str) -> String {
    let scope = if scope == "grant" { "granted" } else { scope };
    counted(count, &format!("{scope} call"), &format!("{scope} calls"))
}

/// Converts an amount to millionths, rounded up, so that many small amounts are not nothing.
fn millionths(amount: f64) -> i64 {
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "saturates, and is held to 1e12 before"
    )]
    let millionths = (amount * MILLION).ceil() as i64;
    millionths
}

/// Counts a fault of the call's provider. After too many in a row the broker pauses its calls for a while.
///
/// # Errors
/// [`StoreError`].
pub fn fault(tx: &Transaction<'_>, call: &Call, limits: &Limits) -> Result<(), StoreError> {
    let Some(group) = call.header.caller.policy_group() else { return Ok(()) };
    let BreakerTable { faults, open_s } = limits.of(group, &call.provider).breaker;
    if faults == 0 {
        return Ok(());
    }
    let caller = &*call.header.caller_key;
    counters::count_fault(tx, (caller, call.provider.as_str()), (faults, Duration::from_secs(open_s)))
}

/// Notes that the provider answered, with any result.
///
/// # Errors
/// [`StoreError`].
pub fn answered(tx: &Transaction<'_>, call: &Call) -> Result<(), StoreError> {
    counters::close_breaker(tx, &call.header.caller_key, call.provider.as_str())
}

/// Notes that the provider answered the read before the action. The action itself continues the test.
///
/// # Errors
/// [`StoreError`].
pub fn prepared(tx: &Transaction<'_>, call: &Call) -> Result<(), StoreError> {
    counters::hand_trial_on(tx, &call.header.caller_key, call.provider.as_str())
}

/// Returns the counters of [`counters::list`], and each rate and quota of an active grant, used or not. Each shared quota
/// is there, too. `of_all` is the use of shared quotas on all hosts of a fleet; absent, that of this host is shown.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn in_force(
    view: &View,
    now: Timestamp,
    (limits, shared): (&Limits, &SharedQuotas),
    of_all: Option<&[QuotaLook]>,
) -> Result<Vec<Used>, StoreError> {
    let (mut all, steady) = (counters::list(view, now)?, steady_estimate(view, now)?);
    // A temporary grant has the limits of the group's own grant, which is before it.
    let mut shown = BTreeSet::new();
    for grant in grants::list(view, None)?.iter().filter(|grant| grant.is_live(now)) {
        let table = limits.of(&grant.group, &grant.provider);
        let levels = [Level::Read, Level::Write, Level::Production].into_iter().filter(|level| *level <= grant.level);
        let scopes = levels.map(|level| (word(level), table.rates(level))).chain([("grant", of_grant(Some(grant)))]);
        for (scope, rates) in scopes.filter(|(_, rates)| *rates != RateTable::NONE) {
            let (caller, provider) = (format!("group:{}", grant.group), grant.provider.to_string());
            if !shown.insert((caller.clone(), provider.clone(), scope)) {
                continue;
            }
            let is_its = |used: &Used| (&*used.caller, &*used.provider, &*used.scope) == (&*caller, &*provider, scope);
            let found = all.iter().position(is_its).map(|place| all.swap_remove(place));
            let empty_at = counters::empty_at(view, &Counter { counted_as: &caller, provider: &provider, scope })?;
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
    all.retain(|used| used.caller != EVERYONE);
    for Shared { provider, scope, calls, .. } in shared_figures::all(shared) {
        let is_its = |quota: &&QuotaLook| quota.provider == provider && quota.scope == scope;
        let used = match of_all {
            Some(of_all) => of_all.iter().find(is_its).map_or(0, |quota| quota.used),
            None => shared_quotas::own(view, (&provider, &scope), now)?,
        };
        all.push(Used {
            caller: EVERYONE.to_owned(),
            provider,
            scope,
            used,
            daily_quota: calls,
            rate_per_minute: None,
            taken: None,
            open_until: None,
        });
    }
    all.sort_by(|a, b| (&a.caller, &a.provider, &a.scope).cmp(&(&b.caller, &b.provider, &b.scope)));
    Ok(all)
}
