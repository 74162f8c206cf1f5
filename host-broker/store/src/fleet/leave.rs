//! The end of a host in the database: from then on, only its home has new records.
//!
//! ```text
//! a row names the command ► the copy is synced ► PostgreSQL marks the host ► the copy is one no more
//! ```
//! INVARIANT: at each moment, the home or PostgreSQL can continue with all records, and never both. A marked host is
//! served by no daemon. A home that stops before the last step has all records, and takes that step when it leaves again.

use super::server::Server;
use super::settings::Settings;
use super::{BodyKey, Copied, Fleet, FleetError, is_end};
use crate::ledger::chain::{Draft, Head, RowKind};
use crate::open::Records;
use crate::store::{ClockCheck, Durability, Undone};
use crate::{Store, StoreError, View, at};
use model::Clock;
use rusqlite::Connection;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

impl Store {
    /// Takes a home out of the database of its fleet. From then on, only the home has new records. `by` gives the command,
    /// in the ledger's form. Returns the end of the ledger.
    ///
    /// # Errors
    /// [`StoreError`]; the command can be repeated. The host may be marked, so that no daemon serves it until then.
    pub fn leave_fleet(
        home: &Path,
        clock: Arc<dyn Clock>,
        policy_version: String,
        fleet: (&Settings, &BodyKey),
        by: &str,
    ) -> Result<Head, StoreError> {
        let mut store = Self::open_home(home, clock, policy_version, Records::Leaving(fleet.0, fleet.1))?;
        if let Some(host) = store.fleet.as_ref().map(|fleet| fleet.host().to_owned()) {
            store.note_the_command(&host, by)?;
            sync(store.view.connection())?;
            store.fleet.as_ref().map_or(Ok(()), |fleet| fleet.server.leave())?;
            store.fleet = None;
        }
        end(&store.view)?;
        Ok(store.head)
    }

    fn note_the_command(&mut self, host: &str, by: &str) -> Result<(), StoreError> {
        let noted = self.transaction((Durability::Full, ClockCheck::Required), |tx| {
            let summary = Some(format!("the home leaves the fleet's database, where it is the host {host}"));
            tx.append(&Draft { summary, body: json!({ "leaving_fleet": host }), ..Draft::new(RowKind::Noted, by) })
                .map(drop)
        });
        noted.map_err(|undone| match undone {
            Undone::NotBegun(error) | Undone::Failed(error) | Undone::NotCommitted((), error) => error,
        })
    }
}

/// Returns the fleet that a home leaves; `None` if the host is marked already, and only the home must still change.
pub(crate) fn begin(fleet: (&Settings, &BodyKey), home: &Path, view: &View) -> Result<Option<Fleet>, StoreError> {
    let host = fleet.0.host();
    let (copied, head) = (Copied::of(view.connection())?, crate::open::head(view)?);
    let is_other = match &copied {
        Some(copied) => copied.host != host.as_str(),
        // A new machine has no rows before it joins.
        None => head.seq > 0,
    };
    if is_other {
        return Err(FleetError::NotJoined(host.to_string()).into());
    }
    let server = Server::start(fleet.0.clone(), Arc::from([]), copied.as_ref().map(|copied| copied.batch))?;
    if !server.is_filled()? {
        return Err(FleetError::NotJoined(host.to_string()).into());
    }
    match Fleet::join(fleet, home, view) {
        Err(StoreError::Fleet(FleetError::Left(_) | FleetError::Leaving(_))) => {}
        // Only a daemon finds out the outcomes of the other one.
        Ok(joined) if joined.has_ousted() => return Err(FleetError::Ousted(host.to_string()).into()),
        joined => return joined.map(Some),
    }
    let known = server.known()?;
    let is_whole = copied.is_some_and(|copied| copied.batch == known.batch && copied.writer == known.writer);
    let has_left = is_whole && is_end(&known, &head) && server.confirm_left(known.batch)?;
    if has_left { Ok(None) } else { Err(FleetError::Left(host.to_string()).into()) }
}

/// Syncs all transactions of the copy. A change of a page is needed: a commit without one is not synced.
fn sync(connection: &Connection) -> Result<(), StoreError> {
    const SYNC: &str = "PRAGMA synchronous = FULL; UPDATE main.fleet SET holder = holder || ' ';";
    connection.execute_batch(SYNC).map_err(at("sync the records"))
}

/// Makes a database one of its own: it is no copy any more.
///
/// # Errors
/// [`StoreError`]; it is a copy as before.
pub(crate) fn end(view: &View) -> Result<(), StoreError> {
    let end = "PRAGMA synchronous = FULL; DELETE FROM main.fleet;";
    view.connection().execute_batch(end).map_err(at("leave the fleet"))
}
