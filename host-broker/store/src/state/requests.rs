//! Requests: the earlier one of an id, the owner of one, and the request whose reply answers it.
//!
//! An id is used once, so every request is found by its rows.

use crate::ledger::segments;
use crate::state::approvals;
use crate::state::intents;
use crate::state::replies;
use crate::{StoreError, Transaction, View, at};
use rusqlite::{OptionalExtension as _, params};
use shared::digest::Digest;
use shared::{Action, Level, Provider, RequestId, Timestamp};

/// An earlier request of the same caller under the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// The digest of its body, if it was well formed.
    pub request_digest: Option<Digest>,
    /// Whether an effect of it is still under way.
    pub open: bool,
    /// The reply, if it is still kept.
    pub reply: Option<Box<[u8]>>,
}

impl Earlier {
    /// Returns whether it is the same request as this one, and is over.
    pub fn is_same_and_over(&self, request_digest: Digest) -> bool {
        self.request_digest == Some(request_digest) && !self.open
    }
}

/// Returns the first request of this caller with this id, if there is one. An id is used up permanently.
///
/// # Errors
/// [`StoreError`].
pub fn earlier(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<Earlier>, StoreError> {
    const FIRST: &str = "SELECT json_extract(body, '$.request') FROM ledger
        WHERE caller = ?1 AND request_id = ?2 ORDER BY seq LIMIT 1";
    let first: Option<Option<String>> = tx
        .view()
        .prepare_cached(FIRST)
        .and_then(|mut s| s.query_row(params![caller, id.as_str()], |row| row.get(0)).optional())
        .map_err(at("look the request up"))?;
    if segments::is_burnt(tx.view(), caller, id.as_str())? {
        return Ok(Some(Earlier { request_digest: None, open: false, reply: None }));
    }
    let Some(digest) = first else { return Ok(None) };
    let request_digest = digest.and_then(|text| text.parse().ok());
    // A caller that got the reply `pending` has had a reply, which can be given again.
    let open = intents::is_open(tx.view(), caller, id)? && !approvals::is_told(tx, caller, id)?;
    Ok(Some(Earlier { request_digest, open, reply: replies::find(tx, caller, id)? }))
}

/// The owner of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The person on whose behalf it was made, if that is known.
    pub person: Option<String>,
    /// The time of arrival.
    pub at: Timestamp,
    /// The called action; nothing if it was no call.
    pub called: Option<Called>,
    /// The action of the nested call.
    pub nested: Option<Called>,
}

/// The action that a request called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The level that the call demanded, as far as that is known.
    pub level: Level,
}

/// Returns the owner of a request, if there was one.
///
/// # Errors
/// [`StoreError`].
pub fn owner(view: &View, caller: &str, id: &RequestId) -> Result<Option<Owner>, StoreError> {
    // An approval request about anything but a call has an action, too.
    const FIRST: &str = "SELECT person, ts, provider,
             iif(kind = 'asked' AND json_extract(body, '$.kind') IS NOT 'call', NULL, action), level,
             json_extract(body, '$.nested.provider'), json_extract(body, '$.nested.action'),
             json_extract(body, '$.nested.level')
         FROM ledger WHERE caller = ?1 AND request_id = ?2 ORDER BY seq LIMIT 1";
    type Target = (Option<String>, Option<String>, Option<i64>);
    type Raw = (Option<String>, i64, Target, Target);
    // SECURITY: its first row is in a segment. The first remaining row may be of any person who has used the id since.
    if segments::is_burnt(view, caller, id.as_str())? {
        return Ok(None);
    }
    let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Raw> {
        let target = |at: usize| -> rusqlite::Result<Target> { Ok((row.get(at)?, row.get(at + 1)?, row.get(at + 2)?)) };
        Ok((row.get(0)?, row.get(1)?, target(2)?, target(5)?))
    };
    let found = view
        .prepare_cached(FIRST)
        .and_then(|mut s| s.query_row(params![caller, id.as_str()], read).optional())
        .map_err(at("look the request up"))?;
    let Some((person, ts, own, nested)) = found else { return Ok(None) };
    let target = |(provider, action, number): Target| -> Result<Option<Called>, StoreError> {
        match (provider, action) {
            (Some(provider), Some(action)) => Ok(Some(Called {
                provider: provider.parse().map_err(|_bad| StoreError::Stored { what: "provider" })?,
                action: action.parse().map_err(|_bad| StoreError::Stored { what: "action" })?,
                level: number.map_or(Ok(Level::None), level)?,
            })),
            (None | Some(_), None) | (None, Some(_)) => Ok(None),
        }
    };
    let at = Timestamp::from_millis(ts);
    Ok(Some(Owner { person, at, called: target(own)?, nested: target(nested)? }))
}

/// Returns the person on whose behalf a request was made, for later rows about it.
///
/// # Errors
/// [`StoreError`].
pub fn person_of(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<String>, StoreError> {
    Ok(owner(tx.view(), caller, id)?.and_then(|owner| owner.person))
}

/// Returns the level of a stored number.
///
/// # Errors
/// [`StoreError::Stored`] if there is no such level.
pub fn level(number: i64) -> Result<Level, StoreError> {
    Level::from_number(number).ok_or(StoreError::Stored { what: "level" })
}
