//! The common part of the actions that change one event.
//!
//! The event is read first. A person approves the exact request that is made of it. The server makes the change only to
//! that version (`If-Match`, RFC 9110, section 13.1.1). It creates an event only if there is none of that name.

use crate::Calendar;
use crate::api::{Effect, MARK, Place, Present, UNREAD, mark_line};
use crate::client::{Session, Unmade};
use crate::content_lines::{Component, Line, Part};
use crate::failures::{guardrail, no_event, not_approved, unknown, unusable};
use crate::reference::{CalendarId, EventId, Occurrence};
use chrono::DateTime;
use http::StatusCode;
use model::{Destination, DestinationKind, EffectMarker, Exposure, Nonce, SealedRequest, Tier};
use provider::contract::{Execution, Failure, Guard, Probed, Success};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{Level, Timestamp};

/// The remote facts of a change.
pub(crate) struct Facts {
    pub(crate) place: Place,
    /// The event as it is, with its version; `None` for an event that is created.
    pub(crate) present: Option<Present>,
}

/// The one request of a change.
pub(crate) struct Request {
    pub(crate) event: EventId,
    pub(crate) effect: Effect,
}

/// An action that changes one event with one request. The fields are the parameters.
pub(crate) trait Change: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The name of the action.
    const NAME: &'static str;
    /// The description for an agent.
    const DESCRIPTION: &'static str;
    /// A stricter tier than that of a write.
    const TIER: Option<Tier> = None;
    /// The exposure of the action.
    const EXPOSES: Exposure;
    /// The parameters that may vary under a standing approval.
    const MAY_VARY: &[&str] = &[];
    /// The action in the present and in the past: `create`, `created`.
    const VERBS: [&'static str; 2];

    /// Returns the calendar.
    fn calendar(&self) -> &CalendarId;

    /// Returns the event that is changed; `None` if it is created.
    fn event(&self) -> Option<&EventId> {
        None
    }

    /// Returns the occurrence that alone is changed.
    fn occurrence(&self) -> Option<Occurrence> {
        None
    }

    /// Returns the fault of the parameters, as a sentence.
    fn fault(&self, calendar: &Calendar) -> Option<&'static str>;

    /// Returns the one request. It is pure: the same facts and nonce give the same request.
    ///
    /// # Errors
    /// The reason, as a sentence, why this event cannot be changed so.
    fn request(&self, calendar: &Calendar, facts: &Facts, nonce: &Nonce) -> Result<Request, &'static str>;
}

/// An event that was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changed {
    /// Its id.
    id: String,
}

/// A [`Change`] as an action of the broker.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ChangeAction<A>(A);

impl<A: Change> ChangeAction<A> {
    /// Returns the event and the one request.
    ///
    /// # Errors
    /// The reason, as a sentence.
    fn sealed(
        &self,
        calendar: &Calendar,
        facts: &Facts,
        nonce: &Nonce,
    ) -> Result<(EventId, SealedRequest), &'static str> {
        if let Some(present) = &facts.present {
            check(&present.object)?;
            // One that cannot be read could have guests.
            if present.unreadable > 0 {
                return Err("The series has an occurrence that cannot be read.");
            }
        }
        let Request { event, effect } = self.0.request(calendar, facts, nonce)?;
        let draft = facts.place.draft(&event, facts.present.as_ref(), effect)?;
        Ok((event, draft.sealed(nonce)?))
    }
}

/// Checks that an object is one event: a series with its occurrences, or a single one.
fn check(object: &Component) -> Result<(), &'static str> {
    let is_known = |part: &Part| match part {
        Part::Component(component) => matches!(component.name.as_str(), "VEVENT" | "VTIMEZONE"),
        Part::Line(_) => true,
    };
    let mut uids = object.components("VEVENT").map(|event| event.line("UID").map(Line::value));
    let first = uids.next().flatten().ok_or("The calendar has no event under that name.")?;
    if object.name != "VCALENDAR" || !object.parts.iter().all(is_known) || !uids.all(|uid| uid == Some(first)) {
        return Err("The calendar has more than one event under that name.");
    }
    Ok(())
}

impl<A: Change> NativeAction for ChangeAction<A> {
    type Shared = Calendar;
    type Facts = Facts;
    type Output = Changed;

    const NAME: &'static str = A::NAME;
    const LEVEL: Level = Level::Write;
    const TIER: Option<Tier> = A::TIER;
    const DESCRIPTION: &'static str = A::DESCRIPTION;
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = A::EXPOSES;
    const MAY_VARY: &[&str] = A::MAY_VARY;
    const DESTINATIONS: Option<DestinationKind> = Some(DestinationKind::Calendar);

    fn summary(&self) -> String {
        let [verb, _] = A::VERBS;
        format!("{verb} an event in {}", self.0.calendar())
    }

    fn guard(&self, calendar: &Calendar, facts: Option<&Facts>, _now: Timestamp) -> Guard {
        let id = self.0.calendar();
        if !calendar.settings.writable.contains(id) {
            return Guard::Refuse(guardrail(format!(
                "The calendar {id} cannot be changed. An operator allows changes in `writable` of the account's table."
            )));
        }
        if let Some(fault) = self.0.fault(calendar) {
            return Guard::Refuse(guardrail(fault));
        }
        let Some(facts) = facts else { return Guard::NeedsRemote };
        // SECURITY: the server writes to the guests of a changed event (RFC 6638), so the change leaves to them.
        let has_guests = facts.present.as_ref().is_some_and(|present| present.object.has_anywhere("ATTENDEE"));
        if has_guests && !calendar.settings.change_events_with_guests {
            let reason = "The event has guests, to whom the server could write. An operator allows such changes with \
                          `change_events_with_guests` in the account's table.";
            return Guard::Refuse(guardrail(reason));
        }
        match self.sealed(calendar, facts, &Nonce::stored("0".repeat(32))) {
            Ok(_) => Guard::Pass,
            Err(reason) => Guard::Refuse(guardrail(reason)),
        }
    }

    fn destinations(&self, calendar: &Calendar) -> Option<Vec<Destination>> {
        // The server can write to guests, who are not known before the event is read.
        let is_alone = !calendar.settings.change_events_with_guests;
        is_alone
            .then(|| DestinationKind::Calendar.read(&self.0.calendar().to_string()).map(|calendar| vec![calendar]))?
    }

    async fn prepare(&self, calendar: &Calendar, execution: &Execution) -> Result<Facts, Failure> {
        let session = calendar.session(execution)?;
        let place = session.place().await?;
        let present = match self.0.event() {
            Some(id) => Some(present(&session, &place, id, self.0.occurrence()).await?),
            None => None,
        };
        Ok(Facts { place, present })
    }

    fn precondition(&self, facts: &Facts) -> Option<Value> {
        facts.present.as_ref().map(Present::state)
    }

    fn seal(&self, calendar: &Calendar, facts: Option<&Facts>, nonce: &Nonce) -> Option<SealedRequest> {
        self.sealed(calendar, facts?, nonce).ok().map(|(_, sealed)| sealed)
    }

    fn probe_handle(&self, facts: Option<&Facts>, planted: &EffectMarker) -> Option<Value> {
        let Facts { place, present } = facts?;
        let (id, is_new) = match self.0.event() {
            Some(id) => (id.clone(), false),
            None => (place.new_event(self.0.calendar(), &planted.nonce)?, true),
        };
        let resource = present.as_ref().map(|present| present.resource.clone()).filter(|resource| *resource != id);
        let nonce = planted.nonce.as_str().to_owned();
        serde_json::to_value(Handle { nonce, id, is_new, resource }).ok()
    }

    async fn probe(calendar: &Calendar, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        let unreadable = || Failure::Refused { message: "The stored description of the effect is unreadable.".into() };
        let handle = serde_json::from_value(handle).map_err(|_unreadable| unreadable())?;
        let Handle { nonce, id, is_new, resource } = handle;
        let session = calendar.session(execution)?;
        let place = session.place().await?;
        Ok(match place.resource(&session, resource.as_ref().unwrap_or(&id)).await? {
            Some(object) if has_mark(&object, &nonce) => {
                let [_, verb] = A::VERBS;
                Probed::Happened(Success::new(json!({ "id": id }), format!("{verb} an event in {}", id.calendar)))
            }
            Some(_) => Probed::Absent { message: format!("The event {id} is there without this change.") },
            None if is_new => Probed::Absent { message: format!("There is no event {id}.") },
            // A deletion, or somebody else's.
            None if resource.is_some() => Probed::State { message: format!("The occurrence of {id} is not there.") },
            None => Probed::State { message: format!("There is no event {id} any more.") },
        })
    }

    async fn run(
        self,
        calendar: &Calendar,
        facts: Option<Facts>,
        execution: &Execution,
    ) -> Result<(Changed, String), Failure> {
        let refused = |reason: &str| Failure::Guard(guardrail(reason));
        let facts = facts.ok_or_else(|| refused(UNREAD))?;
        let (event, sealed) = self.sealed(calendar, &facts, execution.nonce()).map_err(refused)?;
        // SECURITY: the approved request is sent, or nothing.
        if execution.sealed().is_some_and(|approved| *approved != sealed) {
            return Err(not_approved());
        }
        let session = calendar.session(execution)?;
        let resource = facts.present.as_ref().map_or(&event, |present| &present.resource);
        match session.change(&sealed, dated(&sealed, calendar.now())).await {
            Ok(answer) => facts.place.confirmed(resource, &sealed, &answer)?,
            Err(unmade) => settled(&session, &facts.place, resource, &sealed, unmade).await?,
        }
        let [_, verb] = A::VERBS;
        let summary = format!("{verb} an event in {}", event.calendar);
        Ok((Changed { id: event.to_string() }, summary))
    }
}

/// Looks whether a change was made although the server has refused it: a server in between can have sent it twice.
///
/// # Errors
/// The refusal, if the change was not made; [`Failure::Unknown`] if nobody knows.
async fn settled(
    session: &Session<'_>,
    place: &Place,
    resource: &EventId,
    sealed: &SealedRequest,
    Unmade { status, failure }: Unmade,
) -> Result<(), Failure> {
    let is_deletion = sealed.method == "DELETE";
    // The second of two equal requests meets the effect of the first.
    let can_be_the_second = match status {
        Some(StatusCode::PRECONDITION_FAILED) => true,
        Some(StatusCode::CONFLICT) => sealed.method == "POST",
        Some(StatusCode::NOT_FOUND | StatusCode::GONE) => is_deletion,
        Some(_) | None => false,
    };
    if !can_be_the_second {
        return Err(failure);
    }
    match place.resource(session, resource).await {
        Ok(Some(object)) if !is_deletion && has_mark(&object, sealed.nonce.as_str()) => Ok(()),
        Ok(Some(_)) => Err(failure),
        // It was there when it was read. This call has deleted it, or somebody else.
        Ok(None) | Err(_) => Err(unknown("The event is gone, or the server does not answer about it.")),
    }
}

/// The place of an effect, as it is stored.
#[derive(Serialize, Deserialize)]
struct Handle {
    nonce: String,
    id: EventId,
    is_new: bool,
    /// The resource that has the mark, if it is not the event itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<EventId>,
}

/// Marks an event as changed by a call. The time of the change is added when it is sent.
pub(crate) fn mark(event: &mut Component, nonce: &Nonce) {
    // The number of an event of somebody else stays: a later change of the organizer would be taken for an old one.
    if event.line("ORGANIZER").is_none() {
        let sequence = event.line("SEQUENCE").and_then(|line| line.value().trim().parse::<u32>().ok());
        event.replace("SEQUENCE", Line::raw(format!("SEQUENCE:{}", sequence.map_or(0, |last| last.saturating_add(1)))));
    }
    for name in ["DTSTAMP", "LAST-MODIFIED"] {
        event.remove(name);
    }
    event.replace(MARK, mark_line(nonce.as_str()));
}

fn has_mark(object: &Component, nonce: &str) -> bool {
    let line = mark_line(nonce);
    object.components("VEVENT").any(|event| event.lines().any(|own| *own == line))
}

/// Returns the body of a request with the time of the change beside the mark.
fn dated(sealed: &SealedRequest, now: Timestamp) -> String {
    let time = DateTime::from_timestamp_millis(now.millis()).unwrap_or_default().format("%Y%m%dT%H%M%SZ");
    let mark = format!("\r\n{}\r\n", mark_line(sealed.nonce.as_str()));
    sealed.body.replacen(&mark, &format!("{mark}DTSTAMP:{time}\r\nLAST-MODIFIED:{time}\r\n"), 1)
}

/// Reads the event that is changed.
async fn present(
    session: &Session<'_>,
    place: &Place,
    id: &EventId,
    occurrence: Option<Occurrence>,
) -> Result<Present, Failure> {
    let present = place.read(session, id, occurrence).await?.ok_or_else(|| no_event(id))?;
    // Without a version, the change could overwrite that of somebody else.
    if !present.etag.as_deref().is_some_and(is_strong) {
        return Err(unusable("names no version of the event that can be compared"));
    }
    Ok(present)
}

/// Returns whether a version is one that `If-Match` compares (RFC 9110, section 8.8.3): in quotes, and not weak.
fn is_strong(etag: &str) -> bool {
    let inner = etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| inner.chars().all(|c| c.is_ascii_graphic() && c != '"'))
}
