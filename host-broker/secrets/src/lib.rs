//! Secrets: the operator's, the broker's own keys, the vault of persons' credentials, the tokens that prove for whom an agent
//! acts, and the search that finds the broker's own secrets wherever they come back.
//!
//! The text of an operator's secret is exposed only to a proof of the crate `kernel`: a running execution, a notice whose
//! transaction is durable, or an attempted effect. The URL of the database with the records is the exception.

pub mod exchange;
pub mod identity;
pub mod keys;
pub mod names;
pub mod search;
mod secret;
pub mod vault;

pub use secret::*;
