//! The data of the pages, read from the ledger.

use crate::control::approvals::ApprovalRecord;
use config::Config;
use engine::approval_requests::may_answer;
use model::HostName;
use model::approval::{Approval, ApprovalState};
use shared::Timestamp;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use store;
use store::state::approvals;
use store::{StoreError, View};

/// One connection that cannot write, opened when it is needed.
pub(in crate::http) struct ReadPool {
    home: PathBuf,
    reader: Mutex<Option<View>>,
    // The longest time of a read; it then has a connection of its own.
    most: Option<Duration>,
}

/// An approval request with its answers, and the host that asks.
pub(super) struct Listed {
    /// The approval request, its answers, and its outcome.
    pub(super) record: ApprovalRecord,
    /// The other host of the fleet that asks; `None` is this one.
    pub(super) host: Option<HostName>,
}

impl Listed {
    /// Returns the address of its page.
    pub(super) fn path(&self) -> String {
        let reference = self.record.approval.reference();
        match &self.host {
            Some(host) => format!("/hosts/{host}/approvals/{reference}"),
            None => format!("/approvals/{reference}"),
        }
    }
}

/// The content of one person's inbox.
pub(super) struct Waiting {
    /// The pending approval requests that this person may answer, oldest first.
    pub(super) mine: Vec<Listed>,
    /// How many more wait for other people.
    pub(super) elsewhere: usize,
    /// The latest that are over, newest first.
    pub(super) over: Vec<Listed>,
    /// The other hosts that gave no approval requests, with the reasons.
    pub(super) silent: Vec<(HostName, String)>,
}

/// How many that are over are looked at, and shown.
const OVER_SEEN: usize = 50;
const OVER_SHOWN: usize = 8;

impl ReadPool {
    pub(in crate::http) fn new(home: PathBuf) -> Self {
        Self { home, reader: Mutex::new(None), most: None }
    }

    /// Makes a pool whose reads end with an error after this time.
    pub(super) fn within(home: PathBuf, most: Duration) -> Self {
        Self { most: Some(most), ..Self::new(home) }
    }

    /// Looks into the ledger. May wait.
    ///
    /// # Errors
    /// [`StoreError`]; the next look opens it again.
    pub(in crate::http) fn look<T>(&self, look: impl FnOnce(&View) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(most) = self.most {
            return look(&store::reader_until(&self.home, Instant::now() + most)?);
        }
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match reader.take() {
            Some(connection) => connection,
            None => store::reader(&self.home)?,
        };
        let found = look(&connection)?;
        *reader = Some(connection);
        Ok(found)
    }
}

/// Checks whether it waits for a person: it is undecided, and there is time.
pub(super) fn waits(approval: &Approval, now: Timestamp) -> bool {
    approval.state == ApprovalState::Waiting && approval.expires_at > now
}

/// This person's inbox.
pub(super) fn waiting(connection: &View, config: &Config, person: &str, now: Timestamp) -> Result<Waiting, StoreError> {
    let open = approvals::heads(connection)?.into_iter().filter(|approval| waits(approval, now));
    let (mine, others): (Vec<_>, Vec<_>) = open.partition(|approval| may_answer(config, person, approval));
    let over = approvals::closed(connection, OVER_SEEN)?.into_iter();
    let over: Vec<_> = over.filter(|approval| may_answer(config, person, approval)).take(OVER_SHOWN).collect();
    let listed = |approvals: Vec<Approval>| -> Result<Vec<Listed>, StoreError> {
        approvals.into_iter().map(|one| listed(connection, one)).collect()
    };
    Ok(Waiting { mine: listed(mine)?, elsewhere: others.len(), over: listed(over)?, silent: Vec::new() })
}

/// Returns the approval request with this name, if this person may answer it.
pub(super) fn one(
    connection: &View,
    config: &Config,
    person: &str,
    reference: &str,
) -> Result<Option<Listed>, StoreError> {
    let found = approvals::named(connection, reference)?;
    found.filter(|found| may_answer(config, person, found)).map(|found| listed(connection, found)).transpose()
}

fn listed(connection: &View, approval: Approval) -> Result<Listed, StoreError> {
    Ok(Listed { record: ApprovalRecord::of(connection, approval)?, host: None })
}
