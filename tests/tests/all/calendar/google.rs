//! Google Calendar: at the stand-in, and as its reference describes it.

use super::google_server::{LINES, calendar_server, filled, google_world, refusal};
use super::{approval, calendar, data, persons, starts, yes};
use model::ChatType;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tests::bridges::token;
use tests::google::Google;
use tests::group::{code, error, with};
use tests::scripted_http::{Log, answer, server};

fn december() -> Value {
    json!({ "from": "2026-12-01", "to": "2026-12-31" })
}

/// The changes that a server has seen.
fn changes(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().filter(|line| !line.starts_with("GET ")).cloned().collect()
}

#[test]
fn the_calendars_of_the_stand_in_are_listed_and_an_event_is_created() {
    let Some(google) = Google::start() else { return };
    let (world, developer) = google_world(&format!("http://127.0.0.1:{}/", google.id_keeper()), LINES);
    let calendars = data(&developer, "list_calendars", json!({}));
    assert_eq!(calendars["calendars"], json!([{ "id": "primary", "name": "Ada", "is_writable": true }]));
    let lunch = json!({
        "calendar": "primary", "summary": "Lunch", "start": "2026-12-01T12:00", "end": "2026-12-01T13:30",
        "location": "Café", "description": "a, b; c\nd",
    });
    let created = data(&developer, "create_event", lunch);
    let days = json!({ "calendar": "primary", "summary": "Off", "start": "2026-12-24", "end": "2026-12-27" });
    data(&developer, "create_event", days);
    let listed = data(&developer, "list_calendar", json!({ "from": "2026-11-30", "to": "2026-12-31" }));
    let expected =
        [("2026-11-30T10:00:00+01:00", "Kickoff"), ("2026-12-01T12:00:00+01:00", "Lunch"), ("2026-12-24", "Off")];
    assert_eq!(starts(&listed), expected);
    let (own, off) = (&listed["events"][1], &listed["events"][2]);
    assert_eq!((&own["id"], &own["location"], &off["end"]), (&created["id"], &json!("Café"), &json!("2026-12-27")));
    let found = data(&developer, "list_calendar", json!({ "from": "2026-11-30", "text": "B; C" }));
    assert_eq!(starts(&found), [("2026-12-01T12:00:00+01:00", "Lunch")]);
    let other = developer.ask(calendar("list_calendar", json!({ "calendar": "elsewhere" })));
    assert!(error(&other).contains("no such calendar or event (404)"), "{other}");
    let other = json!({ "calendar": "elsewhere", "summary": "x", "start": "2026-12-24", "end": "2026-12-27" });
    assert_eq!(code(&developer.ask(calendar("create_event", other))), "guardrail");
    world.settle();
}

#[test]
fn a_person_signs_in_and_an_event_of_their_calendar_is_created() {
    let Some(google) = Google::start() else { return };
    let Some((_remote, lines)) = persons::sign_in_lines("30") else { return };
    let front = persons::bearer_server(google.id_keeper(), format!("authorization: Bearer {}", Google::TOKEN));
    let url = format!("http://127.0.0.1:{front}/calendar/v3/");
    let (mut world, developer) = persons::world(&url, &format!("api = \"google\"\n{lines}"));
    let ann = token(&mut world, "ann", ChatType::Private);
    persons::link_by_sign_in(&world, &developer, &ann);
    let created = developer.ask(persons::calendar("create_event", &persons::lunch("primary"), &ann));
    assert_eq!(code(&created), "executed", "{created}");
    let listed = developer.ask(persons::calendar("list_calendar", &december(), &ann));
    assert_eq!(starts(&listed["data"]), [("2026-12-01T12:00:00Z", "Lunch")], "{listed}");
    world.settle();
}

#[test]
fn a_token_that_google_refuses_is_renewed_for_the_next_call() {
    let Some((_remote, lines)) = persons::sign_in_lines("3600") else { return };
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let seen_tokens = Arc::clone(&tokens);
    let (url, _) = server(move |seen| {
        let request = String::from_utf8_lossy(&seen.bytes).into_owned();
        let token = request.lines().find(|line| line.starts_with("authorization: Bearer at-")).unwrap().to_owned();
        let mut tokens = seen_tokens.lock().unwrap();
        tokens.push(token);
        if tokens.len() == 1 { refusal("401 x", "authError") } else { answer("200 OK", "", r#"{"items":[]}"#) }
    });
    let (mut world, developer) = persons::world(&format!("{url}calendar/v3/"), &format!("api = \"google\"\n{lines}"));
    let ann = token(&mut world, "ann", ChatType::Private);
    persons::link_by_sign_in(&world, &developer, &ann);
    let list = || developer.ask(persons::calendar("list_calendars", &json!({}), &ann));
    let refused = list();
    assert_eq!(code(&refused), "capability_auth_required", "{refused}");
    assert!(error(&refused).contains("the account's token is refused"), "{refused}");
    assert!(error(&refused).contains("Google Calendar refuses the token (401)"), "{refused}");
    assert_eq!(list()["data"], json!({ "calendars": [] }));
    let tokens = tokens.lock().unwrap();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
    world.settle();
}

#[test]
fn a_calendar_that_google_refuses_hides_no_other() {
    // The server has no events of the second calendar.
    let (url, _) = calendar_server(&filled());
    let (_world, developer) = google_world(&url, LINES);
    let listed = data(&developer, "list_calendar", december());
    assert_eq!(listed["events"].as_array().unwrap().len(), 5, "{listed}");
    assert_eq!(listed["refused"], json!(["en.german%23holiday@group.v.calendar.google.com"]));
    // By itself, it is a failure.
    let alone = with(december(), "calendar", "en.german%23holiday@group.v.calendar.google.com");
    assert!(error(&developer.ask(calendar("list_calendar", alone))).contains("no such calendar or event (404)"));
}

#[test]
fn a_yes_to_the_deletion_of_a_series_covers_its_occurrences_as_they_were() {
    let events = filled();
    let (url, log) = calendar_server(&events);
    let (world, developer) = google_world(&url, LINES);
    let request = developer.send(calendar("delete_event", json!({ "id": "primary/standup" })));
    let (code_of_it, _) = approval(&world, &request);
    // The version of the series stays the same.
    let moved = events.lock().unwrap().keys().find(|id| id.starts_with("standup_20261208")).unwrap().clone();
    events.lock().unwrap().get_mut(&moved).unwrap()["summary"] = json!("Moved again");
    yes(&world, &code_of_it);
    let reply = developer.reply(&request);
    assert!(!["executed", "outcome_unknown"].contains(&code(&reply)), "{reply}");
    assert_eq!(changes(&log), [""; 0]);
    world.settle();
}

#[test]
fn events_of_google_are_listed_and_read_with_their_occurrences() {
    let (url, _) = calendar_server(&filled());
    let (_world, developer) = google_world(&url, LINES);
    let expected = json!([
        { "id": "en.german%23holiday@group.v.calendar.google.com", "name": "Holidays", "is_writable": false },
        { "id": "primary", "name": "Ada", "is_writable": true },
    ]);
    assert_eq!(data(&developer, "list_calendars", json!({}))["calendars"], expected);
    let listed = data(&developer, "list_calendar", with(december(), "calendar", "primary"));
    let expected = [
        ("2026-12-01T10:00:00+01:00", "Stand-up"),
        ("2026-12-02T09:00:00+01:00", "Dentist"),
        ("2026-12-03T09:00:00+01:00", "Review"),
        ("2026-12-11T12:00:00+01:00", "Moved"),
        ("2026-12-22T10:00:00+01:00", "Stand-up"),
    ];
    assert_eq!(starts(&listed), expected);
    let moved = &listed["events"][3];
    assert_eq!((&moved["id"], &moved["occurrence"]), (&json!("primary/standup"), &json!("2026-12-08T09:00:00Z")));

    let series = data(&developer, "get_event", json!({ "id": "primary/standup" }));
    let (rule, zone) = (json!("FREQ=WEEKLY;COUNT=5"), json!("Europe/Berlin"));
    assert_eq!((&series["rule"], &series["time_zone"]), (&rule, &zone));
    assert_eq!(series["skipped"], json!(["2026-12-15T09:00:00Z"]));
    assert_eq!(series["changed"], json!(["2026-12-08T09:00:00Z"]));
    let one = |at: &str| calendar("get_event", json!({ "id": "primary/standup", "occurrence": at }));
    for (at, start) in
        [("2026-12-08T09:00:00Z", "2026-12-11T12:00:00+01:00"), ("2026-12-22T09:00:00Z", "2026-12-22T10:00:00+01:00")]
    {
        let reply = developer.ask(one(at));
        assert_eq!((&reply["data"]["start"], &reply["data"]["occurrence"]), (&json!(start), &json!(at)), "{reply}");
    }
    for at in ["2026-12-15T09:00:00Z", "2026-12-16T09:00:00Z", "2026-12-22"] {
        let reply = developer.ask(one(at));
        assert!(error(&reply).contains(&format!("has no occurrence {at}")), "{reply}");
    }
    let guests = data(&developer, "get_event", json!({ "id": "primary/review" }));
    assert_eq!(guests["guests"], json!([{ "address": "grace@example.net", "answer": "accepted" }]));
    let gone = developer.ask(calendar("get_event", json!({ "id": "primary/gone" })));
    assert!(error(&gone).contains("There is no event primary/gone."), "{gone}");
    // A deleted event stays at Google for a while, and an occurrence is named by its series.
    let deleted = json!({ "id": "primary/standup_20261215T090000Z" });
    assert!(error(&developer.ask(calendar("get_event", deleted))).contains("There is no event"));
    let alone = developer.ask(calendar("get_event", json!({ "id": "primary/standup_20261222T090000Z" })));
    assert!(error(&alone).contains("is one occurrence. Name its series"), "{alone}");
}

#[test]
fn an_event_of_google_is_created_changed_and_deleted() {
    let events = filled();
    let (url, log) = calendar_server(&events);
    let (world, developer) = google_world(&url, LINES);
    let params = json!({
        "calendar": "primary", "summary": "Run", "start": "2026-12-01T07:00", "end": "2026-12-01T08:00",
        "repeat": { "every": "week", "weekdays": ["tuesday"], "count": 3 }, "reminders": [10],
    });
    let id = data(&developer, "create_event", params)["id"].as_str().unwrap().to_owned();
    let stored = |id: &str| events.lock().unwrap()[id.strip_prefix("primary/").unwrap()].clone();
    let run = stored(&id);
    assert_eq!(run["recurrence"], json!(["RRULE:FREQ=WEEKLY;BYDAY=TU;COUNT=3"]));
    assert_eq!(run["start"], json!({ "dateTime": "2026-12-01T07:00:00+01:00", "timeZone": "Europe/Berlin" }));
    assert_eq!(run["reminders"], json!({ "useDefault": false, "overrides": [{ "method": "popup", "minutes": 10 }] }));

    // The other fields stay as other programs wrote them.
    let change = json!({ "id": "primary/dentist", "location": "Room 1", "start": "2026-12-04", "end": "2026-12-05" });
    assert_eq!(data(&developer, "update_event", change), json!({ "id": "primary/dentist" }));
    let dentist = stored("primary/dentist");
    assert_eq!((&dentist["summary"], &dentist["colorId"]), (&json!("Dentist"), &json!("7")));
    assert_eq!((&dentist["location"], &dentist["start"]), (&json!("Room 1"), &json!({ "date": "2026-12-04" })));

    let request = developer.send(calendar("delete_event", json!({ "id": "primary/dentist" })));
    let (code_of_it, sealed) = approval(&world, &request);
    assert_eq!((&sealed["method"], &sealed["headers"]), (&json!("DELETE"), &json!([["if-match", "\"2\""]])));
    yes(&world, &code_of_it);
    assert_eq!(code(&developer.reply(&request)), "executed");
    assert_eq!(stored("primary/dentist")["status"], "cancelled");
    let paths = ["POST /calendar/v3/calendars/primary/events", "PATCH /calendar/v3/calendars/primary/events/dentist"];
    let paths = [paths[0], paths[1], "DELETE /calendar/v3/calendars/primary/events/dentist"];
    assert_eq!(changes(&log), paths.map(|path| format!("{path}?sendUpdates=none")));
    world.settle();
}

#[test]
fn an_empty_list_of_reminders_means_none_and_without_one_those_of_the_calendar_stay() {
    let events = filled();
    let defaults = json!({ "useDefault": true });
    events.lock().unwrap().get_mut("dentist").unwrap()["reminders"] = defaults.clone();
    let (url, log) = calendar_server(&events);
    let (_world, developer) = google_world(&url, LINES);
    let none = json!({ "useDefault": false, "overrides": [] });
    let stored = |id: &Value| {
        let id = id.as_str().unwrap().strip_prefix("primary/").unwrap();
        events.lock().unwrap()[id]["reminders"].clone()
    };
    let create = |more: Value| {
        let mut event = json!({ "calendar": "primary", "summary": "x", "start": "2026-12-01", "end": "2026-12-02" });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data(&developer, "create_event", event)["id"].clone()
    };
    assert_eq!(stored(&create(json!({ "reminders": [] }))), none);
    assert_eq!(stored(&create(json!({}))), Value::Null);
    let change = |id: &str, more: Value| data(&developer, "update_event", with(more, "id", id))["id"].clone();
    assert_eq!(stored(&change("primary/dentist", json!({ "summary": "y" }))), defaults);
    assert_eq!(stored(&change("primary/dentist", json!({ "reminders": [] }))), none);
    // An event that is told without its reminders can have those of the calendar.
    assert_eq!(stored(&change("primary/standup", json!({ "reminders": [] }))), none);

    let before = log.lock().unwrap().len();
    let many = json!({ "id": "primary/dentist", "reminders": [1, 2, 3, 4, 5, 6] });
    let reply = developer.ask(calendar("update_event", many));
    assert!(code(&reply) == "guardrail" && error(&reply).contains("at most five reminders"), "{reply}");
    assert_eq!(log.lock().unwrap().len(), before, "the event is not read");
}

#[test]
fn the_longest_ids_of_google_are_read() {
    let events = filled();
    let (series, first) = ("a".repeat(1024), "20261208T090000Z");
    let occurrence = format!("{series}_{first}");
    {
        let mut events = events.lock().unwrap();
        let mut own = events["standup"].clone();
        own["id"] = json!(series);
        events.insert(series.clone(), own);
        let mut moved = events["standup_20261208T090000Z"].clone();
        (moved["id"], moved["recurringEventId"]) = (json!(occurrence), json!(series));
        events.insert(occurrence.clone(), moved);
    }
    let (url, log) = calendar_server(&events);
    let (_world, developer) = google_world(&url, LINES);
    let listed = data(&developer, "list_calendar", with(december(), "calendar", "primary"));
    let id = json!(format!("primary/{series}"));
    assert!(listed["events"].as_array().unwrap().iter().any(|event| event["id"] == id), "{listed}");
    assert_eq!(listed["unreadable"], Value::Null);
    let change = json!({ "id": id, "occurrence": "2026-12-08T09:00:00Z", "summary": "Long" });
    assert_eq!(data(&developer, "update_event", change)["id"], id);
    assert_eq!(events.lock().unwrap()[&occurrence]["summary"], "Long");
    assert_eq!(changes(&log).len(), 1);
    let longer = json!({ "id": format!("primary/{}", "a".repeat(1100)) });
    assert_eq!(code(&developer.ask(calendar("get_event", longer))), "invalid_params");
}

#[test]
fn one_occurrence_at_google_is_changed_or_deleted_and_the_others_stay() {
    let events = filled();
    let (url, log) = calendar_server(&events);
    let (world, developer) = google_world(&url, LINES);
    let change = |at: &str| {
        let times = json!({ "start": "2026-12-23T15:00", "end": "2026-12-23T15:30", "location": "Room 2" });
        calendar("update_event", with(with(times, "id", "primary/standup"), "occurrence", at))
    };
    for at in ["2026-12-22T09:00:00Z", "2026-12-08T09:00:00Z"] {
        assert_eq!(code(&developer.ask(change(at))), "executed");
    }
    let after = data(&developer, "list_calendar", with(with(december(), "text", "room 2"), "calendar", "primary"));
    assert_eq!(starts(&after), [("2026-12-23T15:00:00+01:00", "Moved"), ("2026-12-23T15:00:00+01:00", "Stand-up")]);
    let request = json!({ "id": "primary/standup", "occurrence": "2026-12-22T09:00:00Z" });
    let request = developer.send(calendar("delete_event", request));
    let (code_of_it, sealed) = approval(&world, &request);
    assert!(sealed["url"].as_str().unwrap().ends_with("/standup_20261222T090000Z?sendUpdates=none"), "{sealed}");
    yes(&world, &code_of_it);
    assert_eq!(code(&developer.reply(&request)), "executed");
    let series = data(&developer, "get_event", json!({ "id": "primary/standup" }));
    assert_eq!(series["skipped"], json!(["2026-12-15T09:00:00Z", "2026-12-22T09:00:00Z"]));

    // As at a CalDAV server, a series with changed occurrences keeps its times, and an occurrence has to take place.
    let before = changes(&log).len();
    let moved = json!({ "id": "primary/standup", "start": "2026-12-01T11:00", "end": "2026-12-01T12:00" });
    for (request, reason) in [
        (calendar("update_event", moved), "so its times stay"),
        (change("2026-12-15T09:00:00Z"), "has no occurrence"),
        (change("2026-12-09T09:00:00Z"), "has no occurrence"),
        (
            calendar(
                "update_event",
                json!({ "id": "primary/review", "occurrence": "2026-12-03T08:00:00Z", "summary": "x" }),
            ),
            "has no occurrence",
        ),
    ] {
        let reply = developer.ask(request);
        assert!(error(&reply).contains(reason), "{reply}");
    }
    assert_eq!(changes(&log).len(), before);
    world.settle();
}

#[test]
fn guests_at_google_are_written_to_only_where_an_operator_allows_it() {
    let change = || calendar("update_event", json!({ "id": "primary/review", "location": "Room 3" }));
    let (url, log) = calendar_server(&filled());
    let (_world, developer) = google_world(&url, LINES);
    let reply = developer.ask(change());
    assert!(error(&reply).contains("has guests"), "{reply}");
    assert_eq!(changes(&log), [""; 0]);

    let (url, log) = calendar_server(&filled());
    let (_world, developer) = google_world(&url, &format!("{LINES}change_events_with_guests = true\n"));
    assert_eq!(code(&developer.ask(change())), "executed");
    let quiet = json!({ "id": "primary/dentist", "location": "Room 3" });
    assert_eq!(code(&developer.ask(calendar("update_event", quiet))), "executed");
    let expected = ["review?sendUpdates=all", "dentist?sendUpdates=none"];
    assert_eq!(changes(&log), expected.map(|end| format!("PATCH /calendar/v3/calendars/primary/events/{end}")));
}
