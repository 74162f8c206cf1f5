//! The way to GitHub: octocrab, narrowed to what the broker allows itself.
//!
//! SECURITY and ORDER, all tested on the wire. Only the base URL's origin is ever contacted; no redirect is followed. A
//! write is sent once and never again. A read is sent at most three times, or seven where it looks for a lost effect.
//! Every request ends at the execution's deadline. Bodies are bounded before they are read. The token is in one
//! sensitive header of one request and nowhere else.
//! octocrab's features `retry`, `follow-redirect` and `tracing` stay off in `Cargo.toml`: the first repeats writes,
//! the second leaves the origin, the third logs what GitHub was asked.

use crate::app::{App, Reach};
use crate::base::{BaseUrl, Cursor, Target};
use crate::errors::{BodyError, GithubResponse, Reader, retry_after, unknown};
use crate::etags::{Etags, Kept};
use crate::nonce::Mark;
use crate::send_state::watched;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use model::{Clock, Nonce, Refusal, SealedRequest};
use octocrab::{OctoBody, Octocrab};
use provider::contract::Failure;
use serde_json::Value;
use shared::Code;
use shared::limits::RESULT_BYTES_MAX;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use zeroize::Zeroizing;

/// Pauses before the second and the third try of a read.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];
/// Pauses before further tries of a read that looks for a lost effect: a broken connection lasts for a while.
const MORE_PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
/// The revision of GitHub's REST API whose shapes are read here.
const API_VERSION: &str = "2022-11-28";
const API_VERSION_HEADER: &str = "x-github-api-version";
const JSON: &str = "application/vnd.github+json";

/// A client without a credential, shared by all executions.
pub(super) struct Client {
    crab: Octocrab,
    base: BaseUrl,
    etags: Etags,
    clock: Arc<dyn Clock>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum NoClient {
    /// octocrab starts a task when it is built.
    #[error("the GitHub client must be set up inside the runtime")]
    NoRuntime,
    /// octocrab could not be set up; without a store of root certificates it cannot be.
    #[error("the GitHub client cannot be set up ({}); are root certificates (ca-certificates) installed?", cause(.0))]
    Setup(#[source] Box<octocrab::Error>),
}

/// Returns the cause of an octocrab error. Its own text is as short as "Other"; the cause is at the end of the chain.
fn cause(why: &dyn std::error::Error) -> String {
    std::iter::successors(Some(why), |why| why.source()).last().map_or_else(String::new, ToString::to_string)
}

impl Client {
    /// Sets up the client, without any contact to GitHub.
    ///
    /// # Errors
    /// [`NoClient`].
    pub(super) fn new(base: BaseUrl, clock: Arc<dyn Clock>) -> Result<Self, NoClient> {
        tokio::runtime::Handle::try_current().map_err(|_none| NoClient::NoRuntime)?;
        let setup = |why| NoClient::Setup(Box::new(why));
        let builder = Octocrab::builder().base_uri(base.root()).map_err(setup)?;
        let crab = builder.build().map_err(setup)?;
        Ok(Self { crab, base, etags: Etags::default(), clock })
    }

    /// The time now.
    pub(super) fn now(&self) -> shared::Timestamp {
        self.clock.now()
    }

    /// Returns the request in which a change leaves, all but the credential.
    ///
    /// It contacts no server, and is the only place where the request of a change is put together.
    pub(super) fn seal(&self, change: &Change, nonce: &Nonce) -> SealedRequest {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        SealedRequest {
            nonce: nonce.clone(),
            method: change.method.to_string(),
            url: self.base.url(&change.target),
            headers: vec![
                header(ACCEPT.as_str(), JSON),
                header(API_VERSION_HEADER, API_VERSION),
                header(CONTENT_TYPE.as_str(), "application/json"),
            ],
            body: change.body.to_string(),
        }
    }
}

/// A change of an action at GitHub.
#[derive(Debug)]
pub(super) struct Change {
    /// How.
    pub(super) method: Method,
    /// Where.
    pub(super) target: Target,
    /// The body of the request.
    pub(super) body: Value,
}

/// The permission of one execution at GitHub: its identity, its deadline, its mark.
pub(super) struct Session<'a> {
    client: &'a Client,
    authorization: HeaderValue,
    deadline: Instant,
    nonce: &'a Nonce,
    has_marks: bool,
    agreed: Option<&'a SealedRequest>,
    pauses: &'static [Duration],
    issued_by: Option<(&'a App, Reach)>,
}

/// One page of a list, or a whole document.
pub(super) struct Page {
    /// The document of the answer.
    pub(super) document: Value,
    /// Where the next page begins.
    pub(super) next: Option<Cursor>,
}

/// No answer came.
struct Lost;

impl<'a> Session<'a> {
    /// Opens one. For [`super::Github::session`], for [`App::token`] and for the tests of this provider. The first two have
    /// a token only with an execution.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the token cannot be part of a request.
    pub(super) fn open(client: &'a Client, token: &str, deadline: Instant, nonce: &'a Nonce) -> Result<Self, Failure> {
        let bearer = Zeroizing::new(format!("Bearer {token}"));
        let mut authorization = HeaderValue::from_str(&bearer).map_err(|_why| Failure::Refused {
            message: "The broker's GitHub token contains characters that no token has. The operator must set it again."
                .into(),
        })?;
        authorization.set_sensitive(true);
        Ok(Self { client, authorization, deadline, nonce, has_marks: true, agreed: None, pauses: &[], issued_by: None })
    }

    /// The same, which sends no change but the one that a person was asked about, if there is one.
    pub(super) fn bound_to(self, agreed: Option<&'a SealedRequest>) -> Self {
        Self { agreed, ..self }
    }

    /// Returns the same client, which tries a read again for longer, up to its deadline.
    pub(super) fn patient(self) -> Self {
        Self { pauses: &MORE_PAUSES, ..self }
    }

    /// The same, whose effects have a mark or none.
    pub(super) fn with_marks(self, has_marks: bool) -> Self {
        Self { has_marks, ..self }
    }

    /// Returns the mark to plant into the effect.
    pub(super) fn mark(&self) -> Mark<'_> {
        if self.has_marks { Mark::of(self.nonce) } else { Mark::none() }
    }

    /// The same, whose token an app has issued for this reach.
    pub(super) fn issued_by(self, app: &'a App, reach: Reach) -> Self {
        Self { issued_by: Some((app, reach)), ..self }
    }

    /// Returns whether its token is one of an app.
    pub(super) fn is_of_an_app(&self) -> bool {
        self.issued_by.is_some()
    }

    /// The time now.
    pub(super) fn now(&self) -> shared::Timestamp {
        self.client.now()
    }

    /// Waits, but not past the deadline.
    ///
    /// # Errors
    /// [`Failure::Timeout`].
    pub(super) async fn pause(&self, duration: Duration) -> Result<(), Failure> {
        timeout_at(self.deadline, sleep(duration)).await.map_err(|_elapsed| Failure::Timeout)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) async fn get(&self, target: &Target) -> Result<Value, Failure> {
        Ok(self.get_page(target).await?.document)
    }

    /// Reads one page of a list.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) async fn get_page(&self, target: &Target) -> Result<Page, Failure> {
        let uri = self.uri(target)?;
        let kept = self.client.etags.get(&uri);
        let revalidate = kept.as_ref().map(|k| &k.etag);
        self.in_time()?;
        let answer = match timeout_at(self.deadline, self.tries(&uri, revalidate)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Lost)) => return Err(unreachable_host()),
            Err(_elapsed) => return Err(Failure::Timeout),
        };
        let reader = self.reader();
        match (answer.status, kept) {
            (StatusCode::NOT_MODIFIED, Some(kept)) => {
                let document = serde_json::from_slice(&kept.body).map_err(|_not| unusable("is not JSON"))?;
                Ok(Page { document, next: kept.next })
            }
            (StatusCode::NOT_MODIFIED, None) => Err(unusable("says that nothing changed since a request never made")),
            _ => {
                let document = reader.read(&answer)?;
                let next = self.next(&answer.headers)?;
                self.keep(uri, &answer, next.clone());
                Ok(Page { document, next })
            }
        }
    }

    /// Sends a change, once.
    ///
    /// # Errors
    /// [`Failure`]; it is [`Failure::Unknown`] unless it is certain that nothing was changed.
    pub(super) async fn write(&self, change: &Change) -> Result<Value, Failure> {
        let answer = self.send(change).await?;
        self.reader().written(&answer)
    }

    /// Sends a change, once, and returns any answer.
    ///
    /// # Errors
    /// [`Failure`] if no answer came; it is [`Failure::Unknown`] unless it is certain that nothing left.
    /// [`Failure::Guard`] if the approval was for another request; then nothing left.
    pub(super) async fn send(&self, change: &Change) -> Result<GithubResponse, Failure> {
        let sealed = self.client.seal(change, self.nonce);
        // SECURITY: the approved request is sent, or nothing. Being equal, it also goes to our own origin.
        if self.agreed.is_some_and(|agreed| *agreed != sealed) {
            return Err(not_agreed());
        }
        let length = sealed.body.len();
        let uri = sealed.url.parse().map_err(too_long)?;
        let (witness, departure) = watched(sealed.body.into_bytes());
        let headers = sealed.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut request = self.request(&sealed.method, &uri, headers, OctoBody::new(witness))?;
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        self.in_time()?;
        match timeout_at(self.deadline, self.exchange(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Lost)) if departure.call_back() => Err(unreachable_host()),
            Ok(Err(Lost)) => Err(unknown("The connection to GitHub broke before its answer came")),
            Err(_elapsed) if departure.call_back() => Err(Failure::Timeout),
            Err(_elapsed) => Err(unknown("GitHub did not answer in time")),
        }
    }

    /// How answers to this session are read.
    pub(super) fn reader(&self) -> Reader<'_> {
        let bearer = self.authorization.to_str().ok();
        let token = bearer.and_then(|text| text.strip_prefix("Bearer ")).filter(|token| !token.is_empty());
        Reader { now: self.now(), token: token.unwrap_or("\0"), is_of_an_app: self.is_of_an_app() }
    }

    /// A time-out lets its future run once before it looks at the clock, so nothing is begun after the deadline.
    fn in_time(&self) -> Result<(), Failure> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(Failure::Timeout) }
    }

    async fn tries(&self, uri: &Uri, revalidate: Option<&HeaderValue>) -> Result<GithubResponse, Lost> {
        for pause in PAUSES.iter().chain(self.pauses) {
            match self.attempt(uri, revalidate).await {
                Ok(answer) if !self.is_passing(&answer) => return Ok(answer),
                Ok(_) | Err(Lost) => sleep(*pause).await,
            }
        }
        self.attempt(uri, revalidate).await
    }

    /// Returns whether another try of a read can have another answer. All of GitHub knows a new token of an app only after
    /// a moment.
    fn is_passing(&self, answer: &GithubResponse) -> bool {
        match answer.status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => retry_after(&answer.headers).is_none(),
            StatusCode::UNAUTHORIZED => self.is_of_an_app(),
            _ => false,
        }
    }

    async fn attempt(&self, uri: &Uri, revalidate: Option<&HeaderValue>) -> Result<GithubResponse, Lost> {
        let (accept, version) = ((ACCEPT.as_str(), JSON), (API_VERSION_HEADER, API_VERSION));
        let Ok(mut request) = self.request("GET", uri, [accept, version], OctoBody::empty()) else { return Err(Lost) };
        if let Some(etag) = revalidate {
            request.headers_mut().insert(IF_NONE_MATCH, etag.clone());
        }
        self.exchange(request).await
    }

    async fn exchange(&self, request: Request<OctoBody>) -> Result<GithubResponse, Lost> {
        // octocrab's errors are not looked into: it erases their kinds, and their texts are not for agents.
        let response = self.client.crab.execute(request).await.map_err(|_erased| Lost)?;
        let (head, body) = response.into_parts();
        let refuses = matches!(head.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
        if let Some((app, reach)) = self.issued_by.as_ref().filter(|_| refuses) {
            app.drop_refused(reach);
        }
        let body = if is_encoded(&head.headers) {
            Err(BodyError::Encoded)
        } else if announced(&head.headers).is_some_and(|length| length > RESULT_BYTES_MAX) {
            Err(BodyError::TooLarge)
        } else {
            match Limited::new(body, RESULT_BYTES_MAX).collect().await {
                Ok(whole) => Ok(whole.to_bytes()),
                Err(why) if why.is::<LengthLimitError>() => Err(BodyError::TooLarge),
                Err(_) => Err(BodyError::Broken),
            }
        };
        Ok(GithubResponse { status: head.status, headers: head.headers, body })
    }

    fn request<'h>(
        &self,
        method: &str,
        uri: &Uri,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body: OctoBody,
    ) -> Result<Request<OctoBody>, Failure> {
        headers
            .into_iter()
            .fold(Request::builder().method(method).uri(uri), |request, (name, value)| request.header(name, value))
            .header(AUTHORIZATION, self.authorization.clone())
            .body(body)
            .map_err(|_why| Failure::Refused { message: "The request cannot be written as HTTP.".into() })
    }

    fn uri(&self, target: &Target) -> Result<Uri, Failure> {
        self.client.base.url(target).parse().map_err(too_long)
    }

    fn next(&self, headers: &HeaderMap) -> Result<Option<Cursor>, Failure> {
        let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
        self.client.base.next_page(links).map_err(|_foreign| unusable("continues on another host"))
    }

    fn keep(&self, uri: Uri, answer: &GithubResponse, next: Option<Cursor>) {
        if let (StatusCode::OK, Some(etag), Ok(body)) = (answer.status, answer.headers.get(ETAG), &answer.body) {
            self.client.etags.put(uri, Kept { etag: etag.clone(), body: body.clone(), next });
        }
    }
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn unreachable_host() -> Failure {
    Failure::Unavailable { message: "GitHub cannot be reached from the broker's host. Try again later.".into() }
}

fn too_long(_why: http::uri::InvalidUri) -> Failure {
    Failure::Refused { message: "The parameters are too long for a request.".into() }
}

/// A person was asked about another request than this one.
fn not_agreed() -> Failure {
    let reason = "The approved call differs from the call that would run now.".to_owned();
    Failure::Guard(Refusal { code: Code::ApprovalRequired, reason })
}

fn unusable(how: &str) -> Failure {
    Failure::InvalidOutput { message: format!("GitHub's answer {how}.") }
}
