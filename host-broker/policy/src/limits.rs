//! The limits of a group per time: `[limits.<group>.<provider>]`.

use model::external;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Action, Group, Level, Provider};
use std::collections::BTreeMap;

/// The name for every group, or every provider, without a line of its own.
const ANY: &str = "*";
/// The largest number of calls a minute; a higher one could not be told apart from no limit.
const RATE_MAX: u32 = 1_000_000;
/// The largest amount, so that millionths of a day's sum can be counted.
const AMOUNT_MAX: f64 = 1e12;

/// The limits, by group and provider; `*` means any. The table that names the group takes precedence, then the table
/// that names the provider. Tables are not combined.
///
/// ```toml
/// [limits."*".github]
/// write = { rate_per_minute = 10, soft_daily_quota = 80, daily_quota = 100 }
///
/// [limits.finance.bank]
/// production = { daily_quota = 5 }
/// amounts = { transfer = { param = "amount", per_call = 500, per_day = 1000 } }
/// breaker = { faults = 3, open_s = 60 }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Limits(BTreeMap<String, BTreeMap<String, LimitTable>>);

/// The limits of one group at one provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitTable {
    /// The limits of reading calls.
    pub read: RateTable,
    /// The limits of writing calls.
    pub write: RateTable,
    /// The limits of production calls.
    pub production: RateTable,
    /// The parameters that are amounts, by action.
    pub amounts: BTreeMap<Action, AmountTable>,
    /// The circuit breaker of the provider.
    pub breaker: BreakerTable,
}

/// The limits on the number of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateTable {
    /// The number of calls per minute, which is also the largest burst: 1 to 1000000. Absent means no limit.
    pub rate_per_minute: Option<u32>,
    /// The number of calls per day (UTC) after which each further call carries a note. Absent means none.
    pub soft_daily_quota: Option<u32>,
    /// The number of calls per day (UTC) after which calls are refused. Absent means no limit.
    pub daily_quota: Option<u32>,
}

/// The limits of a parameter that is an amount, for example of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AmountTable {
    /// The parameter: a name, or a JSON pointer such as `/order/total`. A call without it, or with a value that is not
    /// a number of at least 0, is refused.
    pub param: String,
    /// The largest amount of one call; absent means no limit.
    #[serde(default)]
    pub per_call: Option<f64>,
    /// The largest sum of one day (UTC); absent means no limit.
    #[serde(default)]
    pub per_day: Option<f64>,
}

/// The circuit breaker, which refuses calls to a provider after faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerTable {
    /// The number of consecutive faults that opens the circuit breaker; 0 means never.
    pub faults: u32,
    /// The time that the circuit breaker stays open, in seconds; at least 1. One trial call then tests the provider.
    pub open_s: u64,
}

impl Default for BreakerTable {
    fn default() -> Self {
        Self { faults: 5, open_s: 30 }
    }
}

/// The default limits of a group: more than an agent needs, too little to fill a disk in a day.
static DEFAULT: LimitTable = LimitTable {
    read: RateTable::per_minute(1200),
    write: RateTable::per_minute(120),
    production: RateTable::per_minute(30),
    amounts: BTreeMap::new(),
    breaker: BreakerTable { faults: 5, open_s: 30 },
};

/// The default limits of each external agent, for all its grants together. Lookups before a write are charged, and
/// the limit of the provider is shared by all callers.
static EXTERNAL: LimitTable = LimitTable {
    read: RateTable::per_minute(120),
    write: RateTable::per_minute(30),
    production: RateTable::per_minute(30),
    amounts: BTreeMap::new(),
    breaker: BreakerTable { faults: 5, open_s: 30 },
};

impl RateTable {
    /// No limit.
    pub const NONE: Self = Self { rate_per_minute: None, soft_daily_quota: None, daily_quota: None };

    const fn per_minute(rate: u32) -> Self {
        Self { rate_per_minute: Some(rate), ..Self::NONE }
    }
}

impl LimitTable {
    /// Returns the limits for calls that demand this level.
    pub fn rates(&self, demanded: Level) -> RateTable {
        match demanded {
            Level::None | Level::Read => self.read,
            Level::Write => self.write,
            Level::Production => self.production,
        }
    }
}

impl Limits {
    /// Returns the limits of this group at this provider.
    pub fn of(&self, group: &Group, provider: &Provider) -> &LimitTable {
        let tables = [group.as_str(), ANY].into_iter().filter_map(|group| self.0.get(group));
        tables
            .flat_map(|tables| {
                let names = [Some(provider.as_str()), provider.namespace(), Some(ANY)];
                names.into_iter().flatten().filter_map(|provider| tables.get(provider))
            })
            .next()
            .unwrap_or(if group == external() { &EXTERNAL } else { &DEFAULT })
    }

    /// Returns the actions whose parameters are declared amounts, by the key of their provider.
    pub fn amounts(&self) -> impl Iterator<Item = (String, &str, &Action)> {
        self.0.iter().flat_map(|(group, tables)| {
            tables.iter().flat_map(move |(provider, table)| {
                let place = format!("limits.{group}.{provider}.amounts");
                table.amounts.keys().map(move |action| (place.clone(), provider.as_str(), action))
            })
        })
    }

    /// Checks that each table names an existing group and provider: a limit of anything else limits nothing.
    ///
    /// # Errors
    /// The place, the error and the remedy.
    pub fn check(&self, is_group: impl Fn(&str) -> bool, is_provider: impl Fn(&str) -> bool) -> Result<(), String> {
        for (group, tables) in &self.0 {
            if group != ANY && group != external().as_str() && !is_group(group) {
                return Err(format!(
                    "limits.{group}: there is no group `{group}`; add [groups.{group}] or write \"*\""
                ));
            }
            for (provider, table) in tables {
                let place = format!("limits.{group}.{provider}");
                if provider != ANY && !is_provider(provider) {
                    return Err(format!(
                        "{place}: there is no provider `{provider}`; add [providers.{provider}] or write \"*\""
                    ));
                }
                for (word, rates) in [("read", table.read), ("write", table.write), ("production", table.production)] {
                    rates.check().map_err(|fault| format!("{place}.{word}: {fault}"))?;
                }
                for (action, amount) in &table.amounts {
                    amount.check().map_err(|fault| format!("{place}.amounts.{action}: {fault}"))?;
                }
                if table.breaker.open_s == 0 {
                    return Err(format!(
                        "{place}.breaker.open_s must be at least 1; faults = 0 disables the circuit breaker"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl RateTable {
    fn check(self) -> Result<(), String> {
        if self.rate_per_minute.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate)) {
            return Err(format!("rate_per_minute must be 1 to {RATE_MAX}; to stop all calls, use `off` in a profile"));
        }
        if let (Some(soft), Some(hard)) = (self.soft_daily_quota, self.daily_quota)
            && soft > hard
        {
            return Err(format!("soft_daily_quota {soft} is more than daily_quota {hard}; lower it"));
        }
        Ok(())
    }
}

impl AmountTable {
    /// Checks that it limits something, within bounds.
    ///
    /// # Errors
    /// The error and the remedy.
    pub(crate) fn check(&self) -> Result<(), String> {
        let caps: Vec<f64> = self.per_call.into_iter().chain(self.per_day).collect();
        if caps.is_empty() {
            return Err("neither per_call nor per_day is set; add one of them".into());
        }
        if caps.iter().any(|cap| !(0.0..=AMOUNT_MAX).contains(cap)) {
            return Err(format!("an amount must be 0 to {AMOUNT_MAX:e}"));
        }
        if self.param.is_empty() {
            return Err("param must not be empty; add the name of the parameter".into());
        }
        Ok(())
    }

    /// Returns the parameter as a JSON pointer (RFC 6901).
    pub fn pointer(&self) -> String {
        if self.param.starts_with('/') {
            return self.param.clone();
        }
        format!("/{}", self.param.replace('~', "~0").replace('/', "~1"))
    }
}
/// The use that the intent of a permitted call is charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Charge {
    /// A place in a bucket that empties at this rate.
    Rate {
        /// The bucket.
        scope: String,
        /// The number a minute.
        per_minute: u32,
    },
    /// A part of a day's quota.
    Quota {
        /// The quota.
        scope: String,
        /// The amount: calls, or millionths of an amount.
        uses: i64,
        /// The most use of a day.
        most: Option<i64>,
        /// The use above which an auditor should see that most of the quota is used.
        soft: Option<i64>,
        /// Whether this call is beyond that use.
        near: bool,
        /// The key under which it counts, if it is not the one of the call.
        of: Option<String>,
    },
    /// A part of a day's quota that all callers share.
    Shared {
        /// The provider, or its namespace.
        provider: String,
        /// The quota.
        scope: String,
        /// The amount: calls, or millionths of an amount.
        uses: i64,
        /// The most use of a day.
        most: i64,
    },
    /// The call tests whether the provider works again.
    Trial,
}

impl Charge {
    /// Returns whether most of a quota is used.
    pub fn is_near(&self) -> bool {
        matches!(self, Self::Quota { near: true, .. })
    }
}
