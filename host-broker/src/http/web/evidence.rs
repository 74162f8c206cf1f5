//! The ledger as evidence, for people who audit: its end, its verification, its growth and its place on the disk.

use super::ending::{FormWords, of_session};
use super::live::{self, Subject};
use super::{Shared, html, last_day, page};
use crate::daemon::{Message, VerificationAnswer};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use shared::Timestamp;
use std::path::Path;
use std::time::Duration;
use store::ledger::chain::Row;
use store::ledger::checkpoints::{self, Last};
use store::ledger::figures::{Sizes, free_bytes, sizes};
use store::ledger::health::Health;
use store::ledger::segments::{self, Segment};
use store::ledger::{export, recent};
use store::{StoreError, View};
use tokio::sync::oneshot;

/// The path of the page.
const PATH: &str = "/evidence";

const WORDS: FormWords = FormWords {
    done: "A verification runs",
    nothing: "No verification was started",
    unknown: "It is not known whether a verification was started",
    missing: "There is no such page.",
};

/// The form that starts a verification.
#[derive(Deserialize)]
pub(super) struct VerifyForm {
    // Of the session.
    form: String,
}

/// The part of the page that renews itself.
pub(super) struct LedgerState {
    /// The last row.
    pub(super) head: Option<Row>,
    /// The last checkpoint and its row, if it can be read.
    pub(super) checkpoint: Option<Last>,
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
        let checkpoint = last_checkpoint(&home, ledger);
        let present = LedgerState { head, checkpoint, health };
        Ok(EvidencePage { present, rows, segments, sizes: sizes(&home), free: free_bytes(&home) })
    };
    let show = move |evidence: EvidencePage| {
        html(StatusCode::OK, page::evidence::page(&visitor, now, &here.web.config.broker, &evidence))
    };
    shared.read_long(look, show).await
}

/// `GET /evidence/fragment`
pub(super) async fn fragment(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let visitor = match shared.watching_auditor(&headers) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let (now, health) = (shared.web.clock.now(), shared.web.dispatcher.health.borrow().clone());
    let home = shared.web.home.clone();
    let look = move |ledger: &View| {
        let (head, checkpoint) = (export::last(ledger)?, last_checkpoint(&home, ledger));
        Ok(LedgerState { head, checkpoint, health })
    };
    let show = move |present| html(StatusCode::OK, page::evidence::fragment(&visitor, now, &present));
    shared.read(look, show).await
}

/// `GET /evidence/events`: says when rows were written, or the state of the ledger has changed.
pub(super) async fn events(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let visitor = match shared.watching_auditor(&headers) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let subject = Subject::evidence(&shared);
    live::stream(shared, (&headers, visitor), subject, live::ROWS_GAP)
}

/// `POST /evidence/verify`: starts a verification of all rows. It changes nothing, so it takes the right to read and has
/// no row.
pub(super) async fn verify(
    State(shared): State<Shared>,
    headers: HeaderMap,
    form: Result<Form<VerifyForm>, FormRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    if let Err(refused) = of_session(&shared, &visitor, form, |form| &form.form, &WORDS) {
        return *refused;
    }
    let (sender, answer) = oneshot::channel();
    shared.web.reports.send(Message::Verify(sender));
    let answer = answer.await;
    let told = |status, sentence: &str| shared.told(status, Some(&visitor), WORDS.nothing, sentence);
    match answer {
        Ok(VerificationAnswer::Runs) => {
            tracing::info!(person = %visitor.person, "a person has all rows of the ledger verified");
            (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static(PATH))]).into_response()
        }
        Ok(VerificationAnswer::Later(from)) => {
            // The sentence has whole seconds. It never names a time that is too early.
            let from = from.plus(Duration::from_millis(999)).clock();
            let sentence = format!("The last verification has just ended. Start another one at {from} or later.");
            told(StatusCode::TOO_MANY_REQUESTS, &sentence)
        }
        Ok(VerificationAnswer::NoThread) => told(
            StatusCode::SERVICE_UNAVAILABLE,
            "The system starts no thread for it. For the reason: host-broker logs",
        ),
        Err(_gone) => told(StatusCode::SERVICE_UNAVAILABLE, "The broker stops. Try again when it has started."),
    }
}

/// Returns the last checkpoint. The page of a ledger with a damaged one shows that by its verification.
fn last_checkpoint(home: &Path, ledger: &View) -> Option<Last> {
    checkpoints::last(home, ledger).ok().flatten()
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
