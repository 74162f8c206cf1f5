//! The tokens of a GitHub App: one for each repository, requested once, and refused if GitHub's answer is not as asked.

use crate::app::{App, Reach, claims};
use crate::base::{BaseUrl, Target};
use crate::client::{Change, Client, Session};
use crate::guardrails::Guardrails;
use crate::list_repos::ListRepos;
use crate::scripted::{Caller, Fixed, NOW, Reply, SHORT, Scripted, TIMEOUT, TOKEN};
use crate::standin::Standin;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use model::Clock as _;
use platform::clock::SystemClock;
use provider::contract::Failure;
use provider::issued_tokens::{TokenText, unsigned};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use secrets::Secret;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const KEY: &str = include_str!("../../../../tests/fixtures/keys/rsa-pkcs1.pem");
/// The assertion of all tests. Its signature is a matter of the secret and of the tests against a stand-in.
const ASSERTION: &str = "eyJhbGciOiJSUzI1NiJ9.CANARY.signature";

fn app() -> App {
    App::new("4711".into(), 7, Arc::new(Secret::new(KEY.into()))).unwrap()
}

fn hello() -> Reach {
    Reach::repository(&"Octocat/Hello-World")
}

/// An answer with the token of the tests.
fn issued(repo: &str, life: Duration) -> Value {
    json!({
        "token": TOKEN,
        "expires_at": NOW.plus(life).to_string(),
        "permissions": { "contents": "write" },
        "repositories": [{ "full_name": repo }],
    })
}

fn created(answer: &Value) -> Reply {
    Reply::json(201, "", &answer.to_string())
}

/// The same token as [`App::token`] returns, with an assertion that needs no execution.
async fn token(app: &App, server: &Scripted, reach: &Reach, timeout: Duration) -> Result<String, Failure> {
    let client = Client::new(BaseUrl::parse(&server.base()).unwrap(), Arc::new(Fixed)).unwrap();
    let nonce = Caller::to(&server.base()).nonce;
    let assertion = |_now| Some(TokenText::new(ASSERTION.to_owned()));
    let token = app.kept_or_new(&client, reach, (Instant::now() + timeout, &nonce), assertion).await;
    token.map(|token| token.reveal().to_owned())
}

#[tokio::test]
async fn a_token_reaches_one_repository_and_is_requested_once() {
    let hour = Duration::from_secs(3600);
    let server = Scripted::new([
        created(&issued("octocat/hello-world", hour)),
        created(&json!({ "token": "ghs_of-the-names-of-all", "expires_at": NOW.plus(hour).to_string() })),
    ]);
    let app = app();
    let all = (0..8).map(|_| async { token(&app, &server, &hello(), TIMEOUT).await.unwrap() });
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(|one| one.as_str() == TOKEN));
    assert_eq!(server.requests().len(), 1, "calls at the same time share one");
    for _ in 0..2 {
        assert_eq!(token(&app, &server, &Reach::Names, TIMEOUT).await.unwrap().as_str(), "ghs_of-the-names-of-all");
    }
    let [repository, names]: [String; 2] = server.requests().try_into().unwrap();
    for (request, body) in [
        (repository, json!({ "repositories": ["hello-world"] })),
        (names, json!({ "permissions": { "metadata": "read" } })),
    ] {
        let (head, sent) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /app/installations/7/access_tokens HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("Bearer {ASSERTION}")), "{head}");
        assert_eq!(serde_json::from_str::<Value>(sent).unwrap(), body);
    }
}

#[tokio::test]
async fn a_token_that_is_about_to_end_serves_one_call() {
    let mut endless = issued("octocat/hello-world", Duration::ZERO);
    endless.as_object_mut().unwrap().remove("expires_at");
    let soon = issued("octocat/hello-world", Duration::from_secs(299));
    for answer in [soon, endless] {
        let server = Scripted::new([created(&answer), created(&answer)]);
        let app = app();
        for requests in 1..=2 {
            assert_eq!(token(&app, &server, &hello(), TIMEOUT).await.unwrap().as_str(), TOKEN);
            assert_eq!(server.requests().len(), requests, "{answer}");
        }
    }
}

#[tokio::test]
async fn a_read_is_repeated_until_github_knows_the_new_token_and_a_write_is_not() {
    let no = || Reply::json(401, "", r#"{"message":"Bad credentials"}"#);
    let answer = created(&issued("octocat/hello-world", Duration::from_secs(3600)));
    let server = Scripted::new([answer, no(), no(), Reply::ok(&json!({ "found": true })), no()]);
    let app = app();
    let text = token(&app, &server, &hello(), TIMEOUT).await.unwrap();
    let caller = Caller::with_token(&server.base(), &text);
    let session = caller.session(TIMEOUT).issued_by(&app, hello());
    let target = Target::fixed("/repos/octocat/hello-world");
    assert_eq!(session.get(&target).await.unwrap(), json!({ "found": true }));
    let change = Change { method: Method::PATCH, target, body: json!({}) };
    let failure = session.write(&change).await.unwrap_err();
    let Failure::Refused { message } = failure else { panic!("{failure:?}") };
    assert!(message.contains("Try again in a minute"), "{message}");
    assert_eq!(server.requests().len(), 5);
    assert_eq!(token(&app, &server, &hello(), TIMEOUT).await.unwrap(), text, "a new token is kept");
}

#[tokio::test]
async fn a_token_that_github_refuses_after_a_minute_is_dropped() {
    for status in [401, 403, 404] {
        let answer = issued("octocat/hello-world", Duration::from_secs(3600));
        let server = Scripted::by_path(move |_base, path| match path {
            "/app/installations/7/access_tokens" => created(&answer),
            _ => Reply::json(status, "", r#"{"message":"No"}"#),
        });
        let app = app();
        let text = token(&app, &server, &hello(), TIMEOUT).await.unwrap();
        let caller = Caller::with_token(&server.base(), &text);
        let issued = || server.lines().iter().filter(|line| line.starts_with("POST /app/")).count();
        for (age, expected) in [(0, 1), (61, 2)] {
            app.age(&hello(), Duration::from_secs(age)).await;
            let session = caller.session(TIMEOUT).issued_by(&app, hello());
            let target = Target::fixed("/repos/octocat/hello-world");
            assert!(matches!(session.get(&target).await, Err(Failure::Refused { .. })), "{status}");
            token(&app, &server, &hello(), TIMEOUT).await.unwrap();
            assert_eq!(issued(), expected, "{status} after {age} s");
        }
    }
}

#[tokio::test]
async fn without_the_right_answer_there_is_no_token() {
    let hour = Duration::from_secs(3600);
    let no = |status, message: &str| Reply::json(status, "", &json!({ "message": message }).to_string());
    let without = |member: &str| {
        let mut answer = issued("octocat/hello-world", hour);
        answer.as_object_mut().unwrap().remove(member);
        created(&answer)
    };
    let mut two = issued("octocat/hello-world", hour);
    two["repositories"] = json!([{ "full_name": "octocat/hello-world" }, { "full_name": "octocat/secret" }]);
    let echo = format!("{ASSERTION} is no assertion");
    for (reply, expected) in [
        (
            no(401, &echo),
            "GitHub does not accept the broker's GitHub App. The operator must check its id, its key and \
                          the clock: <redacted> is no assertion.",
        ),
        (
            no(404, "Not Found"),
            "GitHub does not know the broker's GitHub App or its installation. The operator must check the id, the \
             number of the installation and the base URL: Not Found.",
        ),
        (no(422, "no"), "The broker's GitHub App has no access to this repository: no."),
        (created(&issued("mallory/hello-world", hour)), "The broker's GitHub App has no access to this repository."),
        (without("repositories"), "The broker's GitHub App has no access to this repository."),
        (created(&two), "The broker's GitHub App has no access to this repository."),
        (without("token"), "GitHub's answer with a token cannot be used: it has no token."),
        (no(503, "unicorn"), "GitHub is failing (503). Try again later."),
        (Reply::json(201, "", "<html>"), "GitHub's answer is not JSON."),
        (Reply::json(302, "Location: http://169.254.169.254/\r\n", "{}"), "GitHub points elsewhere"),
        (Reply::Cut(Vec::new()), "GitHub's answer with a token was lost. Try again."),
    ] {
        let server = Scripted::new([reply, created(&issued("octocat/hello-world", hour))]);
        let app = app();
        let failure = token(&app, &server, &hello(), TIMEOUT).await.unwrap_err();
        // Any other failure of a write would say that the change may have been made.
        let (Failure::Refused { message } | Failure::Unavailable { message }) = failure else { panic!("{failure:?}") };
        assert!(message.starts_with(expected), "{message}");
        assert!(!message.contains("CANARY"), "{message}");
        token(&app, &server, &hello(), TIMEOUT).await.expect("a fault is not kept");
    }
}

#[tokio::test]
async fn a_call_waits_for_the_token_of_another_only_until_its_own_deadline() {
    let server =
        Scripted::new([Reply::Stall(Vec::new()), created(&issued("octocat/hello-world", Duration::from_secs(3600)))]);
    let (app, reach) = (app(), hello());
    {
        let first = token(&app, &server, &reach, TIMEOUT);
        let second = async {
            until_it_has_come(&server).await;
            token(&app, &server, &reach, SHORT).await
        };
        tokio::select! {
            outcome = first => panic!("the server is silent: {outcome:?}"),
            outcome = second => assert!(matches!(outcome, Err(Failure::Timeout)), "{outcome:?}"),
        }
    }
    // The first call has ended in the middle. The next one is not in its way.
    assert_eq!(token(&app, &server, &reach, TIMEOUT).await.unwrap().as_str(), TOKEN);
}

/// Waits until the server has its first request.
async fn until_it_has_come(server: &Scripted) {
    while server.requests().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_app_lists_the_repositories_of_its_installation() {
    let repo = |name: &str| json!({ "full_name": name, "private": true, "default_branch": "main", "html_url": "u" });
    let server = Scripted::late(|base| {
        let next = format!("Link: <{base}/installation/repositories?per_page=100&page=2>; rel=\"next\"\r\n");
        let page = |name: &str| json!({ "total_count": 2, "repositories": [repo(name)] }).to_string();
        vec![Reply::json(200, &next, &page("octocat/hello-world")), Reply::json(200, "", &page("octocat/other"))]
    });
    let app = app();
    let caller = Caller::to(&server.base());
    let session: Session<'_> = caller.session(TIMEOUT).issued_by(&app, Reach::Names);
    let list: ListRepos = serde_json::from_value(json!({})).unwrap();
    let allowed = Guardrails::new(&["octocat/hello-world".to_owned()], &[], false).unwrap();
    let (found, summary) = list.perform(&session, &allowed).await.unwrap();
    assert_eq!(summary, "repositories: 1");
    assert_eq!(serde_json::to_value(found).unwrap()["repos"][0]["full_name"], "octocat/hello-world");
    let first = "GET /installation/repositories?per_page=100";
    assert_eq!(server.lines(), [first.to_owned(), format!("{first}&page=2")]);
}

#[test]
fn an_assertion_names_the_app_and_lives_ten_minutes() {
    let text = unsigned(claims("Iv23li"), NOW);
    let parts: Vec<Value> =
        text.split('.').map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()).collect();
    let now = NOW.millis() / 1000;
    assert_eq!(
        parts,
        [json!({ "alg": "RS256", "typ": "JWT" }), json!({ "iss": "Iv23li", "iat": now - 60, "exp": now + 540 }),]
    );
}

#[test]
fn a_table_of_an_app_that_cannot_be_right_is_refused() {
    let parse = |lines: &str| {
        let table = format!("repos = [\"acme/app\"]\n{lines}\n");
        crate::KIND.parse(toml::from_str(&table).unwrap()).map_err(|fault| fault.to_string())
    };
    let key = "private_key = { env = \"KEY\" }";
    let fine = parse(&format!("app = {{ id = \"Iv1.8a61f9b3a7aba766\", installation = 7, {key} }}")).unwrap();
    assert_eq!(fine.secrets().into_keys().collect::<Vec<_>>(), ["private_key"]);
    assert_eq!(fine.to_table().unwrap()["app"]["installation"], toml::Value::from(7));
    for (lines, fault) in [
        (format!("token = {{ env = \"T\" }}\napp = {{ id = \"1\", installation = 7, {key} }}"), "exclude each other"),
        (format!("app = {{ id = 4711, installation = 7, {key} }}"), "expected a string"),
        (format!("app = {{ id = \"\", installation = 7, {key} }}"), "app: id: write the client id"),
        (format!("app = {{ id = \"a b\", installation = 7, {key} }}"), "app: id: write the client id"),
        (format!("app = {{ id = \"1\", installation = 0, {key} }}"), "app: installation: write the number"),
        (format!("app = {{ id = \"1\", {key} }}"), "missing field `installation`"),
        ("app = { id = \"1\", installation = 7 }".to_owned(), "missing field `private_key`"),
    ] {
        let said = parse(&lines).err().unwrap();
        assert!(said.contains(fault), "{lines}: {said}");
    }
}

#[test]
fn a_key_that_cannot_sign_is_no_app() {
    for text in ["ghp_0123456789abcdef", include_str!("../../../../tests/fixtures/keys/ec-pkcs8.pem")] {
        let fault = App::new("4711".into(), 7, Arc::new(Secret::new(text.into()))).err().unwrap();
        assert!(fault.to_string().contains("RSA key in PEM"), "{fault}");
    }
}

/// An assertion with the signature of the key in [`KEY`].
fn signed(id: &str) -> TokenText {
    // The clock of the stand-in is that of the system.
    let now = SystemClock.now();
    let unsigned = unsigned(claims(id), now);
    let PrivateKeyDer::Pkcs1(der) = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap() else { panic!() };
    let key = ring::rsa::KeyPair::from_der(der.secret_pkcs1_der()).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    key.sign(&ring::signature::RSA_PKCS1_SHA256, &random, unsigned.as_bytes(), &mut signature).unwrap();
    TokenText::new(format!("{unsigned}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The app 4711, installed as 7 for two repositories of three.
fn seed() -> String {
    let key = KEY.lines().fold(String::new(), |text, line| text + "        " + line + "\n");
    format!(
        "    - {{owner: octocat, name: elsewhere, private: true, auto_init: true}}\n  apps:\n    - app_id: 4711\n      \
         slug: broker\n      name: Broker\n      private_key: |\n{key}      permissions: {{metadata: read, contents: \
         write, issues: write}}\n      installations:\n        - {{installation_id: 7, account: octocat, \
         repository_selection: selected, repositories: [hello-world, secret-repo]}}\n"
    )
}

/// Attack: see `a_call_has_a_token_for_its_repository_and_what_comes_back_has_none`.
#[tokio::test]
async fn a_stateful_github_checks_the_assertion_and_keeps_each_token_to_its_repository() {
    let Some(standin) = Standin::with_seed("app", &seed()) else { return };
    let client = Client::new(BaseUrl::parse(&standin.base()).unwrap(), Arc::new(SystemClock)).unwrap();
    let nonce = Caller::to(&standin.base()).nonce;
    let request = async |app: &App, id: &str, reach: &Reach| {
        let assertion = |_now| Some(signed(id));
        let token = app.kept_or_new(&client, reach, (Instant::now() + TIMEOUT, &nonce), assertion).await;
        token.map(|token| token.reveal().to_owned())
    };
    let app = app();
    let (secret, names) = (Reach::repository(&"octocat/secret-repo"), Reach::Names);
    let of_hello = request(&app, "4711", &hello()).await.unwrap();
    let of_secret = request(&app, "4711", &secret).await.unwrap();
    let of_names = request(&app, "4711", &names).await.unwrap();

    let read = async |token: &str, reach: &Reach, path: &'static str| {
        let caller = Caller::with_token(&standin.base(), token);
        let session = caller.session(TIMEOUT).issued_by(&app, reach.clone());
        session.get(&Target::fixed(path)).await
    };
    let path = "/repos/octocat/secret-repo";
    assert_eq!(read(&of_secret, &secret, path).await.unwrap()["full_name"], "octocat/secret-repo");
    assert!(matches!(read(&of_hello, &hello(), path).await, Err(Failure::Refused { .. })), "another repository's");

    let list: ListRepos = serde_json::from_value(json!({})).unwrap();
    let caller = Caller::with_token(&standin.base(), &of_names);
    let session = caller.session(TIMEOUT).issued_by(&app, names);
    let all = Guardrails::new(&["*".to_owned()], &[], false).unwrap();
    let (found, _) = list.perform(&session, &all).await.unwrap();
    let found = serde_json::to_value(found).unwrap();
    let mut found: Vec<&str> =
        found["repos"].as_array().unwrap().iter().map(|repo| repo["full_name"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["octocat/hello-world", "octocat/secret-repo"]);

    let refusal = |outcome: Result<String, Failure>| match outcome {
        Err(Failure::Refused { message }) => message,
        other => panic!("{other:?}"),
    };
    let elsewhere = refusal(request(&app, "4711", &Reach::repository(&"octocat/elsewhere")).await);
    assert!(elsewhere.contains("has no access to this repository"), "{elsewhere}");
    let foreign = refusal(request(&app, "4711", &Reach::repository(&"mallory/hello-world")).await);
    assert!(foreign.contains("has no access to this repository"), "{foreign}");
    let stranger = refusal(request(&self::app(), "4712", &hello()).await);
    assert!(stranger.contains("does not accept the broker's GitHub App"), "{stranger}");
    let key = Arc::new(Secret::new(KEY.into()));
    let nowhere = refusal(request(&App::new("4711".into(), 8, key).unwrap(), "4711", &hello()).await);
    assert!(nowhere.contains("does not know the broker's GitHub App or its installation"), "{nowhere}");
}
