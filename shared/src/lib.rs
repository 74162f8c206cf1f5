//! The protocol that both sides of the broker share.
//!
//! The sandbox (`mcp-shim`) and the host (`host-broker`) share nothing but one directory and this crate: the names that
//! may appear in a document, the documents themselves, the closed list of codes, the limits, and the mailbox, which is
//! the only way either side touches the shared directory.
//!
//! Nothing here decides anything: no policy, no provider, no secret. Read in the order of the list below.

pub mod auth;
pub mod code;
pub mod digest;
pub mod flow;
pub mod frame;
pub mod json;
pub mod level;
pub mod limits;
pub mod mailbox;
pub mod names;
pub mod numbers;
pub mod reply;
pub mod request;
pub mod rpc;
pub mod schema;
pub mod signature;
pub mod snapshot;
pub mod time;

pub use code::Code;
pub use level::Level;
pub use names::{AccountRef, Action, FlowId, Gate, Group, IdempotencyKey, Provider, RequestId, TaskId};
pub use reply::{Reply, Status};
pub use time::Timestamp;
