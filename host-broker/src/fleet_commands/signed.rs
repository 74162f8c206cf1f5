//! Signed documents: JSON whose text is signed as it is, so that no two programs can read it differently.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::identity::issuers::{OwnKey, has_signed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::json::parse_object_within;

/// The kind of a document. No signature of one kind is valid for another, or for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// A command for another host.
    Command,
    /// The reply to it.
    Reply,
    /// A policy for other hosts.
    Policy,
}

impl DocumentKind {
    /// Returns the first line of the text that is signed.
    fn line(self) -> &'static str {
        match self {
            Self::Command => "host-broker fleet command v1\n",
            Self::Reply => "host-broker fleet reply v1\n",
            Self::Policy => "host-broker fleet policy v1\n",
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    /// The document, as a text.
    text: String,
    /// The Ed25519 signature of the line of the kind and of the text, in base64url without padding.
    signature: String,
}

/// Returns the document with its signature.
///
/// # Errors
/// [`serde_json::Error`] if it cannot be written as JSON.
pub(crate) fn sign(key: &OwnKey, kind: DocumentKind, document: &impl Serialize) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(document)?;
    let signature = URL_SAFE_NO_PAD.encode(key.sign(&with_line(kind, &text)));
    serde_json::to_string(&Signed { text, signature })
}

/// Verifies and reads a document of the holder of this key. It has at most so many bytes, values and keys.
///
/// # Errors
/// The fault. Nothing of a document with another signature is read.
pub(crate) fn verify<T: DeserializeOwned>(
    key: &[u8; 32],
    (kind, bytes_max, nodes_max): (DocumentKind, usize, usize),
    signed_text: &str,
) -> Result<T, String> {
    if signed_text.len() > bytes_max {
        return Err("it is too long".to_owned());
    }
    let Signed { text, signature } = serde_json::from_str(signed_text).map_err(|fault| fault.to_string())?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_fault| "its signature is not base64url")?;
    if !has_signed(key, &with_line(kind, &text), &signature) {
        return Err("its signature is not that of the key in broker.toml".to_owned());
    }
    let (document, _) = parse_object_within(text.as_bytes(), nodes_max).map_err(|fault| fault.to_string())?;
    T::deserialize(Value::Object(document)).map_err(|fault| fault.to_string())
}

fn with_line(kind: DocumentKind, text: &str) -> Vec<u8> {
    [kind.line(), text].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Attack: see `the_administrator_of_the_database_makes_no_command`.
    #[test]
    fn a_document_is_read_only_with_its_signature_for_its_kind() {
        let (key, other) = (OwnKey::new(&[1; 32]).unwrap(), OwnKey::new(&[2; 32]).unwrap());
        let document = json!({ "a": "\u{0}é", "n": 1 });
        let signed_text = sign(&key, DocumentKind::Command, &document).unwrap();
        let read = |public: [u8; 32], kind, text: &str| verify::<Value>(&public, (kind, 1000, 10), text);
        assert_eq!(read(key.public(), DocumentKind::Command, &signed_text), Ok(document));
        for (bytes, nodes) in [(signed_text.len() - 1, 10), (signed_text.len(), 4)] {
            assert!(verify::<Value>(&key.public(), (DocumentKind::Command, bytes, nodes), &signed_text).is_err());
        }
        for (public, kind, text) in [
            (other.public(), DocumentKind::Command, signed_text.clone()),
            (key.public(), DocumentKind::Reply, signed_text.clone()),
            (key.public(), DocumentKind::Command, signed_text.replace("\\\"n\\\":1", "\\\"n\\\":2")),
            (key.public(), DocumentKind::Command, signed_text.replace("\"signature\":\"", "\"signature\":\"A")),
            (key.public(), DocumentKind::Command, signed_text.replace("{\"text\"", "{\"more\":1,\"text\"")),
            (key.public(), DocumentKind::Command, signed_text.replace("{\"text\"", "{\"text\":\"{}\",\"text\"")),
            (key.public(), DocumentKind::Command, String::new()),
        ] {
            assert!(
                text != signed_text || public != key.public() || kind != DocumentKind::Command,
                "the text was changed"
            );
            assert!(read(public, kind, &text).is_err(), "{text}");
        }
    }
}
