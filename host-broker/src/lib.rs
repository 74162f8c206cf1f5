//! The host's side of the broker: decides, records, executes, answers.
//!
//! The list below is the order in which a request meets the modules.

pub mod effects;
pub mod filter;
pub mod providers;
pub mod secrets;
