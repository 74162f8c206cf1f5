//! Tokens that a private key obtains: an assertion that it signs, and the token that a server issues for the assertion.
//!
//! Source: RFC 7519 for the claims; RFC 7515 and RFC 7518, section 3.3, for the signature (`RS256`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::execution::Execution;
use secrets::Secret;
use secrets::vault::seen_secrets::hide;
use serde_json::{Map, Value, json};
use shared::Timestamp;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// The age of a new assertion: the clock of the server can be behind.
const ASSERTION_AGE: Duration = Duration::from_secs(60);
/// The life of an assertion. GitHub refuses one of more than ten minutes, and Google one of more than an hour.
const ASSERTION_LIFE: Duration = Duration::from_secs(9 * 60);
/// The longest life of a token.
const TOKEN_LIFE_MAX: Duration = Duration::from_secs(60 * 60);
/// A token that ends within this time is not used for another call.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The text of a token or of an assertion. It cannot be printed.
#[derive(Clone)]
pub struct TokenText(Zeroizing<String>);

impl TokenText {
    /// Takes the text in.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Returns the text, for a request that it signs in.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// Returns an assertion with these claims and its times, and keeps it out of everything that comes back. `None` if the
/// secret is no [RSA key](Secret::is_rsa_key).
pub fn assertion(key: &Secret, claims: Map<String, Value>, now: Timestamp, execution: &Execution) -> Option<TokenText> {
    let unsigned = unsigned(claims, now);
    let signature = key.sign_rs256(unsigned.as_bytes(), execution)?;
    let assertion = TokenText::new(format!("{unsigned}.{}", URL_SAFE_NO_PAD.encode(signature)));
    hide(assertion.reveal(), execution).ok()?;
    Some(assertion)
}

/// Returns the header and the claims of an assertion, as they are signed.
pub fn unsigned(mut claims: Map<String, Value>, now: Timestamp) -> String {
    let header = json!({ "alg": "RS256", "typ": "JWT" });
    let (from, until) = (now.minus(ASSERTION_AGE), now.plus(ASSERTION_LIFE));
    claims.insert("iat".to_owned(), Value::from(from.millis() / 1000));
    claims.insert("exp".to_owned(), Value::from(until.millis() / 1000));
    let claims = Value::Object(claims);
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// A token, and the end of its use by both clocks: one of them stands still while the machine sleeps.
pub struct IssuedToken {
    text: TokenText,
    /// The instant before its request.
    pub issued: Instant,
    life: Duration,
    ends: Timestamp,
}

impl IssuedToken {
    /// A token that was requested at this instant. Without a known end it serves one call only.
    pub fn new(text: TokenText, issued: Instant, end: Option<Timestamp>, now: Timestamp) -> Self {
        let ends = end.map_or(now, |end| end.minus(SKEW));
        Self { text, issued, life: ends.since(now).min(TOKEN_LIFE_MAX), ends }
    }

    /// Returns the token.
    pub fn text(&self) -> &TokenText {
        &self.text
    }

    /// Checks whether it serves another call.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.issued.elapsed() < self.life && now < self.ends
    }
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken").field("ends", &self.ends).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_serves_until_five_minutes_before_its_end_and_an_hour_at_most() {
        let now = Timestamp::from_millis(1_771_063_200_000);
        let token = |life: u64| {
            let text = TokenText::new("token-of-the-test".to_owned());
            IssuedToken::new(text, Instant::now(), Some(now.plus(Duration::from_secs(life))), now)
        };
        assert!(token(301).is_usable(now) && !token(300).is_usable(now));
        assert!(!token(3600).is_usable(now.plus(Duration::from_secs(3300))));
        let mut endless = token(1_000_000_000);
        assert!(endless.is_usable(now));
        endless.issued = endless.issued.checked_sub(TOKEN_LIFE_MAX).expect("the machine runs for longer");
        assert!(!endless.is_usable(now));
        assert!(!format!("{endless:?} {:?}", endless.text()).contains("of-the-test"));
    }
}
