//! Logs of a Loki server, through the whole broker.

use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use tests::World;
use tests::group::{call, code, with};

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
    let mut world = World::builder().file("loki.key", format!("{TOKEN}\n")).down();
    let file = world.path("loki.key");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let table = format!(
        "[providers.cloud-logs]\nkind = \"cloud-logs\"\n[[providers.cloud-logs.backends]]\nkind = \"loki\"\n\
         name = \"prod\"\nurl = \"{url}\"\npassword = {{ file = {:?} }}\n",
        file.display().to_string()
    );
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    world.keep_secret(TOKEN);
    world.start();
    world.grant_with("developer", 1, json!({ "provider": "cloud-logs" }));
    let query = with(call("query_logs", json!({ "service": "api" })), "provider", "cloud-logs");
    let reply = world.group("developer").ask(query);
    assert_eq!(code(&reply), "executed", "{reply}");
    let entry = &reply["data"]["entries"][0];
    assert_eq!(entry["service"], json!("api"));
    assert!(entry["message"].as_str().unwrap().starts_with("refused token <redacted"), "{reply}");
    let head = heads.lock().unwrap()[0].to_lowercase();
    assert!(head.contains(&format!("authorization: bearer {}", TOKEN.to_lowercase())), "{head}");
}
