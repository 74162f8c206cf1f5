//! The world outside, behind small traits: time, randomness, child processes, HTTP.
//!
//! Only this module knows the real ones; they are made once, in `main`, and handed down. Everything else takes
//! what it is given, so that a test decides what time it is.

pub mod cgroup;
pub mod clock;
pub mod commands;
mod confined;
pub mod egress;
pub mod http;
pub mod ids;
pub mod isolation;
pub mod resources;
