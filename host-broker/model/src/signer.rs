//! The trait of a private key.

/// A private Ed25519 key (RFC 8032).
pub trait Signer {
    /// Returns the public key.
    fn public_key(&self) -> [u8; 32];

    /// Returns the signature of the message.
    fn signature(&self, message: &[u8]) -> Vec<u8>;
}
