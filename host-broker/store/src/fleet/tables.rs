//! The tables that a fleet's database holds for each host, as the schema of the local copy has them.
//!
//! The local schema is the only one that is written by hand. Each of its tables has a counterpart in PostgreSQL. It
//! has the same columns, and the name of the host before the key. SQLite keeps the other constraints, because a host alone writes
//! its rows.

use crate::open::SCHEMA_VERSION;
use crate::{StoreError, at};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::fmt::Write as _;
use tokio_postgres::types::ToSql;

/// The version of the tables: their own, times 100, and that of the local schema.
pub(super) const TABLES_VERSION: i64 = 400 + SCHEMA_VERSION;
/// The tables that only the local copy has. Triggers fill the first three from other tables. The others name files of
/// the home, or can be read again from the rows.
const LOCAL: [&str; 7] =
    ["reply_bytes", "flow_grants_count", "flow_grants_by", "segments", "burnt_ids", "checkpoint", "fleet"];
/// Fills the tables that triggers fill, while they are off.
pub(super) const COUNTED: &str = "DELETE FROM main.reply_bytes;
    INSERT INTO main.reply_bytes SELECT caller, sum(length(reply)) FROM main.replies GROUP BY caller;
    UPDATE main.flow_grants_count SET n = (SELECT count(*) FROM main.flow_grants);
    DELETE FROM main.flow_grants_by;
    INSERT INTO main.flow_grants_by SELECT issued_by, count(*) FROM main.flow_grants GROUP BY issued_by;";
/// The columns with bodies. What the vault has encrypted is not encrypted twice. The ledger stays readable for auditors.
const ENCRYPTED: [(&str, &str); 20] = [
    ("approval_answers", "reason"),
    ("approvals", "card"),
    ("approvals", "code"),
    ("approvals", "document"),
    ("approvals", "sealed"),
    ("approvals", "standing"),
    ("auth_flows", "expected"),
    ("flow_documents", "document"),
    ("flow_versions", "title"),
    ("open_intents", "probe"),
    ("plan_steps", "document"),
    ("plan_steps", "sealed"),
    ("proposals", "changes"),
    ("proposals", "diff"),
    ("quarantine", "data"),
    ("quarantine", "summary"),
    ("replies", "reply"),
    ("standing_approvals", "pattern"),
    ("tasks", "title"),
    ("unknown_outcomes", "probe"),
];
/// The evidence. Its rows are inserted only.
pub(super) const LEDGER: &str = "ledger";
/// The counterpart of SQLite's `sqlite_sequence`: the last number of each table whose numbers are never used again.
pub(super) const SEQUENCES: &str = "sequences";
/// The most columns of a key.
pub(super) const KEY_MAX: usize = 6;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Text,
    Blob,
}

impl Kind {
    fn of(declared: &str) -> Option<Self> {
        match declared {
            "INTEGER" => Some(Self::Integer),
            "TEXT" => Some(Self::Text),
            "BLOB" => Some(Self::Blob),
            _ => None,
        }
    }

    /// Returns the type in PostgreSQL.
    pub(super) fn postgres(self) -> &'static str {
        match self {
            Self::Integer => "bigint",
            Self::Text => "text",
            Self::Blob => "bytea",
        }
    }
}

/// The number of rows of a statement. PostgreSQL reads each array as a table of its own, so one row is sent as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rows {
    One,
    Many,
}

impl Rows {
    pub(super) fn of(number: u64) -> Self {
        if number == 1 { Self::One } else { Self::Many }
    }

    /// Returns the parameter of a column, after those of the host and the batch.
    fn parameter(self, column: usize, kind: Kind) -> String {
        let array = match self {
            Self::One => "",
            Self::Many => "[]",
        };
        format!("${}::{}{array}", column + 3, kind.postgres())
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    is_required: bool,
    /// The position in the key, from 1; 0 is no part of it.
    key: u32,
    /// Whether PostgreSQL has its values encrypted only.
    pub(super) is_encrypted: bool,
}

impl Column {
    /// Returns the type of its values in PostgreSQL.
    pub(super) fn stored(&self) -> Kind {
        if self.is_encrypted { Kind::Blob } else { self.kind }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
}

impl Table {
    /// Returns the columns of the key, in the key's order.
    pub(super) fn key(&self) -> Vec<&Column> {
        let mut key: Vec<&Column> = self.columns.iter().filter(|column| column.key > 0).collect();
        key.sort_by_key(|column| column.key);
        key
    }

    /// Returns whether its rows are inserted only.
    pub(super) fn is_append_only(&self) -> bool {
        self.name == LEDGER
    }

    /// Returns whether the statement that writes rows counts each one.
    pub(super) fn counts_writes(&self) -> bool {
        self.is_append_only() || self.columns.iter().any(|column| column.key == 0)
    }

    fn names(columns: &[&Column], before: &str) -> String {
        let names: Vec<String> = columns.iter().map(|column| format!("{before}\"{}\"", column.name)).collect();
        names.join(", ")
    }

    fn all(&self) -> Vec<&Column> {
        self.columns.iter().collect()
    }

    /// Returns the local statement that reads the row with a key.
    pub(super) fn local_select(&self) -> String {
        let equal: Vec<String> =
            self.key().iter().enumerate().map(|(i, column)| format!("\"{}\" = ?{}", column.name, i + 1)).collect();
        let columns = Self::names(&self.all(), "");
        format!("SELECT {columns} FROM main.\"{}\" WHERE {}", self.name, equal.join(" AND "))
    }

    /// Returns the local statement that inserts a row.
    pub(super) fn local_insert(&self) -> String {
        let values: Vec<String> = (1..=self.columns.len()).map(|i| format!("?{i}")).collect();
        let columns = Self::names(&self.all(), "");
        format!("INSERT INTO main.\"{}\" ({columns}) VALUES ({})", self.name, values.join(", "))
    }

    /// Returns the triggers that note the keys of changed rows in a temporary table.
    pub(super) fn triggers(&self, number: usize) -> String {
        let key = self.key();
        let into: Vec<String> = (0..key.len()).map(|i| format!("k{i}")).collect();
        let into = into.join(", ");
        let (new, old) = (Self::names(&key, "NEW."), Self::names(&key, "OLD."));
        let note = |key: &str| format!("INSERT INTO fleet_changed (t, {into}) VALUES ({number}, {key});");
        let name = &self.name;
        let mut script = format!(
            "CREATE TEMP TRIGGER fleet_{name}_insert AFTER INSERT ON main.\"{name}\" BEGIN {} END;\n",
            note(&new)
        );
        // The ledger's rows never change. Those that are deleted are in a segment, and stay in PostgreSQL.
        if !self.is_append_only() {
            write!(
                script,
                "CREATE TEMP TRIGGER fleet_{name}_update AFTER UPDATE ON main.\"{name}\" BEGIN {} {} END;\n\
                 CREATE TEMP TRIGGER fleet_{name}_delete AFTER DELETE ON main.\"{name}\" BEGIN {} END;\n",
                note(&old),
                note(&new),
                note(&old)
            )
            .ok();
        }
        script
    }

    /// Returns the statement that writes rows, whose columns are values after the host and the batch.
    pub(super) fn upsert(&self, rows: Rows) -> String {
        let values: Vec<String> =
            self.columns.iter().enumerate().map(|(i, column)| rows.parameter(i, column.stored())).collect();
        let values = values.join(", ");
        let from = match rows {
            Rows::One => values,
            Rows::Many => format!("* FROM unnest({values})"),
        };
        let (columns, key) = (Self::names(&self.all(), ""), Self::names(&self.key(), ""));
        let others: Vec<&Column> = self.columns.iter().filter(|column| column.key == 0).collect();
        let conflict = if self.is_append_only() {
            String::new()
        } else if !self.counts_writes() {
            format!(" ON CONFLICT (host, {key}) DO NOTHING")
        } else {
            let set: Vec<String> =
                others.iter().map(|column| format!("\"{0}\" = EXCLUDED.\"{0}\"", column.name)).collect();
            format!(" ON CONFLICT (host, {key}) DO UPDATE SET {}", set.join(", "))
        };
        format!(
            "INSERT INTO host_broker.\"{}\" (host, {columns}) SELECT $1::text, {from} WHERE {ENTERED}{conflict}",
            self.name
        )
    }

    /// Returns the statement that deletes rows, whose keys are values after the host and the batch.
    pub(super) fn delete(&self, rows: Rows) -> String {
        let key = self.key();
        let values: Vec<String> = key.iter().enumerate().map(|(i, column)| rows.parameter(i, column.kind)).collect();
        let (using, equal): (String, Vec<String>) = match rows {
            Rows::One => {
                let equal = key.iter().zip(&values).map(|(column, value)| format!("t.\"{}\" = {value}", column.name));
                (String::new(), equal.collect())
            }
            Rows::Many => {
                let equal = key.iter().map(|column| format!("t.\"{0}\" = gone.\"{0}\"", column.name));
                let names = Self::names(&key, "");
                (format!(" USING unnest({}) AS gone ({names})", values.join(", ")), equal.collect())
            }
        };
        format!(
            "DELETE FROM host_broker.\"{}\" AS t{using} WHERE t.host = $1::text AND {} AND {ENTERED}",
            self.name,
            equal.join(" AND ")
        )
    }

    /// Returns the statement that reads the rows of a host; of the ledger, those after a number.
    pub(super) fn select(&self) -> String {
        let after = if self.is_append_only() { " AND seq > $2::bigint" } else { " AND $2::bigint IS NOT NULL" };
        format!(
            "SELECT {} FROM host_broker.\"{}\" WHERE host = $1::text{after} ORDER BY {}",
            Self::names(&self.all(), ""),
            self.name,
            Self::names(&self.key(), "")
        )
    }

    /// Returns the statements that make the table, or add the columns of later versions.
    pub(super) fn definition(&self) -> String {
        let typed = |column: &Column| {
            let collation = if column.stored() == Kind::Text { " COLLATE \"C\"" } else { "" };
            format!("\"{}\" {}{collation}", column.name, column.stored().postgres())
        };
        let name = &self.name;
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("    {}{}", typed(column), if column.is_required { " NOT NULL" } else { "" }))
            .collect();
        let mut script = format!(
            "CREATE TABLE IF NOT EXISTS host_broker.\"{name}\" (\n    host text COLLATE \"C\" NOT NULL,\n{},\n    \
             PRIMARY KEY (host, {})\n);\n",
            columns.join(",\n"),
            Self::names(&self.key(), "")
        );
        for column in self.columns.iter().filter(|column| !column.is_required) {
            writeln!(script, "ALTER TABLE host_broker.\"{name}\" ADD COLUMN IF NOT EXISTS {};", typed(column)).ok();
        }
        script
    }
}

/// The condition of every write: it runs in the transaction that has entered this batch of this host. A statement that
/// runs outside, because the beginning of its transaction failed, changes nothing.
pub(super) const ENTERED: &str = "current_setting('host_broker.batch', true) = $1::text || '/' || $2::bigint";

/// Reads the tables from the schema of a local database.
///
/// # Errors
/// [`StoreError`], also if a table has no counterpart: a column of another type, or no key.
pub(super) fn all(connection: &Connection) -> Result<Vec<Table>, StoreError> {
    const NAMES: &str =
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
        ORDER BY name";
    let names: Vec<String> = connection
        .prepare(NAMES)
        .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
        .map_err(at("read the schema"))?;
    let mut tables = Vec::new();
    for name in names.into_iter().filter(|name| !LOCAL.contains(&name.as_str())) {
        tables.push(table(connection, name)?);
    }
    tables.push(sequences());
    Ok(tables)
}

fn table(connection: &Connection, name: String) -> Result<Table, StoreError> {
    const COLUMNS: &str = "SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1, 'main') ORDER BY cid";
    let no_counterpart = || StoreError::Stored { what: "table that no fleet can hold" };
    let columns: Vec<(String, String, bool, u32)> = connection
        .prepare(COLUMNS)
        .and_then(|mut s| {
            s.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
        })
        .map_err(at("read the schema"))?;
    let columns = columns.into_iter().map(|(column, declared, is_required, key)| {
        let is_encrypted = ENCRYPTED.contains(&(&name, &column));
        let is_required = is_required || key > 0;
        Kind::of(&declared).map(|kind| Column { name: column, kind, is_required, key, is_encrypted })
    });
    let columns = columns.collect::<Option<_>>().ok_or_else(no_counterpart)?;
    let table = Table { name, columns };
    if (1..=KEY_MAX).contains(&table.key().len()) { Ok(table) } else { Err(no_counterpart()) }
}

fn sequences() -> Table {
    let column =
        |name: &str, kind, key| Column { name: name.to_owned(), kind, is_required: true, key, is_encrypted: false };
    let columns = vec![column("name", Kind::Text, 1), column("seq", Kind::Integer, 0)];
    Table { name: SEQUENCES.to_owned(), columns }
}

/// The values of one column of several rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Blobs(Vec<Option<Vec<u8>>>),
}

impl Values {
    pub(super) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integers(Vec::new()),
            Kind::Text => Self::Texts(Vec::new()),
            Kind::Blob => Self::Blobs(Vec::new()),
        }
    }

    /// Returns the values as an array.
    pub(super) fn array(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Integers(values) => values,
            Self::Texts(values) => values,
            Self::Blobs(values) => values,
        }
    }

    /// Returns the value of the only row.
    pub(super) fn first(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Integers(values) => values.first().unwrap_or(&None),
            Self::Texts(values) => values.first().unwrap_or(&None),
            Self::Blobs(values) => values.first().unwrap_or(&None),
        }
    }

    /// Adds a value; `None` if it has another type than the column.
    pub(super) fn push(&mut self, value: Value) -> Option<()> {
        match (self, value) {
            (Self::Integers(values), Value::Null) => values.push(None),
            (Self::Texts(values), Value::Null) => values.push(None),
            (Self::Blobs(values), Value::Null) => values.push(None),
            (Self::Integers(values), Value::Integer(value)) => values.push(Some(value)),
            (Self::Texts(values), Value::Text(value)) => values.push(Some(encoded(value))),
            (Self::Blobs(values), Value::Blob(value)) => values.push(Some(value)),
            (Self::Integers(_) | Self::Texts(_) | Self::Blobs(_), _) => return None,
        }
        Some(())
    }
}

/// The character that begins an encoded one. It is for private use, and means nothing elsewhere.
const ESCAPE: char = '\u{f8ff}';

/// Encodes a text for PostgreSQL, whose texts hold no NUL.
fn encoded(text: String) -> String {
    if !text.contains(['\0', ESCAPE]) {
        return text;
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => encoded.extend([ESCAPE, '0']),
            ESCAPE => encoded.extend([ESCAPE, '1']),
            other => encoded.push(other),
        }
    }
    encoded
}

/// Decodes a text of PostgreSQL; `None` if [`encoded`] did not make it.
pub(super) fn decoded(text: String) -> Option<String> {
    if !text.contains(ESCAPE) {
        return Some(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        decoded.push(match (character, character == ESCAPE) {
            (other, false) => other,
            (_, true) => match characters.next()? {
                '0' => '\0',
                '1' => ESCAPE,
                _ => return None,
            },
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::schema;

    #[test]
    fn every_table_but_the_local_ones_has_a_counterpart() {
        let connection = Connection::open_in_memory().unwrap();
        schema(&connection).unwrap();
        let tables = all(&connection).unwrap();
        let named = |name: &str| tables.iter().any(|table| table.name == name);
        assert!(named("ledger") && named("grants") && named("approvals") && named(SEQUENCES));
        for local in LOCAL {
            let exists = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
            let exists: i64 = connection.query_row(exists, [local], |row| row.get(0)).unwrap();
            assert_eq!((exists, named(local)), (1, false), "{local}");
        }
    }

    /// The other columns with texts and bytes: names, words of the broker, digests, times, and what the ledger has, too.
    /// Those of the vault are encrypted already.
    const READABLE: &str = "\
        account_keys: person capability account_ref\n\
        account_links: flow person capability account_ref label sealed\n\
        account_refusals: person capability account_ref\n\
        account_shares: person capability account_ref with_person shared_by\n\
        accounts: person capability account_ref label linked_by\n\
        approval_accounts: person capability account_ref\n\
        approval_answers: by channel\n\
        approvals: kind caller request_id reply_as provider action digest state became for_group asks person nested access\n\
        auth_flows: id caller person behalf capability state sealed\n\
        breakers: caller provider\n\
        broken_evidence: error\n\
        buckets: caller provider scope\n\
        chat_misses: sender\n\
        chat_silence: sender\n\
        conversations: caller id\n\
        credentials: person capability account_ref sealed\n\
        denials: caller person provider action params_digest\n\
        exposures: caller provider action\n\
        flow_documents: vault flow_id version\n\
        flow_grants: grant_id bearer vault scope flow_id version tools actor issued_by\n\
        flow_versions: vault flow_id version state scope digest proposed_by decided_by\n\
        gate_approvals: task gate approved_by\n\
        grants: group_folder provider allowed_actions denied_actions requires_task_gate granted_by catalogue chat_types chat_ids revoked_by\n\
        idempotency: caller person account provider action key params_digest request_id\n\
        kill_switches: scope by\n\
        notice_events: event said\n\
        notices: event said channel state announced fault\n\
        one_time_values: caller request_id provider field sealed\n\
        open_intents: caller request_id stage nonce\n\
        operator_tokens: token_id bearer label parts scopes vault issued_by\n\
        plan_steps: caller request_id provider action digest asks outcome code\n\
        proposals: id caller proposed_by path summary patch_hash apply_as applied_by\n\
        publication: digest document\n\
        quarantine: caller request_id provider action verdict reasons\n\
        quotas: caller provider scope\n\
        replies: caller request_id\n\
        standing_approvals: caller person provider action terms policy covers exposures given_by ended_by\n\
        tasks: id assigned_group state created_by\n\
        temporary_grants: group_folder provider allowed_actions requires_task_gate granted_by catalogue chat_types chat_ids\n\
        unknown_outcomes: caller request_id provider action nonce\n\
        sequences: name";

    #[test]
    fn every_column_is_encrypted_or_known_to_hold_no_body() {
        let connection = Connection::open_in_memory().unwrap();
        schema(&connection).unwrap();
        let mut lines = Vec::new();
        for table in all(&connection).unwrap().iter().filter(|table| table.name != LEDGER) {
            let is_shown = |column: &&Column| column.kind != Kind::Integer && !column.is_encrypted;
            let names: Vec<&str> = table.columns.iter().filter(is_shown).map(|column| column.name.as_str()).collect();
            if !names.is_empty() {
                lines.push(format!("{}: {}", table.name, names.join(" ")));
            }
        }
        assert_eq!(lines.join("\n"), READABLE, "a new column goes into ENCRYPTED, or into this list with a reason");
    }

    #[test]
    fn every_body_has_a_column_that_is_no_key() {
        let connection = Connection::open_in_memory().unwrap();
        schema(&connection).unwrap();
        let tables = all(&connection).unwrap();
        let columns = tables.iter().flat_map(|table| table.columns.iter().map(move |column| (table, column)));
        let encrypted: Vec<_> = columns.filter(|(_, column)| column.is_encrypted).collect();
        assert_eq!(encrypted.len(), ENCRYPTED.len());
        assert!(encrypted.iter().all(|(table, column)| column.key == 0 && !table.is_append_only()));
    }

    #[test]
    fn a_text_with_nul_is_encoded_and_decoded() {
        for text in ["", "plain", "\0", "a\0b\u{f8ff}c\u{f8ff}0", "\u{f8ff}"] {
            let stored = encoded(text.to_owned());
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(decoded(stored).as_deref(), Some(text));
        }
        assert_eq!(decoded("\u{f8ff}2".to_owned()), None);
        assert_eq!(decoded("\u{f8ff}".to_owned()), None);
    }
}
