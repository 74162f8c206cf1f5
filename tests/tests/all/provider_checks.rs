//! `provider check` at servers that are down, refuse the credential, or are well: calendars, and the logs of a cloud.

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use tests::World;
use tests::scripted_http::{Seen, answer, server};

const SECRET: &str = "secret-of-a-server-5Tz8kQ2m";
const KEY: &str = include_str!("../../fixtures/keys/rsa-pkcs1.pem");

/// Calendars at CalDAV and at Google, and the logs of Loki, CloudWatch and Google Cloud, at one server.
fn world(url: &str) -> World {
    let mut world = World::builder().down();
    let secret = |name: &str, text: &str| {
        let file = world.path(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        source(&file)
    };
    let (password, key) = (secret("password.key", SECRET), secret("gcp.key", KEY));
    let tables = format!(
        "[providers.caldav]\nkind = \"calendar\"\nurl = \"{url}\"\nusername = \"ada\"\npassword = {password}\n\
         [providers.google]\nkind = \"calendar\"\napi = \"google\"\nauth = \"bearer\"\nurl = \"{url}\"\npassword = {password}\n\
         [providers.loki]\nkind = \"cloud-logs\"\n[[providers.loki.backends]]\nkind = \"loki\"\nname = \"prod\"\nurl = \"{url}\"\npassword = {password}\n\
         [providers.aws]\nkind = \"cloud-logs\"\n[[providers.aws.backends]]\nkind = \"cloudwatch\"\nname = \"web\"\nregion = \"eu-central-1\"\n\
         groups = [\"/ecs/web\"]\naccess_key_id = \"AKIAIOSFODNN7EXAMPLE\"\nsecret_access_key = {password}\nurl = \"{url}\"\n\
         [providers.gcp]\nkind = \"cloud-logs\"\n[[providers.gcp.backends]]\nkind = \"google\"\nname = \"gcp\"\nprojects = [\"acme-prod\"]\n\
         client_email = \"broker@acme-prod.iam.gserviceaccount.com\"\nprivate_key = {key}\nurl = \"{url}\"\ntoken_url = \"{url}token\"\n"
    );
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}\n{tables}"));
    world.keep_secret(SECRET);
    world.start();
    world
}

fn source(file: &Path) -> String {
    format!("{{ file = {:?} }}", file.display().to_string())
}

fn checked(world: &World) -> (Output, Vec<(String, Value)>) {
    let checked = world.cli(&["--json", "provider", "check"]);
    let bytes = if checked.stdout.is_empty() { &checked.stderr } else { &checked.stdout };
    let document: Value = serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {checked:?}"));
    let of = |one: &Value| {
        let connection = one.get("connection")?;
        Some((one["provider"].as_str()?.to_owned(), connection.clone()))
    };
    let found = document["providers"].as_array().unwrap().iter().filter_map(of).collect();
    (checked, found)
}

const NAMES: [&str; 5] = ["aws", "caldav", "gcp", "google", "loki"];

#[test]
fn a_server_that_refuses_the_credential_is_named_for_each_provider() {
    // It repeats what it was sent, as hostile servers do.
    let (url, log) = server(|seen: &Seen| {
        let body =
            json!({ "error": { "message": format!("no: {SECRET}") }, "got": String::from_utf8_lossy(&seen.bytes) });
        answer("401 Unauthorized", "content-type: application/json\r\n", &body.to_string())
    });
    let world = world(&url);
    let (output, found) = checked(&world);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), NAMES);
    for (name, connection) in &found {
        assert_eq!((&connection["tried"], &connection["ok"]), (&json!(true), &json!(false)), "{name}: {connection}");
        let said = connection["said"].as_str().unwrap();
        assert!(said.contains("refuse") || said.contains("401") || said.contains("access key"), "{name}: {said}");
    }
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains(SECRET), "{said}");
    // One harmless request each.
    assert!(log.lock().unwrap().len() <= 10, "{log:?}");
    let text = world.cli(&["provider", "check"]);
    let text = String::from_utf8(text.stderr).unwrap();
    for name in NAMES {
        assert!(text.contains(&format!("{name}: ")) && text.contains("in broker.toml"), "{name}: {text}");
    }
}

#[test]
fn a_server_that_is_down_is_named_for_each_provider() {
    let url = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let world = world(&url);
    let (output, found) = checked(&world);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(found.len(), NAMES.len(), "{found:?}");
    assert!(found.iter().all(|(_, connection)| connection["ok"] == json!(false)), "{found:?}");
}

#[test]
fn servers_that_accept_the_credential_make_the_providers_ready() {
    let (url, _log) = server(|seen: &Seen| {
        let json = |body: Value| answer("200 OK", "content-type: application/json\r\n", &body.to_string());
        if seen.method == "PROPFIND" {
            let body = "<?xml version=\"1.0\"?><d:multistatus xmlns:d=\"DAV:\" xmlns:c=\"urn:ietf:params:xml:ns:caldav\">\
                <d:response><d:href>/</d:href><d:propstat><d:prop><c:calendar-home-set><d:href>/ada/</d:href>\
                </c:calendar-home-set></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>";
            return answer("207 Multi-Status", "content-type: application/xml\r\n", body);
        }
        let head = String::from_utf8_lossy(&seen.bytes).to_lowercase();
        match seen.path.split('?').next().unwrap_or_default() {
            "/token" => {
                json(json!({ "access_token": "a-token-for-the-test", "expires_in": 3600, "token_type": "Bearer" }))
            }
            path if path.starts_with("/loki/") => json(json!({ "status": "success", "data": ["api"] })),
            path if path.contains("/logs") => json(json!({ "logNames": ["projects/acme-prod/logs/app"] })),
            _ if head.contains("filterlogevents") => json(json!({ "events": [] })),
            _ => json(json!({ "items": [] })),
        }
    });
    let world = world(&url);
    let (output, found) = checked(&world);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(found.len(), NAMES.len(), "{found:?}");
    assert!(found.iter().all(|(_, connection)| connection["ok"] == json!(true)), "{found:?}");
}
