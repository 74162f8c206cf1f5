//! The daily quotas that all callers share: `[shared_quotas.<provider>]`.

use crate::limits::AmountTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Action, Level, Provider};
use std::collections::BTreeMap;

/// The daily quotas that all groups and external agents share, by provider. The hosts of a fleet that have the table
/// share them, too. They apply beside the limits of each group.
///
/// ```toml
/// [shared_quotas.github]
/// write = 500
///
/// [shared_quotas.bank]
/// production = 20
/// amounts = { transfer = { param = "amount", per_day = 10000 } }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SharedQuotas(BTreeMap<Provider, SharedQuotaTable>);

/// The shared quotas of one provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SharedQuotaTable {
    /// The number of reading calls per day (UTC) of all callers together. Absent means no limit.
    pub read: Option<u32>,
    /// The same for writing calls.
    pub write: Option<u32>,
    /// The same for production calls.
    pub production: Option<u32>,
    /// The parameters that are amounts, by action. `per_day` is the largest sum of all callers together.
    pub amounts: BTreeMap<Action, AmountTable>,
}

impl SharedQuotaTable {
    /// Returns the number of calls a day that demand this level.
    pub fn calls(&self, demanded: Level) -> Option<u32> {
        match demanded {
            Level::None | Level::Read => self.read,
            Level::Write => self.write,
            Level::Production => self.production,
        }
    }
}

impl SharedQuotas {
    /// Returns the quotas of a provider and those of its namespace, with the names of their tables. All apply.
    pub fn of(&self, provider: &Provider) -> impl Iterator<Item = (&str, &SharedQuotaTable)> {
        let namespace = provider.namespace().and_then(|namespace| namespace.parse::<Provider>().ok());
        let tables = [self.0.get_key_value(provider), namespace.and_then(|name| self.0.get_key_value(&name))];
        tables.into_iter().flatten().map(|(name, table)| (name.as_str(), table))
    }

    /// Returns the tables, by provider.
    pub fn tables(&self) -> impl Iterator<Item = (&Provider, &SharedQuotaTable)> {
        self.0.iter()
    }

    /// Returns the actions whose parameters are declared amounts, by the key of their provider.
    pub fn amounts(&self) -> impl Iterator<Item = (String, &str, &Action)> {
        self.0.iter().flat_map(|(provider, table)| {
            let place = format!("shared_quotas.{provider}.amounts");
            table.amounts.keys().map(move |action| (place.clone(), provider.as_str(), action))
        })
    }

    /// Checks that each table names an existing provider, and limits something.
    ///
    /// # Errors
    /// The place, the error and the remedy.
    pub fn check(&self, is_provider: impl Fn(&Provider) -> bool) -> Result<(), String> {
        for (provider, table) in &self.0 {
            let place = format!("shared_quotas.{provider}");
            if !is_provider(provider) {
                return Err(format!("{place}: there is no provider `{provider}`; add [providers.{provider}]"));
            }
            if *table == SharedQuotaTable::default() {
                return Err(format!("{place} limits nothing; add read, write, production or amounts"));
            }
            for (action, amount) in &table.amounts {
                amount.check().map_err(|fault| format!("{place}.amounts.{action}: {fault}"))?;
                if amount.per_day.is_none() {
                    return Err(format!("{place}.amounts.{action}: per_day is not set; add it"));
                }
            }
        }
        Ok(())
    }
}
