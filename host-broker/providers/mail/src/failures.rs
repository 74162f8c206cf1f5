//! The meaning of a failure of a server: whether anything can have been changed.

use crate::reference::BadReference;
use model::Refusal;
use provider::contract::{Execution, Failure};
use shared::Code;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::timeout_at;

/// Whether a change has been sent, so that it may have happened although no answer came.
#[derive(Debug, Default)]
pub(crate) struct Sending(AtomicBool);

impl Sending {
    /// The next bytes can cause the change.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// The server has answered.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_under_way(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Runs a change until the deadline of the call. If the change is under way when something fails, its outcome is unknown.
pub(crate) async fn change<T>(
    execution: &Execution,
    sending: &Sending,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match timeout_at(execution.deadline(), work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(failure)) if sending.is_under_way() => Err(unknown(&failure)),
        Err(_elapsed) if sending.is_under_way() => Err(unknown(&Failure::Timeout)),
        Ok(Err(failure)) => Err(failure),
        Err(_elapsed) => Err(Failure::Timeout),
    }
}

/// A refusal is an answer, so nothing was changed. Everything else leaves the outcome open.
fn unknown(failure: &Failure) -> Failure {
    match failure {
        Failure::Refused { .. } | Failure::Guard(_) => failure.clone(),
        Failure::Unavailable { message } | Failure::InvalidOutput { message } | Failure::Unknown { message } => {
            Failure::Unknown { message: message.clone() }
        }
        Failure::RateLimited { .. } | Failure::Coded { .. } | Failure::Timeout => {
            Failure::Unknown { message: "The mail server did not answer in time.".into() }
        }
    }
}

/// Returns the failure for an answer of the IMAP server.
pub(crate) fn imap(error: async_imap::error::Error) -> Failure {
    use async_imap::error::Error;
    match error {
        Error::No(text) => Failure::Refused { message: format!("The mail server refuses: {}.", said(&text)) },
        Error::Bad(text) => {
            Failure::InvalidOutput { message: format!("The mail server does not understand: {}.", said(&text)) }
        }
        Error::Io(error) => connection(&error),
        Error::ConnectionLost => Failure::Unavailable { message: "The mail server closed the connection.".into() },
        Error::Validate(_) => {
            Failure::Refused { message: "A folder's name has a character that is not allowed.".into() }
        }
        Error::Append => Failure::Refused { message: "The mail server does not take the message.".into() },
        // The bytes are not repeated: the password can be among them.
        Error::Parse(_) | _ => Failure::InvalidOutput { message: NOT_IMAP.into() },
    }
}

/// Returns the failure for a connection of the IMAP library. It reports bytes that it cannot parse as an error of the
/// connection of the kind `Other`, and repeats them. The password can be among them.
pub(crate) fn connection(error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::Other {
        return Failure::InvalidOutput { message: NOT_IMAP.into() };
    }
    unreachable(error)
}

const NOT_IMAP: &str = "The mail server's answer is not IMAP.";

/// Returns the failure for a server that cannot be reached, or whose connection broke.
pub(crate) fn unreachable(error: &std::io::Error) -> Failure {
    Failure::Unavailable { message: format!("The mail server cannot be used: {}.", one_line(&error.to_string())) }
}

/// Returns the failure for an answer of the SMTP server.
pub(crate) fn smtp(error: &lettre::transport::smtp::Error) -> Failure {
    let text = one_line(&std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string));
    match error.status() {
        Some(code) if error.is_permanent() => {
            Failure::Refused { message: format!("The mail server refuses ({code}): {text}.") }
        }
        Some(code) => Failure::Refused { message: format!("The mail server does not take it now ({code}): {text}.") },
        None => Failure::Unavailable { message: format!("The mail server cannot be used: {text}.") },
    }
}

/// Returns the failure of a server that does not let the broker in.
pub(crate) fn not_signed_in(failure: Failure) -> Failure {
    explained(failure, |message| format!("Signing in failed. {message}"))
}

/// Changes the message of a refusal.
pub(crate) fn explained(failure: Failure, explain: impl FnOnce(String) -> String) -> Failure {
    if let Failure::Refused { message } = failure { Failure::Refused { message: explain(message) } } else { failure }
}

/// The call is outside the guardrails of the configuration.
pub(crate) fn guardrail(reason: impl Into<String>) -> Refusal {
    Refusal { code: Code::Guardrail, reason: reason.into() }
}

/// A parameter is an id or a cursor, but not one of this account.
pub(crate) fn unknown_reference(parameter: &str) -> Failure {
    Failure::Refused { message: format!("{parameter}: {BadReference}.") }
}

/// The stored description of an effect is not one of this provider's.
pub(crate) fn unreadable_handle() -> Failure {
    Failure::Refused { message: "The stored description of the effect is unreadable.".into() }
}

/// A person approved another message than this one.
pub(crate) fn not_approved() -> Failure {
    let reason = "The approved call differs from the call that would run now.".to_owned();
    Failure::Guard(Refusal { code: Code::ApprovalRequired, reason })
}

/// Returns the server's own words. The library gives them in a debug form: `… information: Some("words") …`.
fn said(text: &str) -> String {
    let words = text.split_once("information: Some(\"").and_then(|(_, rest)| rest.rsplit_once("\")"));
    words.map_or_else(|| one_line(text), |(words, _)| one_line(&words.replace("\\\"", "\"").replace("\\\\", "\\")))
}

/// A server's text as part of a sentence.
pub(crate) fn one_line(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect();
    line.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_are_taken_out_of_their_debug_form() {
        let debug = r#"outcome: Outcome { code: None, information: Some("Mailbox \"x\" doesn't exist.") }"#;
        assert_eq!(said(debug), r#"Mailbox "x" doesn't exist"#);
        assert_eq!(said("no such form\r\n"), "no such form");
    }

    #[test]
    fn only_an_answer_settles_a_change_that_was_sent() {
        let refused = Failure::Refused { message: "no".into() };
        assert_eq!(unknown(&refused), refused);
        for open in [
            Failure::Unavailable { message: "gone".into() },
            Failure::InvalidOutput { message: "what?".into() },
            Failure::Timeout,
        ] {
            assert!(matches!(unknown(&open), Failure::Unknown { .. }), "{open:?}");
        }
    }
}
