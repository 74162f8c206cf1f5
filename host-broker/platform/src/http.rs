//! HTTP for notices, judges and servers: one request, one answer, within limits that hold.
//!
//! SECURITY: no redirect is followed, nothing is sent twice, and a body is read only where it is asked for, and only so
//! much of it. TLS is rustls with the system's root certificates.

use crate::tls;
use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A response with its body.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The time before which the server wants no other request, from `Retry-After` in seconds.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// A response, some time.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, HttpError>> + Send + 'a>>;

/// Sends requests.
pub trait Http: Send + Sync {
    /// Sends one request and returns any status of the answer. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`HttpError`]. Only [`HttpError::Setup`], [`HttpError::NotHttp`] and [`HttpError::Unreachable`] mean that
    /// nothing left.
    fn send(&self, exchange: Exchange) -> Pin<Box<dyn Future<Output = Result<u16, HttpError>> + Send + '_>>;

    /// The same, and gives the body of the answer, too, if it is no longer than so many bytes.
    ///
    /// # Errors
    /// [`HttpError`], also of a longer answer.
    fn ask(&self, exchange: Exchange, most: usize) -> Answering<'_>;

    /// Sends one request, and returns the answer when its head is there. The reader of its body bounds it.
    ///
    /// # Errors
    /// [`HttpError`].
    fn exchange(
        &self,
        exchange: Exchange,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Incoming>, HttpError>> + Send + '_>>;
}

/// One request.
pub struct Exchange {
    /// The method of the request.
    pub method: Method,
    /// Of whom.
    pub uri: Uri,
    /// The request's headers, beside those of every request.
    pub headers: HeaderMap,
    /// The body of the request.
    pub body: Vec<u8>,
    /// The deadline for the answer; if its reader bounds the body, for its head.
    pub deadline: Instant,
}

impl Exchange {
    /// Posts a document.
    pub fn post(uri: Uri, headers: HeaderMap, body: Vec<u8>, deadline: Instant) -> Self {
        Self { method: Method::POST, uri, headers, body, deadline }
    }
}

impl fmt::Debug for Exchange {
    /// Leaves out every part that may be secret: the path, the headers, the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("method", &self.method).field("host", &self.uri.host()).finish_non_exhaustive()
    }
}

/// The reason why there is no status. It quotes nothing of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// There is no client for https.
    #[error("https cannot be used ({0}); are root certificates (ca-certificates) installed?")]
    Setup(String),
    /// The request cannot be written as HTTP.
    #[error("the request cannot be written as HTTP")]
    NotHttp,
    /// No server can be reached there.
    #[error("{0}")]
    Unreachable(String),
    /// No answer came, or it was not HTTP.
    #[error("{0}")]
    Lost(String),
    /// The body of the answer is too long.
    #[error("its answer is too long")]
    TooLong,
    /// No answer came in time.
    #[error("no answer in time")]
    Deadline,
}

type Plain = Client<HttpConnector, Full<Bytes>>;
type Secure = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends over this machine's network. The root certificates are read when they are first needed.
#[derive(Debug, Default)]
pub struct SystemHttp {
    plain: OnceLock<Plain>,
    secure: OnceLock<Result<Secure, String>>,
}

impl Http for SystemHttp {
    fn send(&self, exchange: Exchange) -> Pin<Box<dyn Future<Output = Result<u16, HttpError>> + Send + '_>> {
        Box::pin(async move { Ok(self.request(exchange).await?.status().as_u16()) })
    }

    fn ask(&self, exchange: Exchange, most: usize) -> Answering<'_> {
        Box::pin(async move {
            let deadline = exchange.deadline;
            let response = self.request(exchange).await?;
            let status = response.status().as_u16();
            let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            let retry_after = seconds.map(Duration::from_secs);
            match timeout_at(deadline, Limited::new(response.into_body(), most).collect()).await {
                Ok(Ok(body)) => Ok(Answer { status, retry_after, body: body.to_bytes().to_vec() }),
                Ok(Err(why)) if why.is::<LengthLimitError>() => Err(HttpError::TooLong),
                Ok(Err(why)) => Err(HttpError::Lost(cause(&*why))),
                Err(_elapsed) => Err(HttpError::Deadline),
            }
        })
    }

    fn exchange(
        &self,
        exchange: Exchange,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Incoming>, HttpError>> + Send + '_>> {
        Box::pin(self.request(exchange))
    }
}

impl SystemHttp {
    async fn request(&self, exchange: Exchange) -> Result<Response<Incoming>, HttpError> {
        let Exchange { method, uri, headers, body, deadline } = exchange;
        let is_secure = uri.scheme_str() == Some("https");
        let request = Request::builder().method(method).uri(uri).body(Full::new(Bytes::from(body)));
        let mut request = request.map_err(|_why| HttpError::NotHttp)?;
        request.headers_mut().extend(headers);
        let sent = if is_secure {
            let client = self.secure.get_or_init(secure).as_ref();
            client.map_err(|why| HttpError::Setup(why.clone()))?.request(request)
        } else {
            self.plain.get_or_init(plain).request(request)
        };
        match timeout_at(deadline, sent).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(why)) if why.is_connect() => Err(HttpError::Unreachable(cause(&why))),
            Ok(Err(why)) => Err(HttpError::Lost(cause(&why))),
            Err(_elapsed) => Err(HttpError::Deadline),
        }
    }
}

/// The end of the chain says most: "connection refused" rather than "client error".
fn cause(why: &dyn std::error::Error) -> String {
    std::iter::successors(Some(why), |why| why.source()).last().map_or_else(String::new, ToString::to_string)
}

fn plain() -> Plain {
    // A kept connection is one that may be gone when it is used again.
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .retry_canceled_requests(false)
        .build(HttpConnector::new())
}

fn secure() -> Result<Secure, String> {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(ClientConfig::clone(&*tls::client()?))
        .https_only()
        .enable_http1()
        .build();
    let client =
        Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).retry_canceled_requests(false).build(connector);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    fn post(uri: &str, after: Duration) -> Exchange {
        let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, "text/plain".parse().unwrap())]);
        Exchange::post(uri.parse().unwrap(), headers, b"hello".to_vec(), Instant::now() + after)
    }

    /// Serves one connection with this answer; returns the received bytes.
    fn server(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/hook", listener.local_addr().unwrap());
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 1024];
            while !seen.ends_with(b"hello") {
                let read = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..read]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(seen).unwrap()
        });
        (uri, serve)
    }

    /// Attack (Approvals and notices): A webhook redirects the notice with its token and signature.
    /// Defence: Redirects are not followed.
    #[tokio::test]
    async fn a_redirect_is_a_status_and_is_not_followed() {
        let (uri, seen) = server("HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(SystemHttp::default().send(post(&uri, Duration::from_secs(20))).await, Ok(307));
        let seen = seen.join().unwrap();
        assert!(seen.starts_with("POST /hook HTTP/1.1\r\n") && seen.contains("content-type: text/plain"), "{seen}");
    }

    #[tokio::test]
    async fn an_answer_without_end_is_not_waited_for() {
        let (uri, _seen) = server("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
        assert_eq!(SystemHttp::default().send(post(&uri, Duration::from_secs(20))).await, Ok(200));
    }

    #[tokio::test]
    async fn silent_servers_time_out_and_absent_servers_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap());
        let silent = SystemHttp::default().send(post(&uri, Duration::from_millis(200))).await;
        assert_eq!(silent, Err(HttpError::Deadline));
        drop(listener);
        let gone = SystemHttp::default().send(post(&uri, Duration::from_secs(20))).await.unwrap_err().to_string();
        assert!(gone.to_lowercase().contains("refused"), "{gone}");
    }
}
