//! The meaning of a failure of a server: whether anything can have been changed.

use crate::multistatus::condition;
use crate::reference::{EventId, Occurrence};
use crate::settings::Api;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use model::Refusal;
use platform::http::HttpError;
use provider::contract::Failure;
use provider::google::GoogleError;
use provider::remote::retry_after;
use shared::Code;

/// Returns the failure for a server that gives no answer to a read.
pub(crate) fn unanswered(error: &HttpError) -> Failure {
    match error {
        HttpError::Deadline => Failure::Timeout,
        HttpError::NotHttp => Failure::Refused { message: "The request cannot be written as HTTP.".into() },
        HttpError::Setup(_) | HttpError::Unreachable(_) | HttpError::Lost(_) | HttpError::TooLong => {
            Failure::Unavailable { message: format!("The calendar server cannot be used: {}.", one_line(error)) }
        }
    }
}

/// Returns the failure for a server that gives no answer to a change. It is [`Failure::Unknown`] unless nothing left.
pub(crate) fn unanswered_change(error: &HttpError) -> Failure {
    match error {
        HttpError::Setup(_) | HttpError::NotHttp | HttpError::Unreachable(_) => unanswered(error),
        HttpError::Lost(_) | HttpError::TooLong => {
            unknown("The connection to the calendar server broke before its answer came.")
        }
        HttpError::Deadline => unknown("The calendar server did not answer in time."),
    }
}

/// Nobody knows whether a change was made.
pub(crate) fn unknown(message: &str) -> Failure {
    Failure::Unknown { message: message.to_owned() }
}

/// Returns the failure for an answer that is not a success. Such an answer says that nothing was changed; one with a
/// status of 500 or more says nothing about a change.
pub(crate) fn refused(api: Api, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    let refused = |message: String| Failure::Refused { message };
    let google = GoogleError::of(body);
    let reason = match api {
        Api::Caldav => condition(body),
        Api::Google => google.reason.clone(),
    };
    let busy = || {
        let message = format!("The calendar server is busy ({}).", status.as_u16());
        Failure::RateLimited { retry_after: retry_after(headers), message }
    };
    match status.as_u16() {
        300..=399 => refused(match headers.get(LOCATION).and_then(|to| to.to_str().ok()) {
            Some(to) => {
                let to: String = to.chars().filter(char::is_ascii_graphic).take(200).collect();
                format!("The calendar server is elsewhere ({status}): set `url` to {to} if you trust that address.")
            }
            None => format!("The calendar server answers {status}, and is not followed."),
        }),
        401 => refused(match api {
            Api::Caldav => "The calendar server refuses the user name or the password (401).".into(),
            Api::Google => "Google Calendar refuses the token (401).".into(),
        }),
        403 if api == Api::Google && google.is_limit() => busy(),
        404 | 410 => refused(format!("The calendar server has no such calendar or event ({}).", status.as_u16())),
        412 => Failure::Guard(guardrail("Somebody has changed the event since. Read it again.")),
        429 | 503 => busy(),
        500.. => Failure::Unavailable { message: format!("The calendar server answers {status}.") },
        _ => refused(match reason {
            Some(reason) => format!("The calendar server refuses ({status}): {reason}."),
            None => format!("The calendar server refuses ({status})."),
        }),
    }
}

/// The answer of the server cannot be used.
pub(crate) fn unusable(how: &str) -> Failure {
    Failure::InvalidOutput { message: format!("The calendar server's answer {how}.") }
}

/// There is no such event.
pub(crate) fn no_event(id: &EventId) -> Failure {
    Failure::Refused { message: format!("There is no event {id}.") }
}

/// The series has no such occurrence.
pub(crate) fn no_occurrence(id: &EventId, occurrence: Occurrence) -> Failure {
    Failure::Refused { message: format!("The event {id} has no occurrence {}.", occurrence.0.key()) }
}

/// The call is outside the guardrails of the configuration.
pub(crate) fn guardrail(reason: impl Into<String>) -> Refusal {
    Refusal { code: Code::Guardrail, reason: reason.into() }
}

/// A person approved another request than this one.
pub(crate) fn not_approved() -> Failure {
    let reason = "The approved call differs from the call that would run now.".to_owned();
    Failure::Guard(Refusal { code: Code::ApprovalRequired, reason })
}

/// A cause as a part of a sentence.
fn one_line(error: &HttpError) -> String {
    let line: String = error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    line.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_did_not_leave_is_certain() {
        for error in [HttpError::Lost("reset".into()), HttpError::Deadline] {
            assert!(matches!(unanswered_change(&error), Failure::Unknown { .. }), "{error:?}");
        }
        for error in [HttpError::Unreachable("refused".into()), HttpError::NotHttp, HttpError::Setup("no".into())] {
            assert!(!matches!(unanswered_change(&error), Failure::Unknown { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_refusal_quotes_no_more_than_a_name() {
        let failure = refused(Api::Caldav, StatusCode::FORBIDDEN, &HeaderMap::new(), b"<html>ignore</html>");
        assert_eq!(failure, Failure::Refused { message: "The calendar server refuses (403 Forbidden).".into() });
    }
    #[test]
    fn too_many_requests_at_google_are_no_lack_of_permission() {
        let refused = |reason: &str| {
            let body = format!(r#"{{"error":{{"errors":[{{"reason":"{reason}"}}]}}}}"#);
            refused(Api::Google, StatusCode::FORBIDDEN, &HeaderMap::new(), body.as_bytes())
        };
        assert!(matches!(refused("userRateLimitExceeded"), Failure::RateLimited { .. }));
        let message = "The calendar server refuses (403 Forbidden): insufficientPermissions.".to_owned();
        assert_eq!(refused("insufficientPermissions"), Failure::Refused { message });
    }
}
