//! The forms with one button that ends something.

use super::Shared;
use super::decide::{FormOutcome, send};
use crate::http::web::sessions::Visitor;
use axum::extract::Form;
use axum::extract::rejection::FormRejection;
use axum::http::StatusCode;
use axum::response::Response;
use engine::request::Command;
use serde::Deserialize;

/// The content of the form.
#[derive(Deserialize)]
pub(super) struct EndForm {
    // Of the session.
    form: String,
}

/// The words of the pages that follow the button.
pub(super) struct EndingWords {
    /// The title if it was ended.
    pub(super) done: &'static str,
    /// The title if nothing was ended.
    pub(super) nothing: &'static str,
    /// The title if the result is unknown.
    pub(super) unknown: &'static str,
    /// The sentence about an address that names nothing.
    pub(super) missing: &'static str,
}

/// Sends the command, if the form is of this session. `None` is an address that names nothing. The broker checks the
/// right of the person.
pub(super) async fn end(
    shared: &Shared,
    visitor: &Visitor,
    form: Result<Form<EndForm>, FormRejection>,
    command: Option<Command>,
    words: &EndingWords,
) -> Response {
    let told = |status: StatusCode, title: &str, sentence: &str| shared.told(status, Some(visitor), title, sentence);
    let form = match form {
        Ok(Form(form)) => form,
        Err(rejection) => return told(rejection.status(), words.nothing, "The form cannot be read."),
    };
    if !visitor.sent(&form.form) {
        let sentence = "The page is older than your sign-in. Open it again.";
        return told(StatusCode::FORBIDDEN, words.nothing, sentence);
    }
    let Some(command) = command else { return told(StatusCode::NOT_FOUND, words.nothing, words.missing) };
    match send(shared, visitor, command).await {
        FormOutcome::Counted(sentence) => told(StatusCode::OK, words.done, &sentence),
        FormOutcome::Refused(sentence) => told(StatusCode::CONFLICT, words.nothing, &sentence),
        FormOutcome::Unknown(sentence) => told(StatusCode::SERVICE_UNAVAILABLE, words.unknown, &sentence),
    }
}
