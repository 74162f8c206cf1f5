use super::*;

#[test]
fn a_password_is_no_word_and_no_placeholder() {
    for value in
        ["hunter22", "admin123", "Mailpass1234!", "RedisPass1!", "481516", "correct!horse", "ключ-2026", "p@ssword"]
    {
        assert!(password(value), "{value}");
    }
    for value in [
        "admin", "secret", "1234", "sha256", "utf8", "base64", "a1", "your_pw1", "<pw1234>", "$PW1", "aaaa1111",
        "my pw 1",
    ] {
        assert!(!password(value), "{value}");
    }
}

#[test]
fn a_key_was_made_at_random() {
    for value in [
        "7f9cc25de23d1a255720b0ae4551f4044d600f46",
        "26dfe8d8-889b-4380-92ff-9c3c6ea5d930",
        "zh!=!gq(w^_t[sBR29954x)HI+$ehwss*xYNQeu([xcWMhdzzr",
        "yLryKGwcGc3ez9G8YAnjeYMQOc",
    ] {
        assert!(key(value, 16), "{value}");
    }
    for value in [
        "my-secret-token-2026",
        "projects/1/secrets/2",
        "some_variable_name_12",
        "aaaaaaaaaaaaaaaa11",
        "AnotherClassName",
        "com.example.Token2",
        "${{ secrets.TOKEN_22 }}",
    ] {
        assert!(!key(value, 16), "{value}");
    }
}

#[test]
fn a_reference_names_a_variable_or_a_gap_and_nothing_else() {
    for value in
        ["${TOKEN}", "$TOKEN", "Bearer $GITHUB_TOKEN", "{{ token }}", "${{ secrets.TOKEN }}", "<your token>", "%TOKEN%"]
    {
        assert!(is_reference(value), "{value}");
    }
    for value in ["hunter2", "$1ab", "${hunter2}", "<>", "$", "Bearer k7Qz9f", "{{ a }}{{ b }}", "%41%42"] {
        assert!(!is_reference(value), "{value}");
    }
}

#[test]
fn a_random_value_of_small_letters_and_digits_is_no_camel_case() {
    for value in ["asdfoiw37850234lkjsdfsdf", "kjerht2309ufasdk"] {
        assert!(key(value, 10), "{value}");
    }
    for value in ["refresh12345", "Curve25519SeedBin"] {
        assert!(!key(value, 10), "{value}");
    }
}

#[test]
fn words_about_credentials_are_no_password_in_a_program_and_are_one_in_a_setting() {
    let quoted = Written {
        is_quoted: true,
        spacing: Spacing::Wide,
        is_setting: false,
        certainty: Certainty::Likely,
        next: Some(b'"'),
    };
    for value in ["admin123", "testpass123", "my-secret-token-2", "user1_pwd", "NewPassword1!"] {
        assert!(!in_text(value, Sort::Password, quoted), "{value}");
        assert!(in_text(value, Sort::Password, Written { is_setting: true, ..quoted }), "{value}");
    }
    for value in ["hunter2xyz", "admin481516", "testpelican1", "Harbor12345"] {
        assert!(in_text(value, Sort::Password, quoted), "{value}");
    }
}

#[test]
fn letters_that_nobody_can_speak_are_a_key() {
    for value in ["gcperfxrtqymqmluvskxzyiyxxfnjduzncoukyqe", "MNBVCXZQWRTPSDFGHJKL"] {
        assert!(key(value, 10), "{value}");
    }
    for value in ["internationalisation", "ONETWOTHREEFOURFIVESIX", "gcperfxrtq", "gcperFXRTqymqmluvskxzyiyxx"] {
        assert!(!key(value, 10), "{value}");
    }
}
