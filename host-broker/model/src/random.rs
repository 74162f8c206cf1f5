//! Randomness: a source of unguessable bytes, and nonces made of it.

use std::fmt;

/// A source of unguessable bytes.
pub trait Random: Send + Sync {
    /// Fills the buffer.
    ///
    /// # Errors
    /// [`NoRandomness`] if the source fails. The caller must then refuse the operation.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness>;
}

/// The system's random source failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system's random source failed")]
pub struct NoRandomness;

/// The marker that an effect carries so that a probe recognises it: 128 random bits, as 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Nonce(String);

impl Nonce {
    /// Generates a nonce.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn fresh(random: &dyn Random) -> Result<Self, NoRandomness> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes)?;
        Ok(Self(base16ct::lower::encode_string(&bytes)))
    }

    /// Makes a nonce from the text that is stored with its intent.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the 32 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({})", self.0)
    }
}
