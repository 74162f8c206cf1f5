//! The issuers: the signers who may name the person on whose behalf a group calls.
//!
//! They are the broker itself, with a key of its own in the home, and the ones in the configuration, each with one
//! algorithm. The header of a token never chooses its verification, and a name never has two.

use crate::secret::source::SecretSource;
use crate::secret::{Secret, Secrets};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Signer, TokenError};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The name of the broker among the issuers.
pub const OWN: &str = "broker";
/// The shortest key of a shared secret. The holder of one token could search for a shorter one. (RFC 7518, section 3.2)
const KEY_BYTES_MIN: usize = 32;

/// An issuer of context tokens.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IssuerTable {
    /// The value of `iss` in the issuer's tokens; absent means its name in this table.
    pub iss: Option<String>,
    /// The issuer's Ed25519 public keys, each 32 bytes in base64url. Several keys allow a key rotation.
    pub public_keys: Vec<String>,
    /// The secret that the issuer shares with the broker, for HMAC-SHA256 tokens as Ash makes them. Every holder of the
    /// secret can sign tokens.
    pub secret: Option<SecretSource>,
}

/// How tokens of an issuer are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Ed25519 (RFC 8037): the verifier cannot sign.
    EdDsa,
    /// HMAC-SHA256 with a shared secret: for tokens as Ash makes them.
    Hs256,
}

impl Scheme {
    /// The word in a token's header.
    fn word(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Hs256 => "HS256",
        }
    }
}

/// The signer, and the way of verification.
pub struct Issuer {
    name: String,
    /// Its name in tokens.
    iss: String,
    keys: Keys,
}

enum Keys {
    /// Any of these: a new one is named before the old one goes.
    Public(Vec<[u8; 32]>),
    Shared(Arc<Secret>),
}

impl Issuer {
    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it signs.
    pub fn scheme(&self) -> Scheme {
        match self.keys {
            Keys::Public(_) => Scheme::EdDsa,
            Keys::Shared(_) => Scheme::Hs256,
        }
    }

    /// Checks whether it has signed this.
    pub fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.keys {
            Keys::Public(keys) => keys.iter().any(|key| has_signed(key, signed, signature)),
            Keys::Shared(secret) => secret.has_signed(signed, signature),
        }
    }
}

/// All permitted issuers.
pub struct Issuers {
    /// This broker's name in tokens.
    pub audience: String,
    all: Vec<Issuer>,
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(Issuer::name)).finish()
    }
}

impl Issuers {
    /// The broker, with this key, and those of the configuration. One whose secret cannot be used signs nothing, and the
    /// log says why.
    pub fn new(
        own: &OwnKey,
        configured: Option<&str>,
        issuers: &BTreeMap<String, IssuerTable>,
        secrets: &Secrets,
    ) -> Self {
        let audience = audience(own, configured);
        let mut all =
            vec![Issuer { name: OWN.to_owned(), iss: OWN.to_owned(), keys: Keys::Public(vec![own.public()]) }];
        for (name, table) in issuers {
            match keys(name, table, secrets) {
                Ok(keys) => {
                    let iss = table.iss.clone().unwrap_or_else(|| name.clone());
                    all.push(Issuer { name: name.clone(), iss, keys });
                }
                Err(fault) => tracing::warn!(issuer = name, %fault, "its tokens are not believed"),
            }
        }
        Self { audience, all }
    }

    /// Returns an empty list, so that no token proves anything.
    pub fn nobody() -> Self {
        Self { audience: String::new(), all: Vec::new() }
    }

    /// Returns the issuer with this header and this `iss`.
    ///
    /// Only old tokens may leave `iss` out, and only if there is a single candidate.
    ///
    /// # Errors
    /// [`TokenError::Invalid`] if there is no such issuer, or it signs in another way.
    pub fn find(&self, header: &Map<String, Value>, iss: Option<&str>) -> Result<&Issuer, TokenError> {
        let issuer = if let Some(iss) = iss {
            self.all.iter().find(|issuer| issuer.iss == iss)
        } else {
            let mut legacy = self.all.iter().filter(|issuer| issuer.scheme() == Scheme::Hs256);
            legacy.next().filter(|_| legacy.next().is_none())
        };
        let issuer = issuer.ok_or(TokenError::Invalid("no issuer has that name"))?;
        if header.get("alg").and_then(Value::as_str) == Some(issuer.scheme().word()) {
            Ok(issuer)
        } else {
            Err(TokenError::Invalid("it is signed in another way than its issuer's"))
        }
    }
}

/// Returns this broker's name in tokens.
pub fn audience(own: &OwnKey, configured: Option<&str>) -> String {
    configured.map_or_else(|| own.audience(), str::to_owned)
}

fn keys(name: &str, table: &IssuerTable, secrets: &Secrets) -> Result<Keys, String> {
    let Some(_) = &table.secret else {
        let keys: Option<Vec<_>> = table.public_keys.iter().map(|key| public_key(key)).collect();
        return keys.map(Keys::Public).ok_or_else(|| "one of its public keys is not valid".to_owned());
    };
    match (secrets.get(&secret_name(name)), fault(name, secrets)) {
        (Some(secret), None) => Ok(Keys::Shared(secret)),
        (_, fault) => Err(fault.unwrap_or_else(|| "its secret is missing".to_owned())),
    }
}

/// Why an issuer's shared secret cannot be used, as far as these secrets tell.
pub fn fault(name: &str, secrets: &Secrets) -> Option<String> {
    let secret_name = secret_name(name);
    match (secrets.get(&secret_name), secrets.fault(&secret_name)) {
        (_, Some(fault)) => Some(format!("its secret is {fault}")),
        (Some(secret), None) if secret.key_bytes() < KEY_BYTES_MIN => {
            Some(format!("the key in its secret has fewer than {KEY_BYTES_MIN} bytes"))
        }
        (Some(_) | None, None) => None,
    }
}

/// The name of an issuer's secret among all: one that no provider's has.
pub fn secret_name(issuer: &str) -> String {
    format!("identity:{issuer}")
}

/// Returns whether the holder of this Ed25519 key has signed the message.
pub fn has_signed(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
}

/// An Ed25519 public key, as configuration and `token key` write it: 32 bytes in base64url without padding.
pub fn public_key(text: &str) -> Option<[u8; 32]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// The key with which the broker signs tokens.
pub struct OwnKey(Ed25519KeyPair);

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKey(…)")
    }
}

impl OwnKey {
    /// Of these 32 bytes, the private key of RFC 8032.
    ///
    /// # Errors
    /// The implementation's own, of which there is none for 32 bytes.
    pub fn new(seed: &[u8]) -> Result<Self, String> {
        Ed25519KeyPair::from_seed_unchecked(seed).map(Self).map_err(|error| error.to_string())
    }

    /// The other half.
    pub fn public(&self) -> [u8; 32] {
        self.0.public_key().as_ref().try_into().unwrap_or_default()
    }

    /// The other half, as configuration writes it.
    pub fn public_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.public())
    }

    /// Returns this broker's default name in tokens: no two brokers have the same.
    pub fn audience(&self) -> String {
        let digest: String = Digest::of(&self.public()).hex().chars().take(16).collect();
        format!("host-broker:{digest}")
    }

    /// Signs.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

impl Signer for OwnKey {
    fn public_key(&self) -> [u8; 32] {
        self.public()
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        self.sign(message)
    }
}
