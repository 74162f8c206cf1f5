//! The ledger: one append-only, hash-chained log, and all code that reads, verifies, bounds and rotates it.

pub mod broken;
pub mod budget;
pub mod calls;
pub mod chain;
pub mod checkpoint;
pub mod checkpoint_verifier;
pub mod checkpoints;
pub mod export;
pub mod figures;
pub mod folding;
pub mod health;
pub mod minor;
pub mod proof;
pub mod recent;
pub mod segments;
pub mod tree;
pub mod usage;
pub mod verification;
pub mod verifier;
