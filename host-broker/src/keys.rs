//! The keys that the broker makes for itself: 32 random bytes each, in files that only its own user may read.

use crate::config::home::Home;
use crate::effects::ids::Ids;
use crate::host::{StartError, make_private_directory};
use crate::identity::issuers::OwnKey;
use crate::ledger::LedgerKey;
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use zeroize::Zeroizing;

/// The key of digests: without it, what was small could be guessed from its digest.
///
/// # Errors
/// [`StartError::Key`], [`StartError::Randomness`]; a key that was not there may then have been made.
pub fn ledger(home: &Home, ids: &dyn Ids) -> Result<LedgerKey, StartError> {
    key(home, "ledger.key", ids).map(|mut bytes| LedgerKey::new(std::mem::take(&mut *bytes)))
}

/// The key that signs context tokens.
///
/// # Errors
/// As [`ledger`].
pub fn identity(home: &Home, ids: &dyn Ids) -> Result<OwnKey, StartError> {
    let bytes = key(home, "identity.key", ids)?;
    OwnKey::new(&bytes).map_err(|fault| StartError::Key { path: home.keys().join("identity.key"), fault })
}

/// The key of this name, made if there is none.
fn key(home: &Home, name: &str, ids: &dyn Ids) -> Result<Zeroizing<Vec<u8>>, StartError> {
    let path = home.keys().join(name);
    let fault = |fault: String| StartError::Key { path: path.clone(), fault };
    match std::fs::read(&path).map(Zeroizing::new) {
        Ok(bytes) if bytes.len() == 32 => {
            private(&path).map_err(fault)?;
            Ok(bytes)
        }
        Ok(_) => Err(fault("it does not hold 32 bytes; restore it from a backup".into())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut bytes = Zeroizing::new(vec![0; 32]);
            ids.fill(&mut bytes)?;
            make_private_directory(&home.keys()).map_err(|error| fault(error.to_string()))?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options
                .open(&path)
                .and_then(|mut file| std::io::Write::write_all(&mut file, &bytes).and_then(|()| file.sync_all()))
                .map_err(|error| fault(error.to_string()))?;
            Ok(bytes)
        }
        Err(error) => Err(fault(error.to_string())),
    }
}

fn private(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.permissions().mode();
    if mode.trailing_zeros() >= 6 { Ok(()) } else { Err(format!("others may read it; chmod 600 {}", path.display())) }
}
