//! The service account: its assertion, its tokens and its settings.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

fn lines(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().map(|request| request.line.clone()).collect()
}

#[tokio::test]
async fn a_token_is_requested_once_with_the_assertion_and_shown_to_the_api_alone() {
    let (port, log) = google(of_all_payloads());
    let (logs, account) = (logs(port, &json!([PROJECT])), account(port));
    let access = of(&account, Duration::from_secs(60));
    let query = || page(&logs, &access, json!({}));
    tokio::join!(query(), query(), query(), query());
    let requests = log.lock().unwrap();
    let (tokens, others): (Vec<_>, Vec<_>) = requests.iter().partition(|request| request.line == "POST /token");
    assert_eq!(tokens.len(), 1, "calls at the same time share one");
    let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=eyJhbGciOiJSUzI1NiJ9.CANARY.signature";
    assert_eq!(tokens[0].body, form);
    assert!(tokens[0].head.to_lowercase().contains("content-type: application/x-www-form-urlencoded"));
    assert!(!tokens[0].head.contains("authorization"));
    assert!(others.iter().all(|request| !request.head.contains(ASSERTION) && !request.body.contains(ASSERTION)));
    assert!(!format!("{access:?}").contains("CANARY"));
}

#[tokio::test]
async fn a_token_that_is_about_to_end_serves_one_call() {
    for end in [json!({ "expires_in": 299 }), json!({})] {
        let mut token = json!({ "access_token": TOKEN, "token_type": "bearer" });
        token.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
        let (port, log) =
            responder(move |request| ok(if request.line == "POST /token" { &token } else { &Value::Null }));
        let (logs, account) = (logs(port, &json!([PROJECT])), account(port));
        for calls in 1..=2 {
            failure(&logs, &of(&account, Duration::from_secs(60))).await;
            assert_eq!(lines(&log).iter().filter(|line| *line == "POST /token").count(), calls, "{end}");
        }
    }
}

#[tokio::test]
async fn a_token_that_google_refuses_is_dropped() {
    let echo =
        json!({ "error": { "code": 401, "message": format!("{TOKEN} is invalid."), "status": "UNAUTHENTICATED" } });
    let (port, log) = with_token(move |_request| answer("401 x", &echo.to_string()));
    let (both, account) = (logs(port, &json!(["acme-one", "acme-two"])), account(port));
    for calls in 1..=2 {
        let failure = failure(&both, &of(&account, Duration::from_secs(60))).await;
        let said = "gcp: acme-one: it refuses the token; try again (401): <redacted> is invalid";
        assert!(failure.contains(said), "{failure}");
        assert_eq!(lines(&log), ["POST /token", "POST /v2/entries:list", "POST /v2/entries:list"].repeat(calls));
    }
    // A newer one is kept.
    let access = of(&account, Duration::from_secs(60));
    let Some(SignIn::Account(pass)) = access.credentials.get("gcp") else { panic!() };
    let http = platform::http::SystemHttp::default();
    let clock = Own::new();
    let token = async || pass.token(&http, clock.parts().clock.as_ref(), access.deadline).await.unwrap();
    token().await;
    pass.drop_refused("another token", access.deadline).await;
    token().await;
    assert_eq!(lines(&log).len(), 7);
}

/// Attack: see `logs_come_from_google_with_a_token_for_which_the_key_signs`.
#[tokio::test]
async fn without_the_right_answer_there_is_no_token() {
    let refused = "Google refuses the service account; the operator must check client_email, private_key and the clock";
    let no = |status: &str, body: Value| answer(status, &body.to_string());
    let token = |members: Value| ok(&members);
    for (odd, said) in [
        (
            no("400 x", json!({ "error": "invalid_grant", "error_description": format!("Invalid JWT {ASSERTION}.") })),
            format!("{refused} (400): invalid_grant: Invalid JWT <redacted>"),
        ),
        (no("401 x", json!({ "error": "invalid_client" })), format!("{refused} (401): invalid_client")),
        (no("503 x", json!({ "error": "internal\u{1b}[2J" })), "the token server: it answers 503: internal [2J".into()),
        (answer("500 x", "<html>"), "the token server: it answers 500".into()),
        (answer("302 x\r\nlocation: http://127.0.0.1:1/", ""), "the token server: it answers 302".into()),
        (answer("200 OK", "<html>"), "the token server: its answer has no usable token".into()),
        (token(json!({ "access_token": TOKEN })), "the token server: its answer has no usable token".into()),
        (token(json!({ "access_token": TOKEN, "token_type": "mac" })), "its answer has no usable token".into()),
        (token(json!({ "id_token": TOKEN, "token_type": "Bearer" })), "its answer has no usable token".into()),
        (
            token(json!({ "access_token": "", "token_type": "Bearer" })),
            "its token cannot be kept out of results".into(),
        ),
        (token(json!({ "access_token": "x".repeat(7_000), "token_type": "Bearer" })), "cannot be kept out of".into()),
        (ok(&json!("x".repeat(RESULT_BYTES_MAX))), "the token server: its answer has no usable token".into()),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_owned(), "the token server: its answer breaks off".into()),
        (String::new(), "the token server: it does not answer in time".into()),
    ] {
        let timeout = Duration::from_millis(if odd.is_empty() { 600 } else { 60_000 });
        let own = odd.clone();
        let (port, log) = responder(move |_request| own.clone());
        let failure = failure(&logs(port, &json!([PROJECT])), &of(&account(port), timeout)).await;
        assert!(failure.contains(&said) && failure.contains("google: gcp: "), "{said}: {failure}");
        assert!(!failure.contains("CANARY"), "{failure}");
        assert!(lines(&log).iter().all(|line| line == "POST /token"), "nothing is sent without a token");
    }
    let (port, _) = responder(|_request| ok(&json!({ "access_token": "line\nbreak-of-it", "token_type": "Bearer" })));
    let failure = failure(&logs(port, &json!([PROJECT])), &access(port)).await;
    assert!(failure.contains("the request cannot be written as HTTP"), "{failure}");
}

#[tokio::test]
async fn without_its_secret_a_project_is_not_asked() {
    let (port, log) = google(Vec::new());
    let access = Access { credentials: Arc::default(), ..access(port) };
    let failure = failure(&logs(port, &json!([PROJECT])), &access).await;
    assert!(failure.contains("gcp: its secret is missing"), "{failure}");
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn an_assertion_is_for_the_token_address_and_reading_logs() {
    let unsigned = provider::issued_tokens::unsigned(account(1).claims(), now());
    let claims = URL_SAFE_NO_PAD.decode(unsigned.split_once('.').unwrap().1).unwrap();
    let seconds = now().millis() / 1000;
    assert_eq!(
        serde_json::from_slice::<Value>(&claims).unwrap(),
        json!({
            "iss": "broker@acme-prod.iam.gserviceaccount.com", "aud": "http://127.0.0.1:1/token", "iat": seconds - 60,
            "exp": seconds + 540, "scope": "https://www.googleapis.com/auth/logging.read",
        })
    );
}

#[test]
fn settings_that_cannot_be_right_are_refused() {
    let fine = json!({
        "name": "gcp", "projects": ["acme-prod"], "client_email": "broker@acme-prod.iam.gserviceaccount.com",
        "private_key": { "env": "KEY" },
    });
    let read = |changes: Value| {
        let mut settings = fine.clone();
        settings.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value::<GoogleSettings>(settings).unwrap().addresses()
    };
    let addresses = read(json!({ "projects": ["acme-prod", "example.com:acme-old"] })).unwrap();
    assert_eq!(addresses.url.as_str(), "https://logging.googleapis.com/");
    assert_eq!(addresses.token_url.as_str(), "https://oauth2.googleapis.com/token");
    let many: Vec<String> = (0..21).map(|n| format!("acme-{n}")).collect();
    for (changes, fault) in [
        (json!({ "name": "GCP" }), "name: must have"),
        (json!({ "projects": [] }), "projects: must name"),
        (json!({ "projects": many }), "projects: must name"),
        (json!({ "projects": ["acme-prod/../x"] }), "projects: must name"),
        (json!({ "projects": ["acme\" OR \""] }), "projects: must name"),
        (json!({ "projects": ["123456789012"] }), "projects: must name"),
        (json!({ "client_email": "broker" }), "client_email: is no address"),
        (json!({ "client_email": "a@b@c" }), "client_email: is no address"),
        (json!({ "client_email": "a b@c" }), "client_email: is no address"),
        (json!({ "url": "http://logging.example.com" }), "url: must be https"),
        (json!({ "url": "https://logging.example.com/path" }), "url: must have no path"),
        (json!({ "token_url": "http://oauth2.example.com/token" }), "token_url: must be https"),
        (json!({ "token_url": "https://oauth2.example.com/token?a=b" }), "token_url: must be https"),
    ] {
        let said = read(changes.clone()).unwrap_err().to_string();
        assert!(said.starts_with("google `") && said.contains(fault), "{changes}: {said}");
    }
}
