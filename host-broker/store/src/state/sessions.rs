//! Sessions: the exposure of a caller since its session began.
//!
//! A session is named by its key: `group:developer` of a group, `agent:…` of an external agent whose grant a person
//! issued, and `issuer:…` of all external agents whose grants another issuer gave
//! ([`session_of`](crate::state::external_grants::session_of)).
//!
//! An action exposes the session from its intent on, whether its answer came or not. Only the host ends a session: the
//! data that an agent has read stays with it until its sandbox is replaced. For some groups, an operator has said that it
//! stays with a conversation ([`conversations`](crate::state::conversations)).

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::Exposed;
use model::Exposure;
use model::card::{Bringer, THIS_CALL, Together};
use rusqlite::params;
use serde::{Deserialize, Serialize};
use shared::flow::GrantId;
use shared::{Action, Group, Provider, Timestamp};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

/// The name of a session, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SessionName {
    /// The session of a group.
    Group(Group),
    /// The session of the external agent with this grant.
    Access(GrantId),
    /// The session of external agents, by its key: `agent:…` or `issuer:…`.
    External(String),
}

/// The longest key of a session, in bytes.
const KEY_MAX: usize = 256;

impl FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(access) = text.parse() {
            return Ok(Self::Access(access));
        }
        if (text.starts_with("agent:") || text.starts_with("issuer:")) && text.len() <= KEY_MAX {
            return Ok(Self::External(text.to_owned()));
        }
        text.parse().map(Self::Group).map_err(|error: shared::names::BadName| {
            format!("{error}; a session is a group's, or of an access (fgrnt_…), or as `exposure list` names it")
        })
    }
}

impl TryFrom<String> for SessionName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SessionName> for String {
    fn from(name: SessionName) -> Self {
        name.to_string()
    }
}

impl Display for SessionName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => group.fmt(f),
            Self::Access(access) => access.fmt(f),
            Self::External(key) => f.write_str(key),
        }
    }
}

/// The callers of the session `?1`: itself, and the grants of its external agents.
const CALLERS: &str = "SELECT ?1 UNION ALL SELECT 'outside:' || grant_id FROM flow_grants
    WHERE ?1 = CASE WHEN issued_by LIKE 'person:%' THEN 'agent:' || substr(lower(hex(actor)), 1, 32)
                    ELSE 'issuer:' || issued_by END";

/// Returns the actions that the caller's session has called, in the order of their first calls.
///
/// # Errors
/// [`StoreError`] if they cannot be read; nothing that exposes may then be permitted.
pub fn exposures(view: &View, caller: &str) -> Result<Arc<[Exposed]>, StoreError> {
    view.kept(
        |cache| cache.exposures(caller),
        |view| stored(view, caller).map(Arc::from),
        |cache, exposures| cache.keep_exposures(caller, exposures),
    )
}

pub(crate) fn stored(view: &View, caller: &str) -> Result<Vec<Exposed>, StoreError> {
    const SELECT: &str = "SELECT provider, action, exposes, at FROM exposures WHERE caller = ?1 ORDER BY seq";
    let failed = at("read the exposure of a session");
    let mut statement = view.prepare_cached(SELECT).map_err(at("read the exposure of a session"))?;
    let rows = statement
        .query_map(params![caller], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .and_then(Iterator::collect::<Result<Vec<(String, String, u8, i64)>, _>>)
        .map_err(failed)?;
    let exposed = |(provider, action, exposes, at): (String, String, u8, i64)| {
        Ok(Exposed {
            provider: provider.parse().map_err(|_bad| StoreError::Stored { what: "provider" })?,
            action: action.parse().map_err(|_bad| StoreError::Stored { what: "action" })?,
            at: Timestamp::from_millis(at),
            exposes: exposure(exposes),
        })
    };
    rows.into_iter().map(exposed).collect()
}

/// Returns whether a call of this action with this exposure would add nothing to the session.
pub fn knows(earlier: &[Exposed], (provider, action): (&Provider, &Action), exposes: Exposure) -> bool {
    exposes == Exposure::NONE
        || earlier.iter().any(|exposed| {
            exposed.provider == *provider
                && exposed.action == *action
                && exposed.exposes.and(exposes) == exposed.exposes
        })
}

/// The number of earlier actions that each list of [`together`] names; the latest are left out.
const NAMED_MAX: usize = 8;

/// Sorts the earlier actions of a session, and this one, by their exposure.
pub fn together(earlier: &[Exposed], adds: Exposure, reason: usize) -> Together {
    let list = |is: fn(&Exposure) -> bool| -> Vec<Bringer> {
        let bring = |exposed: &&Exposed| is(&exposed.exposes);
        let more = earlier.iter().filter(bring).count().saturating_sub(NAMED_MAX);
        let named = earlier.iter().filter(bring).take(NAMED_MAX).map(|exposed| Bringer {
            action: format!("{}.{}", exposed.provider, exposed.action),
            at: Some(exposed.at),
        });
        let say = |words: String| Bringer { action: words, at: None };
        let this = is(&adds).then(|| say(THIS_CALL.to_owned()));
        named.chain(this).chain((more > 0).then(|| say(format!("{more} more")))).collect()
    };
    Together {
        reason,
        private: list(|exposes| exposes.sensitive),
        others: list(|exposes| exposes.untrusted),
        ways_out: list(|exposes| exposes.egress),
    }
}

/// Notes that the session calls this action with this exposure, with the intent's row.
///
/// # Errors
/// [`StoreError`]; the intent must then not be written.
pub fn expose(
    tx: &Transaction<'_>,
    caller: &str,
    (provider, action): (&Provider, &Action),
    exposes: Exposure,
    intent: i64,
) -> Result<(), StoreError> {
    add(tx, caller, (provider, action.as_str()), exposes, intent)
}

/// Notes that the session's agent has given access to this provider: a way out to another group or to an external
/// agent. `how` is the request that gave it.
///
/// # Errors
/// [`StoreError`]; the grant must then not be written.
pub fn let_out(
    tx: &Transaction<'_>,
    caller: &str,
    (provider, how): (&Provider, &str),
    row: i64,
) -> Result<(), StoreError> {
    add(tx, caller, (provider, how), Exposure { egress: true, ..Exposure::NONE }, row)
}

fn add(
    tx: &Transaction<'_>,
    caller: &str,
    (provider, action): (&Provider, &str),
    exposes: Exposure,
    row: i64,
) -> Result<(), StoreError> {
    const UPSERT: &str = "INSERT INTO exposures VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (caller, provider, action) DO UPDATE SET exposes = exposes | excluded.exposes";
    tx.view()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.execute(params![caller, provider.as_str(), action, bits(exposes), row, tx.now().millis(),]))
        .map_err(at("note the exposure of a session"))?;
    Ok(())
}

/// Returns the keys of the sessions of external agents that have an exposure.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn external(view: &View) -> Result<Vec<String>, StoreError> {
    const SELECT: &str = "SELECT DISTINCT caller FROM exposures
        WHERE caller LIKE 'agent:%' OR caller LIKE 'issuer:%' ORDER BY caller";
    view.prepare_cached(SELECT)
        .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
        .map_err(at("list the sessions of external agents"))
}

/// Returns whether external agents have this session: it has an exposure or a grant.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn is_external(view: &View, session: &str) -> Result<bool, StoreError> {
    let select =
        format!("SELECT EXISTS (SELECT 1 FROM exposures WHERE caller = ?1) OR (SELECT count(*) FROM ({CALLERS})) > 1");
    view.prepare_cached(&select)
        .and_then(|mut s| s.query_row(params![session], |row| row.get(0)))
        .map_err(at("look a session up"))
}

/// Returns whether calls of the session are under way.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn is_under_way(view: &View, session: &str) -> Result<bool, StoreError> {
    let select = format!("SELECT EXISTS (SELECT 1 FROM open_intents WHERE caller IN ({CALLERS}))");
    view.prepare_cached(&select)
        .and_then(|mut s| s.query_row(params![session], |row| row.get(0)))
        .map_err(at("look for the calls of a session"))
}

/// Resets this session. Returns the number of actions that it had called.
///
/// SECURITY: the stored replies of the session are deleted with it. Otherwise its agent could ask for them again and
/// read private data in a session without exposure. A conversation ends with the session: its agent has the data.
///
/// # Errors
/// [`StoreError`]; the session continues.
pub fn reset(tx: &Transaction<'_>, session: &str) -> Result<usize, StoreError> {
    let (replies, withheld) = (
        format!("DELETE FROM replies WHERE caller IN ({CALLERS})"),
        format!("DELETE FROM quarantine WHERE caller IN ({CALLERS})"),
    );
    let conversation = "DELETE FROM conversations WHERE caller = ?1".to_owned();
    for statement in [replies, withheld, conversation] {
        tx.view()
            .prepare_cached(&statement)
            .and_then(|mut s| s.execute(params![session]))
            .map_err(at("forget the exposure of a session"))?;
    }
    tx.view()
        .prepare_cached("DELETE FROM exposures WHERE caller = ?1")
        .and_then(|mut s| s.execute(params![session]))
        .map_err(at("end a session"))
}

fn bits(exposes: Exposure) -> u8 {
    u8::from(exposes.untrusted) | (u8::from(exposes.sensitive) << 1) | (u8::from(exposes.egress) << 2)
}

fn exposure(bits: u8) -> Exposure {
    Exposure { untrusted: bits & 1 != 0, sensitive: bits & 2 != 0, egress: bits & 4 != 0 }
}
