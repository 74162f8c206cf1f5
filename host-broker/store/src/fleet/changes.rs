//! The changed rows of a transaction of the local copy.
//!
//! Temporary triggers note the key of each row that a statement changes, also one that another trigger changes. Before
//! the commit, each noted row is read once: as it is now, or that it is gone. So a row that changed many times is
//! written once, and no statement of the store knows of PostgreSQL.

use super::encryption::BodyKey;
use super::tables::{self, KEY_MAX, SEQUENCES, Table, Values};
use crate::ledger::chain::Row;
use crate::{StoreError, at};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The most bytes of rows that are written together when a database is filled.
const PART: usize = 1 << 20;
/// The approximate number of bytes of a row without its body.
const ROW: usize = 512;

/// The rows of one table that a batch writes and deletes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Changed {
    /// The number of the table.
    pub(super) table: usize,
    /// The number of written rows, and their columns.
    pub(super) written: (u64, Vec<Values>),
    /// The number of deleted rows, and the columns of their keys.
    pub(super) deleted: (u64, Vec<Values>),
}

impl Changed {
    fn new(number: usize, table: &Table) -> Self {
        let columns = table.columns.iter().map(|column| Values::of(column.stored())).collect();
        let key = table.key().iter().map(|column| Values::of(column.kind)).collect();
        Self { table: number, written: (0, columns), deleted: (0, key) }
    }

    fn write(&mut self, row: Vec<Value>) -> Result<(), StoreError> {
        self.written.0 += 1;
        push(&mut self.written.1, row)
    }

    fn delete(&mut self, key: Vec<Value>) -> Result<(), StoreError> {
        self.deleted.0 += 1;
        push(&mut self.deleted.1, key)
    }

    /// Returns the number of rows.
    fn rows(&self) -> u64 {
        self.written.0.saturating_add(self.deleted.0)
    }
}

fn push(columns: &mut [Values], row: Vec<Value>) -> Result<(), StoreError> {
    columns
        .iter_mut()
        .zip(row)
        .try_for_each(|(column, value)| column.push(value))
        .ok_or(StoreError::Stored { what: "value of another type" })
}

/// The statements that note and read the changes of one connection.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    pub(super) tables: Arc<[Table]>,
    selects: Arc<[String]>,
}

impl Capture {
    /// Adds the triggers to a connection.
    ///
    /// # Errors
    /// [`StoreError`]; the connection must not be used then, because its changes would be lost.
    pub(super) fn attach(connection: &Connection) -> Result<Self, StoreError> {
        let tables = tables::all(connection)?;
        let columns: Vec<String> = (0..KEY_MAX).map(|i| format!("k{i}")).collect();
        let mut script = format!("CREATE TEMP TABLE fleet_changed (t INTEGER NOT NULL, {});\n", columns.join(", "));
        for (number, table) in tables.iter().enumerate().filter(|(_, table)| table.name != SEQUENCES) {
            writeln!(script, "{}", table.triggers(number)).ok();
        }
        connection.execute_batch(&script).map_err(at("watch the rows"))?;
        let selects = tables.iter().map(Table::local_select).collect();
        Ok(Self { tables: tables.into(), selects })
    }

    /// Returns the changes of the open transaction, with encrypted bodies. `sequences` are the numbers that the fleet's
    /// database has.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction must be rolled back.
    pub(super) fn changes(
        &self,
        connection: &Connection,
        (host, key): (&str, &BodyKey),
        sequences: &BTreeMap<String, i64>,
    ) -> Result<(Vec<Changed>, BTreeMap<String, i64>), StoreError> {
        const NOTED: &str = "SELECT DISTINCT t, k0, k1, k2, k3, k4, k5 FROM fleet_changed ORDER BY t";
        let failed = || at("read the changed rows");
        let mut changes: Vec<Changed> = Vec::new();
        let mut statement = connection.prepare_cached(NOTED).map_err(failed())?;
        let mut noted = statement.query([]).map_err(failed())?;
        while let Some(row) = noted.next().map_err(failed())? {
            let number: u32 = row.get(0).map_err(failed())?;
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            let (Some(table), Some(select)) = (self.tables.get(number), self.selects.get(number)) else { continue };
            let key_values: Vec<Value> =
                (1..=table.key().len()).map(|i| row.get(i)).collect::<Result<_, _>>().map_err(failed())?;
            let present = read(connection, select, &key_values, table.columns.len())?;
            if changes.last().is_none_or(|last| last.table != number) {
                changes.push(Changed::new(number, table));
            }
            let Some(of_table) = changes.last_mut() else { continue };
            match present {
                Some(mut row) => {
                    key.encrypt(host, table, &mut row)?;
                    of_table.write(row)?;
                }
                // The ledger's rows are never deleted elsewhere.
                None if table.is_append_only() => {}
                None => of_table.delete(key_values)?,
            }
        }
        drop(noted);
        let now = numbers(connection)?;
        changes.extend(self.sequences(&now, sequences)?);
        forget(connection)?;
        Ok((changes, now))
    }

    /// Returns an empty part of the ledger.
    pub(super) fn ledger_part(&self) -> LedgerPart {
        let ledger = self.tables.iter().enumerate().find(|(_, table)| table.is_append_only());
        let changed = ledger.map(|(number, table)| Changed::new(number, table));
        LedgerPart { empty: changed.clone(), changed, bytes: 0 }
    }

    fn sequences(
        &self,
        now: &BTreeMap<String, i64>,
        then: &BTreeMap<String, i64>,
    ) -> Result<Option<Changed>, StoreError> {
        let Some((number, table)) = self.tables.iter().enumerate().find(|(_, table)| table.name == SEQUENCES) else {
            return Ok(None);
        };
        let mut changed = Changed::new(number, table);
        for (name, seq) in now.iter().filter(|(name, seq)| then.get(*name) != Some(seq)) {
            changed.write(vec![Value::Text(name.clone()), Value::Integer(*seq)])?;
        }
        Ok((changed.rows() > 0).then_some(changed))
    }
}

/// Rows of the ledger that are written together.
#[derive(Debug)]
pub(super) struct LedgerPart {
    empty: Option<Changed>,
    changed: Option<Changed>,
    bytes: usize,
}

impl LedgerPart {
    pub(super) fn add(&mut self, row: &Row) -> Result<(), StoreError> {
        let text = |text: &str| Value::Text(text.to_owned());
        let optional = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let number = |number: Option<i64>| number.map_or(Value::Null, Value::Integer);
        let digest =
            |digest: Option<Digest>| digest.map_or(Value::Null, |digest| Value::Blob(digest.as_bytes().to_vec()));
        let values = vec![
            Value::Integer(row.seq),
            Value::Integer(row.ts),
            text(&row.kind),
            text(&row.caller),
            optional(&row.person),
            optional(&row.request_id),
            optional(&row.provider),
            optional(&row.action),
            number(row.level),
            digest(row.params_digest),
            optional(&row.summary),
            optional(&row.reason_code),
            optional(&row.result_summary),
            digest(row.result_digest),
            optional(&row.task_id),
            optional(&row.approval),
            text(&row.policy_version),
            number(row.duration_ms),
            text(&row.body),
            digest(Some(row.prev_hash)),
            digest(Some(row.event_hash)),
        ];
        self.bytes = self.bytes.saturating_add(row.body.len()).saturating_add(ROW);
        self.changed.as_mut().map_or(Ok(()), |changed| changed.write(values))
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes > PART
    }

    /// Takes the rows out.
    pub(super) fn take(&mut self) -> Option<Changed> {
        self.bytes = 0;
        std::mem::replace(&mut self.changed, self.empty.clone()).filter(|changed| changed.rows() > 0)
    }
}

/// Notes every row of the database as changed, but those of the ledger.
///
/// # Errors
/// [`StoreError`]; the transaction must be rolled back.
pub(super) fn note_all(capture: &Capture, connection: &Connection) -> Result<(), StoreError> {
    let tables = capture.tables.iter().enumerate();
    for (number, table) in tables.filter(|(_, table)| !table.is_append_only() && table.name != SEQUENCES) {
        let key: Vec<String> = table.key().iter().map(|column| format!("\"{}\"", column.name)).collect();
        let into: Vec<String> = (0..key.len()).map(|i| format!("k{i}")).collect();
        let statement = format!(
            "INSERT INTO temp.fleet_changed (t, {}) SELECT {number}, {} FROM main.\"{}\"",
            into.join(", "),
            key.join(", "),
            table.name
        );
        connection.execute(&statement, []).map_err(at("note all rows"))?;
    }
    Ok(())
}

/// Reads the last number of each table whose numbers are never used again.
pub(super) fn numbers(connection: &Connection) -> Result<BTreeMap<String, i64>, StoreError> {
    connection
        .prepare_cached("SELECT name, seq FROM main.sqlite_sequence")
        .and_then(|mut s| s.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(at("read the sequences"))
}

/// Forgets the noted rows.
///
/// # Errors
/// [`StoreError`]; the transaction must be rolled back.
pub(super) fn forget(connection: &Connection) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM temp.fleet_changed")
        .and_then(|mut s| s.execute([]))
        .map_err(at("forget the changed rows"))?;
    Ok(())
}

/// Stores the last numbers of tables in the copy.
///
/// # Errors
/// [`StoreError`]; the transaction must be rolled back.
pub(super) fn number_on(connection: &Connection, rows: &[Vec<Value>]) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE main.sqlite_sequence SET seq = ?2 WHERE name = ?1";
    const INSERT: &str = "INSERT INTO main.sqlite_sequence (name, seq) VALUES (?1, ?2)";
    for row in rows {
        let known = connection.execute(UPDATE, params_from_iter(row)).map_err(at("copy the sequences"))?;
        if known == 0 {
            connection.execute(INSERT, params_from_iter(row)).map_err(at("copy the sequences"))?;
        }
    }
    Ok(())
}

fn read(
    connection: &Connection,
    select: &str,
    key: &[Value],
    columns: usize,
) -> Result<Option<Vec<Value>>, StoreError> {
    connection
        .prepare_cached(select)
        .and_then(|mut s| {
            s.query_row(params_from_iter(key), |row| {
                (0..columns).map(|i| row.get(i)).collect::<Result<Vec<Value>, _>>()
            })
            .optional()
        })
        .map_err(at("read a changed row"))
}
