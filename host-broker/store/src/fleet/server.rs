//! The connection to PostgreSQL, on a thread of its own.
//!
//! The store's one writer waits for each batch, as it waits for a sync of the disk.

use super::changes::Changed;
use super::error::FleetError;
use super::link::{ANSWER, Link, unreachable, within};
use super::look::QuotaLook;
use super::servers::Servers;
use super::settings::Settings;
use super::tables::{self, Kind, Table};
use crate::shared_use::{Counted, SharedCharge};
use futures_util::StreamExt as _;
use model::{HostName, Publication};
use rusqlite::types::Value;
use shared::digest::Digest;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_postgres::RowStream;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The interval at which a daemon without calls raises its lease.
const LEASE: Duration = Duration::from_secs(3);
/// The longest time for a batch. A synchronous standby may answer slowly.
pub(super) const BATCH: Duration = Duration::from_secs(10);
/// The pause after a failed attempt to connect. Jobs in between fail at once.
const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// The time for which the lease of another home must stand still before this one takes the host over.
pub(super) const STANDS_STILL: Duration = Duration::from_secs(15);
/// The interval at which it is read.
const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// The most bytes of rows that are read at once.
const READ_AT_ONCE: usize = 1 << 20;

/// Reads the last publication of a host.
const PUBLICATION: &str = "SELECT number, document FROM host_broker.publication WHERE host = $1";

/// A host, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) fence: i64,
    /// The home whose daemon serves the host; empty if none does.
    pub(super) holder: String,
    /// The home that has written the last batch.
    pub(super) writer: String,
    pub(super) lease: i64,
    pub(super) batch: i64,
    pub(super) seq: i64,
    pub(super) hash: Vec<u8>,
    /// Shows whether a key is that of the host; empty before the first daemon.
    pub(super) key_check: Vec<u8>,
    /// Whether its home has left the database.
    pub(super) has_left: bool,
}

/// One transaction.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) fence: i64,
    /// Its number.
    pub(super) number: i64,
    /// The end of the chain after it.
    pub(super) head: (i64, Digest),
    pub(super) changes: Arc<[Changed]>,
    /// The publication of the policy that must be in force.
    pub(super) publication: Option<Publication>,
    /// Its charges to quotas that all hosts share.
    pub(super) shared: Arc<[SharedCharge]>,
    /// The longest time for which these charges together wait for other hosts, in milliseconds.
    pub(super) wait_ms: i64,
    /// The longest time.
    pub(super) limit: Duration,
}

type Job = Box<dyn for<'s> FnOnce(&'s mut Session) -> Pin<Box<dyn Future<Output = ()> + 's>> + Send>;

/// The thread with the connection. It ends with this handle.
#[derive(Debug)]
pub(super) struct Server {
    jobs: mpsc::UnboundedSender<Job>,
    is_fenced: Arc<AtomicBool>,
}

/// The connection's side of it.
pub(super) struct Session {
    servers: Servers,
    tables: Arc<[Table]>,
    link: Option<Link>,
    /// The holder as which this daemon serves the host, and the fence; its lease is raised.
    served: Option<(String, i64)>,
    /// The table that is read.
    rows: Option<(usize, Pin<Box<RowStream>>)>,
    /// The connection that reads tables. The lease is raised over the other one during a long read.
    reader: Option<Link>,
    raised: Instant,
    /// Whether another daemon serves the host.
    is_fenced: Arc<AtomicBool>,
    /// Whether the server must keep what it acknowledges.
    must_keep: bool,
    /// The last batch that a server has confirmed. A server that lacks it is not used.
    batch: i64,
    /// The last attempt to connect, and its fault.
    away: Option<(Instant, FleetError)>,
}

impl Server {
    /// Starts the thread. It connects with the first job. `batch` is the last one that the home has; absent, the rows are
    /// only read, and the server need not keep anything.
    ///
    /// # Errors
    /// [`FleetError`] if there is no thread.
    pub(super) fn start(settings: Settings, tables: Arc<[Table]>, batch: Option<i64>) -> Result<Self, FleetError> {
        let (jobs, received) = mpsc::unbounded_channel::<Job>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| FleetError::Unreachable(error.to_string()))?;
        let is_fenced = Arc::new(AtomicBool::new(false));
        let session = Session {
            servers: Servers::new(settings),
            tables,
            link: None,
            served: None,
            rows: None,
            reader: None,
            raised: Instant::now(),
            is_fenced: Arc::clone(&is_fenced),
            must_keep: batch.is_some(),
            batch: batch.unwrap_or(0),
            away: None,
        };
        let thread = std::thread::Builder::new().name("fleet".to_owned());
        let spawned = thread.spawn(move || runtime.block_on(session.serve(received)));
        spawned.map_err(|error| FleetError::Unreachable(error.to_string()))?;
        Ok(Self { jobs, is_fenced })
    }

    /// Returns whether another daemon was found to serve the host.
    pub(super) fn is_fenced(&self) -> bool {
        self.is_fenced.load(Ordering::Acquire)
    }

    /// Runs a job on the thread and waits for it. Each job has its own time limit.
    fn run<T: Send + 'static>(
        &self,
        job: impl for<'s> FnOnce(&'s mut Session) -> Pin<Box<dyn Future<Output = Result<T, FleetError>> + 's>>
        + Send
        + 'static,
    ) -> Result<T, FleetError> {
        let (answer, answered) = blocking::sync_channel(1);
        let job: Job = Box::new(move |session| {
            Box::pin(async move {
                let done = job(session).await;
                // The caller waits, unless its thread has panicked.
                answer.send(done).ok();
            })
        });
        // The thread may have died in the middle of a job.
        let gone = || FleetError::Unknown("its thread has ended".to_owned());
        self.jobs.send(job).map_err(|_ended| gone())?;
        answered.recv().map_err(|_ended| gone())?
    }

    /// Returns what the database says about the host.
    pub(super) fn known(&self) -> Result<Known, FleetError> {
        self.run(|session| Box::pin(async move { session.known().await }))
    }

    /// Waits until no other home serves the host, and returns what the database says about it. `mine` are the holders that
    /// are no other home.
    pub(super) fn unserved(&self, mine: Vec<String>) -> Result<Known, FleetError> {
        self.run(move |session| Box::pin(async move { session.unserved(&mine).await }))
    }

    /// Returns whether the state of the host is there, and not only a part of its ledger.
    pub(super) fn is_filled(&self) -> Result<bool, FleetError> {
        self.run(|session| Box::pin(async move { session.is_filled().await }))
    }

    /// Returns the hash of a row of the ledger.
    pub(super) fn row_hash(&self, seq: i64) -> Result<Option<Vec<u8>>, FleetError> {
        self.run(move |session| Box::pin(async move { session.row_hash(seq).await }))
    }

    /// Takes the host over from the daemon that has left it in this state, as this holder. Returns the new fence.
    /// `key_check` is that of a host that has no state yet.
    pub(super) fn take_over(&self, from: Known, holder: String, key_check: Option<Vec<u8>>) -> Result<i64, FleetError> {
        self.run(move |session| Box::pin(async move { session.take_over(from, holder, key_check).await }))
    }

    /// Writes a batch. Returns the use of the shared quotas that it charges, on all hosts.
    pub(super) fn write(&self, batch: Batch) -> Result<Vec<Counted>, FleetError> {
        self.run(move |session| Box::pin(async move { session.write(batch).await }))
    }

    /// Shuts out every transaction of an earlier connection. Returns the new fence, and the last batch.
    pub(super) fn settle(&self) -> Result<(i64, i64), FleetError> {
        self.run(|session| Box::pin(async move { session.settle().await }))
    }

    /// Ends the service of the host, so that another home need not wait.
    pub(super) fn release(&self) -> Result<(), FleetError> {
        self.run(|session| Box::pin(async move { session.release().await }))
    }

    /// Marks that the home has left the database. No daemon serves the host after it.
    pub(super) fn leave(&self) -> Result<(), FleetError> {
        self.run(|session| Box::pin(async move { session.leave().await }))
    }

    /// Returns whether the home has left with this batch as the last one, also if a standby takes over now.
    pub(super) fn confirm_left(&self, batch: i64) -> Result<bool, FleetError> {
        self.run(move |session| Box::pin(async move { session.confirm_left(batch).await }))
    }

    /// Begins to read the rows of a table; of the ledger, those after this number. [`Self::end_reading`] must come after the
    /// last table.
    pub(super) fn read(&self, table: usize, after: i64) -> Result<(), FleetError> {
        self.run(move |session| Box::pin(async move { session.read(table, after).await }))
    }

    /// Returns the next rows; none at the end.
    pub(super) fn next_rows(&self) -> Result<Vec<Vec<Value>>, FleetError> {
        self.run(|session| Box::pin(async move { session.next_rows().await }))
    }

    /// Ends the connection that reads tables.
    pub(super) fn end_reading(&self) -> Result<(), FleetError> {
        self.run(|session| {
            Box::pin(async move {
                (session.rows, session.reader) = (None, None);
                Ok(())
            })
        })
    }

    /// Returns the rows of a query without parameters, as text.
    pub(super) fn ask(&self, query: &'static str) -> Result<Vec<Vec<String>>, FleetError> {
        self.run(move |session| Box::pin(async move { session.ask(query).await }))
    }

    /// Returns the use of these shared quotas today, as far as there is any.
    pub(super) fn quotas(&self, quotas: Vec<(String, String)>) -> Result<Vec<QuotaLook>, FleetError> {
        self.run(move |session| Box::pin(async move { session.quotas(quotas).await }))
    }

    /// Returns the last publication of a host, as its number and its document.
    pub(super) fn publication(&self, host: HostName) -> Result<Option<(i64, String)>, FleetError> {
        self.run(move |session| Box::pin(async move { session.publication(&host).await }))
    }

    /// Returns the version of the tables; `None` if there are none.
    pub(super) fn version(&self) -> Result<Option<i64>, FleetError> {
        self.run(|session| Box::pin(async move { session.version().await }))
    }
}

impl Session {
    async fn serve(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        loop {
            match timeout(LEASE, jobs.recv()).await {
                Ok(Some(job)) => job(&mut self).await,
                Ok(None) => return,
                Err(_no_job) => {}
            }
            if self.raised.elapsed() >= LEASE {
                self.raise_lease().await;
            }
        }
    }

    /// Returns the connection, and connects if there is none.
    async fn link(&mut self) -> Result<&mut Link, FleetError> {
        if self.link.as_ref().is_some_and(|link| link.client.is_closed()) {
            self.link = None;
        }
        if let Some(link) = self.link.take() {
            return Ok(self.link.insert(link));
        }
        if let Some((tried, error)) = &self.away
            && tried.elapsed() < TRIED_AGAIN
        {
            return Err(error.clone());
        }
        let opened = self.servers.connect(self.must_keep, self.batch).await;
        self.away = opened.as_ref().err().map(|error| (Instant::now(), error.clone()));
        Ok(self.link.insert(opened?))
    }

    /// Ends the connection to a server that has not confirmed a change of the row of the host.
    fn leave_server(&mut self) {
        self.link = None;
        self.servers.leave();
    }

    async fn known(&mut self) -> Result<Known, FleetError> {
        const SELECT: &str =
            "SELECT fence, lease, batch, seq, hash, holder, writer, key_check, has_left FROM host_broker.hosts
            WHERE host = $1 AND role = session_user::text";
        let host = self.servers.settings.host.clone();
        let link = self.link().await?;
        let found = async { link.client.query_opt(SELECT, &[&host.as_str()]).await.map_err(unreachable) };
        let row = within(ANSWER, found).await?.ok_or_else(|| FleetError::NoHost(host.to_string()))?;
        let get = |index| row.try_get(index).map_err(unreachable);
        let bytes = |index| row.try_get(index).map_err(unreachable);
        let (hash, key_check) = (bytes(4)?, bytes(7)?);
        let name = |index| row.try_get(index).map_err(unreachable);
        let (holder, writer) = (name(5)?, name(6)?);
        let has_left = row.try_get(8).map_err(unreachable)?;
        let (fence, lease, batch, seq) = (get(0)?, get(1)?, get(2)?, get(3)?);
        Ok(Known { fence, holder, writer, lease, batch, seq, hash, key_check, has_left })
    }

    /// The lease of a home that is not this one must stand still. No two clocks are compared.
    async fn unserved(&mut self, mine: &[String]) -> Result<Known, FleetError> {
        let first = self.known().await?;
        if mine.contains(&first.holder) {
            return Ok(first);
        }
        let began = Instant::now();
        tracing::info!(
            host = %self.servers.settings.host,
            seconds = STANDS_STILL.as_secs(),
            "another home served this host; waiting until its lease has stood still"
        );
        while began.elapsed() < STANDS_STILL {
            tokio::time::sleep(LOOKED_EVERY).await;
            if self.known().await? != first {
                return Err(FleetError::Served(self.servers.settings.host.to_string()));
            }
        }
        Ok(first)
    }

    async fn is_filled(&mut self) -> Result<bool, FleetError> {
        // Every home has one row of the steady clock.
        const FILLED: &str = "SELECT EXISTS (SELECT FROM host_broker.steady WHERE host = $1)";
        let host = self.servers.settings.host.clone();
        let link = self.link().await?;
        within(ANSWER, async {
            let row = link.client.query_one(FILLED, &[&host.as_str()]).await.map_err(unreachable)?;
            row.try_get(0).map_err(unreachable)
        })
        .await
    }

    async fn row_hash(&mut self, seq: i64) -> Result<Option<Vec<u8>>, FleetError> {
        const HASH: &str = "SELECT event_hash FROM host_broker.ledger WHERE host = $1 AND seq = $2";
        let host = self.servers.settings.host.clone();
        let link = self.link().await?;
        within(ANSWER, async {
            let row = link.client.query_opt(HASH, &[&host.as_str(), &seq]).await.map_err(unreachable)?;
            row.map(|row| row.try_get(0).map_err(unreachable)).transpose()
        })
        .await
    }

    async fn version(&mut self) -> Result<Option<i64>, FleetError> {
        let link = self.link().await?;
        let found = within(ANSWER, async {
            match link.client.query_opt("SELECT version FROM host_broker.version WHERE one = 1", &[]).await {
                Ok(row) => row.map(|row| row.try_get(0).map_err(unreachable)).transpose(),
                Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
                // Without the tables there is no schema that the role may use.
                Err(error) if error.code() == Some(&SqlState::INVALID_SCHEMA_NAME) => Ok(None),
                Err(error) => Err(unreachable(error)),
            }
        });
        found.await
    }

    async fn ask(&mut self, query: &str) -> Result<Vec<Vec<String>>, FleetError> {
        let link = self.link().await?;
        within(ANSWER, link.ask(query)).await
    }

    async fn quotas(&mut self, quotas: Vec<(String, String)>) -> Result<Vec<QuotaLook>, FleetError> {
        const QUOTAS: &str = "SELECT provider, scope, used FROM host_broker.shared_quotas
            WHERE (provider, scope) IN (SELECT * FROM unnest($1::text[], $2::text[]))
                AND day >= (clock_timestamp() AT TIME ZONE 'UTC')::date";
        let (providers, scopes): (Vec<String>, Vec<String>) = quotas.into_iter().unzip();
        let link = self.link().await?;
        let rows =
            within(ANSWER, async { link.client.query(QUOTAS, &[&providers, &scopes]).await.map_err(unreachable) });
        let look = |row: &tokio_postgres::Row| {
            Ok(QuotaLook { provider: row.try_get(0)?, scope: row.try_get(1)?, used: row.try_get(2)? })
        };
        rows.await?.iter().map(|row| look(row).map_err(unreachable)).collect()
    }

    async fn publication(&mut self, host: &HostName) -> Result<Option<(i64, String)>, FleetError> {
        let link = self.link().await?;
        let found =
            within(ANSWER, async { link.client.query_opt(PUBLICATION, &[&host.as_str()]).await.map_err(unreachable) });
        let Some(row) = found.await? else { return Ok(None) };
        let document: String = row.try_get(1).map_err(unreachable)?;
        let document = tables::decoded(document).ok_or_else(|| FleetError::Row("publication".to_owned()))?;
        Ok(Some((row.try_get(0).map_err(unreachable)?, document)))
    }

    async fn take_over(&mut self, from: Known, holder: String, key_check: Option<Vec<u8>>) -> Result<i64, FleetError> {
        const RAISE: &str = "UPDATE host_broker.hosts
            SET fence = host_broker.raised(fence), lease = lease + 1, holder = $5, key_check = COALESCE($6, key_check),
                follows = '', publication = 0, publication_fault = ''
            WHERE host = $1 AND fence = $2 AND lease = $3 AND batch = $4 AND NOT has_left RETURNING fence";
        let host = self.servers.settings.host.clone();
        let name = host.as_str();
        let link = self.link().await?;
        let raised =
            within(BATCH, link.change(RAISE, &[&name, &from.fence, &from.lease, &from.batch, &holder, &key_check]))
                .await;
        if raised.is_err() {
            self.leave_server();
        }
        let row = raised?.ok_or_else(|| FleetError::Fenced(host.to_string()))?;
        let fence = row.try_get(0).map_err(unreachable)?;
        self.batch = self.batch.max(from.batch);
        self.served = Some((holder, fence));
        Ok(fence)
    }

    async fn raise_lease(&mut self) {
        const RAISE: &str =
            "UPDATE host_broker.hosts SET lease = lease + 1 WHERE host = $1 AND holder = $2 AND fence >= $3";
        let Some((holder, fence)) = self.served.clone() else { return };
        self.raised = Instant::now();
        let host = self.servers.settings.host.clone();
        let Ok(link) = self.link().await else { return };
        let raised = within(ANSWER, async {
            link.client.execute(RAISE, &[&host.as_str(), &holder, &fence]).await.map_err(unreachable)
        });
        match raised.await {
            Ok(0) => self.is_fenced.store(true, Ordering::Release),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "the lease in the fleet's database cannot be raised");
                self.leave_server();
            }
        }
    }

    async fn release(&mut self) -> Result<(), FleetError> {
        const RELEASE: &str = "UPDATE host_broker.hosts SET holder = '', lease = lease + 1
            WHERE host = $1 AND holder = $2 AND fence = $3";
        let Some((holder, fence)) = self.served.take() else { return Ok(()) };
        let host = self.servers.settings.host.clone();
        let link = self.link().await?;
        let released = within(ANSWER, async {
            link.client.execute(RELEASE, &[&host.as_str(), &holder, &fence]).await.map_err(unreachable)
        });
        released.await.map(|_| ())
    }

    async fn leave(&mut self) -> Result<(), FleetError> {
        // The new fence shuts out what is still under way.
        const LEAVE: &str = "UPDATE host_broker.hosts
            SET has_left = true, fence = host_broker.raised(fence), holder = '', lease = lease + 1
            WHERE host = $1 AND holder = $2 AND fence = $3 RETURNING fence";
        let host = self.servers.settings.host.clone();
        let fenced = || FleetError::Fenced(host.to_string());
        let (holder, fence) = self.served.clone().ok_or_else(fenced)?;
        let link = self.link().await?;
        within(BATCH, link.change(LEAVE, &[&host.as_str(), &holder, &fence])).await?.ok_or_else(fenced)?;
        self.served = None;
        Ok(())
    }

    /// This commit waits for the standby, and so for all before it.
    async fn confirm_left(&mut self, batch: i64) -> Result<bool, FleetError> {
        const CONFIRM: &str = "UPDATE host_broker.hosts SET lease = lease + 1
            WHERE host = $1 AND has_left AND batch = $2 RETURNING batch";
        let host = self.servers.settings.host.clone();
        let link = self.link().await?;
        Ok(within(BATCH, link.change(CONFIRM, &[&host.as_str(), &batch])).await?.is_some())
    }

    /// Tries until the answer is known: the daemon's memory and the database must not differ.
    async fn settle(&mut self) -> Result<(i64, i64), FleetError> {
        let began = Instant::now();
        loop {
            match self.try_to_settle().await {
                Err(FleetError::Unknown(error)) if began.elapsed() < self.servers.settings.settle_timeout => {
                    tracing::warn!(%error, "it is still unknown whether the fleet's database has the last rows");
                    tokio::time::sleep(LOOKED_EVERY).await;
                }
                settled => return settled,
            }
        }
    }

    async fn try_to_settle(&mut self) -> Result<(i64, i64), FleetError> {
        const RAISE: &str = "UPDATE host_broker.hosts SET fence = host_broker.raised(fence), lease = lease + 1
            WHERE host = $1 AND holder = $2 AND fence = $3 RETURNING fence, batch";
        // An earlier attempt has raised it, and its answer was lost. This commit, too, waits for the standby.
        const RAISED: &str = "UPDATE host_broker.hosts SET lease = lease + 1
            WHERE host = $1 AND holder = $2 AND fence > $3 RETURNING fence, batch";
        let host = self.servers.settings.host.clone();
        let fenced = || FleetError::Fenced(host.to_string());
        let (holder, fence) = self.served.clone().ok_or_else(fenced)?;
        self.link = None;
        let settled: Result<(i64, i64), FleetError> = async {
            let link = self.link().await?;
            let (name, most) = (host.as_str(), BATCH);
            let parameters: [&(dyn ToSql + Sync); 3] = [&name, &holder, &fence];
            // The earlier transaction holds the lock of the row, so this waits for its end.
            let row = match within(most, link.change(RAISE, &parameters)).await? {
                Some(row) => row,
                None => within(most, link.change(RAISED, &parameters)).await?.ok_or_else(fenced)?,
            };
            Ok((row.try_get(0).map_err(unreachable)?, row.try_get(1).map_err(unreachable)?))
        }
        .await;
        match settled {
            Ok((fence, batch)) => {
                self.batch = self.batch.max(batch);
                self.served = Some((holder, fence));
                self.is_fenced.store(false, Ordering::Release);
                Ok((fence, batch))
            }
            Err(fenced @ FleetError::Fenced(_)) => Err(fenced),
            Err(error) => {
                self.leave_server();
                Err(FleetError::Unknown(error.to_string()))
            }
        }
    }

    async fn read(&mut self, number: usize, after: i64) -> Result<(), FleetError> {
        let Some(statement) = self.tables.get(number).map(Table::select) else {
            return Err(FleetError::Row(number.to_string()));
        };
        let host = self.servers.settings.host.clone();
        // A table that was not read to its end holds up the connection.
        let free = self.reader.take().filter(|link| self.rows.is_none() && !link.client.is_closed());
        let link = match free {
            Some(link) => link,
            None => self.servers.connect(self.must_keep, self.batch).await?,
        };
        let name = host.as_str();
        let parameters: [&(dyn ToSql + Sync); 2] = [&name, &after];
        let rows = within(ANSWER, async {
            let prepared = link.client.prepare(&statement).await.map_err(unreachable)?;
            link.client.query_raw(&prepared, parameters).await.map_err(unreachable)
        });
        self.rows = Some((number, Box::pin(rows.await?)));
        self.reader = Some(link);
        Ok(())
    }

    async fn next_rows(&mut self) -> Result<Vec<Vec<Value>>, FleetError> {
        let Some((number, stream)) = self.rows.as_mut() else { return Ok(Vec::new()) };
        let Some(table) = self.tables.get(*number) else { return Ok(Vec::new()) };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < READ_AT_ONCE {
            let next = within(BATCH, async { Ok(stream.next().await) }).await?;
            let Some(row) = next else {
                self.rows = None;
                break;
            };
            let row = row.map_err(unreachable)?;
            let values = values(table, &row).ok_or_else(|| FleetError::Row(table.name.clone()))?;
            bytes = values.iter().fold(bytes, |bytes, value| bytes.saturating_add(size(value)));
            rows.push(values);
        }
        Ok(rows)
    }

    async fn write(&mut self, batch: Batch) -> Result<Vec<Counted>, FleetError> {
        let tables = Arc::clone(&self.tables);
        let (host, number) = (self.servers.settings.host.clone(), batch.number);
        let link = self.link().await?;
        let prepared = within(ANSWER, link.prepare(&tables, &batch)).await;
        let written = match prepared {
            Ok(()) => match timeout(batch.limit, link.write(host.as_str(), &tables, &batch)).await {
                Ok(written) => written,
                Err(_late) => Err(FleetError::Unknown(format!("no answer within {} s", batch.limit.as_secs()))),
            },
            Err(error) => Err(error),
        };
        // After a refusal, too: the server may only read now.
        match &written {
            Ok(_) => self.batch = self.batch.max(number),
            // The transaction is rolled back, and the next attempt follows at once.
            Err(FleetError::UsedUp { .. } | FleetError::Held { .. } | FleetError::Stale(_) | FleetError::StillUsed) => {
            }
            Err(_) => self.link = None,
        }
        written
    }
}

fn values(table: &Table, row: &tokio_postgres::Row) -> Option<Vec<Value>> {
    let value = |(index, kind)| match kind {
        Kind::Integer => Some(row.try_get::<_, Option<i64>>(index).ok()?.map_or(Value::Null, Value::Integer)),
        Kind::Text => match row.try_get::<_, Option<String>>(index).ok()? {
            Some(text) => tables::decoded(text).map(Value::Text),
            None => Some(Value::Null),
        },
        Kind::Blob => Some(row.try_get::<_, Option<Vec<u8>>>(index).ok()?.map_or(Value::Null, Value::Blob)),
    };
    table.columns.iter().map(tables::Column::stored).enumerate().map(value).collect()
}

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Integer(_) | Value::Real(_) => 16,
        Value::Text(text) => text.len().saturating_add(32),
        Value::Blob(bytes) => bytes.len().saturating_add(32),
    }
}
