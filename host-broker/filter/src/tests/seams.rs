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
pub(super) type Units = Vec<String>;

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
pub(super) fn forms(secret: &str) -> Vec<(&'static str, Units)> {
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

const SHAPES: [Shape; 35] = [
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
    ("two lines with noise between", |a, b| json!(format!("log\n{a}\nnoise\n{b}\nend"))),
    ("ends of lines with noise between", |a, b| json!(format!("1: {a}\nnoise\n{b} :3\nend"))),
    ("lines in another order", |a, b| json!({"n": 1, "text": format!("{b}\r\nnoise\r\nmore\r\n{a}\r\n")})),
    ("two strings of a program", |a, b| json!(format!("['{a}', '{b}']"))),
    ("JSON in a string", |a, b| json!(json!({"a": a, "m": "noise", "z": b}).to_string())),
    ("JSON in content", |a, b| {
        let text = json!([{"t": "1", "line": a}, {"t": "2", "line": b}]).to_string();
        json!({"content": [{"type": "text", "text": text}]})
    }),
    ("lines of JSON", |a, b| json!(format!("{}\n{}\n", json!({"t": "1", "line": a}), json!({"t": "2", "line": b})))),
];

type Scatter = (&'static str, fn(&[String]) -> Value);

/// Documents in which each part stands by itself, with something between the parts.
const SCATTERED: [Scatter; 9] = [
    ("a list with noise", |parts| parts.iter().flat_map(|part| [json!(part), json!("and then"), json!(7)]).collect()),
    ("the other way round", |parts| {
        parts.iter().rev().flat_map(|part| [json!(part), json!(null), json!("noise")]).collect()
    }),
    ("members", |parts| members(parts, |n| format!("m{n}"))),
    ("members in another order", |parts| members(parts, |n| format!("m{}", 9 - n))),
    ("keys", |parts| Value::Object(parts.iter().map(|part| (part.clone(), json!("noise"))).collect())),
    ("items", |parts| parts.iter().map(|part| json!({"t": "10:00", "line": part, "end": "noise"})).collect()),
    ("lists", |parts| json!({"a": parts.iter().map(|part| json!(["x", [part], "y"])).collect::<Vec<_>>()})),
    ("lines of a text", |parts| json!(format!("log\n{}\nend", parts.join("\nnoise\n")))),
    ("content", |parts| {
        let content = |part: &String| json!({"type": "text", "text": part});
        json!({"content": parts.iter().map(content).collect::<Vec<_>>(), "isError": false})
    }),
];

fn members(parts: &[String], name: fn(usize) -> String) -> Value {
    let entries =
        parts.iter().enumerate().flat_map(|(n, part)| [(name(n), json!(part)), (format!("n{n}"), json!("noise"))]);
    Value::Object(entries.collect())
}

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

pub(super) fn fault(document: &Value, telling: &[&str], scrubber: &Scrubber) -> Option<&'static str> {
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

/// Attack (Providers and modules): A provider splits the token over members, items, content, lines
/// of JSON or lines of a text, with anything between.
/// Defence: `filter` finds both parts at the edges of any two pieces or lines.
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

/// Attack (Providers and modules): A provider splits the token into three or more parts, in any
/// order, with anything between.
/// Defence: `filter` finds parts of four bytes and more at the edges of pieces and lines.
#[test]
fn every_form_of_a_secret_is_found_in_three_and_four_parts() {
    let scrubber = scrubber(&SECRETS);
    let (mut tried, mut faults) = (0, Vec::new());
    for (form, units) in SECRETS.into_iter().flat_map(forms) {
        // The first and the last characters of base64 depend on the bytes beside the secret, also of base64 in it.
        let least = if form.contains("base64") { 14 } else { 5 };
        for count in [3, 4].into_iter().filter(|count| units.len() >= count * least) {
            let parts: Vec<&[String]> = units.chunks(units.len().div_ceil(count)).collect();
            let texts: Vec<String> = parts.iter().map(|part| part.concat()).collect();
            let is_telling = |part: &[String]| part.len() * 5 > units.len() && part.len() > 6;
            let telling = parts.iter().zip(&texts).filter(|(part, _)| is_telling(part));
            let telling: Vec<&str> = telling.map(|(_, text)| text.as_str()).collect();
            for (shape, document) in SCATTERED {
                tried += 1;
                if let Some(fault) = fault(&document(&texts), &telling, &scrubber) {
                    faults.push(format!("{fault}: {shape}, {form}, {texts:?}"));
                }
            }
        }
    }
    let shown = faults.iter().step_by(faults.len().div_ceil(25).max(1)).cloned().collect::<Vec<_>>().join("\n");
    assert!(tried > 1_000 && faults.is_empty(), "{} of {tried} leak\n{shown}", faults.len());
}

#[test]
fn parts_of_a_secret_stay_where_one_is_missing() {
    let scrubber = scrubber(&[TOKEN]);
    let (first, rest) = TOKEN.split_at(7);
    let (second, third) = rest.split_at(6);
    for parts in [[first, second, "else"], [first, "else", third], ["else", second, third]] {
        let document = json!({"a": parts[0], "b": "noise", "c": parts[1], "d": [parts[2]]});
        let mut cleaned = document.clone();
        assert_eq!(credentials::scrub(&mut cleaned, &scrubber, Extent::Own), Scrubbed::Untouched, "{parts:?}");
        assert_eq!(cleaned, document);
    }
}

/// Attack (Providers and modules): A provider splits the token over a result and its summary.
/// Defence: `filter` searches both together.
#[test]
fn a_secret_is_found_over_a_result_and_its_line() {
    let scrubber = scrubber(&SECRETS);
    for (form, units) in SECRETS.into_iter().flat_map(forms) {
        for split in [units.len() / 3, units.len() / 2, units.len() * 2 / 3] {
            let (one, two) = units.split_at(split);
            for (shown, part) in [(one, two), (two, one)] {
                let (line, data) = (shown.concat(), json!({"rows": ["noise", {"x": part.concat()}]}));
                let mut summary = line.clone();
                let cleaned = redacted_with(data.clone(), &mut summary, &rules(&scrubber));
                assert_eq!(cleaned.notices, [Notice::Redacted], "{form}: {line} | {data}");
                let is_telling = |part: &[String]| part.len() * 3 > units.len() && part.len() > 6;
                assert!(summary != line || !is_telling(shown), "{form}: {line}");
                assert!(cleaned.data.unwrap() != data || !is_telling(part), "{form}: {data}");
            }
        }
    }
    let (mut summary, data) = ("2 rows".to_owned(), json!(["k7Qz-9fXw2", "other"]));
    let cleaned = redacted_with(data.clone(), &mut summary, &rules(&scrubber));
    assert_eq!((summary.as_str(), cleaned.data), ("2 rows", Ok(data)));
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
