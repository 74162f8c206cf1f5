//! Assembly: from the configuration and its secrets to the catalogue, the filters and the vault.

pub mod catalogue;
pub mod checkpoint_keys;
pub mod filters;
pub mod fleet;
pub mod ruleset;
pub mod secrets;
pub mod vault;
