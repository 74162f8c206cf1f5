//! One provider's table.

use crate::config::{ConfigError, Environment};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// One provider: what is common to all, and what its kind needs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ProviderTable {
    /// By script.
    Mock(MockTable),
}

/// A provider by script.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockTable {
    /// The script, relative to this file.
    pub script: PathBuf,
    /// Whether it takes calls.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How long a caller waits, in milliseconds.
    pub timeout_ms: Option<u64>,
}

fn yes() -> bool {
    true
}

impl ProviderTable {
    /// Applies the environment's values.
    pub(super) fn apply(&mut self, _environment: &Environment) -> Result<(), ConfigError> {
        match self {
            Self::Mock(_) => Ok(()),
        }
    }

    /// Whether it takes calls.
    pub fn enabled(&self) -> bool {
        match self {
            Self::Mock(table) => table.enabled,
        }
    }

    /// How long a caller waits, in milliseconds.
    pub fn timeout_ms(&self) -> Option<u64> {
        match self {
            Self::Mock(table) => table.timeout_ms,
        }
    }
}
