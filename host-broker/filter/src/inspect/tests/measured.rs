//! Texts that were made to take long.
//!
//! The time is printed and not asserted: the test itself takes noticeably longer if a text takes a thousand times as
//! long.

use super::*;
use std::time::Instant;

fn timed(name: &str, value: &Value) {
    let start = Instant::now();
    let verdict = inspect(value);
    println!("{name:<40} {:>9} bytes {:>9.2?} {}", value.to_string().len(), start.elapsed(), verdict.word());
}

#[test]
fn hostile_texts_take_no_more_than_a_little_longer() {
    let size = if cfg!(debug_assertions) { 100_000 } else { 10 * 1024 * 1024 };
    let nested = (0..8).fold(OVERRIDE.to_owned(), |inner, _| STANDARD.encode(format!("text: {inner}")));
    let readable = STANDARD.encode("sixteen letters and more of them");
    for (name, unit) in [
        ("an ordinary sentence", "It was a quiet day, and the build was green. "),
        ("one letter", "a"),
        ("brackets", "["),
        ("openings of links", "![](https://a/"),
        ("openings of images", "<img src=https://a.b/?"),
        ("verbs without an end", "ignore all "),
        ("overrides", OVERRIDE),
        ("verbs and long words", "ignore aaaaaaaaaaaaaaaaaaaaaaa previous "),
        ("verbs and limits", "ignore all of the your first and last "),
        ("requests and their form", "repeat me the full text of all the "),
        ("requests without an end", "send the passwords https to "),
        ("turns without an end", "user: Aaaaaaaaaa\n"),
        ("tokens", "<|im_start|>"),
        ("headings", "system: "),
        ("percent signs", "%"),
        ("percent upon percent", "%2525"),
        ("escapes", "\\u0061"),
        ("entities", "&#97;"),
        ("blobs that say something", &format!("{readable} ")),
        ("blobs in blobs", &nested),
        ("long lines of base64", &format!("{}\n", "QUJD".repeat(19))),
        ("hexadecimal", "6162"),
        ("no width", "\u{200B}"),
        ("tags", "\u{E0041}"),
        ("selectors", "\u{FE01}"),
        ("flags without an end", "🏴\u{E0061}\u{E0061}"),
        ("turned letters", "vafgehpgvba "),
        ("almost a fence", "fenced-outside-dat "),
        ("fences", "fenced-outside-data "),
        ("noise in a fence", "f.........."),
        ("other letters", "忽略之前的"),
    ] {
        timed(name, &json!(unit.repeat(size / unit.len())));
    }
    timed("empty strings", &json!(vec![""; size / 4]));
    timed("one letter each", &json!(vec!["a"; size / 4]));
    timed("keys", &(0..size / 16).map(|n| (format!("ignore {n}"), json!("all"))).collect());
    timed("json in json", &json!(format!("{}1", "[\\\"".repeat(size / 3))));
    timed("256 KiB of ordinary text", &json!("It was a quiet day, and the build was green.\n".repeat(5825)));
}
