//! The inbox: a person's pending approval requests in a browser, and the answers.
//!
//! ```text
//! request ─► host, origin ─► cookie ─► form's value ─► command dispatcher, like every command ─► the broker
//! ```
//! Pages are made here and need no script; with it they renew themselves. Reads use a connection that cannot write, on
//! threads that may wait. An answer reaches the broker like one of the command line, and the broker decides whether it
//! counts.

mod access;
mod activity;
mod decide;
mod assets;
pub(in crate::http) mod read_pool;
mod diff;
mod ending;
mod evidence;
mod flows;
mod granting;
mod last_day;
mod narrow;
mod providers;
mod request_guard;
pub mod sign_in;
mod inbox;
mod live;
mod other_hosts;
mod page;
pub mod sessions;
mod signing;
mod standing;

use crate::control::CommandDispatcher;
use crate::daemon::{Changes, EventSender};
use crate::http::api::{self, Api};
use crate::http::connections::Standing;
use crate::http::external::{self, ExternalApi};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use config::Config;
use maud::Markup;
use model::Clock;
use model::errors::chain;
pub(super) use read_pool::ReadPool;
pub(super) use request_guard::{Closed, check_host, seal};
use sessions::{Use, Visitor};
use shared::Code;
use sign_in::WebSignIn;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{StoreError, View};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The longest time of a read of many rows. A page that waits for its turn is given up later.
const LONG_READ: Duration = Duration::from_secs(20);
/// The longest form, in bytes.
const FORM_BYTES_MAX: usize = 16 * 1024;
/// How long a form may take to arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request may take then until its reply begins.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The state of the pages.
pub struct Web {
    /// The rights of people to answer.
    pub config: Arc<Config>,
    /// The sign-in.
    pub sign_in: Arc<WebSignIn>,
    /// The sender of answers to the broker.
    pub dispatcher: CommandDispatcher,
    /// Where answers go.
    pub reports: EventSender,
    /// Where the ledger lies.
    pub home: std::path::PathBuf,
    /// The changes that pages watch.
    pub changes: Changes,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Says when everything stops.
    pub stop: CancellationToken,
}

/// The same, shared by all requests.
#[derive(Clone)]
struct Shared {
    web: Arc<Web>,
    read_pool: Arc<ReadPool>,
    // For reads of many rows, so that no other page and no external agent waits for one. They wait for each other.
    long_reads: Arc<ReadPool>,
    // The right to make such a read. Who waits for it holds no thread.
    long_turn: Arc<Semaphore>,
    streams: Arc<live::Places>,
}

/// The routes of the inbox.
pub fn router(web: Web) -> Router {
    let read_pool = Arc::new(ReadPool::new(web.home.clone()));
    let long_reads = Arc::new(ReadPool::within(web.home.clone(), LONG_READ));
    let (long_turn, streams) = (Arc::new(Semaphore::new(1)), Arc::default());
    let shared = Shared { web: Arc::new(web), read_pool, long_reads, long_turn, streams };
    let api = Arc::new(Api {
        config: Arc::clone(&shared.web.config),
        dispatcher: shared.web.dispatcher.clone(),
        reports: shared.web.reports.clone(),
        clock: Arc::clone(&shared.web.clock),
        pace: Mutex::default(),
    });
    let agents = external::router(ExternalApi {
        config: Arc::clone(&shared.web.config),
        sign_in: Arc::clone(&shared.web.sign_in),
        dispatcher: shared.web.dispatcher.clone(),
        reports: shared.web.reports.clone(),
        read_pool: Arc::clone(&shared.read_pool),
        clock: Arc::clone(&shared.web.clock),
        pace: Mutex::default(),
        rates: external::Rates::default(),
        places: external::Places::default(),
        under_way: external::UnderWay::default(),
    });
    let pages = Router::new()
        .route("/", get(inbox::page))
        .route("/fragment", get(inbox::fragment))
        .route("/approvals/{reference}", get(inbox::approval))
        .route("/approvals/{reference}/standing", get(inbox::standing))
        .route("/approvals/{reference}/answer", post(decide::answer))
        .route("/hosts/{host}/approvals/{reference}", get(inbox::approval_of_host))
        .route("/hosts/{host}/approvals/{reference}/standing", get(inbox::standing_on_host))
        .route("/hosts/{host}/approvals/{reference}/answer", post(decide::answer_on_host))
        .route("/standing-approvals", get(standing::list))
        .route("/standing-approvals/{name}/end", post(standing::end))
        .route("/activity", get(activity::list))
        .route("/activity/fragment", get(activity::fragment))
        .route("/activity/events", get(activity::events))
        .route("/activity/{group}/{request}", get(activity::story))
        .route("/access", get(access::matrix))
        .route("/access/grant", post(granting::grant))
        .route("/access/{group}/{provider}", get(access::one))
        .route("/access/{group}/{provider}/revoke", post(access::revoke))
        .route("/access/{group}/{provider}/narrow", get(narrow::page).post(narrow::confirm))
        .route("/providers", get(providers::list))
        .route("/flows", get(flows::list))
        .route("/flows/accesses/{vault}/{grant}/revoke", post(flows::revoke))
        .route("/evidence", get(evidence::page))
        .route("/evidence/fragment", get(evidence::fragment))
        .route("/evidence/events", get(evidence::events))
        .route("/evidence/verify", post(evidence::verify))
        .route("/events", get(live::events))
        .route("/sign-in", get(signing::page))
        .route("/sign-in/link", post(signing::with_link))
        .route("/sign-in/token", post(signing::with_token))
        .route("/sign-out", post(signing::out))
        .route("/assets/{name}", get(assets::file))
        .fallback(unknown)
        .layer(from_fn_with_state(shared.clone(), own_pages))
        .with_state(shared.clone());
    Router::new()
        .route("/api/v1/answers", post(api::answer))
        .with_state(api)
        .merge(pages)
        .layer(from_fn_with_state(shared, guard_request))
        .merge(agents)
}

/// Checks every request, and adds the headers of every reply.
async fn guard_request(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let address = shared.web.sign_in.address();
    let is_page = !request.uri().path().starts_with("/api/");
    let mut response = match request_guard::check_host(address, request.uri(), request.headers()) {
        Ok(()) => match whole(shared.noted(request)).await {
            Ok(request) => match tokio::time::timeout(TIMEOUT, next.run(request)).await {
                Ok(response) => response,
                Err(_elapsed) => plain(StatusCode::SERVICE_UNAVAILABLE, "This took too long. Load the page again."),
            },
            Err(response) => response,
        },
        Err(closed) if is_page => plain(closed.status(), closed.words()),
        Err(closed) => api::refused(closed.status(), Code::MalformedRequest, closed.words()),
    };
    request_guard::seal(response.headers_mut());
    response
}

/// Checks the requests to the inbox's own routes: a request with a change must come from a page of ours.
async fn own_pages(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match request_guard::check_origin(shared.web.sign_in.address(), request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(closed) => plain(closed.status(), closed.words()),
    }
}

/// Reads the whole form of a request, or returns the refusal of one that is too long or too slow.
async fn whole(request: Request) -> Result<Request, Response> {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(FORM_TIMEOUT, to_bytes(body, FORM_BYTES_MAX)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(head, Body::from(bytes))),
        Ok(Err(_too_long_or_cut)) => Err(plain(StatusCode::PAYLOAD_TOO_LARGE, "This is too long for a form.")),
        Err(_elapsed) => Err(plain(StatusCode::REQUEST_TIMEOUT, "The form took too long to arrive. Send it again.")),
    }
}

async fn unknown(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let visitor = shared.visitor(&headers, Use::Watch);
    shared.told(
        StatusCode::NOT_FOUND,
        visitor.as_ref(),
        "Not found",
        "There is no such page. Open the inbox, and follow its links.",
    )
}

fn plain(status: StatusCode, words: &'static str) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))], words).into_response()
}

fn html(status: StatusCode, page: Markup) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], Body::from(page.into_string())).into_response()
}

/// Leads on to another page of ours, with a cookie to set.
fn on_to(place: &str, cookie: &str) -> Response {
    let header = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, header(place)), (header::SET_COOKIE, header(cookie))]).into_response()
}

impl Shared {
    /// Returns the request, and notes at its connection if a signed-in person has sent it.
    fn noted(&self, request: Request) -> Request {
        if self.visitor(request.headers(), Use::Watch).is_some() {
            Standing::note_person(&request);
        }
        request
    }

    /// The person who sends this, if they are signed in.
    fn visitor(&self, headers: &HeaderMap, how: Use) -> Option<Visitor> {
        let sign_in = &self.web.sign_in;
        let visitor = sign_in.visitor(request_guard::cookie(sign_in.address(), headers)?, how)?;
        Some(Visitor { audits: self.web.config.audits(&visitor.person), ..visitor })
    }

    /// Returns the person, if they may read what all groups do; otherwise the page to show instead.
    fn auditor(&self, headers: &HeaderMap, place: &str) -> Result<Visitor, Box<Response>> {
        let Some(visitor) = self.visitor(headers, Use::Page) else {
            return Err(Box::new(self.sign_in_first(headers, place)));
        };
        if visitor.audits { Ok(visitor) } else { Err(Box::new(self.no_auditor(&visitor))) }
    }

    fn no_auditor(&self, visitor: &Visitor) -> Response {
        let words = format!(
            "To read this, a person needs `audits = true` or `admin = true` in [people.{}] of broker.toml.",
            visitor.person
        );
        self.told(StatusCode::FORBIDDEN, Some(visitor), "Not permitted", &words)
    }

    /// A page that says one thing.
    fn told(&self, status: StatusCode, visitor: Option<&Visitor>, title: &str, words: &str) -> Response {
        html(status, page::told::page(visitor, self.web.clock.now(), title, words))
    }

    /// Returns the person for a part of a page that renews itself, under the conditions of [`Self::auditor`].
    fn watching_auditor(&self, headers: &HeaderMap) -> Result<Visitor, Box<Response>> {
        let visitor = self.visitor(headers, Use::Watch).ok_or_else(|| Box::new(inbox::stranger()))?;
        if visitor.audits { Ok(visitor) } else { Err(Box::new(self.no_auditor(&visitor))) }
    }

    /// Reads the ledger and makes the reply of it, on a thread that may wait.
    async fn read<T>(
        &self,
        look: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
        show: impl FnOnce(T) -> Response + Send + 'static,
    ) -> Response {
        read_with(&self.read_pool, look, show).await
    }

    /// Does the same for a read of many rows.
    async fn read_long<T>(
        &self,
        look: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
        show: impl FnOnce(T) -> Response + Send + 'static,
    ) -> Response {
        let Ok(turn) = Arc::clone(&self.long_turn).acquire_owned().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "The broker stops.");
        };
        // A client that leaves does not end the read, so the turn stays with it.
        let look = move |view: &View| {
            let _turn = turn;
            look(view)
        };
        read_with(&self.long_reads, look, show).await
    }
}

async fn read_with<T>(
    read_pool: &Arc<ReadPool>,
    look: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
    show: impl FnOnce(T) -> Response + Send + 'static,
) -> Response {
    let read_pool = Arc::clone(read_pool);
    let made = tokio::task::spawn_blocking(move || read_pool.look(look).map(show)).await;
    match made {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::warn!(error = chain(&error), "the inbox cannot read the ledger");
            plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "The ledger cannot be read just now, or the read took too long. Choose a shorter time, or try again; for \
                 the reason: host-broker logs",
            )
        }
        Err(error) => {
            tracing::error!(%error, "a page of the inbox could not be made");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "This page could not be made. For the reason: host-broker logs")
        }
    }
}
