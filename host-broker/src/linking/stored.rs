//! The tables of flows, of accounts that wait for a yes, and of credentials. What must not be read is sealed before it
//! comes here; nothing here can open it.

use crate::accounts;
use crate::approvals;
use crate::identity::{Behalf, Person};
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use crate::providers::contract::Renewal;
use crate::vault::{KeyName, Kind, Place, Sealed, Vault};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use shared::{AccountRef, FlowId, Provider, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a flow that is over is remembered, so that whoever asks is told so.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// A flow that can be gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// What goes back to the provider.
    pub sealed: Sealed,
    /// The `state` that the address must come back with.
    pub expected: Option<String>,
    /// How often the provider may be asked how far it is; `None` where it is not asked.
    pub pace: Option<Duration>,
    /// When it was asked last.
    pub polled_at: Option<Timestamp>,
    /// When its time is over.
    pub expires_at: Timestamp,
}

impl Flow {
    /// Whether the provider may be asked now how far it is.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let due = |pace| self.polled_at.is_none_or(|polled| now.since(polled) >= pace);
        self.pace.is_some_and(due)
    }
}

/// Where a flow stands, for whoever began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// There is no such flow of this person in this group, or it was used.
    Missing,
    /// Its time is over.
    Expired,
    /// It can be gone on with.
    Open(Box<Flow>),
    /// It is done, and a person is, or was, asked about the account.
    Asked {
        /// What the provider calls the account.
        account: AccountRef,
        /// What became of the question: `waiting`, `approved`, `denied`, `expired` or `cancelled`.
        state: String,
    },
}

/// Whose a flow is.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The group, as the ledger writes callers.
    pub caller: &'a str,
    /// The person.
    pub person: &'a str,
}

/// A flow to be stored.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its handle.
    pub id: &'a FlowId,
    /// Whose it is.
    pub owner: Owner<'a>,
    /// The same person in full, with the chat.
    pub behalf: &'a Person,
    /// How it can be gone on with.
    pub flow: &'a Flow,
}

/// A flow that a browser brings somebody back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Its handle.
    pub id: FlowId,
    /// The group, as the ledger writes callers.
    pub caller: String,
    /// On whose behalf it was begun.
    pub behalf: Behalf,
}

/// An account about which a person is to be asked.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The number of the question.
    pub approval: i64,
    /// The flow that brought it.
    pub flow: &'a FlowId,
    /// Whose it is.
    pub person: &'a str,
    /// What the provider calls it.
    pub account: &'a AccountRef,
    /// What people call it.
    pub label: Option<&'a str>,
    /// What it is worked with.
    pub sealed: Option<&'a Sealed>,
    /// Until when that can be used without being renewed.
    pub fresh_until: Option<Timestamp>,
    /// Whether the card says that another one makes room for it.
    pub replaces: bool,
}

/// An account that a person has agreed to, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Whose.
    pub person: String,
    /// At which capability.
    pub capability: Provider,
    /// What the provider calls it.
    pub account: AccountRef,
    /// What people call it.
    pub label: Option<String>,
    /// What it is worked with.
    pub sealed: Option<Sealed>,
    /// Until when that can be used without being renewed.
    pub fresh_until: Option<Timestamp>,
    /// Whether the card said that another one makes room for it.
    pub replaces: bool,
}

/// Stores a flow.
///
/// # Errors
/// [`LedgerError`]; there is none then.
pub fn begin(tx: &Transaction<'_>, entry: &Entry<'_>) -> Result<(), LedgerError> {
    const INSERT: &str = "INSERT INTO auth_flows VALUES (?1, ?2, ?3, ?4, ?5, 'open', ?6, ?7, ?8, ?9, ?10, ?11)";
    let Entry { id, owner, behalf, flow } = entry;
    let behalf = serde_json::to_string(behalf).unwrap_or_default();
    let capability = id.capability();
    let pace = flow.pace.map(|pace| i64::try_from(pace.as_millis()).unwrap_or(i64::MAX));
    let with = params![
        id.as_str(),
        owner.caller,
        owner.person,
        behalf,
        capability.as_str(),
        flow.sealed.bytes(),
        flow.expected,
        pace,
        flow.polled_at.map(Timestamp::millis),
        tx.now().millis(),
        flow.expires_at.millis(),
    ];
    change(tx, INSERT, with).map(drop)
}

/// How many flows of this person in this group were begun within the time that one lives at most, whatever became of them.
///
/// # Errors
/// [`LedgerError`] if they cannot be counted; none may then be begun.
pub fn begun_since(connection: &Connection, owner: &Owner<'_>, since: Timestamp) -> Result<usize, LedgerError> {
    const COUNT: &str = "SELECT count(*) FROM auth_flows WHERE caller = ?1 AND person = ?2 AND begun_at > ?3";
    let count: i64 = connection
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row(params![owner.caller, owner.person, since.millis()], |row| row.get(0)))
        .map_err(at("count the flows"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Where a flow of this owner's stands. Another's is missing, like one that never was.
///
/// # Errors
/// [`LedgerError`] if it cannot be read; it may then not be gone on with.
pub fn find(connection: &Connection, owner: &Owner<'_>, id: &FlowId, now: Timestamp) -> Result<Standing, LedgerError> {
    const FIND: &str = "SELECT f.state, f.sealed, f.expected, f.pace_ms, f.polled_at, f.expires_at,
            l.account_ref, l.approval
        FROM auth_flows f LEFT JOIN account_links l ON l.flow = f.id
        WHERE f.id = ?1 AND f.caller = ?2 AND f.person = ?3";
    type Found = (String, Flow, Option<String>, Option<i64>);
    let read = |row: &Row<'_>| -> rusqlite::Result<Found> {
        let pace = row.get::<_, Option<i64>>(3)?.map(|pace| u64::try_from(pace).unwrap_or_default());
        let flow = Flow {
            sealed: Sealed::stored(row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default()),
            expected: row.get(2)?,
            pace: pace.map(Duration::from_millis),
            polled_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
            expires_at: Timestamp::from_millis(row.get(5)?),
        };
        Ok((row.get(0)?, flow, row.get(6)?, row.get(7)?))
    };
    let found = connection
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![id.as_str(), owner.caller, owner.person], read).optional())
        .map_err(at("look a flow up"))?;
    let Some((state, flow, account, approval)) = found else { return Ok(Standing::Missing) };
    if let (Some(account), Some(approval)) = (account, approval) {
        let is_linked = accounts::own(connection, owner.person, &id.capability())?.contains(&account);
        let bad = || LedgerError::Stored { what: "account" };
        let asked = approvals::numbered(connection, approval)?.ok_or_else(bad)?;
        let waits_in_vain = asked.state == approvals::State::Waiting && asked.expires_at <= now;
        let state = match asked.became.as_deref().unwrap_or(asked.state.word()) {
            _ if waits_in_vain => "expired",
            "approved" if !is_linked => "unlinked",
            state => state,
        };
        return Ok(Standing::Asked { account: account.parse().map_err(|_bad| bad())?, state: state.to_owned() });
    }
    Ok(match state.as_str() {
        "open" if flow.expires_at > now => Standing::Open(Box::new(flow)),
        "open" => Standing::Expired,
        _ => Standing::Missing,
    })
}

/// Whether a flow of this owner's is being gone on with, and nobody was asked about an account of it.
///
/// # Errors
/// [`LedgerError`] if it cannot be read; nobody is to be asked then.
pub fn is_under_way(connection: &Connection, owner: &Owner<'_>, id: &FlowId) -> Result<bool, LedgerError> {
    const FIND: &str = "SELECT EXISTS (SELECT 1 FROM auth_flows
        WHERE id = ?1 AND caller = ?2 AND person = ?3 AND state IN ('open', 'spent'))";
    connection
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![id.as_str(), owner.caller, owner.person], |row| row.get(0)))
        .map_err(at("look a flow up"))
}

/// A `state` that is shorter could be guessed, so that nobody is brought back by it.
const STATE_MIN: usize = 16;

/// The one flow that can be gone on with and whose address comes back with this `state`.
///
/// # Errors
/// [`LedgerError`] if it cannot be read; it may then not be gone on with.
pub fn by_state(connection: &Connection, state: &str, now: Timestamp) -> Result<Option<Begun>, LedgerError> {
    const FIND: &str =
        "SELECT id, caller, behalf FROM auth_flows WHERE expected = ?1 AND state = 'open' AND expires_at > ?2 LIMIT 2";
    if state.len() < STATE_MIN {
        return Ok(None);
    }
    let found: Vec<[String; 3]> = connection
        .prepare_cached(FIND)
        .and_then(|mut s| {
            s.query_map(params![state, now.millis()], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?.collect()
        })
        .map_err(at("look a flow up"))?;
    // Where two have the same, nobody can tell whose it is.
    let Ok([[id, caller, behalf]]) = <[[String; 3]; 1]>::try_from(found) else { return Ok(None) };
    let bad = || LedgerError::Stored { what: "flow" };
    let behalf = Behalf::stored(Some(&behalf)).map_err(|_bad| bad())?;
    Ok(Some(Begun { id: id.parse().map_err(|_bad| bad())?, caller, behalf }))
}

/// Whether a flow could be spent, which it can be once.
///
/// # Errors
/// [`LedgerError`]; it is as it was.
pub fn spend(tx: &Transaction<'_>, id: &FlowId) -> Result<bool, LedgerError> {
    let spent =
        change(tx, "UPDATE auth_flows SET state = 'spent' WHERE id = ?1 AND state = 'open'", params![id.as_str()]);
    spent.map(|rows| rows > 0)
}

/// What was spent was spent for nothing: nobody was asked.
///
/// # Errors
/// [`LedgerError`]; it is as it was.
pub fn give_back(tx: &Transaction<'_>, id: &FlowId) -> Result<(), LedgerError> {
    let given = "UPDATE auth_flows SET state = 'open' WHERE id = ?1 AND state = 'spent'";
    change(tx, given, params![id.as_str()]).map(drop)
}

/// Notes that the provider is asked now how far it is.
///
/// # Errors
/// [`LedgerError`].
pub fn polled(tx: &Transaction<'_>, id: &FlowId) -> Result<(), LedgerError> {
    let with = params![id.as_str(), tx.now().millis()];
    change(tx, "UPDATE auth_flows SET polled_at = ?2 WHERE id = ?1", with).map(drop)
}

/// Notes that the provider is to be asked less often.
///
/// # Errors
/// [`LedgerError`].
pub fn slower(tx: &Transaction<'_>, id: &FlowId, pace: Duration) -> Result<(), LedgerError> {
    let with = params![id.as_str(), i64::try_from(pace.as_millis()).unwrap_or(i64::MAX)];
    change(tx, "UPDATE auth_flows SET pace_ms = max(pace_ms, ?2) WHERE id = ?1", with).map(drop)
}

/// Stores an account about which a person is asked. Its flow is done with that.
///
/// # Errors
/// [`LedgerError`]; nothing was stored.
pub fn ask(tx: &Transaction<'_>, link: &Link<'_>) -> Result<(), LedgerError> {
    const INSERT: &str =
        "INSERT INTO account_links VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (flow) DO NOTHING";
    let capability = link.flow.capability();
    let with = params![
        link.approval,
        link.flow.as_str(),
        link.person,
        capability.as_str(),
        link.account.as_str(),
        link.label,
        link.fresh_until.map(Timestamp::millis),
        link.replaces,
        link.sealed.map(Sealed::bytes),
    ];
    change(tx, INSERT, with)?;
    change(
        tx,
        "UPDATE auth_flows SET state = 'asked', sealed = NULL, expected = NULL WHERE id = ?1",
        params![link.flow.as_str()],
    )
    .map(drop)
}

/// The account that this question is about, as long as it is not answered.
///
/// # Errors
/// [`LedgerError`] if it cannot be read; it may then not be linked.
pub fn asked_by(connection: &Connection, approval: i64) -> Result<Option<Asked>, LedgerError> {
    const FIND: &str = "SELECT person, capability, account_ref, label, sealed, fresh_until, replaces
        FROM account_links WHERE approval = ?1";
    let read = |row: &Row<'_>| {
        let texts = [row.get::<_, String>(0)?, row.get(1)?, row.get(2)?];
        Ok((texts, row.get(3)?, row.get::<_, Option<Vec<u8>>>(4)?, row.get::<_, Option<i64>>(5)?, row.get(6)?))
    };
    let found = connection
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![approval], read).optional())
        .map_err(at("look an account up"))?;
    let bad = || LedgerError::Stored { what: "account" };
    found
        .map(|([person, capability, account], label, sealed, fresh_until, replaces)| {
            Ok(Asked {
                person,
                capability: capability.parse().map_err(|_bad| bad())?,
                account: account.parse().map_err(|_bad| bad())?,
                label,
                sealed: sealed.map(Sealed::stored),
                fresh_until: fresh_until.map(Timestamp::from_millis),
                replaces,
            })
        })
        .transpose()
}

/// Forgets what the account of this question would have been called and worked with.
///
/// # Errors
/// [`LedgerError`]; it is as it was.
pub fn drop_asked(tx: &Transaction<'_>, approval: i64) -> Result<(), LedgerError> {
    change(tx, "UPDATE account_links SET sealed = NULL, label = NULL WHERE approval = ?1", params![approval]).map(drop)
}

/// The questions about accounts of this person that wait for an answer: at this capability, of this name, or all.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn waiting(
    connection: &Connection,
    person: &str,
    capability: Option<&Provider>,
    account: Option<&str>,
) -> Result<Vec<i64>, LedgerError> {
    const FIND: &str = "SELECT l.approval FROM account_links l JOIN approvals a ON a.id = l.approval
        WHERE a.state <> 'closed' AND l.person = ?1 AND l.capability = coalesce(?2, l.capability)
          AND l.account_ref = coalesce(?3, l.account_ref)";
    connection
        .prepare_cached(FIND)
        .and_then(|mut s| {
            s.query_map(params![person, capability.map(Provider::as_str), account], |row| row.get(0))?.collect()
        })
        .map_err(at("look accounts up"))
}

/// The questions about accounts that this group has brought up and that wait for an answer.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn waiting_of(connection: &Connection, caller: &str) -> Result<Vec<i64>, LedgerError> {
    const FIND: &str = "SELECT l.approval FROM account_links l JOIN approvals a ON a.id = l.approval
        WHERE a.state <> 'closed' AND a.caller = ?1";
    connection
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_map(params![caller], |row| row.get(0))?.collect())
        .map_err(at("look accounts up"))
}

/// Ends the flows of this group. Says how many there were.
///
/// # Errors
/// [`LedgerError`]; they are as they were.
pub fn end_flows_of(tx: &Transaction<'_>, caller: &str) -> Result<usize, LedgerError> {
    change(tx, "DELETE FROM auth_flows WHERE caller = ?1", params![caller])
}

/// How many questions about accounts of this person wait in this group.
///
/// # Errors
/// [`LedgerError`] if they cannot be counted; none may then be put.
pub fn questions(connection: &Connection, owner: &Owner<'_>) -> Result<usize, LedgerError> {
    const COUNT: &str = "SELECT count(*) FROM account_links l JOIN approvals a ON a.id = l.approval
        WHERE a.state = 'waiting' AND a.caller = ?1 AND l.person = ?2";
    let count: i64 = connection
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row(params![owner.caller, owner.person], |row| row.get(0)))
        .map_err(at("count the questions"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Forgets what was asked about accounts of this person, at this capability or at all.
///
/// # Errors
/// [`LedgerError`]; it is as it was.
pub fn forget_asked(tx: &Transaction<'_>, person: &str, capability: Option<&Provider>) -> Result<(), LedgerError> {
    let delete = "DELETE FROM account_links WHERE person = ?1 AND capability = coalesce(?2, capability)";
    change(tx, delete, params![person, capability.map(Provider::as_str)]).map(drop)
}

/// Ends the flows of this person, at this capability or at all.
///
/// # Errors
/// [`LedgerError`]; they are as they were.
pub fn end_flows(tx: &Transaction<'_>, person: &str, capability: Option<&Provider>) -> Result<(), LedgerError> {
    let end = "DELETE FROM auth_flows WHERE person = ?1 AND capability = coalesce(?2, capability)";
    change(tx, end, params![person, capability.map(Provider::as_str)]).map(drop)
}

/// Stores what an account is worked with from now on; `None` means that the broker has nothing for it.
///
/// # Errors
/// [`LedgerError`]; it is as it was.
pub fn keep_credential(tx: &Transaction<'_>, asked: &Asked) -> Result<(), LedgerError> {
    let Asked { person, capability, account, sealed, fresh_until, .. } = asked;
    let key = params![person, capability.as_str(), account.as_str()];
    let Some(sealed) = sealed else {
        let delete = "DELETE FROM credentials WHERE person = ?1 AND capability = ?2 AND account_ref = ?3";
        return change(tx, delete, key).map(drop);
    };
    let until = fresh_until.map(Timestamp::millis);
    let with = params![person, capability.as_str(), account.as_str(), sealed.bytes(), until, tx.now().millis()];
    change(tx, "INSERT OR REPLACE INTO credentials VALUES (?1, ?2, ?3, ?4, ?5, ?6)", with).map(drop)
}

/// What an account is worked with, if the broker has it, and until when that can be used without being renewed.
///
/// # Errors
/// [`LedgerError`] if it cannot be read; nothing may then be done with the account.
pub fn credential(
    connection: &Connection,
    person: &str,
    capability: &Provider,
    account: &str,
) -> Result<Option<(Sealed, Option<Timestamp>)>, LedgerError> {
    const FIND: &str =
        "SELECT sealed, fresh_until FROM credentials WHERE person = ?1 AND capability = ?2 AND account_ref = ?3";
    let read = |row: &Row<'_>| Ok((Sealed::stored(row.get(0)?), row.get::<_, Option<i64>>(1)?));
    let found = connection
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![person, capability.as_str(), account], read).optional())
        .map_err(at("look a credential up"))?;
    Ok(found.map(|(sealed, until)| (sealed, until.map(Timestamp::from_millis))))
}

/// Puts what an account is worked with from now on in the place of what it was, if it still is that.
///
/// # Errors
/// [`LedgerError`]; it is as it was.
pub fn renew(
    tx: &Transaction<'_>,
    person: &str,
    capability: &Provider,
    account: &str,
    renewal: &Renewal,
) -> Result<(), LedgerError> {
    let Renewal { old, new, fresh_until } = renewal;
    let until = fresh_until.map(Timestamp::millis);
    let key = (person, capability.as_str(), account);
    let with = params![key.0, key.1, key.2, old.bytes(), new.bytes(), until, tx.now().millis()];
    let update = "UPDATE credentials SET sealed = ?5, fresh_until = ?6, stored_at = ?7
        WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND sealed = ?4";
    change(tx, update, with).map(drop)
}

/// Forgets what accounts were worked with: those of this person, at this capability, of this name, or all.
///
/// # Errors
/// [`LedgerError`]; they are as they were.
pub fn drop_credentials(
    tx: &Transaction<'_>,
    person: &str,
    capability: Option<&Provider>,
    account: Option<&str>,
) -> Result<(), LedgerError> {
    let delete = "DELETE FROM credentials WHERE person = ?1 AND capability = coalesce(?2, capability)
        AND account_ref = coalesce(?3, account_ref)";
    change(tx, delete, params![person, capability.map(Provider::as_str), account]).map(drop)
}

/// Forgets what goes back to a provider with flows whose time is over, and those that were over long ago.
///
/// # Errors
/// [`LedgerError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), LedgerError> {
    let (now, before) = (tx.now().millis(), tx.now().minus(REMEMBERED).millis());
    let over = "UPDATE auth_flows SET sealed = NULL, expected = NULL
        WHERE expires_at < ?1 AND (sealed IS NOT NULL OR expected IS NOT NULL)";
    change(tx, over, params![now])?;
    change(tx, "DELETE FROM auth_flows WHERE expires_at < ?1", params![before]).map(drop)
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<usize, LedgerError> {
    tx.connection().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change an account"))
}

/// A record of the vault, and where it is kept.
struct Record {
    table: &'static str,
    person: String,
    capability: Provider,
    name: String,
    sealed: Sealed,
    question: Option<i64>,
}

/// Every record that is sealed.
const RECORDS: [(&str, &str); 3] = [
    ("credentials", "SELECT person, capability, account_ref, sealed, NULL FROM credentials"),
    (
        "account_links",
        "SELECT person, capability, account_ref, sealed, approval FROM account_links WHERE sealed IS NOT NULL",
    ),
    ("auth_flows", "SELECT person, capability, id, sealed, NULL FROM auth_flows WHERE sealed IS NOT NULL"),
];

fn records(connection: &Connection) -> Result<Vec<Record>, LedgerError> {
    let mut all = Vec::new();
    for (table, select) in RECORDS {
        let mut statement = connection.prepare(select).map_err(at("read the vault"))?;
        let rows = statement.query_map([], |row| {
            let sealed = Sealed::stored(row.get(3)?);
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, sealed, row.get(4)?))
        });
        let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(at("read the vault"))?;
        for (person, capability, name, sealed, question) in rows {
            let capability = capability.parse().map_err(|_bad| LedgerError::Stored { what: "capability" })?;
            all.push(Record { table, person, capability, name, sealed, question });
        }
    }
    Ok(all)
}

/// The master keys that records are under, and how many are under each.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn keys_in_use(connection: &Connection) -> Result<BTreeSet<KeyName>, LedgerError> {
    Ok(records(connection)?.iter().filter_map(|record| record.sealed.key_name()).collect())
}

/// How many records there are of a kind: credentials, accounts that wait for a yes, flows.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn count(connection: &Connection) -> Result<[usize; 3], LedgerError> {
    let all = records(connection)?;
    Ok(RECORDS.map(|(table, _)| all.iter().filter(|record| record.table == table).count()))
}

/// What came of sealing every record anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resealed {
    /// How many are under the present master key now and were not before.
    pub renewed: usize,
    /// How many cannot be opened, and are as they were.
    pub unreadable: usize,
    /// How many could not be opened and are gone, with the accounts that they belonged to.
    pub forgotten: usize,
    /// The questions about accounts that could not be opened, which nobody can answer any more.
    pub questions: Vec<i64>,
}

/// Seals every record under the present master key. One that cannot be opened is left as it is, or forgotten.
///
/// # Errors
/// [`LedgerError`]; all of them are as they were, once the transaction is undone.
pub fn reseal(tx: &Transaction<'_>, vault: &Vault, forget: bool) -> Result<Resealed, LedgerError> {
    let mut done = Resealed::default();
    for record in records(tx.connection())? {
        let Record { table, person, capability, name, sealed, question: _ } = &record;
        let what = if *table == "auth_flows" { Kind::Flow } else { Kind::Credential };
        match vault.resealed(&Place { what, person, capability, name }, sealed) {
            Ok(None) => {}
            Ok(Some(renewed)) => done.renewed += record.replace(tx, Some(&renewed))?,
            Err(_) if forget => {
                done.questions.extend(record.question);
                done.forgotten += record.replace(tx, None)?;
            }
            Err(_) => done.unreadable += 1,
        }
    }
    Ok(done)
}

impl Record {
    /// Puts another one in its place, or none. Says in how many rows.
    fn replace(&self, tx: &Transaction<'_>, with: Option<&Sealed>) -> Result<usize, LedgerError> {
        let Self { table, person, capability, name, sealed, question: _ } = self;
        let is_credential = *table == "credentials";
        let key = if *table == "auth_flows" { "id" } else { "account_ref" };
        let statement = match with {
            Some(_) => format!("UPDATE {table} SET sealed = ?5"),
            None if *table == "account_links" => format!("UPDATE {table} SET sealed = NULL"),
            None => format!("DELETE FROM {table}"),
        };
        // The record itself is part of the condition: two questions may be about one account.
        let which = format!("person = ?1 AND capability = ?2 AND {key} = ?3 AND sealed = ?4");
        let statement = format!("{statement} WHERE {which} AND ?5 IS ?5");
        let bytes = with.map(Sealed::bytes);
        let rows = change(tx, &statement, params![person, capability.as_str(), name, sealed.bytes(), bytes])?;
        if with.is_none() && is_credential {
            accounts::unlink(tx, person, Some(capability), Some(name))?;
        }
        Ok(rows)
    }
}
