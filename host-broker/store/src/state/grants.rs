//! Grants: the levels of groups at providers.
//!
//! A group has at most one grant of its own at a provider, and temporary grants beside it. A grant is bound to the
//! catalogue as it was when it was made. An action that appears later, or changes its level, is not included until the
//! grant is repeated.

use crate::Transaction;
use crate::View;
use crate::state::requests;
use crate::{StoreError, at};
use rusqlite::params;
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
    /// Whether it is temporary: a person gave it for a while, at the group's request.
    pub is_temporary: bool,
}

/// The grants of a group at one provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// The group's own grant, active or not.
    pub own: Option<Grant>,
    /// Its temporary grants, expired ones too. The first one is the oldest.
    pub temporary: Vec<Grant>,
}

impl Grants {
    /// Returns the grant that decides on an action: the first one that gives it, the group's own before temporary ones.
    /// Without one, it is the first live grant, and then any.
    ///
    /// `declared` is the level of the action, and `demanded` the level that the call takes.
    pub fn deciding(
        &self,
        action: &Action,
        (declared, demanded): (Option<Level>, Level),
        now: Timestamp,
    ) -> Option<&Grant> {
        let all = || self.own.iter().chain(&self.temporary);
        let gives = all().find(|grant| grant.gives(action, (declared, demanded), now));
        gives.or_else(|| all().find(|grant| grant.is_live(now))).or_else(|| all().next())
    }

    fn is_empty(&self) -> bool {
        self.own.is_none() && self.temporary.is_empty()
    }
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
            is_temporary: false,
        }
    }

    /// Returns whether it gives an action with these levels now.
    pub fn gives(&self, action: &Action, (declared, demanded): (Option<Level>, Level), now: Timestamp) -> bool {
        self.is_live(now)
            && demanded <= self.level
            && declared.is_some()
            && self.catalogue.get(action).copied() == declared
            && !self.denied.contains(action)
            && self.allowed.as_ref().is_none_or(|allowed| allowed.contains(action))
            // Without a gate, no production call is permitted.
            && (demanded < Level::Production || self.gate.is_some())
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

    /// Returns it with the denials of the present grant; `None` if it gives anything that the present grant does not give.
    /// Actions that it does not allow do not count. Denials of actions that are gone stay: the actions can come back.
    pub fn within(mut self, present: &Self) -> Option<Self> {
        let allowed = self.allowed.clone()?;
        self.denied.extend(present.denied.iter().cloned());
        let mut seen = self.clone();
        seen.catalogue.retain(|action, _| allowed.contains(action));
        (present.active && !seen.is_wider_than(present)).then_some(self)
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

/// The same columns of a temporary grant, which denies nothing and is deleted when it is revoked.
const TEMPORARY: &str = "group_folder, provider, access_level, allowed_actions, NULL, requires_task_gate,
    granted_by, granted_at, expires_at, 1, catalogue, rate_per_minute, daily_quota, chat_types, chat_ids, NULL";

/// Returns the grants of a group at a provider, in force or not.
///
/// # Errors
/// [`StoreError`] if they cannot be read; nothing may then be permitted.
pub fn find(view: &View, group: &Group, provider: &Provider) -> Result<Arc<Grants>, StoreError> {
    let key = (group.clone(), provider.clone());
    view.kept(
        |cache| cache.grants.facts().get(&key).map(Arc::clone),
        |view| stored(view, group, provider).map(Arc::new),
        |cache, grants| {
            if !grants.is_empty() {
                cache.grants.keep(|facts| drop(facts.insert(key.clone(), Arc::clone(grants))));
            }
        },
    )
}

pub(crate) fn stored(view: &View, group: &Group, provider: &Provider) -> Result<Grants, StoreError> {
    let with = params![group.as_str(), provider.as_str()];
    let own = select(view, &format!("SELECT {COLUMNS} FROM grants WHERE group_folder = ?1 AND provider = ?2"), with)?;
    let temporary =
        format!("SELECT {TEMPORARY} FROM temporary_grants WHERE group_folder = ?1 AND provider = ?2 ORDER BY id");
    Ok(Grants { own: own.into_iter().next(), temporary: of_requests(select(view, &temporary, with)?) })
}

fn select(view: &View, sql: &str, with: impl rusqlite::Params) -> Result<Vec<Grant>, StoreError> {
    let mut statement = view.prepare_cached(sql).map_err(at("look grants up"))?;
    let mut rows = statement.query(with).map_err(at("look grants up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look grants up"))? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn of_requests(grants: Vec<Grant>) -> Vec<Grant> {
    grants.into_iter().map(|grant| Grant { is_temporary: true, ..grant }).collect()
}

/// Returns every grant, of one group or of all: of each provider the own one first, then the temporary ones.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View, group: Option<&Group>) -> Result<Vec<Grant>, StoreError> {
    let with = params![group.map(Group::as_str)];
    let mut all = select(view, &format!("SELECT {COLUMNS} FROM grants WHERE ?1 IS NULL OR group_folder = ?1"), with)?;
    let temporary =
        format!("SELECT {TEMPORARY} FROM temporary_grants WHERE ?1 IS NULL OR group_folder = ?1 ORDER BY id");
    all.extend(of_requests(select(view, &temporary, with)?));
    // The order of equal ones stays.
    all.sort_by(|a, b| (&a.group, &a.provider).cmp(&(&b.group, &b.provider)));
    Ok(all)
}

/// Returns the next time at which a grant ends, after `now`.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn next_expiry(view: &View, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let millis: Option<i64> = view
        .query_row(
            "SELECT min(expires_at) FROM (
                SELECT min(expires_at) AS expires_at FROM grants WHERE active = 1 AND expires_at > ?1
                UNION ALL SELECT min(expires_at) FROM temporary_grants WHERE expires_at > ?1)",
            params![now.millis()],
            |row| row.get(0),
        )
        .map_err(at("look for the next expiry"))?;
    Ok(millis.map(Timestamp::from_millis))
}

/// Stores a grant of a group's own. It replaces each grant of the same group and provider, temporary ones too.
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
    end_temporary(tx, &grant.group, &grant.provider).map(drop)
}

/// The most temporary grants of a group at one provider that are in force.
pub const TEMPORARY_MAX: usize = 8;

/// Adds a temporary grant beside the others of the same group and provider.
///
/// # Errors
/// [`StoreError`], also if the grant has no list of actions or no expiry; nothing was stored.
pub fn add_temporary(tx: &Transaction<'_>, grant: &Grant) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO temporary_grants (group_folder, provider, access_level, allowed_actions,
            requires_task_gate, granted_by, granted_at, expires_at, catalogue, rate_per_minute, daily_quota,
            chat_types, chat_ids)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    let (Some(allowed), Some(expires_at)) = (&grant.allowed, grant.expires_at) else {
        return Err(StoreError::Stored { what: "temporary grant" });
    };
    tx.view()
        .prepare_cached(INSERT)
        .and_then(|mut s| {
            s.execute(params![
                grant.group.as_str(),
                grant.provider.as_str(),
                i64::from(grant.level.number()),
                text(allowed),
                grant.gate.as_ref().map(Gate::as_str),
                grant.granted_by,
                grant.granted_at.millis(),
                expires_at.millis(),
                text(&grant.catalogue),
                grant.rate_per_minute,
                grant.daily_quota,
                grant.chat_types.as_ref().map(text),
                grant.chat_ids.as_ref().map(text),
            ])
        })
        .map_err(at("store a temporary grant"))?;
    Ok(())
}

/// Ends the temporary grants of a group at a provider; `false` if none was in force.
fn end_temporary(tx: &Transaction<'_>, group: &Group, provider: &Provider) -> Result<bool, StoreError> {
    let grants = find(tx.view(), group, provider)?;
    tx.view()
        .prepare_cached("DELETE FROM temporary_grants WHERE group_folder = ?1 AND provider = ?2")
        .and_then(|mut s| s.execute(params![group.as_str(), provider.as_str()]))
        .map_err(at("end temporary grants"))?;
    Ok(grants.temporary.iter().any(|grant| !grant.is_expired(tx.now())))
}

/// How long an expired temporary grant is stored. Until then, a call is refused with `grant_expired`.
const EXPIRED_LIFE: Duration = Duration::from_hours(24);

/// Deletes the temporary grants that have been expired for a while.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let fault = at("delete expired grants");
    let until = tx.now().minus(EXPIRED_LIFE).millis();
    // A deletion makes the view forget all grants that it keeps.
    let mut any = tx
        .view()
        .prepare_cached("SELECT id FROM temporary_grants WHERE expires_at < ?1 LIMIT 1")
        .map_err(at("delete expired grants"))?;
    if any.exists(params![until]).map_err(at("delete expired grants"))? {
        let delete = "DELETE FROM temporary_grants WHERE expires_at < ?1";
        tx.view().prepare_cached(delete).and_then(|mut s| s.execute(params![until])).map_err(fault)?;
    }
    Ok(())
}

/// Revokes each grant of a group at a provider; `false` if there was no active one.
///
/// # Errors
/// [`StoreError`]; the stored grants are as they were.
pub fn revoke(tx: &Transaction<'_>, group: &Group, provider: &Provider, by: &str) -> Result<bool, StoreError> {
    if end_temporary(tx, group, provider)? {
        // The row tells a later grant who ended the access.
        const REVOKED: &str =
            "INSERT INTO grants (group_folder, provider, access_level, granted_by, granted_at, active, catalogue,
                revoked_by)
            VALUES (?1, ?2, 0, ?3, ?4, 0, '{}', ?3)
            ON CONFLICT (group_folder, provider) DO UPDATE SET active = 0, revoked_by =
                CASE WHEN active = 1 OR excluded.revoked_by LIKE 'person:%' THEN excluded.revoked_by ELSE revoked_by END";
        tx.view()
            .prepare_cached(REVOKED)
            .and_then(|mut s| s.execute(params![group.as_str(), provider.as_str(), by, tx.now().millis()]))
            .map_err(at("revoke a grant"))?;
        return Ok(true);
    }
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
        is_temporary: false,
    })
}
