//! Every listed form of a secret, split at every kind of seam, in documents of every shape.
//!
//! Each document holds two parts of a form. The longer part must be in no text of the cleaned document. Neither may the
//! shorter one, if it is a third of the form.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

const SECRETS: [&str; 6] = [
    TOKEN,
    "Xk29-vQm",
    "correct horse battery staple",
    "пароль-ключ-😀-секрет",
    "deadbeef0123456789abcdef00112233",
    "a&b<c>d=e;f(g)h#i",
];

/// The units of a form, between which it may be split. A unit is one character's or one byte's.
type Units = Vec<String>;

fn bytes(text: &str, write: impl Fn(u8) -> String) -> Units {
    text.bytes().map(write).collect()
}

fn chars(text: &str) -> Units {
    text.chars().map(String::from).collect()
}

fn listed(units: Units, separator: &str) -> Units {
    let last = units.len().saturating_sub(1);
    units.into_iter().enumerate().map(|(n, unit)| if n == last { unit } else { unit + separator }).collect()
}

/// Every form of the closed list.
fn forms(secret: &str) -> Vec<(&'static str, Units)> {
    let wide: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let hex = |separator: &str| listed(bytes(secret, |b| format!("{b:02x}")), separator);
    vec![
        ("plain", chars(secret)),
        ("capitals", chars(&secret.to_uppercase())),
        ("small letters", chars(&secret.to_lowercase())),
        ("backwards", secret.chars().rev().map(String::from).collect()),
        ("base64", chars(&STANDARD.encode(secret))),
        ("base64, shifted", chars(&STANDARD.encode(format!("x{secret}yz")))),
        ("base64url", chars(&URL_SAFE_NO_PAD.encode(secret))),
        ("base64 backwards", STANDARD.encode(secret).chars().rev().map(String::from).collect()),
        ("twice base64", chars(&STANDARD.encode(STANDARD.encode(format!("user:{secret}"))))),
        ("base64 of UTF-16", chars(&STANDARD.encode(&wide))),
        ("hexadecimal", chars(&base16ct::lower::encode_string(secret.as_bytes()))),
        ("hexadecimal in capitals", chars(&base16ct::upper::encode_string(secret.as_bytes()))),
        ("hexadecimal of UTF-16", chars(&base16ct::lower::encode_string(&wide))),
        ("percent", bytes(secret, |b| format!("%{b:02X}"))),
        ("unicode escapes", secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()),
        ("references", secret.chars().map(|c| format!("&#x{:x};", u32::from(c))).collect()),
        ("escapes of a program", bytes(secret, |b| format!("\\x{b:02x}"))),
        ("octal escapes", bytes(secret, |b| format!("\\{b:03o}"))),
        ("quoted-printable", bytes(secret, |b| format!("={b:02X}"))),
        ("hexadecimal with spaces", hex(" ")),
        ("hexadecimal with colons", hex(":")),
        ("hexadecimal with hyphens", hex("-")),
        ("hexadecimal of a program", listed(bytes(secret, |b| format!("0x{b:02x}")), ", ")),
        ("hexadecimal of a program in capitals", listed(bytes(secret, |b| format!("0x{b:02X}")), ",")),
        ("decimal", listed(bytes(secret, |b| b.to_string()), ", ")),
        ("decimal with spaces", listed(bytes(secret, |b| b.to_string()), " ")),
        ("decimal in three digits", listed(bytes(secret, |b| format!("{b:03}")), " ")),
    ]
}

type Shape = (&'static str, fn(&str, &str) -> Value);

const SHAPES: [Shape; 32] = [
    ("a list", |a, b| json!([a, b])),
    ("a list with neighbours", |a, b| json!(["key", a, b, "end"])),
    ("a list with numbers beside it", |a, b| json!(["12", a, b, 34])),
    ("one string with neighbours", |a, b| json!(["key", format!("{a}{b}"), "end"])),
    ("one string in words", |a, b| json!({"k": "v", "text": format!("the key is {a}{b} as you know")})),
    ("one string under its key", |a, b| json!({"abc": format!("{a}{b}"), "def": "0"})),
    ("two lists", |a, b| json!([[a], [b]])),
    ("the rows of a table", |a, b| json!([["10:00", a], ["10:01", b]])),
    ("a list with nothing between", |a, b| json!([a, null, true, b])),
    ("a list with a number between", |a, b| json!([a, 7, b])),
    ("a list with a text between", |a, b| json!([a, "and then", b])),
    ("members", |a, b| json!({"a": a, "b": b})),
    ("members with others between", |a, b| json!({"a": a, "m": "noise", "n": 5, "z": b})),
    ("members in another order", |a, b| json!({"z": a, "a": b})),
    ("members of two objects", |a, b| json!({"x": {"p": a, "q": "q"}, "y": {"p": "p", "q": b}})),
    ("the same member of items", |a, b| json!([{"t": "10:00", "line": a}, {"t": "10:01", "line": b}])),
    ("other members of items", |a, b| json!([{"t": "10:00", "one": a}, {"t": "10:01", "two": b}])),
    ("lists of the same member", |a, b| json!([{"l": ["x", a]}, {"l": ["y", b]}])),
    ("keys", |a, b| json!({a: 1, b: 2})),
    ("keys with values", |a, b| json!({a: "x", b: "y"})),
    ("a key and its value", |a, b| json!({a: b})),
    ("a key in a key", |a, b| json!({a: {b: 1}})),
    ("a value and a later key", |a, b| json!({"k": a, "z": {b: 1}})),
    ("two pieces of content", |a, b| json!({"content": [{"type": "text", "text": a}, {"type": "text", "text": b}]})),
    (
        "content and structured content",
        |a, b| json!({"content": [{"type": "text", "text": a}], "isError": false, "structuredContent": {"rest": b}}),
    ),
    ("content and a resource", |a, b| {
        let resource = json!({"type": "resource", "resource": {"uri": "file:///x", "text": b}});
        json!({"content": [{"type": "text", "text": a}, resource]})
    }),
    ("far apart", |a, b| json!({"first": [a], "between": vec!["some line"; 50], "last": {"x": {"y": [b]}}})),
    ("two lines of a text", |a, b| json!(format!("log\n{a}\n{b}\nend"))),
    ("two strings of a program", |a, b| json!(format!("['{a}', '{b}']"))),
    ("JSON in a string", |a, b| json!(json!({"a": a, "m": "noise", "z": b}).to_string())),
    ("JSON in content", |a, b| {
        let text = json!([{"t": "1", "line": a}, {"t": "2", "line": b}]).to_string();
        json!({"content": [{"type": "text", "text": text}]})
    }),
    ("lines of JSON", |a, b| json!(format!("{}\n{}\n", json!({"t": "1", "line": a}), json!({"t": "2", "line": b})))),
];

fn texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| self::texts(item, texts)),
        Value::Object(entries) => entries.iter().for_each(|(key, item)| {
            texts.push(key);
            self::texts(item, texts);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn fault(document: &Value, telling: &[&str], scrubber: &Scrubber) -> Option<&'static str> {
    let mut cleaned = document.clone();
    if credentials::scrub(&mut cleaned, scrubber, Extent::Own) != Scrubbed::Redacted {
        return Some("not found");
    }
    let mut left = Vec::new();
    texts(&cleaned, &mut left);
    if telling.iter().any(|part| left.iter().any(|text| text.contains(part))) {
        return Some("a part is left");
    }
    let again = credentials::scrub(&mut cleaned, scrubber, Extent::Own);
    (again != Scrubbed::Untouched).then_some("found again")
}

#[test]
fn every_form_of_a_secret_is_found_at_every_seam_of_every_shape() {
    let scrubber = scrubber(&SECRETS);
    let (mut tried, mut faults) = (0, Vec::new());
    for (form, units) in SECRETS.into_iter().flat_map(forms) {
        let mut splits = vec![1, units.len() / 4, units.len() / 2, units.len() * 2 / 3, units.len() - 1];
        splits.dedup();
        for (shape, document) in SHAPES {
            for split in &splits {
                let parts = units.split_at(*split);
                let (a, b) = (parts.0.concat(), parts.1.concat());
                let is_telling = |part: &[String]| part.len() * 3 > units.len() && part.len() > 6;
                let telling = [(parts.0, &a), (parts.1, &b)].into_iter().filter(|(part, _)| is_telling(part));
                let telling: Vec<&str> = telling.map(|(_, text)| text.as_str()).collect();
                tried += 1;
                if let Some(fault) = fault(&document(&a, &b), &telling, &scrubber) {
                    faults.push(format!("{fault}: {shape}, {form}, {a:?} | {b:?}"));
                }
            }
        }
    }
    let shown = faults.iter().step_by(faults.len().div_ceil(25).max(1)).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {tried} leak\n{shown}", faults.len());
}

#[test]
fn a_part_of_a_secret_without_the_rest_stays() {
    let scrubber = scrubber(&["postgres1234", "hunter22-and-more"]);
    let document = json!(["we use postgres", "and", {"gres": "123", "x": "hunter22"}, "-and-some", "post"]);
    let mut cleaned = document.clone();
    assert_eq!(credentials::scrub(&mut cleaned, &scrubber, Extent::Own), Scrubbed::Untouched);
    assert_eq!(cleaned, document);
}

#[test]
fn a_line_of_a_secret_of_several_lines_is_found_behind_anything() {
    let secret = "-----BEGIN X-----\nQmFzZTY0IGRhdGEgaGVyZSBhbmQ\nc29tZSBtb3JlIG9mIGl0IHRoZXJl\n-----END X-----";
    let scrubber = scrubber(&[secret]);
    for before in ["+", "> ", " 12 | ", "# ", "[log] "] {
        let lines: Vec<String> = secret.lines().map(|line| format!("{before}{line}")).collect();
        let shown = clean_text(&lines.join("\n"), 1000, &scrubber);
        assert!(!shown.contains("QmFzZTY0") && !shown.contains("c29tZSBt"), "{shown}");
    }
}
