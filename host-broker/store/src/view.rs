//! Reads of the store.

use crate::open::SCHEMA_VERSION;
use crate::{DatabaseError, StoreError, at};
use rusqlite::{CachedStatement, Connection, Params, Row, Statement};

/// Reads of the evidence and the state: of an open transaction, or of the last commit.
#[derive(Debug)]
pub struct View {
    connection: Connection,
}

impl View {
    /// Returns how a commit of this connection is synced: 1 is ordered only, 2 is synced.
    ///
    /// # Errors
    /// [`StoreError`] if the engine does not say.
    pub fn synchronous(&self) -> Result<i64, StoreError> {
        self.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(at("read how commits are synced"))
    }

    pub(crate) fn over(connection: Connection) -> Self {
        Self { connection }
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

    pub(crate) fn prepare(&self, statement: &str) -> rusqlite::Result<Statement<'_>> {
        self.connection.prepare(statement)
    }

    pub(crate) fn prepare_cached(&self, statement: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection.prepare_cached(statement)
    }

    pub(crate) fn query_row<T>(
        &self,
        statement: &str,
        with: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.connection.query_row(statement, with, read)
    }
}
