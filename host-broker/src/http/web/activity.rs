//! The calls of all groups, and the story of one, for people who audit.

use super::{Shared, html, page};
use crate::http::web::sessions::Visitor;
use crate::story::Story;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use shared::{Group, Provider, RequestId};
use store::View;
use store::ledger::calls::{self, CallRecord, Filter};
use store::{StoreError, ledger::export};

/// The path of the page.
const PATH: &str = "/activity";
/// The calls of one page.
pub(super) const CALLS_MAX: u32 = 100;
/// The states that can be filtered.
pub(super) const STATES: [&str; 6] = ["waiting", "authorized", "denied", "executed", "failed", "timeout"];

/// The filter of the page, as its form sends it. An empty field filters nothing.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Wanted {
    /// The group.
    pub(super) group: String,
    /// The provider.
    pub(super) provider: String,
    /// The state.
    pub(super) status: String,
    /// The number before which the page begins, for older calls.
    pub(super) before: i64,
}

impl Wanted {
    /// Returns the filter for the ledger, or the name of the field that is no name.
    fn filter(&self) -> Result<Filter, &'static str> {
        let group = named::<Group>(&self.group).map_err(|()| "group")?;
        let provider = named::<Provider>(&self.provider).map_err(|()| "provider")?;
        let status = Some(self.status.clone()).filter(|status| !status.is_empty());
        if status.as_deref().is_some_and(|status| !STATES.contains(&status)) {
            return Err("state");
        }
        Ok(Filter { group, provider, status, before: self.before.max(0), ..Filter::default() })
    }
}

/// Returns the name in a field; `None` if the field is empty.
fn named<T: std::str::FromStr>(text: &str) -> Result<Option<T>, ()> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_no_name| ()) }
}

/// A call, and the person for whom it was made.
pub(super) type Listed = (CallRecord, Option<String>);

/// `GET /activity`
pub(super) async fn list(
    State(shared): State<Shared>,
    headers: HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let (wanted, filter) = match checked(&shared, &visitor, wanted) {
        Ok(checked) => checked,
        Err(refused) => return *refused,
    };
    let now = shared.web.clock.now();
    let config = std::sync::Arc::clone(&shared.web.config);
    let show =
        move |found: Vec<Listed>| html(StatusCode::OK, page::activity::page(&visitor, now, &wanted, &config, &found));
    shared.read(move |ledger| latest(ledger, &filter), show).await
}

/// `GET /activity/fragment`: the part of the page that renews itself.
pub(super) async fn fragment(
    State(shared): State<Shared>,
    headers: HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let visitor = match shared.watching_auditor(&headers) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let (wanted, filter) = match checked(&shared, &visitor, wanted) {
        Ok(checked) => checked,
        Err(refused) => return *refused,
    };
    let show = move |found: Vec<Listed>| html(StatusCode::OK, page::activity::fragment(&wanted, &found));
    shared.read(move |ledger| latest(ledger, &filter), show).await
}

/// `GET /activity/GROUP/REQUEST`
pub(super) async fn story(
    State(shared): State<Shared>,
    Path((group, request)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let missing = (StatusCode::NOT_FOUND, "Not here", "The ledger has no such request.");
    let told = |visitor: &Visitor| shared.told(missing.0, Some(visitor), missing.1, missing.2);
    let Ok(id) = request.parse::<RequestId>() else { return told(&visitor) };
    // A caller that is no group, such as an agent outside, has no name of that form; its requests are found by their id.
    let group = group.parse::<Group>().ok();
    let now = shared.web.clock.now();
    let here = shared.clone();
    let name = id.to_string();
    let show = move |found: Option<Story>| match found {
        Some(story) => html(StatusCode::OK, page::activity::story(&visitor, now, &name, &story)),
        None => here.told(missing.0, Some(&visitor), missing.1, missing.2),
    };
    shared.read(move |ledger| Story::read(ledger, &id, group.as_ref()), show).await
}

fn checked(
    shared: &Shared,
    visitor: &Visitor,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<(Wanted, Filter), Box<Response>> {
    let told = |words: &str| Box::new(shared.told(StatusCode::BAD_REQUEST, Some(visitor), "Nothing to show", words));
    let Query(wanted) = wanted.map_err(|_rejection| told("The address has a filter that this page does not know."))?;
    let filter = wanted.filter().map_err(|field| told(&format!("The {field} in the address is not valid.")))?;
    Ok((wanted, filter))
}

/// Returns the latest calls, newest first.
fn latest(ledger: &View, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
    let mut found = calls::list(ledger, filter, CALLS_MAX)?;
    found.reverse();
    let person = |record: CallRecord| {
        let person = export::row(ledger, record.id)?.and_then(|row| row.person);
        Ok((record, person))
    };
    found.into_iter().map(person).collect()
}
