//! Reads of Google Calendar: its calendars, and events with their occurrences.
//!
//! The bytes of all pages of one list are bounded together, and so is their number.

use crate::api::{Found, Occurrences, Present};
use crate::client::{EVENT_BYTES_MAX, Session};
use crate::content_lines::{Component, Line};
use crate::failures::{no_occurrence, unusable};
use crate::google::Root;
use crate::google_event::Item;
use crate::moment::Moment;
use crate::query::Window;
use crate::reference::{CalendarId, EventId, Occurrence, segment};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use http::{HeaderMap, StatusCode};
use provider::contract::Failure;
use provider::remote::AtMost;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use shared::limits::RESULT_BYTES_MAX;
use url::Url;

/// The most pages of one list that are read. A page can be empty and name a next one.
const PAGES_MAX: usize = 10;
/// The most entries of a page. Google gives no more.
const PAGE_MAX: usize = 2500;
/// The longest name of a next page that is sent back.
const TOKEN_BYTES_MAX: usize = 2048;

/// One page of a list, as it came.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPage<'a> {
    #[serde(borrow, default)]
    items: AtMost<&'a RawValue, PAGE_MAX>,
    next_page_token: Option<String>,
}

/// One page of a list. An entry that cannot be read hides no other.
struct Page<T> {
    items: Vec<T>,
    unreadable: usize,
    next: Option<String>,
}

impl<T: DeserializeOwned> Page<T> {
    fn read(body: &[u8]) -> Option<Self> {
        let RawPage { items, next_page_token } = serde_json::from_slice(body).ok()?;
        let all = items.0.len();
        let items: Vec<T> = items.0.into_iter().filter_map(|entry| serde_json::from_str(entry.get()).ok()).collect();
        Some(Self { unreadable: all - items.len(), items, next: next_page_token })
    }
}

/// A calendar in the list of an account.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedCalendar {
    id: String,
    summary: Option<String>,
    summary_override: Option<String>,
    #[serde(default)]
    primary: bool,
    access_role: Option<String>,
}

impl Root {
    /// Returns the calendars in the list of the account, and the number of those that cannot be read. The main one has the
    /// name `primary` in each account.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn calendars(&self, session: &Session<'_>) -> Result<(Vec<Found>, usize), Failure> {
        let mut url = self.below("users/me/calendarList")?;
        url.query_pairs_mut().append_pair("maxResults", "250");
        let (calendars, mut unreadable) = pages::<ListedCalendar>(session, &url).await?;
        let all = calendars.len();
        let found = calendars.into_iter().filter_map(|calendar| {
            let id = if calendar.primary { "primary".to_owned() } else { segment(&calendar.id)? };
            let is_changeable = matches!(calendar.access_role.as_deref(), Some("owner" | "writer"));
            let name = calendar.summary_override.or(calendar.summary);
            Some(Found { id: id.try_into().ok()?, name, is_changeable })
        });
        let mut found: Vec<Found> = found.collect();
        unreadable += all - found.len();
        found.sort_by(|one, other| one.id.cmp(&other.id));
        found.dedup_by(|one, other| one.id == other.id);
        Ok((found, unreadable))
    }

    /// Reads the events of a time. The request is one day longer on both sides: Google places whole days in the zone of the
    /// calendar.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn occurrences(
        &self,
        session: &Session<'_>,
        id: &CalendarId,
        window: Window,
    ) -> Result<Occurrences, Failure> {
        const FIELDS: &str = "nextPageToken,items(id,status,summary,description,location,start,end,recurringEventId,\
                              originalStartTime)";
        let mut url = self.events(id)?;
        url.query_pairs_mut()
            .append_pair("singleEvents", "true")
            .append_pair("orderBy", "startTime")
            .append_pair("timeMin", &instant(window.from - TimeDelta::days(1)))
            .append_pair("timeMax", &instant(window.to + TimeDelta::days(1)))
            .append_pair("maxResults", "250")
            .append_pair("fields", FIELDS);
        let (items, unreadable) = pages::<Item>(session, &url).await?;
        let id = id.clone();
        let read = move || {
            let mut found = Occurrences { events: Vec::new(), unreadable };
            for item in items.iter().filter(|item| !item.is_cancelled()) {
                let name = segment(item.recurring_event_id.as_ref().unwrap_or(&item.id));
                let event = name.and_then(|name| EventId::new(id.clone(), name).ok());
                match (event, item.component("")) {
                    (Some(event), Some(component)) => found.events.push((event, object([component]))),
                    (Some(_) | None, _) => found.unreadable += 1,
                }
            }
            Ok(found)
        };
        session.calendar.parse(read).await
    }

    /// Reads an event: with the occurrence that is asked for, or else with all that somebody has changed.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn present(
        &self,
        session: &Session<'_>,
        id: &EventId,
        occurrence: Option<Occurrence>,
    ) -> Result<Option<Present>, Failure> {
        let Some(event) = self.item(session, id).await? else { return Ok(None) };
        if event.recurring_event_id.is_some() {
            let message = format!("The event {id} is one occurrence. Name its series, and the occurrence.");
            return Err(Failure::Refused { message });
        }
        let bad = || unusable("is no event");
        let mut series = event.component(&event.id).ok_or_else(bad)?;
        let Some(occurrence) = occurrence else {
            let Exceptions { skipped, changed, unreadable } =
                if event.is_series() { self.exceptions(session, id, &event).await? } else { Exceptions::default() };
            for line in skipped {
                series.push(line);
            }
            let object = object(std::iter::once(series).chain(changed));
            let resource = id.clone();
            return Ok(Some(Present { etag: event.etag, object, occurrence: None, resource, unreadable }));
        };
        let own = if event.is_series() { self.instance(session, id, &event, occurrence).await? } else { None };
        let own = own.ok_or_else(|| no_occurrence(id, occurrence))?;
        // SECURITY: a change is made to the resource of this id, so it is no other event's.
        if !is_occurrence_of(&own.id, &event.id) {
            return Err(unusable("names an occurrence of another series"));
        }
        let component = own.component(&event.id).ok_or_else(bad)?;
        let name = segment(&own.id).ok_or_else(bad)?;
        let resource = EventId::new(id.calendar.clone(), name).map_err(|_bad| bad())?;
        let object = object([series, component]);
        Ok(Some(Present { etag: own.etag, object, occurrence: Some(occurrence), resource, unreadable: 0 }))
    }

    /// Reads one resource, as an object; `None` if there is none.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn resource(&self, session: &Session<'_>, id: &EventId) -> Result<Option<Component>, Failure> {
        let item = self.item(session, id).await?;
        Ok(item.map(|item| object(item.component(&item.id))))
    }

    /// Reads one event or occurrence. Google keeps deleted ones for a while, as cancelled.
    async fn item(&self, session: &Session<'_>, id: &EventId) -> Result<Option<Item>, Failure> {
        let answer = session.ask("GET", &self.event(id)?, HeaderMap::new(), "", EVENT_BYTES_MAX).await?;
        match answer.status {
            StatusCode::OK => {
                let read = move || {
                    serde_json::from_slice::<Item>(&answer.body).map_err(|_bad| unusable("is no event of Google"))
                };
                let item = session.calendar.parse(read).await?;
                // A change is made to the event that was asked for.
                if segment(&item.id).as_ref() != Some(&id.name) {
                    return Err(unusable("is another event"));
                }
                Ok(Some(item).filter(|item| !item.is_cancelled()))
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            _ => Err(session.not_expected(&answer)),
        }
    }

    /// Finds one occurrence of a series: among those at its first start, and then, if somebody has moved it, by that start.
    async fn instance(
        &self,
        session: &Session<'_>,
        id: &EventId,
        series: &Item,
        occurrence: Occurrence,
    ) -> Result<Option<Item>, Failure> {
        let at = occurrence.0.instant(session.calendar.settings.time_zone.tz());
        let (from, to) = (instant(at - TimeDelta::days(1)), instant(at + TimeDelta::days(1)));
        let key = occurrence.0.key();
        for pairs in [[("timeMin", &from), ("timeMax", &to)].as_slice(), &[("originalStart", &key)]] {
            let mut url = self.below(&format!("calendars/{}/events/{}/instances", id.calendar, id.name))?;
            url.query_pairs_mut().extend_pairs(pairs).append_pair("maxResults", "50");
            let (items, _) = pages::<Item>(session, &url).await?;
            let is_own = |item: &Item| {
                item.recurring_event_id.as_ref() == Some(&series.id)
                    && !item.is_cancelled()
                    && item.original_start().map(Moment::key).as_ref() == Some(&key)
            };
            if let Some(item) = items.into_iter().find(is_own) {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Reads the occurrences of a series that were deleted or changed. A list without `singleEvents` has both.
    async fn exceptions(&self, session: &Session<'_>, id: &EventId, series: &Item) -> Result<Exceptions, Failure> {
        const FIELDS: &str = "nextPageToken,items(id,status,start,recurringEventId,originalStartTime,\
                              attendees(email,responseStatus),attendeesOmitted)";
        let uid = series.ical_uid.as_ref().ok_or_else(|| unusable("names no UID of the series"))?;
        let mut url = self.events(&id.calendar)?;
        url.query_pairs_mut()
            .append_pair("iCalUID", uid)
            .append_pair("singleEvents", "false")
            .append_pair("maxResults", "2500")
            .append_pair("fields", FIELDS);
        let (items, unreadable) = pages::<Item>(session, &url).await?;
        let of = series.id.clone();
        let read = move || {
            let mut found = Exceptions { unreadable, ..Exceptions::default() };
            for item in items.iter().filter(|item| item.recurring_event_id.as_ref() == Some(&of)) {
                match (item.original_start(), item.is_cancelled()) {
                    (Some(first), true) => found.skipped.push(first.line("EXDATE")),
                    (Some(_), false) => match item.component(&of) {
                        Some(component) => found.changed.push(component),
                        None => found.unreadable += 1,
                    },
                    (None, _) => found.unreadable += 1,
                }
            }
            Ok(found)
        };
        session.calendar.parse(read).await
    }
}

/// The occurrences of a series that are not as its rule has them.
#[derive(Default)]
struct Exceptions {
    /// The deleted ones.
    skipped: Vec<Line>,
    /// The changed ones.
    changed: Vec<Component>,
    /// The number of those that cannot be read.
    unreadable: usize,
}

/// Returns whether an id is that of an occurrence: the id of the series and the first start, `standup_20261208T090000Z`.
///
/// The rest of a series that somebody has split at a start is a series `standup_R20261208T090000`. Its occurrences keep the
/// id of the first series.
fn is_occurrence_of(id: &str, series: &str) -> bool {
    let is_start = |text: &str| {
        let (day, time) = text.split_once('T').map_or((text, None), |(day, time)| (day, Some(time)));
        let is_number = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number(day, 8) && time.is_none_or(|time| is_number(time.strip_suffix('Z').unwrap_or(time), 6))
    };
    let of = |series: &str| id.strip_prefix(series).and_then(|rest| rest.strip_prefix('_')).is_some_and(is_start);
    of(series) || series.rsplit_once("_R").is_some_and(|(first, start)| is_start(start) && of(first))
}

/// Returns an object of these events.
fn object(events: impl IntoIterator<Item = Component>) -> Component {
    let mut object = Component::new("VCALENDAR");
    for event in events {
        object.push_component(event);
    }
    object
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Reads all pages of a list, and counts the entries that cannot be read.
async fn pages<T: DeserializeOwned + Send + 'static>(
    session: &Session<'_>,
    url: &Url,
) -> Result<(Vec<T>, usize), Failure> {
    let (mut items, mut unreadable, mut left) = (Vec::new(), 0, RESULT_BYTES_MAX);
    let mut next = url.clone();
    for _ in 0..PAGES_MAX {
        let answer = session.ask("GET", &next, HeaderMap::new(), "", left).await?;
        if answer.status != StatusCode::OK {
            return Err(session.not_expected(&answer));
        }
        left = left.saturating_sub(answer.body.len());
        let read = move || Page::<T>::read(&answer.body).ok_or_else(|| unusable("is not that of Google Calendar"));
        let mut page = session.calendar.parse(read).await?;
        items.append(&mut page.items);
        unreadable += page.unreadable;
        let Some(token) = page.next.filter(|token| !token.is_empty()) else {
            return Ok((items, unreadable));
        };
        if token.len() > TOKEN_BYTES_MAX {
            return Err(unusable("names a next page that is too long"));
        }
        next = url.clone();
        next.query_pairs_mut().append_pair("pageToken", &token);
    }
    let message = format!("The list has more than {PAGES_MAX} pages. Ask for a shorter time or one calendar.");
    Err(Failure::Refused { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_occurrence_has_the_id_of_its_series_and_its_first_start() {
        for (id, series) in [
            ("standup_20261208T090000Z", "standup"),
            ("standup_20261208", "standup"),
            ("standup_20261208T090000Z", "standup_R20261201T090000"),
            ("standup_R20261201T090000_20261208T090000Z", "standup_R20261201T090000"),
        ] {
            assert!(is_occurrence_of(id, series), "{id}");
        }
        for (id, series) in [
            ("standup", "standup"),
            ("standup_", "standup"),
            ("standup_2026120", "standup"),
            ("standup_20261208T0900Z", "standup"),
            ("standup2_20261208", "standup"),
            ("review_20261208", "standup"),
            ("standup_x_20261208", "standup"),
            ("standup_20261208", "standup_R"),
            ("standup_20261208", "standup_Rx"),
        ] {
            assert!(!is_occurrence_of(id, series), "{id} {series}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_read_hides_no_other() {
        let page = r#"{"items":[{"id":"a"},{"id":1},[],null,{"id":"b","start":{"date":7}}],"nextPageToken":"n"}"#;
        let page = Page::<Item>::read(page.as_bytes()).unwrap();
        assert_eq!((page.items.len(), page.unreadable, page.next.as_deref()), (1, 4, Some("n")));
        let many = format!(r#"{{"items":[{}7]}}"#, "7,".repeat(PAGE_MAX));
        assert!(Page::<Item>::read(many.as_bytes()).is_none());
        assert!(Page::<Item>::read(br#"{"nextPageToken":""}"#).unwrap().items.is_empty());
    }
}
