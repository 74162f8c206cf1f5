//! Calendar servers that lose answers, send too much, or speak something else.

use super::{WRITABLE, calendar, data, filled, world};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use tests::calendar_server::{CalendarServer, PASSWORD};
use tests::group::{code, error};
use tests::scripted_http::{Log, Seen, answer, server};
use tests::until;

fn multistatus(body: &str) -> Option<Vec<u8>> {
    let text =
        format!("<D:multistatus xmlns:D=\"DAV:\" xmlns:C=\"urn:ietf:params:xml:ns:caldav\">{body}</D:multistatus>");
    answer("207 Multi-Status", "content-type: application/xml\r\n", &text)
}

fn response(href: &str, properties: &str) -> String {
    format!(
        "<D:response><D:href>{href}</D:href><D:propstat><D:prop>{properties}</D:prop>\
         <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
    )
}

const HOME: &str = "<C:calendar-home-set><D:href>/ada/</D:href></C:calendar-home-set>";
const CALENDAR: &str = "<D:resourcetype><C:calendar/></D:resourcetype>";

/// The answers of an orderly server with one event.
fn orderly(seen: &Seen) -> Option<Vec<u8>> {
    match (seen.method.as_str(), seen.path.as_str()) {
        ("PROPFIND", "/") => multistatus(&response("/", HOME)),
        ("PROPFIND", _) => multistatus(&response("/ada/work/", CALENDAR)),
        ("REPORT", _) => multistatus(""),
        ("GET", "/ada/work/x.ics") => answer("200 OK", "etag: \"1\"\r\n", EVENT),
        ("PUT" | "DELETE", _) => answer("204 No Content", "", ""),
        _ => answer("404 Not Found", "", ""),
    }
}

const EVENT: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:x\r\nDTSTART:20261201T100000Z\r\n\
    DTEND:20261201T110000Z\r\nSUMMARY:x\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

fn list() -> Value {
    calendar("list_calendar", json!({ "from": "2026-12-01", "to": "2026-12-08" }))
}

fn create() -> Value {
    let event = json!({ "calendar": "work", "summary": "x", "start": "2026-12-01T10:00", "end": "2026-12-01T11:00" });
    calendar("create_event", event)
}

fn update() -> Value {
    calendar("update_event", json!({ "id": "work/x.ics", "summary": "y" }))
}

/// The part of the log that are changes.
fn changes(log: &Log) -> usize {
    log.lock().unwrap().iter().filter(|line| line.starts_with("PUT") || line.starts_with("DELETE")).count()
}

/// Attack (Providers and modules): A calendar server sends a document type, deep or endless XML, a
/// compressed or foreign answer, or echoes the password.
/// Defence: `provider_calendar::client`, `multistatus`: bounded bytes and nodes, no document types;
/// of a refusal only the name of its condition.
#[test]
fn an_answer_without_sense_or_end_is_a_failure_and_the_host_lives() {
    let events = |data: &str| response("/ada/work/x.ics", &format!("<C:calendar-data>{data}</C:calendar-data>"));
    let bomb = "<!DOCTYPE a [<!ENTITY b \"cccccccccc\"><!ENTITY d \"&b;&b;&b;\">]><D:multistatus xmlns:D=\"DAV:\">&d;</D:multistatus>";
    let deep = "<a>".repeat(500_000);
    let large = "x".repeat(5 * 1024 * 1024);
    // A parser that compares each with each needs hours for them.
    let attributes = format!("<D:multistatus xmlns:D=\"DAV:\"{}/>", " a=\"\"".repeat(500_000));
    for (name, reported, expected) in [
        ("html", answer("207 x", "", "<html><body>sign in</body></html>"), "is not a multistatus document"),
        ("text", answer("207 x", "", "hello"), "is not the XML of WebDAV"),
        ("ok", answer("200 OK", "", "hello"), "is not that of a CalDAV server"),
        ("bomb", answer("207 x", "", bomb), "is not the XML of WebDAV"),
        ("deep", answer("207 x", "", &deep), "is not the XML of WebDAV"),
        ("attributes", answer("207 x", "", &attributes), "is not the XML of WebDAV"),
        ("refusal", answer("403 x", "", &attributes), "refuses (403"),
        ("large", answer("207 x", "", &large), "has more than 4096 KiB"),
        ("short", Some(b"HTTP/1.1 207 x\r\ncontent-length: 100\r\n\r\n<a".to_vec()), "breaks off"),
        ("compressed", answer("207 x", "content-encoding: gzip\r\n", "x"), "is compressed"),
        (
            "moved",
            answer("301 x", "location: https://elsewhere.example/dav/\r\n", ""),
            "set `url` to https://elsewhere.example/dav/",
        ),
        ("busy", answer("429 x", "retry-after: 7\r\n", ""), "is busy (429)"),
        ("broken", answer("500 x", "", &format!("the password is {PASSWORD}")), "answers 500"),
        ("told", answer("403 x", "", &format!("the password is {PASSWORD}")), "refuses (403"),
        ("nothing", None, "cannot be used"),
    ] {
        let reported = reported.clone();
        let (url, log) = server(move |seen| if seen.method == "REPORT" { reported.clone() } else { orderly(seen) });
        let (_world, developer) = world(&url, WRITABLE);
        let reply = developer.ask(list());
        assert_ne!(code(&reply), "executed", "{name}: {reply}");
        assert!(error(&reply).contains(expected), "{name}: {reply}");
        assert!(!reply.to_string().contains(PASSWORD), "{name}: {reply}");
        assert!(!log.lock().unwrap().is_empty());
    }
    // Events that cannot be read are counted, and the others are shown.
    let good =
        events("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261202T100000Z\nSUMMARY:good\nEND:VEVENT\nEND:VCALENDAR");
    let bad = [
        events("BEGIN:VCALENDAR"),
        events("hello"),
        events("BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:no start\nEND:VEVENT\nEND:VCALENDAR"),
        events(&"BEGIN:A\n".repeat(100_000)),
        response("https://evil.example/x.ics", "<C:calendar-data>BEGIN:VCALENDAR\nEND:VCALENDAR</C:calendar-data>"),
        response("/ada/private/x.ics", "<C:calendar-data>BEGIN:VCALENDAR\nEND:VCALENDAR</C:calendar-data>"),
    ];
    let body = format!("{good}{}", bad.concat());
    let (url, _) = server(move |seen| if seen.method == "REPORT" { multistatus(&body) } else { orderly(seen) });
    let (_world, developer) = world(&url, WRITABLE);
    let listed = data(&developer, "list_calendar", json!({ "from": "2026-12-01", "to": "2026-12-08" }));
    assert_eq!((listed["events"].as_array().unwrap().len(), &listed["unreadable"]), (1, &json!(bad.len())));
}

/// Attack (Providers and modules): A calendar server refers to another server, which would get the
/// password.
/// Defence: `provider_calendar::discovery`: only the origin of the configured address is contacted;
/// no redirect is followed.
#[test]
fn the_password_goes_to_no_other_server() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let other = format!("http://{}/ada/", elsewhere.local_addr().unwrap());
    for property in [
        "<C:calendar-home-set><D:href>X</D:href></C:calendar-home-set>",
        "<D:current-user-principal><D:href>X</D:href></D:current-user-principal>",
    ] {
        let property = property.replace('X', &other);
        let (url, _) = server(move |_| multistatus(&response("/", &property)));
        let (_world, developer) = world(&url, WRITABLE);
        let reply = developer.ask(list());
        assert!(error(&reply).contains("at another server"), "{reply}");
    }
    assert!(elsewhere.accept().is_err());
}

/// Attack (Providers and modules): The answer to a change of a calendar is lost.
/// Defence: `provider_calendar::change`: the event is looked for by the mark of the call, and
/// nothing is sent again.
#[test]
fn a_change_whose_answer_is_lost_is_looked_for_and_never_sent_again() {
    // The server makes the change, and the connection breaks before its answer.
    let Some(real) = CalendarServer::start() else { return };
    let port = real.port;
    let (url, log) = server(move |seen| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&seen.bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        (seen.method != "PUT").then_some(answer)
    });
    let (world, developer) = world(&url, WRITABLE);
    // The event with the mark of the call is found.
    let settled = |request: Value| {
        let request = developer.send(request);
        assert_eq!(code(&developer.reply(&request)), "outcome_unknown");
        let result = json!({ "type": "ext_result", "of": request, "timeout_ms": 10_000 });
        until("the proof", || Some(developer.ask(result.clone())).filter(|reply| code(reply) == "executed"))
    };
    let reply = settled(create());
    let id = reply["data"]["id"].as_str().unwrap().to_owned();
    assert_eq!((changes(&log), real.events("work").len()), (1, 1));
    settled(calendar("update_event", json!({ "id": id, "summary": "another" })));
    assert_eq!(changes(&log), 2);
    assert!(real.stored(&id).unwrap().contains("SUMMARY:another"));
    world.settle();
}

/// Attack: see `a_change_whose_answer_is_lost_is_looked_for_and_never_sent_again`.
#[test]
fn a_change_of_which_nothing_is_found_stays_unknown() {
    for lost in ["PUT", "500"] {
        let (url, log) = server(move |seen| match (seen.method.as_str(), lost) {
            ("PUT", "PUT") => None,
            ("PUT", _) => answer("500 x", "", ""),
            _ => orderly(seen),
        });
        let (world, developer) = world(&url, WRITABLE);
        for request in [create(), update()] {
            let reply = developer.ask(request);
            assert_eq!(code(&reply), "outcome_unknown", "{lost}: {reply}");
        }
        assert_eq!(changes(&log), 2);
        until("the look", || log.lock().unwrap().iter().any(|line| line.starts_with("GET")).then_some(()));
        world.settle();
    }
}

#[test]
fn a_refused_change_is_a_refusal() {
    let condition =
        "<D:error xmlns:D=\"DAV:\"><C:no-uid-conflict xmlns:C=\"urn:ietf:params:xml:ns:caldav\"/></D:error>";
    for (status, body, expected) in [
        ("412 x", "", "Somebody has changed the event since"),
        ("403 x", condition, "no-uid-conflict"),
        ("404 x", "", "no such calendar or event"),
        ("401 x", "", "refuses the user name or the password"),
        ("302 x", "", "is not followed"),
        ("429 x", "", "is busy"),
    ] {
        let (url, log) =
            server(move |seen| if seen.method == "PUT" { answer(status, "", body) } else { orderly(seen) });
        let (_world, developer) = world(&url, WRITABLE);
        let reply = developer.ask(update());
        assert!(!["executed", "outcome_unknown"].contains(&code(&reply)), "{status}: {reply}");
        assert!(error(&reply).contains(expected), "{status}: {reply}");
        assert_eq!(changes(&log), 1);
    }
}

#[test]
fn an_event_without_a_version_or_too_large_is_not_changed() {
    let large = EVENT.replace("SUMMARY:x", &format!("SUMMARY:{}", "x".repeat(100 * 1024)));
    for (headers, body, expected, reason) in [
        ("", EVENT, "invalid_output", "names no version of the event"),
        ("etag: \"1\"\r\n", large.as_str(), "provider_failed", "has more than 96 KiB"),
        ("etag: \"1\"\r\n", "hello", "invalid_output", "is no event"),
    ] {
        let got = answer("200 OK", headers, body);
        let (url, log) = server(move |seen| if seen.method == "GET" { got.clone() } else { orderly(seen) });
        let (_world, developer) = world(&url, WRITABLE);
        let reply = developer.ask(update());
        assert_eq!(code(&reply), expected, "{reply}");
        assert!(error(&reply).contains(reason), "{reply}");
        assert_eq!(changes(&log), 0);
    }
}

/// The lines of an event, as an answer to GET.
fn event(lines: &str) -> Option<Vec<u8>> {
    answer("200 OK", "etag: \"1\"\r\n", &format!("BEGIN:VCALENDAR\nVERSION:2.0\n{lines}\nEND:VCALENDAR\n"))
}

/// Attack (Providers and modules): An event claims a length of thousands of years, many zones, or
/// deep components.
/// Defence: `provider_calendar::moment`, `content_lines`: years of calendars only, and only the
/// zone of given times is defined.
///
/// Attack: see `an_event_with_guests_is_changed_only_where_an_operator_allows_it`.
#[test]
fn an_event_that_claims_the_impossible_is_refused_or_changed_and_the_host_lives() {
    let one = |lines: &str| {
        event(&format!("BEGIN:VEVENT\nUID:x\nDTSTART;TZID=Europe/Berlin:20261201T100000\n{lines}\nEND:VEVENT"))
    };
    let zones = ["Berlin", "Paris", "Rome", "Madrid", "Lisbon", "London", "Oslo"];
    let occurrence_in = |zone: &&str| {
        format!(
            "BEGIN:VEVENT\nUID:x\nRECURRENCE-ID;TZID=Europe/{zone}:20261201T100000\nDTSTART:20261201T100000Z\n\
             DURATION:P90000000D\nEND:VEVENT\n"
        )
    };
    let many = zones.iter().cycle().take(400).map(occurrence_in).collect::<Vec<String>>().concat();
    let occurrence = || json!({ "id": "work/x.ics", "occurrence": "2026-12-08T09:00:00Z", "summary": "y" });
    let title = || json!({ "id": "work/x.ics", "summary": "y" });
    let moved = || json!({ "id": "work/x.ics", "start": "2026-12-02T10:00", "end": "2026-12-02T11:00" });
    for (name, got, params, expected) in [
        ("a length of 260,000 years", one("DURATION:P95003000D\nRRULE:FREQ=DAILY"), title(), ""),
        ("a negative length", one("DURATION:-P95003000D"), title(), ""),
        ("many zones and lengths", event(&format!("{many}BEGIN:VEVENT\nUID:x\nEND:VEVENT")), title(), ""),
        (
            "a year without a calendar",
            event("BEGIN:VEVENT\nUID:x\nDTSTART:99990101T000000Z\nRRULE:FREQ=DAILY\nEND:VEVENT"),
            title(),
            "",
        ),
        ("a hidden guest", one("X1.ATTENDEE:mailto:eve@evil.example"), title(), "is no event"),
        ("a hidden component", one("BEGIN;X=1:VALARM\nEND:VALARM"), title(), "is no event"),
        (
            "a guest of a reminder",
            one("BEGIN:VALARM\nACTION:EMAIL\nATTENDEE:mailto:eve@evil.example\nEND:VALARM"),
            title(),
            "has guests",
        ),
        ("a task", event("BEGIN:VTODO\nUID:x\nEND:VTODO"), title(), "has no event under that name"),
        (
            "an event and a task",
            event("BEGIN:VEVENT\nUID:x\nEND:VEVENT\nBEGIN:VTODO\nUID:x\nEND:VTODO"),
            title(),
            "more than one event",
        ),
        (
            "two events",
            event("BEGIN:VEVENT\nUID:x\nEND:VEVENT\nBEGIN:VEVENT\nUID:y\nEND:VEVENT"),
            title(),
            "more than one event",
        ),
        (
            "a change of all later occurrences",
            event(
                "BEGIN:VEVENT\nUID:x\nDTSTART:20261201T090000Z\nRRULE:FREQ=WEEKLY\nEND:VEVENT\nBEGIN:VEVENT\nUID:x\n\
                   RECURRENCE-ID;RANGE=THISANDFUTURE:20261208T090000Z\nDTSTART:20261208T100000Z\nEND:VEVENT",
            ),
            occurrence(),
            "all later occurrences",
        ),
        ("a series on another day", one("RRULE:FREQ=WEEKLY;BYDAY=TU"), moved(), "together with its rule"),
        (
            "a large event",
            one(&format!("DESCRIPTION:{}", "x".repeat(90_000))),
            json!({ "id": "work/x.ics", "location": "y".repeat(400), "description": "z".repeat(10_000), "summary": "y" }),
            "",
        ),
    ] {
        let got = got.clone();
        let (url, log) = server(move |seen| if seen.method == "GET" { got.clone() } else { orderly(seen) });
        let (_world, developer) = world(&url, WRITABLE);
        let reply = developer.ask(calendar("update_event", params));
        if expected.is_empty() {
            assert_eq!((code(&reply), changes(&log)), ("executed", 1), "{name}: {reply}");
        } else {
            assert!(error(&reply).contains(expected), "{name}: {reply}");
            assert_eq!(changes(&log), 0, "{name}");
        }
    }
}

/// Attack (Providers and modules): A server answers a change with a page, with 202 or with 207. It
/// gives a version that cannot be compared.
/// Defence: `provider_calendar::client`, `change`: only 200, 201 and 204 confirm a change; a
/// version is strong.
#[test]
fn an_answer_that_confirms_nothing_is_no_success() {
    for (status, headers) in [("202 x", ""), ("207 x", ""), ("200 OK", "content-type: text/html\r\n")] {
        let got = answer(status, headers, "<html>sign in</html>");
        let (url, log) = server(move |seen| if seen.method == "PUT" { got.clone() } else { orderly(seen) });
        let (world, developer) = world(&url, WRITABLE);
        assert_eq!(code(&developer.ask(update())), "outcome_unknown", "{status}");
        assert_eq!(changes(&log), 1);
        world.settle();
    }
    // A version that cannot be compared protects nothing.
    for etag in ["*", "W/\"1\"", "1", "\"1\", \"2\""] {
        let got = answer("200 OK", &format!("etag: {etag}\r\n"), EVENT);
        let (url, log) = server(move |seen| if seen.method == "GET" { got.clone() } else { orderly(seen) });
        let (_world, developer) = world(&url, WRITABLE);
        assert!(error(&developer.ask(update())).contains("names no version"), "{etag}");
        assert_eq!(changes(&log), 0);
    }
}

#[test]
fn a_change_that_a_server_in_between_has_sent_twice_is_told_as_it_is() {
    let Some(real) = CalendarServer::start() else { return };
    let port = real.port;
    let send = move |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    };
    let (url, _) = server(move |seen| {
        let first = send(&seen.bytes);
        Some(if seen.method == "PUT" { send(&seen.bytes) } else { first })
    });
    let (_world, developer) = world(&url, WRITABLE);
    let reply = developer.ask(create());
    assert_eq!(code(&reply), "executed", "{reply}");
    let id = reply["data"]["id"].as_str().unwrap();
    let change = calendar("update_event", json!({ "id": id, "summary": "another" }));
    assert_eq!(code(&developer.ask(change)), "executed");
    assert!(real.stored(id).unwrap().contains("SUMMARY:another"));
}

/// Attack: see `a_change_whose_answer_is_lost_is_looked_for_and_never_sent_again`.
#[test]
fn a_broker_that_is_killed_after_a_change_has_left_finds_it_again_and_sends_nothing() {
    let Some(real) = CalendarServer::start() else { return };
    let port = real.port;
    let (url, log) = server(move |seen| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&seen.bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        // The change is made, and its answer never comes.
        if seen.method == "PUT" {
            loop {
                std::thread::park();
            }
        }
        Some(answer)
    });
    let (mut world, _) = world(&url, WRITABLE);
    world.stop();
    world.start_process();
    // The clock of the process is the real one.
    world.grant_with("developer", 2, json!({ "provider": "calendar" }));
    let developer = world.group("developer");
    let request = developer.send(create());
    until("the change", || {
        assert_eq!(developer.try_reply(&request), None);
        (real.events("work").len() == 1).then_some(())
    });
    world.kill();
    world.start_process();
    let result = json!({ "type": "ext_result", "of": request, "timeout_ms": 10_000 });
    let reply = until("the proof", || Some(developer.ask(result.clone())).filter(|reply| code(reply) == "executed"));
    let id = reply["data"]["id"].as_str().unwrap();
    assert!(real.stored(id).is_some());
    assert_eq!((changes(&log), real.events("work").len()), (1, 1));
}

#[test]
fn of_changes_of_one_event_at_once_none_is_lost() {
    let Some(real) = filled() else { return };
    let (_world, developer) = world(&real.url("/"), WRITABLE);
    let fields = ["summary", "location", "description"];
    let change = |field: &&str| {
        let mut params = json!({ "id": "work/single.ics" });
        params[*field] = json!(format!("new {field}"));
        developer.send(calendar("update_event", params))
    };
    let requests: Vec<String> = fields.iter().map(change).collect();
    let stored = |field: &str| {
        let line = format!("\n{}:new {field}\n", field.to_ascii_uppercase());
        real.stored("work/single.ics").unwrap().contains(&line)
    };
    let replies: Vec<Value> = requests.iter().map(|request| developer.reply(request)).collect();
    for (field, reply) in fields.iter().zip(&replies) {
        assert!(["executed", "guardrail"].contains(&code(reply)), "{reply}");
        assert_eq!(stored(field), code(reply) == "executed", "{field}: {reply}");
    }
    assert!(replies.iter().any(|reply| code(reply) == "executed"));
}
