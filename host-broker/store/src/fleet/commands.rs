//! The commands that hosts send each other, and what they publish, over a connection of its own.
//!
//! ```text
//! sender: send ──► row ──► take :host        sender: reply ◄── row ◄── answer :host
//! ```
//! The database carries commands and proves nothing. The hosts sign them, and verify them elsewhere. A taken command can
//! no longer be withdrawn. A host that dies takes its unanswered commands again, so each must be safe to repeat.

use super::error::FleetError;
use super::link::{ANSWER, Link, unreachable, within};
use super::servers::Servers;
use super::settings::Settings;
use super::tables;
use model::{HostName, Publication};
use shared::digest::Digest;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, error::SqlState};

/// The most bytes of a command.
pub const COMMAND_MAX: usize = 128 * 1024;
/// The most bytes of a reply.
pub const REPLY_MAX: usize = 8 * 1024 * 1024;
/// The most commands that are taken at once.
const TAKEN_MAX: i64 = 16;
/// The interval at which the rows are read if no notification comes. A pooler drops notifications.
const POLL: Duration = Duration::from_secs(1);
/// The longest name of a channel of notifications.
const CHANNEL_MAX: usize = 63;
/// The interval at which rows that nobody has removed are deleted.
const CLEANED: Duration = Duration::from_secs(3600);

/// A command of another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedCommand {
    /// The host whose role has sent it.
    pub sender: HostName,
    /// Its id: no other command of the sender has it.
    pub id: String,
    /// Its text.
    pub command: String,
    /// Whether it was taken before, so that it may have been executed.
    pub was_taken: bool,
}

/// The state of a command that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentState {
    /// The host has not answered yet.
    Waiting,
    /// The reply. The command is removed.
    Answered(String),
    /// The command is gone, without a reply.
    Gone,
}

/// The commands of one host, in both directions.
pub struct Commands {
    servers: Servers,
    link: Mutex<Option<Arc<Link>>>,
    cleaned: Mutex<Option<Instant>>,
    // The last attempt to connect, and its fault. Those who come soon after do not wait for another one.
    away: Mutex<Option<(Instant, FleetError)>>,
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Commands {
    /// Makes it. It connects when it is used.
    pub fn new(settings: Settings) -> Self {
        let servers = Servers::new(settings);
        Self { servers, link: Mutex::new(None), cleaned: Mutex::new(None), away: Mutex::new(None) }
    }

    /// Returns the name of this host.
    pub fn host(&self) -> &HostName {
        self.servers.settings.host()
    }

    /// Connects, if there is no connection.
    ///
    /// # Errors
    /// [`FleetError`]; nothing was sent.
    pub async fn connect(&self) -> Result<(), FleetError> {
        self.link().await.map(drop)
    }

    /// Sends a command to a host.
    ///
    /// # Errors
    /// [`FleetError::NoHost`], [`FleetError::Left`], [`FleetError::Refused`]: nothing was sent. [`FleetError::Unreachable`]: it may have been
    /// sent; [`Self::reply`] and [`Self::withdraw`] tell.
    pub async fn send(&self, to: &HostName, id: &str, command: &str) -> Result<(), FleetError> {
        const SEND: &str = "WITH sent AS (INSERT INTO host_broker.commands (host, sender, id, command)
                SELECT host, $2, $3, $4 FROM host_broker.hosts WHERE host = $1 AND NOT has_left RETURNING host)
            SELECT pg_notify(left('host_broker.' || host, 63), '') FROM sent";
        self.clean().await?;
        let sent = self.rows(SEND, &[&to.as_str(), &self.host().as_str(), &id, &command]).await?;
        if !sent.is_empty() {
            return Ok(());
        }
        let known = self.rows("SELECT 1 FROM host_broker.hosts WHERE host = $1", &[&to.as_str()]).await?;
        let reason = if known.is_empty() { FleetError::NoHost } else { FleetError::Left };
        Err(reason(to.to_string()))
    }

    /// Waits at most so long until the host has answered a command, and removes the command then.
    ///
    /// # Errors
    /// [`FleetError::Unreachable`]; the command may be executed.
    pub async fn reply(&self, to: &HostName, id: &str, most: Duration) -> Result<SentState, FleetError> {
        const REPLY: &str = "SELECT reply FROM host_broker.commands WHERE host = $1 AND sender = $2 AND id = $3";
        let own = self.host().as_str();
        let began = Instant::now();
        loop {
            let link = self.link().await?;
            let mut notified = pin!(link.notified.notified());
            notified.as_mut().enable();
            let found = self.rows(REPLY, &[&to.as_str(), &own, &id]).await?;
            let Some(row) = found.first() else { return Ok(SentState::Gone) };
            let reply: Option<String> = row.try_get(0).map_err(unreachable)?;
            if let Some(reply) = reply {
                // A row that stays is removed later.
                self.remove(to, self.host(), id).await.ok();
                return Ok(SentState::Answered(reply));
            }
            let left = most.checked_sub(began.elapsed()).filter(|left| !left.is_zero());
            let Some(left) = left else { return Ok(SentState::Waiting) };
            timeout(left.min(POLL), notified).await.ok();
        }
    }

    /// Removes a command, unless the host has taken it. Returns whether it was removed, so that it is never executed.
    ///
    /// # Errors
    /// [`FleetError::Unreachable`]; the command may be executed.
    pub async fn withdraw(&self, to: &HostName, id: &str) -> Result<bool, FleetError> {
        const WITHDRAW: &str =
            "DELETE FROM host_broker.commands WHERE host = $1 AND sender = $2 AND id = $3 AND NOT taken RETURNING 1";
        Ok(!self.rows(WITHDRAW, &[&to.as_str(), &self.host().as_str(), &id]).await?.is_empty())
    }

    /// Takes the commands of these hosts that have no answer, oldest first. Waits at most a second for one.
    ///
    /// # Errors
    /// [`FleetError`]; the next attempt returns them again.
    pub async fn take(&self, senders: &[HostName]) -> Result<Vec<ReceivedCommand>, FleetError> {
        const TAKE: &str = "WITH next AS (SELECT host, sender, id, sent_at, taken FROM host_broker.commands
                WHERE host = $1 AND sender = ANY($2) AND reply IS NULL ORDER BY sent_at, sender, id LIMIT $3
                FOR UPDATE SKIP LOCKED),
            done AS (UPDATE host_broker.commands AS c SET taken = true FROM next
                WHERE c.host = next.host AND c.sender = next.sender AND c.id = next.id
                RETURNING c.sender, c.id, c.command, next.taken, c.sent_at)
            SELECT sender, id, command, taken FROM done ORDER BY sent_at, sender, id";
        self.clean().await?;
        let senders: Vec<&str> = senders.iter().map(HostName::as_str).collect();
        let link = self.link().await?;
        let mut notified = pin!(link.notified.notified());
        notified.as_mut().enable();
        let rows = self.rows(TAKE, &[&self.host().as_str(), &senders, &TAKEN_MAX]).await?;
        if rows.is_empty() {
            timeout(POLL, notified).await.ok();
        }
        rows.iter().map(received).collect()
    }

    /// Answers a command.
    ///
    /// # Errors
    /// [`FleetError`]; the sender has no answer yet, and the command is taken again.
    pub async fn answer(&self, command: &ReceivedCommand, reply: &str) -> Result<(), FleetError> {
        const ANSWER: &str = "WITH answered AS (UPDATE host_broker.commands SET reply = $4
                WHERE host = $1 AND sender = $2 AND id = $3 AND reply IS NULL RETURNING sender)
            SELECT pg_notify(left('host_broker.' || sender, 63), '') FROM answered";
        let sender = command.sender.as_str();
        self.rows(ANSWER, &[&self.host().as_str(), &sender, &command.id, &reply]).await.map(drop)
    }

    /// Asks for the last publication of a host. If it is the known one, or if there is none, this waits at most so long for a
    /// sign of another one.
    ///
    /// # Errors
    /// [`FleetError`].
    pub async fn publication(&self, known: &Publication, most: Duration) -> Result<Heard, FleetError> {
        const PUBLICATION: &str = "SELECT number, digest, CASE WHEN number <> $2 OR digest <> $3 THEN document END
            FROM host_broker.publication WHERE host = $1";
        let Publication { host, number, digest } = known;
        let link = self.link().await?;
        let mut notified = pin!(link.notified.notified());
        notified.as_mut().enable();
        let rows = self.rows(PUBLICATION, &[&host.as_str(), number, &digest.as_bytes().as_slice()]).await?;
        let heard = rows.first().map_or(Ok(Heard::Nothing), heard)?;
        if !matches!(heard, Heard::Other { .. }) {
            timeout(most, notified).await.ok();
        }
        Ok(heard)
    }

    /// Shows other hosts which publication this one uses, and why it cannot use a later one.
    ///
    /// # Errors
    /// [`FleetError`]; the other hosts may see the former state.
    pub async fn show_publication(&self, used: &Publication, fault: &str) -> Result<(), FleetError> {
        const SHOW: &str =
            "UPDATE host_broker.hosts SET follows = $2, publication = $3, publication_fault = left($4, 1000)
            WHERE host = $1 AND role = session_user::text";
        let (own, host) = (self.host().as_str(), used.host.as_str());
        self.rows(SHOW, &[&own, &host, &used.number, &fault]).await.map(drop)
    }

    /// Removes a command of another host without an answer.
    ///
    /// # Errors
    /// [`FleetError`]; it is taken again.
    pub async fn discard(&self, command: &ReceivedCommand) -> Result<(), FleetError> {
        self.remove(self.host(), &command.sender, &command.id).await
    }

    async fn remove(&self, host: &HostName, sender: &HostName, id: &str) -> Result<(), FleetError> {
        const REMOVE: &str = "DELETE FROM host_broker.commands WHERE host = $1 AND sender = $2 AND id = $3";
        self.rows(REMOVE, &[&host.as_str(), &sender.as_str(), &id]).await.map(drop)
    }

    /// Removes rows that nobody has removed, because their sender died.
    async fn clean(&self) -> Result<(), FleetError> {
        const CLEAN: &str = "DELETE FROM host_broker.commands WHERE sent_at < now() - interval '1 hour'";
        let mut cleaned = self.cleaned.lock().await;
        if cleaned.is_none_or(|at| at.elapsed() > CLEANED) {
            self.rows(CLEAN, &[]).await?;
            *cleaned = Some(Instant::now());
        }
        Ok(())
    }

    /// Runs one statement, which is a transaction.
    async fn rows(&self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, FleetError> {
        let link = self.link().await?;
        let found = async {
            link.client.query(statement, parameters).await.map_err(|error| match error.code() {
                // The tables are those of an earlier version.
                Some(code) if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                    FleetError::Refused(format!("{}; upgrade it: host-broker fleet schema | psql URL", code.code()))
                }
                Some(_) | None => unreachable(error),
            })
        };
        let answered = within(ANSWER, found).await;
        // A primary that was cut off from its standbys confirms nothing.
        if matches!(answered, Err(FleetError::Unreachable(_))) {
            let mut known = self.link.lock().await;
            if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &link)) {
                *known = None;
                self.servers.leave();
            }
        }
        answered
    }

    /// Returns the connection, and connects if there is none.
    async fn link(&self) -> Result<Arc<Link>, FleetError> {
        let mut known = self.link.lock().await;
        if let Some(link) = known.as_ref().filter(|link| !link.client.is_closed()) {
            return Ok(Arc::clone(link));
        }
        let mut away = self.away.lock().await;
        if let Some((_, error)) = away.as_ref().filter(|(tried, _)| tried.elapsed() < POLL) {
            return Err(error.clone());
        }
        let opened = self.open().await;
        *away = opened.as_ref().err().map(|error| (Instant::now(), error.clone()));
        Ok(Arc::clone(known.insert(Arc::new(opened?))))
    }

    async fn open(&self) -> Result<Link, FleetError> {
        let link = self.servers.connect(true, 0).await?;
        // The server cuts a longer name of a channel, too.
        let channel: String = format!("host_broker.{}", self.host()).chars().take(CHANNEL_MAX).collect();
        let listen = format!("LISTEN \"{channel}\"");
        within(ANSWER, async { link.client.batch_execute(&listen).await.map_err(unreachable) }).await?;
        Ok(link)
    }
}

/// The last publication of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The host has published nothing.
    Nothing,
    /// It is the known one.
    Same,
    /// It is another one.
    Other {
        /// Its number.
        number: i64,
        /// The digest of the policy, as the database has it.
        digest: Digest,
        /// The document, as its host has written it.
        document: String,
    },
}

fn heard(row: &Row) -> Result<Heard, FleetError> {
    let (number, digest) = (row.try_get(0).map_err(unreachable)?, row.try_get::<_, Vec<u8>>(1).map_err(unreachable)?);
    let document: Option<String> = row.try_get(2).map_err(unreachable)?;
    let Some(document) = document else { return Ok(Heard::Same) };
    // A row that its host has not written is never used: its document has no valid signature.
    let digest = digest.try_into().map_or(Digest::ZERO, Digest::from_bytes);
    Ok(Heard::Other { number, digest, document: tables::decoded(document).unwrap_or_default() })
}

fn received(row: &Row) -> Result<ReceivedCommand, FleetError> {
    let text = |index: usize| row.try_get::<_, String>(index).map_err(unreachable);
    let sender = text(0)?.parse().map_err(|_invalid| FleetError::Row("commands".to_owned()))?;
    Ok(ReceivedCommand { sender, id: text(1)?, command: text(2)?, was_taken: row.try_get(3).map_err(unreachable)? })
}
