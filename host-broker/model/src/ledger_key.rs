//! The key of the digests of parameters.

use shared::digest::Digest;
use std::fmt;

/// The key of the digests of parameters: small parameters could be guessed from a plain hash.
pub struct LedgerKey(zeroize::Zeroizing<Vec<u8>>);

impl LedgerKey {
    /// Takes the key in.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(zeroize::Zeroizing::new(bytes))
    }

    /// Returns the keyed digest.
    pub fn digest(&self, bytes: &[u8]) -> Digest {
        Digest::keyed(&self.0, bytes)
    }

    /// Returns the key for another purpose: HKDF-Extract (RFC 5869, section 2.2) with the purpose as its salt. No digest
    /// of [`Self::digest`] equals it.
    pub fn derived(&self, purpose: &[u8]) -> zeroize::Zeroizing<[u8; 32]> {
        zeroize::Zeroizing::new(*Digest::keyed(purpose, &self.0).as_bytes())
    }
}

impl fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LedgerKey(…)")
    }
}
