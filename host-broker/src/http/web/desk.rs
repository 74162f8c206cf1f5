//! What the pages show, read from the ledger.

use crate::approvals::{self, Answered, Approval, State};
use crate::config::Config;
use crate::ledger::{LedgerError, open};
use crate::questions::may_answer;
use rusqlite::Connection;
use shared::Timestamp;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// One connection that cannot write, opened when it is needed.
pub(in crate::http) struct Desk {
    home: PathBuf,
    reader: Mutex<Option<Connection>>,
}

/// A question, and what was answered.
pub(super) struct Listed {
    /// The question.
    pub(super) approval: Approval,
    /// The answers so far.
    pub(super) answers: Vec<Answered>,
}

/// What one person's inbox holds.
pub(super) struct Waiting {
    /// What waits and this person may answer, oldest first.
    pub(super) mine: Vec<Listed>,
    /// How many more wait for other people.
    pub(super) elsewhere: usize,
    /// The latest that are over, newest first.
    pub(super) over: Vec<Listed>,
}

/// How many that are over are looked at, and shown.
const OVER_SEEN: usize = 50;
const OVER_SHOWN: usize = 8;

impl Desk {
    pub(super) fn new(home: PathBuf) -> Self {
        Self { home, reader: Mutex::new(None) }
    }

    /// Looks into the ledger. May wait.
    ///
    /// # Errors
    /// [`LedgerError`]; the next look opens it anew.
    pub(in crate::http) fn look<T>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match reader.take() {
            Some(connection) => connection,
            None => open::reader(&self.home)?,
        };
        let found = look(&connection)?;
        *reader = Some(connection);
        Ok(found)
    }
}

/// Whether it waits for a person: nobody has decided, and there is time.
pub(super) fn waits(approval: &Approval, now: Timestamp) -> bool {
    approval.state == State::Waiting && approval.expires_at > now
}

/// This person's inbox.
pub(super) fn waiting(
    connection: &Connection,
    config: &Config,
    person: &str,
    now: Timestamp,
) -> Result<Waiting, LedgerError> {
    let open = approvals::heads(connection)?.into_iter().filter(|approval| waits(approval, now));
    let (mine, others): (Vec<_>, Vec<_>) = open.partition(|approval| may_answer(config, person, approval));
    let over = approvals::closed(connection, OVER_SEEN)?.into_iter();
    let over: Vec<_> = over.filter(|approval| may_answer(config, person, approval)).take(OVER_SHOWN).collect();
    let listed = |approvals: Vec<Approval>| -> Result<Vec<Listed>, LedgerError> {
        approvals.into_iter().map(|one| listed(connection, one)).collect()
    };
    Ok(Waiting { mine: listed(mine)?, elsewhere: others.len(), over: listed(over)? })
}

/// The question with this name, if this person may answer it.
pub(super) fn one(
    connection: &Connection,
    config: &Config,
    person: &str,
    reference: &str,
) -> Result<Option<Listed>, LedgerError> {
    let found = approvals::named(connection, reference)?;
    found.filter(|found| may_answer(config, person, found)).map(|found| listed(connection, found)).transpose()
}

fn listed(connection: &Connection, approval: Approval) -> Result<Listed, LedgerError> {
    let answers = approvals::answers(connection, approval.id)?;
    Ok(Listed { approval, answers })
}
