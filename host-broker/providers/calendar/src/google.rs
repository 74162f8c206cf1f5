//! Google Calendar over its API, version 3 (<https://developers.google.com/workspace/calendar/api/v3/reference>).
//!
//! SECURITY: each id is one segment of a path, as in [`reference`](crate::reference).

use crate::api::{Draft, Effect, Present, UNREAD};
use crate::failures::unknown;
use crate::google_event::{self, Item};
use crate::occurrence::{changed, whole};
use crate::reference::{CalendarId, EventId, segment};
use provider::contract::Failure;
use url::Url;

/// The address of the API, which ends with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root(Url);

/// Checks that an answer to a creation or to a change is that of the event. A new event has the id that was sent.
///
/// # Errors
/// [`Failure::Unknown`]: it names another event, or none. The event is then looked for by its own id.
pub(crate) fn confirmed(resource: &EventId, answer: &[u8]) -> Result<(), Failure> {
    let item = serde_json::from_slice::<Item>(answer).ok();
    let is_it = item.is_some_and(|item| segment(&item.id).as_ref() == Some(&resource.name));
    if is_it { Ok(()) } else { Err(unknown("The calendar server's answer names another event, or none.")) }
}

impl Root {
    /// Takes the address of the API.
    pub(crate) fn new(mut address: Url) -> Self {
        if !address.path().ends_with('/') {
            address.set_path(&format!("{}/", address.path()));
        }
        Self(address)
    }

    /// Returns an address below the root.
    ///
    /// SECURITY: the address is exactly the root and the names behind it, however a library reads them.
    ///
    /// # Errors
    /// [`Failure::Refused`]: the path cannot stand there.
    pub(crate) fn below(&self, path: &str) -> Result<Url, Failure> {
        let expected = format!("{}{path}", self.0.path());
        let mut url = self.0.clone();
        url.set_path(&expected);
        let unusable = || Failure::Refused { message: "The id of the calendar or of the event cannot be used.".into() };
        if url.path() == expected { Ok(url) } else { Err(unusable()) }
    }

    /// Returns the address of the events of a calendar.
    ///
    /// # Errors
    /// [`Failure::Refused`], as [`below`](Self::below).
    pub(crate) fn events(&self, id: &CalendarId) -> Result<Url, Failure> {
        self.below(&format!("calendars/{id}/events"))
    }

    /// Returns the address of an event, or of one occurrence.
    ///
    /// # Errors
    /// [`Failure::Refused`], as [`below`](Self::below).
    pub(crate) fn event(&self, id: &EventId) -> Result<Url, Failure> {
        self.below(&format!("calendars/{}/events/{}", id.calendar, id.name))
    }

    /// Returns the request of a change. Guests are written to only about an event that has some, which an operator allows.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub(crate) fn draft(
        &self,
        event: &EventId,
        present: Option<&Present>,
        effect: Effect,
    ) -> Result<Draft, &'static str> {
        const BAD: &str = "The id of the calendar or of the event cannot be used.";
        let has_guests = present.is_some_and(|present| present.object.has_anywhere("ATTENDEE"));
        let addressed = |url: Result<Url, Failure>| {
            let mut url = url.map_err(|_bad| BAD)?;
            url.query_pairs_mut().append_pair("sendUpdates", if has_guests { "all" } else { "none" });
            Ok::<String, &'static str>(url.into())
        };
        let content_type = ("content-type".to_owned(), "application/json; charset=utf-8".to_owned());
        let bound = || {
            let present = present.ok_or(UNREAD)?;
            let etag = present.if_match().ok_or(UNREAD)?;
            Ok::<_, &'static str>((present, etag, addressed(self.event(&present.resource))?))
        };
        Ok(match effect {
            Effect::Create(object) => {
                let body = google_event::whole(&event.name, whole(&object).ok_or(UNREAD)?)?.to_string();
                let url = addressed(self.events(&event.calendar))?;
                Draft { method: "POST", url, headers: vec![content_type], body }
            }
            Effect::Replace(object) => {
                let (present, etag, url) = bound()?;
                let own = |object| match present.occurrence {
                    Some(occurrence) => changed(object, occurrence),
                    None => whole(object),
                };
                let (before, after) = (own(&present.object).ok_or(UNREAD)?, own(&object).ok_or(UNREAD)?);
                let body = google_event::patch(before, after)?.to_string();
                Draft { method: "PATCH", url, headers: vec![content_type, etag], body }
            }
            Effect::Delete | Effect::Skip(_) => {
                let (_, etag, url) = bound()?;
                Draft { method: "DELETE", url, headers: vec![etag], body: String::new() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Root {
        Root::new(Url::parse("https://www.googleapis.com/calendar/v3").unwrap())
    }

    #[test]
    fn an_id_is_one_segment_of_the_address() {
        let id: EventId = "en.german%23holiday@group.v.calendar.google.com/x_20261208T090000Z".parse().unwrap();
        let url = root().event(&id).unwrap();
        let path = "/calendar/v3/calendars/en.german%23holiday@group.v.calendar.google.com/events/x_20261208T090000Z";
        assert_eq!((url.path(), url.query(), url.host_str()), (path, None, Some("www.googleapis.com")));
        assert_eq!(segment("en.german#holiday").as_deref(), Some("en.german%23holiday"));
        assert_eq!(segment("a?b c").as_deref(), Some("a%3Fb%20c"));
        for bad in ["", ".", "..", "a/b", "../x", "a%2Fb", "%2e%2e", "a;b", "a\\b", "a\nb", &"x".repeat(1200)] {
            assert_eq!(segment(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_answer_confirms_a_change_if_it_names_the_event() {
        let event: EventId = "work/0123".parse().unwrap();
        assert_eq!(confirmed(&event, br#"{"id":"0123"}"#), Ok(()));
        for bad in ["", "{}", r#"{"id":1}"#, r#"{"id":".."}"#, r#"{"id":"../x"}"#, r#"{"id":"evt_1"}"#] {
            assert!(matches!(confirmed(&event, bad.as_bytes()), Err(Failure::Unknown { .. })), "{bad}");
        }
    }
}
