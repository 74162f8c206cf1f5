//! Events at a CalDAV server: the whole object of an event is read and written.

use crate::api::{Draft, Effect, Occurrences, Present, UNREAD};
use crate::client::Session;
use crate::content_lines::Component;
use crate::discovery::Home;
use crate::failures::{no_occurrence, unusable};
use crate::occurrence::changed;
use crate::query::Window;
use crate::reference::{CalendarId, EventId, Occurrence};
use chrono::TimeDelta;
use provider::contract::Failure;

impl Session<'_> {
    /// Reads the events of a time, each occurrence by itself.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn occurrences(
        &self,
        home: &Home,
        id: &CalendarId,
        window: Window,
    ) -> Result<Occurrences, Failure> {
        let resources = self.report(&home.calendar(id)?, &window.events()).await?;
        let (home, id) = (home.clone(), id.clone());
        let read = move || {
            let mut found = Occurrences::default();
            for resource in &resources {
                let Some(data) = &resource.data else { continue };
                match (home.event_id(&id, &resource.href), Component::parse(data)) {
                    (Some(event), Ok(object)) => found.events.push((event, object)),
                    (Some(_) | None, _) => found.unreadable += 1,
                }
            }
            Ok(found)
        };
        self.calendar.parse(read).await
    }

    /// Reads an event, and looks whether it has the occurrence.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn present(
        &self,
        home: &Home,
        id: &EventId,
        occurrence: Option<Occurrence>,
    ) -> Result<Option<Present>, Failure> {
        let Some(stored) = self.get(&home.event(id)?).await? else { return Ok(None) };
        let etag = stored.etag;
        let read = move || Component::parse(&stored.text).map_err(|_bad| unusable("is no event"));
        let object = self.calendar.parse(read).await?;
        if let Some(occurrence) = occurrence
            && changed(&object, occurrence).is_none()
            && !self.takes_place(home, id, occurrence).await?
        {
            return Err(no_occurrence(id, occurrence));
        }
        Ok(Some(Present { etag, object, occurrence, resource: id.clone(), unreadable: 0 }))
    }

    /// Asks the server whether an occurrence that nobody has changed takes place.
    async fn takes_place(&self, home: &Home, id: &EventId, occurrence: Occurrence) -> Result<bool, Failure> {
        let from = occurrence.0.instant(self.calendar.settings.time_zone.tz());
        let window = Window { from, to: from + TimeDelta::seconds(1) };
        let found = self.occurrences(home, &id.calendar, window).await?;
        let mut own = found.events.iter().filter(|(event, _)| event == id);
        Ok(own.any(|(_, object)| changed(object, occurrence).is_some()))
    }
}

impl Home {
    /// Returns the request of a change: the whole object, or its deletion (RFC 4791, section 5.3.2).
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub(crate) fn draft(
        &self,
        event: &EventId,
        present: Option<&Present>,
        effect: Effect,
    ) -> Result<Draft, &'static str> {
        let url = self.event(event).map_err(|_elsewhere| "The account is bound to another calendar.")?;
        let etag = present.and_then(Present::if_match);
        let content_type = ("content-type".to_owned(), "text/calendar; charset=utf-8".to_owned());
        let (method, headers, body) = match effect {
            Effect::Create(object) => {
                ("PUT", vec![content_type, ("if-none-match".to_owned(), "*".to_owned())], object.to_string())
            }
            Effect::Replace(object) | Effect::Skip(object) => {
                ("PUT", vec![content_type, etag.ok_or(UNREAD)?], object.to_string())
            }
            Effect::Delete => ("DELETE", vec![etag.ok_or(UNREAD)?], String::new()),
        };
        Ok(Draft { method, url: url.into(), headers, body })
    }
}
