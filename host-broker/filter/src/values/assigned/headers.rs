//! Headers of HTTP and parameters of addresses, whose place says that a value is one. Then the value itself needs less.

use super::{blanks_before, name_before};
use crate::values::plausible;

/// The most bytes before a header in its line.
const PREFIX_BYTES_MAX: usize = 64;

/// The fewest bytes of a header's value of letters alone, and of a cookie's.
const OPAQUE_BYTES_MIN: usize = 12;
const COOKIE_BYTES_MIN: usize = 6;

/// Words before a token.
const SCHEMES: [&str; 7] = ["bearer", "token", "apikey", "api-key", "bot", "key", "ntlm"];

/// Ends of the names of cookies that are credentials, in small letters.
const COOKIES: [&str; 8] = ["session", "sessionid", "session_id", "sid", "sessid", "token", "auth", "jwt"];

/// Words of manuals that explain a header.
const EXPLAINING: [&str; 4] = ["authentication", "authorization", "authenticated", "unauthenticated"];

/// Returns whether the name before this place is that of a header: in capitals, and first in its line or in an
/// argument of `curl -H`.
pub(super) fn begins_line(text: &str, at: usize) -> bool {
    let Some((name, is_quoted)) = name_before(text, at) else { return false };
    let from = text.floor_char_boundary(name.start.saturating_sub(PREFIX_BYTES_MAX));
    let before = text.get(from..name.start).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_whole = line.len() < before.len() || from == 0;
    let is_first = is_whole && line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'<' | b'>' | b'\r'));
    let argument = line.trim_end_matches(['"', '\'', '\\']).trim_end_matches([' ', '=']);
    let is_argument = argument.ends_with("-H") || argument.ends_with("--header");
    let is_capital = text.get(name).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
    !is_quoted && is_capital && (is_first || is_argument)
}

/// Returns whether the name before this place is that of a parameter: `?token=…`, `&token=…`, `token=…`.
pub(super) fn is_parameter(text: &str, at: usize, separator: u8) -> bool {
    let Some((name, is_quoted)) = name_before(text, at) else { return false };
    let bytes = text.as_bytes();
    let before = name.start.checked_sub(1).and_then(|before| bytes.get(before));
    let is_apart = before.is_none_or(|byte| matches!(byte, b'?' | b'&' | b'\n' | b' ' | b'"' | b'\''));
    separator == b'=' && !is_quoted && is_apart && blanks_before(bytes, at) == 0
}

/// Returns whether the name before this place is that of a parameter of an address: `?token=…`, `&token=…`.
pub(super) fn is_in_address(text: &str, at: usize) -> bool {
    let before = name_before(text, at).and_then(|(name, _)| name.start.checked_sub(1));
    let is_parted =
        before.and_then(|before| text.as_bytes().get(before)).is_some_and(|byte| matches!(byte, b'?' | b'&'));
    is_parted && text.as_bytes().get(at) == Some(&b'=')
}

/// Returns whether the value of a header is a credential although nothing but letters is in it.
pub(super) fn is_opaque(kind: &str, value: &str) -> bool {
    match kind {
        "authorization" | "proxyauthorization" => {
            let mut words = value.split_ascii_whitespace();
            let (first, second) = (words.next().unwrap_or_default(), words.next());
            let is_scheme = SCHEMES.iter().any(|scheme| first.eq_ignore_ascii_case(scheme));
            let token = if is_scheme { second.unwrap_or_default() } else { first };
            words.next().is_none() && (is_scheme || second.is_none()) && is_token(token)
        }
        "cookie" | "setcookie" => value.split(';').filter_map(|cookie| cookie.trim().split_once('=')).any(is_session),
        _ => false,
    }
}

fn is_token(value: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    value.len() >= OPAQUE_BYTES_MIN
        && value.bytes().all(is_of_token)
        && !plausible::is_placeholder(value)
        && !plausible::is_about_credentials(value)
        && !plausible::is_made_of_words(value)
        && !plausible::is_camel_case(value)
        && !EXPLAINING.iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn is_session((name, value): (&str, &str)) -> bool {
    let name = name.to_ascii_lowercase();
    COOKIES.iter().any(|end| name.ends_with(end))
        && value.len() >= COOKIE_BYTES_MIN
        && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>{}()[]$".contains(&byte))
        && !plausible::is_placeholder(value)
        && !plausible::is_about_credentials(value)
        && !plausible::is_made_of_words(value)
}
