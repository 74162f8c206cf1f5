//! Signed requests, for deployments that want them (the scheme of the original NanoClaw shim).
//!
//! `sig` is the last member of the document: lower-case hexadecimal HMAC-SHA256 over the document's bytes with
//! insignificant white space removed and the trailing `,"sig":"…"` cut. The key is the trimmed text of the key
//! file, as it is: not decoded. Because the bytes are signed and not their meaning, nothing has to be
//! re-serialized the way the signer did.

use crate::digest::hmac_sha256;
use subtle::ConstantTimeEq as _;

/// The document's signature is missing, malformed or wrong. Which of them is not said: it helps only a forger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature is missing or wrong")]
pub struct BadSignature;

/// Checks a document's signature.
///
/// # Errors
/// [`BadSignature`]; the document must then not be believed in any part.
pub fn verify(document: &[u8], key_file: &str) -> Result<(), BadSignature> {
    let compact = compact(document);
    let (signed, claimed) = split(&compact).ok_or(BadSignature)?;
    let expected = base16ct::lower::encode_string(&hmac_sha256(key_file.trim().as_bytes(), &signed));
    if bool::from(expected.as_bytes().ct_eq(claimed)) { Ok(()) } else { Err(BadSignature) }
}

/// Appends `sig` to a document that is one JSON object.
///
/// ```
/// let signed = shared::signature::sign(b"{\"type\": \"ext_list\"}", "key");
/// assert!(signed.starts_with(b"{\"type\":\"ext_list\",\"sig\":\""));
/// assert_eq!(shared::signature::verify(&signed, "key\n"), Ok(()));
/// ```
pub fn sign(document: &[u8], key_file: &str) -> Vec<u8> {
    let mut compact = compact(document);
    let sig = base16ct::lower::encode_string(&hmac_sha256(key_file.trim().as_bytes(), &compact));
    if compact.last() == Some(&b'}') {
        compact.pop();
    }
    let comma = if compact.as_slice() == b"{" { "" } else { "," };
    compact.extend_from_slice(format!("{comma}\"sig\":\"{sig}\"}}").as_bytes());
    compact
}

/// Returns the document without the white space between its tokens.
fn compact(document: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(document.len());
    let mut in_string = false;
    let mut escaped = false;
    for &byte in document {
        if in_string {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            in_string = byte == b'"';
            out.push(byte);
        }
    }
    out
}

const SIG_HEX: usize = 64;

/// Splits a compact document into the signed part and the claimed signature.
fn split(compact: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let body = compact.strip_suffix(b"\"}")?;
    let (head, claimed) = body.split_at_checked(body.len().checked_sub(SIG_HEX)?)?;
    let head = head.strip_suffix(b",\"sig\":\"").or_else(|| head.strip_suffix(b"\"sig\":\"").filter(|h| *h == b"{"))?;
    let mut signed = head.to_vec();
    signed.push(b'}');
    Some((signed, claimed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_key_or_place_is_refused() {
        let good = sign(br#"{"type":"ext_call","params":{"sig":"x"}}"#, "k");
        assert_eq!(verify(&good, " k\n"), Ok(()));
        assert_eq!(verify(&good, "K"), Err(BadSignature));
        let text = String::from_utf8(good).unwrap();
        for bad in [
            text.replace("ext_call", "ext_list"),
            text.replace("\"sig\":\"x\"", "\"sig\":\"y\""),
            text.to_uppercase(),
            text.replace("\"}", "0\"}"),
            text.replace("\"}", "\",\"a\":1}"),
            r#"{"type":"ext_call"}"#.to_owned(),
            r#"{"sig":""}"#.to_owned(),
            String::new(),
        ] {
            assert_eq!(verify(bad.as_bytes(), "k"), Err(BadSignature), "{bad}");
        }
    }

    #[test]
    fn white_space_outside_strings_does_not_matter() {
        let signed = String::from_utf8(sign(br#"{"a":"b  c"}"#, "k")).unwrap();
        assert_eq!(verify(signed.replace(':', " :\n\t").as_bytes(), "k"), Ok(()));
        assert_eq!(verify(signed.replace("b  c", "b c").as_bytes(), "k"), Err(BadSignature));
    }
}
