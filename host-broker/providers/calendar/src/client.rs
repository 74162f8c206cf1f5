//! The way to the server: one request, one answer, within bounds.
//!
//! SECURITY: only the origin of the configured address is contacted, and no redirect is followed. A change is sent once.

use crate::Calendar;
use crate::failures::{refused, unanswered, unanswered_change, unknown, unusable};
use crate::multistatus::{self, Resource};
use crate::settings::{Api, Auth};
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use model::SealedRequest;
use platform::http::Exchange;
use provider::contract::{Execution, Failure};
use provider::remote::{self, BodyError};
use shared::limits::RESULT_BYTES_MAX;
use tokio::time::Instant;
use url::Url;

/// The largest event that is read by itself or changed. A person sees a changed event whole.
pub(crate) const EVENT_BYTES_MAX: usize = 96 * 1024;
/// The most bytes that are read of a refusal.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;

const XML: HeaderValue = HeaderValue::from_static("application/xml; charset=utf-8");

/// The permission of one execution at the server: its credential and its deadline.
pub(crate) struct Session<'a> {
    pub(crate) calendar: &'a Calendar,
    pub(crate) authorization: HeaderValue,
    deadline: Instant,
}

/// An answer that was read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A change that the server has not confirmed.
pub(crate) struct Unmade {
    /// The status of the refusal; `None` if there is none.
    pub(crate) status: Option<StatusCode>,
    pub(crate) failure: Failure,
}

impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Self {
        Self { status: None, failure }
    }
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The version; `None` if the server has none.
    pub(crate) etag: Option<String>,
    /// The event in iCalendar.
    pub(crate) text: String,
}

impl Calendar {
    /// Opens a session for one execution.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) fn session(&self, execution: &Execution) -> Result<Session<'_>, Failure> {
        let (username, secret) = self.account.sign_in(execution)?;
        let named = match self.settings.auth {
            Auth::Basic => Some(username),
            Auth::Bearer => None,
        };
        let authorization = remote::authorization(named, &secret);
        let authorization = authorization.ok_or_else(|| Failure::Refused {
            message: "The password of the calendar has characters that no header can have. Set it again.".into(),
        })?;
        Ok(Session { calendar: self, authorization, deadline: execution.deadline() })
    }
}

impl Session<'_> {
    /// Reads properties of a resource, and of those in it with the depth `1`.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn propfind(&self, url: &Url, depth: &'static str, body: &str) -> Result<Vec<Resource>, Failure> {
        self.multistatus("PROPFIND", url, depth, body).await
    }

    /// Asks a calendar.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn report(&self, url: &Url, body: &str) -> Result<Vec<Resource>, Failure> {
        self.multistatus("REPORT", url, "1", body).await
    }

    async fn multistatus(
        &self,
        method: &'static str,
        url: &Url,
        depth: &'static str,
        body: &str,
    ) -> Result<Vec<Resource>, Failure> {
        const DEPTH: HeaderName = HeaderName::from_static("depth");
        let headers = HeaderMap::from_iter([(DEPTH, HeaderValue::from_static(depth)), (CONTENT_TYPE, XML)]);
        let answer = self.ask(method, url, headers, body, RESULT_BYTES_MAX).await?;
        if answer.status != StatusCode::MULTI_STATUS {
            return Err(self.not_expected(&answer));
        }
        self.calendar.parse(move || multistatus::read(&answer.body)).await
    }

    /// Reads an event; `None` if there is none.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn get(&self, url: &Url) -> Result<Option<Stored>, Failure> {
        let answer = self.ask("GET", url, HeaderMap::new(), "", EVENT_BYTES_MAX).await?;
        match answer.status {
            StatusCode::OK => {
                let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
                let text = String::from_utf8(answer.body).map_err(|_not| unusable("is not UTF-8"))?;
                Ok(Some(Stored { etag, text }))
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            _ => Err(self.not_expected(&answer)),
        }
    }

    /// Sends a change, once, and returns the answer to a `POST` or a `PATCH`. `body` is that of the sealed request, with its time.
    ///
    /// # Errors
    /// [`Unmade`]; the failure is [`Failure::Unknown`] unless it is certain that nothing was changed.
    pub(crate) async fn change(&self, sealed: &SealedRequest, body: String) -> Result<Vec<u8>, Unmade> {
        let unwritable = || Failure::Refused { message: "The request cannot be written as HTTP.".into() };
        let mut headers = HeaderMap::new();
        for (name, value) in &sealed.headers {
            let name: HeaderName = name.parse().map_err(|_bad| unwritable())?;
            headers.insert(name, value.parse().map_err(|_bad| unwritable())?);
        }
        let url = Url::parse(&sealed.url).map_err(|_bad| unwritable())?;
        let exchange = self.exchange(&sealed.method, &url, headers, body)?;
        if Instant::now() >= self.deadline {
            return Err(Failure::Timeout.into());
        }
        let response = self.calendar.http.exchange(exchange).await.map_err(|error| unanswered_change(&error))?;
        let (status, kind) = (response.status(), response.headers().get(CONTENT_TYPE));
        let is_page = kind.is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/html"));
        let is_confirmed = match (self.calendar.settings.api, sealed.method.as_str()) {
            (Api::Caldav, _) => matches!(status.as_u16(), 200 | 201 | 204),
            (Api::Google, "DELETE") => status == StatusCode::NO_CONTENT,
            (Api::Google, _) => status == StatusCode::OK,
        };
        if is_confirmed && !is_page {
            if !matches!(sealed.method.as_str(), "POST" | "PATCH") {
                return Ok(Vec::new());
            }
            let (_, answer) = remote::read(response, EVENT_BYTES_MAX, self.deadline).await;
            return answer.map_err(|_unread| unknown("The calendar server's answer cannot be read.").into());
        }
        // 202 means later, 207 means in part, and a page is that of another program. 302 and 303 can follow a POST, and a
        // program in between can have sent on a request that it answers with 408.
        let is_open = status == StatusCode::REQUEST_TIMEOUT
            || sealed.method == "POST" && matches!(status, StatusCode::FOUND | StatusCode::SEE_OTHER);
        if is_open || status.is_success() || status.is_server_error() || status.is_informational() {
            return Err(unknown(&format!("The calendar server answers {status}.")).into());
        }
        // A refusal without its text is a refusal.
        let (head, body) = remote::read(response, REFUSAL_BYTES_MAX, self.deadline).await;
        let failure = self.refused(status, &head.headers, &body.unwrap_or_default());
        Err(Unmade { status: Some(status), failure })
    }

    /// Sends a read, and returns its answer of at most `most` bytes.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn ask(
        &self,
        method: &str,
        url: &Url,
        headers: HeaderMap,
        body: &str,
        most: usize,
    ) -> Result<Answer, Failure> {
        let exchange = self.exchange(method, url, headers, body.to_owned())?;
        let response = self.calendar.http.exchange(exchange).await.map_err(|error| unanswered(&error))?;
        let (head, body) = remote::read(response, most, self.deadline).await;
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => {
                Failure::Refused { message: format!("The calendar server's answer has more than {} KiB.", most / 1024) }
            }
            BodyError::Encoded => unusable("is compressed, although nobody asked for that"),
            BodyError::Broken => unusable("breaks off"),
            BodyError::Late => Failure::Timeout,
        })?;
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    fn exchange(&self, method: &str, url: &Url, mut headers: HeaderMap, body: String) -> Result<Exchange, Failure> {
        let unwritable = || Failure::Refused { message: "The request cannot be written as HTTP.".into() };
        headers.insert(AUTHORIZATION, self.authorization.clone());
        Ok(Exchange {
            method: Method::from_bytes(method.as_bytes()).map_err(|_bad| unwritable())?,
            uri: url.as_str().parse().map_err(|_bad| unwritable())?,
            headers,
            body: body.into_bytes(),
            deadline: self.deadline,
        })
    }

    /// Returns the failure for an answer to a read that is not the expected one.
    pub(crate) fn not_expected(&self, answer: &Answer) -> Failure {
        if answer.status.is_success() {
            return unusable(match self.calendar.settings.api {
                Api::Caldav => "is not that of a CalDAV server; check `url`",
                Api::Google => "is not that of Google Calendar; check `url`",
            });
        }
        self.refused(answer.status, &answer.headers, &answer.body)
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
        let failure = refused(self.calendar.settings.api, status, headers, body);
        if status == StatusCode::UNAUTHORIZED { self.calendar.account.not_signed_in(failure) } else { failure }
    }
}
