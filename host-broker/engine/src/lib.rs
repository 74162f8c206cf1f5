//! The pipeline of a call: from a parsed request to its reply.
//!
//! The list below is the order in which a request meets the modules. [`pipeline`] is the file to read first. The crate
//! knows no concrete provider, no HTTP server, no command line and no file of a mailbox.

pub mod event;
pub mod request;
pub mod facts;
pub mod approvals;
pub mod flows;
pub mod accounts;
pub mod operator_tokens;
pub mod limits;
pub mod catalogue;
pub mod rights;
pub mod clean;
pub mod own_secrets;
pub mod inspection;

pub mod pipeline;
pub mod broker;
mod event_results;
mod preconditions;
mod lifecycle;
pub mod restored;
pub mod follow_ups;
pub mod outcomes;
pub mod quarantine_release;
pub mod replies;
pub mod commands;
pub mod approval_requests;
pub mod approval_subjects;
pub mod features;
pub mod file_proposals;
pub mod account_linking;
pub mod one_time_values;
pub mod standing_approvals;
pub mod plans;
pub mod definitions;
pub mod notices;
pub mod chat;
pub mod capability_replies;
pub mod snapshot;
pub mod ruleset;
