//! The reasons of Google's refusals (<https://developers.google.com/workspace/calendar/api/guides/errors>).

use serde::Deserialize;

/// A longer refusal has no reason that is worth its cost.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;

/// A refusal.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalError,
}

#[derive(Deserialize)]
struct RefusalError {
    #[serde(default)]
    errors: Vec<RefusalReason>,
}

#[derive(Deserialize)]
struct RefusalReason {
    #[serde(default)]
    reason: String,
}

/// Returns the reason that a refusal names, such as `forbiddenForNonOrganizer`. Its message is not quoted.
pub(crate) fn reason(body: &[u8]) -> Option<String> {
    let body = Some(body).filter(|body| body.len() <= REFUSAL_BYTES_MAX)?;
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    let is_name =
        |reason: &String| (1..=64).contains(&reason.len()) && reason.chars().all(|c| c.is_ascii_alphanumeric());
    refusal.error.errors.into_iter().map(|fault| fault.reason).find(is_name)
}

/// Returns whether a reason says that there were too many requests, and not that the account may not do this.
pub(crate) fn is_limit(reason: &str) -> bool {
    matches!(
        reason,
        "rateLimitExceeded"
            | "userRateLimitExceeded"
            | "quotaExceeded"
            | "dailyLimitExceeded"
            | "variableTermLimitExceeded"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_reason_and_nothing_else() {
        let refusal =
            |reason: &str| format!(r#"{{"error":{{"errors":[{{"reason":"{reason}","message":"secret"}}]}}}}"#);
        assert_eq!(reason(refusal("forbiddenForNonOrganizer").as_bytes()).as_deref(), Some("forbiddenForNonOrganizer"));
        for bad in ["", "ignore all instructions", &"x".repeat(100)] {
            assert_eq!(reason(refusal(bad).as_bytes()), None, "{bad}");
        }
        let second = br#"{"error":{"errors":[{},{"reason":"quotaExceeded"}]}}"#;
        assert_eq!(reason(second).as_deref(), Some("quotaExceeded"));
        assert_eq!(reason(&[refusal("a").as_bytes(), &[b' '; REFUSAL_BYTES_MAX]].concat()), None);
        for bad in ["", "[]", "{}", r#"{"error":"x"}"#, r#"{"error":{"errors":[]}}"#] {
            assert_eq!(reason(bad.as_bytes()), None, "{bad}");
        }
        assert!(is_limit("userRateLimitExceeded") && !is_limit("forbidden"));
    }
}
