//! The host's side of the broker: decides, records, executes, answers.
//!
//! The list below is the order in which a request meets the modules. [`broker`] is the file to read first.

pub mod mailroom;

pub mod intake;
pub mod call;
pub mod authorize;
pub mod approvals;
pub mod flows;
pub mod accounts;
pub mod operators;
pub mod limits;
pub mod catalogue;
pub mod providers;
pub mod rights;
pub mod clean;
pub mod own_secrets;
pub mod inspection;
pub mod outbox;

pub mod broker;
pub mod settling;
pub mod releasing;
pub mod answers;
pub mod directives;
pub mod questions;
pub mod proposing;
pub mod linking;
pub mod redefining;
pub mod notices;
pub mod chat;
pub mod capability_answers;
pub mod snapshot;

pub mod assembly;
pub mod terms;
pub mod event;
pub mod daemon;
pub mod control;
pub mod http;
pub mod host;
pub mod cli;
