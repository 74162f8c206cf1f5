//! Servers that lose Google's answers, send too much, or speak something else.

use super::google_server::{LINES, calendar_server, filled, google_world, orderly, refusal, wrapped};
use super::{calendar, data};
use serde_json::{Value, json};
use std::net::TcpListener;
use tests::google::Google;
use tests::group::{code, error};
use tests::scripted_http::{Log, Seen, answer, server};
use tests::until;

fn list() -> Value {
    calendar("list_calendar", json!({ "calendar": "primary", "from": "2026-12-01", "to": "2026-12-08" }))
}

fn create() -> Value {
    let event =
        json!({ "calendar": "primary", "summary": "x", "start": "2026-12-01T10:00", "end": "2026-12-01T11:00" });
    calendar("create_event", event)
}

fn update() -> Value {
    calendar("update_event", json!({ "id": "primary/dentist", "summary": "y" }))
}

/// The number of changes that a server has seen.
fn changes(log: &Log) -> usize {
    log.lock().unwrap().iter().filter(|line| !line.starts_with("GET ")).count()
}

fn page(body: &str) -> Option<Vec<u8>> {
    answer("200 OK", "content-type: application/json\r\n", body)
}

fn is_read(seen: &Seen) -> bool {
    seen.method == "GET"
}

/// Attack (Providers and modules): Google's API sends deep, endless or wrong JSON, pages without
/// end, a redirect, or the token in a refusal.
/// Defence: `provider_calendar::google_reads`, `provider::google`: bounded bytes, entries and
/// pages, no redirect, of a refusal only the name of its reason.
#[test]
fn an_answer_of_google_without_sense_or_end_is_a_failure_and_the_host_lives() {
    let deep = format!("{{\"items\":[{}]}}", "[".repeat(500_000));
    let large = format!("{{\"items\":[\"{}\"]}}", "x".repeat(5 * 1024 * 1024));
    let secret = format!("the token is {}", Google::TOKEN);
    for (name, listed, expected) in [
        ("html", page("<html>sign in</html>"), "is not that of Google Calendar"),
        ("list", page("[1]"), "is not that of Google Calendar"),
        ("items", page(r#"{"items":7}"#), "is not that of Google Calendar"),
        ("deep", page(&deep), "is not that of Google Calendar"),
        ("large", page(&large), "has more than 4096 KiB"),
        ("endless", page(r#"{"items":[],"nextPageToken":"n"}"#), "has more than 10 pages"),
        ("token", page(&format!(r#"{{"nextPageToken":"{}"}}"#, "n".repeat(3000))), "a next page that is too long"),
        ("short", Some(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()), "breaks off"),
        ("compressed", answer("200 OK", "content-encoding: gzip\r\n", "x"), "is compressed"),
        ("empty", answer("204 x", "", ""), "is not that of Google Calendar; check `url`"),
        ("moved", answer("301 x", "location: https://elsewhere.example/\r\n", ""), "set `url` to https://elsewhere"),
        ("token refused", refusal("401 x", "authError"), "refuses the token (401)"),
        ("limit", refusal("403 x", "rateLimitExceeded"), "is busy (403)"),
        ("forbidden", refusal("403 x", "insufficientPermissions"), "refuses (403 Forbidden): insufficientPermissions"),
        ("told", refusal("403 x", &secret), "refuses (403 Forbidden)."),
        ("page of a refusal", answer("403 x", "", &secret), "refuses (403 Forbidden)."),
        ("busy", answer("429 x", "retry-after: 7\r\n", ""), "is busy (429)"),
        ("broken", answer("500 x", "", &secret), "answers 500"),
        ("nothing", None, "cannot be used"),
    ] {
        let (url, log) = server(move |_| listed.clone());
        let (_world, developer) = google_world(&url, LINES);
        let reply = developer.ask(list());
        assert_ne!(code(&reply), "executed", "{name}: {reply}");
        assert!(error(&reply).contains(expected), "{name}: {reply}");
        assert!(!reply.to_string().contains(Google::TOKEN), "{name}: {reply}");
        assert!((1..=10).contains(&log.lock().unwrap().len()), "{name}");
    }
}

/// Attack (Providers and modules): An id of Google has `/`, `..` or `?`, and leads to another
/// resource.
/// Defence: `provider_calendar::reference`, `google`: each id is encoded as one segment of a path,
/// or the event is not listed.
#[test]
fn events_of_google_that_cannot_be_read_are_counted_and_hide_no_other() {
    let times = r#""start":{"dateTime":"2026-12-02T10:00:00Z"},"end":{"dateTime":"2026-12-02T11:00:00Z"}"#;
    let bad = [
        "7".to_owned(),
        "[[]]".to_owned(),
        r#"{"id":7}"#.to_owned(),
        r#"{"id":"a"}"#.to_owned(),
        r#"{"id":"a","start":{"dateTime":"tomorrow"}}"#.to_owned(),
        r#"{"id":"a","start":{"date":"9999-01-01"}}"#.to_owned(),
        format!(r#"{{"id":"a/b",{times}}}"#),
        format!(r#"{{"id":"..",{times}}}"#),
        format!(r#"{{"id":"a%2F..",{times}}}"#),
        format!(r#"{{"id":"a","summary":["x"],{times}}}"#),
        format!(r#"{{"id":"a","recurringEventId":"b",{times}}}"#),
        format!(r#"{{"id":"a","recurrence":["ATTENDEE:x"],{times}}}"#),
    ];
    // Who may see only that somebody is busy gets no title.
    let good = [format!(r#"{{"id":"busy","visibility":"private",{times}}}"#), format!(r#"{{"id":"a?b #c",{times}}}"#)];
    let deleted = r#"{"id":"deleted","status":"cancelled"}"#.to_owned();
    let first = format!(r#"{{"items":[{},{}],"nextPageToken":"a&b=c"}}"#, bad.join(","), good[0]);
    let second = format!(r#"{{"items":[{},{deleted}]}}"#, good[1]);
    let (url, log) = server(move |seen| page(if seen.path.contains("pageToken=a%26b%3Dc") { &second } else { &first }));
    let (_world, developer) = google_world(&url, LINES);
    let params = json!({ "calendar": "primary", "from": "2026-12-01", "to": "2026-12-08" });
    let listed = data(&developer, "list_calendar", params);
    let ids: Vec<&Value> = listed["events"].as_array().unwrap().iter().map(|event| &event["id"]).collect();
    assert_eq!(ids, [&json!("primary/a%3Fb%20%23c"), &json!("primary/busy")]);
    assert_eq!((&listed["unreadable"], &listed["events"][1]["summary"]), (&json!(bad.len()), &Value::Null));
    assert_eq!(log.lock().unwrap().len(), 2);
    // The id leads to the one event, however it is written.
    developer.ask(calendar("get_event", json!({ "id": "primary/a%3Fb%20%23c" })));
    let last = log.lock().unwrap().last().cloned().unwrap();
    assert_eq!(last, "GET /calendar/v3/calendars/primary/events/a%3Fb%20%23c");
    for id in ["primary/..", "primary/a/b", "primary/a%2Fb", "primary/a?b", "../x"] {
        assert_eq!(code(&developer.ask(calendar("get_event", json!({ "id": id })))), "invalid_params", "{id}");
    }
    assert_eq!(log.lock().unwrap().len(), 3);
}

/// Attack: see `an_answer_of_google_without_sense_or_end_is_a_failure_and_the_host_lives`.
#[test]
fn the_token_of_google_goes_to_no_other_server() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let location = format!("location: http://{}/\r\n", elsewhere.local_addr().unwrap());
    for status in ["301 x", "307 x"] {
        let location = location.clone();
        let (url, log) = wrapped(&filled(), move |seen, orderly| {
            if seen.path.contains("/dentist?") || !seen.path.contains("/dentist") {
                return answer(status, &location, "");
            }
            orderly
        });
        let (world, developer) = google_world(&url, LINES);
        for request in [list(), create(), update()] {
            let reply = developer.ask(request);
            assert!(error(&reply).contains("set `url` to"), "{reply}");
        }
        assert_eq!(changes(&log), 2);
        world.settle();
    }
    assert!(elsewhere.accept().is_err());
}

/// Attack (Providers and modules): The answer of Google to a change is lost, or a proxy sends the
/// change twice.
/// Defence: The broker chooses the id of a new event, and a change is bound to the version that was
/// read.
#[test]
fn a_change_at_google_whose_answer_is_lost_is_looked_for_and_never_sent_again() {
    let events = filled();
    let (url, log) = wrapped(&events, |seen, orderly| orderly.filter(|_| is_read(seen)));
    let (world, developer) = google_world(&url, LINES);
    let settled = |request: Value| {
        let request = developer.send(request);
        assert_eq!(code(&developer.reply(&request)), "outcome_unknown");
        let result = json!({ "type": "ext_result", "of": request, "timeout_ms": 10_000 });
        until("the proof", || Some(developer.ask(result.clone())).filter(|reply| code(reply) == "executed"))
    };
    let before = events.lock().unwrap().len();
    let reply = settled(create());
    let id = reply["data"]["id"].as_str().unwrap().strip_prefix("primary/").unwrap().to_owned();
    assert_eq!((changes(&log), events.lock().unwrap().len()), (1, before + 1));
    assert_eq!(events.lock().unwrap()[&id]["summary"], "x");
    settled(update());
    // The mark of a changed occurrence is in the occurrence.
    let params = json!({ "id": "primary/standup", "occurrence": "2026-12-22T09:00:00Z", "summary": "z" });
    settled(calendar("update_event", params));
    assert_eq!(changes(&log), 3);
    world.settle();
}

/// Attack (Providers and modules): Google's answer to a change names another event, or an
/// occurrence of another series.
/// Defence: `provider_calendar::google`: an answer confirms the event of the sent id only. An
/// occurrence has the id of its series.
#[test]
fn a_created_event_is_the_sent_one_for_every_name_in_the_answer() {
    for named in [r#"{"id":"dentist"}"#, r#"{"id":"another"}"#] {
        let events = filled();
        let (url, log) = wrapped(&events, move |seen, orderly| if is_read(seen) { orderly } else { page(named) });
        let (world, developer) = google_world(&url, LINES);
        let request = developer.send(create());
        assert_eq!(code(&developer.reply(&request)), "outcome_unknown");
        let result = json!({ "type": "ext_result", "of": request, "timeout_ms": 10_000 });
        let reply =
            until("the proof", || Some(developer.ask(result.clone())).filter(|reply| code(reply) == "executed"));
        let id = reply["data"]["id"].as_str().unwrap().strip_prefix("primary/").unwrap();
        assert_eq!((changes(&log), &events.lock().unwrap()[id]["summary"]), (1, &json!("x")));
        world.settle();
    }
}

/// Attack: see `a_created_event_is_the_sent_one_for_every_name_in_the_answer`.
#[test]
fn an_occurrence_of_google_belongs_to_the_series_that_was_named() {
    for own in ["dentist", "standupx_20261222T090000Z", "standup_20261222T090000Z_x", "standup_", "review_20261222"] {
        let (url, log) = wrapped(&filled(), move |seen, orderly| {
            let times = r#""start":{"dateTime":"2026-12-22T09:00:00Z"},"end":{"dateTime":"2026-12-22T09:30:00Z"}"#;
            let first = r#""originalStartTime":{"dateTime":"2026-12-22T09:00:00Z"},"recurringEventId":"standup""#;
            let item = format!(r#"{{"items":[{{"id":"{own}","etag":"\"1\"",{times},{first}}}]}}"#);
            if seen.path.contains("/instances?") { page(&item) } else { orderly }
        });
        let (_world, developer) = google_world(&url, LINES);
        let params = json!({ "id": "primary/standup", "occurrence": "2026-12-22T09:00:00Z" });
        let mut change = params.clone();
        change["summary"] = json!("y");
        for request in [calendar("get_event", params), calendar("update_event", change)] {
            let reply = developer.ask(request);
            assert_eq!(code(&reply), "invalid_output", "{own}: {reply}");
            assert!(error(&reply).contains("another series"), "{own}: {reply}");
        }
        assert_eq!(changes(&log), 0);
    }
}

#[test]
fn a_change_at_google_of_which_nothing_is_found_stays_unknown() {
    let html = answer("200 OK", "content-type: text/html\r\n", "<html>sign in</html>");
    let large = page(&"x".repeat(200 * 1024));
    let other = || answer("201 x", "", r#"{"id":"dentist"}"#);
    let losses =
        [None, answer("500 x", "", ""), answer("202 x", "", "{}"), html, page("{}"), page("hello"), large, other()];
    let passed_on = ["303 x", "408 x"].map(|status| answer(status, "", ""));
    let named = page(r#"{"id":"another"}"#);
    let creations = losses.iter().cloned().chain(passed_on).chain([named.clone()]).map(|lost| (create(), lost));
    let updates = losses.iter().cloned().chain([named, answer("408 x", "", "")]).map(|lost| (update(), lost));
    for (index, (call, lost)) in creations.chain(updates).enumerate() {
        let events = filled();
        let (url, log) = server(move |seen| if is_read(seen) { orderly(&events, seen) } else { lost.clone() });
        let (world, developer) = google_world(&url, LINES);
        let reply = developer.ask(call);
        assert_eq!(code(&reply), "outcome_unknown", "{index}: {reply}");
        let looked = |line: &String| line.starts_with("GET /calendar/v3/calendars/primary/events/");
        until("the look", || log.lock().unwrap().iter().any(looked).then_some(()));
        assert_eq!(changes(&log), 1, "{index}");
        world.settle();
    }
}

#[test]
fn a_change_that_google_refuses_is_a_refusal() {
    for (status, reason, expected) in [
        ("412 x", "conditionNotMet", "Somebody has changed the event since"),
        ("403 x", "forbiddenForNonOrganizer", "refuses (403 Forbidden): forbiddenForNonOrganizer"),
        ("403 x", "userRateLimitExceeded", "is busy (403)"),
        ("404 x", "notFound", "no such calendar or event (404)"),
        ("410 x", "deleted", "no such calendar or event (410)"),
        ("409 x", "duplicate", "refuses (409 Conflict): duplicate"),
        ("401 x", "authError", "refuses the token (401)"),
        ("429 x", "rateLimitExceeded", "is busy (429)"),
    ] {
        let events = filled();
        let (url, log) =
            server(move |seen| if is_read(seen) { orderly(&events, seen) } else { refusal(status, reason) });
        let (_world, developer) = google_world(&url, LINES);
        let reply = developer.ask(update());
        assert!(!["executed", "outcome_unknown"].contains(&code(&reply)), "{status}: {reply}");
        assert!(error(&reply).contains(expected), "{status}: {reply}");
        assert!(!reply.to_string().contains(Google::TOKEN), "{status}: {reply}");
        assert_eq!(changes(&log), 1);
    }
}

#[test]
fn a_change_at_google_is_made_to_the_version_that_was_read() {
    let events = filled();
    let shared = events.clone();
    // Somebody changes the event after it was read.
    let (url, log) = wrapped(&events, move |seen, orderly| {
        if is_read(seen) {
            shared.lock().unwrap().get_mut("dentist").unwrap()["version"] = json!(7);
        }
        orderly
    });
    let (_world, developer) = google_world(&url, LINES);
    let reply = developer.ask(update());
    assert!(error(&reply).contains("Somebody has changed the event since"), "{reply}");
    assert_eq!((changes(&log), &events.lock().unwrap()["dentist"]["summary"]), (1, &json!("Dentist")));

    for etag in ["null", "\"*\"", "\"W/\\\"1\\\"\"", "\"1\"", "7"] {
        let body = format!(
            r#"{{"id":"dentist","etag":{etag},"start":{{"date":"2026-12-01"}},"end":{{"date":"2026-12-02"}}}}"#
        );
        let (url, log) = server(move |_| page(&body));
        let (_world, developer) = google_world(&url, LINES);
        let reply = developer.ask(update());
        assert_eq!(code(&reply), "invalid_output", "{etag}: {reply}");
        assert_eq!(changes(&log), 0);
    }
}

/// Attack: see `a_created_event_is_the_sent_one_for_every_name_in_the_answer`.
#[test]
fn an_answer_of_google_about_another_event_is_not_taken() {
    let review = filled().lock().unwrap()["review"].clone();
    let (url, log) =
        wrapped(
            &filled(),
            move |seen, orderly| {
                if seen.path.ends_with("/dentist") { page(&review.to_string()) } else { orderly }
            },
        );
    let (_world, developer) = google_world(&url, LINES);
    for request in [update(), calendar("get_event", json!({ "id": "primary/dentist" }))] {
        let reply = developer.ask(request);
        assert!(error(&reply).contains("is another event"), "{reply}");
    }
    assert_eq!(changes(&log), 0);
}

#[test]
fn a_series_of_google_with_an_occurrence_that_cannot_be_read_is_not_changed() {
    for (bad, expected) in [
        (r#"{"items":[7]}"#, "guardrail"),
        (r#"{"items":[{"id":"a","recurringEventId":"standup"}]}"#, "guardrail"),
        ("hello", "invalid_output"),
    ] {
        let (url, log) =
            wrapped(&filled(), move |seen, orderly| if seen.path.contains("iCalUID=") { page(bad) } else { orderly });
        let (_world, developer) = google_world(&url, LINES);
        let reply = developer.ask(calendar("update_event", json!({ "id": "primary/standup", "summary": "y" })));
        assert_eq!(code(&reply), expected, "{bad}: {reply}");
        assert_eq!(changes(&log), 0);
        // It hides the series from nobody who reads.
        let read = developer.ask(calendar("get_event", json!({ "id": "primary/standup" })));
        assert!(code(&read) == "invalid_output" || read["data"]["unreadable"] == 1, "{bad}: {read}");
        assert_eq!(code(&read) == "executed", expected == "guardrail", "{bad}: {read}");
    }
}

/// Attack: see `a_change_at_google_whose_answer_is_lost_is_looked_for_and_never_sent_again`.
#[test]
fn a_change_that_a_server_has_sent_to_google_twice_is_told_as_it_is() {
    let events = filled();
    let shared = events.clone();
    let (url, _) = wrapped(&events, move |seen, first| if is_read(seen) { first } else { orderly(&shared, seen) });
    let (world, developer) = google_world(&url, LINES);
    for request in [create(), update()] {
        let reply = developer.ask(request);
        assert_eq!(code(&reply), "executed", "{reply}");
    }
    assert_eq!(events.lock().unwrap()["dentist"]["summary"], "y");
    world.settle();
}

#[test]
fn a_refused_token_of_google_is_not_shown() {
    let (url, log) = calendar_server(&filled());
    let (mut world, developer) = google_world(&url, LINES);
    let wrong = "ya29.another-token-7Hq2";
    world.keep_secret(wrong);
    std::fs::write(world.path("calendar.key"), wrong).unwrap();
    world.restart();
    let reply = developer.ask(list());
    assert!(error(&reply).contains("Google Calendar refuses the token (401)"), "{reply}");
    assert_eq!(log.lock().unwrap().len(), 1);
}
