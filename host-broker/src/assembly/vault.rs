//! Opens the vault of persons' credentials.

use super::secrets::Helper;
use crate::host::StartError;
use config::Config;
use platform::Platform;
use platform::home::Home;
use secrets::source::SecretSource;
use secrets::vault::{self, Vault};
use secrets::{Secrets, keys};
use std::sync::Arc;
use store::state::linking as stored;

/// The vault, with the master keys of the configuration, or with those of the home.
///
/// # Errors
/// [`StartError::Vault`], [`StartError::Key`]: a key that is not there, or is none.
pub fn open_vault(config: &Config, home: &Home, platform: &Platform) -> Result<Arc<Vault>, StartError> {
    vault_with(config, home, platform, true)
}

/// As [`open_vault`], but makes no key in the home. It fails if none could be made.
///
/// # Errors
/// As [`open_vault`].
pub fn checked_vault(config: &Config, home: &Home, platform: &Platform) -> Result<Arc<Vault>, StartError> {
    vault_with(config, home, platform, false)
}

fn vault_with(config: &Config, home: &Home, platform: &Platform, makes_key: bool) -> Result<Arc<Vault>, StartError> {
    let helper = Helper(Arc::clone(&platform.commands));
    let key = |source: &SecretSource| {
        let key = platform.runtime.block_on(Secrets::key(source, &platform.environment, &helper));
        key.map_err(|fault| StartError::Vault(format!("its key is {fault}")))
    };
    let (current, previous) = match &config.vault.key {
        Some(source) => (key(source)?, config.vault.previous.iter().map(key).collect::<Result<Vec<_>, _>>()?),
        None if !keys::has_vault(home) && has_records(home) => {
            return Err(StartError::Vault(format!(
                "{} is gone, and there are records under it; restore it from a backup, or delete the records with: host-broker vault renew --forget",
                home.keys().join("vault.key").display()
            )));
        }
        None if !makes_key && !keys::has_vault(home) => {
            (keys::unstored_vault(home, platform.ids.as_ref())?, Vec::new())
        }
        None => keys::vault(home, platform.ids.as_ref()).map(|(key, before)| (key, before.into_iter().collect()))?,
    };
    let vault = Vault::new(&current, &previous, Arc::clone(&platform.ids));
    vault.map(Arc::new).ok_or_else(|| StartError::Vault("its key is not valid".to_owned()))
}

/// Checks whether anything is sealed in this home. A home without a ledger, or with one from before there was a vault,
/// has nothing.
fn has_records(home: &Home) -> bool {
    let used = store::reader(home.path()).and_then(|view| stored::ciphertexts(&view));
    used.is_ok_and(|used| !vault::key_names(&used).is_empty())
}
