//! Logs of a Loki server and of CloudWatch, through the whole broker.

use model::Clock as _;
use platform::clock::SystemClock;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tests::World;
use tests::group::{call, code, error, with};
use tests::servers::installed;

const TOKEN: &str = "loki-token-9Xk2mQ7vTz";

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
