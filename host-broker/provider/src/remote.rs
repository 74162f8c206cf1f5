//! Servers that a provider asks over HTTP: their address, the sign-in, and the bodies of their answers.

use crate::linking::address::is_here;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use platform::http::{Exchange, Http, HttpError};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::Url;
use zeroize::Zeroizing;

/// Reads the address of a server: `https`, or `http` for a loopback address, and nothing beside host and path.
///
/// # Errors
/// The fault and the remedy, for the key `url`.
pub fn address(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_bad| "url: is no address; write https://HOST/PATH/")?;
    let Some(host) = url.host() else { return Err("url: must be https; http is for loopback addresses only") };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_here(&host)) {
        return Err("url: must be https; http is for loopback addresses only");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("url: must not contain a user name or a password; use username and password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("url: must have neither a query nor a fragment");
    }
    Ok(url)
}

/// Returns the header that signs in: with a user name and a password (RFC 7617), or with a token alone (RFC 6750).
/// Returns `None` if the secret has characters that no header can have.
pub fn authorization(username: Option<&str>, secret: &str) -> Option<HeaderValue> {
    let text = Zeroizing::new(match username {
        Some(username) => {
            let pair = Zeroizing::new(format!("{username}:{secret}"));
            format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes()))
        }
        None => format!("Bearer {secret}"),
    });
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Returns whether a user name can sign in. A colon would end it (RFC 7617, section 2).
pub fn is_username(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c == ':' || c.is_control())
}

/// A longer pause that a server asks for is shortened.
const RETRY_AFTER_MAX: u64 = 3600;

/// Returns the pause that a server asks for (RFC 9110, section 10.2.3), if it says so in seconds.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u64>().ok()?;
    Some(Duration::from_secs(seconds.min(RETRY_AFTER_MAX)))
}

/// Asks a server without a credential, and returns the status of its answer.
///
/// # Errors
/// [`HttpError`]; nothing was changed.
pub async fn status_of(http: &dyn Http, url: &Url, deadline: Instant) -> Result<u16, HttpError> {
    let uri = url.as_str().parse().map_err(|_bad| HttpError::NotHttp)?;
    let (method, headers) = (Method::GET, HeaderMap::new());
    http.send(Exchange { method, uri, headers, body: Vec::new(), deadline }).await
}

/// A body that was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than the limit.
    TooLarge,
    /// It is compressed, although nobody asked for that.
    Encoded,
    /// It breaks off.
    Broken,
    /// It did not come in time.
    Late,
}

/// Reads an answer of at most `most` bytes until the deadline.
///
/// # Errors
/// [`BodyError`], with the head of the answer.
pub async fn read<B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send>(
    response: Response<B>,
    most: usize,
    deadline: Instant,
) -> (Parts, Result<Vec<u8>, BodyError>) {
    let (head, body) = response.into_parts();
    if head.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return (head, Err(BodyError::Encoded));
    }
    let body = match timeout_at(deadline, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Ok(Err(_broken)) => Err(BodyError::Broken),
        Err(_elapsed) => Err(BodyError::Late),
    };
    (head, body)
}

/// A list of at most `N` entries. A longer one is an error before it takes the memory.
#[derive(Debug)]
pub struct AtMost<T, const N: usize>(pub Vec<T>);

impl<T, const N: usize> Default for AtMost<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for AtMost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T, const N: usize>(PhantomData<fn() -> T>);

        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Entries<T, N> {
            type Value = AtMost<T, N>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a list of at most {N} entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    if entries.len() == N {
                        return Err(A::Error::invalid_length(N + 1, &self));
                    }
                    entries.push(entry);
                }
                Ok(AtMost(entries))
            }
        }

        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

/// The most characters of the words of a server.
const WORDS_CHARS_MAX: usize = 300;

/// Returns the words of a server as one bounded line of visible text: they go into a sentence that an agent and a person
/// read.
pub fn cleaned(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let visible: String = text.chars().map(|c| if hidden(c) { ' ' } else { c }).collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Returns the words of a server as a part of a sentence, without this secret: one bounded line without an end.
pub fn words(text: &str, secret: &str) -> String {
    // A cut could leave a part of the secret, which no search finds.
    let without = if secret.is_empty() { text.to_owned() } else { text.replace(secret, "<redacted>") };
    cleaned(&without).trim_end_matches(['.', ' ', ':']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_https_or_loopback_and_nothing_more() {
        for text in
            ["https://cal.example.com", "https://cal.example.com:8443/dav/", "http://127.0.0.1:1/", "http://[::1]/"]
        {
            assert!(address(text).is_ok(), "{text}");
        }
        for (text, fault) in [
            ("http://cal.example.com/", "must be https"),
            ("http://127.0.0.1.evil.example/", "must be https"),
            ("ftp://127.0.0.1/", "must be https"),
            ("file:///etc", "must be https"),
            ("cal.example.com", "write https://HOST/PATH/"),
            ("https://ada:secret@cal.example.com/", "must not contain a user name"),
            ("https://cal.example.com/?a=b", "neither a query nor a fragment"),
            ("https://cal.example.com/#a", "neither a query nor a fragment"),
        ] {
            assert!(address(text).unwrap_err().contains(fault), "{text}");
        }
    }

    #[test]
    fn a_list_with_more_entries_than_its_limit_is_none() {
        let read = |text: &str| serde_json::from_str::<AtMost<u8, 2>>(text).map(|list| list.0).ok();
        assert_eq!((read("[]"), read("[1,2]")), (Some(Vec::new()), Some(vec![1, 2])));
        for bad in ["[1,2,3]", "[1,-2]", "7", "{}"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn words_of_a_server_are_one_visible_line() {
        assert_eq!(cleaned("  not\r\n\u{202e}allowed\u{1b}[2J\u{feff} "), "not allowed [2J");
        assert_eq!(cleaned(&"ä".repeat(1000)).chars().count(), WORDS_CHARS_MAX + 1);
        let told = words(&format!("{}secret-token.", "x".repeat(WORDS_CHARS_MAX - 6)), "secret-token");
        assert!(told.ends_with("x<redac…"), "{told}");
        assert_eq!(words("no way. ", ""), "no way");
    }

    #[test]
    fn a_header_that_signs_in_is_not_printed() {
        let header = authorization(Some("ada"), "secret").unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic YWRhOnNlY3JldA==");
        assert_eq!(authorization(None, "token").unwrap().to_str().unwrap(), "Bearer token");
        assert!(header.is_sensitive() && !format!("{header:?}").contains("YWRh"));
        assert_eq!(authorization(None, "a\nb"), None);
    }
}
