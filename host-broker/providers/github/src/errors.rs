//! The conversion from GitHub's answers to the broker's failures.
//!
//! Reads and writes part here. A read that went wrong changed nothing, so every fault of it is plain. A write whose
//! answer is lost, unreadable or a server fault may have happened: that is [`Failure::Unknown`] and nothing else. Only
//! GitHub's own definite answers (3xx and 4xx) say that nothing was changed.

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, RETRY_AFTER};
use provider::contract::Failure;
use provider::remote::cleaned;
use serde_json::Value;
use shared::Timestamp;
use std::time::Duration;

/// An answer whose head arrived; its body perhaps.
#[derive(Debug)]
pub(super) struct GithubResponse {
    /// The status.
    pub(super) status: StatusCode,
    /// The header fields.
    pub(super) headers: HeaderMap,
    /// The body, as far as it could be used.
    pub(super) body: Result<Bytes, BodyError>,
}

/// Why a body cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// More than the limit.
    TooLarge,
    /// Compressed, which was not asked for.
    Encoded,
    /// Cut off.
    Broken,
}

impl BodyError {
    fn words(self) -> &'static str {
        match self {
            Self::TooLarge => "GitHub's answer is larger than the broker reads",
            Self::Encoded => "GitHub's answer is compressed, which was not asked for",
            Self::Broken => "GitHub's answer broke off",
        }
    }
}

/// The context for reading a refusal.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    /// Now, for reset times that GitHub gives as points in time.
    pub(super) now: Timestamp,
    /// The token, which no message may repeat.
    pub(super) token: &'a str,
    /// Whether the token is one of an app, which the broker renews itself.
    pub(super) is_of_an_app: bool,
}

impl Reader<'_> {
    /// The document in the answer to a read.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) fn read(self, answer: &GithubResponse) -> Result<Value, Failure> {
        if answer.status.is_success() {
            document(answer).map_err(|message| Failure::InvalidOutput { message: format!("{message}.") })
        } else {
            Err(self.refused(answer))
        }
    }

    /// The document in the answer to a write.
    ///
    /// # Errors
    /// [`Failure`]; anything but a definite no is [`Failure::Unknown`].
    pub(super) fn written(self, answer: &GithubResponse) -> Result<Value, Failure> {
        if answer.status.is_success() {
            return document(answer).map_err(unknown);
        }
        // A time-out (408) comes from a server between us and GitHub, perhaps after GitHub had the request.
        let definite = (answer.status.is_redirection() && answer.status != StatusCode::NOT_MODIFIED)
            || (answer.status.is_client_error() && answer.status != StatusCode::REQUEST_TIMEOUT);
        if definite {
            Err(self.refused(answer))
        } else {
            Err(unknown(&format!("GitHub answered {}", answer.status.as_u16())))
        }
    }

    fn refused(self, answer: &GithubResponse) -> Failure {
        let said = self.message(answer);
        if let Some(Limited { retry_after }) = limited(answer, &said, self.now) {
            return Failure::RateLimited {
                retry_after,
                message: sentence("GitHub limits this token's requests", &said),
            };
        }
        let message = match answer.status.as_u16() {
            300..=399 => {
                "GitHub points elsewhere: the repository or object was renamed or moved. Use its new name.".to_owned()
            }
            401 if self.is_of_an_app => {
                "GitHub does not accept the token of the broker's GitHub App. Try again in a minute.".to_owned()
            }
            401 => "GitHub does not accept the broker's token. The operator must renew it.".to_owned(),
            403 => sentence("GitHub forbids this to the broker's token", &said),
            404 => "GitHub has no such repository or object, or the broker's token may not see it.".to_owned(),
            405 => sentence("GitHub does not allow this now", &said),
            409 => sentence("This conflicts with the present state at GitHub", &said),
            410 => sentence("This is gone or switched off at GitHub", &said),
            422 => sentence("GitHub finds the request invalid", &said),
            status @ 500..=599 => {
                let message = match retry_after(&answer.headers) {
                    Some(wait) => {
                        format!("GitHub is failing ({status}) and asks to try again in {} s.", wait.as_secs())
                    }
                    None => format!("GitHub is failing ({status}). Try again later."),
                };
                return Failure::Unavailable { message };
            }
            status => sentence(&format!("GitHub answered {status}"), &said),
        };
        Failure::Refused { message }
    }

    /// Returns the text of a refusal: GitHub's message and the faults it lists, cut, cleaned, without the token.
    pub(super) fn message(self, answer: &GithubResponse) -> String {
        let Ok(document) = document(answer) else { return String::new() };
        let mut said = text(&document, "/message").unwrap_or_default().to_owned();
        let faults = document.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for fault in faults.iter().take(5) {
            let words: Vec<&str> = match fault {
                Value::String(words) => vec![words],
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    ["/resource", "/field", "/code", "/message"].iter().filter_map(|at| text(fault, at)).collect()
                }
            };
            said.push_str("; ");
            said.push_str(&words.join(" "));
        }
        cleaned(&said.replace(self.token, "<redacted>"))
    }
}

/// A write whose answer says too little.
pub(super) fn unknown(what: &str) -> Failure {
    Failure::Unknown { message: format!("{what}; the change may have been made. Look before you repeat it.") }
}

fn document(answer: &GithubResponse) -> Result<Value, &'static str> {
    let body = answer.body.as_ref().map_err(|fault| fault.words())?;
    serde_json::from_slice(body).map_err(|_not| "GitHub's answer is not JSON")
}

fn text<'a>(value: &'a Value, at: &str) -> Option<&'a str> {
    value.pointer(at).and_then(Value::as_str)
}

/// Joins a statement and the words of a refusal.
pub(super) fn sentence(what: &str, said: &str) -> String {
    if said.is_empty() { format!("{what}.") } else { format!("{what}: {}.", said.trim_end_matches('.')) }
}

/// A limit of GitHub's, primary or secondary.
struct Limited {
    /// When to try again, if GitHub says so.
    retry_after: Option<Duration>,
}

/// Checks whether an answer is a limit. Source: GitHub REST documentation, "Rate limits for the REST API", exceeding
/// the rate limit.
fn limited(answer: &GithubResponse, said: &str, now: Timestamp) -> Option<Limited> {
    if !matches!(answer.status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let wait = retry_after(&answer.headers);
    let exhausted = header(&answer.headers, "x-ratelimit-remaining") == Some("0");
    let named = ["rate limit", "abuse detection"].iter().any(|words| said.to_ascii_lowercase().contains(words));
    if answer.status == StatusCode::TOO_MANY_REQUESTS || wait.is_some() || exhausted || named {
        let until_reset = || exhausted.then(|| reset(&answer.headers, now)).flatten();
        Some(Limited { retry_after: wait.or_else(until_reset) })
    } else {
        None
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// `Retry-After` in seconds; its form as a date is not used by GitHub.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = header(headers, RETRY_AFTER.as_str())?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(WAIT_MAX))
}

fn reset(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let seconds: i64 = header(headers, "x-ratelimit-reset")?.trim().parse().ok()?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)).since(now).min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn answer(status: u16, fields: &[(&'static str, &str)], body: &str) -> GithubResponse {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, value.parse().unwrap());
        }
        let body = Ok(Bytes::from(body.to_owned()));
        GithubResponse { status: StatusCode::from_u16(status).unwrap(), headers, body }
    }

    fn reader() -> Reader<'static> {
        Reader { now: NOW, token: "ghp_secret", is_of_an_app: false }
    }

    fn message(failure: Failure) -> String {
        let (Failure::Refused { message } | Failure::Unavailable { message }) = failure else { panic!("{failure:?}") };
        message
    }

    #[test]
    fn a_limit_says_when_to_come_back() {
        for (status, fields, body, wait) in [
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000060")][..], "{}", Some(60)),
            (403, &[("retry-after", "60"), ("x-ratelimit-remaining", "4999")], "{}", Some(60)),
            (429, &[("retry-after", "3")], "not json", Some(3)),
            (429, &[], "", None),
            (403, &[], r#"{"message":"You have exceeded a secondary rate limit."}"#, None),
            (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")], "{}", Some(0)),
            (429, &[("retry-after", "99999999999999")], "{}", Some(86400)),
        ] {
            for failure in
                [reader().read(&answer(status, fields, body)), reader().written(&answer(status, fields, body))]
            {
                let Err(Failure::RateLimited { retry_after, .. }) = failure else { panic!("{failure:?}") };
                assert_eq!(retry_after, wait.map(Duration::from_secs), "{status} {fields:?}");
            }
        }
        assert!(matches!(reader().written(&answer(403, &[], "{}")), Err(Failure::Refused { .. })));
    }

    #[test]
    fn a_definite_no_to_a_write_is_a_refusal_and_everything_else_is_unknown() {
        for status in [301, 302, 307, 308, 400, 401, 403, 404, 405, 409, 410, 413, 422, 451] {
            let failure = reader().written(&answer(status, &[], "{}")).unwrap_err();
            assert!(matches!(failure, Failure::Refused { .. }), "{status} {failure:?}");
        }
        for status in [304, 408, 500, 502, 503, 504, 599] {
            let failure = reader().written(&answer(status, &[], "<html>")).unwrap_err();
            assert!(matches!(failure, Failure::Unknown { .. }), "{status} {failure:?}");
        }
        for body in ["", "{", "<html>", "{\"id\": 1, \"title\": \"x"] {
            assert!(matches!(reader().written(&answer(201, &[], body)), Err(Failure::Unknown { .. })), "{body}");
            assert!(matches!(reader().read(&answer(200, &[], body)), Err(Failure::InvalidOutput { .. })), "{body}");
        }
    }

    #[test]
    fn messages_of_github_are_one_short_visible_line_without_the_token() {
        let body = serde_json::json!({
            "message": format!("Validation\r\n\u{1b}[2J\u{202e}Failed ghp_secret {}", "x".repeat(400)),
            "errors": [{"resource": "PullRequest", "field": "base", "code": "invalid"}, "other"],
        });
        let said = message(reader().written(&answer(422, &[], &body.to_string())).unwrap_err());
        assert!(said.starts_with("GitHub finds the request invalid: Validation [2J Failed <redacted> xxx"), "{said}");
        assert!(said.chars().count() < 350 && !said.contains("ghp_secret"));

        let body =
            r#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"base","code":"invalid"}]}"#;
        let said = message(reader().written(&answer(422, &[], body)).unwrap_err());
        assert_eq!(said, "GitHub finds the request invalid: Validation Failed; PullRequest base invalid.");
    }

    #[test]
    fn every_refusal_is_a_sentence() {
        for status in [302, 400, 401, 403, 404, 405, 409, 410, 422, 500, 503] {
            let said = message(reader().read(&answer(status, &[("retry-after-x", "1")], "{}")).unwrap_err());
            assert!(said.ends_with('.') && !said.contains(".."), "{said}");
        }
        let said = message(reader().read(&answer(503, &[("retry-after", "2")], "{}")).unwrap_err());
        assert_eq!(said, "GitHub is failing (503) and asks to try again in 2 s.");
    }
}
