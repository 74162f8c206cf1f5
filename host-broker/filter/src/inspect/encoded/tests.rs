use super::*;
use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

const SAID: &str = "This is a sentence that can be read.";

fn said(text: &str) -> String {
    let (decoded, whole) = decoded(text, &mut Budget::of(text.len()));
    assert!(whole);
    decoded.map(|decoded| decoded.text).unwrap_or_default()
}

#[test]
fn blobs_say_what_they_encode() {
    let hexadecimal = base16ct::lower::encode_string(SAID.as_bytes());
    for blob in [STANDARD.encode(SAID), URL_SAFE_NO_PAD.encode(SAID), hexadecimal.clone(), hexadecimal.to_uppercase()] {
        assert_eq!(said(&format!("see \"{blob}\", and go")), format!("{SAID}\n\n"), "{blob}");
    }
    // Something before it shifts the groups.
    for before in ["x", "xy", "xyz"] {
        assert_eq!(said(&format!("{before}{}", STANDARD.encode(SAID))), format!("{SAID}\n\n"), "{before}");
    }
}

#[test]
fn a_wrapped_blob_is_read_over_its_lines_and_each_line_by_itself() {
    let long = format!("{SAID} {SAID} {SAID} {SAID}");
    for end in ["\n", "\r\n"] {
        let lines: Vec<String> = STANDARD
            .encode(&long)
            .as_bytes()
            .chunks(76)
            .map(|line| String::from_utf8(line.to_vec()).unwrap())
            .collect();
        assert!(said(&lines.join(end)).contains(&long));
    }
    let misled = format!("{}\n{}", "A".repeat(61), STANDARD.encode(SAID));
    assert!(said(&misled).contains(SAID));
}

#[test]
fn encoded_data_that_is_no_text_decodes_to_nothing() {
    let noise: Vec<u8> = (0..300_u32).map(|n| u8::try_from(n * n * 31 % 251).unwrap()).collect();
    for text in [
        &STANDARD.encode(noise),
        "0123456789abcdef0123456789abcdef01234567",
        "/usr/share/doc/some/long/path/to/a/file",
        "SomeVeryLongCamelCaseIdentifierForAFactory",
        "a-long-title-with-hyphens-between-its-words",
    ] {
        assert_eq!(said(text), "", "{text}");
    }
}

#[test]
fn escapes_are_undone_and_the_needless_ones_counted() {
    for (text, needless) in
        [("%69%67n%6Fre", 3), (r"\x69\x67n\u006fre", 3), ("&#105;&#x67;n&#111;re", 3), (r"\u{69}\u{67}n\u{6f}re", 3)]
    {
        assert_eq!(unescaped(text), Some(Unescaped { text: "ignore".to_owned(), needless }), "{text}");
    }
    let spaces = unescaped("a%20b%20c%20d");
    assert_eq!(spaces, Some(Unescaped { text: "a b c d".to_owned(), needless: 0 }));
    assert_eq!(unescaped("100% of \\u & 50%!"), None);
    assert_eq!(unescaped("é%é\\é&é%4\u{1F600}"), None);
}

#[test]
fn the_budget_ends_a_flood() {
    let blob = STANDARD.encode(SAID);
    let (decoded, whole) = decoded(&format!("{blob} {blob}"), &mut Budget { left: SAID.len() });
    assert_eq!((decoded.unwrap().text, whole), (format!("{SAID}\n\n"), false));
}
