//! The calls of all groups, and the story of one, for people who audit.

use super::live::{self, Subject};
use super::{Shared, html, page};
use crate::http::web::sessions::Visitor;
use crate::story::Story;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use shared::{Action, Code, Group, Provider, RequestId, Timestamp};
use std::time::Duration;
use store::View;
use store::ledger::calls::{self, CallRecord, Filter};
use store::{StoreError, ledger::export};

/// The path of the page.
const PATH: &str = "/activity";
/// The calls of one page.
pub(super) const CALLS_MAX: u32 = 100;
/// The shortest time between two renewals of a search, which can read many rows.
const SEARCH_GAP: Duration = Duration::from_secs(5);
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
    /// The request id.
    pub(super) request: String,
    /// The action.
    pub(super) action: String,
    /// The person for whom the calls were made.
    pub(super) person: String,
    /// The reason code.
    pub(super) code: String,
    /// The first time, in UTC.
    pub(super) from: String,
    /// The time before which the calls were made, in UTC.
    pub(super) until: String,
    /// The number before which the page begins, for older calls.
    pub(super) before: i64,
}

impl Wanted {
    /// Returns the fields of a search: the name of each, and its value.
    pub(super) fn search(&self) -> [(&'static str, &str); 6] {
        [
            ("request", &self.request),
            ("action", &self.action),
            ("person", &self.person),
            ("code", &self.code),
            ("from", &self.from),
            ("until", &self.until),
        ]
    }

    /// Checks whether the page searches, or filters: both can read many rows.
    pub(super) fn searches(&self) -> bool {
        let filters = [&self.group, &self.provider, &self.status].into_iter().any(|value| !value.is_empty());
        filters || self.search().iter().any(|(_, value)| !value.is_empty())
    }

    /// Returns the filter for the ledger, or the name of the field that is no name.
    fn filter(&self) -> Result<Filter, &'static str> {
        let group = named::<Group>(&self.group).map_err(|()| "group")?;
        let provider = named::<Provider>(&self.provider).map_err(|()| "provider")?;
        let status = Some(self.status.clone()).filter(|status| !status.is_empty());
        if status.as_deref().is_some_and(|status| !STATES.contains(&status)) {
            return Err("state");
        }
        let request_id = named::<RequestId>(&self.request).map_err(|()| "request id")?;
        let action = named::<Action>(&self.action).map_err(|()| "action")?;
        let reason = named::<Code>(&self.code).map_err(|()| "reason code")?;
        let person = Some(self.person.trim().to_owned()).filter(|person| !person.is_empty());
        let since = moment(&self.from).map_err(|()| "first time")?;
        let until = moment(&self.until).map_err(|()| "last time")?;
        let before = self.before.max(0);
        Ok(Filter { group, provider, status, after: 0, before, request_id, action, person, reason, since, until })
    }
}

/// Returns the text of a time as a field for times takes it; empty if it is no time.
pub(super) fn local(text: &str) -> String {
    let at = moment(text).ok().flatten();
    at.map(|at| at.to_string().chars().take(19).collect()).unwrap_or_default()
}

/// Returns the time in a field. Without a zone, as a browser sends it, it is in UTC.
fn moment(text: &str) -> Result<Option<Timestamp>, ()> {
    let text = text.trim();
    let read = |text: String| text.parse::<Timestamp>().ok();
    match text {
        "" => Ok(None),
        _ => read(text.to_owned())
            .or_else(|| read(format!("{text}Z")))
            .or_else(|| read(format!("{text}:00Z")))
            .map(Some)
            .ok_or(()),
    }
}

/// Returns the name in a field; `None` if the field is empty.
fn named<T: std::str::FromStr>(text: &str) -> Result<Option<T>, ()> {
    let text = text.trim();
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
    let (now, searches) = (shared.web.clock.now(), wanted.searches());
    let config = std::sync::Arc::clone(&shared.web.config);
    let show =
        move |found: Vec<Listed>| html(StatusCode::OK, page::activity::page(&visitor, now, &wanted, &config, &found));
    read(&shared, searches, filter, show).await
}

/// Reads the calls. A search can read many rows, so no other page waits for it.
async fn read(
    shared: &Shared,
    searches: bool,
    filter: Filter,
    show: impl FnOnce(Vec<Listed>) -> Response + Send + 'static,
) -> Response {
    let look = move |ledger: &View| latest(ledger, &filter);
    if searches { shared.read_long(look, show).await } else { shared.read(look, show).await }
}

/// `GET /activity/fragment`: the part of the page that renews itself.
pub(super) async fn fragment(
    State(shared): State<Shared>,
    headers: HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let (_, wanted, filter) = match watched(&shared, &headers, wanted) {
        Ok(watched) => watched,
        Err(refused) => return *refused,
    };
    let searches = wanted.searches();
    let show = move |found: Vec<Listed>| html(StatusCode::OK, page::activity::fragment(&wanted, &found));
    read(&shared, searches, filter, show).await
}

/// `GET /activity/events`: says when rows were written.
pub(super) async fn events(
    State(shared): State<Shared>,
    headers: HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let (visitor, wanted, _) = match watched(&shared, &headers, wanted) {
        Ok(watched) => watched,
        Err(refused) => return *refused,
    };
    let gap = if wanted.searches() { SEARCH_GAP } else { live::ROWS_GAP };
    let subject = Subject::rows(&shared);
    live::stream(shared, (&headers, visitor), subject, gap)
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
    let missing = (StatusCode::NOT_FOUND, "Not found", "The ledger has no such request.");
    let told = |visitor: &Visitor| shared.told(missing.0, Some(visitor), missing.1, missing.2);
    let Ok(id) = request.parse::<RequestId>() else { return told(&visitor) };
    // A caller that is no group, such as an external agent, has no name of that form; its requests are found by their id.
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

/// Returns the person who watches, and the calls that the address wants.
fn watched(
    shared: &Shared,
    headers: &HeaderMap,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<(Visitor, Wanted, Filter), Box<Response>> {
    let visitor = shared.watching_auditor(headers)?;
    let (wanted, filter) = checked(shared, &visitor, wanted)?;
    Ok((visitor, wanted, filter))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_zone_is_in_utc_and_an_empty_field_filters_nothing() {
        let at: Timestamp = "2026-02-14T10:37:00Z".parse().unwrap();
        for text in ["2026-02-14T10:37", "2026-02-14T10:37:00", " 2026-02-14T10:37:00Z ", "2026-02-14T11:37:00+01:00"] {
            assert_eq!(moment(text), Ok(Some(at)), "{text}");
        }
        assert_eq!((local("2026-02-14T10:37:05.123Z"), local("soon")), ("2026-02-14T10:37:05".into(), String::new()));
        assert_eq!(moment(" "), Ok(None));
        for text in ["10:37", "2026-02-14", "yesterday"] {
            assert_eq!(moment(text), Err(()), "{text}");
        }
        let none = Wanted::default().filter().unwrap();
        assert!(none.request_id.is_none() && none.person.is_none() && none.since.is_none() && none.reason.is_none());
        let odd = |code: &str, request: &str| {
            Wanted { code: code.to_owned(), request: request.to_owned(), ..Wanted::default() }.filter().unwrap_err()
        };
        assert_eq!((odd("often", ""), odd("", "../x")), ("reason code", "request id"));
    }
}
