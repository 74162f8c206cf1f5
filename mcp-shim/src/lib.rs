//! The agent's side of the broker: an MCP server without network, secrets or policy.
//!
//! It turns a tool call into one document in the shared directory, waits for the one reply, and puts the reply into
//! words. Everything else is decided on the host. It has no network, starts no process, and needs nothing of a file
//! system but that directory.
//!
//! Enter at [`server`] for an MCP client, at [`cli`] for a script; both meet in [`rendezvous`], which sends a request
//! over the host's socket ([`connection`]) or as a file. Only [`render`] words the texts for an agent.

pub mod calls;
pub mod cli;
pub mod document;
pub mod connection;
pub mod progress;
pub mod render;
pub mod rendezvous;
pub mod sandbox_start;
pub use shared::schema;
pub mod server;
pub mod settings;
pub mod shim;
pub mod snapshot;
pub mod tools;
pub mod transport;
pub mod watch;
