//! Randomness: nonces, keys, generated names.

use std::fmt;

/// A source of unguessable bytes.
pub trait Ids: Send + Sync {
    /// Fills the buffer.
    ///
    /// # Errors
    /// [`NoRandomness`] if the system has none to give; what needed it must then be refused.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness>;
}

/// The system's random source failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system's random source failed")]
pub struct NoRandomness;

/// The system's random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's random source")]
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        getrandom::fill(buffer).map_err(|_why| NoRandomness)
    }
}

/// What is planted into an effect so that it can be recognised later: 128 random bits, as 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Nonce(String);

impl Nonce {
    /// A fresh one.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn fresh(ids: &dyn Ids) -> Result<Self, NoRandomness> {
        let mut bytes = [0; 16];
        ids.fill(&mut bytes)?;
        Ok(Self(base16ct::lower::encode_string(&bytes)))
    }

    /// One that was stored with the intent it was made for.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The 32 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({})", self.0)
    }
}
