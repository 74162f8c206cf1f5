//! The store: the evidence and the state beside it, in one SQLite database. This crate has the only SQL.
//!
//! [`ledger`] is the append-only, hash-chained log. [`state`] holds everything that may change: grants, approvals, open
//! intents, replies and the rest. Both are written in one [`Transaction`], which [`Store`] makes for its one writer. A
//! [`View`] reads, inside a transaction or beside it.
//!
//! The store makes no decision, and does not know why a row is written.

pub mod backup;
mod cache;
mod error;
pub mod fleet;
pub mod ledger;
mod open;
mod publication_use;
mod reserve;
mod shared_use;
pub mod state;
mod steady;
mod store;
mod transaction;
mod view;
mod wal;

pub(crate) use error::at;
pub use error::{DatabaseError, StoreError};
pub use open::{at_rest, lock, reader, reader_until};
pub use steady::estimate as steady_estimate;
pub use store::{CLOCK_BEHIND_MAX, ClockCheck, Durability, Store, StoreStats, Undone};
pub use transaction::{Brand, Receipt, Transaction};
pub use view::View;
