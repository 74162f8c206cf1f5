//! Values that stand for a credential, or say where it is: references, gaps, and the words of manuals.

use secrets::names::NAME_BYTES_MAX;

/// Words of which a placeholder has one.
const PLACEHOLDER_WORDS: [&str; 37] = [
    "example",
    "sample",
    "(?",
    "('",
    "(\"",
    "dummy",
    "fake",
    "a1b2c3",
    "1a2b3c",
    "jbswy3dpehpk3pxp",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "changeit",
    "replace",
    "your",
    "insert",
    "redacted",
    "hidden",
    "masked",
    "required",
    "optional",
    "undefined",
    "secret_here",
    "goes_here",
    "goes-here",
    "xxxx",
    "****",
    "....",
    "1234567890",
    "abcdef",
    "foobar",
    "lorem",
    "notasecret",
    "not-a-secret",
    "not_a_secret",
];

/// Beginnings of values that refer to the place of a secret.
const REFERENCES: [&str; 22] = [
    "/",
    "./",
    "../",
    "~/",
    "$",
    "%",
    "<",
    "{",
    "[",
    "(",
    "#",
    "@",
    "*",
    "http://",
    "https://",
    "file:",
    "env:",
    "op://",
    "arn:",
    "vault:",
    "ref:",
    "projects/",
];

/// Returns whether the value stands for a credential, or says where it is.
pub(in crate::values) fn is_placeholder(value: &str) -> bool {
    let lower = value.to_lowercase();
    REFERENCES.iter().any(|start| lower.starts_with(start))
        || PLACEHOLDER_WORDS.iter().any(|word| lower.contains(word))
        || ["${", "$(", "{{", "%s", "%(", "<%", "://", "->", "::", "()", "...", "…"]
            .iter()
            .any(|sign| lower.contains(sign))
        || lower.split_once("#{").is_some_and(|(_, rest)| rest.contains('}'))
        || has_gap(&lower)
        || is_monotonous(&lower)
        || lower.matches("\\x").count() >= 2
}

/// Returns whether the whole value names a variable or a gap: `${TOKEN}`, `Bearer $TOKEN`, `{{ token }}`, `<token>`.
pub(crate) fn is_reference(value: &str) -> bool {
    let value = ["Bearer ", "Basic ", "token "].iter().find_map(|scheme| value.strip_prefix(scheme)).unwrap_or(value);
    let is_name = |name: &str| {
        let name = name.trim();
        (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-' | b'.' | b' '))
    };
    let within = |open: &str, close: &str| value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let named = [("${{", "}}"), ("{{", "}}"), ("${", "}"), ("<", ">"), ("%", "%"), ("$", "")];
    named.iter().find_map(|(open, close)| within(open, close)).is_some_and(is_name)
}

/// `share-{portfolio_id}`: a text of a program with a variable in it.
fn has_gap(value: &str) -> bool {
    const LETTERS_MIN: usize = 3;
    value.split('{').skip(1).filter_map(|rest| rest.split_once('}')).any(|(name, _)| {
        name.len() >= LETTERS_MIN && name.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.'))
    })
}

/// Returns whether the value repeats one letter, or one short row of letters.
pub(in crate::values) fn is_monotonous(value: &str) -> bool {
    let mut letters: Vec<char> = value.chars().filter(|c| c.is_alphanumeric()).collect();
    letters.sort_unstable();
    letters.dedup();
    letters.len() < 4
}
