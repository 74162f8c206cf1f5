//! Google's services, in a stand-in of this machine.

use crate::scripted_http::{answer, server};
use crate::servers::http;
use crate::skipped;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Google's services, in a stand-in that knows this token of ada.
#[derive(Debug)]
pub struct Google {
    process: Child,
    /// The port.
    pub port: u16,
    _seed: tempfile::NamedTempFile,
}

impl Google {
    /// Ada's access token.
    pub const TOKEN: &'static str = "ya29.standin-token-of-ada-5Rt8vK2m";

    /// Starts it; `None`, with the reason printed, where it is not installed.
    pub fn start() -> Option<Self> {
        let Some(emulate) = std::env::var_os("EXT_TEST_EMULATE").map(PathBuf::from) else {
            skipped("EXT_TEST_EMULATE does not name node_modules/emulate");
            return None;
        };
        let mut seed = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        write!(
            seed,
            "tokens:\n  {}: {{ login: ada@example.com, scopes: [] }}\ngoogle:\n  \
             users: [{{ email: ada@example.com, name: Ada }}]\n  \
             calendars: [{{ id: primary, user_email: ada@example.com, summary: Ada, primary: true, time_zone: UTC }}]\n  \
             calendar_events: [{{ id: kickoff, user_email: ada@example.com, calendar_id: primary, summary: Kickoff, \
             start_date_time: \"2026-11-30T09:00:00.000Z\", end_date_time: \"2026-11-30T09:30:00.000Z\" }}]\n  \
             labels: [{{ id: Label_7, user_email: ada@example.com, name: Projects/2026 }}, \
             {{ id: Label_8, user_email: ada@example.com, name: Ä }}]\n",
            Self::TOKEN
        )
        .unwrap();
        let mut node = Command::new("node");
        node.arg("-r").arg(support().join("github/loopback.cjs")).arg(emulate.join("dist/index.js"));
        node.args(["start", "-s", "google", "-p", "4100", "--seed"]).arg(seed.path());
        let mut process = node.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| line.unwrap().strip_prefix("port ")?.parse().ok()).unwrap();
        // The rest of what it says is read, so that it does not wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { process, port, _seed: seed })
    }

    /// The address of all services.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Starts a server before it that keeps the ids of new events, as Google does: the stand-in gives them others.
    pub fn id_keeper(&self) -> u16 {
        let (behind, ids) = (self.port, Mutex::new(BTreeMap::<String, String>::new()));
        let (url, _) = server(move |seen| {
            let mut request = String::from_utf8(seen.bytes.clone()).unwrap();
            let mut ids = ids.lock().unwrap();
            for (sent, given) in ids.iter() {
                request = request.replacen(&format!("/events/{sent}"), &format!("/events/{given}"), 1);
            }
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() };
            let token = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
            let path = request.split(' ').nth(1).unwrap().trim_start_matches('/');
            let (head, text) = exchange(behind, &seen.method, path, token.unwrap_or_default(), &body);
            if seen.method == "POST" && seen.path.split('?').next().unwrap().ends_with("/events") {
                let given: Value = serde_json::from_str(&text).unwrap();
                ids.insert(self::text(&body, "/id").to_owned(), self::text(&given, "/id").to_owned());
            }
            let status = head.lines().next().unwrap().split_once(' ').unwrap().1;
            let text = ids.iter().fold(text, |text, (sent, given)| text.replace(given, sent));
            answer(status, "content-type: application/json\r\n", &text)
        });
        url.trim_end_matches('/').rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Asks it for something as ada: its answer.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let token = format!("Authorization: Bearer {}", Self::TOKEN);
        let (head, body) = exchange(self.port, method, path, &token, body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Puts a message with these labels into ada's mailbox. Returns its id.
    pub fn deliver(&self, message: &str, labels: &[&str]) -> String {
        let raw = BASE64_URL_SAFE_NO_PAD.encode(message.replace('\n', "\r\n"));
        let body = json!({ "raw": raw, "labelIds": labels });
        let delivered = self.ask("POST", "gmail/v1/users/me/messages/import", &body);
        text(&delivered, "/id").to_owned()
    }

    /// The text and the labels of a message in ada's mailbox.
    pub fn message(&self, id: &str) -> (String, Vec<String>) {
        let message = self.ask("GET", &format!("gmail/v1/users/me/messages/{id}?format=raw"), &json!({}));
        let raw = BASE64_URL_SAFE_NO_PAD.decode(text(&message, "/raw")).unwrap();
        let labels = message.pointer("/labelIds").and_then(Value::as_array).unwrap().iter();
        let labels = labels.map(|label| label.as_str().unwrap().to_owned()).collect();
        (String::from_utf8(raw).unwrap(), labels)
    }

    /// The ids of the messages with a label in ada's mailbox.
    pub fn labeled(&self, label: &str) -> Vec<String> {
        let path = format!("gmail/v1/users/me/messages?labelIds={label}&includeSpamTrash=true");
        let listed = self.ask("GET", &path, &json!({}));
        let messages = listed.pointer("/messages").and_then(Value::as_array).unwrap().iter();
        messages.map(|message| text(message, "/id").to_owned()).collect()
    }

    /// Signs ada in on the page, as a browser does. Returns the address to which the page leads.
    pub fn sign_in(&self, auth_url: &str) -> String {
        let (status, _, page) = http("GET", auth_url, "text/plain", "");
        assert!(status == 200 && page.contains("ada@example.com"), "{page}");
        let (_, query) = auth_url.split_once('?').unwrap();
        let form = format!("email=ada%40example.com&{query}");
        let (status, head, body) = http(
            "POST",
            &format!("{}o/oauth2/v2/auth/callback", self.url()),
            "application/x-www-form-urlencoded",
            &form,
        );
        assert_eq!(status, 302, "{body}");
        let location = head.lines().find(|line| line.to_ascii_lowercase().starts_with("location:"));
        location.unwrap().split_once(':').unwrap().1.trim().to_owned()
    }

    /// The file of an `OAuth` client.
    pub fn client() -> Value {
        json!({ "installed": { "client_id": "a", "client_secret": "b", "redirect_uris": ["http://localhost"] } })
    }

    /// The script that leads a Node program to it.
    pub fn script() -> PathBuf {
        support().join("google_root.mjs")
    }
}

/// Sends one request. Returns the head and the body of the answer.
fn exchange(port: u16, method: &str, path: &str, token: &str, body: &Value) -> (String, String) {
    let body = body.to_string();
    let head = format!(
        "{method} /{path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap()
}

fn support() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("support")
}

impl Drop for Google {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
