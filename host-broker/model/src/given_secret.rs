//! A secret that a person gives to the broker, on its way to the vault.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use zeroize::Zeroizing;

/// The longest secret, in bytes.
pub const GIVEN_SECRET_MAX: usize = 4096;

/// A secret of one line that a person gives: a password. It cannot be printed; only a request to the daemon writes it out.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenSecret(Zeroizing<String>);

/// The reason why a text is no secret. The messages quote nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it is longer than {GIVEN_SECRET_MAX} bytes")]
    TooLong,
    /// It has more than one line, or control characters.
    #[error("it is not one line of text")]
    NotALine,
}

impl GivenSecret {
    /// Parses a secret. One end of line after it is ignored.
    ///
    /// # Errors
    /// [`BadSecret`].
    pub fn new(text: &str) -> Result<Self, BadSecret> {
        let line = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
        if line.is_empty() {
            return Err(BadSecret::Empty);
        }
        if line.len() > GIVEN_SECRET_MAX {
            return Err(BadSecret::TooLong);
        }
        if line.contains(char::is_control) {
            return Err(BadSecret::NotALine);
        }
        Ok(Self(Zeroizing::new(line.to_owned())))
    }

    /// Returns the text, to be encrypted.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for GivenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenSecret(…)")
    }
}

impl Serialize for GivenSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for GivenSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Result<GivenSecret, BadSecret> {
        GivenSecret::new(text)
    }

    #[test]
    fn one_line_is_a_secret_and_nothing_else_is() {
        for text in ["correct horse", "correct horse\n", "correct horse\r\n"] {
            assert_eq!(given(text).unwrap().reveal(), "correct horse");
        }
        assert_eq!(given(" both spaces stay ").unwrap().reveal(), " both spaces stay ");
        for empty in ["", "\n", "\r\n"] {
            assert_eq!(given(empty), Err(BadSecret::Empty));
        }
        for odd in ["two\nlines", "end\n\n", "bell\u{7}", "nul\0"] {
            assert_eq!(given(odd), Err(BadSecret::NotALine), "{odd:?}");
        }
        assert_eq!(given(&"x".repeat(GIVEN_SECRET_MAX + 1)), Err(BadSecret::TooLong));
        assert!(given(&"x".repeat(GIVEN_SECRET_MAX)).is_ok());
    }

    #[test]
    fn a_given_secret_is_not_printed() {
        let secret = given("correct horse").unwrap();
        assert_eq!(format!("{secret:?}"), "GivenSecret(…)");
    }
}
