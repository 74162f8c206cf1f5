//! Grants: the levels of groups at providers.
//!
//! A grant is bound to the catalogue as it was when it was made: an action that appears later, or that changes its
//! level, is not included until the grant is repeated.

use crate::Transaction;
use crate::View;
use crate::state::requests;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, params};
use shared::request::{Expiry, GrantRequest};
use shared::{Action, Gate, Group, Level, Provider, Timestamp, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A stored grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The group.
    pub group: Group,
    /// The provider.
    pub provider: Provider,
    /// The level.
    pub level: Level,
    /// The only allowed actions; `None` means all of the catalogue.
    pub allowed: Option<BTreeSet<Action>>,
    /// The denied actions.
    pub denied: BTreeSet<Action>,
    /// The gate of production actions.
    pub gate: Option<Gate>,
    /// The granter, in the ledger's form.
    pub granted_by: String,
    /// The time of the grant.
    pub granted_at: Timestamp,
    /// The time of expiry; `None` means that it does not expire.
    pub expires_at: Option<Timestamp>,
    /// `false` once revoked.
    pub active: bool,
    /// The provider's actions and their levels at the time of the grant.
    pub catalogue: BTreeMap<Action, Level>,
    /// The most calls a minute.
    pub rate_per_minute: Option<u32>,
    /// The most calls a day.
    pub daily_quota: Option<u32>,
    /// The only chat types.
    pub chat_types: Option<Vec<String>>,
    /// The only chats.
    pub chat_ids: Option<Vec<String>>,
    /// The caller that revoked it, if it was revoked.
    pub revoked_by: Option<String>,
}

impl Grant {
    /// Makes the grant that a request would store.
    pub fn of(request: &GrantRequest, granted_by: &str, now: Timestamp, catalogue: BTreeMap<Action, Level>) -> Self {
        Self {
            group: request.group_folder.clone(),
            provider: request.provider.clone(),
            level: request.access_level,
            allowed: request.allowed_actions.as_ref().map(|list| list.iter().cloned().collect()),
            denied: request.denied_actions.iter().flatten().cloned().collect(),
            gate: request.requires_task_gate.clone(),
            granted_by: granted_by.to_owned(),
            granted_at: now,
            expires_at: expiry(request, now),
            active: true,
            catalogue,
            rate_per_minute: request.rate_per_minute,
            daily_quota: request.daily_quota,
            chat_types: request.chat_types.clone(),
            chat_ids: request.chat_ids.clone(),
            revoked_by: None,
        }
    }

    /// Returns whether a person made or revoked it. An agent then gives no more than it.
    pub fn was_set_by_person(&self) -> bool {
        let is_person = |caller: &str| caller.starts_with("person:");
        is_person(&self.granted_by) || self.revoked_by.as_deref().is_some_and(is_person)
    }

    /// Returns whether it permits anything now.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.active && !self.is_expired(now) && self.level > Level::None
    }

    /// Returns whether it has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns whether it gives more than `other` in any respect; omitting a restriction counts as more.
    pub fn is_wider_than(&self, other: &Self) -> bool {
        let within = |inner: &Option<BTreeSet<Action>>, outer: &Option<BTreeSet<Action>>| match (inner, outer) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(inner), Some(outer)) => inner.is_subset(outer),
        };
        self.level > other.level
            // A revoked grant gives nothing, so repeating it gives more.
            || (self.active && !other.active)
            || !within(&self.allowed, &other.allowed)
            || !self.denied.is_superset(&other.denied)
            // This also holds if there was no gate: without one no production action is permitted at all.
            || self.gate != other.gate
            || exceeds(self.expires_at, other.expires_at)
            || exceeds(self.rate_per_minute, other.rate_per_minute)
            || exceeds(self.daily_quota, other.daily_quota)
            || leaves(self.chat_types.as_ref(), other.chat_types.as_ref())
            || leaves(self.chat_ids.as_ref(), other.chat_ids.as_ref())
            || self.catalogue.iter().any(|(action, level)| other.catalogue.get(action) != Some(level))
    }

    /// Returns the list of allowed actions, as in documents.
    pub fn allowed_list(&self) -> Option<Vec<Action>> {
        self.allowed.as_ref().map(|set| set.iter().cloned().collect())
    }

    /// Returns the list of denied actions, as in documents.
    pub fn denied_list(&self) -> Option<Vec<Action>> {
        if self.denied.is_empty() { None } else { Some(self.denied.iter().cloned().collect()) }
    }
}

/// Compares limits. `None` is no limit, which exceeds every limit.
fn exceeds<T: Ord>(new: Option<T>, old: Option<T>) -> bool {
    match (new, old) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(new), Some(old)) => new > old,
    }
}

fn leaves(new: Option<&Vec<String>>, old: Option<&Vec<String>>) -> bool {
    match (new, old) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(new), Some(old)) => new.iter().any(|item| !old.contains(item)),
    }
}

/// Returns the expiry. Writes and production expire after a week unless the granter says otherwise: forgotten grants
/// are the usual breach.
fn expiry(request: &GrantRequest, now: Timestamp) -> Option<Timestamp> {
    match (request.expires_at, request.expires_in_s) {
        (Some(Expiry::At(time)), _) => Some(time),
        (None, Some(seconds)) => Some(now.plus(Duration::from_secs(seconds))),
        (None, None) if request.access_level >= Level::Write => Some(now.plus(limits::WRITE_GRANT_LIFE)),
        (Some(Expiry::Never), _) | (None, None) => None,
    }
}

const COLUMNS: &str = "group_folder, provider, access_level, allowed_actions, denied_actions, requires_task_gate,
    granted_by, granted_at, expires_at, active, catalogue, rate_per_minute, daily_quota, chat_types, chat_ids, revoked_by";

/// Returns the grant of a group at a provider, active or not.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn find(view: &View, group: &Group, provider: &Provider) -> Result<Option<Arc<Grant>>, StoreError> {
    let key = (group.clone(), provider.clone());
    view.kept(
        |cache| cache.grants.facts().get(&key).map(|grant| Some(Arc::clone(grant))),
        |view| stored(view, group, provider).map(|grant| grant.map(Arc::new)),
        |cache, grant| {
            if let Some(grant) = grant {
                cache.grants.keep(|facts| drop(facts.insert(key.clone(), Arc::clone(grant))));
            }
        },
    )
}

pub(crate) fn stored(view: &View, group: &Group, provider: &Provider) -> Result<Option<Grant>, StoreError> {
    view.prepare_cached(&format!("SELECT {COLUMNS} FROM grants WHERE group_folder = ?1 AND provider = ?2"))
        .and_then(|mut s| s.query_row(params![group.as_str(), provider.as_str()], |row| Ok(read(row))).optional())
        .map_err(at("look a grant up"))?
        .transpose()
}

/// Returns every grant, of one group or of all.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View, group: Option<&Group>) -> Result<Vec<Grant>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS} FROM grants WHERE ?1 IS NULL OR group_folder = ?1 ORDER BY group_folder, provider");
    let mut statement = view.prepare(&sql).map_err(at("list the grants"))?;
    let mut rows = statement.query(params![group.map(Group::as_str)]).map_err(at("list the grants"))?;
    let mut grants = Vec::new();
    while let Some(row) = rows.next().map_err(at("list the grants"))? {
        grants.push(read(row)?);
    }
    Ok(grants)
}

/// Returns the next time at which a grant ends, after `now`.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn next_expiry(view: &View, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let millis: Option<i64> = view
        .query_row(
            "SELECT min(expires_at) FROM grants WHERE active = 1 AND expires_at > ?1",
            params![now.millis()],
            |row| row.get(0),
        )
        .map_err(at("look for the next expiry"))?;
    Ok(millis.map(Timestamp::from_millis))
}

/// Stores a grant, replacing the one of the same group and provider.
///
/// # Errors
/// [`StoreError`]; the stored grant is as it was.
pub fn put(tx: &Transaction<'_>, grant: &Grant) -> Result<(), StoreError> {
    const UPSERT: &str = "INSERT INTO grants (group_folder, provider, access_level, allowed_actions, denied_actions,
            requires_task_gate, granted_by, granted_at, expires_at, active, catalogue, rate_per_minute, daily_quota,
            chat_types, chat_ids)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
        ON CONFLICT (group_folder, provider) DO UPDATE SET
            access_level = excluded.access_level, allowed_actions = excluded.allowed_actions,
            denied_actions = excluded.denied_actions, requires_task_gate = excluded.requires_task_gate,
            granted_by = excluded.granted_by, granted_at = excluded.granted_at, expires_at = excluded.expires_at,
            active = excluded.active, catalogue = excluded.catalogue, rate_per_minute = excluded.rate_per_minute,
            daily_quota = excluded.daily_quota, chat_types = excluded.chat_types, chat_ids = excluded.chat_ids, revoked_by = NULL";
    tx.view()
        .prepare_cached(UPSERT)
        .and_then(|mut s| {
            s.execute(params![
                grant.group.as_str(),
                grant.provider.as_str(),
                i64::from(grant.level.number()),
                grant.allowed.as_ref().map(text),
                if grant.denied.is_empty() { None } else { Some(text(&grant.denied)) },
                grant.gate.as_ref().map(Gate::as_str),
                grant.granted_by,
                grant.granted_at.millis(),
                grant.expires_at.map(Timestamp::millis),
                grant.active,
                text(&grant.catalogue),
                grant.rate_per_minute,
                grant.daily_quota,
                grant.chat_types.as_ref().map(text),
                grant.chat_ids.as_ref().map(text),
            ])
        })
        .map_err(at("store a grant"))?;
    Ok(())
}

/// Revokes a grant; `false` if there was no active one.
///
/// # Errors
/// [`StoreError`]; the stored grant is as it was.
pub fn revoke(tx: &Transaction<'_>, group: &Group, provider: &Provider, by: &str) -> Result<bool, StoreError> {
    let changed = tx
        .view()
        .prepare_cached(
            "UPDATE grants SET active = 0, revoked_by = ?3 WHERE group_folder = ?1 AND provider = ?2 AND active = 1",
        )
        .and_then(|mut s| s.execute(params![group.as_str(), provider.as_str(), by]))
        .map_err(at("revoke a grant"))?;
    Ok(changed == 1)
}

fn text<T: serde::Serialize>(value: &T) -> String {
    String::from_utf8(shared::json::canonical(value)).unwrap_or_default()
}

fn read(row: &rusqlite::Row<'_>) -> Result<Grant, StoreError> {
    let get = at("read a grant");
    let raw = (|| {
        Ok((
            (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?),
            (row.get::<_, Option<String>>(3)?, row.get::<_, Option<String>>(4)?, row.get::<_, Option<String>>(5)?),
            (row.get::<_, String>(6)?, row.get::<_, i64>(7)?, row.get::<_, Option<i64>>(8)?, row.get::<_, bool>(9)?),
            (row.get::<_, String>(10)?, row.get::<_, Option<u32>>(11)?, row.get::<_, Option<u32>>(12)?),
            (row.get::<_, Option<String>>(13)?, row.get::<_, Option<String>>(14)?, row.get::<_, Option<String>>(15)?),
        ))
    })();
    let (
        (group, provider, level),
        (allowed, denied, gate),
        (by, granted, expires, active),
        (catalogue, rate, quota),
        (types, ids, revoked_by),
    ) = raw.map_err(get)?;
    let stored = |what| move |_| StoreError::Stored { what };
    Ok(Grant {
        group: group.parse().map_err(|_bad| StoreError::Stored { what: "group" })?,
        provider: provider.parse().map_err(|_bad| StoreError::Stored { what: "provider" })?,
        level: requests::level(level)?,
        allowed: allowed.map(|text| serde_json::from_str(&text)).transpose().map_err(stored("list of actions"))?,
        denied: denied
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(stored("list of actions"))?
            .unwrap_or_default(),
        gate: gate.map(|text| text.parse()).transpose().map_err(|_bad| StoreError::Stored { what: "gate" })?,
        granted_by: by,
        granted_at: Timestamp::from_millis(granted),
        expires_at: expires.map(Timestamp::from_millis),
        active,
        catalogue: serde_json::from_str(&catalogue).map_err(stored("catalogue"))?,
        rate_per_minute: rate,
        daily_quota: quota,
        chat_types: types.map(|text| serde_json::from_str(&text)).transpose().map_err(stored("list of chats"))?,
        chat_ids: ids.map(|text| serde_json::from_str(&text)).transpose().map_err(stored("list of chats"))?,
        revoked_by,
    })
}
