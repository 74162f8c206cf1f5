//! Secrets: loaded at start, exposed only to a running effect, never printed.

use crate::providers::execution::Execution;
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt;

/// One credential. It cannot be printed, copied or serialized; its text can be had only with an
/// [`Execution`], that is, after the intent to use it has become durable.
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
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
