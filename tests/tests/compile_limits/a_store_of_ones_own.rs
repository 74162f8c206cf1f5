// A crate that knows the store can open one in another directory, with a ledger of its own.
use model::Clock;
use std::path::Path;
use std::sync::Arc;
use store::{Store, StoreError};

fn open(clock: Arc<dyn Clock>) -> Result<Store, StoreError> {
    Store::open(Path::new("/elsewhere"), clock, String::new())
}

fn main() {}
