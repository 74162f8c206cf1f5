//! Signatures of requests to AWS: Signature Version 4, for `POST /` without a query.
//!
//! The secret leads to a key that is valid for one day, one region and one service. Only this key goes to the backend.
//!
//! Source: AWS General Reference, "Create a signed AWS API request". The tests have the vectors of its test suite.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use sha2::{Digest as _, Sha256};
use shared::Timestamp;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use zeroize::Zeroizing;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A key that signs the requests of one execution.
#[derive(Clone)]
pub(crate) struct SigningKey {
    access_key_id: String,
    /// `20260214T100000Z`.
    time: String,
    /// `20260214/eu-central-1/logs/aws4_request`.
    scope: String,
    key: Arc<Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.scope)
    }
}

impl SigningKey {
    /// Derives the key from the secret access key.
    pub(crate) fn new(access_key_id: &str, secret: &str, (region, service): (&str, &str), now: Timestamp) -> Self {
        let time = basic_format(now);
        let day = time.get(..8).unwrap_or_default().to_owned();
        let secret = Zeroizing::new(format!("AWS4{secret}"));
        let parts = [day.as_str(), region, service, "aws4_request"];
        let first = Zeroizing::new(secret.as_bytes().to_vec());
        let key = parts.iter().fold(first, |key, part| Zeroizing::new(mac(&key, part.as_bytes())));
        let scope = parts.join("/");
        Self { access_key_id: access_key_id.to_owned(), time, scope, key: Arc::new(key) }
    }

    /// Returns the value of the header `X-Amz-Date`.
    pub(crate) fn time(&self) -> &str {
        &self.time
    }

    /// Returns the value of the header `Authorization` for a request with exactly these signed headers. Their names are in
    /// lower case and in order.
    ///
    /// # Errors
    /// A part of the configuration cannot be in a header.
    pub(crate) fn authorization(
        &self,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HeaderValue, InvalidHeaderValue> {
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines = headers.iter().fold(String::new(), |mut lines, (name, value)| {
            // Writing to a string cannot fail.
            writeln!(lines, "{name}:{}", value.trim()).unwrap_or_default();
            lines
        });
        let request = format!("POST\n/\n\n{lines}\n{names}\n{}", hexadecimal(&Sha256::digest(body)));
        let Self { access_key_id, time, scope, key } = self;
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hexadecimal(&Sha256::digest(request)));
        let signature = hexadecimal(&mac(key, text.as_bytes()));
        let header =
            format!("{ALGORITHM} Credential={access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}");
        let mut header = HeaderValue::from_str(&header)?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// Writes a time in the basic format of ISO 8601: `20260214T100000Z`.
fn basic_format(time: Timestamp) -> String {
    let text = time.to_string();
    let seconds = text.split('.').next().unwrap_or_default();
    let digits: String = seconds.chars().filter(|c| !matches!(c, '-' | ':' | 'Z')).collect();
    digits + "Z"
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    // A key of HMAC has any length.
    Hmac::<Sha256>::new_from_slice(key)
        .map(|mac| mac.chain_update(message).finalize().into_bytes().to_vec())
        .unwrap_or_default()
}

fn hexadecimal(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases `post-vanilla`, `post-header-key-sort` and `post-x-www-form-urlencoded` of the test suite.
    #[test]
    fn the_vectors_of_the_test_suite_are_met() {
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let key = SigningKey::new("AKIDEXAMPLE", secret, ("us-east-1", "service"), now);
        let (host, date) = (("host", "example.amazonaws.com"), ("x-amz-date", key.time()));
        for (headers, body, signature) in [
            (vec![host, date], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                vec![host, ("my-header1", "value1"), date],
                "",
                "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
            ),
            (
                vec![("content-type", "application/x-www-form-urlencoded"), host, date],
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ] {
            let header = key.authorization(&headers, body.as_bytes()).unwrap();
            let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={}, \
                 Signature={signature}",
                names.join(";")
            );
            assert_eq!(header.to_str().unwrap(), expected);
            assert!(header.is_sensitive());
        }
        assert!(!format!("{key:?}").contains("AKID"));
    }
}
