//! The chain of proofs: a permit, a durable intent, an execution, a durable reply, a notice, durable rows. Each proof is beside the
//! only function that makes it. Two proofs are elsewhere: `store::Receipt` of a row, and `Filtered` of the daemon.
//!
//! ```text
//! Facts ─► authorize ─► Authorized<'tx> ─► record_intent ─► Pending<'tx> ─ commit ─► Intended ─► execute ─► Executed
//!                                                             answer ─► Closing<'tx> ─ commit ─► Settled
//! ```
//!
//! Rust has no friend crates. So a proof and its constructor are in one crate, and each constructor takes the proof
//! before it by value.

pub mod authorize;
pub mod call;
mod charge;
pub mod contract;
pub mod execution;
mod held;
mod ledger;
pub mod run_handle;
mod notice;
mod one_time;
mod proofs;
mod slots;
mod synced;

pub use held::{Cost, Held};
pub use ledger::{Batch, Ledger};
pub use notice::{
    Message, NoticeDraft, OpenChannel, OutgoingNotice, PendingChannel, PendingNotice, announce, open_channel,
};
pub use one_time::{OneTimeValue, lacks_one_time_value};
pub use proofs::*;
pub use slots::Slots;
pub use synced::SyncedRows;
