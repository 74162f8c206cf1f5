//! A stand-in for Slack: its Web API and Socket Mode, over real HTTP and WebSocket, with the documented shapes.
//!
//! Words that are not acknowledged are delivered again on the next connection. A press is delivered once, on a connection
//! that is open.

use crate::standin::{Request, answer};
use crate::until;
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

/// The token of the app's bot.
pub const BOT_TOKEN: &str = "xoxb-standin-TokenOfTheBot-0123456789";
/// The app-level token.
pub const APP_TOKEN: &str = "xapp-1-standin-TokenOfTheApp-0123456789";
/// The workspace.
pub const TEAM: &str = "T1";
/// The channel that the app is in.
pub const CHANNEL: &str = "C1";

/// A running stand-in.
pub struct Slack {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    // The envelopes that are not acknowledged.
    envelopes: Vec<Value>,
    last: u64,
    // The method and the body of each request but those for connections.
    calls: Vec<(String, Value)>,
    connections: u64,
    // The presses that were delivered.
    pressed: Vec<String>,
    // The first bytes of the next connections. The client has to end those that send nothing else.
    faults: Vec<String>,
    // How many of the next requests are too many.
    limited: usize,
}

impl Slack {
    /// Starts it on free ports.
    pub fn start() -> Self {
        let (api, sockets) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = format!("http://{}/api", api.local_addr().unwrap());
        let socket_address = format!("ws://{}/link/?ticket=standin-ticket", sockets.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let (api_state, socket_state) = (Arc::clone(&state), Arc::clone(&state));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = api.accept() {
                let (state, socket_address) = (Arc::clone(&api_state), socket_address.clone());
                std::thread::spawn(move || serve(stream, &state, &socket_address));
            }
        });
        std::thread::spawn(move || {
            while let Ok((stream, _)) = sockets.accept() {
                let state = Arc::clone(&socket_state);
                std::thread::spawn(move || connection(stream, &state));
            }
        });
        Self { address, state }
    }

    /// The URL of the Web API.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// A person of the workspace writes a text into a channel.
    pub fn write(&self, from: &str, channel: &str, text: &str) {
        self.message(&json!({ "user": from, "channel": channel, "text": text }));
    }

    /// A message with these members.
    pub fn message(&self, more: &Value) {
        let mut event = json!({
            "type": "message", "team": TEAM, "ts": "1700000000.000200", "channel_type": "channel",
            "client_msg_id": "326ed927", "event_ts": "1700000000.000200",
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let payload = json!({
            "type": "event_callback", "team_id": event.get("team"), "context_team_id": TEAM, "api_app_id": "A1",
            "event_id": "Ev1", "event_time": 1, "event": event,
        });
        self.deliver("events_api", &payload);
    }

    /// A person of a workspace presses a button of a message that was posted.
    pub fn press(&self, from: (&str, &str), channel: &str, posted: &Value, value: &str) {
        let message = json!({
            "type": "message", "ts": "1700000000.000100", "text": posted.get("text"), "blocks": posted.get("blocks"),
        });
        let payload = json!({
            "type": "block_actions", "team": { "id": from.1, "domain": "x" }, "api_app_id": "A1",
            "user": { "id": from.0, "team_id": from.1, "username": "a" }, "channel": { "id": channel, "name": "x" },
            "message": message, "actions": [{ "action_id": "approve", "type": "button", "value": value }],
        });
        self.deliver("interactive", &payload);
    }

    fn deliver(&self, kind: &str, payload: &Value) {
        let mut state = self.state.lock().unwrap();
        state.last += 1;
        let envelope = json!({
            "envelope_id": format!("envelope-{}", state.last), "type": kind, "payload": payload,
            "accepts_response_payload": false,
        });
        state.envelopes.push(envelope);
    }

    /// The next connections send one of these frames each, and nothing else.
    pub fn fail(&self, frames: &[&str]) {
        self.state.lock().unwrap().faults.extend(frames.iter().map(|frame| (*frame).to_owned()));
    }

    /// The next requests are too many.
    pub fn limit(&self, requests: usize) {
        self.state.lock().unwrap().limited = requests;
    }

    /// The number of connections so far.
    pub fn connections(&self) -> u64 {
        self.state.lock().unwrap().connections
    }

    /// Waits for the n-th request of a method, and returns its body.
    pub fn called(&self, method: &str, number: usize) -> Value {
        until(&format!("{method} {number}"), || {
            let state = self.state.lock().unwrap();
            let mut of = state.calls.iter().filter(|(name, _)| name == method);
            of.nth(number - 1).map(|(_, body)| body.clone())
        })
    }

    /// Waits for the n-th message below another one, and returns it.
    pub fn response(&self, number: usize) -> Value {
        until(&format!("response {number}"), || {
            let state = self.state.lock().unwrap();
            let messages = state.calls.iter().filter(|(name, _)| name == "chat.postMessage");
            let mut below = messages.filter(|(_, body)| body.get("thread_ts").is_some());
            below.nth(number - 1).map(|(_, body)| body.clone())
        })
    }

    /// The number of requests of a method.
    pub fn count(&self, method: &str) -> usize {
        self.state.lock().unwrap().calls.iter().filter(|(name, _)| name == method).count()
    }

    /// Waits until all envelopes are acknowledged.
    pub fn wait_acknowledged(&self) {
        until("the acknowledgement of all envelopes", || {
            let state = self.state.lock().unwrap();
            state.envelopes.is_empty().then_some(())
        });
    }
}

/// How long a connection waits for the client before it looks for envelopes.
const PAUSE: Duration = Duration::from_millis(10);

fn connection(stream: TcpStream, state: &Mutex<State>) {
    let Ok(mut socket) = tungstenite::accept(stream) else { return };
    let fault = {
        let mut state = state.lock().unwrap();
        state.connections += 1;
        if state.faults.is_empty() { None } else { Some(state.faults.remove(0)) }
    };
    let hello = json!({ "type": "hello", "num_connections": 1, "connection_info": { "app_id": "A1" } });
    if say(&mut socket, &hello.to_string()).is_none() {
        return;
    }
    if let Some(fault) = fault {
        say(&mut socket, &fault);
        // Until the client ends it.
        while socket.read().is_ok() {}
        return;
    }
    socket.get_ref().set_read_timeout(Some(PAUSE)).unwrap();
    let id = |envelope: &Value| envelope.get("envelope_id").and_then(Value::as_str).unwrap().to_owned();
    let mut sent: Vec<String> = Vec::new();
    loop {
        let fresh: Vec<Value> = {
            let mut state = state.lock().unwrap();
            let is_old = |envelope: &&Value| sent.contains(&id(envelope)) || state.pressed.contains(&id(envelope));
            let fresh: Vec<Value> = state.envelopes.iter().filter(|envelope| !is_old(envelope)).cloned().collect();
            let is_press = |envelope: &&Value| envelope.get("type").is_some_and(|kind| kind == "interactive");
            state.pressed.extend(fresh.iter().filter(is_press).map(id));
            fresh
        };
        for envelope in fresh {
            sent.push(id(&envelope));
            if say(&mut socket, &envelope.to_string()).is_none() {
                return;
            }
        }
        match socket.read() {
            Ok(Message::Text(text)) => {
                let acknowledged = id(&serde_json::from_str(&text).unwrap());
                state.lock().unwrap().envelopes.retain(|envelope| id(envelope) != acknowledged);
            }
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

fn say(socket: &mut WebSocket<TcpStream>, text: &str) -> Option<()> {
    socket.send(Message::text(text)).ok()
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, socket_address: &str) {
    let Some(request) = Request::read(&mut stream) else { return };
    let method = request.path.strip_prefix("/api/").unwrap_or_default();
    let is_connecting = method == "apps.connections.open";
    let wanted = if is_connecting { APP_TOKEN } else { BOT_TOKEN };
    let mut state = state.lock().unwrap();
    if state.limited > 0 {
        state.limited -= 1;
        let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(head.as_bytes()).ok();
        return;
    }
    let document = if request.header("authorization") != Some(&format!("Bearer {wanted}")) {
        json!({ "ok": false, "error": "invalid_auth" })
    } else if is_connecting {
        json!({ "ok": true, "url": socket_address })
    } else if method == "auth.test" {
        json!({ "ok": true, "team_id": TEAM, "user_id": "UBOT", "bot_id": "B1" })
    } else if request.body.get("channel").and_then(Value::as_str) != Some(CHANNEL) {
        json!({ "ok": false, "error": "channel_not_found" })
    } else {
        state.calls.push((method.to_owned(), request.body));
        json!({ "ok": true, "channel": CHANNEL, "ts": "1700000000.000100" })
    };
    drop(state);
    answer(&mut stream, "200 OK", &document);
}
