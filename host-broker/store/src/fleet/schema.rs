//! The SQL scripts that make the tables of a fleet and admit its hosts. An administrator of the database runs them.

use super::tables::{self, LEDGER, TABLES_VERSION, Table};
use crate::StoreError;
use crate::open::schema;
use model::HostName;
use rusqlite::Connection;
use std::fmt::Write as _;

/// The functions. A host calls `enter` first in each transaction; an administrator calls `admit`.
const FUNCTIONS: &str = include_str!("functions.sql");
const HOSTS: &str = include_str!("hosts.sql");

/// Returns the script that makes the tables, or upgrades them. It can run twice.
///
/// # Errors
/// [`StoreError`] if the schema of the local copy cannot be read.
pub fn schema_script() -> Result<String, StoreError> {
    let local = Connection::open_in_memory().map_err(crate::at("make the schema"))?;
    schema(&local)?;
    let tables = tables::all(&local)?;
    let mut script = format!(
        "-- The tables of a fleet of host-brokers, version {TABLES_VERSION}.\nBEGIN;\nSET LOCAL client_min_messages = warning;\n{HOSTS}\n"
    );
    for table in &tables {
        writeln!(script, "{}{}", table.definition(), own_rows(&table.name)).ok();
    }
    let (ledger, others): (Vec<&Table>, Vec<&Table>) = tables.iter().partition(|table| table.name == LEDGER);
    let named = |tables: &[&Table]| {
        let names: Vec<String> = tables.iter().map(|table| format!("host_broker.\"{}\"", table.name)).collect();
        names.join(", ")
    };
    script += &FUNCTIONS.replace("LEDGER_TABLES", &named(&ledger)).replace("STATE_TABLES", &named(&others));
    write!(
        script,
        "INSERT INTO host_broker.version VALUES (1, {TABLES_VERSION})\n    ON CONFLICT (one) DO UPDATE SET version = \
         EXCLUDED.version;\nDO $$ BEGIN PERFORM host_broker.admit(host, role) FROM host_broker.hosts; END $$;\nCOMMIT;\n"
    )
    .ok();
    Ok(script)
}

/// A role sees and writes the rows of its host only.
fn own_rows(table: &str) -> String {
    format!(
        "ALTER TABLE host_broker.\"{table}\" ENABLE ROW LEVEL SECURITY;\n\
         DROP POLICY IF EXISTS own ON host_broker.\"{table}\";\n\
         CREATE POLICY own ON host_broker.\"{table}\"\n    USING (host = (SELECT h.host FROM host_broker.hosts AS h WHERE \
         h.role = session_user::text));\n"
    )
}

/// Returns the script that adds a host, whose broker connects with this role. It can run twice. The role must exist.
pub fn host_script(host: &HostName, role: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    format!("SELECT host_broker.admit({}, {});\n", quoted(host.as_str()), quoted(role))
}
