//! A GitHub on loopback with one repository, `octo/hello`, and one pull request: as much of it as the broker's writes
//! and probes ask for. It issues a token for the app that is installed as 7. It notes every change that reaches it, as it
//! came.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A change, as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `POST /repos/octo/hello/issues`.
    pub line: String,
    /// The headers, with small letters in their names.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

#[derive(Default)]
struct State {
    head: String,
    changes: Vec<Change>,
    /// The objects that were made, by the list that each is in.
    made: BTreeMap<String, Vec<Value>>,
    merged_with: Option<String>,
    is_closed: bool,
    loses_replies: bool,
    /// The reads that have come in: their paths.
    reads: Vec<String>,
    /// The path at which reads fail.
    fails_at: Option<String>,
    /// The number of reads that are answered. Later ones wait.
    answers: Option<usize>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The number of answered reads has changed.
    released: Condvar,
}

/// The token that it issues for an app. No form of it is known as that of a credential.
pub const APP_TOKEN: &str = "plain words of an installation";
/// The request for that token.
pub const TOKEN_REQUEST: &str = "POST /app/installations/7/access_tokens";

/// The server; it serves until the test ends.
pub struct Github {
    base: String,
    shared: Arc<Shared>,
}

impl Github {
    /// Starts one.
    #[expect(clippy::new_without_default, reason = "a server starts, which is no default")]
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Mutex::new(State { head: "a".repeat(40), ..State::default() });
        let shared = Arc::new(Shared { state, released: Condvar::new() });
        let of_server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let shared = Arc::clone(&of_server);
                std::thread::spawn(move || serve(connection?, &shared));
            }
            Ok::<(), std::io::Error>(())
        });
        Self { base, shared }
    }

    /// Its base URL.
    pub fn base(&self) -> &str {
        &self.base
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// The path of every read that has come in.
    pub fn reads(&self) -> Vec<String> {
        self.state().reads.clone()
    }

    /// From now on reads of this path fail; of no path, if it is absent.
    pub fn fail_reads(&self, path: Option<&str>) {
        self.state().fails_at = path.map(str::to_owned);
    }

    /// So many more reads are answered, and later ones wait. Without a number all are.
    pub fn answer_reads(&self, number: Option<usize>) {
        let mut state = self.state();
        state.answers = number.map(|number| state.reads.len() + number);
        drop(state);
        self.shared.released.notify_all();
    }

    /// Every change that has come in.
    pub fn changes(&self) -> Vec<Change> {
        self.state().changes.clone()
    }

    /// Somebody pushes: the pull request's head, and that of `main`, is another commit.
    pub fn push(&self, commit: &str) {
        commit.clone_into(&mut self.state().head);
    }

    /// From now on changes are made and their answers lost, or no longer.
    pub fn lose_replies(&self, loses: bool) {
        self.state().loses_replies = loses;
    }
}

fn serve(mut connection: TcpStream, shared: &Shared) -> std::io::Result<()> {
    while let Some(request) = read(&mut connection)? {
        let mut state = shared.state.lock().unwrap();
        let changes = !request.line.starts_with("GET ");
        if !changes {
            let path = request.line.trim_start_matches("GET ").to_owned();
            state.reads.push(path);
            let number = state.reads.len();
            state = shared.released.wait_while(state, |state| state.answers.is_some_and(|most| number > most)).unwrap();
        }
        let (status, answer) = state.answer(&request);
        if changes {
            state.changes.push(request);
            if state.loses_replies {
                return Ok(());
            }
        }
        drop(state);
        let body = answer.to_string();
        write!(connection, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
    }
    Ok(())
}

fn read(connection: &mut TcpStream) -> std::io::Result<Option<Change>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let line = lines.next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
            let header =
                |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
            let headers: BTreeMap<_, _> = lines.filter_map(header).collect();
            let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Ok(Some(Change { line, headers, body: body.to_owned() }));
            }
        }
        match connection.read(&mut buffer)? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
}

impl State {
    fn answer(&mut self, request: &Change) -> (u16, Value) {
        let (method, target) = request.line.split_once(' ').unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        if method == "GET" && self.fails_at.as_deref() == Some(path) {
            return (500, json!({ "message": "It is broken." }));
        }
        if request.line == TOKEN_REQUEST {
            let repositories = json!([{ "full_name": "octo/hello" }]);
            let (token, expires_at) = (APP_TOKEN, "2999-01-01T00:00:00Z");
            return (201, json!({ "token": token, "expires_at": expires_at, "repositories": repositories }));
        }
        let place = path.strip_prefix("/repos/octo/hello").unwrap_or("elsewhere");
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let said = |member: &str| body.get(member).cloned().unwrap_or_default();
        let head = &self.head;
        match (method, place) {
            ("GET", "") => (200, json!({ "full_name": "octo/hello", "default_branch": "main" })),
            ("GET", "/git/ref/heads/main") => (200, json!({ "object": { "sha": head } })),
            ("GET", "/issues/1") => {
                let state = if self.is_closed { "closed" } else { "open" };
                // A server can send back what it was sent.
                (200, json!({ "number": 1, "state": state, "body": request.headers.get("authorization") }))
            }
            ("GET", "/pulls/1") => {
                let merged = self.merged_with.as_ref().map(|_| "f".repeat(40));
                let base = json!({ "ref": "main", "repo": { "full_name": "octo/hello" } });
                let state = if merged.is_some() { "closed" } else { "open" };
                (
                    200,
                    json!({ "number": 1, "state": state, "title": "A change", "base": base, "head": { "sha": head },
                            "mergeable": true, "merged": merged.is_some(), "merge_commit_sha": merged }),
                )
            }
            ("GET", place) if place.starts_with("/git/commits/") => (200, json!({ "message": self.merged_with })),
            ("GET", place) if place.ends_with("/status") => {
                (200, json!({ "total_count": 1, "statuses": [{ "state": "success" }] }))
            }
            ("GET", place) if place.ends_with("/check-runs") => (200, json!({ "total_count": 0, "check_runs": [] })),
            ("GET", place) => (200, Value::from(self.made.get(place).cloned().unwrap_or_default())),
            ("PUT", "/pulls/1/merge") if said("sha") == **head => {
                self.merged_with = Some(said("commit_message").as_str().unwrap_or_default().to_owned());
                (200, json!({ "merged": true, "sha": "f".repeat(40) }))
            }
            ("PUT", _) => (409, json!({ "message": "Head branch was modified." })),
            ("PATCH", _) => {
                self.is_closed = said("state") == "closed";
                (200, json!({ "number": 1, "state": said("state") }))
            }
            ("POST", "/git/refs") => {
                let made = json!({ "ref": said("ref"), "object": { "sha": said("sha") } });
                let name = said("ref").as_str().unwrap_or_default().trim_start_matches("refs/").to_owned();
                self.made.entry(format!("/git/matching-refs/{name}")).or_default().push(made.clone());
                (201, made)
            }
            (_, place) => {
                let list = self.made.entry(place.to_owned()).or_default();
                let number = list.len() + 2;
                let url = format!("https://example.com/{number}");
                let made = json!({ "id": number, "number": number, "state": "open", "body": said("body"), "html_url": url,
                            "issue_url": url });
                list.push(made.clone());
                (201, made)
            }
        }
    }
}
