use super::super::tests::stamp;
use super::*;
use proptest::prelude::*;
use proptest::string::string_regex;

const SECRET: &str = "Tr0ub4dor9x";

/// Stands for the secret in a text that is made.
const GAP: &str = "\u{e000}";

/// Checks that the value in the gap is replaced, and nothing else. `quotes` are those that a mark has and the value
/// has not.
fn assert_only_the_gap_changes(text: &str, secret: &str, kind: &str, quotes: &str) {
    let stamp = stamp();
    let input = text.replace(GAP, secret);
    let mark = stamp.mark(kind, secret);
    let expected = text.replace(GAP, &format!("{quotes}{mark}{quotes}"));
    assert_eq!(redact(&input, &stamp).as_deref(), Some(expected.as_str()), "{input}");
    assert_eq!(redact(&expected, &stamp), None, "{expected}");
}

#[test]
fn everything_but_the_credential_stays_byte_for_byte() {
    for text in [
        "{\n \"id\": 12345678901234567890123, \"f\": 1.10, \"a\":1, \"a\":2,\"password\":\"\u{e000}\"}\n",
        " [ {\"z\":-0.0, \"b\":1E5,\"api_key\" :\t\"\u{e000}\" , \"x\":\"\\/\\u00e9\\n\"},[ ] ]",
        "\"{\\\"n\\\": 1.10, \\\"s\\\":\\\"\\\\u00e9\\\\\\/\\\",\\u0022password\\u0022:\\\"\u{e000}\\\"}\"",
        "[{\"text\":\"{\\n  \\\"f\\\": 1.10,\\n  \\\"password\\\": \\\"\u{e000}\\\"\\n}\"}, 1.0]",
        "{\"name\" : \"DB_PASSWORD\", \"n\": 1.10, \"value\" : \"\u{e000}\"}",
        "[\"x\", 1.10, \"--password\" , \"\u{e000}\"]",
    ] {
        let kind = if text.contains("api_key") { "apikey" } else { "password" };
        assert_only_the_gap_changes(text, SECRET, kind, "");
    }
}

#[test]
fn a_value_that_is_no_string_becomes_one() {
    assert_only_the_gap_changes("{\"a\": 1.0, \"password\" : \u{e000} }", "4711", "password", "\"");
    assert_only_the_gap_changes("{\"password\":[ \"\u{e000}\", {\"a\":null} ],\"b\":2.0}", "x1", "password", "");
    assert_only_the_gap_changes("{\"password\":[ \u{e000} ],\"b\":2.0}", "17", "password", "\"");
    assert_only_the_gap_changes("\"{\\\"password\\\":\u{e000},\\\"b\\\":2.0}\"", "1e999", "password", "\\\"");
}

#[test]
fn a_credential_in_escapes_goes() {
    let stamp = stamp();
    let mark = stamp.mark("password", "hunter2\n");
    for (input, expected) in [
        (r#"{"password": "\u0068unter2\n", "a":1.0}"#, format!(r#"{{"password": "{mark}", "a":1.0}}"#)),
        (r#"{"p\u0061ssword":"hunter2\u000a"}"#, format!(r#"{{"p\u0061ssword":"{mark}"}}"#)),
        (r#""{\"password\":\"\\u0068unter2\\n\"}""#, format!(r#""{{\"password\":\"{mark}\"}}""#)),
    ] {
        assert_eq!(redact(input, &stamp), Some(expected), "{input}");
    }
}

#[test]
fn each_of_two_members_with_one_name_is_looked_at() {
    let stamp = stamp();
    for text in [
        r#"{"password":"hunter2","password":""}"#,
        r#"{"password":"","password":"hunter2"}"#,
        r#"{"a":{"password":"hunter2"},"a":1,"password":"x"}"#,
        r#"{"password":{"type":"hunter2","type":"string"}}"#,
        r#"{"password":{"type":"string","type":"hunter2"}}"#,
        r#"{"password":{"a":"hunter2","a":""}}"#,
        r#"{"name":"x","name":"password","value":"hunter2","value":""}"#,
        r#"{"name":"password","name":"x","value":"","value":"hunter2"}"#,
        r#"{"password":"hunter2","a":1e999,"b":"\ud800"}"#,
    ] {
        let redacted = redact(text, &stamp).unwrap();
        assert!(!redacted.contains("hunter2"), "{redacted}");
        assert_eq!(redact(&redacted, &stamp), None, "{redacted}");
    }
}

#[test]
fn a_text_that_is_nested_too_deep_goes_if_it_mentions_a_credential() {
    let deep = |inner: &str| "[".repeat(200) + inner + &"]".repeat(200);
    let stamp = stamp();
    let redacted = redact(&deep(r#"{"password":"hunter2"}"#), &stamp).unwrap();
    assert!(!redacted.contains("hunter2") && redact(&redacted, &stamp).is_none(), "{redacted}");
    assert_eq!(redact(&deep("1"), &stamp), None);
}

/// Returns JSON texts with blanks, escapes, long numbers and names that occur twice, without a credential.
fn honest() -> impl Strategy<Value = String> {
    let string = r#""([a-z é😀]|\\["\\/bnt]|\\u00[2-7][0-9a-f]|\\ud83d\\ude00|\\ud800 ){0,6}""#;
    let leaf = prop_oneof![
        string_regex("-?(0|[1-9][0-9]{0,30})([.][0-9]{1,5})?([eE][+-]?[0-9]{1,3})?").unwrap(),
        string_regex(string).unwrap(),
        Just("null".to_owned()),
        Just("true".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let blank = || string_regex("[ \n\t]{0,2}").unwrap();
        let item = (blank(), inner.clone(), blank()).prop_map(|(before, item, after)| before + &item + &after);
        let member = (blank(), "[a-d]", blank(), inner, blank())
            .prop_map(|(a, name, b, member, c)| format!("{a}\"{name}\"{b}:{c}{member}"));
        prop_oneof![
            prop::collection::vec(item, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

proptest! {
    #[test]
    fn only_the_value_of_a_credential_member_changes(
        (a, b, c, d) in (honest(), honest(), honest(), honest()),
        around in prop::collection::vec(0..3_u8, 0..3),
        name in prop::sample::select(vec!["password", "apiKey", "p\\u0061ssword"]),
        secret in "[A-Za-z]{3}[0-9]{3}[A-Za-z]{0,9}[!#+]{0,2}",
    ) {
        let mut text = format!("{{\"a\": {a}, \"{name}\" :\"{GAP}\",\n \"a\":{b}}}");
        for way in around {
            text = match way {
                0 => format!("[{c}, {text},{d} ]"),
                1 => format!("{{\"b\":{c},\"b\":{text} }}"),
                _ => serde_json::to_string(&text).unwrap(),
            };
        }
        let kind = if name == "apiKey" { "apikey" } else { "password" };
        assert_only_the_gap_changes(&text, &secret, kind, "");
    }

    #[test]
    fn a_text_without_a_credential_stays(text in honest()) {
        prop_assert_eq!(redact(&text, &stamp()), None);
    }
}
