//! A GitHub on loopback, for tests, that gives exactly the scripted answers, byte for byte.

use crate::base::BaseUrl;
use crate::client::{Client, Session};
use model::{Clock, Nonce};
use platform::random::SystemRandom;
use shared::Timestamp;
use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// The token of all tests.
pub(super) const TOKEN: &str = "ghp_canaryCANARYcanary0123456789";
/// The wall time of all tests.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);
/// More than any test needs.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// Less than any test that is to end early waits for.
pub(super) const SHORT: Duration = Duration::from_millis(500);

/// The answer to a request.
#[derive(Clone)]
pub(super) enum Reply {
    /// These bytes; the connection stays.
    Bytes(Vec<u8>),
    /// These bytes, then the connection is closed.
    Cut(Vec<u8>),
    /// These bytes, then nothing more, until the other side leaves.
    Stall(Vec<u8>),
    /// This head, then zeroes without end, in chunks of HTTP.
    Flood(Vec<u8>),
}

impl Reply {
    /// A JSON answer with header lines (each ends with `\r\n`).
    pub(super) fn json(status: u16, lines: &str, body: &str) -> Self {
        let length = body.len();
        Self::Bytes(
            format!(
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
            )
            .into_bytes(),
        )
    }

    /// A plain 200.
    pub(super) fn ok(body: &serde_json::Value) -> Self {
        Self::json(200, "", &body.to_string())
    }
}

/// The answers by the path of the request.
type Answers = dyn Fn(&str) -> Reply + Send + Sync;

/// The server. Replies are used in order; a request beyond them is answered 418.
pub(super) struct Scripted {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    flooded: Arc<AtomicUsize>,
}

impl Scripted {
    /// With these replies.
    pub(super) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::late(|_| replies.into_iter().collect())
    }

    /// With replies that name the server's own base URL.
    pub(super) fn late(replies: impl FnOnce(&str) -> Vec<Reply>) -> Self {
        Self::start(|base| {
            let replies = Mutex::new(VecDeque::from(replies(base)));
            Arc::new(move |_path| replies.lock().unwrap().pop_front().unwrap_or_else(|| Reply::json(418, "", "{}")))
        })
    }

    /// With the reply that belongs to its own base URL and a request's path.
    pub(super) fn by_path(answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(|base| {
            let base = base.to_owned();
            Arc::new(move |path| answer(&base, path))
        })
    }

    fn start(answers: impl FnOnce(&str) -> Arc<Answers>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let flooded = Arc::new(AtomicUsize::new(0));
        let answers = answers(&format!("http://127.0.0.1:{port}"));
        let (all_seen, all_flooded) = (Arc::clone(&seen), Arc::clone(&flooded));
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (answers, seen, flooded) = (Arc::clone(&answers), Arc::clone(&all_seen), Arc::clone(&all_flooded));
                // A client that leaves in the middle is part of many tests.
                thread::spawn(move || serve(connection?, answers.as_ref(), &seen, &flooded));
            }
        });
        Self { port, seen, flooded }
    }

    /// Its base URL.
    pub(super) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests so far, each with head and body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The first lines of the requests so far, without the version.
    pub(super) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(|r| r.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned()).collect()
    }

    /// How many bytes of a flood were taken.
    pub(super) fn flooded(&self) -> usize {
        self.flooded.load(Ordering::SeqCst)
    }
}

fn serve(
    mut connection: TcpStream,
    answers: &Answers,
    seen: &Mutex<Vec<String>>,
    flooded: &AtomicUsize,
) -> std::io::Result<()> {
    while let Some(request) = request(&mut connection)? {
        let reply = answers(request.split(' ').nth(1).unwrap_or_default());
        seen.lock().unwrap().push(request);
        match reply {
            Reply::Bytes(bytes) => connection.write_all(&bytes)?,
            Reply::Cut(bytes) => return connection.write_all(&bytes),
            Reply::Stall(bytes) => {
                connection.write_all(&bytes)?;
                connection.read_to_end(&mut Vec::new())?;
            }
            Reply::Flood(head) => {
                connection.write_all(&head)?;
                let chunk = [b"10000\r\n".to_vec(), vec![0; 0x1_0000], b"\r\n".to_vec()].concat();
                loop {
                    connection.write_all(&chunk)?;
                    flooded.fetch_add(0x1_0000, Ordering::SeqCst);
                }
            }
        }
    }
    Ok(())
}

fn request(connection: &mut TcpStream) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Ok(Some(text));
            }
        }
        match connection.read(&mut buffer)? {
            0 => return Ok(None),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

/// A clock that stands at [`NOW`].
pub(super) struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// A client, and the parameters of its sessions.
pub(super) struct Caller {
    client: Arc<Client>,
    token: String,
    pub(super) nonce: Nonce,
}

impl Caller {
    /// One that talks to this base URL.
    pub(super) fn to(base: &str) -> Self {
        Self::with_token(base, TOKEN)
    }

    /// The same with another token.
    pub(super) fn with_token(base: &str, token: &str) -> Self {
        let client = Client::new(BaseUrl::parse(base).unwrap(), Arc::new(Fixed)).unwrap();
        Self { client: Arc::new(client), token: token.to_owned(), nonce: Nonce::fresh(&SystemRandom).unwrap() }
    }

    /// The same for another call: only the nonce is new.
    pub(super) fn again(&self) -> Self {
        let (client, token) = (Arc::clone(&self.client), self.token.clone());
        Self { client, token, nonce: Nonce::fresh(&SystemRandom).unwrap() }
    }

    /// A session that ends after `timeout`.
    pub(super) fn session(&self, timeout: Duration) -> Session<'_> {
        Session::open(&self.client, &self.token, Instant::now() + timeout, &self.nonce).unwrap()
    }
}
