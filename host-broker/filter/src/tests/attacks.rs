//! Likely writings of a secret, one by one.
//!
//! Those of the closed list must be found. The ones that the list excludes are shown to pass, so that the list stays
//! honest.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

const SECRETS: [&str; 4] = [TOKEN, "correct horse battery staple", "ключ-😀-секрет", "a&b<c>\"d\"=e\\f%20g"];

fn each(text: &str, write: impl Fn(u8) -> String) -> Vec<String> {
    text.bytes().map(write).collect()
}

fn half(text: &str, write: impl Fn(char) -> String) -> String {
    let one = |(n, c): (usize, char)| if n % 2 == 0 { write(c) } else { c.to_string() };
    text.chars().enumerate().map(one).collect()
}

/// Every writing of the list that no other test has, and its name.
fn writings(secret: &str) -> Vec<(&'static str, Value)> {
    let hex = |separator: &str| json!(format!("key {} end", each(secret, |b| format!("{b:02x}")).join(separator)));
    let document = json!({"auth": {"value": secret, "n": 1}}).to_string();
    let basic = format!("user:{secret}");
    let wide: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mime: Vec<String> = STANDARD
        .encode(format!("{}{secret}{}", "x".repeat(50), "y".repeat(90)))
        .as_bytes()
        .chunks(76)
        .map(|line| String::from_utf8(line.to_vec()).unwrap())
        .collect();
    let quoted = |b: u8| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("={b:02X}") };
    let soft: Vec<String> = each(secret, quoted).chunks(5).map(<[String]>::concat).collect();
    vec![
        ("base64url in JSON in a string", json!(json!({"t": [URL_SAFE_NO_PAD.encode(&basic)]}).to_string())),
        ("twice base64", json!(STANDARD.encode(STANDARD.encode(&basic)))),
        ("twice base64url, shifted", json!(URL_SAFE_NO_PAD.encode(format!("ab{}c", URL_SAFE_NO_PAD.encode(secret))))),
        ("base64 of UTF-16", json!(STANDARD.encode(&wide))),
        ("hexadecimal of UTF-16", json!(base16ct::lower::encode_string(&wide))),
        ("UTF-16 with its zeros", json!(secret.chars().flat_map(|c| [c, '\0']).collect::<String>())),
        ("base64 in lines of 76", json!(mime.join("\r\n"))),
        ("base64 in a list of lines", json!(mime)),
        ("hexadecimal with colons", hex(":")),
        ("hexadecimal with spaces", hex(" ")),
        ("hexadecimal as a program writes it", hex(", 0x")),
        ("escapes of a program", json!(each(secret, |b| format!("\\x{b:02x}")).concat())),
        ("octal escapes", json!(each(secret, |b| format!("\\{b:03o}")).concat())),
        ("escapes of JavaScript", json!(half(secret, |c| format!("\\u{{{:x}}}", u32::from(c))))),
        ("references", json!(half(secret, |c| format!("&#x{:x};", u32::from(c))))),
        (
            "decimal references",
            json!(secret.chars().map(|c| format!("&#{};", u32::from(c))).collect::<Vec<_>>().concat()),
        ),
        ("HTML", json!(secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"))),
        ("HTML in HTML", json!(half(secret, |c| format!("&amp;#{};", u32::from(c))))),
        ("quoted-printable", json!(soft.join("=\r\n"))),
        ("a buffer of JSON", json!({"type": "Buffer", "data": secret.bytes().collect::<Vec<_>>()})),
        ("a list of bytes as text", json!(format!("{:?}", secret.as_bytes()))),
        ("a document in a document in a document", json!(json!(json!(document).to_string()).to_string())),
        ("parts of a list", json!(secret.chars().map(String::from).collect::<Vec<_>>())),
    ]
}

#[test]
fn every_writing_of_the_list_is_found_and_nothing_is_found_twice() {
    let scrubber = scrubber(&SECRETS);
    for secret in SECRETS {
        for (name, document) in writings(secret) {
            let mut cleaned = document.clone();
            let outcome = credentials::scrub(&mut cleaned, &scrubber, Extent::Own);
            assert_eq!(outcome, Scrubbed::Redacted, "{name} of {secret}: {document}");
            let mut again = cleaned.clone();
            assert_eq!(credentials::scrub(&mut again, &scrubber, Extent::Own), Scrubbed::Untouched, "{name}");
            let left = cleaned.to_string();
            assert!(left.len() < document.to_string().len() + 4096, "{name}: {left}");
        }
    }
}

#[test]
fn encodings_documented_as_out_of_scope_are_not_found() {
    let scrubber = scrubber(&[TOKEN]);
    let rot13 = |c: char| match c {
        'a'..='m' | 'A'..='M' => char::from(u8::try_from(c).unwrap() + 13),
        'n'..='z' | 'N'..='Z' => char::from(u8::try_from(c).unwrap() - 13),
        other => other,
    };
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, TOKEN.as_bytes()).unwrap();
    for (name, text) in [
        ("rot13", TOKEN.chars().map(rot13).collect::<String>()),
        ("packed", STANDARD.encode(packed.finish().unwrap())),
        ("three times base64", STANDARD_NO_PAD.encode(STANDARD_NO_PAD.encode(STANDARD_NO_PAD.encode(TOKEN)))),
    ] {
        assert_eq!(credentials::scrub(&mut json!(text), &scrubber, Extent::Own), Scrubbed::Untouched, "{name}");
    }
}
