//! The encryption of one answer for the one who asked: X25519 (RFC 7748) with a new key on both sides.
//!
//! ```text
//! who asks: public key ──► who answers: public key, HKDF-SHA256 (RFC 5869) of the shared secret, AES-256-GCM ──► who asks
//! ```
//! The keys are forgotten with the answer, so nobody can read a recorded answer later. The exchange proves nothing about
//! the two sides: both texts must be signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};

const PURPOSE: &[u8] = b"host-broker: an answer for the one who asked";

/// A private key for one answer.
pub struct AskingKey {
    private: EphemeralPrivateKey,
    public: Vec<u8>,
}

/// An encrypted answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptedAnswer {
    /// The public key of the side that answers, in base64url without padding.
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
    #[error("the key for the answer is not valid")]
    Key,
    /// It was encrypted for another key or purpose, or was changed.
    #[error("the answer cannot be decrypted")]
    Damaged,
}

impl AskingKey {
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

    /// Decrypts the answer. `about` is what it was bound to.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn decrypt(self, about: &[u8], answer: &EncryptedAnswer) -> Result<Vec<u8>, ExchangeError> {
        let other = URL_SAFE_NO_PAD.decode(&answer.key).map_err(|_fault| ExchangeError::Key)?;
        let mut text = URL_SAFE_NO_PAD.decode(&answer.text).map_err(|_fault| ExchangeError::Damaged)?;
        let key = shared(self.private, &other, [&self.public, &other])?;
        let opened = key.open_in_place(nonce(), Aad::from(about), &mut text);
        let length = opened.map_err(|_damaged| ExchangeError::Damaged)?.len();
        text.truncate(length);
        Ok(text)
    }
}

/// Encrypts an answer for the holder of this public key, and binds it to `about`.
///
/// # Errors
/// [`ExchangeError`]; the answer must not leave then.
pub fn encrypt_for(asking: &str, about: &[u8], answer: Vec<u8>) -> Result<EncryptedAnswer, ExchangeError> {
    let asking = URL_SAFE_NO_PAD.decode(asking).map_err(|_fault| ExchangeError::Key)?;
    let AskingKey { private, public } = AskingKey::new()?;
    let key = shared(private, &asking, [&asking, &public])?;
    let mut text = answer;
    let sealed = key.seal_in_place_append_tag(nonce(), Aad::from(about), &mut text);
    sealed.map_err(|_failed| ExchangeError::Randomness)?;
    Ok(EncryptedAnswer { key: URL_SAFE_NO_PAD.encode(public), text: URL_SAFE_NO_PAD.encode(text) })
}

/// Returns the key of an answer. It depends on both public keys: that of the side that asks comes first.
fn shared(private: EphemeralPrivateKey, other: &[u8], both: [&[u8]; 2]) -> Result<LessSafeKey, ExchangeError> {
    let agreed = agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, other), |secret| {
        let extracted = Salt::new(HKDF_SHA256, PURPOSE).extract(secret);
        extracted.expand(&both, &AES_256_GCM).map(|key| LessSafeKey::new(UnboundKey::from(key)))
    });
    agreed.map_err(|_fault| ExchangeError::Key)?.map_err(|_failed| ExchangeError::Key)
}

/// A key encrypts one answer.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking() -> AskingKey {
        AskingKey::new().unwrap()
    }

    #[test]
    fn only_the_one_who_asked_reads_the_answer_and_only_as_the_answer_to_that() {
        let answer = || b"the card".to_vec();
        let key = asking();
        let encrypted = encrypt_for(&key.public_text(), b"command 1", answer()).unwrap();
        assert_ne!(encrypted, encrypt_for(&key.public_text(), b"command 1", answer()).unwrap());
        assert!(!format!("{encrypted:?}").contains("card"));
        assert_eq!(asking().decrypt(b"command 1", &encrypted), Err(ExchangeError::Damaged));
        assert_eq!(key.decrypt(b"command 1", &encrypted), Ok(answer()));
        let key = asking();
        let encrypted = encrypt_for(&key.public_text(), b"command 1", answer()).unwrap();
        assert_eq!(key.decrypt(b"command 2", &encrypted), Err(ExchangeError::Damaged));
    }

    #[test]
    fn keys_that_are_none_and_changed_texts_are_refused() {
        for wrong in ["", "AAAA", "?", &URL_SAFE_NO_PAD.encode([0; 32]), &URL_SAFE_NO_PAD.encode([1; 33])] {
            assert_eq!(encrypt_for(wrong, b"", Vec::new()), Err(ExchangeError::Key), "{wrong}");
        }
        let changed = |change: fn(&mut EncryptedAnswer)| {
            let key = asking();
            let mut encrypted = encrypt_for(&key.public_text(), b"", b"text".to_vec()).unwrap();
            change(&mut encrypted);
            key.decrypt(b"", &encrypted)
        };
        assert_eq!(changed(|_| {}), Ok(b"text".to_vec()));
        assert_eq!(changed(|answer| answer.key = URL_SAFE_NO_PAD.encode([0; 32])), Err(ExchangeError::Key));
        assert_eq!(changed(|answer| answer.key = asking().public_text()), Err(ExchangeError::Damaged));
        assert_eq!(changed(|answer| answer.text = answer.text.replacen(|_| true, "", 4)), Err(ExchangeError::Damaged));
        assert_eq!(changed(|answer| answer.text.clear()), Err(ExchangeError::Damaged));
    }
}
