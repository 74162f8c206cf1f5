//! The second look at a text with the shape of a credential.

use super::plausible;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

const CHECK_DIGITS: usize = 6;
const CHECKED_LENGTH: usize = 36;

/// The fewest bytes of a random text in a program.
const RANDOM_BYTES_MIN: usize = 16;

/// Passwords that stand for one in addresses and headers of manuals.
const PLACEHOLDERS: [&str; 20] = [
    "password",
    "passwd",
    "pass",
    "pwd",
    "pw",
    "p",
    "secret",
    "token",
    "credentials",
    "changeme",
    "port",
    "pass_word",
    "yourpassword",
    "your_password",
    "your-password",
    "mypassword",
    "foo",
    "bar",
    "password123",
    "test",
];

/// Returns whether the whole value is a word that stands for a password.
pub(crate) fn is_stand_in(value: &str) -> bool {
    PLACEHOLDERS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The shape is enough.
pub(super) fn anything(_: &str) -> bool {
    true
}

/// More different characters than a placeholder or a word has.
pub(super) fn varied(text: &str) -> bool {
    let mut seen = [false; 256];
    for byte in text.bytes() {
        if let Some(seen) = seen.get_mut(usize::from(byte)) {
            *seen = true;
        }
    }
    seen.into_iter().filter(|seen| *seen).count() >= 12 && text.bytes().any(|b| b.is_ascii_digit())
}

/// The last part of a webhook's address is [`varied`].
pub(super) fn webhook(url: &str) -> bool {
    url.rsplit('/').next().is_some_and(varied)
}

/// [`varied`], and of every kind: names in programs and style sheets seldom have digits and both cases.
pub(super) fn mixed(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    varied(text) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}

/// The key id that the manuals print ends in this word.
pub(super) fn not_an_example(text: &str) -> bool {
    !text.ends_with("EXAMPLE")
}

/// Tokens of the fixed length have check digits; longer ones of later designs have none.
pub(super) fn github(token: &str) -> bool {
    let is_checked = token.split_once('_').is_some_and(|(_, payload)| {
        payload.len() == CHECKED_LENGTH && payload.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    if is_checked { check_digits(token) } else { mixed(token) }
}

/// The last six characters of 36 are the CRC-32 of the thirty before them, in base 62 (digits, capitals, small letters).
///
/// Source: GitHub, "Behind GitHub's new authentication token formats", 2021; npm has taken it over.
pub(super) fn check_digits(token: &str) -> bool {
    let Some((_, payload)) = token.split_once('_') else { return false };
    let Some((random, digits)) = payload.split_at_checked(CHECKED_LENGTH - CHECK_DIGITS) else { return false };
    let mut crc = flate2::Crc::new();
    crc.update(random.as_bytes());
    let value = digits.bytes().try_fold(0u64, |value, byte| Some(value * 62 + base62(byte)?));
    value == Some(u64::from(crc.sum()))
}

fn base62(digit: u8) -> Option<u64> {
    let value = match digit {
        b'0'..=b'9' => digit - b'0',
        b'A'..=b'Z' => digit - b'A' + 10,
        b'a'..=b'z' => digit - b'a' + 36,
        _ => return None,
    };
    Some(value.into())
}

/// The first part is a JSON object that names an algorithm (RFC 7515, section 4.1.1).
pub(super) fn jwt(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).ok();
    let header = header.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    header.is_some_and(|header| header.get("alg").is_some())
}

/// Not one of the words that stand for a password in a manual, not a variable, and not a letter or two.
pub(super) fn url_password(url: &str) -> bool {
    const PASSWORD_BYTES_MIN: usize = 3;
    let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
    let (userinfo, host) = authority.rsplit_once('@').unwrap_or((authority, ""));
    let password = userinfo.split_once(':').map_or("", |(_, password)| password);
    // `https://host:443,user:password@other`: several hosts, of which the first has no user.
    let after_port = |(port, rest): (&str, &str)| {
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        is_port && rest.split_once(':').is_some_and(|(_, password)| is_stand_in(password))
    };
    // `cvs://:pserver:user@host`: a method and a user.
    let is_without_user =
        userinfo.starts_with(':') && password.contains(':') || password.split_once(',').is_some_and(after_port);
    // `scheme://[user[:password]@]host` is the form of an address.
    let is_variable =
        password.contains(['$', '{', '[', ']', '(', '|']) || password.starts_with('%') && password.len() < 4;
    let is_masked = password.bytes().all(|b| matches!(b, b'*' | b'x' | b'X' | b'.' | b'-' | b'_'));
    // RFC 2606 and 6761 reserve these hosts for manuals and tests. A text there that is no plain word still counts as a
    // leak.
    let is_reserved = ["example", "example.com", "example.org", "example.net", "test", "invalid", "localhost"]
        .iter()
        .any(|name| host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let word = password.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_word = |part: &str| part.trim_start_matches(['0', '2', '3', '4']).bytes().all(|b| b.is_ascii_lowercase());
    // On such a host, `cassandra:cassandra` and `ctfduser:ctfd` open the server that comes with the manual.
    let user = userinfo.split_once(':').map_or("", |(user, _)| user);
    let is_of_user = password.len() >= 4 && user.starts_with(password) && plausible::is_chosen_word(password, 4);
    let is_plain = !is_of_user && word.split('%').all(is_word) && password.len() - word.len() <= 3;
    password.len() >= PASSWORD_BYTES_MIN
        && !(is_reserved && is_plain)
        && !(is_variable || is_masked || is_without_user || is_stand_in(password))
}

/// After the name of the header: a user and a password, or anything that is not plainly a word.
pub(super) fn authorization(header: &str) -> bool {
    let (is_basic, credential) = credential(header);
    let has_digit = credential.bytes().any(|b| b.is_ascii_digit());
    let is_from_a_test = ["test", "token", "fake", "mock", "dummy"].iter().any(|word| credential.contains(word))
        && plausible::is_made_of_words(credential);
    let is_empty = is_from_a_test || plausible::is_monotonous(credential);
    if is_basic {
        decoded(credential).is_some_and(|text| !is_from_a_manual(&text) || is_of_a_person(&text))
    } else {
        credential.len() >= 16 && has_digit && !is_empty
    }
}

/// Without it: the word alone also occurs in prose, so more is asked.
pub(super) fn bare_authorization(text: &str) -> bool {
    let (is_basic, credential) = credential(text);
    if is_basic { is_user_and_password(credential) } else { credential.len() >= 20 && mixed(credential) }
}

/// The last word, and whether the one before it is `Basic`.
fn credential(text: &str) -> (bool, &str) {
    let (scheme, credential) = text.rsplit_once([' ', '\t']).unwrap_or(("", text));
    let scheme = scheme.trim_ascii_end();
    let is_basic = scheme.len() >= 5 && scheme.get(scheme.len() - 5..).is_some_and(|s| s.eq_ignore_ascii_case("basic"));
    (is_basic, credential)
}

/// RFC 7617: the base64 of `user:password`.
pub(super) fn is_user_and_password(credential: &str) -> bool {
    decoded(credential).is_some_and(|text| !is_from_a_manual(&text))
}

/// Returns the user and the password, with the colon between them.
fn decoded(credential: &str) -> Option<String> {
    let bytes = STANDARD_NO_PAD.decode(credential.trim_end_matches('=')).ok()?;
    String::from_utf8(bytes).ok().filter(|text| text.contains(':') && !text.contains(char::is_control))
}

/// Returns whether the user is none that manuals have. Then even `password` may be the password.
fn is_of_a_person(text: &str) -> bool {
    let (user, password) = text.split_once(':').unwrap_or_default();
    user.len() >= 3 && password.len() > 4 && user != "Aladdin" && !plausible::is_about_credentials(user)
}

/// Returns whether a user and a password are those of RFC 7617, a placeholder, or two rows of one letter.
fn is_from_a_manual(text: &str) -> bool {
    let is_row = |part: &str| part.len() <= 3 && part.bytes().zip(part.bytes().skip(1)).all(|(one, next)| one == next);
    text.starts_with("Aladdin:")
        || text.split(':').all(is_row)
        || text.split_once(':').is_some_and(|(_, password)| is_stand_in(password))
}

/// Returns whether the last word of the match is no placeholder, and not a plain word.
pub(super) fn last_word(text: &str) -> bool {
    let word = text.rsplit([' ', '\t', '\n', '=', ':', '"', '\'']).find(|word| !word.is_empty()).unwrap_or_default();
    plausible::password(word)
}

/// Returns whether cookies are more than settings and words.
pub(super) fn cookies(text: &str) -> bool {
    plausible::cookie(text)
}

/// Returns whether the value of one of these cookies was made at random.
pub(super) fn random_cookies(text: &str) -> bool {
    text.split(';').filter_map(|cookie| cookie.split_once('=')).any(|(_, value)| random(value))
}

/// Returns whether a text was made at random.
pub(super) fn random(text: &str) -> bool {
    plausible::key(text, RANDOM_BYTES_MIN)
}

/// Returns whether the last argument of a call is a password. Names of signals, hosts and ports are none.
pub(super) fn last_argument(call: &str) -> bool {
    let argument = call.trim_end_matches(['"', '\'']).rsplit(['"', '\'']).next().unwrap_or_default();
    plausible::password(argument)
        && !plausible::is_about_credentials(argument)
        && !plausible::is_made_of_words(argument)
        && !argument.ends_with([';', '{', '}', ','])
}

/// Returns whether the last field of a line of fields is no placeholder.
pub(super) fn last_field(line: &str) -> bool {
    let field = line.trim_end().rsplit([':', '\t', ' ', '"', '\'']).find(|field| !field.is_empty()).unwrap_or_default();
    field.len() >= 4 && !plausible::is_placeholder(field)
}

/// Returns whether the last word of a command is a password: a word that a person chose, too.
pub(super) fn last_login(command: &str) -> bool {
    let word = command.rsplit(':').next().unwrap_or_default();
    last_word(command) || plausible::is_chosen_word(word, 4) && !plausible::is_about_credentials(word)
}

/// Returns whether the last field of a line is a password that is no placeholder: a word that a person chose, too.
pub(super) fn last_password(line: &str) -> bool {
    let field = line.trim_end().rsplit([':', '\t', ' ', '"', '\'']).find(|field| !field.is_empty()).unwrap_or_default();
    plausible::password(field) || plausible::is_chosen_word(field, 4)
}
