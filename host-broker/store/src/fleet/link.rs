//! One connection to the database, and the transaction of a batch over it.
//!
//! INVARIANT: a batch counts as written only if every statement and the COMMIT succeeded without a warning. PostgreSQL
//! answers the COMMIT of a failed transaction without an error, and warns of a commit that no standby has.

use super::error::FleetError;
use super::flight::{Asked, Flight};
use super::look;
use super::server::{BATCH, Batch};
use super::settings::{Connected, Settings};
use super::tables::{Rows, TABLES_VERSION, Table, Values};
use crate::shared_use::{Counted, SharedCharge};
use model::Publication;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage, Statement};

/// The longest time to answer a statement that waits for nothing.
pub(super) const ANSWER: Duration = Duration::from_secs(5);
/// The settings of each connection, for every role and database. Plans for empty tables would stay in use when
/// the tables grow. A bitmap reads the entries of all deleted rows again each time, and an index scan only once. A
/// statement waits less long for a lock than a batch may take.
const SESSION: &str = "SET standard_conforming_strings = on; SET client_min_messages = warning; SET row_security = on;
    SET synchronous_commit = on; SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off; SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '8s';
    SET statement_timeout = 0; SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET application_name = 'host-broker'";
/// The states of a batch that `enter` refused.
const FENCED: &str = "HB001";
const OTHER_VERSION: &str = "HB003";
const UNSYNCED: &str = "HB004";
const NO_STANDBY: &str = "HB005";
/// The states of a charge that a shared quota does not permit, and of one that another host holds up. The detail is the
/// use, the seconds until the quota begins again, the provider and the scope.
const USED_UP: &str = "HB006";
const HELD: &str = "HB007";
/// Charges a shared quota of the open transaction.
const CHARGE: &str = "SELECT used, left_s FROM host_broker.charge($1::text, $2::bigint, $3::text, $4::text, $5::bigint, \
    $6::bigint, $7::bigint)";
/// The state of a batch whose publication of the policy is not in force.
const STALE: &str = "HB008";
/// The state of a batch whose publication other hosts hold up, because they still use the former one.
const STILL_USED: &str = "HB009";
/// Checks that a publication of the policy is in force until the commit.
const HOLD_TO: &str = "SELECT host_broker.hold_to($1::text, $2::bigint, $3::bytea)";
/// The longest time until a quota begins again that is believed.
const LEFT_MAX: i64 = 1_000_000_000;

/// The beginnings of the states of a server that ends, only reads, is full, or waits for a lock. Each event would have the
/// same answer.
const AWAY: [&str; 8] = ["08", "25006", "25P03", "40", "53", "55P03", "57014", "57P"];

/// The text about a commit with a warning.
const WARNED: &str = "it warned: no standby may have the rows";
/// The text about a commit after which the settings of the server are others.
const NO_LONGER_KEEPS: &str = "its settings have changed: no standby may have the rows";

/// One connection.
pub(super) struct Link {
    pub(super) client: Client,
    // The number of warnings so far.
    warnings: Arc<AtomicU64>,
    /// Wakes those who wait for a notification.
    pub(super) notified: Arc<Notify>,
    // The statements that write and delete rows of a table, by its number.
    statements: BTreeMap<(usize, bool, Rows), Statement>,
    // The statement that charges a shared quota.
    charge: Option<Statement>,
    // The statement that checks a publication.
    hold_to: Option<Statement>,
    /// Whether a server without a synchronous standby is accepted.
    accepts_one_machine: bool,
}

impl Link {
    /// Connects to a server, if it has this batch of the host. If `must_keep`, its settings must keep what it acknowledges.
    pub(super) async fn open(
        settings: &Settings,
        server: &tokio_postgres::Config,
        (must_keep, batch): (bool, i64),
    ) -> Result<Self, FleetError> {
        let (client, connection) = settings.connect(server).await?;
        let warnings = Arc::new(AtomicU64::new(0));
        let notified = Arc::new(Notify::new());
        tokio::spawn(drive(connection, Arc::clone(&warnings), Arc::clone(&notified)));
        client.batch_execute(SESSION).await.map_err(unreachable)?;
        let accepts_one_machine = settings.accepts_one_machine;
        let (statements, charge, hold_to) = (BTreeMap::new(), None, None);
        let link = Self { client, warnings, notified, statements, charge, hold_to, accepts_one_machine };
        if must_keep {
            // Another server may have taken over, with other settings.
            look::check_durability(&link.ask(look::SETTINGS).await?, accepts_one_machine)?;
        }
        if batch > 0 {
            link.check_has(settings.host.as_str(), batch).await?;
        }
        Ok(link)
    }

    /// Checks that the server has a batch of the host. A former primary, or one that was restored, may lack it.
    async fn check_has(&self, host: &str, batch: i64) -> Result<(), FleetError> {
        const BATCH: &str = "SELECT batch FROM host_broker.hosts WHERE host = $1 AND role = session_user::text";
        let row = self.client.query_opt(BATCH, &[&host]).await.map_err(unreachable)?;
        let row = row.ok_or_else(|| FleetError::NoHost(host.to_owned()))?;
        let last: i64 = row.try_get(0).map_err(unreachable)?;
        if last >= batch { Ok(()) } else { Err(FleetError::Older { database: last, home: batch }) }
    }

    /// Returns whether the server keeps what it has acknowledged until now. If somebody turns its standby off, it
    /// acknowledges the commits that wait for the standby. The query is a message of its own, because the server reads
    /// changed settings between messages only.
    async fn keeps(&self) -> Result<bool, tokio_postgres::Error> {
        let rows = rows(self.client.simple_query(look::SETTINGS).await?);
        Ok(look::check_durability(&rows, self.accepts_one_machine).is_ok())
    }

    /// Returns the rows of a query without parameters, as text.
    pub(super) async fn ask(&self, query: &str) -> Result<Vec<Vec<String>>, FleetError> {
        Ok(rows(self.client.simple_query(query).await.map_err(unreachable)?))
    }

    /// Runs a statement that changes the row of the host. Returns the row as it is then, if the statement found it.
    ///
    /// # Errors
    /// [`FleetError::Unreachable`]; the change may have been committed. A warning is an error: no standby may have it.
    pub(super) async fn change(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, FleetError> {
        let warned = self.warnings.load(Ordering::Acquire);
        let row = self.client.query_opt(statement, parameters).await.map_err(unreachable)?;
        let keeps = self.keeps().await.map_err(unreachable)?;
        match (self.warnings.load(Ordering::Acquire) == warned, keeps) {
            (true, true) => Ok(row),
            (false, _) => Err(FleetError::Unreachable(WARNED.to_owned())),
            (true, false) => Err(FleetError::Unreachable(NO_LONGER_KEEPS.to_owned())),
        }
    }

    /// Prepares the statements of a batch that this connection has not prepared yet.
    pub(super) async fn prepare(&mut self, tables: &[Table], batch: &Batch) -> Result<(), FleetError> {
        for changed in batch.changes.iter() {
            let Some(table) = tables.get(changed.table) else { continue };
            for (number, deletes) in [(changed.written.0, false), (changed.deleted.0, true)] {
                let rows = Rows::of(number);
                let name = (changed.table, deletes, rows);
                if number > 0 && !self.statements.contains_key(&name) {
                    let statement = if deletes { table.delete(rows) } else { table.upsert(rows) };
                    let prepared = self.client.prepare(&statement).await.map_err(|error| refused(&error))?;
                    self.statements.insert(name, prepared);
                }
            }
        }
        if self.charge.is_none() && !batch.shared.is_empty() {
            self.charge = Some(self.client.prepare(CHARGE).await.map_err(|error| refused(&error))?);
        }
        if self.hold_to.is_none() && batch.publication.is_some() {
            self.hold_to = Some(self.client.prepare(HOLD_TO).await.map_err(|error| refused(&error))?);
        }
        Ok(())
    }

    /// Sends the whole transaction, then reads the answers. Returns the use of the shared quotas that it charges.
    ///
    /// # Errors
    /// [`FleetError::Unknown`] if it may be committed. After every other error it is not.
    pub(super) async fn write(&self, host: &str, tables: &[Table], batch: &Batch) -> Result<Vec<Counted>, FleetError> {
        let warned = self.warnings.load(Ordering::Acquire);
        let (seq, hash) = (batch.head.0, base16ct::lower::encode_string(batch.head.1.as_bytes()));
        // A large message takes its time on a slow line. Then the server must wait for the next one.
        let idle = if batch.limit > BATCH { "SET LOCAL idle_in_transaction_session_timeout = '300s'; " } else { "" };
        // One message: without its BEGIN there is no `enter`.
        let begin = format!(
            "BEGIN; {idle}SELECT host_broker.enter('{host}', {TABLES_VERSION}, {}, {}, {seq}, decode('{hash}', 'hex'), {})",
            batch.fence, batch.number, !self.accepts_one_machine
        );
        let counted = RefCell::default();
        let mut asked: Vec<Asked<'_>> = Vec::new();
        asked.push(Box::pin(async { self.client.batch_execute(&begin).await.map(|()| true) }));
        for changed in batch.changes.iter() {
            let Some(table) = tables.get(changed.table) else { continue };
            for ((rows, columns), deletes) in [(&changed.written, false), (&changed.deleted, true)] {
                let name = (changed.table, deletes, Rows::of(*rows));
                let Some(prepared) = self.statements.get(&name).filter(|_| *rows > 0) else { continue };
                // A deleted row may never have been there: one transaction can insert and delete it.
                let is_counted = !deletes && table.counts_writes();
                let rows = *rows;
                asked.push(Box::pin(async move {
                    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&host, &batch.number];
                    parameters.extend(columns.iter().map(if rows == 1 { Values::first } else { Values::array }));
                    let changed = self.client.execute(prepared, &parameters).await?;
                    Ok(!is_counted || changed == rows)
                }));
            }
        }
        // Late, because the host that publishes waits for the commit.
        asked.extend(batch.publication.as_ref().map(|publication| self.holding_to(publication)));
        // Last, because other hosts wait for these quotas until the commit.
        asked.extend(
            batch.shared.iter().map(|charge| self.charging((host, &batch.number), charge, (&batch.wait_ms, &counted))),
        );
        let mut flight = Flight::of(asked);
        flight.send().await;
        // A statement that was not sent must not be missing in the transaction.
        if let Some(error) = flight.failed() {
            let refusal = refusal((host, batch), error);
            self.client.batch_execute("ROLLBACK").await.map_err(unreachable)?;
            return Err(refusal);
        }
        flight.add(Box::pin(async { self.client.batch_execute("COMMIT").await.map(|()| true) }));
        flight.add(Box::pin(self.keeps()));
        let mut answers = flight.answers().await;
        let (keeps, commit) = (answers.pop(), answers.pop());
        // The transaction has failed with its statement, so its COMMIT was a rollback.
        let mut errors = answers.iter().filter_map(|answer| answer.as_ref().err());
        if let Some(error) = errors.find(|error| error.as_db_error().is_some()) {
            return Err(refusal((host, batch), error));
        }
        if let Some(error) = answers.iter().chain(&commit).chain(&keeps).find_map(|answer| answer.as_ref().err()) {
            return Err(FleetError::Unknown(text(error)));
        }
        if answers.iter().any(|answer| matches!(answer, Ok(false))) {
            return Err(FleetError::Changed);
        }
        if self.warnings.load(Ordering::Acquire) != warned {
            return Err(FleetError::Unknown(WARNED.to_owned()));
        }
        if !matches!(keeps, Some(Ok(true))) {
            return Err(FleetError::Unknown(NO_LONGER_KEEPS.to_owned()));
        }
        Ok(counted.into_inner())
    }

    /// Returns the statement that checks a publication.
    fn holding_to<'c>(&'c self, publication: &'c Publication) -> Asked<'c> {
        Box::pin(async move {
            let Some(statement) = &self.hold_to else { return Ok(false) };
            let (host, digest) = (publication.host.as_str(), publication.digest.as_bytes().as_slice());
            self.client.execute(statement, &[&host, &publication.number, &digest]).await.map(|_| true)
        })
    }

    /// Returns the statement that charges a shared quota.
    fn charging<'c>(
        &'c self,
        (host, number): (&'c str, &'c i64),
        charge: &'c SharedCharge,
        (wait, counted): (&'c i64, &'c RefCell<Vec<Counted>>),
    ) -> Asked<'c> {
        Box::pin(async move {
            let SharedCharge { provider, scope, uses, most } = charge;
            let Some(statement) = &self.charge else { return Ok(false) };
            let row = self.client.query_one(statement, &[&host, number, provider, scope, uses, most, wait]).await?;
            let (used, left): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let (provider, scope, left) = (provider.clone(), scope.clone(), seconds(left));
            counted.borrow_mut().push(Counted { provider, scope, used, left });
            Ok(true)
        })
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number.min(LEFT_MAX)).unwrap_or(0))
}

/// Reads the messages of a connection until its end, and counts the warnings. A warning is counted before the answer of its
/// statement is there.
async fn drive(mut connection: Connected, warnings: Arc<AtomicU64>, notified: Arc<Notify>) {
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            notified.notify_waiters();
        }
        if let AsyncMessage::Notice(notice) = message
            && notice.parsed_severity() == Some(Severity::Warning)
        {
            tracing::warn!(message = notice.message(), "the fleet's database warns");
            warnings.fetch_add(1, Ordering::Release);
        }
    }
    notified.notify_waiters();
}

fn rows(messages: Vec<SimpleQueryMessage>) -> Vec<Vec<String>> {
    let rows = messages.into_iter().filter_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        Some((0..row.len()).map(|i| row.get(i).unwrap_or_default().to_owned()).collect())
    });
    rows.collect()
}

/// Ends a job that takes too long.
pub(super) async fn within<T>(
    most: Duration,
    job: impl Future<Output = Result<T, FleetError>>,
) -> Result<T, FleetError> {
    let late = || FleetError::Unreachable(format!("no answer within {} s", most.as_secs()));
    timeout(most, job).await.map_err(|_late| late())?
}

/// Returns the reason why a statement of a batch did not succeed.
fn refusal((host, batch): (&str, &Batch), error: &tokio_postgres::Error) -> FleetError {
    match error.code().map(tokio_postgres::error::SqlState::code) {
        Some(STILL_USED) => FleetError::StillUsed,
        Some(STALE) => batch.publication.clone().map_or_else(|| refused(error), FleetError::Stale),
        Some(FENCED) => FleetError::Fenced(host.to_owned()),
        Some(UNSYNCED) => FleetError::Unsynced(message(error)),
        Some(NO_STANDBY) => FleetError::Durability(message(error)),
        Some(code @ (USED_UP | HELD)) => uncharged(error, code).unwrap_or_else(|| refused(error)),
        Some(OTHER_VERSION) => FleetError::Refused("its tables are those of another version".to_owned()),
        Some(_) | None => refused(error),
    }
}

/// Returns the reason why a shared quota was not charged.
fn uncharged(error: &tokio_postgres::Error, code: &str) -> Option<FleetError> {
    let mut words = error.as_db_error()?.detail()?.splitn(4, ' ');
    let (used, left) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let (provider, scope) = (words.next()?.to_owned(), words.next()?.to_owned());
    let is_held = code == HELD;
    Some(if is_held {
        FleetError::Held { provider, scope }
    } else {
        FleetError::UsedUp { provider, scope, used, left: seconds(left) }
    })
}

/// Returns an error of the server as a refusal. A server that ends or only reads, and a lost connection, cannot be reached.
fn refused(error: &tokio_postgres::Error) -> FleetError {
    let code = error.code().map_or("", tokio_postgres::error::SqlState::code);
    let is_away = AWAY.iter().any(|class| code.starts_with(class));
    if error.as_db_error().is_none() || is_away {
        FleetError::Unreachable(text(error))
    } else {
        FleetError::Refused(text(error))
    }
}

/// Returns the sentence of `enter`.
fn message(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| text(error), |said| said.message().to_owned())
}

/// Returns the text of an error, without the values that the server may repeat.
fn text(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} ({})", said.message(), said.code().code());
    }
    model::errors::chain(error)
}

#[expect(clippy::needless_pass_by_value, reason = "a function for map_err")]
pub(super) fn unreachable(error: tokio_postgres::Error) -> FleetError {
    FleetError::Unreachable(text(&error))
}
