//! The encryption of one text for its receiver: X25519 (RFC 7748), with a new key for each text.
//!
//! ```text
//! receiver: public key ──► sender: public key, HKDF-SHA256 (RFC 5869) of the shared secret, AES-256-GCM ──► receiver
//! ```
//! The receiver of a reply has a new key, too. Both keys are dropped with the reply, so nobody can read a recorded reply
//! later. The receiver of a command has one key for all commands, that of its signatures ([`HostKey`]).
//!
//! The exchange proves nothing about the two sides: a text must be signed before or after it is encrypted.

use crate::identity::issuers::OwnKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::montgomery::MontgomeryPoint;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha512};
use std::fmt;
use zeroize::Zeroizing;

/// The purpose of a text. No text of one purpose opens as one of another.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Command,
    Reply,
}

impl Purpose {
    fn salt(self) -> Salt {
        let name: &[u8] = match self {
            Self::Command => b"host-broker: a command for its host",
            Self::Reply => b"host-broker: a reply for its receiver",
        };
        Salt::new(HKDF_SHA256, name)
    }
}

/// The private key of the receiver of one reply.
pub struct ReplyKey {
    private: EphemeralPrivateKey,
    public: Vec<u8>,
}

/// The key of a host of a fleet: it signs commands and replies, and decrypts the commands of other hosts.
///
/// An Ed25519 key gives an X25519 key by the map of RFC 7748, section 4.1, as in libsodium and age. Both uses of one key
/// are secure together (Thormarker, [eprint 2021/509](https://eprint.iacr.org/2021/509)).
pub struct HostKey {
    signing: OwnKey,
    private: Zeroizing<[u8; 32]>,
}

/// An encrypted text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptedText {
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
    #[error("the key of the other side is not valid")]
    Key,
    /// It was encrypted for another key or purpose, or was changed.
    #[error("it cannot be decrypted")]
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
    pub fn decrypt(self, about: &[u8], reply: &EncryptedText) -> Result<Vec<u8>, ExchangeError> {
        let other = reply.sender()?;
        let key = agreed(Purpose::Reply, self.private, &other, [&self.public, &other])?;
        reply.open(&key, about)
    }
}

impl HostKey {
    /// Makes the key from its 32 bytes, the private key of RFC 8032.
    ///
    /// # Errors
    /// The fault of the bytes: there are not 32.
    pub fn new(seed: &[u8]) -> Result<Self, String> {
        let signing = OwnKey::new(seed)?;
        // RFC 8032, section 5.1.5: the first half of the digest is the number by which points are multiplied.
        let digest = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(seed)));
        let private = digest.first_chunk().copied().ok_or("the digest of the key is too short")?;
        Ok(Self { signing, private: Zeroizing::new(private) })
    }

    /// Returns the key that signs.
    pub fn signing(&self) -> &OwnKey {
        &self.signing
    }

    /// Decrypts a command. `about` is the text that the command is bound to.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn decrypt(&self, about: &[u8], command: &EncryptedText) -> Result<Vec<u8>, ExchangeError> {
        let other = command.sender()?;
        let secret = Zeroizing::new(MontgomeryPoint(other).mul_clamped(*self.private).to_bytes());
        // RFC 7748, section 6.1: the sender has chosen a point that gives everybody the same secret.
        if *secret == [0; 32] {
            return Err(ExchangeError::Key);
        }
        let own = exchange_key(&self.signing.public())?;
        command.open(&derived(Purpose::Command, secret.as_slice(), [&own, &other])?, about)
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostKey(…)")
    }
}

impl EncryptedText {
    fn sender(&self) -> Result<[u8; 32], ExchangeError> {
        decoded(&self.key)
    }

    fn open(&self, key: &LessSafeKey, about: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        let mut text = URL_SAFE_NO_PAD.decode(&self.text).map_err(|_fault| ExchangeError::Damaged)?;
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
    match encrypt_reply(receiver, &[], Vec::new()) {
        Ok(_) => Ok(true),
        Err(ExchangeError::Randomness) => Err(ExchangeError::Randomness),
        Err(ExchangeError::Key | ExchangeError::Damaged) => Ok(false),
    }
}

/// Encrypts a reply for the holder of this public key, and binds it to `about`.
///
/// # Errors
/// [`ExchangeError`]; the reply must not leave then.
pub fn encrypt_reply(receiver: &str, about: &[u8], reply: Vec<u8>) -> Result<EncryptedText, ExchangeError> {
    encrypt(Purpose::Reply, &decoded(receiver)?, about, reply)
}

/// Encrypts a command for the host with this Ed25519 key, and binds it to `about`.
///
/// # Errors
/// [`ExchangeError`]; the command must not leave then.
pub fn encrypt_command(host: &[u8; 32], about: &[u8], command: Vec<u8>) -> Result<EncryptedText, ExchangeError> {
    encrypt(Purpose::Command, &exchange_key(host)?, about, command)
}

fn encrypt(
    purpose: Purpose,
    receiver: &[u8; 32],
    about: &[u8],
    mut text: Vec<u8>,
) -> Result<EncryptedText, ExchangeError> {
    let ReplyKey { private, public } = ReplyKey::new()?;
    let key = agreed(purpose, private, receiver, [receiver, &public])?;
    let sealed = key.seal_in_place_append_tag(nonce(), Aad::from(about), &mut text);
    sealed.map_err(|_failed| ExchangeError::Randomness)?;
    Ok(EncryptedText { key: URL_SAFE_NO_PAD.encode(public), text: URL_SAFE_NO_PAD.encode(text) })
}

/// Returns the X25519 public key of the holder of an Ed25519 public key. Points of a small order are those of nobody.
fn exchange_key(host: &[u8; 32]) -> Result<[u8; 32], ExchangeError> {
    let point = CompressedEdwardsY(*host).decompress().filter(|point| !point.is_small_order());
    point.map(|point| point.to_montgomery().to_bytes()).ok_or(ExchangeError::Key)
}

fn decoded(key: &str) -> Result<[u8; 32], ExchangeError> {
    let bytes = URL_SAFE_NO_PAD.decode(key).map_err(|_fault| ExchangeError::Key)?;
    bytes.try_into().map_err(|_length| ExchangeError::Key)
}

/// Returns the key of a text from a private key and the public key of the other side.
fn agreed(
    purpose: Purpose,
    private: EphemeralPrivateKey,
    other: &[u8],
    both: [&[u8]; 2],
) -> Result<LessSafeKey, ExchangeError> {
    let other = UnparsedPublicKey::new(&X25519, other);
    agree_ephemeral(private, &other, |secret| derived(purpose, secret, both)).map_err(|_fault| ExchangeError::Key)?
}

/// Returns the key of a text. It depends on both public keys: that of the receiver comes first.
fn derived(purpose: Purpose, secret: &[u8], both: [&[u8]; 2]) -> Result<LessSafeKey, ExchangeError> {
    let extracted = purpose.salt().extract(secret);
    let expanded = extracted.expand(&both, &AES_256_GCM).map(|key| LessSafeKey::new(UnboundKey::from(key)));
    expanded.map_err(|_failed| ExchangeError::Key)
}

/// A key encrypts one text.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply_key() -> ReplyKey {
        ReplyKey::new().unwrap()
    }

    /// Attack: see `somebody_with_the_database_reads_no_request_no_card_and_no_result`.
    #[test]
    fn only_the_receiver_reads_a_reply_and_only_as_the_reply_to_its_command() {
        let reply = || b"the card".to_vec();
        let key = reply_key();
        let encrypted = encrypt_reply(&key.public_text(), b"command 1", reply()).unwrap();
        assert_ne!(encrypted, encrypt_reply(&key.public_text(), b"command 1", reply()).unwrap());
        assert!(!format!("{encrypted:?}").contains("card"));
        assert_eq!(reply_key().decrypt(b"command 1", &encrypted), Err(ExchangeError::Damaged));
        assert_eq!(key.decrypt(b"command 1", &encrypted), Ok(reply()));
        let key = reply_key();
        let encrypted = encrypt_reply(&key.public_text(), b"command 1", reply()).unwrap();
        assert_eq!(key.decrypt(b"command 2", &encrypted), Err(ExchangeError::Damaged));
    }

    #[test]
    fn keys_that_are_none_and_changed_texts_are_refused() {
        for wrong in ["", "AAAA", "?", &URL_SAFE_NO_PAD.encode([0; 32]), &URL_SAFE_NO_PAD.encode([1; 33])] {
            assert_eq!(encrypt_reply(wrong, b"", Vec::new()), Err(ExchangeError::Key), "{wrong}");
            assert_eq!(is_reply_key(wrong), Ok(false), "{wrong}");
        }
        assert_eq!(is_reply_key(&reply_key().public_text()), Ok(true));
        let changed = |change: fn(&mut EncryptedText)| {
            let key = reply_key();
            let mut encrypted = encrypt_reply(&key.public_text(), b"", b"text".to_vec()).unwrap();
            change(&mut encrypted);
            key.decrypt(b"", &encrypted)
        };
        assert_eq!(changed(|_| {}), Ok(b"text".to_vec()));
        assert_eq!(changed(|reply| reply.key = URL_SAFE_NO_PAD.encode([0; 32])), Err(ExchangeError::Key));
        assert_eq!(changed(|reply| reply.key = reply_key().public_text()), Err(ExchangeError::Damaged));
        assert_eq!(changed(|reply| reply.text = reply.text.replacen(|_| true, "", 4)), Err(ExchangeError::Damaged));
        assert_eq!(changed(|reply| reply.text.clear()), Err(ExchangeError::Damaged));
    }

    fn host_key(seed: u8) -> HostKey {
        HostKey::new(&[seed; 32]).unwrap()
    }

    /// The keys of the test `ed25519_convert` of libsodium.
    #[test]
    fn a_key_of_signatures_gives_the_key_that_other_programs_derive() {
        let bytes = |text: &str| base16ct::lower::decode_vec(text).unwrap();
        let seed = bytes("421151a459faeade3d247115f94aedae42318124095afabe4d1451a559faedee");
        let key = HostKey::new(&seed).unwrap();
        let public = exchange_key(&key.signing().public()).unwrap();
        assert_eq!(public.to_vec(), bytes("f1814f0e8ff1043d8a44d25babff3cedcae6c22c3edaa48f857ae70de2baae50"));
        assert_eq!(MontgomeryPoint::mul_base_clamped(*key.private).to_bytes(), public);
        assert_eq!(format!("{key:?}"), "HostKey(…)");
    }

    /// Attack: see `somebody_with_the_database_reads_no_request_no_card_and_no_result`.
    #[test]
    fn only_its_host_reads_a_command_and_only_in_its_place() {
        let (host, command) = (host_key(1), || b"approve 7k2p9d".to_vec());
        let encrypted = encrypt_command(&host.signing().public(), b"b a 1", command()).unwrap();
        assert_ne!(encrypted, encrypt_command(&host.signing().public(), b"b a 1", command()).unwrap());
        assert_eq!(host.decrypt(b"b a 1", &encrypted), Ok(command()));
        assert_eq!(host.decrypt(b"b a 2", &encrypted), Err(ExchangeError::Damaged));
        assert_eq!(host_key(2).decrypt(b"b a 1", &encrypted), Err(ExchangeError::Damaged));
        // A reply with the same keys is no command.
        let receiver = URL_SAFE_NO_PAD.encode(exchange_key(&host.signing().public()).unwrap());
        let reply = encrypt_reply(&receiver, b"b a 1", command()).unwrap();
        assert_eq!(host.decrypt(b"b a 1", &reply), Err(ExchangeError::Damaged));
    }

    #[test]
    fn weak_points_are_refused_in_encryption_and_in_answers() {
        // The neutral point, two of order 8 (RFC 8032, RFC 7748), and a number that is no point.
        let (mut neutral, mut no_point) = ([0; 32], [0; 32]);
        (neutral[0], no_point[0]) = (1, 2);
        let order_8 = base16ct::lower::decode_vec("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05");
        for wrong in [neutral, [0; 32], no_point, order_8.unwrap().try_into().unwrap()] {
            assert_eq!(encrypt_command(&wrong, b"", Vec::new()), Err(ExchangeError::Key), "{wrong:?}");
        }
        let public = host_key(1).signing().public();
        for point in [[0; 32], neutral] {
            let mut encrypted = encrypt_command(&public, b"", Vec::new()).unwrap();
            encrypted.key = URL_SAFE_NO_PAD.encode(point);
            assert_eq!(host_key(1).decrypt(b"", &encrypted), Err(ExchangeError::Key));
        }
    }
}
