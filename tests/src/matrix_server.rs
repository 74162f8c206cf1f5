//! A real Matrix server: Synapse, for one test.

use crate::servers::installed;
use crate::until;
use platform::http::{Exchange, Http as _, SystemHttp};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use url::Url;

/// The server, on a port of this machine.
pub struct MatrixServer {
    directory: TempDir,
    server: Child,
    client: Rc<Client>,
}

struct Client {
    port: u16,
    runtime: Runtime,
    http: SystemHttp,
}

/// A user of the server, signed in.
pub struct MatrixUser {
    client: Rc<Client>,
    /// `@ann:localhost`.
    pub id: String,
    /// The access token.
    pub token: String,
}

impl MatrixServer {
    /// Starts it; `None`, with the reason printed, where it is not installed.
    pub fn start() -> Option<Self> {
        let python = installed("synapse")?.join("bin/python");
        // Somebody else can take a port between the choice and the start.
        let started = (0..5).find_map(|_| Self::try_start(&python));
        Some(started.expect("Synapse does not start"))
    }

    fn try_start(python: &Path) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("matrix-").tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = serve(python, directory.path(), port);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Rc::new(Client { port, runtime, http: SystemHttp::default() });
        let mut server = Self { directory, server, client };
        server.wait().then_some(server)
    }

    /// Waits until it answers. Returns whether it does.
    fn wait(&mut self) -> bool {
        until("Synapse", || {
            if self.server.try_wait().unwrap().is_some() {
                return Some(false);
            }
            self.client.ask("GET", &["versions"], None, &Value::Null).map(|_| true)
        })
    }

    /// Stops it.
    pub fn stop(&mut self) {
        self.server.kill().ok();
        self.server.wait().unwrap();
    }

    /// Starts it again, with all that it has.
    pub fn start_again(&mut self) {
        let python = installed("synapse").unwrap().join("bin/python");
        self.server = serve(&python, self.directory.path(), self.client.port);
        assert!(self.wait(), "Synapse does not start again");
    }

    /// The URL for its clients.
    pub fn url(&self) -> String {
        self.client.url()
    }

    /// Makes a user and signs it in.
    pub fn user(&self, name: &str) -> MatrixUser {
        let account = json!({ "username": name, "password": "p", "auth": { "type": "m.login.dummy" } });
        let account = self.client.ask("POST", &["v3", "register"], None, &account).unwrap();
        let member = |member: &str| text(&account, member);
        MatrixUser { client: Rc::clone(&self.client), id: member("user_id"), token: member("access_token") }
    }
}

impl Client {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The answer to a request, if it is a success. Lists are long, and begin with the oldest.
    fn ask(&self, method: &str, path: &[&str], token: Option<&str>, body: &Value) -> Option<Value> {
        let mut url = Url::parse(&self.url()).unwrap();
        url.path_segments_mut().unwrap().extend(["_matrix", "client"]).extend(path);
        url.set_query((method == "GET").then_some("dir=f&limit=1000"));
        let authorization =
            token.map(|token| ("authorization".parse().unwrap(), format!("Bearer {token}").parse().unwrap()));
        let exchange = Exchange {
            method: method.parse().unwrap(),
            uri: url.as_str().parse().unwrap(),
            headers: authorization.into_iter().collect(),
            body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() },
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let answer = self.runtime.block_on(self.http.ask(exchange, 1 << 24)).ok()?;
        (answer.status == 200).then(|| serde_json::from_slice(&answer.body).unwrap())
    }
}

impl Drop for MatrixServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(python: &Path, directory: &Path, port: u16) -> Child {
    let many = json!({ "per_second": 1000, "burst_count": 1000 });
    let settings = json!({
        "server_name": "localhost",
        "report_stats": false,
        "signing_key": "ed25519 a_test 0T2Z9jg5Zvv0MlCZ9EV1kBPvsy6zW2uFOtXp0gKX0QU",
        "macaroon_secret_key": "one",
        "form_secret": "two",
        "listeners": [{
            "port": port, "bind_addresses": ["127.0.0.1"], "type": "http", "tls": false,
            "resources": [{ "names": ["client"] }],
        }],
        "database": { "name": "sqlite3", "args": { "database": directory.join("db").display().to_string() } },
        "media_store_path": directory.join("media").display().to_string(),
        "enable_registration": true,
        "enable_registration_without_verification": true,
        "bcrypt_rounds": 4,
        "trusted_key_servers": [],
        "presence": { "enabled": false },
        "rc_message": many,
        "rc_registration": many,
        "rc_joins": { "local": many },
        "rc_invites": { "per_room": many, "per_user": many, "per_issuer": many },
    });
    // JSON is YAML.
    let file = directory.join("homeserver.yaml");
    std::fs::write(&file, settings.to_string()).unwrap();
    let mut command = Command::new(python);
    command.args(["-m", "synapse.app.homeserver", "-c"]).arg(file).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl MatrixUser {
    /// Asks the server, as this user.
    pub fn ask(&self, method: &str, path: &[&str], body: &Value) -> Option<Value> {
        self.client.ask(method, &[&["v3"], path].concat(), Some(&self.token), body)
    }

    /// Makes a room with these users, who are invited. Returns its id.
    pub fn room(&self, invited: &[&Self], state: &Value) -> String {
        let invited: Vec<&str> = invited.iter().map(|user| user.id.as_str()).collect();
        let room = json!({ "preset": "private_chat", "invite": invited, "initial_state": state });
        text(&self.ask("POST", &["createRoom"], &room).unwrap(), "room_id")
    }

    /// Joins a room.
    pub fn join(&self, room: &str) {
        self.ask("POST", &["rooms", room, "join"], &json!({})).unwrap();
    }

    /// Writes a message with this content. Returns its id.
    pub fn send(&self, room: &str, content: &Value) -> String {
        let transaction = format!("{:?}", std::time::Instant::now());
        let sent = self.ask("PUT", &["rooms", room, "send", "m.room.message", &transaction], content).unwrap();
        text(&sent, "event_id")
    }

    /// Writes a text.
    pub fn write(&self, room: &str, text: &str) -> String {
        self.send(room, &json!({ "msgtype": "m.text", "body": text }))
    }

    /// The messages of a room by another user, oldest first.
    pub fn messages(&self, room: &str, sender: &str) -> Vec<Value> {
        let read = self.ask("GET", &["rooms", room, "messages"], &Value::Null).unwrap();
        let all = read.get("chunk").and_then(Value::as_array).unwrap().iter();
        let is = |event: &Value, member: &str, value: &str| event.get(member).and_then(Value::as_str) == Some(value);
        let of = all.filter(|event| is(event, "type", "m.room.message") && is(event, "sender", sender));
        of.filter_map(|event| event.get("content").cloned()).collect()
    }

    /// Waits for the n-th message of another user in a room.
    pub fn message(&self, room: &str, sender: &str, number: usize) -> Value {
        until(&format!("message {number}"), || self.messages(room, sender).into_iter().nth(number - 1))
    }
}

fn text(answer: &Value, member: &str) -> String {
    answer.get(member).and_then(Value::as_str).unwrap().to_owned()
}
