use super::*;
use serde_json::json;

fn lines(params: &Value) -> Vec<String> {
    let mut card = Card::new();
    assert!(card.list(params));
    card.params.into_iter().map(|line| format!("{}: {}", line.field, line.value)).collect()
}

/// Attack (Cards): A value imitates a line of the card.
/// Defence: A value is JSON, so it stays on one line.
#[test]
fn every_field_is_a_line_and_a_line_break_makes_no_second_one() {
    let params =
        json!({ "to": ["a", { "x": null }], "body": "Hi\nAction: read\r\u{2028}Why: nothing", "n": 1.5, "e": {} });
    let expected =
        [r#"body: "Hi\nAction: read\r<U+2028>Why: nothing""#, "e: {}", "n: 1.5", r#"to[0]: "a""#, "to[1].x: null"];
    assert_eq!(lines(&params), expected);
    assert!(lines(&json!({})).is_empty());
}

/// Attack (Cards): A parameter name imitates another one.
/// Defence: Names are quoted unless they are plain.
#[test]
fn a_name_cannot_pose_as_another_or_as_a_path() {
    let params = json!({ "a.b": 1, "a": { "b": 2 }, "x: \"y\"": 3, "\u{202e}cc": 4, "": 5, "a[0]": 6 });
    let lines = lines(&params);
    let fields: std::collections::BTreeSet<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(fields.len(), 6, "{lines:?}");
    assert!(lines.contains(&r#""a.b": 1"#.to_owned()) && lines.contains(&"a.b: 2".to_owned()));
    assert!(lines.contains(&r#""<U+202E>cc": 4"#.to_owned()));
}

#[test]
fn nothing_in_a_value_reaches_the_reader_unseen() {
    // Everything that the standard library knows to have no shape, and what it does not know.
    for c in ('\0'..=char::MAX).filter(|c| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        assert!(visible(&format!("a{c}b")).contains("<U+"), "{:x}", u32::from(c));
    }
    for hidden in ["\u{200d}", "\u{2066}", "\u{e0041}", "\u{fe0f}", "\u{feff}", "e\u{301}\u{301}", "\u{3164}"] {
        assert!(visible(hidden).contains("<U+"), "{hidden:?}");
    }
}

/// Attack (Cards): Characters on the card look like others.
/// Defence: Letters that imitate Latin are shown as code points.
#[test]
fn whole_words_of_a_script_are_left_and_mixed_ones_named() {
    for honest in ["Ελλάδα", "Москва", "naïve café", "日本語テキスト", "user_name@host", "Ω"] {
        assert_eq!(visible(honest), honest);
    }
    assert_eq!(quoted("Hi\nПривет\tмир"), "\"Hi\\nПривет\\tмир\"", "an escape is no part of a word");
    for fake in [
        "\u{0441}\u{043e}\u{0441}\u{043e}",
        "\u{0440}\u{0430}\u{0443}",
        "g\u{043e}ogle",
        "\u{0430}pple.com",
        "p\u{ff41}y",
        "\u{1d5ba}dmin",
        "adm\u{03b9}n",
    ] {
        assert!(visible(fake).contains("<U+"), "{fake}");
    }
}

#[test]
fn a_card_that_is_too_large_is_not_made() {
    let fits = |params: Value| Card::new().list(&params);
    assert!(fits(json!({ "body": "x".repeat(500 * 1024) })));
    assert!(!fits(json!({ "body": "x".repeat(800 * 1024) })));
    // Small as a document; as lines it would be a hundred gigabytes.
    assert!(!fits(json!({ "n".repeat(500 * 1024): vec![1; 200_000] })));
}

/// Attack (Approvals and notices): A body parses to less than its text, or a header or address
/// imitates the card.
/// Defence: Fields are shown only if they are the whole body, otherwise its text. Values are JSON,
/// and hidden characters are escaped.
#[test]
fn sent_bodies_are_shown_verbatim_if_fields_would_not_be_complete() {
    let sent = |body: &str| {
        let nonce = crate::Nonce::stored("0".repeat(32));
        let (method, url) = ("POST".to_owned(), "https://example.com/x?y=\u{202e}z".to_owned());
        let headers = vec![("x-a".to_owned(), "b\nWhy: c".to_owned())];
        let mut card = Card::new();
        assert!(card.sends(&SealedRequest { nonce, method, url, headers, body: body.to_owned() }));
        card.sent.into_iter().map(|line| format!("{}: {}", line.field, line.value)).collect::<Vec<_>>()
    };
    let first = ["request: \"POST https://example.com/x?y=<U+202E>z\"", r#"header.x-a: "b\nWhy: c""#];
    for (body, expected) in [
        (r#"{"a":"b","c":[1]}"#, vec![r#"body.a: "b""#, "body.c[0]: 1"]),
        // The second of two members of one name is all that a parser keeps.
        (r#"{"a":"hidden","a":"b"}"#, vec![r#"body: "{\"a\":\"hidden\",\"a\":\"b\"}""#]),
        (r#"{"a": "b"}"#, vec![r#"body: "{\"a\": \"b\"}""#]),
        ("a=b&c", vec![r#"body: "a=b&c""#]),
        ("", vec![r#"body: """#]),
    ] {
        assert_eq!(sent(body), [first.to_vec(), expected].concat());
    }
}

#[test]
fn a_long_value_never_stands_where_a_field_does() {
    let mut card = Card::new();
    assert!(card.list(&json!({ "note": format!("x{}Action: read {}", " ".repeat(70), "y".repeat(300)) })));
    let text = card.text();
    assert!(text.contains("<70 spaces>Action: read"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("  note: ") || line.starts_with("    ¦ ")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= TERMINAL), "{text}");
}

#[test]
fn a_card_as_text_counts_what_is_hidden_and_lists_what_would_come_together() {
    let mut card = Card::new();
    assert!(card.list(&json!({ "to": "a\u{202e}b\u{200b}c" })));
    card.reasons.push("The session …".to_owned());
    let call = |action: &str, at: Option<Timestamp>| Bringer { action: action.to_owned(), at };
    card.together = Some(Together {
        reason: 0,
        private: vec![call("files.read", Some(Timestamp::from_millis(0)))],
        others: vec![call("mail.read", Some(Timestamp::from_millis(1000)))],
        ways_out: vec![call("this call", None)],
    });
    let text = card.text().replace("\n    ¦ ", "");
    assert!(text.starts_with("Attention: 2 hidden or misleading characters"), "{text}");
    let lists = "Why: The session would combine private data, untrusted content and an egress channel.\n  Private data: files.read at 00:00:00 UTC\n  \
                 Untrusted content: mail.read at 00:00:01 UTC\n  Egress channels: this call\n";
    assert!(text.ends_with(lists), "{text}");
    let stored = serde_json::to_string(&card).unwrap();
    assert_eq!(serde_json::from_str::<Card>(&stored).unwrap(), card);
}

#[test]
fn no_line_is_wider_than_what_shows_it() {
    let mut card = Card::new();
    assert!(card.list(&json!({ "body": format!("{}aWorkspace: personal", "漢".repeat(40)) })));
    assert!(card.differs(&format!("+{}XWhy: only a comment\n", "\t".repeat(30))));
    for (text, width) in [(card.text(), TERMINAL), (card.message(), TELEPHONE)] {
        let wide = |line: &str| line.chars().map(columns).sum::<usize>();
        assert!(text.lines().all(|line| wide(line) <= width), "{text}");
        assert!(!text.contains('\t') && text.lines().all(|line| !line.starts_with(['W', 'X'])), "{text}");
    }
}
