//! Documents on their way out: the request id, the envelope, the signature.
//!
//! The host's own parser accepts exactly these documents; nothing is written to the mailbox yet.

use crate::render;
use crate::settings::{Settings, TokenSource};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::Value;
use shared::limits::REQUEST_BYTES_MAX;
use shared::request::Request;
use shared::{Reply, RequestId, Timestamp};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time by the sandbox's clock. Informational, except for the freshness of a signature; waiting is measured on
/// the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the one place where the shim looks at the clock")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A new request id, `ext-<13-digit ms>-<6 base36>`.
///
/// Several shims may share a directory, so the second half comes from the system's random source.
///
/// # Panics
/// If the system has no randomness: two calls could then share one reply.
#[expect(clippy::expect_used, reason = "letters, digits and dashes are what the grammar asks for")]
pub fn request_id() -> RequestId {
    let text = format!("ext-{:013}-{}", now().millis(), base36(6));
    text.parse().expect("letters, digits and dashes")
}

const BASE36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

#[expect(clippy::expect_used, reason = "the kernel's random source does not fail once it has started")]
fn base36(length: usize) -> String {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut random = [0; 16];
        // The system call itself: in an empty root file system there is no `/dev/urandom` to fall back on.
        let filled = getrandom(&mut random, GetRandomFlags::empty()).expect("a random source");
        // 252 is the largest multiple of 36 in a byte; larger bytes would favour the first digits.
        let fair = random.iter().take(filled).filter(|byte| **byte < 252);
        let digits = fair.filter_map(|byte| BASE36.get(usize::from(byte % 36)));
        text.extend(digits.take(length - text.len()).map(|byte| char::from(*byte)));
    }
    text
}

/// The bytes to write for a request of this conversation.
///
/// # Errors
/// The reply to give instead, if the key or the token cannot be read, or the document would be too large. Nothing was sent.
pub fn bytes(
    settings: &Settings,
    conversation: Option<&RequestId>,
    id: &RequestId,
    request: &Request,
) -> Result<Vec<u8>, Box<Reply>> {
    let mut document = request.body();
    document.insert("request_id".into(), Value::String(id.to_string()));
    document.insert("timestamp".into(), Value::String(now().to_string()));
    if let Some(conversation) = conversation {
        document.insert("conversation".into(), Value::String(conversation.to_string()));
    }
    let token = token(&settings.token);
    if let Some(token) = token.map_err(|(path, fault)| Box::new(render::no_token(id, path, &fault)))? {
        document.insert("context_token".into(), Value::String(token));
    }
    let mut bytes = Value::Object(document).to_string().into_bytes();
    if let Some(path) = &settings.signing_key {
        let Ok(key) = read_text(path) else { return Err(Box::new(render::no_signing_key(id, path))) };
        bytes = shared::signature::sign(&bytes, &key);
    }
    if bytes.len() > REQUEST_BYTES_MAX { Err(Box::new(render::oversized(id, bytes.len()))) } else { Ok(bytes) }
}

/// Returns the token, if one is configured.
///
/// # Errors
/// The file that cannot be read, and why. Without its token, a request would look like one of nobody.
fn token(source: &TokenSource) -> Result<Option<String>, (&Path, String)> {
    match source {
        TokenSource::None => Ok(None),
        TokenSource::Fixed(token) => Ok(Some(token.clone())),
        TokenSource::File(path) => match read_text(path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(fault) => Err((path, fault)),
        },
    }
}

/// Keys and tokens are short; a longer file is some other file.
const SECRET_BYTES_MAX: u64 = 16 * 1024;

fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text));
    let length = read.map_err(|error| error.to_string())?;
    if u64::try_from(length).is_ok_and(|length| length > SECRET_BYTES_MAX) {
        return Err(format!("it has more than {} KiB", SECRET_BYTES_MAX / 1024));
    }
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::request::ListRequest;
    use std::collections::BTreeSet;

    fn settings() -> Settings {
        Settings::read(|_| None).unwrap()
    }

    #[test]
    fn request_ids_have_the_documented_shape_and_differ() {
        let ids: BTreeSet<_> = (0..500).map(|_| request_id()).collect();
        assert_eq!(ids.len(), 500);
        for id in ids {
            let parts: Vec<_> = id.as_str().split('-').collect();
            assert_eq!((parts[0], parts[1].len(), parts[2].len()), ("ext", 13, 6), "{id}");
            assert!(parts[2].bytes().all(|b| BASE36.contains(&b)), "{id}");
        }
    }

    #[test]
    fn a_document_is_one_that_the_host_can_parse() {
        let request = Request::List(ListRequest { group_folder: None });
        let id = request_id();
        let mut settings = settings();
        settings.token = TokenSource::Fixed("tok".into());
        let parsed = shared::request::parse(&bytes(&settings, Some(&id), &id, &request).unwrap()).unwrap();
        assert_eq!(parsed.request, request);
        assert_eq!(parsed.envelope.conversation, Some(id.clone()));
        assert_eq!(parsed.envelope.request_id, Some(id));
        assert_eq!(parsed.envelope.context_token.as_deref(), Some("tok"));
        assert!(parsed.envelope.timestamp.unwrap().parse::<Timestamp>().is_ok());
    }

    #[test]
    fn a_token_that_cannot_be_read_sends_nothing_and_says_why() {
        let request = Request::List(ListRequest { group_folder: None });
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        for (path, fault) in [
            (folder.path().join("none"), "No such file"),
            (folder.path().to_owned(), "directory"),
            (file("empty", b" \n"), "it is empty"),
            (file("long", "a".repeat(17 * 1024).as_bytes()), "more than 16 KiB"),
            (file("bytes", &[0xff]), "UTF-8"),
        ] {
            let mut settings = settings();
            settings.token = TokenSource::File(path.clone());
            let reply = bytes(&settings, None, &request_id(), &request).unwrap_err();
            assert_eq!(reply.code.as_deref(), Some("context_token_missing"));
            let error = reply.error.unwrap();
            assert!(error.contains(path.to_str().unwrap()) && error.contains(fault), "{error}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_read_sends_nothing() {
        let mut settings = settings();
        settings.signing_key = Some("/nowhere/key".into());
        let request = Request::List(ListRequest { group_folder: None });
        let reply = bytes(&settings, None, &request_id(), &request).unwrap_err();
        assert_eq!(reply.code.as_deref(), Some("bad_signature"));
    }
}
