//! `[vault]`: the source of the vault's master key.

use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};

/// The source of the master key that encrypts persons' credentials. Absent means the file `keys/vault.key` in the home.
///
/// ```toml
/// [vault]
/// key = { command = ["op", "read", "op://broker/vault/key"] }   # 32 bytes, in hexadecimal or base64
/// previous = [{ keyring = "broker-vault-2025" }]                # until host-broker vault renew has been run
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VaultTable {
    /// The current master key: 32 bytes in hexadecimal or base64.
    pub key: Option<SecretSource>,
    /// Earlier master keys that stored records still use.
    pub previous: Vec<SecretSource>,
}

impl VaultTable {
    /// Checks the table.
    ///
    /// # Errors
    /// The first fault, with the remedy.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.key.is_none() && !self.previous.is_empty() {
            return Err("vault.previous needs vault.key; add key or remove previous".to_owned());
        }
        Ok(())
    }
}
