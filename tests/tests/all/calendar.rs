//! A calendar account at a real server: Radicale. Google Calendar at a stand-in, and as its reference describes it.

mod google;
mod google_hostile;
mod google_server;
mod hostile;
mod persons;

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use tests::calendar_server::{CalendarServer, PASSWORD};
use tests::group::{Group, call, code, error, with};
use tests::{World, until};

const PROFILE: &str = "[providers.calendar]\nwrite = \"auto\"\ntrifecta_off = \"the test reads what it has written\"\n";
const WRITABLE: &str = "writable = [\"work\"]\ntime_zone = \"Europe/Berlin\"\n";

/// A world with a calendar account at this address, and a group that may write in it.
fn world(url: &str, lines: &str) -> (World, Group) {
    world_with(url, lines, PROFILE)
}

/// The same, with this profile.
fn world_with(url: &str, lines: &str, profile: &str) -> (World, Group) {
    let mut world = World::builder()
        .file("policy/profiles/developer.toml", profile)
        .file("calendar.key", format!("{PASSWORD}\n"))
        .down();
    let file = world.path("calendar.key");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let table = format!(
        "[providers.calendar]\nkind = \"calendar\"\nurl = \"{url}\"\nusername = \"ada\"\npassword = {{ file = {:?} }}\n{lines}",
        file.display().to_string()
    );
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    world.keep_secret(PASSWORD);
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "calendar" }));
    let developer = world.group("developer");
    (world, developer)
}

fn calendar(action: &str, params: Value) -> Value {
    with(call(action, params), "provider", "calendar")
}

fn data(group: &Group, action: &str, params: Value) -> Value {
    let reply = group.ask(calendar(action, params));
    assert_eq!(code(&reply), "executed", "{action}: {reply}");
    reply["data"].clone()
}

/// The code of the approval request, and the sealed request.
fn approval(world: &World, request: &str) -> (String, Value) {
    let about = format!("SELECT code, sealed FROM approvals WHERE state = 'waiting' AND request_id = '{request}'");
    let row = until("the approval request", || world.query(&about).pop());
    let sealed = row["sealed"].as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
    (row["code"].as_str().unwrap().to_owned(), sealed)
}

fn yes(world: &World, code_of_it: &str) {
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
}

const SERIES: &str = "
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:20261025T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
TZNAME:CET
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:20260329T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
TZNAME:CEST
END:DAYLIGHT
END:VTIMEZONE
BEGIN:VEVENT
UID:abc
DTSTAMP:20261001T000000Z
DTSTART;TZID=Europe/Berlin:20261013T100000
DTEND;TZID=Europe/Berlin:20261013T110000
RRULE:FREQ=WEEKLY;BYDAY=TU
EXDATE;TZID=Europe/Berlin:20261103T100000
SUMMARY:Stand-up\\, with coffee
LOCATION:Room 1
X-OWN;SOMETHING=\"a:b\":kept as it is
BEGIN:VALARM
ACTION:DISPLAY
TRIGGER:-PT10M
END:VALARM
END:VEVENT
BEGIN:VEVENT
UID:abc
DTSTAMP:20261001T000000Z
RECURRENCE-ID;TZID=Europe/Berlin:20261110T100000
DTSTART;TZID=Europe/Berlin:20261110T120000
DTEND;TZID=Europe/Berlin:20261110T130000
SUMMARY:Moved
END:VEVENT";

const SINGLE: &str = "
BEGIN:VEVENT
UID:single
DTSTAMP:20261001T000000Z
DTSTART:20261021T080000Z
DURATION:PT30M
SUMMARY:Dentist
DESCRIPTION:line one\\nline two
URL:https://example.com/dentist
END:VEVENT";

const DAYS: &str = "
BEGIN:VEVENT
UID:days
DTSTAMP:20261001T000000Z
DTSTART;VALUE=DATE:20261019
DTEND;VALUE=DATE:20261024
SUMMARY:Holiday
STATUS:TENTATIVE
END:VEVENT";

const GUESTS: &str = "
BEGIN:VEVENT
UID:guests
DTSTAMP:20261001T000000Z
DTSTART:20261022T080000Z
DTEND:20261022T090000Z
SUMMARY:Review
ORGANIZER:mailto:ada@example.com
ATTENDEE;PARTSTAT=ACCEPTED:mailto:grace@example.net
END:VEVENT";

fn filled() -> Option<CalendarServer> {
    let server = CalendarServer::start()?;
    server.store("work/abc.ics", SERIES);
    server.store("work/single.ics", SINGLE);
    server.store("work/guests.ics", GUESTS);
    server.store("private/days.ics", DAYS);
    Some(server)
}

/// The starts of a list, with the titles.
fn starts(listed: &Value) -> Vec<(&str, &str)> {
    let events = listed["events"].as_array().unwrap();
    events.iter().map(|event| (event["start"].as_str().unwrap(), event["summary"].as_str().unwrap())).collect()
}

#[test]
fn events_are_listed_and_read_with_their_occurrences() {
    let Some(server) = filled() else { return };
    let (_world, developer) = world(&server.url("/"), WRITABLE);
    let calendars = data(&developer, "list_calendars", json!({}));
    let expected = json!([
        { "id": "private", "name": "Private", "is_writable": false },
        { "id": "work", "name": "Work & more", "is_writable": true },
    ]);
    assert_eq!(calendars["calendars"], expected);

    let window = json!({ "from": "2026-10-19", "to": "2026-11-18" });
    let listed = data(&developer, "list_calendar", window);
    let expected = [
        ("2026-10-19", "Holiday"),
        ("2026-10-20T10:00:00+02:00", "Stand-up, with coffee"),
        ("2026-10-21T10:00:00+02:00", "Dentist"),
        ("2026-10-22T10:00:00+02:00", "Review"),
        // The clocks have gone back; somebody has skipped the third.
        ("2026-10-27T10:00:00+01:00", "Stand-up, with coffee"),
        ("2026-11-10T12:00:00+01:00", "Moved"),
        ("2026-11-17T10:00:00+01:00", "Stand-up, with coffee"),
    ];
    assert_eq!(starts(&listed), expected);
    assert_eq!(listed["events"][0]["end"], json!("2026-10-24"));
    assert_eq!(listed["events"][0]["status"], json!("tentative"));
    assert_eq!(listed["events"][5]["occurrence"], json!("2026-11-10T09:00:00Z"));
    assert_eq!(listed["events"][2]["end"], json!("2026-10-21T10:30:00+02:00"));

    let pages = json!({ "from": "2026-10-19", "to": "2026-11-18", "calendar": "work", "limit": 4 });
    let first = data(&developer, "list_calendar", pages.clone());
    let second = data(&developer, "list_calendar", with(pages, "offset", first["next_offset"].clone()));
    assert_eq!((starts(&first).len(), starts(&second).len(), &second["next_offset"]), (4, 2, &Value::Null));
    let found = data(&developer, "list_calendar", json!({ "from": "2026-10-19", "text": "LINE two" }));
    assert_eq!(starts(&found), [("2026-10-21T10:00:00+02:00", "Dentist")]);

    let series = data(&developer, "get_event", json!({ "id": "work/abc.ics" }));
    assert_eq!(series["rule"], json!("FREQ=WEEKLY;BYDAY=TU"));
    assert_eq!(
        (&series["start"], &series["time_zone"]),
        (&json!("2026-10-13T10:00:00+02:00"), &json!("Europe/Berlin"))
    );
    assert_eq!(series["skipped"], json!(["2026-11-03T09:00:00Z"]));
    assert_eq!(series["changed"], json!(["2026-11-10T09:00:00Z"]));
    assert_eq!(series["reminders"], json!(["-PT10M"]));
    let moved = data(&developer, "get_event", json!({ "id": "work/abc.ics", "occurrence": "2026-11-10T09:00:00Z" }));
    assert_eq!((&moved["summary"], &moved["end"]), (&json!("Moved"), &json!("2026-11-10T13:00:00+01:00")));
    let plain = data(&developer, "get_event", json!({ "id": "work/abc.ics", "occurrence": "2026-11-17T09:00:00Z" }));
    assert_eq!((&plain["start"], &plain["location"]), (&json!("2026-11-17T10:00:00+01:00"), &json!("Room 1")));
    let skipped =
        developer.ask(calendar("get_event", json!({ "id": "work/abc.ics", "occurrence": "2026-11-03T09:00:00Z" })));
    assert!(error(&skipped).contains("has no occurrence 2026-11-03T09:00:00Z"), "{skipped}");
    let guests = data(&developer, "get_event", json!({ "id": "work/guests.ics" }));
    assert_eq!(guests["guests"], json!([{ "address": "grace@example.net", "answer": "accepted" }]));
    assert_eq!(guests["organizer"], json!("ada@example.com"));
    let single = data(&developer, "get_event", json!({ "id": "work/single.ics" }));
    assert_eq!(single["description"], json!("line one\nline two"));

    let gone = developer.ask(calendar("get_event", json!({ "id": "work/gone.ics" })));
    assert!(error(&gone).contains("There is no event work/gone.ics."), "{gone}");
    let other = developer.ask(calendar("list_calendar", json!({ "calendar": "elsewhere" })));
    assert!(error(&other).contains("no such calendar or event (404)"), "{other}");
}

#[test]
fn an_account_is_found_from_its_root_its_calendars_or_one_calendar() {
    let Some(server) = filled() else { return };
    for path in ["", "/", "/ada", "/ada/"] {
        let (_world, developer) = world(&server.url(path), WRITABLE);
        let calendars = data(&developer, "list_calendars", json!({}));
        assert_eq!(calendars["calendars"].as_array().unwrap().len(), 2, "{path}");
    }
    let (_world, developer) = world(&server.url("/ada/work/"), WRITABLE);
    let calendars = data(&developer, "list_calendars", json!({}));
    assert_eq!(calendars["calendars"][0]["id"], json!("work"));
    assert_eq!(calendars["calendars"].as_array().unwrap().len(), 1);
    let other = developer.ask(calendar("get_event", json!({ "id": "private/days.ics" })));
    assert!(error(&other).contains("There is no calendar private"), "{other}");
}

/// Attack: see `wrong_parameters_of_the_calendar_are_refused_before_a_server_is_asked`.
#[test]
fn an_event_is_created_changed_and_deleted() {
    let Some(server) = CalendarServer::start() else { return };
    let (world, developer) = world(&server.url("/"), WRITABLE);
    let params = json!({
        "calendar": "work", "summary": "Lunch, then; a \\ walk", "start": "2026-12-01T12:00", "end": "2026-12-01T13:30",
        "location": "Café Größenwahn", "description": "one\nBEGIN:VEVENT\nEND:VCALENDAR\n".repeat(4), "reminders": [10, 45],
    });
    let created = data(&developer, "create_event", params.clone());
    let id = created["id"].as_str().unwrap().to_owned();
    let stored = server.stored(&id).unwrap();
    assert!(stored.contains("DTSTART;TZID=Europe/Berlin:20261201T120000\n"), "{stored}");
    assert!(stored.contains("BEGIN:VTIMEZONE\nTZID:Europe/Berlin\n"), "{stored}");
    assert_eq!(stored.matches("\nBEGIN:VEVENT\n").count(), 1, "{stored}");
    let read = data(&developer, "get_event", json!({ "id": id }));
    for field in ["summary", "location", "description"] {
        assert_eq!(read[field], params[field], "{field}");
    }
    assert_eq!(read["reminders"], json!(["-PT10M", "-PT45M"]));
    assert_eq!(read["end"], json!("2026-12-01T13:30:00+01:00"));

    let times = json!({ "id": id, "start": "2026-12-02T09:00:00Z", "end": "2026-12-02T09:30:00Z", "location": "" });
    assert_eq!(data(&developer, "update_event", times), json!({ "id": id }));
    let read = data(&developer, "get_event", json!({ "id": id }));
    assert_eq!((&read["start"], &read["location"]), (&json!("2026-12-02T10:00:00+01:00"), &Value::Null));
    assert_eq!(read["summary"], params["summary"], "other fields stay");

    // To delete takes a person, whatever the profile says of writes.
    let request = developer.send(calendar("delete_event", json!({ "id": id })));
    let (code_of_it, sealed) = approval(&world, &request);
    assert_eq!((&sealed["method"], &sealed["headers"][0][0]), (&json!("DELETE"), &json!("if-match")));
    assert!(server.stored(&id).is_some(), "nothing happens before the yes");
    yes(&world, &code_of_it);
    assert_eq!(code(&developer.reply(&request)), "executed");
    assert_eq!(server.stored(&id), None);

    let days = json!({ "calendar": "work", "summary": "Off", "start": "2026-12-24", "end": "2026-12-27" });
    let id = data(&developer, "create_event", days)["id"].as_str().unwrap().to_owned();
    let stored = server.stored(&id).unwrap();
    assert!(stored.contains("DTSTART;VALUE=DATE:20261224\n") && !stored.contains("VTIMEZONE"), "{stored}");
    let repeated = json!({
        "calendar": "work", "summary": "Run", "start": "2026-12-01T07:00", "end": "2026-12-01T08:00",
        "time_zone": "America/New_York",
        "repeat": { "every": "week", "interval": 2, "weekdays": ["tuesday", "friday"], "until": "2027-04-01" },
    });
    let id = data(&developer, "create_event", repeated)["id"].as_str().unwrap().to_owned();
    let stored = server.stored(&id).unwrap();
    assert!(stored.contains("INTERVAL=2") && stored.contains("UNTIL=20270402T035959Z"), "{stored}");
    let spring = data(&developer, "list_calendar", json!({ "from": "2027-03-08", "to": "2027-04-08" }));
    let times: Vec<&str> = starts(&spring).iter().map(|(start, _)| *start).collect();
    // New York changes its clocks two weeks before Berlin.
    let expected = [
        "2027-03-09T13:00:00+01:00",
        "2027-03-12T13:00:00+01:00",
        "2027-03-23T12:00:00+01:00",
        "2027-03-26T12:00:00+01:00",
    ];
    assert_eq!(times, expected);
}

#[test]
fn one_occurrence_is_changed_or_deleted_and_the_others_stay() {
    let Some(server) = filled() else { return };
    let (world, developer) = world(&server.url("/"), WRITABLE);
    let october = json!({ "from": "2026-10-12", "to": "2026-11-25", "text": "stand-up" });
    let before = data(&developer, "list_calendar", october.clone());
    let change = json!({
        "id": "work/abc.ics", "occurrence": "2026-10-27T09:00:00Z", "location": "Room 2",
        "start": "2026-10-27T15:00", "end": "2026-10-27T15:30",
    });
    data(&developer, "update_event", change);
    let after = data(&developer, "list_calendar", october.clone());
    let changed: Vec<(usize, _)> = starts(&before)
        .into_iter()
        .zip(starts(&after))
        .enumerate()
        .filter(|(_, (before, after))| before != after)
        .map(|(index, (_, after))| (index, after))
        .collect();
    assert_eq!(changed, [(2, ("2026-10-27T15:00:00+01:00", "Stand-up, with coffee"))]);
    let stored = server.stored("work/abc.ics").unwrap();
    assert!(stored.contains("RECURRENCE-ID;TZID=Europe/Berlin:20261027T100000\n"), "{stored}");
    assert!(stored.contains("kept as it is"), "other lines stay: {stored}");
    // Changed again, it is the same occurrence.
    let again = json!({ "id": "work/abc.ics", "occurrence": "2026-10-27T09:00:00Z", "summary": "Stand-up again" });
    data(&developer, "update_event", again);
    assert_eq!(server.stored("work/abc.ics").unwrap().matches("BEGIN:VEVENT").count(), 3);
    let read = data(&developer, "get_event", json!({ "id": "work/abc.ics", "occurrence": "2026-10-27T09:00:00Z" }));
    assert_eq!((&read["summary"], &read["location"]), (&json!("Stand-up again"), &json!("Room 2")));

    for occurrence in ["2026-10-27T09:00:00Z", "2026-11-17T09:00:00Z"] {
        let request =
            developer.send(calendar("delete_event", json!({ "id": "work/abc.ics", "occurrence": occurrence })));
        let (code_of_it, sealed) = approval(&world, &request);
        assert_eq!(sealed["method"], json!("PUT"));
        yes(&world, &code_of_it);
        assert_eq!(code(&developer.reply(&request)), "executed");
    }
    let left = data(&developer, "list_calendar", october);
    let left: Vec<&str> = starts(&left).iter().map(|(start, _)| *start).collect();
    assert_eq!(left, ["2026-10-13T10:00:00+02:00", "2026-10-20T10:00:00+02:00", "2026-11-24T10:00:00+01:00"]);

    for (occurrence, reason) in [
        ("2026-10-14T08:00:00Z", "has no occurrence 2026-10-14T08:00:00Z"),
        ("2026-11-03T09:00:00Z", "has no occurrence"),
        ("2026-10-20", "has no occurrence"),
        ("2026-11-10T11:00:00Z", "has no occurrence"),
    ] {
        let wrong = json!({ "id": "work/abc.ics", "occurrence": occurrence, "summary": "x" });
        let reply = developer.ask(calendar("update_event", wrong));
        assert!(error(&reply).contains(reason), "{occurrence}: {reply}");
    }
    let times = json!({ "id": "work/abc.ics", "start": "2026-10-13T11:00", "end": "2026-10-13T12:00" });
    let reply = developer.ask(calendar("update_event", times));
    assert!(error(&reply).contains("Occurrences of the series were changed"), "{reply}");
}

/// Attack (Providers and modules): Somebody changes an event between the question and the yes.
/// Defence: The approval covers the version; the server makes the change only to that version.
#[test]
fn the_approved_request_changes_the_version_that_a_person_saw() {
    let Some(server) = filled() else { return };
    let (world, developer) = world(&server.url("/"), WRITABLE);
    let delete = json!({ "id": "work/single.ics" });
    let request = developer.send(calendar("delete_event", delete.clone()));
    let (code_of_it, _) = approval(&world, &request);
    server.store("work/single.ics", &SINGLE.replace("Dentist", "Surgeon"));
    yes(&world, &code_of_it);
    // The broker reads the event again before it acts.
    let reply = developer.reply(&request);
    assert_eq!(code(&reply), "approval_required", "{reply}");
    assert!(server.stored("work/single.ics").unwrap().contains("Surgeon"), "nothing was deleted");
}

#[test]
fn a_person_sees_the_event_that_is_stored() {
    let Some(server) = filled() else { return };
    let (world, developer) = world_with(&server.url("/"), WRITABLE, &PROFILE.replace("auto", "human"));
    let params = json!({
        "calendar": "work", "summary": "Board", "start": "2026-12-01T12:00", "end": "2026-12-01T13:00",
        "description": "x".repeat(10_000),
    });
    let request = developer.send(calendar("create_event", params.clone()));
    let (code_of_it, sealed) = approval(&world, &request);
    let id = format!("work/{}.ics", sealed["nonce"].as_str().unwrap());
    assert_eq!(sealed["url"], json!(server.url(&format!("/ada/{id}"))));
    assert_eq!(sealed["headers"][1], json!(["if-none-match", "*"]));
    yes(&world, &code_of_it);
    let reply = developer.reply(&request);
    assert_eq!((code(&reply), &reply["data"]["id"]), ("executed", &json!(id)));
    let stored = server.stored(&id).unwrap();
    let body = sealed["body"].as_str().unwrap().replace("\r\n ", "").replace("\r\n", "\n");
    for line in body.lines() {
        assert!(stored.lines().any(|own| own == line), "{line}: {stored}");
    }
    // The same request again is the same event.
    let again = with(calendar("create_event", params), "request_id", request.as_str());
    assert_eq!(developer.ask(again)["data"], reply["data"]);
    assert_eq!(server.events("work").len(), 4);
}

/// Attack (Providers and modules): An id of an event leads to another calendar. A title or a
/// description adds a line such as `ATTENDEE`.
/// Defence: `provider_calendar::reference`, `content_lines`: ids are one segment of a path each;
/// texts are escaped into one line.
#[test]
fn wrong_parameters_of_the_calendar_are_refused_before_a_server_is_asked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (_world, developer) = world(&url, WRITABLE);
    let event = |more: Value| {
        let mut event =
            json!({ "calendar": "work", "summary": "x", "start": "2026-12-01T10:00", "end": "2026-12-01T11:00" });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    for (action, params, expected) in [
        ("get_event", json!({ "id": "work" }), "invalid_params"),
        ("get_event", json!({ "id": "work/../private/x.ics" }), "invalid_params"),
        ("get_event", json!({ "id": "work/%2e%2e%2fprivate" }), "invalid_params"),
        ("get_event", json!({ "id": "work/x.ics?a" }), "invalid_params"),
        ("get_event", json!({ "id": "work/x.ics", "occurrence": "tomorrow" }), "invalid_params"),
        ("list_calendar", json!({ "from": "2026-12-02", "to": "2026-12-01" }), "guardrail"),
        ("list_calendar", json!({ "from": "2026-01-01", "to": "2028-01-01" }), "guardrail"),
        ("list_calendar", json!({ "from": "9999-12-31" }), "invalid_params"),
        ("list_calendar", json!({ "from": "2026-03-29T02:30", "to": "2026-04-01" }), "guardrail"),
        ("create_event", event(json!({ "calendar": "private" })), "guardrail"),
        ("create_event", event(json!({ "summary": "x\r\nATTENDEE:mailto:eve@evil.example" })), "guardrail"),
        ("create_event", event(json!({ "description": "x\u{0}" })), "guardrail"),
        ("create_event", event(json!({ "description": "x\rATTENDEE:mailto:eve@evil.example" })), "guardrail"),
        ("create_event", event(json!({ "attendees": ["eve@evil.example"] })), "invalid_params"),
        ("create_event", event(json!({ "end": "2026-12-01T09:00" })), "guardrail"),
        ("create_event", event(json!({ "end": "2026-12-02" })), "guardrail"),
        ("create_event", event(json!({ "start": "2026-12-01", "end": "2026-12-01" })), "guardrail"),
        ("create_event", event(json!({ "time_zone": "Mars/Olympus" })), "invalid_params"),
        ("create_event", event(json!({ "start": "2027-03-28T02:30", "end": "2027-03-28T04:00" })), "guardrail"),
        ("create_event", event(json!({ "repeat": { "every": "hour" } })), "invalid_params"),
        ("create_event", event(json!({ "repeat": { "every": "month", "weekdays": ["monday"] } })), "guardrail"),
        (
            "create_event",
            event(json!({ "repeat": { "every": "day", "count": 2, "until": "2027-01-01" } })),
            "guardrail",
        ),
        ("create_event", event(json!({ "reminders": [50_000] })), "invalid_params"),
        ("update_event", json!({ "id": "work/x.ics" }), "guardrail"),
        ("update_event", json!({ "id": "work/x.ics", "start": "2026-12-01" }), "guardrail"),
        ("update_event", json!({ "id": "private/x.ics", "summary": "x" }), "guardrail"),
        ("delete_event", json!({ "id": "private/x.ics" }), "guardrail"),
    ] {
        let reply = developer.ask(calendar(action, params.clone()));
        assert_eq!(code(&reply), expected, "{action} {params}: {reply}");
    }
    assert!(listener.accept().is_err(), "nobody was asked");
}

/// Attack (Providers and modules): An agent writes to the guests of an event by changing it.
/// Defence: `provider_calendar::change`: an event with guests is changed only if the operator
/// allows it. Names that only some servers read as `ATTENDEE` are refused.
#[test]
fn an_event_with_guests_is_changed_only_where_an_operator_allows_it() {
    let Some(server) = filled() else { return };
    let (strict_world, developer) = world(&server.url("/"), WRITABLE);
    let change = json!({ "id": "work/guests.ics", "description": "the whole inbox" });
    let reply = developer.ask(calendar("update_event", change.clone()));
    assert_eq!(code(&reply), "guardrail", "{reply}");
    assert!(error(&reply).contains("change_events_with_guests"), "{reply}");
    let reply = developer.ask(calendar("delete_event", json!({ "id": "work/guests.ics" })));
    assert_eq!(code(&reply), "guardrail", "{reply}");
    assert!(!server.stored("work/guests.ics").unwrap().contains("whole inbox"));
    drop(strict_world);
    let (_world, developer) = world(&server.url("/"), &format!("{WRITABLE}change_events_with_guests = true\n"));
    data(&developer, "update_event", change);
    assert!(server.stored("work/guests.ics").unwrap().contains("whole inbox"));
}

#[test]
fn a_wrong_password_or_address_is_said_and_changes_nothing() {
    let Some(server) = filled() else { return };
    let (_world, developer) = world(&server.url("/"), &WRITABLE.replace("writable", "auth = \"bearer\"\nwritable"));
    let reply = developer.ask(calendar("list_calendars", json!({})));
    assert!(error(&reply).contains("refuses the user name or the password (401)"), "{reply}");
}

#[test]
fn a_calendar_at_another_machine_is_encrypted_or_the_configuration_is_refused() {
    for (url, reason) in [
        ("http://cal.example.com/", "must be https"),
        ("https://ada:secret@cal.example.com/", "must not contain a user name"),
        ("https://cal.example.com/?a=b", "neither a query nor a fragment"),
        ("cal.example.com", "write https://HOST/PATH/"),
        ("ftp://127.0.0.1/", "must be https"),
    ] {
        let mut world = World::builder().down();
        let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
        let table = format!("[providers.calendar]\nkind = \"calendar\"\nurl = \"{url}\"\nusername = \"ada\"\n");
        world.rewrite("broker.toml", &format!("{config}\n{table}"));
        let output = world.cli(&["config", "check"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && said.contains(reason), "{url}: {said}");
        world.rewrite("broker.toml", &config);
        world.start();
    }
}
