//! Streamable HTTP, over the broker's own client: no redirect, nothing twice, and bodies within bounds.

use super::pipe::LINE_MAX;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use platform::http::{Exchange, Http, HttpError};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The timeout for a whole answer; a call has its own time, which is shorter.
const TIMEOUT: Duration = Duration::from_secs(130);
/// So much of an answer that is an error is read, in bytes.
const ERROR_MAX: usize = 64 * 1024;

/// The broker's client, for the library.
#[derive(Clone)]
pub(super) struct Client(pub(super) Arc<dyn Http>);

/// Why a request has no answer. Of the first two the server has done nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpCause {
    /// It did not leave.
    #[error("{0}")]
    NotSent(String),
    /// The server refused it.
    #[error("it answers {0}")]
    Refused(StatusCode),
    /// It left, and its effect is not known.
    #[error("{0}")]
    Lost(String),
}

type StreamError = StreamableHttpError<HttpCause>;

impl From<HttpError> for HttpCause {
    fn from(fault: HttpError) -> Self {
        match fault {
            HttpError::Setup(_) | HttpError::NotHttp | HttpError::Unreachable(_) => Self::NotSent(fault.to_string()),
            HttpError::Lost(_) | HttpError::TooLong | HttpError::Deadline => Self::Lost(fault.to_string()),
        }
    }
}

impl Client {
    async fn exchange(
        &self,
        method: Method,
        uri: &str,
        own: &[(&'static str, Option<&str>)],
        more: HashMap<HeaderName, HeaderValue>,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, StreamError> {
        let wrong = |what: &'static str| StreamableHttpError::Client(HttpCause::NotSent(what.to_owned()));
        let uri: Uri = uri.parse().map_err(|_no_uri| wrong("its address is no address"))?;
        let mut headers: HeaderMap = more.into_iter().collect();
        for (name, value) in own {
            let Some(value) = value else { continue };
            let mut value = HeaderValue::from_str(value).map_err(|_no_value| wrong("a header cannot be written"))?;
            value.set_sensitive(*name == AUTHORIZATION.as_str());
            headers.insert(HeaderName::from_static(name), value);
        }
        let exchange = Exchange { method, uri, headers, body, deadline: Instant::now() + TIMEOUT };
        self.0.exchange(exchange).await.map_err(|fault| StreamableHttpError::Client(fault.into()))
    }
}

fn bearer(token: Option<String>) -> Option<String> {
    token.map(|token| format!("Bearer {token}"))
}

async fn whole(body: Incoming, most: usize) -> Result<Bytes, StreamError> {
    let lost = |why: String| StreamableHttpError::Client(HttpCause::Lost(why));
    match timeout(TIMEOUT, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        // It ends in the middle, or is too long.
        Ok(Err(why)) => Err(lost(why.to_string())),
        Err(_elapsed) => Err(lost("its answer has no end".to_owned())),
    }
}

/// The library has it in mixed case, which the name of a header is not here.
const SESSION_ID: &str = "mcp-session-id";

impl StreamableHttpClient for Client {
    type Error = HttpCause;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamError> {
        let body = serde_json::to_vec(&message)?;
        let bearer = bearer(auth_header);
        let both = format!("{JSON_MIME_TYPE}, {EVENT_STREAM_MIME_TYPE}");
        let own = [
            (ACCEPT.as_str(), Some(both.as_str())),
            (CONTENT_TYPE.as_str(), Some(JSON_MIME_TYPE)),
            (AUTHORIZATION.as_str(), bearer.as_deref()),
            (SESSION_ID, session_id.as_deref()),
        ];
        let response = self.exchange(Method::POST, &uri, &own, custom_headers, body).await?;
        let status = response.status();
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if session_id.is_some() => return Err(StreamableHttpError::SessionExpired),
            _ => {}
        }
        if !status.is_success() {
            return refused(&message, status, session_id.is_some(), response.into_body()).await;
        }
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let (kind, session) = (header(CONTENT_TYPE.as_str()).unwrap_or_default(), header(HEADER_SESSION_ID));
        if kind.starts_with(EVENT_STREAM_MIME_TYPE) {
            return Ok(StreamableHttpPostResponse::Sse(events(response.into_body()), session));
        }
        let body = whole(response.into_body(), LINE_MAX).await?;
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        if !is_request {
            // Any answer to a message that needs none.
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !kind.starts_with(JSON_MIME_TYPE) {
            return Err(StreamableHttpError::UnexpectedContentType(None));
        }
        Ok(StreamableHttpPostResponse::Json(serde_json::from_slice(&body)?, session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamError> {
        let bearer = bearer(auth_header);
        let own = [(AUTHORIZATION.as_str(), bearer.as_deref()), (SESSION_ID, Some(&*session_id))];
        // A server that keeps its sessions keeps them.
        self.exchange(Method::DELETE, &uri, &own, custom_headers, Vec::new()).await.map(|_answer| ())
    }

    /// Opens no stream beside the answers to sent messages.
    ///
    /// A server's own changes are looked for when a call is made. The rest of an answer whose connection was lost is
    /// lost.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamError> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

/// The events of an answer: no more than one result may be long, altogether.
fn events(body: Incoming) -> BoxStream<'static, Result<Sse, SseError>> {
    let events = SseStream::new(Limited::new(body, LINE_MAX).map_err(std::io::Error::other));
    events.take_until(sleep(TIMEOUT)).boxed()
}

/// Reads an answer that is an error.
///
/// Some servers report the fault in JSON-RPC. A server of an older revision has no common form for its answer to the
/// request that finds out its revision.
async fn refused(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    has_session: bool,
    body: Incoming,
) -> Result<StreamableHttpPostResponse, StreamError> {
    let lost = status.is_server_error();
    // The server says so before anything is done. With other faults a server may have done a part.
    let is_definite = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let cause = move || {
        let refused = HttpCause::Refused(status);
        StreamableHttpError::Client(if is_definite { refused } else { HttpCause::Lost(refused.to_string()) })
    };
    let ClientJsonRpcMessage::Request(request) = message else { return Err(cause()) };
    if lost || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) || status.is_redirection() {
        return Err(cause());
    }
    let body = whole(body, ERROR_MAX).await.unwrap_or_default();
    let said = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(said)) => Some(said.error),
        Ok(_) | Err(_) => None,
    };
    let is_first = matches!(request.request, ClientRequest::DiscoverRequest(_)) && !has_session;
    let unknown = || ErrorData::new(ErrorCode::INVALID_REQUEST, format!("it answers {status}"), None);
    let error = said.or_else(|| is_first.then(unknown)).ok_or_else(cause)?;
    Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(request.id.clone())), None))
}
