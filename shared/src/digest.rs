//! Digests, plain and keyed.

use hmac::{Hmac, KeyInit, Mac};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A SHA-256 value, written `sha256:<64 lower-case hex>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: it must be `sha256:` and 64 lower-case hexadecimal digits")]
pub struct NotADigest;

impl Digest {
    /// All zero: the previous row that the first row of a chain names.
    pub const ZERO: Self = Self([0; 32]);

    /// SHA-256 of the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// HMAC-SHA256 of the bytes: for values so small that their plain digest could be guessed.
    pub fn keyed(key: &[u8], bytes: &[u8]) -> Self {
        Self(hmac_sha256(key, bytes))
    }

    /// A value read back from where it was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits, without the prefix.
    pub fn hex(&self) -> String {
        base16ct::lower::encode_string(&self.0)
    }
}

/// HMAC-SHA256 (RFC 2104).
pub(crate) fn hmac_sha256(key: &[u8], bytes: &[u8]) -> [u8; 32] {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length (RFC 2104, section 3)")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let hex = text.strip_prefix("sha256:").ok_or(NotADigest)?;
        let mut bytes = [0; 32];
        match base16ct::lower::decode(hex, &mut bytes) {
            Ok(decoded) if decoded.len() == 32 => Ok(Self(bytes)),
            Ok(_) | Err(_) => Err(NotADigest),
        }
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> Cow<'static, str> {
        "Digest".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^sha256:[0-9a-f]{64}$" })
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // FIPS 180-4 example "abc"; RFC 4231 test case 2.
        assert_eq!(
            Digest::of(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            Digest::keyed(b"Jefe", b"what do ya want for nothing?").hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn only_the_written_form_is_read() {
        let digest = Digest::of(b"x");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for text in [digest.hex(), digest.to_string().to_uppercase(), "sha256:00".to_owned(), format!("{digest}0")] {
            assert_eq!(text.parse::<Digest>(), Err(NotADigest), "{text}");
        }
    }
}
