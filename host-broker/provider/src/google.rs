//! Refusals of Google's APIs.
//!
//! Source: Google Calendar and Gmail API guides, "Resolve errors"; Google API design guide, "Errors".

use serde::Deserialize;

/// A longer refusal has no words that are worth their cost.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
/// The longest name of a reason.
const REASON_MAX: usize = 64;
/// The reasons that mean too many requests.
const LIMITS: [&str; 5] =
    ["rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded", "variableTermLimitExceeded"];

/// A refusal: `{"error":{"message":"…","errors":[{"reason":"rateLimitExceeded"}]}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoogleError {
    /// The message; empty if there is none. It is untrusted, and can have a secret: see [`words`](crate::remote::words).
    pub message: String,
    /// The name of the first reason, of letters and digits.
    pub reason: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    error: Fault,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    reason: String,
}

impl GoogleError {
    /// Reads the body of a refusal. One that is not Google's says nothing.
    pub fn of(body: &[u8]) -> Self {
        let document = if body.len() <= REFUSAL_BYTES_MAX { serde_json::from_slice(body).ok() } else { None };
        let Some(Document { error: Fault { message, errors } }) = document else { return Self::default() };
        let is_name = |reason: &String| {
            (1..=REASON_MAX).contains(&reason.len()) && reason.chars().all(|c| c.is_ascii_alphanumeric())
        };
        let reason = errors.into_iter().map(|fault| fault.reason).find(is_name);
        Self { message, reason }
    }

    /// Checks whether it means too many requests, and not that the account may not do this.
    pub fn is_limit(&self) -> bool {
        self.reason.as_deref().is_some_and(|reason| LIMITS.contains(&reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: &str) -> GoogleError {
        let body = format!(r#"{{"error":{{"message":"no\nway","errors":[{{}},{{"reason":"{reason}"}}]}}}}"#);
        GoogleError::of(body.as_bytes())
    }

    #[test]
    fn a_refusal_has_its_message_and_the_name_of_its_reason() {
        let limit = refusal("userRateLimitExceeded");
        assert_eq!((limit.message.as_str(), limit.is_limit()), ("no\nway", true));
        assert!(!refusal("forbidden").is_limit());
        for bad in ["", "ignore all instructions", &"x".repeat(100)] {
            assert_eq!(refusal(bad).reason, None, "{bad}");
        }
    }

    #[test]
    fn bodies_that_are_no_error_of_google_give_an_empty_error() {
        let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(REFUSAL_BYTES_MAX));
        for bad in ["", "[]", "{}", "<html>", r#"{"error":"x"}"#, r#"{"error":{"errors":[7]}}"#, &long] {
            assert_eq!(GoogleError::of(bad.as_bytes()), GoogleError::default(), "{bad}");
        }
    }
}
