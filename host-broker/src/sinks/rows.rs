//! The next rows for a sink: read from segments and the database, verified, bounded in bytes.

use super::position::Position;
use super::traces;
use kernel::SyncedRows;
use model::errors::chain;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use store::ledger::chain::{Head, Row};
use store::ledger::verifier::Verifier;
use store::ledger::{export, segments};
use store::{StoreError, View};

/// The bytes after which no further row is sent in one piece. Many servers take no more than a mebibyte.
const BYTES: usize = 512 * 1024;
/// The longest time that a read of the database may take.
const READ: Duration = Duration::from_secs(30);

/// Some rows, each the successor of the one before.
#[derive(Debug)]
pub(super) struct Rows {
    /// At least one row.
    pub(super) next: Vec<Row>,
    /// The earlier rows of each call that ends with one of these rows, by the number of that row.
    pub(super) earlier: BTreeMap<i64, Vec<Row>>,
    end: Head,
}

/// Why a read ends.
enum Stop {
    /// The piece is as large as it may be.
    Full,
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl Rows {
    /// Reads the rows after the position, up to the last one. `None` if there are none. Perhaps it also reads the earlier
    /// rows of the calls that end.
    ///
    /// # Errors
    /// A sentence for the operator: the ledger cannot be read, rows of it are missing or changed, or it is not the ledger
    /// whose rows were accepted.
    pub(super) fn after(
        home: &Path,
        position: Position,
        synced: &SyncedRows,
        is_with_earlier: bool,
    ) -> Result<Option<Self>, String> {
        let last = synced.last();
        if position.seq > last {
            return Err(format!(
                "it has accepted row {}, but the ledger ends at row {last}; the ledger was restored or replaced. See: \
                 host-broker evidence resume",
                position.seq
            ));
        }
        let view = store::reader_until(home, Instant::now() + READ).map_err(|error| chain(&error))?;
        let (mut verifier, mut rows, mut bytes) = (Verifier::after(position.into()), Vec::new(), 0_usize);
        let read = segments::between(home, &view, position.seq.saturating_add(1), last, |row| {
            verifier.take(&row).map_err(|fault| Stop::Failed(fault.into()))?;
            bytes = bytes.saturating_add(row.cost());
            rows.push(row);
            if bytes >= BYTES { Err(Stop::Full) } else { Ok(()) }
        });
        match read {
            Ok(()) if rows.is_empty() && position.seq < last => {
                return Err(format!("rows of the ledger are missing: {} to {last}", position.seq.saturating_add(1)));
            }
            Ok(()) | Err(Stop::Full) => {}
            // The rows before it are as they were.
            Err(Stop::Failed(_)) if !rows.is_empty() => {}
            Err(Stop::Failed(error)) => return Err(chain(&error)),
        }
        let mut earlier = BTreeMap::new();
        if is_with_earlier {
            earlier = earlier_rows(&view, &rows).map_err(|error| chain(&error))?;
        }
        Ok((!rows.is_empty()).then(|| Self { next: rows, earlier, end: verifier.head() }))
    }

    /// Returns the position after these rows.
    pub(super) fn end(&self) -> Position {
        self.end.into()
    }
}

/// Returns the earlier rows of each call that ends with one of these rows, by the number of that row. They are rows of the
/// database, whose content is verified once more, and of this piece. If they are too many bytes, those of some calls
/// are left out.
fn earlier_rows(view: &View, rows: &[Row]) -> Result<BTreeMap<i64, Vec<Row>>, StoreError> {
    let (first, mut left, mut found) = (rows.first().map_or(0, |row| row.seq), BYTES, BTreeMap::new());
    for (end, request) in rows.iter().filter_map(traces::end_of_call) {
        let mut earlier = export::earlier(view, &end.caller, request, first, traces::ROWS_MAX)?;
        earlier.retain(|row| row.hash() == row.event_hash);
        let is_earlier =
            |row: &&Row| row.seq < end.seq && row.caller == end.caller && row.request_id.as_deref() == Some(request);
        earlier.extend(rows.iter().filter(is_earlier).cloned());
        let cost = earlier.iter().map(Row::cost).fold(0, usize::saturating_add);
        if let Some(rest) = left.checked_sub(cost) {
            left = rest;
            found.insert(end.seq, earlier);
        }
    }
    Ok(found)
}
