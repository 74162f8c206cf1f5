//! Support for providers: everything that more than one kind of provider needs.
//!
//! A provider is a crate that implements [`ProviderKind`](kind::ProviderKind) and returns
//! [`Operation`](contract::Operation)s. Native actions are structs whose fields are the parameters
//! ([`native::NativeAction`]); other operations are values with a JSON Schema. The policy, the ledger and the filter use
//! only the [`contract`].
//!
//! The crate knows no concrete provider, and neither the engine nor the store.

pub mod accounts;
pub mod child;
pub mod connection;
pub mod contract;
pub mod definitions;
pub mod google;
pub mod issued_tokens;
pub mod kind;
pub mod linking;
pub mod native;
pub mod oauth;
pub mod pinned_definitions;
pub mod remote;
pub mod schemas;
pub mod table;
