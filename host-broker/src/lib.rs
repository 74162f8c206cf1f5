//! The daemon: the mailboxes of the groups, the loop, the control socket, HTTP, the command line, and the assembly of all
//! parts. The pipeline of a call is in `engine`.

pub mod mailboxes;
pub mod sockets;
pub mod request_watcher;
pub mod sinks;
pub mod outbox;
pub mod receivers;
pub mod log;
pub mod daemon;
pub mod control;
pub mod fleet_commands;
pub mod fleet_policy;
pub mod metrics;
pub mod http;
pub mod providers;
pub mod assembly;
pub mod host;
pub mod percentile;
pub mod narrowing;
pub mod story;
pub mod cli;
