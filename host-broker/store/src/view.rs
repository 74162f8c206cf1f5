//! Reads of the store.

use crate::cache::Cache;
use crate::open::SCHEMA_VERSION;
use crate::publication_use::PublicationUse;
use crate::shared_use::SharedUse;
use crate::{DatabaseError, StoreError, at};
use rusqlite::{CachedStatement, Connection, Params, Row, Statement};
use std::cell::{Cell, OnceCell, RefCell};

/// Reads of the evidence and the state: of an open transaction, or of the last commit.
#[derive(Debug)]
pub struct View {
    connection: Connection,
    // The statements that were asked for.
    statements: Cell<u64>,
    // The writer's.
    cache: Option<RefCell<Cache>>,
    // The writer's, in a fleet.
    shared_use: OnceCell<RefCell<SharedUse>>,
    // The writer's.
    publication_use: RefCell<PublicationUse>,
}

impl View {
    /// Returns how a commit of this connection is synced: 1 is ordered only, 2 is synced.
    ///
    /// # Errors
    /// [`StoreError`] if the engine does not say.
    pub fn synchronous(&self) -> Result<i64, StoreError> {
        self.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(at("read how commits are synced"))
    }

    /// Returns the view of a reader.
    pub(crate) fn over(connection: Connection) -> Self {
        let (shared_use, publication_use) = (OnceCell::new(), RefCell::default());
        Self { connection, statements: Cell::new(0), cache: None, shared_use, publication_use }
    }

    /// Returns the view of the one writer, which keeps facts in memory.
    pub(crate) fn of_writer(connection: Connection) -> Self {
        Self { cache: Some(RefCell::default()), ..Self::over(connection) }
    }

    /// Returns a kept fact, or reads it and keeps it.
    pub(crate) fn kept<T>(
        &self,
        kept: impl FnOnce(&Cache) -> Option<T>,
        read: impl FnOnce(&Self) -> Result<T, StoreError>,
        keep: impl FnOnce(&mut Cache, &T),
    ) -> Result<T, StoreError> {
        if let Some(kept) = self.cache.as_ref().and_then(|cache| kept(&cache.borrow())) {
            return Ok(kept);
        }
        let value = read(self)?;
        if let Some(cache) = &self.cache {
            keep(&mut cache.borrow_mut(), &value);
        }
        Ok(value)
    }

    /// Returns the use of shared quotas on all hosts of a fleet; `None` if this is not the writer of a host.
    pub(crate) fn shared_use(&self) -> Option<&RefCell<SharedUse>> {
        self.shared_use.get()
    }

    /// Returns the publication of the policy with which the writer decides.
    pub(crate) fn publication_use(&self) -> &RefCell<PublicationUse> {
        &self.publication_use
    }

    /// Makes this the view of a host of a fleet.
    pub(crate) fn join_fleet(&self) {
        self.shared_use.get_or_init(RefCell::default);
    }

    fn end_transaction(&self) {
        self.publication_use.borrow_mut().end();
        if let Some(shared) = self.shared_use() {
            shared.borrow_mut().end();
        }
    }

    /// Forgets all kept facts, and what the transaction that is rolled back needs of the fleet.
    pub(crate) fn forget(&self) {
        self.end_transaction();
        if let Some(cache) = &self.cache {
            cache.take();
        }
    }

    /// Notes that the transaction is committed. Debug builds check that every kept fact is what is stored.
    pub(crate) fn committed(&self) {
        self.end_transaction();
        let Some(cache) = &self.cache else { return };
        cache.borrow_mut().committed();
        if cfg!(debug_assertions) {
            let kept = cache.take();
            // A read that fails shows nothing about the fact.
            kept.check(self).ok();
            cache.replace(kept);
        }
    }

    /// Returns whether the tables exist. They do not if the first start died before it made them.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read, or is of another version.
    pub fn has_schema(&self) -> Result<bool, StoreError> {
        let version: i64 = self.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(|source| {
            let path = self.connection.path().unwrap_or_default().into();
            StoreError::Open { path, source: DatabaseError(source) }
        })?;
        match version {
            0 => Ok(false),
            SCHEMA_VERSION => Ok(true),
            found => Err(StoreError::Version { found, known: SCHEMA_VERSION }),
        }
    }

    /// Reads several tables as of one moment.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read; the reads may then not have run.
    pub fn at_one_moment<R>(&self, reads: impl FnOnce(&Self) -> Result<R, StoreError>) -> Result<R, StoreError> {
        // It is dropped, and so rolled back, with the reads.
        let _moment = self.connection.unchecked_transaction().map_err(at("begin to read"))?;
        reads(self)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the number of statements since it was opened.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.get()
    }

    fn note(&self, statement: &str) {
        self.statements.set(self.statements.get() + 1);
        if let Some(cache) = &self.cache {
            cache.borrow_mut().note(statement);
        }
    }

    pub(crate) fn prepare(&self, statement: &str) -> rusqlite::Result<Statement<'_>> {
        self.note(statement);
        self.connection.prepare(statement)
    }

    pub(crate) fn prepare_cached(&self, statement: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.note(statement);
        self.connection.prepare_cached(statement)
    }

    pub(crate) fn query_row<T>(
        &self,
        statement: &str,
        with: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.note(statement);
        self.connection.query_row(statement, with, read)
    }
}
