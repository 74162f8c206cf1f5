use super::*;
use proptest::prelude::*;

fn item(json: &Value) -> Item {
    serde_json::from_value(json.clone()).unwrap()
}

fn component(json: &Value) -> Component {
    item(json).component("x").unwrap()
}

/// An event that has each field.
fn full() -> Value {
    json!({
        "kind": "calendar#event", "id": "x", "etag": "\"1\"", "status": "tentative", "summary": "Lunch, then; \\ a walk",
        "location": "Café", "description": "one\nBEGIN:VALARM\n", "iCalUID": "x@google.com",
        "start": { "dateTime": "2026-12-01T12:00:00+01:00", "timeZone": "Europe/Berlin" },
        "end": { "dateTime": "2026-12-01T13:30:00+01:00", "timeZone": "Europe/Berlin" },
        "recurrence": ["RRULE:FREQ=WEEKLY", "EXDATE;TZID=Europe/Berlin:20261208T120000"],
        "organizer": { "email": "ada@example.com", "self": true },
        "attendees": [{ "email": "grace@example.net", "responseStatus": "needsAction", "unknown": [1] }],
        "reminders": { "useDefault": false, "overrides": [{ "method": "email", "minutes": 10 }] },
        "source": { "url": "https://example.com/x", "title": "x" },
        "extendedProperties": { "private": { "host-broker-call": "ab", "other": "kept" } },
    })
}

#[test]
fn an_event_has_the_lines_of_its_fields() {
    let expected = "BEGIN:VEVENT\r\nUID:x\r\nDTSTART;TZID=Europe/Berlin:20261201T120000\r\n\
        DTEND;TZID=Europe/Berlin:20261201T133000\r\nSUMMARY:Lunch\\, then\\; \\\\ a walk\r\nLOCATION:Café\r\n\
        DESCRIPTION:one\\nBEGIN:VALARM\\n\r\nURL:https://example.com/x\r\nSTATUS:TENTATIVE\r\nRRULE:FREQ=WEEKLY\r\n\
        EXDATE;TZID=Europe/Berlin:20261208T120000\r\nORGANIZER:mailto:ada@example.com\r\n\
        ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:grace@example.net\r\nX-HOST-BROKER-CALL:ab\r\nBEGIN:VALARM\r\n\
        TRIGGER:-PT10M\r\nEND:VALARM\r\nEND:VEVENT\r\n";
    assert_eq!(component(&full()).to_string(), expected);
    // An organizer alone is the account itself, and invites nobody.
    let alone = component(&json!({
        "id": "x", "start": { "date": "2026-12-01" }, "end": { "date": "2026-12-02" },
        "organizer": { "email": "ada@example.com", "self": true },
    }));
    assert!(!alone.has_anywhere("ORGANIZER"), "{alone}");
    assert_eq!(Event(&alone).end().map(Moment::key).as_deref(), Some("2026-12-02"));
}

#[test]
fn guests_that_are_left_out_are_still_guests() {
    let event = json!({ "id": "x", "start": { "date": "2026-12-01" }, "attendeesOmitted": true });
    assert!(component(&event).has_anywhere("ATTENDEE"));
}

#[test]
fn a_time_is_the_instant_that_it_states() {
    for (time, expected) in [
        (json!({ "dateTime": "2026-11-30T09:00:00.000Z", "timeZone": "UTC" }), Some("2026-11-30T09:00:00Z")),
        (json!({ "dateTime": "2026-12-01T10:00:00+09:00", "timeZone": "Europe/Berlin" }), Some("2026-12-01T01:00:00Z")),
        // The second 02:30 of that day.
        (json!({ "dateTime": "2026-10-25T02:30:00+01:00", "timeZone": "Europe/Berlin" }), Some("2026-10-25T01:30:00Z")),
        (json!({ "dateTime": "2026-12-01T10:00:00Z", "timeZone": "Mars/Olympus" }), Some("2026-12-01T10:00:00Z")),
        (json!({ "date": "2026-12-01" }), Some("2026-12-01")),
        (json!({ "date": "2026-12-01", "dateTime": "2026-12-01T10:00:00Z" }), None),
        (json!({ "date": "2026-12-01T10:00:00Z" }), None),
        (json!({ "dateTime": "2026-12-01" }), None),
        (json!({ "dateTime": "9999-12-01T10:00:00Z" }), None),
        (json!({}), None),
    ] {
        let read: EventDateTime = serde_json::from_value(time.clone()).unwrap();
        assert_eq!(read.moment().map(Moment::key).as_deref(), expected, "{time}");
    }
}

#[test]
fn an_event_with_other_lines_than_those_of_a_series_cannot_be_read() {
    for line in ["ATTENDEE:mailto:eve@evil.example", "RRULE:FREQ=DAILY\r\nATTENDEE:mailto:eve@evil.example", ""] {
        let mut event = full();
        event["recurrence"] = json!([line]);
        assert!(item(&event).component("x").is_none(), "{line:?}");
    }
    let mut event = full();
    event.as_object_mut().unwrap().remove("start");
    assert!(item(&event).component("x").is_none());
    event = full();
    event["recurringEventId"] = json!("y");
    assert!(item(&event).component("x").is_none(), "an occurrence without its first start");
}

/// The change that `with` makes to an event.
fn change(before: &Value, with: impl FnOnce(&mut Component)) -> Result<Value, &'static str> {
    let before = component(before);
    let mut after = before.clone();
    after.replace(MARK, Line::raw(format!("{MARK}:cd")));
    with(&mut after);
    patch(Event(&before), Event(&after))
}

fn alarm(event: &mut Component, minutes: u32) {
    let mut alarm = Component::new("VALARM");
    alarm.push(Line::raw(format!("TRIGGER:-PT{minutes}M")));
    event.push_component(alarm);
}

#[test]
fn a_change_writes_the_fields_that_differ_and_no_others() {
    let mark = json!({ "private": { "host-broker-call": "cd" } });
    assert_eq!(change(&full(), |_| {}), Ok(json!({ "extendedProperties": mark })));
    let renamed = change(&full(), |event| {
        event.replace("SUMMARY", Line::text("SUMMARY", "a, b"));
        event.remove("LOCATION");
    });
    assert_eq!(renamed, Ok(json!({ "extendedProperties": mark, "summary": "a, b", "location": null })));
    let days = change(&full(), |event| {
        event.replace("DTSTART", Line::raw("DTSTART;VALUE=DATE:20261203".to_owned()));
        event.replace("DTEND", Line::raw("DTEND;VALUE=DATE:20261204".to_owned()));
    });
    let day = |day: &str| json!({ "date": day, "dateTime": null, "timeZone": null });
    let expected = json!({ "extendedProperties": mark, "start": day("2026-12-03"), "end": day("2026-12-04") });
    assert_eq!(days, Ok(expected));
    let rule = change(&full(), |event| event.replace("RRULE", Line::raw("RRULE:FREQ=DAILY".to_owned())));
    let lines = json!(["RRULE:FREQ=DAILY", "EXDATE;TZID=Europe/Berlin:20261208T120000"]);
    assert_eq!(rule, Ok(json!({ "extendedProperties": mark, "recurrence": lines })));
}

#[test]
fn reminders_replace_those_of_the_event_and_those_of_its_calendar() {
    let mark = json!({ "private": { "host-broker-call": "cd" } });
    let mut defaults = full();
    defaults["reminders"] = json!({ "useDefault": true });
    let none = |event: &mut Component| event.parts.retain(|part| matches!(part, crate::content_lines::Part::Line(_)));
    let expected = json!({ "extendedProperties": mark, "reminders": { "useDefault": false, "overrides": [] } });
    assert_eq!(change(&defaults, none), Ok(expected));
    let one = json!([{ "method": "popup", "minutes": 45 }]);
    let expected = json!({ "extendedProperties": mark, "reminders": { "useDefault": false, "overrides": one } });
    let replaced = change(&full(), |event| {
        none(event);
        alarm(event, 45);
    });
    assert_eq!(replaced, Ok(expected));
    let six = change(&full(), |event| (1..=6).for_each(|minutes| alarm(event, minutes)));
    assert_eq!(six, Err("Google Calendar keeps at most five reminders of an event."));
}

#[test]
fn a_new_event_has_its_id_and_no_member_that_is_null() {
    let mut event = Component::new("VEVENT");
    for line in ["DTSTART:20261201T100000Z", "DTEND:20261201T110000Z", "SUMMARY:x", "X-HOST-BROKER-CALL:cd"] {
        event.push(Line::raw(line.to_owned()));
    }
    let mut expected = json!({
        "id": "cd", "summary": "x", "extendedProperties": { "private": { "host-broker-call": "cd" } },
        "start": { "dateTime": "2026-12-01T10:00:00Z", "timeZone": "UTC" },
        "end": { "dateTime": "2026-12-01T11:00:00Z", "timeZone": "UTC" },
    });
    let mut usual = event.clone();
    usual.push_component(default_reminders());
    assert_eq!(whole("cd", Event(&usual)), Ok(expected.clone()));
    // One without those of its calendar has none.
    expected["reminders"] = json!({ "useDefault": false, "overrides": [] });
    assert_eq!(whole("cd", Event(&event)), Ok(expected));
    event.remove(MARK);
    assert!(whole("cd", Event(&event)).is_err(), "nothing is created without a mark");
}

proptest! {
    #[test]
    fn a_change_of_the_mark_changes_nothing_else_of_any_event(
        time in "(19|20|22|99)[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:30:00(Z|[+-][0-9]{2}:00|)|\\PC{0,20}",
        zone in "Europe/Berlin|America/St_Johns|Pacific/Apia|\\PC{0,10}",
        text in any::<String>(),
        rule in "(RRULE|EXDATE;TZID=X|ATTENDEE|X):\\PC{0,20}|\\PC{0,10}",
        minutes in any::<u32>(),
    ) {
        let at = json!({ "dateTime": time, "timeZone": zone });
        let event = json!({
            "id": text, "start": at, "end": at, "summary": text, "description": text, "recurrence": [rule],
            "attendees": [{ "email": text, "responseStatus": text }], "status": text,
            "reminders": { "overrides": [{ "method": text, "minutes": minutes }] },
            "extendedProperties": { "private": { "host-broker-call": text } },
        });
        if let Some(before) = item(&event).component("x") {
            let mut after = before.clone();
            after.replace(MARK, Line::raw(format!("{MARK}:cd")));
            let mark = json!({ "extendedProperties": { "private": { "host-broker-call": "cd" } } });
            prop_assert_eq!(patch(Event(&before), Event(&after)), Ok(mark));
        }
    }
}
