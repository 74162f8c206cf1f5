//! Reading the ledger beside the running host.

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use store::ledger::chain::Row;
use store::ledger::verifier::Verifier;
use store::ledger::{export, segments};
use store::{StoreError, View};

/// Every row, in order.
pub fn rows(home: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    export::each(&view(home), 1, |row| {
        rows.push(row);
        Ok::<(), StoreError>(())
    })
    .unwrap();
    rows
}

/// The reads of the store.
pub fn view(home: &Path) -> View {
    store::reader(home).unwrap()
}

/// A connection that can only read.
pub fn connection(home: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(home.join("ledger.db"), flags).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

/// A row's body.
pub fn body(row: &Row) -> Value {
    serde_json::from_str(&row.body).unwrap()
}

/// Fails unless all rows verify, also those in segments, and every intent has its outcome.
pub fn verify(home: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    segments::each(home, &view(home), 1, |row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    let mut verifier = Verifier::new();
    for row in &rows {
        verifier.take(row).unwrap();
    }
    let open: Vec<i64> = verifier.open().collect();
    let since = |row: &&Row| open.first().is_some_and(|first| row.seq >= *first);
    let told = |row: &Row| format!("{} {} {}: {}", row.seq, row.ts, row.kind, row.body);
    let rest: Vec<String> = rows.iter().filter(since).map(told).collect();
    assert!(open.is_empty(), "intents without an outcome: {open:?}; the rows since:\n{}", rest.join("\n"));
    assert_eq!(open_intents(home), 0, "the table of open intents disagrees with the chain");
    rows
}

/// How many effects are under way.
pub fn open_intents(home: &Path) -> i64 {
    connection(home).query_row("SELECT count(*) FROM open_intents", [], |row| row.get(0)).unwrap()
}

/// The rows of a query as JSON objects: for views and tables beside the chain.
pub fn query(home: &Path, sql: &str) -> Vec<Value> {
    use rusqlite::types::ValueRef;
    let connection = connection(home);
    let mut statement = connection.prepare(sql).unwrap();
    let names: Vec<String> = statement.column_names().map(ToString::to_string).collect();
    let rows = statement.query_map([], |row| {
        let mut object = serde_json::Map::new();
        for (index, name) in names.iter().enumerate() {
            let value = match row.get_ref(index)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
                ValueRef::Blob(bytes) => base16ct::lower::encode_string(bytes).into(),
            };
            object.insert(name.clone(), value);
        }
        Ok(Value::Object(object))
    });
    rows.unwrap().map(Result::unwrap).collect()
}
