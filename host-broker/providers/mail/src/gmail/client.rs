//! Requests to Gmail's API: one attempt each, a bounded answer, and the meaning of a failure.
//!
//! SECURITY: only the configured address is contacted, and no redirect is followed. A change is sent once.

use super::{Found, HEADER_BYTES_MAX};
use crate::failures::{Sending, not_signed_in, one_line};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use platform::http::{Exchange, Http, HttpError};
use provider::accounts::Account;
use provider::contract::Failure;
use provider::remote::{self, BodyError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The most bytes that are read of a refusal.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
/// A longer pause that the server asks for is shortened.
const RETRY_AFTER_MAX: u64 = 3600;

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
        let body = self.get(&url, HEADER_BYTES_MAX).await?;
        body.map(|body| read(&body)).transpose()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) async fn read<T: DeserializeOwned>(&self, url: &Url, most: usize) -> Result<T, Failure> {
        let missing = || Failure::Refused { message: "Gmail has no such mailbox (404). Check the address.".into() };
        read(&self.get(url, most).await?.ok_or_else(missing)?)
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
                BodyError::TooLarge => {
                    Failure::Refused { message: format!("Gmail's answer has more than {} KiB.", most / 1024) }
                }
                BodyError::Encoded => unusable("is compressed, although nobody asked for that"),
                BodyError::Broken => unusable("breaks off"),
                BodyError::Late => Failure::Timeout,
            }),
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) => Err(self.refused(status, &head.headers, &body.unwrap_or_default())),
        }
    }

    /// Sends a change, once.
    ///
    /// # Errors
    /// [`Failure`]; while `sending` is under way, the change may have been made.
    pub(super) async fn change(&self, url: &Url, body: &Value, sending: &Sending) -> Result<(), Failure> {
        let exchange = self.exchange(Method::POST, url, body.to_string().into_bytes())?;
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
        if status == StatusCode::OK {
            sending.end();
            return Ok(());
        }
        // A refusal without its text is a refusal. Another success is not one that the API has.
        if status.is_client_error() || status.is_redirection() {
            sending.end();
        }
        let (head, body) = remote::read(response, REFUSAL_BYTES_MAX, self.deadline).await;
        Err(self.refused(status, &head.headers, &body.unwrap_or_default()))
    }

    fn exchange(&self, method: Method, url: &Url, body: Vec<u8>) -> Result<Exchange, Failure> {
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, self.authorization.clone())]);
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let uri = url.as_str().parse().map_err(|_bad| unwritable())?;
        Ok(Exchange { method, uri, headers, body, deadline: self.deadline })
    }

    /// Returns the failure for an answer that is not the expected one.
    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
        let refused = |message: String| Failure::Refused { message };
        let Refusal { message, reasons } = Refusal::of(body);
        let said = if message.is_empty() { String::new() } else { format!(": {message}") };
        let is_limit = reasons.iter().any(|reason| LIMITS.contains(&reason.as_str()));
        match status.as_u16() {
            401 => self.account.not_signed_in(not_signed_in(refused(format!("Gmail refuses the token (401){said}.")))),
            403 if is_limit => limited(headers, &format!("Gmail limits the requests (403){said}.")),
            429 => limited(headers, &format!("Gmail limits the requests (429){said}.")),
            300..=399 => refused(format!("The address answers {status}, and is not followed. Check `url`.")),
            404 => refused(format!("Gmail has no such message or folder (404){said}.")),
            500.. => Failure::Unavailable { message: format!("Gmail answers {status}{said}.") },
            _ if status.is_success() => unusable("is not that of Gmail's API; check `url`"),
            _ => refused(format!("Gmail refuses ({}){said}.", status.as_u16())),
        }
    }
}

/// The reasons of a refusal that mean a limit of requests. Source: Gmail API guide, Resolve errors.
const LIMITS: [&str; 3] = ["rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded"];

/// A refusal in Google's words.
#[derive(Default)]
struct Refusal {
    message: String,
    reasons: Vec<String>,
}

impl Refusal {
    fn of(body: &[u8]) -> Self {
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
        let Ok(Document { error }) = serde_json::from_slice(body) else { return Self::default() };
        let reasons = error.errors.into_iter().map(|fault| fault.reason).collect();
        Self { message: one_line(&error.message), reasons }
    }
}

fn limited(headers: &HeaderMap, message: &str) -> Failure {
    let seconds = headers.get(RETRY_AFTER).and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
    let retry_after = seconds.map(|seconds| Duration::from_secs(seconds.min(RETRY_AFTER_MAX)));
    Failure::RateLimited { retry_after, message: message.to_owned() }
}

/// Returns the failure for a server that gives no answer.
fn unanswered(error: &HttpError) -> Failure {
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

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|_not| unusable("is not that of Gmail's API; check `url`"))
}
