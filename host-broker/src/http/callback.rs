//! The address to which browsers return from the pages for account linking.
//!
//! One route, and below it one for each provider that has a page of its own, on an address that only this machine
//! reaches. The broker gets the values, and their `state` names the link session. Everything else is decided there, and
//! a person still approves the account. A browser with an unknown `state` hears only that it is unknown.

use super::web::read_pool::ReadPool;
use super::web::seal;
use super::{Server, own_name};
use crate::daemon::{EventSender, Message, OAuthCallback};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use maud::{DOCTYPE, html};
use model::Clock;
use model::errors::chain;
use platform::Platform;
use platform::home::Home;
use provider::linking::address::Brought;
use shared::{Code, Reply, Status};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::state::linking;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// The longest time that a browser waits for the result.
const TIMEOUT: Duration = Duration::from_secs(125);

/// The state of the route.
#[derive(Clone)]
struct CallbackState {
    reports: EventSender,
    read_pool: Arc<ReadPool>,
    clock: Arc<dyn Clock>,
    port: u16,
}

/// Serves the route on this address, for the flows of this home.
pub fn serve(
    (listener, address): (TcpListener, SocketAddr),
    home: &Home,
    platform: &Platform,
    reports: EventSender,
) -> (Server, SocketAddr) {
    let (read_pool, clock) = (Arc::new(ReadPool::new(home.path().to_owned())), Arc::clone(&platform.clock));
    let callback = CallbackState { reports, read_pool, clock, port: address.port() };
    // A request that only checks the existence of the page completes nothing.
    let route = || get(back).head(elsewhere);
    let router = Router::new().route("/callback", route()).route("/callback/{provider}", route());
    let router = router.fallback(elsewhere).with_state(callback);
    tracing::info!(address = %url(address), "browsers are brought back to here");
    (Server::start(listener, router, CancellationToken::new(), &platform.runtime), address)
}

/// Returns the address to configure at a provider: `http://127.0.0.1:7421/callback`.
pub fn url(address: SocketAddr) -> String {
    format!("http://{address}/callback")
}

async fn elsewhere() -> Response {
    page(StatusCode::NOT_FOUND, "There is nothing here.", None)
}

async fn back(State(callback): State<CallbackState>, request: Request) -> Response {
    let Some(host) = own_name(&request, callback.port) else {
        return page(StatusCode::MISDIRECTED_REQUEST, "This is not the address.", None);
    };
    let url = Zeroizing::new(format!("http://{host}{}", path(request.uri())));
    let brought = match Brought::read(Some(&url), None) {
        Ok(brought) => brought,
        Err(code) => return page(StatusCode::BAD_REQUEST, code.meaning(), Some(code.remedy())),
    };
    // Every user of this machine can call this address. Only the values of an open flow reach the loop.
    match is_expected(&callback, brought.state.clone()).await {
        Some(true) => {}
        Some(false) => return unknown(),
        None => {
            return page(StatusCode::SERVICE_UNAVAILABLE, "The broker cannot read its records.", Some("Try again."));
        }
    }
    let (answer, answered) = oneshot::channel();
    callback.reports.send(Message::Callback(OAuthCallback { brought, url, answer }));
    match tokio::time::timeout(TIMEOUT, answered).await {
        Ok(Ok(reply)) => told(&reply),
        Ok(Err(_no_flow)) => unknown(),
        Err(_elapsed) => {
            page(StatusCode::GATEWAY_TIMEOUT, "This took too long.", Some("Ask the agent for the outcome."))
        }
    }
}

/// Returns whether an open flow waits for this `state`; `None` if the records cannot be read.
async fn is_expected(callback: &CallbackState, state: Option<String>) -> Option<bool> {
    let (read_pool, now) = (Arc::clone(&callback.read_pool), callback.clock.now());
    let look = move || {
        read_pool.look(|view| {
            linking::by_state(view, state.as_deref().unwrap_or_default(), now).map(|found| found.is_some())
        })
    };
    match tokio::task::spawn_blocking(look).await {
        Ok(Ok(is_expected)) => Some(is_expected),
        Ok(Err(error)) => {
            tracing::warn!(error = chain(&error), "the flow of a browser cannot be looked up");
            None
        }
        Err(error) => {
            tracing::error!(%error, "the flow of a browser cannot be looked up");
            None
        }
    }
}

fn unknown() -> Response {
    page(StatusCode::NOT_FOUND, Code::CapabilityAuthFlowInvalid.meaning(), Some("Ask the agent for a new page."))
}

fn path(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}

fn told(reply: &[u8]) -> Response {
    let reply: Option<Reply> = serde_json::from_slice(reply).ok();
    match reply {
        Some(reply) if reply.status == Status::Executed => page(
            StatusCode::OK,
            "You are back.",
            Some("A person is asked now whether this is the right account. You can close this page."),
        ),
        Some(reply) if reply.status == Status::Pending => {
            page(StatusCode::ACCEPTED, "You are back.", Some("A person is asked first whether this may be done."))
        }
        Some(reply) => page(StatusCode::BAD_REQUEST, reply.error.as_deref().unwrap_or("It was refused."), None),
        None => page(StatusCode::INTERNAL_SERVER_ERROR, "The answer cannot be read.", None),
    }
}

/// A page without anything to click on, and without anything of the address that led here.
fn page(status: StatusCode, first: &str, then: Option<&str>) -> Response {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta name="viewport" content="width=device-width"; title { "Account" } }
            body { h1 { (first) } @if let Some(then) = then { p { (then) } } }
        }
    };
    let mut response = (status, Html(body.into_string())).into_response();
    seal(response.headers_mut());
    response
}
