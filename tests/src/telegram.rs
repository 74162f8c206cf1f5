//! A stand-in for Telegram's Bot API: real HTTP, the documented shapes, one bot with one token.
//!
//! `getUpdates` confirms the updates before its offset, and waits for the next one. It answers 409 while another one
//! waits, as the real one does.

use crate::standin::{Request, answer};
use crate::until;
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The token of the bot.
pub const TOKEN: &str = "123456789:AAE-standin_TokenOfTheBot0123456789";

/// A running stand-in.
pub struct Telegram {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    updates: Vec<Value>,
    // The last number. The first one is high, so that it can fall.
    last: i64,
    // The method and the body of each request but `getUpdates`.
    calls: Vec<(String, Value)>,
    // The offsets of `getUpdates`.
    offsets: Vec<i64>,
    // Raw answers to the next `getUpdates`.
    faults: Vec<String>,
    waiting: bool,
    // Buttons that were pressed long ago cannot be answered.
    is_late: bool,
}

/// How long `getUpdates` waits at most here, whatever it was asked.
const WAIT: Duration = Duration::from_secs(2);

impl Telegram {
    /// Starts it on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Mutex::new(State { last: 1_000, ..State::default() });
        let shared = Arc::new(Shared { state, ..Shared::default() });
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let shared = Arc::clone(&served);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, shared }
    }

    /// The URL of the Bot API.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// A person writes a text into the chat.
    pub fn write(&self, from: i64, chat: i64, text: &str) {
        self.update(json!({ "message": {
            "message_id": 100, "date": 1, "from": { "id": from, "is_bot": false, "first_name": "A" },
            "chat": { "id": chat, "type": "private" }, "text": text,
        } }));
    }

    /// A person presses a button.
    pub fn press(&self, from: i64, chat: i64, data: &str) {
        self.update(json!({ "callback_query": {
            "id": "query-1", "from": { "id": from, "is_bot": false, "first_name": "A" }, "chat_instance": "1",
            "message": { "message_id": 7, "date": 1, "chat": { "id": chat, "type": "private" } }, "data": data,
        } }));
    }

    /// An update with these members.
    pub fn update(&self, mut update: Value) {
        let mut state = self.shared.state.lock().unwrap();
        state.last += 1;
        update.as_object_mut().expect("an object").insert("update_id".to_owned(), json!(state.last));
        state.updates.push(update);
        self.shared.changed.notify_all();
    }

    /// The next times that updates are fetched get these answers: a status, and perhaps a line with the body.
    pub fn fail(&self, answers: &[&str]) {
        self.shared.state.lock().unwrap().faults.extend(answers.iter().map(|answer| (*answer).to_owned()));
    }

    /// From now on, each press of a button is too old to be answered there.
    pub fn make_presses_late(&self) {
        self.shared.state.lock().unwrap().is_late = true;
    }

    /// The next updates have lower numbers, as after a quiet week.
    pub fn restart_numbers(&self) {
        self.shared.state.lock().unwrap().last = 0;
    }

    /// Waits for the n-th request of a method, and returns its body.
    pub fn called(&self, method: &str, number: usize) -> Value {
        until(&format!("{method} {number}"), || {
            let state = self.shared.state.lock().unwrap();
            let mut of = state.calls.iter().filter(|(name, _)| name == method);
            of.nth(number - 1).map(|(_, body)| body.clone())
        })
    }

    /// The number of requests of a method.
    pub fn count(&self, method: &str) -> usize {
        self.shared.state.lock().unwrap().calls.iter().filter(|(name, _)| name == method).count()
    }

    /// The number of times that updates were fetched.
    pub fn fetches(&self) -> usize {
        self.shared.state.lock().unwrap().offsets.len()
    }

    /// Waits until everything that was written is confirmed.
    pub fn wait_confirmed(&self) {
        until("the confirmation of all updates", || {
            let state = self.shared.state.lock().unwrap();
            state.offsets.last().is_some_and(|offset| *offset > state.last).then_some(())
        });
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    let Some(Request { path, body, .. }) = Request::read(&mut stream) else { return };
    let mut state = shared.state.lock().unwrap();
    if path.ends_with("/getUpdates") && !state.faults.is_empty() {
        let fault = state.faults.remove(0);
        drop(state);
        let (status, rest) = fault.split_once('\n').unwrap_or((&fault, "{}"));
        answer(&mut stream, status, &serde_json::from_str(rest).unwrap_or_else(|_| json!(rest)));
        return;
    }
    let Some(method) = path.strip_prefix(&format!("/bot{TOKEN}/")) else {
        let unauthorized = json!({ "ok": false, "error_code": 401, "description": "Unauthorized" });
        return answer(&mut stream, "401 Unauthorized", &unauthorized);
    };
    if method == "answerCallbackQuery" && state.is_late {
        let late = json!({ "ok": false, "error_code": 400, "description": "Bad Request: query is too old" });
        return answer(&mut stream, "400 Bad Request", &late);
    }
    if method != "getUpdates" {
        state.calls.push((method.to_owned(), body));
        drop(state);
        return answer(&mut stream, "200 OK", &json!({ "ok": true, "result": { "message_id": 7 } }));
    }
    if state.waiting {
        let conflict = json!({ "ok": false, "error_code": 409, "description": "Conflict" });
        return answer(&mut stream, "409 Conflict", &conflict);
    }
    let offset = body.get("offset").and_then(Value::as_i64).unwrap();
    state.offsets.push(offset);
    // An offset far beyond the last update is answered from the first one.
    let offset = if offset > state.last + 10 { 0 } else { offset };
    let number = |update: &Value| update.get("update_id").and_then(Value::as_i64).unwrap();
    state.updates.retain(|update| number(update) >= offset);
    state.waiting = true;
    let (mut state, _) = shared.changed.wait_timeout_while(state, WAIT, |state| state.updates.is_empty()).unwrap();
    state.waiting = false;
    let updates = state.updates.clone();
    drop(state);
    answer(&mut stream, "200 OK", &json!({ "ok": true, "result": updates }));
}
