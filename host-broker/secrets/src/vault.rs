//! The vault: persons' confidential records, encrypted wherever they lie.
//!
//! Each record has a data key of its own, and that is wrapped under the master key. Both layers are bound to the
//! [`Place`] of the record, so a record that was moved to another person's row does not open there. A new master key
//! wraps the data keys again and leaves the records as they are.
//!
//! ```text
//! version 1 │ name of the master key 8 │ nonce 12 │ wrapped data key 32 + 16 │ nonce 12 │ record + 16
//! ```
//!
//! AES-256-GCM (NIST SP 800-38D) throughout. Nonces are random: a data key encrypts one record, a master key as many
//! data keys as there are accounts and flows, which is far from the 2^32 that random nonces allow.
//!
//! Nothing here knows SQL, and only an [`Execution`] opens a record: that is, after the intent to use it is durable. An
//! [`Executed`] effect opens the credentials of other accounts, for the search of its result. A [`OneTimeValue`] is opened for the reply that delivers it, after the row of that reply is durable.

pub mod seen_secrets;

use crate::SECRET_CHARS_MIN;
use kernel::OneTimeValue;
use kernel::execution::{Executed, Execution};
use model::{Caller, Ciphertext, NoRandomness, Place, Random, RecordKind, StoredCredential};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use seen_secrets::{Credential, SeenSecrets};
use serde_json::json;
use shared::Provider;
use shared::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The layout above.
const VERSION: u8 = 1;
const NAME: usize = 8;
const NONCE: usize = 12;
const TAG: usize = 16;
/// How long a master key is, in bytes, and a data key.
pub const KEY: usize = 32;
/// Everything before the record.
#[cfg(test)]
const HEAD: usize = 1 + NAME + NONCE + KEY + TAG + NONCE;

/// The name of a master key, which reveals nothing of the key.
pub type KeyName = [u8; NAME];

/// A master key's bytes.
pub type KeyBytes = Zeroizing<[u8; KEY]>;

/// Encrypts and decrypts records.
pub struct Vault {
    /// The key for all new encryption.
    current: MasterKey,
    /// Earlier keys, under which some records may still be encrypted.
    previous: Vec<MasterKey>,
    ids: Arc<dyn Random>,
}

struct MasterKey {
    name: KeyName,
    key: LessSafeKey,
}

/// The reason why a record cannot be used. The messages reveal nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// It is under a master key that is not here.
    #[error("it is encrypted under another master key; restore that key, or link the account again")]
    OtherKey,
    /// It was changed, moved, or cut.
    #[error("it is damaged or was moved; link the account again")]
    Damaged,
    /// The system's random source failed.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// The longest one-time value, in bytes: the longest text that a search for it may take.
pub const ONE_TIME_MAX: usize = 4096;

/// The most bytes of the passwords of a person's other accounts for which the result of one effect is searched.
const OTHERS_BYTES_MAX: usize = 256;

/// The reason why a value cannot be delivered once. The messages quote nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OneTimeError {
    /// No group waits for the result.
    #[error("only an agent of a group can get it")]
    NoGroup,
    /// It is too long.
    #[error("it is longer than {ONE_TIME_MAX} bytes")]
    TooLong,
    /// It cannot be encrypted.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl MasterKey {
    fn new(bytes: &KeyBytes) -> Option<Self> {
        let digest = Digest::of(&[b"vault key name".as_slice(), bytes.as_slice()].concat());
        let name = digest.as_bytes().first_chunk().copied()?;
        Some(Self { name, key: key(bytes)? })
    }
}

fn key(bytes: &[u8; KEY]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, bytes).ok().map(LessSafeKey::new)
}

/// The text that both layers of a record are bound to.
fn bound(place: &Place<'_>, layer: &str) -> Vec<u8> {
    let Place { what, person, capability, name } = place;
    shared::json::canonical(&json!(["vault", VERSION, layer, what.word(), person, capability, name]))
}

impl Vault {
    /// A vault with this master key, and those before it. `None` if they cannot be used as keys.
    pub fn new(current: &KeyBytes, previous: &[KeyBytes], ids: Arc<dyn Random>) -> Option<Self> {
        let current = MasterKey::new(current)?;
        let previous: Option<Vec<MasterKey>> = previous.iter().map(MasterKey::new).collect();
        let previous = previous?.into_iter().filter(|key| key.name != current.name).collect();
        Some(Self { current, previous, ids })
    }

    /// The present master key.
    pub fn name(&self) -> KeyName {
        self.current.name
    }

    /// The master keys that records may be under.
    pub fn names(&self) -> BTreeSet<KeyName> {
        self.previous.iter().map(|key| key.name).chain([self.current.name]).collect()
    }

    /// Encrypts the data that returns to a provider with a link session.
    ///
    /// # Errors
    /// [`VaultError`]; nothing is to be stored then.
    pub fn seal(&self, place: &Place<'_>, record: &[u8], _proof: &Execution) -> Result<Ciphertext, VaultError> {
        self.encrypted(place, record)
    }

    /// Encrypts a credential of an account.
    ///
    /// The values that are hidden in it do not come back from this execution.
    ///
    /// # Errors
    /// [`VaultError`]; nothing is to be stored then.
    pub fn seal_credential(
        &self,
        place: &Place<'_>,
        credential: &Credential,
        proof: &Execution,
    ) -> Result<Ciphertext, VaultError> {
        SeenSecrets::of(proof.slots()).note(&credential.hidden);
        self.seal_given(place, credential)
    }

    /// Encrypts the credential of an account that an operator stores.
    ///
    /// # Errors
    /// [`VaultError`]; nothing is to be stored then.
    pub fn seal_given(&self, place: &Place<'_>, credential: &Credential) -> Result<Ciphertext, VaultError> {
        let record = Zeroizing::new(serde_json::to_vec(credential).unwrap_or_default());
        self.encrypted(place, &record)
    }

    /// Encrypts a value that one reply to the group of this execution delivers.
    ///
    /// The value does not come back from this execution in any other way.
    ///
    /// # Errors
    /// [`OneTimeError`]; nothing is to be stored then.
    pub fn seal_one_time(
        &self,
        provider: &Provider,
        value: &str,
        proof: &Execution,
    ) -> Result<Ciphertext, OneTimeError> {
        let group = proof.group().ok_or(OneTimeError::NoGroup)?;
        if value.len() > ONE_TIME_MAX {
            return Err(OneTimeError::TooLong);
        }
        // A shorter text would be found in ordinary words.
        if value.chars().count() >= SECRET_CHARS_MIN {
            SeenSecrets::of(proof.slots()).note(&[value.to_owned()]);
        }
        let (person, name) = (Caller::Group(group.clone()).to_string(), proof.request_id().as_str());
        let place = Place { what: RecordKind::OneTimeValue, person: &person, capability: provider, name };
        Ok(self.encrypted(&place, value.as_bytes())?)
    }

    /// Decrypts the value that a reply delivers.
    ///
    /// # Errors
    /// [`VaultError`]; the reply leaves without it.
    pub fn open_one_time(&self, value: &OneTimeValue) -> Result<Zeroizing<String>, VaultError> {
        let mut text = self.decrypted(&value.place(), value.sealed())?;
        String::from_utf8(std::mem::take(&mut *text)).map(Zeroizing::new).map_err(|_damaged| VaultError::Damaged)
    }

    /// Decrypts the credential of an account, for this execution and nothing else.
    ///
    /// The values that are hidden in it do not come back from the execution.
    ///
    /// # Errors
    /// [`VaultError`].
    pub fn open_credential(
        &self,
        place: &Place<'_>,
        sealed: &Ciphertext,
        proof: &Execution,
    ) -> Result<Credential, VaultError> {
        let record = self.decrypted(place, sealed)?;
        let credential: Credential = serde_json::from_slice(&record).map_err(|_damaged| VaultError::Damaged)?;
        SeenSecrets::of(proof.slots()).note(&credential.hidden);
        Ok(credential)
    }

    /// Returns the passwords of other accounts, which must not come back from this effect. Also returns the number of
    /// credentials that are left out: a search for longer texts costs more than the call, so each person has a budget of
    /// bytes.
    ///
    /// The broker cannot know the content of a record that does not open.
    pub fn passwords_of_others(&self, credentials: &[StoredCredential], proof: &Executed) -> (SeenSecrets, usize) {
        let (own, others) = (SeenSecrets::of(proof.slots()), SeenSecrets::default());
        let (mut budgets, mut left_out) = (BTreeMap::new(), 0);
        for stored in credentials {
            let record = self.decrypted(&stored.place(), &stored.sealed);
            let credential = record.ok().and_then(|record| serde_json::from_slice::<Credential>(&record).ok());
            let Some(credential) = credential else {
                left_out += 1;
                continue;
            };
            for text in credential.passwords() {
                if own.has(text) || others.has(text) {
                    continue;
                }
                let left = budgets.entry(stored.person.as_str()).or_insert(OTHERS_BYTES_MAX);
                match left.checked_sub(text.len()) {
                    Some(rest) => {
                        *left = rest;
                        others.note(&[text.to_owned()]);
                    }
                    None => left_out += 1,
                }
            }
        }
        (others, left_out)
    }

    fn encrypted(&self, place: &Place<'_>, record: &[u8]) -> Result<Ciphertext, VaultError> {
        let mut data_key = KeyBytes::new([0; KEY]);
        self.ids.fill(data_key.as_mut())?;
        let mut sealed = self.wrapped(place, &data_key)?;
        let data_key = key(&data_key).ok_or(VaultError::Damaged)?;
        let nonce = self.nonce()?;
        let body = encrypted(&data_key, nonce, &bound(place, "record"), record)?;
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&body);
        Ok(Ciphertext::from_bytes(sealed))
    }

    /// Decrypts a record, for this execution and nothing else.
    ///
    /// # Errors
    /// [`VaultError`].
    pub fn open(
        &self,
        place: &Place<'_>,
        sealed: &Ciphertext,
        _proof: &Execution,
    ) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        self.decrypted(place, sealed)
    }

    /// The same record under the present master key; `None` if it is already.
    ///
    /// # Errors
    /// [`VaultError`]; the record is to stay as it is.
    pub fn resealed(&self, place: &Place<'_>, sealed: &Ciphertext) -> Result<Option<Ciphertext>, VaultError> {
        let parts = Parts::of(sealed).ok_or(VaultError::Damaged)?;
        if parts.name == self.current.name {
            return Ok(None);
        }
        let mut renewed = self.wrapped(place, &self.data_key(place, &parts)?)?;
        renewed.extend_from_slice(&parts.nonce);
        renewed.extend_from_slice(parts.record);
        Ok(Some(Ciphertext::from_bytes(renewed)))
    }

    fn decrypted(&self, place: &Place<'_>, sealed: &Ciphertext) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let parts = Parts::of(sealed).ok_or(VaultError::Damaged)?;
        let data_key = key(&*self.data_key(place, &parts)?).ok_or(VaultError::Damaged)?;
        decrypted(&data_key, parts.nonce, &bound(place, "record"), parts.record)
    }

    fn data_key(&self, place: &Place<'_>, parts: &Parts<'_>) -> Result<KeyBytes, VaultError> {
        let mut keys = std::iter::once(&self.current).chain(&self.previous);
        let master = keys.find(|key| key.name == parts.name).ok_or(VaultError::OtherKey)?;
        let bytes = decrypted(&master.key, parts.wrap_nonce, &bound(place, "key"), parts.wrapped)?;
        <[u8; KEY]>::try_from(bytes.as_slice()).map(KeyBytes::new).map_err(|_length| VaultError::Damaged)
    }

    /// Everything before the record's own nonce.
    fn wrapped(&self, place: &Place<'_>, data_key: &KeyBytes) -> Result<Vec<u8>, VaultError> {
        let nonce = self.nonce()?;
        let wrapped = encrypted(&self.current.key, nonce, &bound(place, "key"), data_key.as_slice())?;
        Ok([[VERSION].as_slice(), &self.current.name, &nonce, &wrapped].concat())
    }

    fn nonce(&self) -> Result<[u8; NONCE], NoRandomness> {
        let mut nonce = [0; NONCE];
        self.ids.fill(&mut nonce)?;
        Ok(nonce)
    }
}

fn encrypted(key: &LessSafeKey, nonce: [u8; NONCE], bound: &[u8], plain: &[u8]) -> Result<Vec<u8>, VaultError> {
    // The capacity includes the tag from the start: a buffer that grows leaves copies behind.
    let mut buffer = Vec::with_capacity(plain.len() + TAG);
    buffer.extend_from_slice(plain);
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(bound), &mut buffer)
        .map_err(|_unspecified| VaultError::Damaged)?;
    Ok(buffer)
}

fn decrypted(
    key: &LessSafeKey,
    nonce: [u8; NONCE],
    bound: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let mut buffer = Zeroizing::new(sealed.to_vec());
    let plain = key
        .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(bound), &mut buffer)
        .map_err(|_unspecified| VaultError::Damaged)?
        .len();
    buffer.truncate(plain);
    Ok(buffer)
}

/// The parts of a stored record.
struct Parts<'a> {
    name: KeyName,
    wrap_nonce: [u8; NONCE],
    wrapped: &'a [u8],
    nonce: [u8; NONCE],
    record: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(record: &'a Ciphertext) -> Option<Self> {
        let (version, rest) = record.bytes().split_first()?;
        let (name, rest) = rest.split_first_chunk()?;
        let (wrap_nonce, rest) = rest.split_first_chunk()?;
        let (wrapped, rest) = rest.split_at_checked(KEY + TAG)?;
        let (nonce, record) = rest.split_first_chunk()?;
        let parts = Self { name: *name, wrap_nonce: *wrap_nonce, wrapped, nonce: *nonce, record };
        (*version == VERSION && record.len() >= TAG).then_some(parts)
    }
}

/// Returns the names of the master keys that records are under.
pub fn key_names(records: &[Ciphertext]) -> BTreeSet<KeyName> {
    records.iter().filter_map(key_name).collect()
}

/// Returns the name of the master key that a record is under; `None` if the record is damaged.
pub fn key_name(record: &Ciphertext) -> Option<KeyName> {
    Parts::of(record).map(|parts| parts.name)
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({} keys)", 1 + self.previous.len())
    }
}

#[cfg(test)]
mod tests;
