//! Signatures with a private RSA key, whose text is PEM: PKCS #1 (RFC 8017) or PKCS #8 (RFC 5958).

use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::RSA_PKCS1_SHA256;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

/// Returns the key in the text; `None` unless it is one of 2048 to 4096 bits.
fn key(pem: &str) -> Option<KeyPair> {
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    match &der {
        PrivateKeyDer::Pkcs1(key) => KeyPair::from_der(key.secret_pkcs1_der()).ok(),
        PrivateKeyDer::Pkcs8(key) => KeyPair::from_pkcs8(key.secret_pkcs8_der()).ok(),
        PrivateKeyDer::Sec1(_) | _ => None,
    }
}

/// Returns whether the text is a key that can sign.
pub(super) fn is_key(pem: &str) -> bool {
    key(pem).is_some()
}

/// Returns the signature RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017, section 8.2); `None` if the text is no key.
pub(super) fn sign(pem: &str, message: &[u8]) -> Option<Vec<u8>> {
    let key = key(pem)?;
    let mut signature = vec![0; key.public().modulus_len()];
    // The randomness blinds the computation. It does not change the signature.
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).ok()?;
    Some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    const PKCS1: &str = include_str!("../../../../tests/fixtures/keys/rsa-pkcs1.pem");
    const PKCS8: &str = include_str!("../../../../tests/fixtures/keys/rsa-pkcs8.pem");

    #[test]
    fn both_forms_of_a_key_sign_alike() {
        let signature = sign(PKCS1, b"message").unwrap();
        assert_eq!(sign(PKCS8, b"message").unwrap(), signature);
        let key = key(PKCS1).unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref());
        public.verify(b"message", &signature).unwrap();
        assert!(public.verify(b"another", &signature).is_err());
    }

    #[test]
    fn other_texts_are_no_keys() {
        let cut = PKCS1.get(..PKCS1.len() / 2).unwrap();
        let other = include_str!("../../../../tests/fixtures/keys/ec-pkcs8.pem");
        let short = include_str!("../../../../tests/fixtures/keys/rsa-1024.pem");
        for text in ["", "ghp_0123456789", "-----BEGIN RSA PRIVATE KEY-----", cut, other, short] {
            assert!(!is_key(text) && sign(text, b"message").is_none(), "{text}");
        }
    }
}
