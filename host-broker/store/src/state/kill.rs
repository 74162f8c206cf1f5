//! Kill switches: what an operator has stopped, effective with the next decision.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::KillScope;
use rusqlite::params;
use shared::{Group, Provider};
use std::sync::Arc;

/// Returns the switch that stops this call, if one is set: everything first, then the group's, then the provider's and
/// that of all its namespace.
///
/// # Errors
/// [`StoreError`] if they cannot be read; nothing may then be permitted.
pub fn find(view: &View, group: Option<&Group>, provider: &Provider) -> Result<Option<KillScope>, StoreError> {
    let scopes = kept(view)?;
    let is_set = |scope: &KillScope| scopes.contains(&scope.to_string());
    let mut candidates = vec![KillScope::All];
    candidates.extend(group.cloned().map(KillScope::Group));
    candidates.push(KillScope::Provider(provider.clone()));
    // A namespace is itself such a name.
    let namespace = provider.namespace().and_then(|namespace| namespace.parse().ok());
    candidates.extend(namespace.map(KillScope::Provider));
    Ok(candidates.into_iter().find(is_set))
}

/// Returns the switch that stops everything of this group, if one is set.
///
/// # Errors
/// [`StoreError`] if they cannot be read; nothing may then be permitted.
pub fn of_group(view: &View, group: &Group) -> Result<Option<KillScope>, StoreError> {
    let scopes = kept(view)?;
    let is_set = |scope: &KillScope| scopes.contains(&scope.to_string());
    Ok([KillScope::All, KillScope::Group(group.clone())].into_iter().find(is_set))
}

fn kept(view: &View) -> Result<Arc<[String]>, StoreError> {
    view.kept(
        |cache| cache.kill_switches.facts().clone(),
        |view| list(view).map(Arc::from),
        |cache, scopes| cache.kill_switches.keep(|facts| *facts = Some(Arc::clone(scopes))),
    )
}

/// Returns the scopes of all switches that are set. There are few, and usually none.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View) -> Result<Vec<String>, StoreError> {
    view.prepare_cached("SELECT scope FROM kill_switches ORDER BY scope")
        .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
        .map_err(at("look for kill switches"))
}

/// Sets or lifts a switch; `false` if that changes nothing.
///
/// # Errors
/// [`StoreError`]; the switch is as it was.
pub fn set(tx: &Transaction<'_>, scope: &KillScope, by: &str, on: bool) -> Result<bool, StoreError> {
    let sql = if on {
        "INSERT INTO kill_switches VALUES (?1, ?2, ?3) ON CONFLICT (scope) DO NOTHING"
    } else {
        "DELETE FROM kill_switches WHERE scope = ?1 AND ?2 IS NOT NULL AND ?3 IS NOT NULL"
    };
    let changed = tx
        .view()
        .prepare_cached(sql)
        .and_then(|mut s| s.execute(params![scope.to_string(), by, tx.now().millis()]))
        .map_err(at("set a kill switch"))?;
    Ok(changed == 1)
}
