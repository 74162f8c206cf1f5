//! Every parser of bytes that somebody else chose, as one function of bytes: what `fuzz/` runs by the million, and one
//! test by the thousand. A target panics where something is wrong: the parser itself, or what must hold of what it read.

use filter::scrub::Scrubber;
use filter::{Rules, Strictness, clean, clean_text};
use mcp_shim::snapshot::View;
use mcp_shim::tools;
use mcp_shim::transport::Polite;
use model::{Person, WorkspacePath};
use provider_cloud_logs::fuzzing;
use provider_files::change::{Change, ChangeSet, FileState};
use provider_files::diff::{Diff, PREVIEW_MAX};
use provider_files::patch::{Limits, plan};
use provider_files::rules::{DENIED, PathRules};
use rmcp::transport::Transport as _;
use secrets::Secrets;
use secrets::identity;
use secrets::identity::issuers::{Issuers, OwnKey};
use secrets::search::mark::Stamp;
use secrets::source::{CommandOutput, Output, SecretSource};
use serde_json::{Value, json};
use shared::frame::{Decoder, Frame, FrameError};
use shared::reply::Progress;
use shared::snapshot::Snapshot;
use shared::{Action, Gate, Group, IdempotencyKey, Provider, Reply, RequestId, TaskId, Timestamp, limits};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// A target and its name, under which `fuzz/fuzz_targets` and `tests/fixtures/fuzz` have it too.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 14] = [
    ("json", json),
    ("request", request),
    ("names", names),
    ("signature", signature),
    ("reply", reply),
    ("snapshot", snapshot),
    ("lines", lines),
    ("journal", journal),
    ("filter", filter),
    ("transport", transport),
    ("patch", patch),
    ("chat", chat),
    ("token", token),
    ("frame", frame),
];

/// Strict JSON: what was read says the same when it is written and read again.
pub fn json(bytes: &[u8]) {
    let Ok(value) = shared::json::parse(bytes) else { return };
    let text = std::str::from_utf8(bytes).expect("what was parsed is UTF-8");
    assert!(!shared::json::loses_digits(text) || !shared::json::inexact_numbers(text).is_empty());
    assert_eq!(shared::json::parse(value.to_string().as_bytes()).as_ref(), Ok(&value));
    let canonical = shared::json::canonical(&value);
    let again = shared::json::parse(&canonical).expect("canonical JSON is JSON");
    assert_eq!(shared::json::canonical(&again), canonical);
}

/// Frames: the same ones come out however the stream is cut, and written again they are the bytes that were read.
pub fn frame(bytes: &[u8]) {
    let all = frames(Decoder::of_requests(), bytes, bytes.len().max(1));
    let step = bytes.first().map_or(1, |byte| usize::from(*byte % 7) + 1);
    assert_eq!(all, frames(Decoder::of_requests(), bytes, step));
    let written: Vec<u8> = all
        .iter()
        .flatten()
        .flat_map(|frame| shared::frame::encode(frame.kind, &frame.document).expect("what was read fits"))
        .collect();
    assert!(bytes.starts_with(&written));
}

/// The frames of a stream that comes in such steps, up to its first fault.
fn frames(mut decoder: Decoder, bytes: &[u8], step: usize) -> Vec<Result<Frame, FrameError>> {
    let mut taken = Vec::new();
    for part in bytes.chunks(step) {
        decoder.push(part);
        while let Some(frame) = decoder.take().transpose() {
            let is_fault = frame.is_err();
            taken.push(frame);
            if is_fault {
                return taken;
            }
        }
    }
    taken
}

/// A context token: nobody has signed the bytes themselves; as claims that somebody has, they are believed only within
/// the rules.
pub fn token(bytes: &[u8]) {
    static OWN: LazyLock<OwnKey> = LazyLock::new(|| OwnKey::new(&[7; 32]).expect("a key"));
    static ISSUERS: LazyLock<Issuers> =
        LazyLock::new(|| Issuers::new(&OWN, None, &BTreeMap::new(), &Secrets::default()));
    const NOW_S: i64 = 1_770_000_000;
    let (group, now): (Group, _) = ("family".parse().expect("a group"), Timestamp::from_millis(NOW_S * 1000));
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(identity::token::read(text, &group, &ISSUERS, now).is_err());
    }
    let token = identity::token::signed(bytes, |message| OWN.sign(message));
    let Ok(person) = identity::token::read(&token, &group, &ISSUERS, now) else { return };
    let claims = shared::json::parse_object(bytes).expect("what was believed is an object");
    let seconds = |name: &str| claims.get(name).and_then(Value::as_i64).expect("whole seconds");
    assert!(seconds("exp") >= NOW_S - 30 && seconds("iat") <= NOW_S + 30 && seconds("exp") - seconds("iat") <= 3600);
    assert_eq!(claims.get("sub").and_then(Value::as_str), Some(person.sub.as_str()));
    assert!(!person.sub.trim().is_empty() && !person.sub.chars().any(char::is_control));
    assert!(claims.get("group").is_none_or(|named| named.is_null() || named == "family"));
    let stored = serde_json::to_string(&person).expect("JSON");
    assert_eq!(serde_json::from_str::<Person>(&stored).ok(), Some(person));
}

/// An answer from a chat: what is taken is one word, one code and for a no a reason, and says the same when it is written
/// again.
pub fn chat(bytes: &[u8]) {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    let Ok(spoken) = engine::chat::read(line) else { return };
    assert!(spoken.code.len() == 6 && spoken.code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
    assert!(!(spoken.yes && spoken.reason.is_some()), "a yes has no conditions");
    assert!(spoken.reason.iter().all(|reason| !reason.chars().any(char::is_control)));
    let word = if spoken.yes { "approve" } else { "deny" };
    let why = spoken.reason.as_ref().map_or_else(String::new, |reason| format!(" because {reason}"));
    if line.chars().count() > 480 {
        // With the word that may have been left out it may be too long.
        return;
    }
    assert_eq!(engine::chat::read(&format!("{word} {}{why}", spoken.code)).as_ref(), Ok(&spoken));
}

/// A request document: what is read is what would be written.
pub fn request(bytes: &[u8]) {
    let Ok(document) = shared::request::parse(bytes) else { return };
    let body = Value::Object(document.request.body());
    let again = shared::request::parse(body.to_string().as_bytes()).expect("a request's own words are a request");
    assert_eq!(again.request, document.request);
}

/// Names and times: what is taken prints as it was written, and none of them is a way out of a directory.
pub fn names(bytes: &[u8]) {
    fn name<T: std::str::FromStr + std::fmt::Display>(text: &str) {
        if let Ok(name) = text.parse::<T>() {
            assert_eq!(name.to_string(), text);
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    name::<Provider>(text);
    name::<Action>(text);
    name::<Gate>(text);
    name::<TaskId>(text);
    name::<IdempotencyKey>(text);
    name::<Group>(text);
    name::<RequestId>(text);
    if text.parse::<Group>().is_ok() || text.parse::<RequestId>().is_ok() {
        assert!(!text.starts_with('.') && !text.contains(['/', '\\', '\0']) && (1..=128).contains(&text.len()));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        assert_eq!(time.to_string().parse::<Timestamp>().as_ref(), Ok(&time));
    }
}

/// Signatures: what is signed verifies, under its own key only, and nothing else does.
pub fn signature(bytes: &[u8]) {
    assert!(shared::signature::verify(bytes, "a key that nobody has").is_err());
    let Ok(document) = shared::json::parse_object(bytes) else { return };
    let signed = shared::signature::sign(Value::Object(document).to_string().as_bytes(), "the key");
    assert_eq!(shared::signature::verify(&signed, " the key\n"), Ok(()));
    assert!(shared::signature::verify(&signed, "another key").is_err());
}

/// Replies and progress, as the shim reads them.
pub fn reply(bytes: &[u8]) {
    if let Ok(document) = shared::json::parse_object(bytes)
        && let Ok(reply) = serde_json::from_value::<Reply>(document.into())
    {
        let shown = mcp_shim::render::result(&reply);
        assert!(!shown.content.is_empty(), "a model reads the text");
        let written = serde_json::to_value(&reply).expect("a reply can be written");
        assert_eq!(serde_json::from_value::<Reply>(written).expect("and read"), reply);
    }
    serde_json::from_slice::<Progress>(bytes).ok();
}

/// The snapshot, as the shim reads it, and the tools that follow: no two under one name, all under names that clients
/// take.
pub fn snapshot(bytes: &[u8]) {
    let Ok(document) = shared::json::parse_object(bytes) else { return };
    let Ok(snapshot) = serde_json::from_value::<Snapshot>(document.into()) else { return };
    let actions = tools::action::all(&snapshot);
    let view = View { actions, snapshot: Some(snapshot), ..View::default() };
    let mut names: Vec<String> = tools::list(&view).into_iter().map(|tool| tool.name.into_owned()).collect();
    for name in &names {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        assert!((1..=64).contains(&name.len()) && name.chars().all(fits), "{name}");
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "two tools have one name");
}

/// Log files of every format.
pub fn lines(bytes: &[u8]) {
    fuzzing::lines(bytes);
}

/// The output of `journalctl`.
pub fn journal(bytes: &[u8]) {
    fuzzing::journal(bytes);
}

/// Patches, on files that fit the seeds: what is taken is shown as a patch that does the same.
pub fn patch(bytes: &[u8]) {
    let (creatable, base) = (["src", "d"], "1\n2\n3\n4\n5\n6\n7\n8\n9\n10");
    let rules = PathRules::new(&DENIED, &creatable).expect("the usual rules");
    let look = |path: &WorkspacePath| match path.as_str() {
        "f" => Ok(Some(FileState::created(base.into(), false))),
        "src/g" => Ok(Some(FileState::created(b"a\r\nb\xff\n\nc\n".to_vec(), true))),
        "d/empty" => Ok(Some(FileState::created(Vec::new(), false))),
        _ => Ok(None),
    };
    let Ok(set) = plan(bytes, &rules, Limits::default(), look) else { return };
    for path in set.changes().iter().flat_map(Change::paths) {
        let parts: Vec<&str> = path.as_str().split('/').collect();
        assert!(!parts.iter().any(|part| matches!(*part, "" | "." | ".." | ".git" | ".env")), "{path}");
    }
    assert_eq!(ChangeSet::from_bytes(&set.to_bytes()).as_ref(), Ok(&set));
    if let Ok(diff) = Diff::of(&set) {
        let again = plan(diff.text().as_bytes(), &rules, Limits::default(), look);
        assert_eq!(again.expect("a diff is a patch"), set, "{}", diff.text());
        assert!(diff.preview().chars().count() <= PREVIEW_MAX);
    }
}

const SECRET: &str = "k7Qz-9fXw2LmP4vRt8Yb";

struct NoCommands;

impl CommandOutput for NoCommands {
    fn output<'a>(&'a self, _command: &'a [String]) -> Output<'a> {
        Box::pin(async { Err("there are none".to_owned()) })
    }
}

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"));

static SCRUBBER: LazyLock<Scrubber> = LazyLock::new(|| {
    let sources = BTreeMap::from([("S".to_owned(), SecretSource::Env { env: "S".to_owned() })]);
    let environment = BTreeMap::from([("S".to_owned(), SECRET.to_owned())]);
    let secrets = RUNTIME.block_on(Secrets::load(&sources, &environment, &NoCommands));
    Scrubber::new(&secrets, Stamp::new([9; 32])).expect("a scrubber")
});

/// The filter, on a result with a secret in the middle of whatever the bytes say: it is not in what comes out, and that
/// is no longer than it may be.
pub fn filter(bytes: &[u8]) {
    let (before, after) = bytes.split_at(bytes.len() / 2);
    let [before, after] = [before, after].map(String::from_utf8_lossy);
    let text = format!("{before}{SECRET}{after}");
    let read = shared::json::parse(bytes).unwrap_or(Value::Null);
    let data = json!({ "text": text, "read": read, "parts": [before, SECRET, after], SECRET: text });
    for strictness in [Strictness::OwnSecrets, Strictness::Ordinary, Strictness::Namespaced] {
        let rules = Rules { scrubber: &SCRUBBER, output_schema: None, strictness };
        if let Ok(cleaned) = clean(data.clone(), &rules).data {
            let shown = cleaned.to_string();
            assert!(!shown.contains(SECRET), "{shown}");
            assert!(shown.len() <= limits::DATA_BYTES_MAX);
        }
    }
    let line = clean_text(&text, 200, &SCRUBBER);
    assert!(!line.contains(SECRET) && !line.contains('\n'), "{line}");
}

/// The shim's line framing: however the bytes are cut, it comes to their end and answers in JSON. The first byte says
/// how they are cut.
pub fn transport(bytes: &[u8]) {
    let Some((cut, rest)) = bytes.split_first() else { return };
    if let Some(Ok(messages)) = shared::rpc::batch(rest, Some(shared::rpc::BATCH_REVISION)) {
        assert!((1..=limits::BATCH_MAX).contains(&messages.len()));
        assert!(
            messages.iter().all(|message| shared::rpc::read(message.get().as_bytes()) != shared::rpc::Text::NotJson)
        );
    }
    let written = Arc::new(Mutex::new(Vec::new()));
    let input = Pieces { rest: rest.to_vec(), at: 0, most: usize::from(*cut).max(1) };
    let output = Written(Arc::clone(&written));
    RUNTIME.block_on(async {
        let mut transport = Polite::new(input, output, CancellationToken::new());
        while transport.receive().await.is_some() {}
        // Complaints are sent beside the reading.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        transport.close().await.expect("nothing is in the way");
    });
    let written = written.lock().expect("nobody panicked");
    let lines = written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for line in lines {
        let said: Value = serde_json::from_slice(line).expect("only JSON on standard output");
        assert!(said.pointer("/error/code").is_some_and(Value::is_i64), "{said}");
    }
}

/// Bytes that come in pieces.
struct Pieces {
    rest: Vec<u8>,
    at: usize,
    most: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let length = self.most.min(buf.remaining()).min(self.rest.len() - self.at);
        let end = self.at + length;
        buf.put_slice(self.rest.get(self.at..end).unwrap_or_default());
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

/// Where the transport's answers go.
struct Written(Arc<Mutex<Vec<u8>>>);

impl AsyncWrite for Written {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
