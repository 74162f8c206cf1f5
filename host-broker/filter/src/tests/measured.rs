//! Texts that were made to take long.
//!
//! The time is printed and not asserted: the test itself takes noticeably longer if a text takes a thousand times as
//! long. `tests/benches/providers.rs` has the figures of ordinary texts.

use super::*;
use std::time::Instant;

fn timed(name: &str, scrubber: &Scrubber, data: &Value) {
    let bytes = data.to_string().len();
    let mut value = data.clone();
    let start = Instant::now();
    let outcome = redact(&mut value, &mut String::new(), &rules(scrubber));
    println!("{name:<44} {:>9} bytes {:>9.2?} {outcome:?}", bytes, start.elapsed());
}

#[test]
fn hostile_texts_take_no_more_than_a_little_longer() {
    let secret = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    let scrubber = scrubber(&[secret, "aaaaaaaaaaaa", "25252525252525252525"]);
    let size = if cfg!(debug_assertions) { 100_000 } else { 4_000_000 };
    for (name, unit) in [
        ("many partial matches", "a"),
        ("capitals", "A"),
        ("percent signs", "%"),
        ("percent upon percent", "%25"),
        ("backslashes", "\\"),
        ("unicode escapes", "\\u005c"),
        ("half pairs", "\\ud800"),
        ("openings of marks", "<redacted: "),
        ("marks", "<redacted: S1, 8 bytes, #0a1b2c3d>"),
        ("token beginnings", "ghp_"),
        ("key beginnings", "-----BEGIN PRIVATE KEY-----"),
        ("key bodies", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAAAAA\n"),
        ("schemes", "a://b:"),
        ("one long scheme", "a+"),
        ("jwts", "eyJhbGciOi."),
        ("headers", "authorization: bearer "),
        ("quotes", "\""),
        ("references", "&#x61;"),
        ("references of references", "&amp;amp;#"),
        ("escapes of programs", "\\x61\\u{61}\\141"),
        ("quoted-printable", "=61=\n"),
        ("hexadecimal numbers", "61:"),
        ("decimal numbers", "97,"),
        ("words of the list", "glpat-dop_v1_sk_test_hf_r8_secret_access_key="),
        ("nearly of the list", "glpat-aaaaaaaaaaaaaaaaaaa SG.aaaaaaaaaaaaaaaaaaaaaa."),
    ] {
        let text = json!(unit.repeat(size / unit.len()));
        // Some need two bytes for one in JSON, and the bytes over the cap are not looked at.
        let text = if truncation::json_bytes(&text) > RESULT_BYTES_MAX {
            json!(unit.repeat(size / 2 / unit.len()))
        } else {
            text
        };
        timed(name, &scrubber, &text);
    }
    timed("empty strings", &scrubber, &json!(vec![""; size / 4]));
    timed("numbers", &scrubber, &json!(vec![97; size / 4]));
    timed("one letter each", &scrubber, &json!(vec!["a"; size / 4]));
    timed("deep", &scrubber, &(0..31).fold(json!("a".repeat(size / 2)), |inner, _| json!([{"a": inner}])));
    timed("json in json", &scrubber, &json!(format!("[{}1]", "[],".repeat(size / 3))));
}
