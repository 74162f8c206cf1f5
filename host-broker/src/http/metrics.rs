//! `GET /healthz` and `GET /metrics`, on an address that only this machine reaches.
//!
//! A request must name this machine as its host, so that a foreign name that leads here opens nothing. It has no body and
//! changes nothing. The replies contain no secret, no person and no parameter of a call.

use super::connections::Standing;
use super::web::seal;
use super::{Server, own_name};
use crate::metrics::{Exporter, Health};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http_body::Body as _;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The type of the text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Serves the documents on this address.
pub fn serve(listener: TcpListener, address: SocketAddr, exporter: Exporter, runtime: &Handle) -> Server {
    let port = address.port();
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .fallback(async || {
            reply(StatusCode::NOT_FOUND, PLAIN, "There is no such page. There are /healthz and /metrics.\n")
        })
        .layer(from_fn(move |request, next| guard(port, request, next)))
        .with_state(Arc::new(exporter));
    tracing::info!(address = %url(address), "metrics are served");
    Server::start(listener, router, CancellationToken::new(), runtime)
}

/// Returns the address of the metrics: `http://127.0.0.1:9464/metrics`.
pub fn url(address: SocketAddr) -> String {
    format!("http://{address}/metrics")
}

/// Checks every request, and adds the headers of every reply.
async fn guard(port: u16, request: Request, next: Next) -> Response {
    let mut response = if let Some(refusal) = refusal(port, &request) {
        refusal
    } else {
        // Until it is answered, its connection does not give way to others.
        let _held = Standing::hold(&request);
        next.run(request).await
    };
    seal(response.headers_mut());
    response
}

fn refusal(port: u16, request: &Request) -> Option<Response> {
    if own_name(request, port).is_none() {
        return Some(reply(StatusCode::MISDIRECTED_REQUEST, PLAIN, "This is not the address.\n"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refused = reply(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "Only GET and HEAD are allowed.\n");
        return Some(with(refused, ALLOW, "GET, HEAD"));
    }
    if !request.body().is_end_stream() {
        // The body is not read, so nothing else can follow on this connection.
        let refused = reply(StatusCode::PAYLOAD_TOO_LARGE, PLAIN, "A request has no body here.\n");
        return Some(with(refused, CONNECTION, "close"));
    }
    None
}

async fn healthz(State(exporter): State<Arc<Exporter>>) -> Response {
    let Health { unhealthy, document } = exporter.health();
    let status = if unhealthy.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply(status, JSON, format!("{document}\n"))
}

async fn metrics(State(exporter): State<Arc<Exporter>>) -> Response {
    match exporter.text().await {
        Ok(text) => reply(StatusCode::OK, TEXT, text),
        Err(_failed) => reply(
            StatusCode::INTERNAL_SERVER_ERROR,
            PLAIN,
            "The metrics cannot be written; for the reason: host-broker logs\n",
        ),
    }
}

fn reply(status: StatusCode, kind: &'static str, text: impl Into<String>) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static(kind))], text.into()).into_response()
}

fn with(mut response: Response, name: HeaderName, value: &'static str) -> Response {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
