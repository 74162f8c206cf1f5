//! Providers: what can be done in the world outside.
//!
//! A provider is a list of [`Operation`](kernel::contract::Operation)s. Native ones are structs whose fields are the parameters
//! ([`native::NativeAction`]); others are values with a JSON Schema. Policy, ledger and filter see only the
//! contract and never know the difference.
//!
//! Only this module runs effects, and only with an [`Execution`](kernel::execution::Execution), which only a durable intent gives out.

pub mod accepted;
pub mod bridge;
pub mod child;
pub mod cloud_logs;
pub mod files;
pub mod github;
pub mod linking;
pub mod mcp;
pub mod native;
pub mod mock;
pub mod oauth;
pub mod registry;
pub mod schemas;
pub mod setup;
