//! The chain of proofs: from a permitted call to its durable intent, and from its durable outcome to its reply.

mod held;
mod ledger;
mod proofs;

pub use held::Held;
pub use ledger::{Batch, Ledger};
pub use proofs::*;
