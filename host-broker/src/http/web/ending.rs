//! The forms that send one command.

use super::Shared;
use super::decide::{FormOutcome, send};
use crate::http::web::sessions::Visitor;
use axum::extract::Form;
use axum::extract::rejection::FormRejection;
use axum::http::StatusCode;
use axum::response::Response;
use engine::request::Command;
use serde::Deserialize;

/// The content of a form with one button that ends something.
#[derive(Deserialize)]
pub(super) struct EndForm {
    // Of the session.
    form: String,
}

/// The words of the pages that follow a form.
pub(super) struct FormWords {
    /// The title if it was done.
    pub(super) done: &'static str,
    /// The title if nothing was done.
    pub(super) nothing: &'static str,
    /// The title if the result is unknown.
    pub(super) unknown: &'static str,
    /// The sentence about an address that names nothing.
    pub(super) missing: &'static str,
}

/// A form that sends no command: the status, and the sentence for the person.
pub(super) type NoCommand = (StatusCode, String);

/// Sends the command, if the form is of this session. `None` is an address that names nothing. The broker checks the
/// right of the person.
pub(super) async fn end(
    shared: &Shared,
    visitor: &Visitor,
    form: Result<Form<EndForm>, FormRejection>,
    command: Option<Command>,
    words: &FormWords,
) -> Response {
    let command = command.ok_or_else(|| (StatusCode::NOT_FOUND, words.missing.to_owned()));
    match of_session(shared, visitor, form, |form| &form.form, words) {
        Ok(_form) => submit(shared, visitor, command, words).await,
        Err(refused) => *refused,
    }
}

/// Returns the content of a form, if one of this session's pages has sent it; otherwise the page that says so.
pub(super) fn of_session<T>(
    shared: &Shared,
    visitor: &Visitor,
    form: Result<Form<T>, FormRejection>,
    value: impl FnOnce(&T) -> &str,
    words: &FormWords,
) -> Result<T, Box<Response>> {
    let told = |status, sentence| Box::new(shared.told(status, Some(visitor), words.nothing, sentence));
    let Form(form) = form.map_err(|rejection| told(rejection.status(), "The form cannot be read."))?;
    if visitor.sent(value(&form)) {
        Ok(form)
    } else {
        Err(told(StatusCode::FORBIDDEN, "The page is older than your sign-in. Open it again."))
    }
}

/// Sends the command of a form of this session. The broker checks the right of the person.
pub(super) async fn submit(
    shared: &Shared,
    visitor: &Visitor,
    command: Result<Command, NoCommand>,
    words: &FormWords,
) -> Response {
    let told = |status: StatusCode, title: &str, sentence: &str| shared.told(status, Some(visitor), title, sentence);
    let command = match command {
        Ok(command) => command,
        Err((status, sentence)) => return told(status, words.nothing, &sentence),
    };
    match send(shared, visitor, command).await {
        FormOutcome::Counted(sentence) => told(StatusCode::OK, words.done, &sentence),
        FormOutcome::Refused(sentence) => told(StatusCode::CONFLICT, words.nothing, &sentence),
        FormOutcome::Unknown(sentence) => told(StatusCode::SERVICE_UNAVAILABLE, words.unknown, &sentence),
    }
}
