use super::*;
use secrets::Secrets;
use secrets::search::mark::{Stamp, marks_of};
use secrets::source::{CommandOutput, Output, SecretSource};
use serde_json::json;
use std::collections::BTreeMap;

mod attacks;
mod measured;
mod placements;
mod scattered;
mod seams;
mod search;

pub(super) const TOKEN: &str = "k7Qz-9fXw2LmP4vRt8Yb";

struct NoCommands;

impl CommandOutput for NoCommands {
    fn output<'a>(&'a self, _command: &'a [String]) -> Output<'a> {
        Box::pin(async { Err("there are none".to_owned()) })
    }
}

/// A scrubber for these secrets, named `S0`, `S1`, ….
pub(super) fn scrubber(secrets: &[&str]) -> Scrubber {
    let named = || secrets.iter().enumerate().map(|(n, text)| (format!("S{n}"), (*text).to_owned()));
    let sources: BTreeMap<String, SecretSource> =
        named().map(|(name, _)| (name.clone(), SecretSource::Env { env: name })).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let loaded = runtime.block_on(Secrets::load(&sources, &named().collect(), &NoCommands));
    assert_eq!(loaded.faults().count(), 0);
    Scrubber::new(&loaded, Stamp::new([9; 32])).unwrap()
}

fn rules(scrubber: &Scrubber) -> Rules<'_> {
    Rules { scrubber, output_schema: None, strictness: Strictness::Ordinary }
}

#[test]
fn a_clean_result_passes_unchanged() {
    let data = json!({"a": [1, 2.5, null, true, "text"], "b": {"nested": "…"}, "": ""});
    let cleaned = clean(data.clone(), &rules(&scrubber(&[TOKEN])));
    assert_eq!(cleaned, Cleaned { data: Ok(data), notices: vec![] });
}

#[test]
fn every_form_of_a_secret_gets_the_same_mark() {
    let scrubber = scrubber(&[TOKEN]);
    let expected = clean_text(TOKEN, 500, &scrubber);
    assert!(expected.starts_with("<redacted: S0, 20 bytes, #"), "{expected}");
    let reversed: String = TOKEN.chars().rev().collect();
    for text in [TOKEN.to_uppercase(), base16ct::upper::encode_string(TOKEN.as_bytes()), reversed] {
        assert_eq!(clean_text(&text, 500, &scrubber), expected);
    }
}

#[test]
fn a_secret_is_found_in_keys_numbers_and_over_members() {
    let scrubber = scrubber(&[TOKEN, "123456789012"]);
    let (one, two) = TOKEN.split_at(7);
    for data in [
        json!({TOKEN: 1}),
        json!([[one], {"x": two}]),
        json!({"a": one, "b": two}),
        json!({one: {two: 1}}),
        json!({one: two}),
        json!([{"n": 1, "t": "10:00", "line": one}, {"n": 2, "t": "10:01", "line": two}]),
        json!([123_456_789_012_i64]),
        json!([[12_345_678], [9012]]),
        json!(["1234", 56_789_012]),
    ] {
        let cleaned = clean(data, &rules(&scrubber));
        let text = cleaned.data.unwrap().to_string();
        for part in [TOKEN, one, two, "12345678", "9012"] {
            assert!(!text.contains(part), "{text}");
        }
        assert_eq!(cleaned.notices, [Notice::Redacted]);
    }
}

#[test]
fn keys_that_become_the_same_keep_their_members() {
    let cleaned = clean(json!({TOKEN: 1, TOKEN.to_uppercase(): 2}), &rules(&scrubber(&[TOKEN])));
    assert_eq!(cleaned.data.unwrap().as_object().unwrap().len(), 2);
}

#[test]
fn a_wrapped_secret_leaves_no_half() {
    let scrubber = scrubber(&[TOKEN]);
    let (one, two) = TOKEN.split_at(9);
    let text = clean_text(&format!("{one}{TOKEN}{two}"), 500, &scrubber);
    assert!(!text.contains(one) && !text.contains(two), "{text}");
    let mut russian_doll = TOKEN.to_owned();
    for _ in 0..20 {
        russian_doll = format!("{one}{russian_doll}{two}");
    }
    assert_eq!(clean(json!([russian_doll]), &rules(&scrubber)).data, Err(Withheld::Hopeless));
    assert!(clean_text(&russian_doll, 500, &scrubber).contains("not shown"));
}

#[test]
fn overlapping_secrets_are_taken_out_together() {
    let scrubber = scrubber(&["abcdefghijkl", "ijklmnopqrst"]);
    let text = clean_text("1 abcdefghijklmnopqrst 2", 500, &scrubber);
    assert!(text.starts_with("1 <redacted: S0, 12 bytes, #") && text.ends_with("> 2"), "{text}");
    assert_eq!(text.matches("redacted").count(), 1);
}

#[test]
fn a_result_that_breaks_its_promise_is_withheld() {
    let scrubber = scrubber(&[]);
    let schema = jsonschema::validator_for(&json!({"type": "object"})).unwrap();
    let strict = Rules { output_schema: Some(&schema), ..rules(&scrubber) };
    assert!(clean(json!({}), &strict).data.is_ok());
    let deep = (0..64).fold(json!(1), |inner, _| json!([inner]));
    for (data, why) in [
        (json!([]), Withheld::Schema),
        (deep, Withheld::TooDeep),
        (json!({"x": "x".repeat(RESULT_BYTES_MAX)}), Withheld::TooLarge),
    ] {
        assert_eq!(clean(data, &strict), Cleaned { data: Err(why), notices: vec![Notice::Withheld] });
    }
}

#[test]
fn a_credential_key_withholds_the_result_of_a_namespaced_capability() {
    let scrubber = scrubber(&[]);
    let namespaced = Rules { strictness: Strictness::Namespaced, ..rules(&scrubber) };
    let data = || json!({"items": [{"accessToken": "x"}]});
    assert_eq!(clean(data(), &namespaced).data, Err(Withheld::CredentialKey));
    let cleaned = clean(data(), &rules(&scrubber));
    assert!(marks_of(cleaned.data.unwrap()["items"][0]["accessToken"].as_str().unwrap()).next().is_some());
    assert_eq!(cleaned.notices, [Notice::Redacted]);
}

#[test]
fn file_contents_are_searched_only_for_the_brokers_own_secrets() {
    let scrubber = scrubber(&[TOKEN]);
    let own = Rules { strictness: Strictness::OwnSecrets, ..rules(&scrubber) };
    let data = json!({"content": "postgres://u:hunter2@h", "password": "x"});
    assert_eq!(clean(data.clone(), &own), Cleaned { data: Ok(data), notices: vec![] });
    assert_eq!(clean(json!(TOKEN), &own).notices, [Notice::Redacted]);
}

#[test]
fn a_text_of_json_stays_as_it_is_around_an_own_secret() {
    let scrubber = scrubber(&[TOKEN]);
    let escaped = TOKEN.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat();
    for (before, after) in [
        ("{\n  \"id\": 12345678901234567890123, \"f\": 1.10, \"b\":\"", "\", \"a\" :\"\\u0061\"}\n"),
        ("{\"z\":1.0, \"a\":\"", "\"}\r\n\n{\"z\": 2.00}"),
    ] {
        for secret in [TOKEN, &escaped] {
            let cleaned = clean(json!(format!("{before}{secret}{after}")), &rules(&scrubber)).data.unwrap();
            let text = cleaned.as_str().unwrap();
            let mark = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).unwrap_or(text);
            assert!(marks_of(mark).next() == Some(mark), "{text}");
        }
    }
}

#[test]
fn a_long_result_is_cut_after_it_was_searched() {
    let scrubber = scrubber(&[TOKEN]);
    // The secret lies across the cut.
    let data = json!(format!("{}{TOKEN}{}", "x".repeat(DATA_BYTES_MAX - 50), "y".repeat(1000)));
    let cleaned = clean(data, &rules(&scrubber));
    let text = cleaned.data.unwrap().to_string();
    assert!(text.len() <= DATA_BYTES_MAX && !text.contains(TOKEN.split_at(4).0), "cut in two");
    assert_eq!(cleaned.notices, [Notice::Redacted, Notice::Truncated]);
}

#[test]
fn a_private_key_in_the_lines_of_a_log_is_found() {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let lines = ["-----BEGIN PRIVATE KEY-----", line, line, "-----END PRIVATE KEY-----", "done"];
    let entries: Vec<Value> = lines.iter().enumerate().map(|(n, text)| json!({"n": n, "text": text})).collect();
    let text = clean(json!(entries), &rules(&scrubber(&[]))).data.unwrap().to_string();
    assert!(!text.contains(line) && text.contains("done"), "{text}");
}

#[test]
fn a_message_becomes_one_visible_line_of_bounded_length() {
    let scrubber = scrubber(&[TOKEN]);
    let clean_text = |text: &str, limit| clean_text(text, limit, &scrubber);
    assert_eq!(clean_text("  a\r\n\tb\u{1b}[31m \u{202e}c\u{200b}d\u{0} ", 100), "a b [31m cd");
    assert_eq!(clean_text("é".repeat(50).as_str(), 10), "ééé…");
    assert_eq!(clean_text("", 10), "");
    assert!(clean_text(&TOKEN.replace('z', "z\u{200b}"), 100).starts_with("<redacted: S0"));
    assert!(clean_text(&"x".repeat(RESULT_BYTES_MAX + 1), 100).contains("not shown"));
    let half = format!("{} {TOKEN}", "x".repeat(80));
    assert!(!clean_text(&half, 95).contains("k7Qz"));
}
