//! The outgoing request of an effect, frozen before a person approves it.
//!
//! A provider builds each change in one place, as a [`SealedRequest`]. If a person must approve, the broker seals the
//! request first. The card shows it, the approval covers its digest, and exactly its bytes are sent. It never contains
//! the credential.

use crate::Nonce;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use std::fmt;

/// The exact request that an action sends, with its nonce.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedRequest {
    /// The nonce by which a probe finds the effect if the response is lost.
    pub nonce: Nonce,
    /// `POST`.
    pub method: String,
    /// The URL, with path and query: `https://api.github.com/repos/octocat/hello-world/issues`.
    pub url: String,
    /// The headers of the content, in order; never the credential.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl SealedRequest {
    /// Returns the digest of all fields.
    pub fn digest(&self) -> Digest {
        let Self { nonce, method, url, headers, body } = self;
        Digest::of(&shared::json::canonical(&serde_json::json!([nonce, method, url, headers, body])))
    }
}

impl fmt::Debug for SealedRequest {
    /// Omits headers and body: they may be private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedRequest({} {}, {} bytes)", self.method, self.url, self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> SealedRequest {
        SealedRequest {
            nonce: Nonce::stored("0".repeat(32)),
            method: "POST".into(),
            url: "https://api.github.com/repos/o/r/issues?a=b".into(),
            headers: vec![("accept".into(), "application/json".into())],
            body: r#"{"title":"Secret plan"}"#.into(),
        }
    }

    #[test]
    fn a_sealed_request_is_stored_and_read_back_as_it_was_and_not_printed() {
        let text = serde_json::to_string(&sealed()).unwrap();
        assert_eq!(serde_json::from_str::<SealedRequest>(&text).unwrap(), sealed());
        assert!(!format!("{:?}", sealed()).contains("Secret plan"));
    }

    #[test]
    fn every_part_of_a_sealed_request_changes_its_digest() {
        let original = sealed();
        let headers = vec![("accept".into(), "text/html".into())];
        for other in [
            SealedRequest { nonce: Nonce::stored("1".repeat(32)), ..sealed() },
            SealedRequest { method: "PUT".into(), ..sealed() },
            SealedRequest { url: "https://api.github.com/repos/o/r/issues".into(), ..sealed() },
            SealedRequest { headers, ..sealed() },
            SealedRequest { body: r#"{"title": "Secret plan"}"#.into(), ..sealed() },
        ] {
            assert_ne!(other.digest(), original.digest(), "{other:?}");
        }
        assert_eq!(sealed().digest(), original.digest());
    }
}
