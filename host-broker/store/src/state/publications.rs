//! The policy that this host publishes for the hosts of its fleet, and the publication that it uses itself.

use crate::{StoreError, Transaction, View, at};
use model::Publication;
use rusqlite::{OptionalExtension as _, params};

/// Returns the number of the last publication of this host; 0 if there is none.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn last(view: &View) -> Result<i64, StoreError> {
    view.prepare_cached("SELECT number FROM publication WHERE one = 1")
        .and_then(|mut s| s.query_row([], |row| row.get(0)).optional())
        .map(Option::unwrap_or_default)
        .map_err(at("read the publication"))
}

/// Publishes a policy, which this host has signed. The hosts that use it admit no call with an earlier one once the
/// transaction is committed. Returns `false` if they still used the former one at the last attempt; nothing is published then.
///
/// # Errors
/// [`StoreError`], also if it is not the next publication; nothing is published then.
pub fn publish(tx: &Transaction<'_>, publication: &Publication, document: &str) -> Result<bool, StoreError> {
    const PUBLISH: &str = "INSERT INTO publication (one, number, digest, document) VALUES (1, ?1, ?2, ?3)
        ON CONFLICT (one) DO UPDATE SET number = ?1, digest = ?2, document = ?3";
    let Publication { host: _, number, digest } = publication;
    if last(tx.view())?.checked_add(1) != Some(*number) {
        return Err(StoreError::Conflict { what: "publication" });
    }
    if tx.view().publication_use().borrow().is_used_elsewhere() {
        return Ok(false);
    }
    let parameters = params![number, digest.as_bytes(), document];
    let published = tx.view().prepare_cached(PUBLISH).and_then(|mut s| s.execute(parameters));
    published.map(|_| true).map_err(at("publish a policy"))
}

/// Returns the publication that this host uses, if it was not in force at the last attempt. Nothing may then be permitted.
pub fn stale(view: &View) -> Option<Publication> {
    view.publication_use().borrow().stale().cloned()
}

/// Notes that the transaction writes the intent of a decision. It commits only if the publication of the decision is in
/// force then.
pub fn note_intent(tx: &Transaction<'_>) {
    tx.view().publication_use().borrow_mut().note_intent();
}
