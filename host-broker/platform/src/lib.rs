//! The operating system behind small traits: time, randomness, child processes, HTTP, files of the home, locks.
//!
//! Only this crate implements the traits with the real system. `main` builds the implementations once and passes them
//! down, so a test controls the time and the randomness. The crate knows no provider, no policy and no SQL.

pub mod agent_sandbox;
pub mod boot;
pub mod cgroup;
pub mod clock;
pub mod commands;
mod confined;
pub mod container;
pub mod delivery;
pub mod egress;
pub mod home;
pub mod http;
mod terminal;
mod tls;
pub mod websocket;
pub mod random;
pub mod lock;
pub mod resources;
pub mod sandbox;
pub mod service_manager;
pub mod service_unit;

use commands::Commands;
use http::Http;
use model::{Clock, Random};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The environment of the process, as it was at the start.
pub type Environment = BTreeMap<String, String>;

/// The operating system, as the broker uses it. `main` builds it once.
#[derive(Clone)]
pub struct Platform {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The randomness of ids and nonces.
    pub ids: Arc<dyn Random>,
    /// The environment.
    pub environment: Arc<Environment>,
    /// Child processes.
    pub commands: Arc<dyn Commands>,
    /// Requests to other hosts.
    pub http: Arc<dyn Http>,
    /// The runtime on which providers and channels run.
    pub runtime: Handle,
}
