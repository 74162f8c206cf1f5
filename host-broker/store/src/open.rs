//! Opening the database: applying the schema and the settings, checking the chain, growing the log.

use crate::fleet::{self, Fleet, FleetError};
use crate::ledger::chain::Head;
use crate::ledger::checkpoints::Signed;
use crate::ledger::verifier::{Break, Verifier};
use crate::ledger::{checkpoints, export, segments};
use crate::reserve::Reserve;
use crate::steady::Steady;
use crate::wal::{self, Log};
use crate::{DatabaseError, Store, StoreError, StoreStats, View, at};
use model::Clock;
use platform::lock::Lock;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::cell::RefCell;
use std::ffi::c_int;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The statements of each version, the first one first. A version never changes.
const VERSIONS: [&str; 11] = [
    concat!(include_str!("schema/ledger.sql"), "\n", include_str!("schema/state.sql")),
    include_str!("schema/version_2.sql"),
    include_str!("schema/version_3.sql"),
    include_str!("schema/version_4.sql"),
    include_str!("schema/version_5.sql"),
    include_str!("schema/version_6.sql"),
    include_str!("schema/version_7.sql"),
    include_str!("schema/version_8.sql"),
    include_str!("schema/version_9.sql"),
    include_str!("schema/version_10.sql"),
    include_str!("schema/version_11.sql"),
];
pub(crate) const SCHEMA_VERSION: i64 = 11;
/// The number of rows at the end of the chain that a start verifies; `evidence verify` verifies all.
const VERIFIED_AT_START: i64 = 10_000;
/// The number of prepared statements that are kept: more than there are, because parsing one takes longer than running
/// it.
const STATEMENTS_KEPT: usize = 256;
/// The longest time that a reader may hold the database.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

impl Store {
    /// Opens the one writer of a home, and makes the database if there is none.
    ///
    /// # Errors
    /// [`StoreError`]: locked by another daemon, unusable, of another version, or broken evidence.
    pub fn open(home: &Path, clock: Arc<dyn Clock>, policy_version: String) -> Result<Self, StoreError> {
        Self::open_home(home, clock, policy_version, Records::Own)
    }

    /// Opens the one writer of a home that is made from a backup. A home in a fleet then leaves the fleet.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_restored(home: &Path, clock: Arc<dyn Clock>, policy_version: String) -> Result<Self, StoreError> {
        Self::open_home(home, clock, policy_version, Records::Restored)
    }

    /// Opens the one writer of a home that is a host of a fleet. Its database is a copy of the host's rows. Bodies are
    /// encrypted with the key.
    ///
    /// # Errors
    /// As [`Self::open`], or [`StoreError::Fleet`]: the fleet's database cannot be used, or another daemon serves the host.
    pub fn open_in_fleet(
        home: &Path,
        clock: Arc<dyn Clock>,
        policy_version: String,
        (fleet, key): (&fleet::Settings, &fleet::BodyKey),
    ) -> Result<Self, StoreError> {
        Self::open_home(home, clock, policy_version, Records::Fleet(fleet, key))
    }

    pub(crate) fn open_home(
        home: &Path,
        clock: Arc<dyn Clock>,
        policy_version: String,
        records: Records<'_>,
    ) -> Result<Self, StoreError> {
        let lock = lock(home)?;
        let path = home.join("ledger.db");
        create_private(&path)?;
        let (view, log) = connection(&path)?;
        if let Records::Fleet(settings, _) | Records::Leaving(settings, _) = records {
            Fleet::check_version(settings)?;
        }
        migrate(view.connection(), &path)?;
        // A predecessor may have died of a failed sync. While another process reads, the log stays as it is.
        if wal::empty(view.connection(), &path).is_err() {
            wal::grow(&path)?;
        }
        let fleet = match (records, fleet::host_of(&view)?) {
            (Records::Fleet(settings, key), _) => Some(Fleet::join((settings, key), home, &view)?),
            (Records::Own, Some(host)) => return Err(FleetError::NotConfigured(host).into()),
            (Records::Restored, Some(_)) => {
                fleet::leave::end(&view)?;
                None
            }
            (Records::Leaving(settings, key), _) => fleet::leave::begin((settings, key), home, &view)?,
            (Records::Own | Records::Restored, None) => None,
        };
        let (head, verified) = verify_tail(&view)?;
        let is_verified = verified.is_some();
        let signed = verified.or_else(|| checkpoints::continued(home, &view, None, head.seq));
        let steady = Steady::resume(&view, clock.as_ref())?;
        let reserve = Reserve::take(home);
        Ok(Self {
            view,
            log,
            path,
            head,
            signed,
            // It is unknown whether the last rows are synced, because a reader can keep the log from being emptied.
            synced: i64::MIN,
            is_verified,
            clock,
            steady,
            policy_version,
            durability: None,
            stats: StoreStats::default(),
            suspect: false,
            minor: RefCell::default(),
            fleet,
            publication: None,
            reserve,
            _lock: lock,
        })
    }
}

/// The place of the records.
#[derive(Clone, Copy)]
pub(crate) enum Records<'s> {
    /// The database of the home.
    Own,
    /// The same, made from a backup.
    Restored,
    /// The database of a fleet. That of the home is a copy.
    Fleet(&'s fleet::Settings, &'s fleet::BodyKey),
    /// The same, which the home leaves.
    Leaving(&'s fleet::Settings, &'s fleet::BodyKey),
}

/// Takes the lock of a home. Its holder is the only one that may write the ledger.
///
/// # Errors
/// [`StoreError`], also if another process holds it.
pub fn lock(home: &Path) -> Result<Lock, StoreError> {
    only_writer(&home.join("lock"))
}

/// Takes an exclusive lock on a file that no sandbox can reach.
fn only_writer(path: &Path) -> Result<Lock, StoreError> {
    let failed = |source| StoreError::File { path: path.into(), source };
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(failed)?;
    Lock::take(file).map_err(|errno| failed(errno.into()))?.ok_or_else(|| StoreError::Locked { path: path.into() })
}

/// Creates the file as private, because SQLite would create it with the process's umask.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    made.map(drop).map_err(|source| StoreError::File { path: path.into(), source })
}

/// Opens the writer's connection, and returns it with the length of its log.
pub(crate) fn connection(path: &Path) -> Result<(View, Log), StoreError> {
    let open = |source| StoreError::Open { path: path.into(), source: DatabaseError(source) };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(open)?;
    connection.busy_timeout(BUSY).map_err(open)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Without it, SQLite prepares some statements again for each new value of a parameter.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(open)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA recursive_triggers = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA journal_size_limit = -1;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -8192;",
        )
        .map_err(open)?;
    let log = Log::of(&mut connection).map_err(open)?;
    Ok((View::of_writer(connection), log))
}

/// Opens a connection for reading only. It never waits for the writer, nor the writer for it.
///
/// # Errors
/// [`StoreError::Open`] if there is no ledger.
pub fn reader(home: &Path) -> Result<View, StoreError> {
    reading(home).map(View::over)
}

/// Opens the connection of [`reader`].
pub(crate) fn reading(home: &Path) -> Result<Connection, StoreError> {
    let path = home.join("ledger.db");
    let open = |source| StoreError::Open { path: path.clone(), source: DatabaseError(source) };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags).map_err(open)?;
    let is_readable = connection.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0));
    let connection = match (is_readable, immutable(&path)) {
        (Err(rusqlite::Error::SqliteFailure(error, _)), Some(uri)) if error.code == ErrorCode::CannotOpen => {
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).map_err(open)?
        }
        (Ok(_) | Err(_), _) => connection,
    };
    connection.busy_timeout(BUSY).map_err(open)?;
    Ok(connection)
}

/// The number of steps of SQLite between two looks at the time: about a tenth of a millisecond.
const STEPS_BETWEEN_LOOKS: c_int = 10_000;

/// Opens a connection for reading only, whose reads fail from this time on.
///
/// # Errors
/// As [`reader`].
pub fn reader_until(home: &Path, until: Instant) -> Result<View, StoreError> {
    let mut connection = reading(home)?;
    let open = |source| StoreError::Open { path: home.join("ledger.db"), source: DatabaseError(source) };
    connection.busy_timeout(until.saturating_duration_since(Instant::now())).map_err(open)?;
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || Instant::now() >= until)).map_err(open)?;
    Ok(View::over(connection))
}

/// Opens a ledger for reading that no daemon has open, and makes no file beside it. Returns `None` if there is no
/// ledger, or if its write-ahead log is not empty: a daemon has it open, or died.
///
/// # Errors
/// [`StoreError::Open`].
pub fn at_rest(home: &Path) -> Result<Option<View>, StoreError> {
    let path = home.join("ledger.db");
    let (Some(uri), true) = (immutable(&path), path.exists()) else { return Ok(None) };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
        .map(|reader| Some(View::over(reader)))
        .map_err(|source| StoreError::Open { path, source: DatabaseError(source) })
}

/// Returns the address under which SQLite reads a database in a directory that it cannot write to, as it is. `None` if
/// rows are in its write-ahead log: SQLite would not see them.
fn immutable(path: &Path) -> Option<String> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(log).is_ok_and(|log| log.len() > 0) {
        return None;
    }
    let name = path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    Some(format!("file:{name}?immutable=1"))
}

/// Applies the statements of a version. The row format of the ledger is final.
fn change(connection: &Connection, statements: &str) -> Result<(), StoreError> {
    connection
        .execute_batch(&format!("BEGIN IMMEDIATE;\n{statements}\nPRAGMA user_version = {SCHEMA_VERSION};\nCOMMIT;"))
        .map_err(at("make the schema"))
}

fn migrate(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found: i64 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| StoreError::Open { path: path.into(), source: DatabaseError(source) })?;
    if found == SCHEMA_VERSION {
        return Ok(());
    }
    let missing = usize::try_from(found).ok().and_then(|known| VERSIONS.get(known..));
    match missing.filter(|missing| !missing.is_empty()) {
        Some(missing) => change(connection, &missing.join("\n")),
        None => Err(StoreError::Version { found, known: SCHEMA_VERSION }),
    }
}

/// Makes the tables in an empty database.
pub(crate) fn schema(connection: &Connection) -> Result<(), StoreError> {
    change(connection, &VERSIONS.join("\n"))
}

/// Returns the stored end of the chain.
pub(crate) fn head(view: &View) -> Result<Head, StoreError> {
    Ok(export::last(view)?.map_or(Head::EMPTY, |row| Head { seq: row.seq, hash: row.event_hash, ts: row.ts }))
}

/// Verifies the last rows and their links. Returns the last row, and the signed state if these were all rows.
pub(crate) fn verify_tail(view: &View) -> Result<(Head, Option<Signed>), StoreError> {
    let end = head(view)?;
    let rotated = segments::end(view)?.seq;
    if rotated >= end.seq && rotated > 0 {
        return Err(Break::Short { found: end.seq, expected: rotated }.into());
    }
    // Rows that are also in segments may be deleted already.
    let from = (end.seq - VERIFIED_AT_START).max(rotated).max(0);
    let mut verifier = segments::before(view, from + 1)?.map_or_else(Verifier::new, Verifier::after);
    export::each(view, from + 1, |row| verifier.take(&row).map_err(StoreError::from))?;
    Ok((end, Signed::verified(verifier.checkpoints())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    fn a_database_of_an_earlier_version_gets_the_later_tables_and_keeps_its_rows() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        create_private(&path).unwrap();
        let (view, _log) = connection(&path).unwrap();
        let first = format!("{}; PRAGMA user_version = 1", VERSIONS[0]);
        view.connection().execute_batch(&first).unwrap();
        view.connection().execute_batch("INSERT INTO replies VALUES (7, 'group:a', 'one', 0, x'7b7d', 0)").unwrap();
        assert!(matches!(view.has_schema(), Err(StoreError::Version { found: 1, known: SCHEMA_VERSION })));
        migrate(view.connection(), &path).unwrap();
        assert!(view.has_schema().unwrap());
        let count = |table| {
            let rows = view.connection().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
            rows.unwrap_or(-1)
        };
        assert_eq!((count("replies"), count("one_time_values")), (1, 0));
        assert_eq!(usize::try_from(SCHEMA_VERSION), Ok(VERSIONS.len()));
    }

    #[test]
    fn a_read_that_is_not_over_in_time_fails() {
        const LONG: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        create_private(&path).unwrap();
        let (writer, _log) = connection(&path).unwrap();
        migrate(writer.connection(), &path).unwrap();
        let view = reader_until(home.path(), Instant::now() + Duration::from_secs(60)).unwrap();
        assert!(view.has_schema().unwrap());
        let view = reader_until(home.path(), Instant::now()).unwrap();
        let read = view.query_row(LONG, [], |row| row.get::<_, i64>(0));
        let code = read.unwrap_err().sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::OperationInterrupted));
    }

    #[test]
    fn a_statement_is_prepared_once_for_all_values() {
        const OF_REQUEST: &str = "SELECT kind FROM ledger WHERE caller = ?1 AND request_id = ?2 ORDER BY seq LIMIT 1";
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        create_private(&path).unwrap();
        let (view, _log) = connection(&path).unwrap();
        migrate(view.connection(), &path).unwrap();
        for value in ["a", "b", "c"] {
            let mut statement = view.prepare_cached(OF_REQUEST).unwrap();
            assert!(!statement.exists([value, value]).unwrap());
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }
}
