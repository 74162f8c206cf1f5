//! The keys that sign the checkpoints of a ledger, and the last checkpoint that they have signed.

use crate::host::StartError;
use engine::broker::CheckpointKeys;
use model::{Random, Signer as _};
use platform::home::Home;
use secrets::identity::issuers::OwnKey;
use secrets::keys;
use std::path::PathBuf;
use store::Store;
use store::ledger::checkpoint::Checkpoint;
use store::ledger::checkpoints::{Kept, Last};

/// The last checkpoint that was signed, which is stored beside the keys.
#[derive(Debug)]
pub struct KeptCheckpoint {
    home: Home,
    keys: Vec<[u8; 32]>,
    checkpoint: Option<Checkpoint>,
}

impl KeptCheckpoint {
    /// Reads it.
    ///
    /// # Errors
    /// [`keys::KeyError`]: the file cannot be read, or is no checkpoint.
    pub fn read(home: &Home, keys: Vec<[u8; 32]>) -> Result<Self, keys::KeyError> {
        let path: PathBuf = home.keys().join("checkpoint.note");
        let parsed = keys::signed_note(home)?.map(|note| note.parse()).transpose();
        let checkpoint = parsed.map_err(|fault: store::ledger::checkpoint::Malformed| keys::KeyError::File {
            path,
            fault: fault.to_string(),
        })?;
        Ok(Self { home: home.clone(), keys, checkpoint })
    }

    /// Returns it with the keys, for a comparison.
    pub fn get(&self) -> Option<Kept> {
        let checkpoint = self.checkpoint.clone()?;
        Some(Kept { checkpoint, keys: self.keys.clone() })
    }

    /// Stores a later one.
    pub fn keep(&mut self, last: &Last) {
        if self.checkpoint.as_ref().is_some_and(|kept| kept.size() >= last.checkpoint.size()) {
            return;
        }
        match keys::keep_signed_note(&self.home, &last.checkpoint.to_string()) {
            Ok(()) => self.checkpoint = Some(last.checkpoint.clone()),
            // The next one is stored again. A start accepts a ledger with later checkpoints than this one.
            Err(error) => tracing::error!(%error, "the last checkpoint cannot be stored beside the keys"),
        }
    }
}

/// Returns the keys for the next checkpoints, and the last checkpoint. A new home gets a key.
///
/// # Errors
/// [`StartError`]: a key cannot be read, or there are checkpoints and the key is missing.
pub fn checkpoint_keys(
    home: &Home,
    ledger: &Store,
    ids: &dyn Random,
) -> Result<(CheckpointKeys, KeptCheckpoint), StartError> {
    let last = ledger.signed().and_then(|signed| signed.last());
    let has_signed = last.is_some() || keys::signed_note(home)?.is_some();
    let (key, earlier) = keys::checkpoint(home, ids, has_signed)?;
    let kept = [Some(&key), earlier.as_ref()].into_iter().flatten().map(OwnKey::public).collect();
    let kept = KeptCheckpoint::read(home, kept)?;
    let signed_with = |key: &OwnKey| last.is_none_or(|last| last.key.is_of(&key.public_key()));
    // A renewal that is under way has both names for one key.
    if last.is_some() && signed_with(&key) && earlier.as_ref().is_some_and(|earlier| earlier.public() != key.public()) {
        // It has endorsed the present key.
        if let Err(error) = keys::drop_checkpoint_before(home) {
            tracing::warn!(%error, "the earlier key of checkpoints cannot be removed");
        }
    } else if !signed_with(&key) && !earlier.as_ref().is_some_and(signed_with) {
        tracing::warn!(
            "the last checkpoint was signed with another key, which does not endorse the present one; `host-broker \
             evidence verify` reports it"
        );
    }
    Ok((CheckpointKeys { key, earlier }, kept))
}

/// Checks what a start needs of these keys, and makes nothing.
///
/// # Errors
/// As [`checkpoint_keys`].
pub fn check(home: &Home) -> Result<(), StartError> {
    if keys::signed_note(home)?.is_some() {
        keys::present_checkpoint(home)?;
    }
    KeptCheckpoint::read(home, Vec::new())?;
    Ok(())
}
