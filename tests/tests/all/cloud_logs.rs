//! Logs of a Loki server, of CloudWatch and of Google Cloud, through the whole broker.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::Clock as _;
use platform::clock::SystemClock;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tests::World;
use tests::group::{call, code, error, with};
use tests::servers::installed;

const TOKEN: &str = "loki-token-9Xk2mQ7vTz";
const GOOGLE_TOKEN: &str = "google-token-7Yb3nR8wUa";
const KEY: &str = include_str!("../../fixtures/keys/rsa-pkcs1.pem");

#[test]
fn logs_come_from_loki_with_a_token_that_nobody_else_sees() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
            let start: i64 = head.split("start=").nth(1).unwrap().split('&').next().unwrap().parse().unwrap();
            seen.lock().unwrap().push(head);
            // A server can write its own credential into its logs.
            let line = format!("refused token {TOKEN}");
            let stream_of = json!({ "stream": { "service_name": "api" }, "values": [[(start + 1).to_string(), line]] });
            let body = json!({ "status": "success", "data": { "resultType": "streams", "result": [stream_of] } });
            let body = body.to_string();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok();
        }
    });
    let backend = format!("kind = \"loki\"\nname = \"prod\"\nurl = \"{url}\"\npassword = SECRET\n");
    let mut world = World::builder().down();
    start(&mut world, TOKEN, &backend);
    let query = with(call("query_logs", json!({ "service": "api" })), "provider", "cloud-logs");
    let reply = world.group("developer").ask(query);
    assert_eq!(code(&reply), "executed", "{reply}");
    let entry = &reply["data"]["entries"][0];
    assert_eq!(entry["service"], json!("api"));
    assert!(entry["message"].as_str().unwrap().starts_with("refused token <redacted"), "{reply}");
    let head = heads.lock().unwrap()[0].to_lowercase();
    assert!(head.contains(&format!("authorization: bearer {}", TOKEN.to_lowercase())), "{head}");
}

/// Starts the broker with one backend, whose `SECRET` is the source of this secret.
fn start(world: &mut World, secret: &str, backend: &str) {
    let file = world.path("logs.key");
    std::fs::write(&file, secret).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let source = format!("{{ file = {:?} }}", file.display().to_string());
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let table = "[providers.cloud-logs]\nkind = \"cloud-logs\"\n[[providers.cloud-logs.backends]]";
    world.rewrite("broker.toml", &format!("{config}\n{table}\n{}", backend.replace("SECRET", &source)));
    world.keep_secret(secret);
    world.start();
    world.grant_with("developer", 1, json!({ "provider": "cloud-logs" }));
}

/// A server that ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The server verifies each signature.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts what it needs")]
fn logs_come_from_cloudwatch_with_requests_that_the_secret_key_signs() {
    let Some(parts) = installed("cloudwatch") else { return };
    // CloudWatch takes no events that are weeks old.
    let now = SystemClock.now();
    let mut world = World::builder().clock(now).down();
    let events = world.outside().join("events.json");
    let groups = json!({ "/ecs/web": { "one": [[now.millis() - 60_000, "level=error msg=\"Cannot open it\""]] } });
    std::fs::write(&events, groups.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/cloudwatch_server.py");
    let mut command = Command::new(parts.join("bin/python"));
    let server = command.arg(script).arg(&events).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut server = Server(server);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).expect("the server does not start");
    let (id, secret) = (said["id"].as_str().unwrap(), said["secret"].as_str().unwrap());
    let backend = format!(
        "kind = \"cloudwatch\"\nname = \"aws\"\nregion = \"eu-central-1\"\ngroups = [\"/ecs/*\"]\naccess_key_id = \"{id}\"\n\
         secret_access_key = SECRET\nurl = \"http://127.0.0.1:{}\"\n",
        said["port"]
    );
    start(&mut world, secret, &backend);
    let query = |params: Value| with(call("query_logs", params), "provider", "cloud-logs");
    let developer = world.group("developer");
    let reply = developer.ask(query(json!({ "service": "_ecs_web" })));
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(reply["data"]["entries"][0]["message"], "Cannot open it", "{reply}");
    drop(server);
    let gone = developer.ask(query(json!({})));
    assert!(error(&gone).contains("aws: it cannot be reached"), "{gone}");
}

/// A server of tokens and of logs. It writes both secrets of a request into its logs, and then into a fault.
fn google() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let assertions: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&assertions);
    std::thread::spawn(move || {
        let mut queries = 0;
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap();
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let (mut status, body) = ("200 OK", String::from_utf8(body).unwrap());
            let answer = if head.starts_with("POST /token ") {
                seen.lock().unwrap().push(body.split_once("&assertion=").unwrap().1.to_owned());
                json!({ "access_token": GOOGLE_TOKEN, "expires_in": 3599, "token_type": "Bearer" })
            } else {
                assert!(
                    head.starts_with("POST /v2/entries:list ") && head.contains(&format!("Bearer {GOOGLE_TOKEN}\r\n"))
                );
                queries += 1;
                let secrets = format!("{GOOGLE_TOKEN} for {}", seen.lock().unwrap()[0]);
                let request: Value = serde_json::from_str(&body).unwrap();
                let last = request["filter"].as_str().unwrap().split("timestamp<=\"").nth(1).unwrap();
                if queries == 1 {
                    json!({ "entries": [{
                        "logName": "projects/acme-prod/logs/app", "timestamp": last.split('"').next().unwrap(),
                        "insertId": "1", "textPayload": format!("refused {secrets}"), "severity": "ERROR",
                    }] })
                } else {
                    status = "403 Forbidden";
                    json!({ "error": { "code": 403, "message": format!("Denied: {secrets}"), "status": "NO" } })
                }
            };
            let answer = answer.to_string();
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).ok();
        }
    });
    (url, assertions)
}

/// Returns the table of a project of Google Cloud, whose servers are at this address.
fn of_google(url: &str) -> String {
    format!(
        "kind = \"google\"\nname = \"gcp\"\nprojects = [\"acme-prod\"]\nclient_email = \
         \"broker@acme-prod.iam.gserviceaccount.com\"\nprivate_key = SECRET\nurl = \"{url}\"\ntoken_url = \"{url}/token\"\n"
    )
}

#[test]
fn a_secret_that_cannot_sign_is_said_and_nothing_is_sent() {
    let (url, assertions) = google();
    let mut world = World::builder().down();
    start(&mut world, include_str!("../../fixtures/keys/ec-pkcs8.pem"), &of_google(&url));
    let query = with(call("query_logs", json!({})), "provider", "cloud-logs");
    let reply = world.group("developer").ask(query);
    assert!(error(&reply).contains("gcp: its private key is not an RSA key in PEM of 2048 to 4096 bits"), "{reply}");
    assert!(assertions.lock().unwrap().is_empty());
}

/// Attack (Providers and modules): A token or an assertion of a service account comes back in a log
/// or a fault.
/// Defence: `provider_cloud_logs::google::account`: results are searched for both.
#[test]
fn logs_come_from_google_with_a_token_for_which_the_key_signs() {
    let (url, assertions) = google();
    let mut world = World::builder().down();
    start(&mut world, KEY, &of_google(&url));
    world.keep_secret(KEY.lines().nth(3).unwrap());
    world.keep_secret(GOOGLE_TOKEN);
    let developer = world.group("developer");
    let query = || with(call("query_logs", json!({ "service": "app" })), "provider", "cloud-logs");
    let reply = developer.ask(query());
    assert_eq!(code(&reply), "executed", "{reply}");
    let entry = &reply["data"]["entries"][0];
    assert_eq!((&entry["service"], &entry["level"]), (&json!("app"), &json!("error")));
    let message = entry["message"].as_str().unwrap();
    assert!(message.starts_with("refused <redacted") && message.contains("for <redacted"), "{reply}");
    let denied = developer.ask(query());
    assert!(error(&denied).contains("gcp: acme-prod: the service account has no permission for this"), "{denied}");
    assert!(!denied.to_string().contains(GOOGLE_TOKEN), "{denied}");

    let [assertion]: [String; 1] = assertions.lock().unwrap().clone().try_into().unwrap();
    world.keep_secret(assertion.as_bytes());
    let (signed, signature) = assertion.rsplit_once('.').unwrap();
    let PrivateKeyDer::Pkcs1(key) = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap() else { panic!() };
    let key = ring::rsa::KeyPair::from_der(key.secret_pkcs1_der()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref());
    public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["aud"], json!(format!("{url}/token")));
}
