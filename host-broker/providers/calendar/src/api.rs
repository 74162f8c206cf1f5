//! The operations that the actions need, at both APIs: a CalDAV server, or Google Calendar.
//!
//! The actions know events in iCalendar only. Each API reads its events into that form, and writes a change of it in its own.

use crate::client::{EVENT_BYTES_MAX, Session};
use crate::content_lines::{Component, Line};
use crate::discovery::Home;
use crate::google::Root;
use crate::query::Window;
use crate::reference::{CalendarId, EventId, Occurrence};
use crate::settings::Api;
use model::{Nonce, SealedRequest};
use provider::contract::Failure;
use serde_json::{Value, json};
use shared::digest::Digest;

/// The line with the nonce of the call that last changed an event. A lost outcome is looked for by it.
pub(crate) const MARK: &str = "X-HOST-BROKER-CALL";

/// Nothing is changed without the facts that the request needs.
pub(crate) const UNREAD: &str = "The event was not read before its change.";

/// The place of an account's calendars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a CalDAV server.
    CalDav(Home),
    /// At Google Calendar.
    Google(Root),
}

/// A calendar of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: CalendarId,
    pub(crate) name: Option<String>,
    /// Whether the server lets the account change events in it, as far as it says so.
    pub(crate) is_changeable: bool,
}

/// The events of a time, each occurrence by itself.
#[derive(Debug, Default)]
pub(crate) struct Occurrences {
    /// The events, each with the object that holds it.
    pub(crate) events: Vec<(EventId, Component)>,
    /// The number of events that cannot be read.
    pub(crate) unreadable: usize,
}

/// An event as it is stored.
#[derive(Debug)]
pub(crate) struct Present {
    /// The version; `None` if the server has none.
    pub(crate) etag: Option<String>,
    /// The whole object.
    pub(crate) object: Component,
    /// The occurrence that was asked for.
    pub(crate) occurrence: Option<Occurrence>,
    /// The resource that a change is made to. At Google, an occurrence is one of its own.
    pub(crate) resource: EventId,
    /// The number of occurrences that somebody has changed and that cannot be read.
    pub(crate) unreadable: usize,
}

/// The effect of a request.
pub(crate) enum Effect {
    /// A new event.
    Create(Component),
    /// Another content of the event.
    Replace(Component),
    /// No event.
    Delete,
    /// A series without one occurrence; the object is the series without it.
    Skip(Component),
}

/// The parts of a request that are sealed.
pub(crate) struct Draft {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Draft {
    /// Returns the request that a person approves.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub(crate) fn sealed(self, nonce: &Nonce) -> Result<SealedRequest, &'static str> {
        let Self { method, url, headers, body } = self;
        if body.len() > EVENT_BYTES_MAX {
            return Err("The changed event has more than 96 KiB.");
        }
        Ok(SealedRequest { nonce: nonce.clone(), method: method.to_owned(), url, headers, body })
    }
}

impl Present {
    /// Returns the state to which a person's yes is bound: the version, and all that was read.
    ///
    /// The version of a series at Google does not cover its occurrences.
    pub(crate) fn state(&self) -> Value {
        json!({ "etag": self.etag, "object": Digest::of(self.object.to_string().as_bytes()) })
    }

    /// Returns the header that binds a change to the version that was read (RFC 9110, section 13.1.1).
    pub(crate) fn if_match(&self) -> Option<(String, String)> {
        Some(("if-match".to_owned(), self.etag.clone()?))
    }
}

/// Returns the line that marks an event as changed by a call.
pub(crate) fn mark_line(nonce: &str) -> Line {
    Line::raw(format!("{MARK}:{nonce}"))
}

impl Session<'_> {
    /// Returns the place of the account's calendars.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn place(&self) -> Result<Place, Failure> {
        match self.calendar.settings.api {
            Api::Caldav => self.home().await.map(Place::CalDav),
            Api::Google => {
                let address = self.calendar.settings.address().map_err(|message| Failure::Refused { message })?;
                Ok(Place::Google(Root::new(address)))
            }
        }
    }
}

impl Place {
    /// Returns the calendars that can have events, and the number of those that cannot be read.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn calendars(&self, session: &Session<'_>) -> Result<(Vec<Found>, usize), Failure> {
        match self {
            // A resource without the id of a calendar is no calendar of the account.
            Self::CalDav(home) => Ok((session.calendars(home).await?, 0)),
            Self::Google(root) => root.calendars(session).await,
        }
    }

    /// Returns the events of a time in a calendar. The server computes the occurrences of series.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn occurrences(
        &self,
        session: &Session<'_>,
        id: &CalendarId,
        window: Window,
    ) -> Result<Occurrences, Failure> {
        match self {
            Self::CalDav(home) => session.occurrences(home, id, window).await,
            Self::Google(root) => root.occurrences(session, id, window).await,
        }
    }

    /// Reads an event, with the occurrence that is asked for; `None` if there is no such event.
    ///
    /// # Errors
    /// [`Failure`], also if there is no such occurrence; nothing was changed.
    pub(crate) async fn read(
        &self,
        session: &Session<'_>,
        id: &EventId,
        occurrence: Option<Occurrence>,
    ) -> Result<Option<Present>, Failure> {
        match self {
            Self::CalDav(home) => session.present(home, id, occurrence).await,
            Self::Google(root) => root.present(session, id, occurrence).await,
        }
    }

    /// Reads one resource as it is now, for its mark; `None` if there is none.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn resource(&self, session: &Session<'_>, id: &EventId) -> Result<Option<Component>, Failure> {
        match self {
            Self::CalDav(home) => {
                let stored = session.get(&home.event(id)?).await?;
                // An object that is not iCalendar has no mark.
                Ok(stored.map(|stored| {
                    Component::parse(&stored.text).unwrap_or_else(|_malformed| Component::new("VCALENDAR"))
                }))
            }
            Self::Google(root) => root.resource(session, id).await,
        }
    }

    /// Returns the id of an event that a call creates. Its name is the nonce, so no call meets the event of another.
    pub(crate) fn new_event(&self, calendar: &CalendarId, nonce: &Nonce) -> Option<EventId> {
        let name = match self {
            Self::CalDav(_) => format!("{}.ics", nonce.as_str()),
            // The 32 hexadecimal digits are characters of base32hex, as Google demands.
            Self::Google(_) => nonce.as_str().to_owned(),
        };
        EventId::new(calendar.clone(), name).ok()
    }

    /// Returns the one request of a change.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub(crate) fn draft(
        &self,
        event: &EventId,
        present: Option<&Present>,
        effect: Effect,
    ) -> Result<Draft, &'static str> {
        match self {
            Self::CalDav(home) => home.draft(event, present, effect),
            Self::Google(root) => root.draft(event, present, effect),
        }
    }

    /// Checks the answer to the creation or to the change of a resource.
    ///
    /// # Errors
    /// [`Failure::Unknown`]: the answer does not confirm the change.
    pub(crate) fn confirmed(&self, resource: &EventId, sealed: &SealedRequest, answer: &[u8]) -> Result<(), Failure> {
        match self {
            // The answer to a deletion has no content.
            Self::Google(_) if sealed.method != "DELETE" => crate::google::confirmed(resource, answer),
            // The address of the request is that of the event.
            Self::Google(_) | Self::CalDav(_) => Ok(()),
        }
    }

    /// Adds the reminders of the calendar to a new event. Only Google has such.
    pub(crate) fn add_default_reminders(&self, event: &mut Component) {
        match self {
            Self::Google(_) => event.push_component(crate::google_event::default_reminders()),
            Self::CalDav(_) => {}
        }
    }
}
