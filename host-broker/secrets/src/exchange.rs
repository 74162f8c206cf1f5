//! The encryption of one reply for its receiver: X25519 (RFC 7748) with a new key on both sides.
//!
//! ```text
//! receiver: public key ──► sender: public key, HKDF-SHA256 (RFC 5869) of the shared secret, AES-256-GCM ──► receiver
//! ```
//! The keys are dropped with the reply, so nobody can read a recorded reply later. The exchange proves nothing about the
//! two sides: both texts must be signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};

const PURPOSE: &[u8] = b"host-broker: a reply for its receiver";

/// The private key of the receiver of one reply.
pub struct ReplyKey {
    private: EphemeralPrivateKey,
    public: Vec<u8>,
}

/// An encrypted reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptedReply {
    /// The public key of the sender, in base64url without padding.
    key: String,
    /// The text and its tag, in base64url without padding.
    text: String,
}

/// The reason why there is no encryption or no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The system's random source failed.
    #[error("the system's random source failed")]
    Randomness,
    /// The public key of the other side is none.
    #[error("the key for the reply is not valid")]
    Key,
    /// It was encrypted for another key or purpose, or was changed.
    #[error("the reply cannot be decrypted")]
    Damaged,
}

impl ReplyKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`ExchangeError::Randomness`].
    pub fn new() -> Result<Self, ExchangeError> {
        let failed = |_failed| ExchangeError::Randomness;
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
        let public = private.compute_public_key().map_err(failed)?.as_ref().to_vec();
        Ok(Self { private, public })
    }

    /// Returns the public key, in base64url without padding.
    pub fn public_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.public)
    }

    /// Decrypts the reply. `about` is the text that the reply is bound to.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn decrypt(self, about: &[u8], reply: &EncryptedReply) -> Result<Vec<u8>, ExchangeError> {
        let other = URL_SAFE_NO_PAD.decode(&reply.key).map_err(|_fault| ExchangeError::Key)?;
        let mut text = URL_SAFE_NO_PAD.decode(&reply.text).map_err(|_fault| ExchangeError::Damaged)?;
        let key = shared(self.private, &other, [&self.public, &other])?;
        let opened = key.open_in_place(nonce(), Aad::from(about), &mut text);
        let length = opened.map_err(|_damaged| ExchangeError::Damaged)?.len();
        text.truncate(length);
        Ok(text)
    }
}

/// Returns whether this text is the public key of a receiver.
///
/// # Errors
/// [`ExchangeError::Randomness`].
pub fn is_reply_key(receiver: &str) -> Result<bool, ExchangeError> {
    match encrypt_for(receiver, &[], Vec::new()) {
        Ok(_) => Ok(true),
        Err(ExchangeError::Randomness) => Err(ExchangeError::Randomness),
        Err(ExchangeError::Key | ExchangeError::Damaged) => Ok(false),
    }
}

/// Encrypts a reply for the holder of this public key, and binds it to `about`.
///
/// # Errors
/// [`ExchangeError`]; the reply must not leave then.
pub fn encrypt_for(receiver: &str, about: &[u8], reply: Vec<u8>) -> Result<EncryptedReply, ExchangeError> {
    let receiver = URL_SAFE_NO_PAD.decode(receiver).map_err(|_fault| ExchangeError::Key)?;
    let ReplyKey { private, public } = ReplyKey::new()?;
    let key = shared(private, &receiver, [&receiver, &public])?;
    let mut text = reply;
    let sealed = key.seal_in_place_append_tag(nonce(), Aad::from(about), &mut text);
    sealed.map_err(|_failed| ExchangeError::Randomness)?;
    Ok(EncryptedReply { key: URL_SAFE_NO_PAD.encode(public), text: URL_SAFE_NO_PAD.encode(text) })
}

/// Returns the key of a reply. It depends on both public keys: that of the receiver comes first.
fn shared(private: EphemeralPrivateKey, other: &[u8], both: [&[u8]; 2]) -> Result<LessSafeKey, ExchangeError> {
    let agreed = agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, other), |secret| {
        let extracted = Salt::new(HKDF_SHA256, PURPOSE).extract(secret);
        extracted.expand(&both, &AES_256_GCM).map(|key| LessSafeKey::new(UnboundKey::from(key)))
    });
    agreed.map_err(|_fault| ExchangeError::Key)?.map_err(|_failed| ExchangeError::Key)
}

/// A key encrypts one reply.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply_key() -> ReplyKey {
        ReplyKey::new().unwrap()
    }

    #[test]
    fn only_the_receiver_reads_a_reply_and_only_as_the_reply_to_its_command() {
        let reply = || b"the card".to_vec();
        let key = reply_key();
        let encrypted = encrypt_for(&key.public_text(), b"command 1", reply()).unwrap();
        assert_ne!(encrypted, encrypt_for(&key.public_text(), b"command 1", reply()).unwrap());
        assert!(!format!("{encrypted:?}").contains("card"));
        assert_eq!(reply_key().decrypt(b"command 1", &encrypted), Err(ExchangeError::Damaged));
        assert_eq!(key.decrypt(b"command 1", &encrypted), Ok(reply()));
        let key = reply_key();
        let encrypted = encrypt_for(&key.public_text(), b"command 1", reply()).unwrap();
        assert_eq!(key.decrypt(b"command 2", &encrypted), Err(ExchangeError::Damaged));
    }

    #[test]
    fn keys_that_are_none_and_changed_texts_are_refused() {
        for wrong in ["", "AAAA", "?", &URL_SAFE_NO_PAD.encode([0; 32]), &URL_SAFE_NO_PAD.encode([1; 33])] {
            assert_eq!(encrypt_for(wrong, b"", Vec::new()), Err(ExchangeError::Key), "{wrong}");
            assert_eq!(is_reply_key(wrong), Ok(false), "{wrong}");
        }
        assert_eq!(is_reply_key(&reply_key().public_text()), Ok(true));
        let changed = |change: fn(&mut EncryptedReply)| {
            let key = reply_key();
            let mut encrypted = encrypt_for(&key.public_text(), b"", b"text".to_vec()).unwrap();
            change(&mut encrypted);
            key.decrypt(b"", &encrypted)
        };
        assert_eq!(changed(|_| {}), Ok(b"text".to_vec()));
        assert_eq!(changed(|reply| reply.key = URL_SAFE_NO_PAD.encode([0; 32])), Err(ExchangeError::Key));
        assert_eq!(changed(|reply| reply.key = reply_key().public_text()), Err(ExchangeError::Damaged));
        assert_eq!(changed(|reply| reply.text = reply.text.replacen(|_| true, "", 4)), Err(ExchangeError::Damaged));
        assert_eq!(changed(|reply| reply.text.clear()), Err(ExchangeError::Damaged));
    }
}
