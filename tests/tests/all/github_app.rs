//! The broker as a GitHub App: its key signs, each call has a token for its repository, and neither comes back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tests::github::{APP_TOKEN, Change, Github, TOKEN_REQUEST};
use tests::group::{call, code, error, with};
use tests::{World, until};

const KEY: &str = include_str!("../../fixtures/keys/rsa-pkcs1.pem");
const ASKS: &str = "write = \"rules\"\n[providers.github]\nactions = { create_issue = \"human\" }\n";

/// A world whose broker is the app 4711 with this private key.
fn world(key: &str) -> (World, Github) {
    let github = Github::new();
    let mut world = World::builder().file("policy/profiles/developer.toml", ASKS).file("app.key", key).down();
    let path = world.path("app.key");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let base = github.base();
    let table = format!(
        "\n[providers.github]\nkind = \"github\"\nbase_url = \"{base}\"\nrepos = [\"octo/hello\"]\n\
         app = {{ id = \"4711\", installation = 7, private_key = {{ file = {path:?} }} }}\n"
    );
    world.rewrite("broker.toml", &(config + &table));
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "github" }));
    (world, github)
}

fn document(action: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params.as_object_mut().unwrap().extend([("owner".into(), "octo".into()), ("repo".into(), "hello".into())]);
    with(call(action, params), "provider", "github")
}

/// Returns the claims of the assertion, after its signature is verified.
fn claims(request: &Change) -> Value {
    let assertion = request.headers["authorization"].strip_prefix("Bearer ").unwrap();
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let PrivateKeyDer::Pkcs1(key) = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap() else { panic!() };
    let key = ring::rsa::KeyPair::from_der(key.secret_pkcs1_der()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref());
    public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap()).unwrap()
}

/// Attack (Providers and modules): A token of a GitHub App comes back in an answer, or reaches
/// another repository.
/// Defence: `provider_github::app`: each token is for one repository, and results are searched for
/// it.
#[test]
fn a_call_has_a_token_for_its_repository_and_what_comes_back_has_none() {
    let (mut world, github) = world(KEY);
    world.keep_secret(APP_TOKEN);
    let developer = world.group("developer");
    for _ in 0..2 {
        let reply = developer.ask(document("get_issue", &json!({ "number": 1 })));
        assert_eq!(code(&reply), "executed", "{reply}");
        let body = reply["data"]["body"].as_str().unwrap();
        assert!(body.starts_with("Bearer <redacted"), "the server sends the token back: {body}");
    }
    let [request]: [Change; 1] = github.changes().try_into().unwrap();
    assert_eq!((request.line.as_str(), request.body.as_str()), (TOKEN_REQUEST, r#"{"repositories":["hello"]}"#));
    let now = world.now().millis() / 1000;
    assert_eq!(claims(&request), json!({ "iss": "4711", "iat": now - 60, "exp": now + 540 }));
    world.keep_secret(request.headers["authorization"].strip_prefix("Bearer ").unwrap());
    world.keep_secret(KEY.lines().nth(3).unwrap());
}

#[test]
fn a_question_without_remote_facts_requests_no_token() {
    let (world, github) = world(KEY);
    let developer = world.group("developer");
    let id = developer.send(document("create_issue", &json!({ "title": "A title" })));
    let waiting = until("the question", || world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop());
    assert_eq!(github.changes(), []);
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": waiting["code"], "yes": true }))), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    let changes = github.changes();
    let lines: Vec<&str> = changes.iter().map(|change| change.line.as_str()).collect();
    assert_eq!(lines, [TOKEN_REQUEST, "POST /repos/octo/hello/issues"]);
    assert_eq!(changes[1].headers["authorization"], format!("Bearer {APP_TOKEN}"));
}

#[test]
fn a_key_that_cannot_sign_switches_the_provider_off_and_says_why() {
    let (world, github) = world(include_str!("../../fixtures/keys/ec-pkcs8.pem"));
    let developer = world.group("developer");
    let reply = developer.ask(document("get_issue", &json!({ "number": 1 })));
    assert_eq!(code(&reply), "provider_disabled", "{reply}");
    assert!(!error(&reply).contains("PRIVATE"), "{reply}");
    assert_eq!(github.changes(), []);
    let shown = String::from_utf8(world.cli(&["provider", "list"]).stdout).unwrap();
    assert!(shown.contains("the private key is not an RSA key in PEM"), "{shown}");
}
