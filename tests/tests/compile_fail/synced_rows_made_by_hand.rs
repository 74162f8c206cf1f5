use kernel::SyncedRows;

fn forge(last: i64) -> SyncedRows {
    SyncedRows(last)
}

fn main() {}
