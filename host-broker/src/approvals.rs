//! A person's yes to exactly this: what is asked, who answered, and what became of it.
//!
//! An approval belongs to one request. Its digest covers everything that was shown, it is spent in the very transaction
//! that writes the call's intent, and silence is a no. Nothing of it lies where a sandbox can write.
//!
//! ```text
//! waiting ──► approved ──► closed (spent by the intent, or refused after all)
//!    ├──────► denied ────► closed
//!    ├──────► expired ───► closed
//!    └──────► cancelled ─► closed
//! ```
//! From every state but `waiting` and `closed` the request is admitted again, at once or at the next start. A proposal
//! is not: its request was over when it was proposed, and whoever applies it spends the yes.

pub mod card;
pub mod sealing;

use crate::call::Call;
use crate::effects::ids::{Ids, NoRandomness};
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use crate::policy::authorize::Policy;
use crate::proposals::ProposalId;
use crate::providers::contract::Invocation;
use crate::providers::sealed::Sealed;
use card::Card;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::json;
use shared::digest::Digest;
use shared::{Action, Group, Level, Provider, RequestId, Timestamp};

/// How many questions of one caller may be open at once.
pub const OPEN_MAX: usize = 20;

/// What a person is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call, which runs after a yes.
    Call,
    /// A grant above what the main group may give by itself.
    Grant,
    /// Changes to files, which may be applied after a yes.
    File,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Call, Self::Grant, Self::File];

    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Grant => "grant",
            Self::File => "file",
        }
    }
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody has decided.
    Waiting,
    /// Enough people said yes.
    Approved,
    /// A person said no.
    Denied,
    /// Nobody said anything in time.
    Expired,
    /// The caller does not want it any more.
    Cancelled,
    /// It is over.
    Closed,
}

impl State {
    const ALL: [Self; 6] = [Self::Waiting, Self::Approved, Self::Denied, Self::Expired, Self::Cancelled, Self::Closed];

    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
        }
    }
}

/// A stored approval.
#[derive(Clone, PartialEq)]
pub struct Approval {
    /// Its number.
    pub id: i64,
    /// What approvers answer with. An agent never learns it.
    pub code: String,
    /// What it is about.
    pub kind: Kind,
    /// Who asks, as the ledger writes callers.
    pub caller: String,
    /// Whose calls, access or files it is about.
    pub group: Option<Group>,
    /// The request; of a proposal a name that nobody else knows.
    pub request_id: RequestId,
    /// The reply's name, where the document had no id of its own.
    pub reply_as: Option<RequestId>,
    /// The provider.
    pub provider: Provider,
    /// The action; of a grant `grant`.
    pub action: Action,
    /// The level that the call demands, or the grant gives.
    pub level: Level,
    /// Of everything that was agreed to.
    pub digest: Digest,
    /// How many different people it takes.
    pub quorum: usize,
    /// Where it stands.
    pub state: State,
    /// How it ended, once it is closed.
    pub became: Option<String>,
    /// The row that says that a person was asked.
    pub asked_seq: i64,
    /// When.
    pub asked_at: Timestamp,
    /// When silence becomes a no.
    pub expires_at: Timestamp,
    /// When the caller stops waiting.
    pub reply_by: Timestamp,
    /// Whether the caller has had its one reply.
    pub told: bool,
    /// What is shown, until it is closed.
    pub card: Option<Card>,
}

impl Approval {
    /// The agent's name for it.
    pub fn reference(&self) -> String {
        reference(self.asked_seq)
    }
}

impl std::fmt::Debug for Approval {
    /// Without the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approval({}, {})", self.reference(), self.state.word())
    }
}

/// The agent's name for the question that this row asks.
pub fn reference(asked_seq: i64) -> String {
    format!("ask-{asked_seq}")
}

/// What one person answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Answered {
    /// Who, as the ledger writes callers.
    pub by: String,
    /// Through which channel: `cli`, `web`.
    pub channel: String,
    /// Yes, or no.
    pub yes: bool,
    /// Why, in the person's words.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A question to be asked.
pub struct Question<'a> {
    /// What approvers will answer with.
    pub code: &'a str,
    /// What it is about.
    pub kind: Kind,
    /// Where it stands from the first.
    pub state: State,
    /// Who asks, as the ledger writes callers.
    pub caller: &'a str,
    /// Whose calls, access or files it is about.
    pub group: &'a Group,
    /// The request.
    pub request_id: &'a RequestId,
    /// The reply's name, where the document had no id of its own.
    pub reply_as: Option<&'a RequestId>,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The level that it demands, or gives.
    pub level: Level,
    /// What is admitted again after the answer.
    pub document: Option<&'a [u8]>,
    /// Of everything that is agreed to.
    pub digest: Digest,
    /// How many must say yes.
    pub quorum: usize,
    /// The row that says that a person is asked.
    pub asked_seq: i64,
    /// When silence becomes a no.
    pub expires_at: Timestamp,
    /// When the caller stops waiting.
    pub reply_by: Timestamp,
    /// What is shown.
    pub card: &'a Card,
}

/// What of a call a person agrees to, and the request in which it leaves. Keyed, because the parameters' digest is.
pub fn digest_of(call: &Call, sealed: Option<&Sealed>, policy: &Policy) -> Digest {
    let declared = call.target.operation().map(|operation| {
        let declaration = operation.declaration();
        let schema = Digest::of(&shared::json::canonical(&declaration.input_schema));
        json!([declaration.level, schema, declaration.description])
    });
    let mut agreed = json!({
        "caller": call.header.caller_key,
        "provider": call.provider,
        "action": call.action,
        "level": call.target.demanded(),
        "declared": declared,
        "provider_settings": policy.settings.get(&call.provider),
        "params": call.params_digest,
        "task": call.task_id,
        "account": call.account_ref,
        "idempotency_key": call.idempotency_key,
        "precondition": call.target.invocation().and_then(Invocation::precondition),
    });
    if let (Some(sealed), Some(members)) = (sealed, agreed.as_object_mut()) {
        members.insert("sealed".into(), json!(sealed.digest()));
    }
    Digest::of(&shared::json::canonical(&agreed))
}

/// What of a proposal a person agrees to: the whole diff, and how the provider is set up.
pub fn digest_of_proposal(
    caller: &str,
    provider: &Provider,
    policy: &Policy,
    id: &ProposalId,
    patch_hash: Digest,
    free: bool,
) -> Digest {
    Digest::of(&shared::json::canonical(&json!({
        "caller": caller,
        "provider": provider,
        "provider_settings": policy.settings.get(provider),
        "proposal": id,
        "diff": patch_hash,
        // Where nobody was asked, the profiles said so; others may not.
        "profiles": free.then(|| policy.profiles.version()),
    })))
}

/// The alphabet of codes: no letter or digit that is taken for another when it is read aloud.
const ALPHABET: &[u8; 30] = b"23456789abcdefghjkmnpqrstvwxyz";
const CODE_LENGTH: usize = 6;

/// A fresh code that was never used.
///
/// # Errors
/// [`LedgerError`], and inside [`NoRandomness`]; nobody can be asked then.
pub fn fresh_code(
    ids: &dyn Ids,
    is_taken: impl Fn(&str) -> Result<bool, LedgerError>,
) -> Result<Result<String, NoRandomness>, LedgerError> {
    loop {
        let mut code = String::new();
        while code.len() < CODE_LENGTH {
            let mut bytes = [0; 16];
            if let Err(none) = ids.fill(&mut bytes) {
                return Ok(Err(none));
            }
            // Bytes beyond the last whole alphabet would make some letters likelier.
            let even = bytes.into_iter().filter(|byte| usize::from(*byte) < 256 / ALPHABET.len() * ALPHABET.len());
            let letters = even.filter_map(|byte| ALPHABET.get(usize::from(byte) % ALPHABET.len()).copied());
            code.extend(letters.map(char::from));
        }
        code.truncate(CODE_LENGTH);
        if !is_taken(&code)? {
            return Ok(Ok(code));
        }
    }
}

const COLUMNS: &str = "id, code, caller, request_id, reply_as, provider, action, level, digest, quorum, state, became, \
     asked_seq, asked_at, expires_at, reply_by, told, kind, for_group";

/// Without the cards, which may be long, and which only people look at.
fn find(connection: &Connection, condition: &str, with: impl rusqlite::Params) -> Result<Vec<Approval>, LedgerError> {
    select(connection, "NULL", condition, with)
}

fn select(
    connection: &Connection,
    card: &str,
    condition: &str,
    with: impl rusqlite::Params,
) -> Result<Vec<Approval>, LedgerError> {
    let statement = format!("SELECT {COLUMNS}, {card} FROM approvals WHERE {condition}");
    let mut statement = connection.prepare_cached(&statement).map_err(at("look approvals up"))?;
    let mut rows = statement.query(with).map_err(at("look approvals up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look approvals up"))? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<Approval, LedgerError> {
    let bad = |what: &'static str| LedgerError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read an approval"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read an approval"));
    let optional = |index: usize| row.get::<_, Option<String>>(index).map_err(at("read an approval"));
    let state = text(10)?;
    let (kind, group) = (text(17)?, optional(18)?);
    let caller = text(2)?;
    let group = group.as_deref().or_else(|| caller.strip_prefix("group:"));
    let card = optional(19)?.map(|card| serde_json::from_str(&card).map_err(|_bad| bad("card"))).transpose()?;
    Ok(Approval {
        id: number(0)?,
        code: text(1)?,
        kind: Kind::ALL.into_iter().find(|known| known.word() == kind).ok_or_else(|| bad("kind"))?,
        group: group.map(|group| group.parse().map_err(|_bad| bad("group"))).transpose()?,
        caller,
        request_id: text(3)?.parse().map_err(|_bad| bad("request id"))?,
        reply_as: optional(4)?.map(|id| id.parse().map_err(|_bad| bad("request id"))).transpose()?,
        provider: text(5)?.parse().map_err(|_bad| bad("provider"))?,
        action: text(6)?.parse().map_err(|_bad| bad("action"))?,
        level: crate::ledger::store::level(number(7)?)?,
        digest: Digest::from_bytes(row.get(8).map_err(at("read an approval"))?),
        quorum: usize::try_from(number(9)?).map_err(|_bad| bad("quorum"))?,
        state: State::ALL.into_iter().find(|known| known.word() == state).ok_or_else(|| bad("state"))?,
        became: optional(11)?,
        asked_seq: number(12)?,
        asked_at: Timestamp::from_millis(number(13)?),
        expires_at: Timestamp::from_millis(number(14)?),
        reply_by: Timestamp::from_millis(number(15)?),
        told: number(16)? != 0,
        card,
    })
}

/// The approval that belongs to this request.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn of_request(connection: &Connection, caller: &str, id: &RequestId) -> Result<Option<Approval>, LedgerError> {
    find(connection, "caller = ?1 AND request_id = ?2", params![caller, id.as_str()])
        .map(|found| found.into_iter().next())
}

/// The approval that is answered with this code.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn with_code(connection: &Connection, code: &str) -> Result<Option<Approval>, LedgerError> {
    select(connection, "card", "code = ?1", params![code]).map(|found| found.into_iter().next())
}

/// The approval with this number.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn numbered(connection: &Connection, id: i64) -> Result<Option<Approval>, LedgerError> {
    find(connection, "id = ?1", params![id]).map(|found| found.into_iter().next())
}

/// The approval with this number, with what is shown of it.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn with_id(connection: &Connection, id: i64) -> Result<Option<Approval>, LedgerError> {
    select(connection, "card", "id = ?1", params![id]).map(|found| found.into_iter().next())
}

/// Every approval that is not closed, oldest first; of one caller, or of all.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn open(connection: &Connection, caller: Option<&str>) -> Result<Vec<Approval>, LedgerError> {
    find(connection, "state <> 'closed' AND (?1 IS NULL OR caller = ?1) ORDER BY id", params![caller])
}

/// Every approval that is not closed, oldest first, with what is shown of it.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn shown(connection: &Connection) -> Result<Vec<Approval>, LedgerError> {
    select(connection, "card", "state <> 'closed' ORDER BY id", [])
}

/// Every approval that is not closed, oldest first, with who asks and why, but without the parameters.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn heads(connection: &Connection) -> Result<Vec<Approval>, LedgerError> {
    const HEAD: &str = "iif(card IS NULL, NULL, json_object('head', json_extract(card, '$.head'), \
         'params', json_array(), 'reasons', json_extract(card, '$.reasons')))";
    select(connection, HEAD, "state <> 'closed' ORDER BY id", [])
}

/// The approval with this name, with what is shown of it.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn named(connection: &Connection, reference: &str) -> Result<Option<Approval>, LedgerError> {
    let Some(seq) = asked_seq(reference) else { return Ok(None) };
    select(connection, "card", "asked_seq = ?1", params![seq]).map(|found| found.into_iter().next())
}

/// The row behind a name, if it is one, written as the function `reference` writes it.
fn asked_seq(name: &str) -> Option<i64> {
    let seq = name.strip_prefix("ask-")?.parse().ok()?;
    (reference(seq) == name).then_some(seq)
}

/// The approval that a caller knows by this name.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn referred(connection: &Connection, caller: &str, reference: &str) -> Result<Option<Approval>, LedgerError> {
    let Some(seq) = reference.strip_prefix("ask-").and_then(|seq| seq.parse::<i64>().ok()) else { return Ok(None) };
    find(connection, "caller = ?1 AND asked_seq = ?2", params![caller, seq]).map(|found| found.into_iter().next())
}

/// The latest closed ones, newest first.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn closed(connection: &Connection, most: usize) -> Result<Vec<Approval>, LedgerError> {
    find(connection, "state = 'closed' ORDER BY id DESC LIMIT ?1", params![i64::try_from(most).unwrap_or(i64::MAX)])
}

/// Those to which nobody has said anything in time.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn overdue(connection: &Connection, now: Timestamp) -> Result<Vec<Approval>, LedgerError> {
    find(connection, "state = 'waiting' AND expires_at <= ?1 ORDER BY id", params![now.millis()])
}

/// When the next silence becomes a no.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn next_expiry(connection: &Connection) -> Result<Option<Timestamp>, LedgerError> {
    let first: Option<i64> = connection
        .prepare_cached("SELECT min(expires_at) FROM approvals WHERE state = 'waiting'")
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(at("look for the next expiry"))?;
    Ok(first.map(Timestamp::from_millis))
}

/// The document of the request that waits, and what it asks.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn document(connection: &Connection, caller: &str, id: &RequestId) -> Result<Option<(Kind, Vec<u8>)>, LedgerError> {
    let found: Option<(String, Option<Vec<u8>>)> = connection
        .prepare_cached("SELECT kind, document FROM approvals WHERE caller = ?1 AND request_id = ?2")
        .and_then(|mut s| s.query_row(params![caller, id.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(at("read a request that waits"))?;
    let Some((kind, Some(document))) = found else { return Ok(None) };
    let kind = Kind::ALL.into_iter().find(|known| known.word() == kind);
    Ok(Some((kind.ok_or(LedgerError::Stored { what: "kind" })?, document)))
}

/// What was answered, oldest first.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn answers(connection: &Connection, approval: i64) -> Result<Vec<Answered>, LedgerError> {
    connection
        .prepare_cached("SELECT by, channel, yes, reason, at FROM approval_answers WHERE approval = ?1 ORDER BY at, by")
        .and_then(|mut s| {
            s.query_map(params![approval], |row| {
                Ok(Answered {
                    by: row.get(0)?,
                    channel: row.get(1)?,
                    yes: row.get(2)?,
                    reason: row.get(3)?,
                    at: Timestamp::from_millis(row.get(4)?),
                })
            })?
            .collect()
        })
        .map_err(at("read the answers"))
}

/// Stores a question, and says under which number.
///
/// # Errors
/// [`LedgerError`]; nobody is asked.
pub fn ask(tx: &Transaction<'_>, question: &Question<'_>) -> Result<i64, LedgerError> {
    const INSERT: &str = "INSERT INTO approvals
        (code, kind, caller, for_group, request_id, reply_as, provider, action, level, digest, quorum, state, asked_seq,
         asked_at, expires_at, reply_by, told, card, document)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?18, ?12, ?13, ?14, ?15, 0, ?16, ?17)";
    let card = serde_json::to_string(question.card).map_err(|_bad| LedgerError::Stored { what: "card" })?;
    tx.connection()
        .prepare_cached(INSERT)
        .and_then(|mut s| {
            s.insert(params![
                question.code,
                question.kind.word(),
                question.caller,
                question.group.as_str(),
                question.request_id.as_str(),
                question.reply_as.map(RequestId::as_str),
                question.provider.as_str(),
                question.action.as_str(),
                i64::from(question.level.number()),
                question.digest.as_bytes(),
                i64::try_from(question.quorum).unwrap_or(i64::MAX),
                question.asked_seq,
                tx.now().millis(),
                question.expires_at.millis(),
                question.reply_by.millis(),
                card,
                question.document,
                question.state.word(),
            ])
        })
        .map_err(at("store a question"))
}

/// Stores an answer; `false` if this person has answered before.
///
/// # Errors
/// [`LedgerError`]; nothing was answered.
pub fn answer(tx: &Transaction<'_>, approval: i64, answered: &Answered) -> Result<bool, LedgerError> {
    let stored = tx
        .connection()
        .prepare_cached("INSERT INTO approval_answers VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING")
        .and_then(|mut s| {
            s.execute(params![
                approval,
                answered.by,
                answered.channel,
                answered.yes,
                answered.reason,
                answered.at.millis()
            ])
        })
        .map_err(at("store an answer"))?;
    Ok(stored == 1)
}

/// Stores a no in place of what the person has said before.
///
/// # Errors
/// [`LedgerError`]; nothing was answered.
pub fn retract(tx: &Transaction<'_>, approval: i64, answered: &Answered) -> Result<(), LedgerError> {
    let forget = "DELETE FROM approval_answers WHERE approval = ?1 AND by = ?2";
    tx.connection()
        .prepare_cached(forget)
        .and_then(|mut s| s.execute(params![approval, answered.by]))
        .map_err(at("store an answer"))?;
    answer(tx, approval, answered).map(drop)
}

/// Moves an approval on from `waiting`; an approved one that has not started can still be cancelled, and changes to files
/// that nobody has applied can still be denied.
///
/// # Errors
/// [`LedgerError`], also if it stands elsewhere.
pub fn resolve(tx: &Transaction<'_>, approval: i64, state: State) -> Result<(), LedgerError> {
    const UPDATE: &str = "UPDATE approvals SET state = ?2
         WHERE id = ?1 AND (state = 'waiting' OR state = 'approved' AND (?2 = 'cancelled' OR kind = 'file'))";
    changed_one(tx, UPDATE, params![approval, state.word()])
}

/// Spends an approval for an intent: once, and only while it is approved.
///
/// # Errors
/// [`LedgerError`], also if it is not approved or was spent before; the intent must then not be written.
pub fn spend(tx: &Transaction<'_>, approval: i64) -> Result<(), LedgerError> {
    const UPDATE: &str =
        "UPDATE approvals SET state = 'closed', became = 'spent', card = NULL, document = NULL, sealed = NULL
         WHERE id = ?1 AND state = 'approved'";
    changed_one(tx, UPDATE, params![approval])
}

/// Closes an approval that came to nothing, unless it is closed.
///
/// # Errors
/// [`LedgerError`].
pub fn close(tx: &Transaction<'_>, caller: &str, id: &RequestId, became: &str) -> Result<(), LedgerError> {
    tx.connection()
        .prepare_cached(
            "UPDATE approvals SET state = 'closed', became = ?3, card = NULL, document = NULL, sealed = NULL
             WHERE caller = ?1 AND request_id = ?2 AND state <> 'closed'",
        )
        .and_then(|mut s| s.execute(params![caller, id.as_str(), became]))
        .map_err(at("close an approval"))?;
    Ok(())
}

/// Notes that the caller has had its one reply, `pending`.
///
/// # Errors
/// [`LedgerError`], also if it had one.
pub fn tell(tx: &Transaction<'_>, approval: i64) -> Result<(), LedgerError> {
    changed_one(tx, "UPDATE approvals SET told = 1 WHERE id = ?1 AND told = 0", params![approval])
}

/// Whether the request's caller has been told that a person is asked: then what becomes of it is kept, and not handed
/// over.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn is_told(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<bool, LedgerError> {
    tx.connection()
        .prepare_cached("SELECT 1 FROM approvals WHERE caller = ?1 AND request_id = ?2 AND told = 1")
        .and_then(|mut s| s.exists(params![caller, id.as_str()]))
        .map_err(at("look a reply up"))
}

fn changed_one(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<(), LedgerError> {
    let changed = tx
        .connection()
        .prepare_cached(statement)
        .and_then(|mut s| s.execute(with))
        .map_err(at("change an approval"))?;
    if changed == 1 { Ok(()) } else { Err(LedgerError::Stored { what: "approval" }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Counted(AtomicU64);

    impl Ids for Counted {
        fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
            let digest = Digest::of(&self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            buffer.iter_mut().zip(digest.as_bytes()).for_each(|(byte, with)| *byte = *with);
            Ok(())
        }
    }

    #[test]
    fn a_code_is_six_letters_of_the_alphabet_and_never_one_that_was_used() {
        let ids = Counted(AtomicU64::new(0));
        let mut used = BTreeSet::new();
        let mut letters = BTreeSet::new();
        for _ in 0..2_000 {
            let code = fresh_code(&ids, |_| Ok(false)).unwrap().unwrap();
            assert_eq!(code.len(), CODE_LENGTH);
            letters.extend(code.bytes());
            used.insert(code);
        }
        assert_eq!(letters, ALPHABET.iter().copied().collect());
        assert!(used.len() > 1_990, "{}", used.len());
        let refused = Cell::new(0);
        let taken = |_: &str| {
            refused.set(refused.get() + 1);
            Ok(refused.get() <= 3)
        };
        assert!(!fresh_code(&ids, taken).unwrap().unwrap().is_empty());
        assert_eq!(refused.get(), 4);
    }
}
