//! The operating system behind small traits: time, randomness, child processes, HTTP, files of the home, locks.
//!
//! Only this crate implements the traits with the real system. `main` builds the implementations once and passes them
//! down, so a test controls the time and the randomness. The crate knows no provider, no policy and no SQL.

pub mod cgroup;
pub mod clock;
pub mod commands;
mod confined;
pub mod egress;
pub mod home;
pub mod http;
pub mod random;
pub mod lock;
pub mod resources;
pub mod sandbox;
