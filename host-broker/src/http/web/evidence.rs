//! The ledger as evidence, for people who audit: its end, its verification, its growth and its place on the disk.

use super::{Shared, html, last_day, page};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use shared::Timestamp;
use std::time::Duration;
use store::ledger::chain::Row;
use store::ledger::figures::{Sizes, free_bytes, sizes};
use store::ledger::health::Health;
use store::ledger::segments::{self, Segment};
use store::ledger::{export, recent};
use store::{StoreError, View};

/// The path of the page.
const PATH: &str = "/evidence";

/// The part of the page that renews itself.
pub(super) struct LedgerState {
    /// The last row.
    pub(super) head: Option<Row>,
    /// The state of the running daemon's ledger.
    pub(super) health: Health,
}

/// The content of the page.
pub(super) struct EvidencePage {
    /// The part that renews itself.
    pub(super) present: LedgerState,
    /// The number of rows in each part of the last day.
    pub(super) rows: Vec<u64>,
    /// The segments, oldest first.
    pub(super) segments: Vec<Segment>,
    /// The bytes of the files.
    pub(super) sizes: Sizes,
    /// The free bytes of the disk.
    pub(super) free: Option<u64>,
}

/// `GET /evidence`
pub(super) async fn page(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let (now, here) = (shared.web.clock.now(), shared.clone());
    let (home, health) = (shared.web.home.clone(), shared.web.dispatcher.health.borrow().clone());
    let look = move |ledger: &View| {
        let Found { head, rows, segments } = ledger.at_one_moment(|ledger| find(ledger, now))?;
        let present = LedgerState { head, health };
        Ok(EvidencePage { present, rows, segments, sizes: sizes(&home), free: free_bytes(&home) })
    };
    let show = move |evidence: EvidencePage| {
        html(StatusCode::OK, page::evidence::page(&visitor, now, &here.web.config.broker, &evidence))
    };
    shared.read_long(look, show).await
}

/// `GET /evidence/fragment`
pub(super) async fn fragment(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if let Err(refused) = shared.watching_auditor(&headers) {
        return *refused;
    }
    let (now, health) = (shared.web.clock.now(), shared.web.dispatcher.health.borrow().clone());
    let show = move |head| html(StatusCode::OK, page::evidence::fragment(now, &LedgerState { head, health }));
    shared.read(export::last, show).await
}

/// The result of one look into the ledger.
struct Found {
    head: Option<Row>,
    rows: Vec<u64>,
    segments: Vec<Segment>,
}

fn find(ledger: &View, now: Timestamp) -> Result<Found, StoreError> {
    // Rows of this very moment belong to the last part.
    let times: Vec<Timestamp> = last_day::parts(now).chain([now.plus(Duration::from_millis(1))]).collect();
    let (head, rows) = (export::last(ledger)?, recent::rows_between(ledger, &times)?);
    Ok(Found { head, rows, segments: segments::list(ledger)? })
}
