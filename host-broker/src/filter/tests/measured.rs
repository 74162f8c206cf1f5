//! Figures: how long the filter takes, and what it takes out of texts that hold no secret.
//!
//! Neither is asserted tightly; run with `--release -- --ignored --nocapture` to read them.

use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn prose(bytes: usize) -> String {
    let line =
        "2026-02-14T10:00:01.123Z INFO request id=46c2e58a method=GET path=\"/v1/items?limit=20%2C30\" took 12ms\n";
    line.repeat(bytes / line.len() + 1).chars().take(bytes).collect()
}

fn twenty_secrets() -> Vec<String> {
    (0..20).map(|n| format!("{n:02}zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ2qRt{n:02}")).collect()
}

fn timed(name: &str, scrubber: &Scrubber, data: &Value) {
    let bytes = data.to_string().len();
    let mut value = data.clone();
    let start = Instant::now();
    let outcome = redact(&mut value, &rules(scrubber));
    println!("{name:<44} {:>9} bytes {:>9.2?} {outcome:?}", bytes, start.elapsed());
}

#[test]
#[ignore = "prints figures"]
fn speed() {
    let secrets = twenty_secrets();
    let scrubber = scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    let start = Instant::now();
    drop(self::scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>()));
    println!("a scrubber for 20 secrets is built in {:.2?}", start.elapsed());
    for bytes in [128 * 1024, 4_000_000] {
        let text = prose(bytes);
        let lines: Vec<Value> = text.lines().map(|l| json!({"time": "10:00", "level": "info", "text": l})).collect();
        for _ in 0..2 {
            timed("one string", &scrubber, &json!(text));
        }
        timed("log entries", &scrubber, &json!(lines.iter().take(bytes / 150).collect::<Vec<_>>()));
        timed("one secret in it", &scrubber, &json!(format!("{text}{}", secrets[3])));
    }
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
    ] {
        let text = json!(unit.repeat(size / unit.len()));
        // Some need two bytes for one in JSON, and what is over the cap is not looked at.
        let text =
            if cut::json_bytes(&text) > RESULT_BYTES_MAX { json!(unit.repeat(size / 2 / unit.len())) } else { text };
        timed(name, &scrubber, &text);
    }
    timed("empty strings", &scrubber, &json!(vec![""; size / 4]));
    timed("one letter each", &scrubber, &json!(vec!["a"; size / 4]));
    timed("deep", &scrubber, &(0..31).fold(json!("a".repeat(size / 2)), |inner, _| json!([{"a": inner}])));
    timed("json in json", &scrubber, &json!(format!("[{}1]", "[],".repeat(size / 3))));
}

fn texts_under(path: &Path, bytes_max: u64, texts: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => texts_under(&entry.path(), bytes_max, texts),
            Ok(kind) if kind.is_file() && entry.metadata().is_ok_and(|m| m.len() <= bytes_max) => {
                texts.push(entry.path());
            }
            _ => {}
        }
    }
}

#[test]
#[ignore = "reads the machine's documentation and sources, and prints figures"]
fn false_redactions_in_real_texts() {
    let secrets = twenty_secrets();
    let scrubber = scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    let home = std::env::home_dir().unwrap();
    for root in ["/usr/share/doc".into(), "/usr/include".into(), home.join(".cargo/registry/src")] {
        let mut paths = Vec::new();
        texts_under(&root, 1_000_000, &mut paths);
        paths.sort();
        let (mut files, mut bytes, mut touched, mut own) = (0u32, 0usize, 0u32, 0u32);
        for path in paths {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            files += 1;
            bytes += text.len();
            own += u32::from(!scrubber.find(&text).is_empty());
            let found = values::find(&text, scrubber.stamp());
            touched += u32::from(!found.is_empty());
            for place in found.iter().take(4) {
                let kind = place.mark.split(',').next().unwrap();
                let shown: String = text.get(place.range.clone()).unwrap().chars().take(60).collect();
                println!("  {} {kind}: {shown:?}", path.display());
            }
        }
        println!("{}: {files} files, {bytes} bytes, {touched} with a redaction, {own} by own secrets", root.display());
    }
}
