//! Secrets: loaded at start and on reload, exposed only to a running effect, never printed.
//!
//! [`Secrets::load`] fetches every configured secret from its [source] and keeps the usable ones. An unusable one has a
//! [fault](SecretError) with the next step. Six functions lead to a value: [`Secret::expose`], for the transport of
//! one execution, [`Secret::expose_to`], for the channel of one notice, [`Secret::expose_on`], for the answers of one
//! channel, [`Secret::expose_for_rows`], for the sink of durable rows, [`Secret::expose_for`], for the judge of one
//! result, and `Secrets::needles`, for the search that keeps secrets out of results. Four more answer without the value:
//! [`Secret::sign`], [`Secret::has_signed`], [`Secret::sign_rs256`] and [`Secret::is_rsa_key`]. One value needs no proof:
//! [`Secrets::store_url`] leads to the database of the rows, so no row precedes it.

mod database;
mod dotenv;
mod file;
mod keyring;
mod rsa;
pub mod source;

use crate::identity::shared_secret;
use crate::vault::{self, KeyBytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use kernel::execution::{Attempted, Execution};
use kernel::{OpenChannel, OutgoingNotice, SyncedRows};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use source::{CommandOutput, SecretSource};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The fewest characters of a usable secret. Anything shorter would be found in ordinary text, so results would be
/// full of redactions, or it would have to be let through; both are worse than asking for a longer one.
pub const SECRET_CHARS_MIN: usize = 8;

/// The name of the URL of the database with the records. No other secret has this name, because it has a space.
pub const STORE_URL: &str = "store url";
/// The name of the password in that URL.
const STORE_PASSWORD: &str = "store password";

/// One credential. It cannot be printed, copied or serialized; its text can be had only with an
/// [`Execution`], an [`OutgoingNotice`], an [`OpenChannel`], an [`Attempted`] or [`SyncedRows`]. Each exists only after a row that says
/// so has become durable.
pub struct Secret(SecretString);

impl Secret {
    /// Takes the text in.
    pub fn new(text: String) -> Self {
        Self(text.into())
    }

    /// The text, for the transport of this execution and nothing else.
    pub fn expose(&self, _proof: &Execution) -> &str {
        self.0.expose_secret()
    }

    /// The text, for the channel that carries this notice and nothing else.
    pub fn expose_to(&self, _proof: &OutgoingNotice) -> &str {
        self.0.expose_secret()
    }

    /// The text, for fetching the answers of this channel and nothing else.
    pub fn expose_on(&self, _proof: &OpenChannel) -> &str {
        self.0.expose_secret()
    }

    /// The text, for the sink that gets these rows and nothing else.
    pub fn expose_for_rows(&self, _proof: &SyncedRows) -> &str {
        self.0.expose_secret()
    }

    /// The text, for the judge that is asked about this and nothing else.
    pub fn expose_for(&self, _proof: &Attempted) -> &str {
        self.0.expose_secret()
    }

    /// Its HMAC-SHA256 over the message, for this execution and nothing else.
    pub fn sign(&self, message: &[u8], _proof: &Execution) -> Vec<u8> {
        let mac = Hmac::<Sha256>::new_from_slice(&shared_secret::key(self.0.expose_secret()));
        mac.map(|mac| mac.chain_update(message).finalize().into_bytes().to_vec()).unwrap_or_default()
    }

    /// Its RSA signature of the message, for this execution and nothing else: RSASSA-PKCS1-v1_5 with SHA-256, which
    /// JSON Web Signature calls `RS256` (RFC 7518, section 3.3). `None` if it is [no such key](Self::is_rsa_key).
    pub fn sign_rs256(&self, message: &[u8], _proof: &Execution) -> Option<Vec<u8>> {
        rsa::sign(self.0.expose_secret(), message)
    }

    /// Checks whether it is a private RSA key of 2048 to 4096 bits, in PEM.
    pub fn is_rsa_key(&self) -> bool {
        rsa::is_key(self.0.expose_secret())
    }

    /// Checks whether this is its HMAC-SHA256 over the message; compared in constant time.
    pub fn has_signed(&self, message: &[u8], mac: &[u8]) -> bool {
        let Ok(mut own) = Hmac::<Sha256>::new_from_slice(&shared_secret::key(self.0.expose_secret())) else {
            return false;
        };
        own.update(message);
        own.verify_slice(mac).is_ok()
    }

    /// How long the key of [`Secret::has_signed`] is.
    pub fn key_bytes(&self) -> usize {
        shared_secret::key(self.0.expose_secret()).len()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Every configured secret that could be loaded, by name, and why the others could not.
#[derive(Debug, Default)]
pub struct Secrets {
    held: BTreeMap<String, Arc<Secret>>,
    faults: BTreeMap<String, SecretError>,
}

/// Why a secret cannot be used. The message names paths and variables, so it is for the operator; it quotes nothing
/// of any value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// There is none.
    #[error("missing: {what}")]
    Missing {
        /// The place of the search, and the next step.
        what: String,
    },
    /// Others could have read or changed it.
    #[error("refused: {what}")]
    Refused {
        /// The fault, and the next step.
        what: String,
    },
    /// Too short to be told from ordinary text.
    #[error(
        "refused: it has fewer than {SECRET_CHARS_MIN} characters, so it could not be kept out of results; use a longer one"
    )]
    TooShort,
}

impl Secrets {
    /// Loads each secret from its source. `environment` is the broker's own; `commands` runs helper programs.
    pub async fn load(
        sources: &BTreeMap<String, SecretSource>,
        environment: &BTreeMap<String, String>,
        commands: &dyn CommandOutput,
    ) -> Self {
        let mut secrets = Self::default();
        for (name, source) in sources {
            match source::fetch(source, environment, commands).await {
                Ok(text) if text.trim().chars().count() < SECRET_CHARS_MIN => {
                    secrets.faults.insert(name.clone(), SecretError::TooShort);
                }
                Ok(text) => {
                    secrets.held.insert(name.clone(), Arc::new(Secret::new(text.to_string())));
                }
                Err(fault) => {
                    secrets.faults.insert(name.clone(), fault);
                }
            }
        }
        secrets.add_store_password();
        secrets
    }

    /// Adds the password in the URL of the database, so that the search finds it without the URL, too.
    fn add_store_password(&mut self) {
        let url = self.held.get(STORE_URL);
        let Some(password) = url.and_then(|url| database::password(url.0.expose_secret())) else { return };
        if password.chars().count() < SECRET_CHARS_MIN {
            let what = format!(
                "its password has fewer than {SECRET_CHARS_MIN} characters, so it could not be kept out of results; use \
                 a longer one"
            );
            self.held.remove(STORE_URL);
            self.faults.insert(STORE_URL.to_owned(), SecretError::Refused { what });
        } else {
            self.held.insert(STORE_PASSWORD.to_owned(), Arc::new(Secret::new(password.to_string())));
        }
    }

    /// A key of 32 bytes, which comes as text: hexadecimal, or base64 of either alphabet.
    ///
    /// # Errors
    /// [`SecretError`].
    pub async fn key(
        source: &SecretSource,
        environment: &BTreeMap<String, String>,
        commands: &dyn CommandOutput,
    ) -> Result<KeyBytes, SecretError> {
        let text = source::fetch(source, environment, commands).await?;
        let text = text.trim();
        let standard: Zeroizing<String> =
            Zeroizing::new(text.trim_end_matches('=').chars().map(standard_alphabet).collect());
        let hexadecimal = base16ct::mixed::decode_vec(text).ok();
        let decoded = hexadecimal.or_else(|| STANDARD_NO_PAD.decode(standard.as_bytes()).ok());
        let bytes = Zeroizing::new(decoded.unwrap_or_default());
        <[u8; vault::KEY]>::try_from(bytes.as_slice()).map(KeyBytes::new).map_err(|_length| SecretError::Refused {
            what: format!("{source} does not hold 32 bytes in hexadecimal or base64; openssl rand -hex 32 makes some"),
        })
    }

    /// The secret of this name, if it is usable.
    pub fn get(&self, name: &str) -> Option<Arc<Secret>> {
        self.held.get(name).cloned()
    }

    /// Returns the secret of this name, which is the `key` of a table.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn usable(&self, key: &str, name: &str) -> Result<Arc<Secret>, String> {
        let fault = || self.fault(name).map_or_else(|| "missing".to_owned(), ToString::to_string);
        self.get(name).ok_or_else(|| format!("its secret `{key}` is {}", fault()))
    }

    /// Returns the URL of the database with the records, for the connection to it and nothing else.
    ///
    /// SECURITY: only the table `[store]` supplies this secret, so no other one can be had without a proof.
    ///
    /// # Errors
    /// The reason why it is not usable, as the end of a sentence: `missing: set the environment variable …`.
    pub fn store_url(&self) -> Result<&str, String> {
        let fault = || self.fault(STORE_URL).map_or_else(|| "missing".to_owned(), ToString::to_string);
        self.held.get(STORE_URL).map(|url| url.0.expose_secret()).ok_or_else(fault)
    }

    /// Why the secret of this name is not usable.
    pub fn fault(&self, name: &str) -> Option<&SecretError> {
        self.faults.get(name)
    }

    /// The secrets that are not usable, and why.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &SecretError)> {
        self.faults.iter().map(|(name, fault)| (name.as_str(), fault))
    }

    /// Returns the name and text of each secret.
    ///
    /// SECURITY: only `SecretSearch::new` calls this, which must know the texts to keep out of results. Grep for it.
    pub(crate) fn needles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.held.iter().map(|(name, secret)| (name.as_str(), secret.0.expose_secret()))
    }
}

fn standard_alphabet(c: char) -> char {
    match c {
        '-' => '+',
        '_' => '/',
        other => other,
    }
}

#[cfg(test)]
mod tests;
