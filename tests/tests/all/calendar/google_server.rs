//! Google Calendar in memory, as its reference describes it: what the stand-in does not do with events and their versions.

use super::PROFILE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use tests::World;
use tests::google::Google;
use tests::group::Group;
use tests::scripted_http::{Log, Seen, answer, server};

/// The events of the calendar `primary`, by their ids. Each has a member `version`.
pub(super) type Events = Arc<Mutex<BTreeMap<String, Value>>>;

pub(super) const LINES: &str = "writable = [\"primary\"]\ntime_zone = \"Europe/Berlin\"\n";

/// A world with the calendar of Google at this address, and a group that may write in it.
pub(super) fn google_world(url: &str, lines: &str) -> (World, Group) {
    let mut world = World::builder()
        .file("policy/profiles/developer.toml", PROFILE)
        .file("calendar.key", format!("{}\n", Google::TOKEN))
        .down();
    let file = world.path("calendar.key");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let table = format!(
        "[providers.calendar]\nkind = \"calendar\"\napi = \"google\"\nurl = \"{url}calendar/v3/\"\nauth = \"bearer\"\n\
         password = {{ file = {:?} }}\n{lines}",
        file.display().to_string()
    );
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    world.keep_secret(Google::TOKEN);
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "calendar" }));
    let developer = world.group("developer");
    (world, developer)
}

/// An event of the calendar, with more members.
fn event(id: &str, start: &str, end: &str, more: Value) -> (String, Value) {
    let time = |at: &str| json!({ "dateTime": at, "timeZone": "Europe/Berlin" });
    let mut event = json!({
        "id": id, "iCalUID": format!("{id}@google.com"), "status": "confirmed", "start": time(start), "end": time(end),
        "organizer": { "email": "ada@example.com", "self": true }, "version": 1,
    });
    merge(&mut event, more);
    (id.to_owned(), event)
}

/// An occurrence of the series `standup`. One that nobody has changed is `plain`.
fn occurrence(first: &str, start: &str, end: &str, more: Value) -> (String, Value) {
    let id = format!("standup_{}", first.replace(['-', ':'], ""));
    let (_, mut own) = event(&id, start, end, json!({ "iCalUID": "standup@google.com", "summary": "Stand-up" }));
    let original = json!({ "dateTime": first, "timeZone": "Europe/Berlin" });
    merge(&mut own, json!({ "recurringEventId": "standup", "originalStartTime": original }));
    merge(&mut own, more);
    (id, own)
}

/// A calendar with a single event, one with a guest, and a series. Of the series, one occurrence is moved, and one deleted.
pub(super) fn filled() -> Events {
    let guest = json!([{ "email": "grace@example.net", "responseStatus": "accepted" }]);
    Arc::new(Mutex::new(BTreeMap::from([
        event(
            "dentist",
            "2026-12-02T08:00:00Z",
            "2026-12-02T08:30:00Z",
            json!({ "summary": "Dentist", "colorId": "7" }),
        ),
        event(
            "review",
            "2026-12-03T08:00:00Z",
            "2026-12-03T09:00:00Z",
            json!({ "summary": "Review", "attendees": guest }),
        ),
        event(
            "standup",
            "2026-12-01T09:00:00Z",
            "2026-12-01T09:30:00Z",
            json!({ "summary": "Stand-up", "recurrence": ["RRULE:FREQ=WEEKLY;COUNT=5"] }),
        ),
        occurrence("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z", "2026-12-01T09:30:00Z", json!({ "plain": true })),
        occurrence(
            "2026-12-08T09:00:00Z",
            "2026-12-11T11:00:00Z",
            "2026-12-11T11:30:00Z",
            json!({ "summary": "Moved" }),
        ),
        occurrence(
            "2026-12-15T09:00:00Z",
            "2026-12-15T09:00:00Z",
            "2026-12-15T09:30:00Z",
            json!({ "status": "cancelled" }),
        ),
        occurrence("2026-12-22T09:00:00Z", "2026-12-22T09:00:00Z", "2026-12-22T09:30:00Z", json!({ "plain": true })),
    ])))
}

/// Merges as `PATCH` does: `null` removes a member.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let own = target.as_object_mut().unwrap();
    for (name, value) in members {
        if value.is_null() {
            own.remove(&name);
        } else {
            merge(own.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// A server with these events. `wrapped` gets each request and the orderly answer, and can replace it.
pub(super) fn wrapped(
    events: &Events,
    wrap: impl Fn(&Seen, Option<Vec<u8>>) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (String, Log) {
    let events = Arc::clone(events);
    server(move |seen| wrap(seen, orderly(&events, seen)))
}

/// A server with these events.
pub(super) fn calendar_server(events: &Events) -> (String, Log) {
    wrapped(events, |_, answer| answer)
}

pub(super) fn refusal(status: &str, reason: &str) -> Option<Vec<u8>> {
    answer(status, "", &json!({ "error": { "errors": [{ "reason": reason, "message": Google::TOKEN }] } }).to_string())
}

fn found(body: &Value) -> Option<Vec<u8>> {
    answer("200 OK", "content-type: application/json\r\n", &body.to_string())
}

/// The event as the server shows it, with its version.
fn shown(event: &Value) -> Value {
    let mut event = event.clone();
    event["etag"] = json!(format!("\"{}\"", event["version"]));
    event
}

pub(super) fn orderly(events: &Events, seen: &Seen) -> Option<Vec<u8>> {
    let request = String::from_utf8(seen.bytes.clone()).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    if !head.contains(&format!("authorization: Bearer {}\r\n", Google::TOKEN)) {
        return refusal("401 x", "authError");
    }
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    if path == "/calendar/v3/users/me/calendarList" {
        return found(&json!({ "items": [
            { "id": "ada@example.com", "summary": "Ada", "primary": true, "accessRole": "owner" },
            { "id": "en.german#holiday@group.v.calendar.google.com", "summary": "Holidays", "accessRole": "reader" },
        ] }));
    }
    let Some(rest) = path.strip_prefix("/calendar/v3/calendars/primary/events") else {
        return refusal("404 x", "notFound");
    };
    let mut events = events.lock().unwrap();
    let parts: Vec<&str> = rest.split('/').skip(1).collect();
    match (seen.method.as_str(), parts.as_slice()) {
        ("GET", []) => listed(&events, query),
        ("GET", [id, "instances"]) => {
            let own = events.values().filter(|event| event["recurringEventId"] == **id);
            let own = own.filter(|event| is_asked_for(event, query)).map(shown).collect::<Vec<Value>>();
            found(&json!({ "items": own }))
        }
        ("GET", [id]) => events.get(*id).map_or_else(|| refusal("404 x", "notFound"), |event| found(&shown(event))),
        ("POST", []) => {
            let mut event: Value = serde_json::from_str(body).unwrap();
            let id = event["id"].as_str().unwrap().to_owned();
            if events.contains_key(&id) {
                return refusal("409 x", "duplicate");
            }
            merge(&mut event, json!({ "status": "confirmed", "version": 1 }));
            let answer = found(&shown(&event));
            events.insert(id, event);
            answer
        }
        ("PATCH" | "DELETE", [id]) => {
            let Some(event) = events.get_mut(*id) else { return refusal("404 x", "notFound") };
            if event["status"] == "cancelled" {
                return refusal("410 x", "deleted");
            }
            if !head.contains(&format!("if-match: \"{}\"", event["version"])) {
                return refusal("412 x", "conditionNotMet");
            }
            let change =
                if body.is_empty() { json!({ "status": "cancelled" }) } else { serde_json::from_str(body).unwrap() };
            merge(event, change);
            let version = event["version"].as_u64().unwrap() + 1;
            merge(event, json!({ "version": version, "plain": null }));
            if body.is_empty() { answer("204 No Content", "", "") } else { found(&shown(event)) }
        }
        _ => refusal("404 x", "notFound"),
    }
}

fn is_asked_for(event: &Value, query: &str) -> bool {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)).map(|at| at.replace("%3A", ":"));
    let start = event["start"]["dateTime"].as_str().unwrap();
    let is_original = |at: String| event["originalStartTime"]["dateTime"] == at;
    event["status"] != "cancelled"
        && value("timeMin=").is_none_or(|min| start >= min.as_str())
        && value("timeMax=").is_none_or(|max| start < max.as_str())
        && value("originalStart=").is_none_or(is_original)
}

/// Without `singleEvents` the list has the series, and their occurrences that somebody has changed or deleted.
fn listed(events: &BTreeMap<String, Value>, query: &str) -> Option<Vec<u8>> {
    let uid = query.split('&').find_map(|pair| pair.strip_prefix("iCalUID="));
    let items: Vec<Value> = if let Some(uid) = uid {
        let own = events.values().filter(|event| event["iCalUID"] == uid.replace("%40", "@"));
        own.filter(|event| event["plain"].is_null()).map(shown).collect()
    } else {
        let single = events.values().filter(|event| event["recurrence"].is_null() && is_asked_for(event, query));
        single.map(shown).collect()
    };
    found(&json!({ "items": items }))
}
