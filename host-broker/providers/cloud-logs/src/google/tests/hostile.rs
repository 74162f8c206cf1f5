//! Servers that are slow, endless, or answer otherwise than asked.

use super::*;

fn line(log: &str, ago: i64, text: &str) -> Value {
    entry(log, ago, &json!({ "textPayload": text, "insertId": text }))
}

/// Attack: see `a_server_without_end_is_left_after_a_bounded_number_of_requests`.
#[tokio::test]
async fn an_answer_without_entries_has_a_token_and_one_of_another_time_or_project_is_left_out() {
    let log = format!("{PROJECT}/logs/app");
    let mut later = line(&log, -3600 * SECOND, "later");
    later["timestamp"] = json!("2026-02-14T13:00:00Z");
    let entries = json!([
        later,
        line(&log, SECOND, "mine"),
        line("acme-secret/logs/app", SECOND, "of another project"),
        line(&format!("{PROJECT}-2/logs/app"), SECOND, "of a project with a longer name"),
        { "logName": format!("projects/{log}"), "timestamp": "yesterday", "textPayload": "without a time" },
        { "logName": format!("projects/{log}"), "receiveTimestamp": "2026-02-14T11:59:00.5Z", "textPayload": "received" },
        "no entry",
        line(&log, 7200 * SECOND, "earlier"),
    ]);
    let (port, requests) = with_token(move |request| match request.json()["pageToken"].as_str() {
        None => ok(&json!({ "nextPageToken": "t1" })),
        Some("t1") => ok(&json!({ "nextPageToken": "t2" })),
        Some(_) => ok(&json!({ "entries": entries })),
    });
    let all = page(&logs(port, &json!([PROJECT])), &access(port), json!({})).await;
    assert_eq!(messages(&all), ["mine", "received"]);
    assert_eq!(all["entries"][1]["timestamp"], "2026-02-14T11:59:00.500Z");
    assert_eq!(reasons(&all), [format!("gcp: {PROJECT}: {ODD}")]);
    let requests = requests.lock().unwrap();
    // A token continues the same request.
    let filters: BTreeSet<String> =
        requests.iter().skip(1).map(|request| request.json()["filter"].to_string()).collect();
    assert_eq!((requests.len(), filters.len()), (4, 1));
}

/// Attack (Providers and modules): Google Cloud Logging returns tokens without end, another time,
/// other projects, very large entries or nonsense.
/// Defence: `provider_cloud_logs::google`: bounded requests and answers, only the configured
/// projects, only the time of the query.
#[tokio::test]
async fn a_server_without_end_is_left_after_a_bounded_number_of_requests() {
    let count = Mutex::new(0);
    let (port, log) = with_token(move |_request| {
        *count.lock().unwrap() += 1;
        ok(&json!({ "nextPageToken": count.lock().unwrap().to_string() }))
    });
    let all = page(&logs(port, &json!(["acme-one", "acme-two"])), &access(port), json!({})).await;
    assert_eq!(log.lock().unwrap().len(), 1 + REQUESTS_MAX);
    let of_one = log.lock().unwrap().iter().filter(|request| request.body.contains("projects/acme-one")).count();
    assert_eq!(of_one, REQUESTS_MAX / 2, "the projects share the requests");
    assert_eq!(reasons(&all), [format!("gcp: acme-one: {MORE}"), format!("gcp: acme-two: {MORE}")]);

    let (port, log) = with_token(|_request| ok(&json!({ "nextPageToken": "again" })));
    let all = page(&logs(port, &json!([PROJECT])), &access(port), json!({})).await;
    assert_eq!(log.lock().unwrap().len(), 3);
    assert_eq!(reasons(&all), [format!("gcp: {PROJECT}: {REPEATED}")]);
}

#[tokio::test]
async fn services_are_listed_up_to_a_bound_and_only_those_of_the_project() {
    let (port, log) = with_token(|request| {
        let names =
            ["projects/acme-prod/logs/app", "projects/acme-secret/logs/app2", "nonsense", "projects/acme-prod/logs/"];
        assert!(request.line.starts_with("GET /v2/projects/acme-prod/logs?pageSize=1000"));
        ok(&json!({ "logNames": names, "nextPageToken": "a&b" }))
    });
    let list = async |port| {
        let list: ListServices = serde_json::from_value(json!({})).unwrap();
        serde_json::to_value(list.list(&logs(port, &json!([PROJECT])), access(port)).await.unwrap()).unwrap()
    };
    let found = list(port).await;
    assert_eq!(found["services"], json!([{ "service": "app", "kind": "google" }]));
    assert_eq!(reasons(&found), [format!("gcp: {PROJECT}: there are more services than are listed")]);
    assert_eq!(log.lock().unwrap().len(), 1 + LIST_REQUESTS_MAX);
    assert!(log.lock().unwrap()[2].line.ends_with("&pageToken=a%26b"));

    let names: Vec<String> = (0..1_000).map(|n| format!("projects/acme-prod/logs/app-{n}")).collect();
    let (port, _) = with_token(move |_request| ok(&json!({ "logNames": names })));
    assert_eq!(list(port).await["services"].as_array().unwrap().len(), SERVICES_MAX);
}

/// Attack (Providers and modules): One project of Google Cloud is refused or silent.
/// Defence: Each project is asked alone, with a share of the requests and of the time.
#[tokio::test]
async fn a_project_that_is_refused_or_silent_hides_no_other() {
    let fault = |status: &str, message: &str| {
        let code: u16 = status.split(' ').next().unwrap().parse().unwrap();
        answer(status, &json!({ "error": { "code": code, "message": message, "status": "NO" } }).to_string())
    };
    let long = format!("No\r\n\u{202e}{TOKEN} {}", "x".repeat(5_000));
    for (odd, said) in [
        (
            fault("403 Forbidden", "Permission 'logging.logEntries.list' denied."),
            "the service account has no permission for this; the operator must check its role (403): Permission \
             'logging.logEntries.list' denied"
                .to_owned(),
        ),
        (fault("404 x", "Project not found."), "there is no such project (404): Project not found".to_owned()),
        (fault("429 x", "Quota exceeded"), "it limits requests now; try again later (429): Quota exceeded".to_owned()),
        (fault("400 x", "Unparseable filter"), "it answers 400: Unparseable filter".to_owned()),
        (fault("503 x", &long), format!("it answers 503: No <redacted> {}…", "x".repeat(286))),
        (answer("502 x", "<html>"), "it answers 502".to_owned()),
        (answer("302 x\r\nlocation: http://127.0.0.1:1/", ""), "it answers 302".to_owned()),
        (answer("200 OK", "hello"), NOT_GOOGLE.to_owned()),
        (ok(&json!({ "nextPageToken": "x".repeat(9_000) })), NOT_GOOGLE.to_owned()),
        // More entries than were asked for take no memory.
        (ok(&json!({ "entries": vec![0; PAGE_MAX + 1] })), NOT_GOOGLE.to_owned()),
        (
            answer("200 OK\r\ncontent-encoding: gzip", "x"),
            "its answer is compressed, although nobody asked for that".to_owned(),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_owned(), "its answer breaks off".to_owned()),
        (String::new(), "it does not answer in time".to_owned()),
    ] {
        // A silent server gets its share of the time.
        let timeout = Duration::from_secs(if odd.is_empty() { 2 } else { 60 });
        let entries = vec![line("acme-two/logs/app", SECOND, "mine")];
        let own = odd.clone();
        let (port, _) =
            with_token(
                move |request| {
                    if request.body.contains("projects/acme-one") { own.clone() } else { list(&entries, request) }
                },
            );
        let both = logs(port, &json!(["acme-one", "acme-two"]));
        let all = page(&both, &of(&account(port), timeout), json!({})).await;
        assert_eq!(messages(&all), ["mine"], "{odd}");
        assert_eq!(reasons(&all), [format!("gcp: acme-one: {said}")], "{odd}");
        let alone = failure(&logs(port, &json!(["acme-one"])), &of(&account(port), timeout)).await;
        assert!(alone.contains("gcp: acme-one: ") && !alone.contains("CANARY"), "{alone}");
    }
}

#[tokio::test]
async fn a_project_that_fails_in_the_middle_keeps_what_was_found() {
    let first = line(&format!("{PROJECT}/logs/app"), SECOND, "mine");
    let (port, _) = with_token(move |request| match request.json()["pageToken"].as_str() {
        None => ok(&json!({ "entries": [first], "nextPageToken": "t1" })),
        Some(_) => answer("500 x", ""),
    });
    let all = page(&logs(port, &json!([PROJECT])), &access(port), json!({})).await;
    assert_eq!((messages(&all), reasons(&all)), (vec!["mine"], vec!["gcp: acme-prod: it answers 500"]));
}

#[tokio::test]
async fn a_service_that_no_log_can_have_is_refused_and_costs_no_request_for_entries() {
    let (port, log) = google(Vec::new());
    let wrong = json!({ "service": "user@1000.service" });
    let message = "there is no service `user@1000.service`".to_owned();
    assert_eq!(failed(&logs(port, &json!([PROJECT])), &access(port), wrong).await, Failure::Refused { message });
    assert!(log.lock().unwrap().iter().all(|request| !request.line.contains("entries")));
}

#[tokio::test]
async fn a_service_is_not_refused_if_a_project_cannot_list_its_own() {
    let (port, _) = with_token(|request| {
        if request.line.starts_with("GET /v2/projects/acme-two/") {
            answer("403 x", "")
        } else if request.line.starts_with("GET ") {
            ok(&json!({ "logNames": ["projects/acme-one/logs/web"] }))
        } else {
            ok(&json!({}))
        }
    });
    let both = logs(port, &json!(["acme-one", "acme-two"]));
    let found = page(&both, &access(port), json!({ "service": "webb" })).await;
    let note = "no list has this service, so there may be none; did you mean `web`?";
    assert_eq!((messages(&found).len(), reasons(&found)), (0, vec![note]));
    // One that is listed has only no entries in that time.
    let found = page(&both, &access(port), json!({ "service": "web" })).await;
    assert_eq!((messages(&found).len(), reasons(&found).len()), (0, 0));
}

/// Attack (Providers and modules): Queries use up the requests a minute of a Google project, for
/// other programs, too.
/// Defence: `provider_cloud_logs::google::pace`: the broker counts its requests for entries, and
/// sends no more than are configured.
#[tokio::test]
async fn no_minute_has_more_requests_than_google_allows() {
    let (count, first) = (Mutex::new(0), line(&format!("{PROJECT}/logs/app"), SECOND, "mine"));
    let (port, log) = with_token(move |_request| {
        *count.lock().unwrap() += 1;
        ok(&json!({ "entries": [first], "nextPageToken": count.lock().unwrap().to_string() }))
    });
    let (logs, access) = (limited_logs(port, &json!([PROJECT]), 3), of(&account(port), Duration::from_secs(30)));
    let some = page(&logs, &access, json!({})).await;
    assert_eq!(messages(&some), ["mine"]);
    let reason = reasons(&some)[0];
    assert!(reason.starts_with("gcp: acme-prod: it limits requests now; try again in "), "{reason}");
    let Failure::RateLimited { retry_after: Some(pause), message } = failed(&logs, &access, json!({})).await else {
        panic!()
    };
    assert!(pause <= Duration::from_secs(60) && message.contains("it limits requests now"), "{message}");
    assert_eq!(log.lock().unwrap().len(), 1 + 3);
}

#[tokio::test]
async fn a_limit_of_google_tells_when_to_try_again() {
    let body = json!({ "error": { "code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED" } });
    for (head, after, when) in [
        ("429 x\r\nretry-after: 7", Some(7), "in 7 s"),
        ("429 x\r\nretry-after: 99999", Some(3600), "in 3600 s"),
        ("429 x\r\nretry-after: soon", None, "later"),
        ("429 x", None, "later"),
    ] {
        let body = body.to_string();
        let (port, _) = with_token(move |_request| answer(head, &body));
        let failure = failed(&logs(port, &json!([PROJECT])), &access(port), json!({})).await;
        let message = format!(
            "no logs can be read: google: gcp: acme-prod: it limits requests now; try again {when} (429): Quota exceeded"
        );
        assert_eq!(failure, Failure::RateLimited { retry_after: after.map(Duration::from_secs), message });
    }
}

/// Attack: see `a_server_without_end_is_left_after_a_bounded_number_of_requests`.
#[tokio::test]
async fn answers_that_are_too_large_are_requested_again_with_fewer_entries() {
    let log = format!("{PROJECT}/logs/app");
    let small = (1..=120).map(|n| line(&log, n, &format!("noise {n}")));
    let big = (1..=60).map(|n| line(&log, n * SECOND, &format!("line {n} {}", "x".repeat(RESULT_BYTES_MAX / 40))));
    // The second answer is too large. The first one is not lost, and its token is not used again.
    let (port, requests) = google(small.chain(big).collect());
    let access = access(port);
    let all = page(&logs(port, &json!([PROJECT])), &access, json!({ "query": "ne ", "limit": 60 })).await;
    let numbers: Vec<&str> = messages(&all).iter().map(|message| message.split(' ').nth(1).unwrap()).collect();
    assert_eq!(numbers, (1..=60).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(reasons(&all), [""; 0]);
    let sizes: Vec<Value> =
        requests.lock().unwrap().iter().skip(1).map(|request| request.json()["pageSize"].clone()).collect();
    assert_eq!(sizes, [120, 120, 15, 15, 15, 15, 15]);

    // One that is too big alone hides only those before it.
    let (port, _) = google(vec![
        line(&log, SECOND, "after"),
        line(&log, 2 * SECOND, &"x".repeat(RESULT_BYTES_MAX)),
        line(&log, 3 * SECOND, "before"),
    ]);
    let some = page(&logs(port, &json!([PROJECT])), &of(&account(port), Duration::from_secs(60)), json!({})).await;
    assert_eq!((messages(&some), reasons(&some)), (vec!["after"], vec![format!("gcp: {PROJECT}: {TOO_BIG}").as_str()]));
}

#[test]
fn each_project_gets_an_equal_share_of_the_time_that_is_left() {
    let settings = json!({
        "name": "gcp", "projects": ["acme-one", "acme-two", "acme-three"], "client_email": "broker@acme.example",
        "private_key": { "env": "KEY" },
    });
    let settings: GoogleSettings = serde_json::from_value(settings).unwrap();
    let (server, access) = (settings.open(&Own::new().parts()).unwrap(), access(1));
    let Some(SignIn::Account(pass)) = access.credentials.get("gcp") else { panic!() };
    for (place, seconds) in [(0, 20), (1, 30), (2, 60)] {
        let left = server.session(place, (pass, TOKEN), &access).deadline - Instant::now();
        assert!((seconds - 8..=seconds).contains(&left.as_secs()), "{place}: {left:?}");
    }
}
