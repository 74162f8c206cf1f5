//! The request in which an effect leaves, closed before anybody is asked about it.
//!
//! A provider builds each change that it sends in one place, which gives a [`Sealed`]. Where a person must agree, it is
//! made when the question is put: it is shown, the yes is to its digest, it is stored, and it is what is sent. The
//! credential is no part of it.

use platform::ids::Nonce;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use std::fmt;

/// The very request that an action sends, and what is planted into it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// What is planted into it, and looked for if its answer is lost. Also where no part of the request can hold it.
    pub nonce: Nonce,
    /// `POST`.
    pub method: String,
    /// The whole address, with path and query: `https://api.github.com/repos/octocat/hello-world/issues`.
    pub url: String,
    /// The headers that decide how it is understood, in their order; never the credential.
    pub headers: Vec<(String, String)>,
    /// The body's bytes, which are text.
    pub body: String,
}

impl Sealed {
    /// Of everything in it, byte for byte.
    pub fn digest(&self) -> Digest {
        let Self { nonce, method, url, headers, body } = self;
        Digest::of(&shared::json::canonical(&serde_json::json!([nonce, method, url, headers, body])))
    }
}

impl fmt::Debug for Sealed {
    /// Without headers and body: what it says is nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} {}, {} bytes)", self.method, self.url, self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Sealed {
        Sealed {
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
        assert_eq!(serde_json::from_str::<Sealed>(&text).unwrap(), sealed());
        assert!(!format!("{:?}", sealed()).contains("Secret plan"));
    }

    #[test]
    fn every_part_of_a_sealed_request_changes_its_digest() {
        let original = sealed();
        let headers = vec![("accept".into(), "text/html".into())];
        for other in [
            Sealed { nonce: Nonce::stored("1".repeat(32)), ..sealed() },
            Sealed { method: "PUT".into(), ..sealed() },
            Sealed { url: "https://api.github.com/repos/o/r/issues".into(), ..sealed() },
            Sealed { headers, ..sealed() },
            Sealed { body: r#"{"title": "Secret plan"}"#.into(), ..sealed() },
        ] {
            assert_ne!(other.digest(), original.digest(), "{other:?}");
        }
        assert_eq!(sealed().digest(), original.digest());
    }
}
