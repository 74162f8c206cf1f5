//! Requests to Gmail's API: one attempt each, a bounded answer, and the meaning of a failure.
//!
//! SECURITY: only the configured address is contacted, and no redirect is followed. A change is sent once.

use super::{Found, HEADER_BYTES_MAX};
use crate::failures::{Sending, not_signed_in, one_line};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use platform::http::{Exchange, Http, HttpError};
use provider::accounts::Account;
use provider::contract::Failure;
use provider::google::GoogleError;
use provider::remote::{self, BodyError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shared::limits::RESULT_BYTES_MAX;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use url::Url;

/// The most bytes that are read of a refusal.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;

/// The permission of one execution: its token and its deadline.
pub(crate) struct Session {
    pub(super) http: Arc<dyn Http>,
    pub(super) account: Account,
    /// The address of the mailbox.
    pub(super) base: Url,
    pub(super) authorization: HeaderValue,
    pub(super) deadline: Instant,
}

impl Session {
    /// Returns the address of a resource. Each part is one segment of the path.
    pub(super) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Returns the labels and these header fields of a message; `None` if there is no such message.
    pub(super) async fn found(&self, id: &str, fields: &[&str]) -> Result<Option<Found>, Failure> {
        let mut url = self.url(&["messages", id]);
        let format = if fields.is_empty() { "minimal" } else { "metadata" };
        url.query_pairs_mut()
            .append_pair("format", format)
            .extend_pairs(fields.iter().map(|field| ("metadataHeaders", field)));
        match self.get(&url, HEADER_BYTES_MAX).await? {
            Some(body) => read(body).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) async fn read<T: DeserializeOwned + Send + 'static>(
        &self,
        url: &Url,
        most: usize,
    ) -> Result<T, Failure> {
        let missing = || Failure::Refused { message: "Gmail has no such mailbox (404). Check the address.".into() };
        read(self.get(url, most).await?.ok_or_else(missing)?).await
    }

    /// Reads an answer; `None` if there is no such resource.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) async fn get(&self, url: &Url, most: usize) -> Result<Option<Vec<u8>>, Failure> {
        let exchange = self.exchange(Method::GET, url, Vec::new())?;
        let response = self.http.exchange(exchange).await.map_err(|error| unanswered(&error))?;
        let (head, body) = remote::read(response, most, self.deadline).await;
        match (head.status, body) {
            (StatusCode::OK, Ok(body)) => Ok(Some(body)),
            (StatusCode::OK, Err(error)) => Err(match error {
                BodyError::TooLarge => unusable(&format!("has more than {} KiB", most / 1024)),
                BodyError::Encoded => unusable("is compressed, although nobody asked for that"),
                BodyError::Broken => unusable("breaks off"),
                BodyError::Late => Failure::Timeout,
            }),
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (StatusCode::BAD_REQUEST, Ok(body)) if GoogleError::of(&body).message == BAD_ID => Ok(None),
            (status, body) => Err(self.refused(status, &head.headers, &body.unwrap_or_default())),
        }
    }

    /// Sends a change, once.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the change may have been made.
    pub(super) async fn change(&self, url: &Url, body: Option<&Value>, sending: &Sending) -> Result<(), Failure> {
        let body = body.map(|body| body.to_string().into_bytes());
        let exchange = self.exchange(Method::POST, url, body.unwrap_or_default())?;
        if Instant::now() >= self.deadline {
            return Err(Failure::Timeout);
        }
        sending.begin();
        let response = match self.http.exchange(exchange).await {
            Ok(response) => response,
            Err(error) => {
                if matches!(error, HttpError::Setup(_) | HttpError::NotHttp | HttpError::Unreachable(_)) {
                    sending.end();
                }
                return Err(unanswered(&error));
            }
        };
        let status = response.status();
        let most = if status == StatusCode::OK { RESULT_BYTES_MAX } else { REFUSAL_BYTES_MAX };
        // A refusal without its text is a refusal.
        let is_answer = status.is_client_error() || status.is_redirection();
        // 302 and 303 can follow a change, and a program in between can have sent on what it answers with 408.
        let is_refusal = is_answer && !matches!(status.as_u16(), 302 | 303 | 408);
        if is_refusal {
            sending.end();
        }
        let (head, body) = remote::read(response, most, self.deadline).await;
        match (status, body) {
            // Each change answers with its message or its draft. A page is that of another program.
            (StatusCode::OK, Ok(body)) => {
                let _changed: Changed = read(body).await?;
                sending.end();
                Ok(())
            }
            (StatusCode::OK, Err(_)) => Err(unusable("breaks off")),
            (_, body) if is_refusal => Err(self.refused(status, &head.headers, &body.unwrap_or_default())),
            (_, _) => Err(Failure::Unavailable { message: format!("Gmail answers {status}.") }),
        }
    }

    fn exchange(&self, method: Method, url: &Url, body: Vec<u8>) -> Result<Exchange, Failure> {
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, self.authorization.clone())]);
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        } else if method == Method::POST {
            // Gmail refuses a request without it.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let uri = url.as_str().parse().map_err(|_bad| unwritable())?;
        Ok(Exchange { method, uri, headers, body, deadline: self.deadline })
    }

    /// Returns the failure for an answer that is not the expected one.
    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
        let refused = |message: String| Failure::Refused { message };
        let refusal = GoogleError::of(body);
        let token = self.authorization.to_str().ok().and_then(|header| header.strip_prefix("Bearer "));
        let words = remote::words(&refusal.message, token.unwrap_or_default());
        let said = if words.is_empty() { String::new() } else { format!(": {words}") };
        match status.as_u16() {
            401 => self.account.not_signed_in(not_signed_in(refused(format!("Gmail refuses the token (401){said}.")))),
            403 if refusal.is_limit() => limited(headers, &format!("Gmail limits the requests (403){said}.")),
            429 => limited(headers, &format!("Gmail limits the requests (429){said}.")),
            300..=399 => refused(format!("The address answers {status}, and is not followed. Check `url`.")),
            404 => refused(format!("Gmail has no such message or folder (404){said}.")),
            500.. => Failure::Unavailable { message: format!("Gmail answers {status}{said}.") },
            _ if status.is_success() => unusable("is not that of Gmail's API; check `url`"),
            _ => refused(format!("Gmail refuses ({}){said}.", status.as_u16())),
        }
    }
}

/// The words for an id that no message can have.
const BAD_ID: &str = "Invalid id value";

fn limited(headers: &HeaderMap, message: &str) -> Failure {
    Failure::RateLimited { retry_after: remote::retry_after(headers), message: message.to_owned() }
}

/// Returns the failure for a server that gives no answer.
pub(super) fn unanswered(error: &HttpError) -> Failure {
    match error {
        HttpError::Deadline => Failure::Timeout,
        HttpError::NotHttp => unwritable(),
        HttpError::Setup(_) | HttpError::Unreachable(_) | HttpError::Lost(_) | HttpError::TooLong => {
            Failure::Unavailable { message: format!("Gmail cannot be used: {}.", one_line(&error.to_string())) }
        }
    }
}

fn unwritable() -> Failure {
    Failure::Refused { message: "The request cannot be written as HTTP.".into() }
}

/// The answer of the server cannot be used.
pub(super) fn unusable(how: &str) -> Failure {
    Failure::InvalidOutput { message: format!("Gmail's answer {how}.") }
}

/// The answer to a change.
#[derive(Deserialize)]
struct Changed {
    #[expect(dead_code, reason = "an answer without it is not that of Gmail")]
    id: String,
}

/// The bytes of a document that is read at once. A longer one is read on a thread for long work.
const SHORT_BYTES: usize = 64 * 1024;

async fn read<T: DeserializeOwned + Send + 'static>(body: Vec<u8>) -> Result<T, Failure> {
    let body_len = body.len();
    let parse = move || serde_json::from_slice(&body).ok();
    let document = if body_len <= SHORT_BYTES { parse() } else { spawn_blocking(parse).await.ok().flatten() };
    document.ok_or_else(|| unusable("is not that of Gmail's API; check `url`"))
}
