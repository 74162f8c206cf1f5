use super::*;
use crate::identity::issuers::IssuerTable;
use crate::identity::issuers::OwnKey;
use crate::identity::shared_secret;
use crate::source::{CommandOutput, Output};
use crate::{Secret, Secrets};
use proptest::prelude::*;
use serde_json::json;
use shared::Code;
use std::sync::LazyLock;

/// Tokens of Ash with its verdicts, and its reading of secrets.
const VECTORS: &str = include_str!("../../../../../tests/fixtures/ash-context-tokens.json");
/// Tokens that Ash accepts and we do not, with the reason.
const STRICTER: [(&str, &str); 5] = [
    ("ver2", "its version is not known"),
    ("exp_before_iat", "it expires before it was issued"),
    ("ttl_year", "it lives longer than an hour"),
    ("padded_sig", "its signature cannot be read"),
    ("std_b64_sig", "its signature cannot be read"),
];
const NOW: i64 = 1_770_000_000;

struct NoPrograms;

impl CommandOutput for NoPrograms {
    fn output<'a>(&'a self, _command: &'a [String]) -> Output<'a> {
        Box::pin(async { Err("there are none".to_owned()) })
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(NOW * 1000)
}

fn family() -> Group {
    "family".parse().unwrap()
}

fn own() -> OwnKey {
    OwnKey::new(&[7; 32]).unwrap()
}

fn vectors() -> Value {
    serde_json::from_str(VECTORS).unwrap()
}

/// The broker, another that signs with Ed25519, and Ash.
fn issuers() -> Issuers {
    let friend = OwnKey::new(&[8; 32]).unwrap().public_text();
    let secret = vectors()["env_secret"].as_str().unwrap().to_owned();
    let source = toml::from_str::<IssuerTable>("secret = { env = \"ASH\" }").unwrap();
    let issuers = [
        ("friend".to_owned(), IssuerTable { public_keys: vec![friend], ..IssuerTable::default() }),
        ("ash".to_owned(), source.clone()),
    ];
    let sources = [("identity:ash".to_owned(), source.secret.unwrap())].into();
    let environment = [("ASH".to_owned(), secret)].into();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let secrets = runtime.block_on(Secrets::load(&sources, &environment, &NoPrograms));
    Issuers::new(&own(), None, &issuers.into(), &secrets)
}

static ISSUERS: LazyLock<Issuers> = LazyLock::new(issuers);

fn read_now(token: &str) -> Result<Person, TokenError> {
    read(token, &family(), &ISSUERS, now())
}

/// The claims of a good token of the broker's.
fn good() -> Map<String, Value> {
    let wanted =
        ExpectedClaims { sub: "user-1".into(), chat_type: Some(ChatType::Private), ..ExpectedClaims::default() };
    json::parse_object(&claims(&wanted, &ISSUERS.audience, "j-1".into(), now(), LIFE)).unwrap()
}

fn by_us(claims: &Value) -> String {
    signed(claims.to_string().as_bytes(), |bytes| own().sign(bytes))
}

/// A good token, but for these claims; `null` leaves one out.
fn with(changes: &Value) -> String {
    let mut claims = good();
    for (name, value) in changes.as_object().unwrap() {
        claims.insert(name.clone(), value.clone());
    }
    claims.retain(|_, value| !value.is_null());
    by_us(&Value::Object(claims))
}

fn raw(header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(own().sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

#[test]
fn every_token_of_the_vectors_is_judged_as_ash_does_but_for_five() {
    let vectors = vectors();
    let tokens = vectors["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 28);
    for vector in tokens {
        let name = vector["name"].as_str().unwrap();
        let found = read_now(vector["token"].as_str().unwrap());
        let stricter = STRICTER.iter().find(|(stricter, _)| *stricter == name);
        match (vector["ok"].as_bool().unwrap(), stricter) {
            (true, Some((_, why))) => assert_eq!(found, Err(TokenError::Invalid(why)), "{name}"),
            (true, None) => {
                let person = found.unwrap_or_else(|why| panic!("{name}: {why}"));
                assert_eq!((person.issuer.as_str(), json!(person.sub)), ("ash", vector["sub"].clone()), "{name}");
                assert_eq!(json!(person.jti), vector["jti"], "{name}");
            }
            (false, stricter) => {
                let expected = match name {
                    "empty" => Code::ContextTokenMissing,
                    // Also `expired`, which was over 31 seconds before it was made.
                    _ => Code::ContextTokenInvalid,
                };
                assert_eq!((found.map_err(TokenError::code), stricter), (Err(expected), None), "{name}");
            }
        }
    }
}

#[test]
fn secrets_are_read_as_ash_reads_them() {
    let vectors = vectors();
    for (text, hex) in vectors["secret_text_to_key_hex"].as_object().unwrap() {
        assert_eq!(base16ct::lower::encode_string(&shared_secret::key(text)), hex.as_str().unwrap(), "{text}");
    }
    // The results of Python's decoder for these: too little padding, one character too many, not ASCII.
    for text in ["a b", "abcde", "pässwörd"] {
        assert_eq!(*shared_secret::key(text), text.as_bytes());
    }
}

#[test]
fn a_token_of_the_brokers_own_says_who_it_is() {
    let wanted = ExpectedClaims {
        sub: "user-1".into(),
        group: Some(family()),
        chat_id: Some("c7".into()),
        chat_type: Some(ChatType::Group),
        thread_id: Some("t1".into()),
        provider: Some("telegram".into()),
        session_key: Some("s1".into()),
        source_username: Some("ann".into()),
        source_display_name: Some("Ann".into()),
    };
    let token = signed(&claims(&wanted, &ISSUERS.audience, "j-1".into(), now(), LIFE), |bytes| own().sign(bytes));
    let person = read_now(&token).unwrap();
    assert_eq!(person.key(), "broker:user-1");
    let expected = Person {
        issuer: "broker".into(),
        sub: "user-1".into(),
        chat_id: Some("c7".into()),
        chat_type: Some(ChatType::Group),
        thread_id: Some("t1".into()),
        provider: Some("telegram".into()),
        session_key: Some("s1".into()),
        source_username: Some("ann".into()),
        source_display_name: Some("Ann".into()),
        jti: Some("j-1".into()),
    };
    assert_eq!(person, expected);
    let elsewhere = read(&token, &"office".parse().unwrap(), &ISSUERS, now());
    assert_eq!(elsewhere, Err(TokenError::Invalid("it is for another group")));
    let stored = serde_json::to_string(&expected).unwrap();
    assert_eq!(serde_json::from_str::<Person>(&stored).unwrap(), expected);
}

/// Attack: see `a_hundred_thousand_mutated_tokens_are_all_refused`.
#[test]
fn each_claim_has_its_rule() {
    let far = "x".repeat(TEXT_MAX + 1);
    for (changes, why) in [
        (json!({ "iss": "nobody" }), "no issuer has that name"),
        (json!({ "iss": null }), "it is signed in another way than its issuer's"),
        (json!({ "iss": "friend" }), "its signature does not verify"),
        (json!({ "iss": "ash" }), "it is signed in another way than its issuer's"),
        (json!({ "aud": null }), "it is for somebody else"),
        (json!({ "aud": "gog" }), "it is for somebody else"),
        (json!({ "aud": ["gog"] }), "it is for somebody else"),
        (json!({ "aud": 5 }), "it is for somebody else"),
        (json!({ "sub": null }), "it names no person"),
        (json!({ "sub": " " }), "a claim is empty or unprintable"),
        (json!({ "sub": "a\nb" }), "a claim is empty or unprintable"),
        (json!({ "sub": far }), "a claim is empty or unprintable"),
        (json!({ "sub": 42 }), "a claim is of another type than it must be"),
        (json!({ "jti": null }), "it has no name of its own"),
        (json!({ "iat": null }), "it lacks the time of issue or the expiry"),
        (json!({ "exp": null }), "it lacks the time of issue or the expiry"),
        (json!({ "exp": (NOW + 900).to_string() }), "a time in it is not a whole number of seconds"),
        (json!({ "exp": 1_770_000_900.5 }), "a time in it is not a whole number of seconds"),
        (json!({ "exp": true }), "a time in it is not a whole number of seconds"),
        (json!({ "exp": i64::MAX }), "it lives longer than an hour"),
        (json!({ "exp": i64::MAX, "iat": -5 }), "it lacks the time of issue or the expiry"),
        (json!({ "exp": u64::MAX }), "a time in it is not a whole number of seconds"),
        (json!({ "exp": NOW + 3601 }), "it lives longer than an hour"),
        (json!({ "exp": NOW - 31 }), "it expires before it was issued"),
        (json!({ "iat": NOW + 31 }), "its time has not come"),
        (json!({ "nbf": NOW + 31 }), "its time has not come"),
        (json!({ "ver": 2 }), "its version is not known"),
        (json!({ "ver": "1" }), "its version is not known"),
        (json!({ "group": "office" }), "it is for another group"),
        (json!({ "chat_type": "direct" }), "its kind of chat is not known"),
        (json!({ "chat_id": 7 }), "a claim is of another type than it must be"),
    ] {
        assert_eq!(read_now(&with(&changes)), Err(TokenError::Invalid(why)), "{changes}");
    }
    let over = json!({ "iat": NOW - 931, "exp": NOW - 31 });
    assert_eq!(read_now(&with(&over)), Err(TokenError::Expired));
    for fine in [
        json!({ "aud": ["gog", ISSUERS.audience] }),
        json!({ "iat": NOW - 930, "exp": NOW - 30 }),
        json!({ "iat": NOW + 30, "nbf": NOW + 30 }),
        json!({ "exp": NOW + 3600 }),
        json!({ "exp": NOW - 30 }),
        json!({ "ver": 1, "group": "family", "unheard_of": { "a": 1 } }),
    ] {
        assert_eq!(read_now(&with(&fine)).map(|person| person.sub), Ok("user-1".to_owned()), "{fine}");
    }
}

/// A token as Ash signs it, with this header and these claims beside the necessary ones.
fn by_ash(header: &Value, changes: &Value) -> String {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let mut claims = json!({ "sub": "user-1", "iat": NOW, "exp": NOW + 900, "ver": 1 });
    claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let secret = vectors()["env_secret"].as_str().unwrap().to_owned();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&shared_secret::key(&secret)).unwrap();
    mac.update(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

#[test]
fn old_tokens_have_the_rules_of_all_but_for_what_they_may_leave_out() {
    let header = || json!({ "alg": "HS256", "typ": "ASH_CONTEXT", "ver": 1 });
    for fine in [json!({}), json!({ "aud": ISSUERS.audience, "iss": "ash", "group": "family", "chat_id": 7 })] {
        assert_eq!(read_now(&by_ash(&header(), &fine)).map(|person| person.key()), Ok("ash:user-1".to_owned()));
    }
    assert_eq!(read_now(&by_ash(&header(), &json!({ "iat": NOW - 931, "exp": NOW - 31 }))), Err(TokenError::Expired));
    for (changes, why) in [
        (json!({ "group": "office" }), "it is for another group"),
        (json!({ "aud": "gog" }), "it is for somebody else"),
        (json!({ "iss": "friend" }), "it is signed in another way than its issuer's"),
        (json!({ "exp": " 1770000900" }), "a time in it is not a whole number of seconds"),
        (json!({ "exp": "" }), "a time in it is not a whole number of seconds"),
        (json!({ "sub": 4.5 }), "a claim is of another type than it must be"),
        (json!({ "ver": 2 }), "its version is not known"),
    ] {
        assert_eq!(read_now(&by_ash(&header(), &changes)), Err(TokenError::Invalid(why)), "{changes}");
    }
    for (header, why) in [
        (json!({ "alg": "HS256", "ver": 1 }), "its type is another one"),
        (json!({ "alg": "HS256", "typ": "ASH_CONTEXT" }), "its version is not known"),
        (json!({ "alg": "HS256", "typ": "ASH_CONTEXT", "ver": "1" }), "its version is not known"),
    ] {
        assert_eq!(read_now(&by_ash(&header, &json!({}))), Err(TokenError::Invalid(why)), "{header}");
    }
}

/// Attack: see `a_hundred_thousand_mutated_tokens_are_all_refused`.
#[test]
fn ambiguous_tokens_are_refused() {
    let claims = Value::Object(good()).to_string();
    assert!(read_now(&raw(r#"{"alg":"EdDSA"}"#, &claims)).is_ok());
    for (header, why) in [
        (r#"{"alg":"none"}"#, "it is signed in another way than its issuer's"),
        (r#"{"alg":"HS256"}"#, "it is signed in another way than its issuer's"),
        (r#"{"alg":"EdDSA","alg":"EdDSA"}"#, "its header cannot be read"),
        (r#"["EdDSA"]"#, "its header cannot be read"),
        (r#"{"alg":"EdDSA","crit":["b64"],"b64":false}"#, "its header has a member that is not known"),
        (r#"{"alg":"EdDSA","jwk":{}}"#, "its header has a member that is not known"),
    ] {
        assert_eq!(read_now(&raw(header, &claims)), Err(TokenError::Invalid(why)), "{header}");
    }
    let doubled = claims.replacen('{', r#"{"sub":"user-2","#, 1);
    assert_eq!(read_now(&raw(r#"{"alg":"EdDSA"}"#, &doubled)), Err(TokenError::Invalid("its claims cannot be read")));
    let token = by_us(&Value::Object(good()));
    for changed in [format!(" {token}"), format!("{token}\n")] {
        assert_eq!(read_now(&changed), Err(TokenError::Invalid("there is white space around it")));
    }
    let long = format!("{token}{}", "A".repeat(BYTES_MAX));
    assert_eq!(read_now(&long), Err(TokenError::Invalid("it is too long")));
    assert_eq!(read_now(&format!("{token}.")), Err(TokenError::Invalid("it has not three parts")));
    assert_eq!(read_now("  "), Err(TokenError::Missing));
}

/// Attack: see `a_hundred_thousand_mutated_tokens_are_all_refused`.
#[test]
fn a_public_key_is_never_taken_for_a_shared_secret() {
    // The oldest forgery: the verifier's public key as the secret of an HMAC.
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"ASH_CONTEXT","ver":1}"#);
    for iss in ["broker", "friend", "ash"] {
        let mut claims = good();
        claims.insert("iss".into(), json!(iss));
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(Value::Object(claims).to_string()));
        for key in [own().public_text(), String::from_utf8_lossy(&own().public()).into_owned()] {
            use hmac::{Hmac, KeyInit as _, Mac as _};
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&shared_secret::key(&key)).unwrap();
            mac.update(signed.as_bytes());
            let signature = mac.finalize().into_bytes();
            assert!(Secret::new(key).has_signed(signed.as_bytes(), &signature));
            let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
            assert_eq!(read_now(&token).map_err(TokenError::code), Err(Code::ContextTokenInvalid), "{iss}");
        }
    }
}

/// Attack (Persons): A token is forged, changed, expired or foreign, uses another algorithm, or
/// uses the public key as a shared secret.
/// Defence: An issuer has one algorithm, and a token has one form.
#[test]
fn a_hundred_thousand_mutated_tokens_are_all_refused() {
    let ours = by_us(&Value::Object(good()));
    let theirs = vectors()["tokens"][0]["token"].as_str().unwrap().to_owned();
    assert!(read_now(&ours).is_ok() && read_now(&theirs).is_ok());
    let config = ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    // Two places each, so that one mutation may not undo itself, nor hide behind the other.
    let strategy = (any::<bool>(), any::<[(u8, prop::sample::Index, char); 2]>());
    runner
        .run(&strategy, |(which, edits)| {
            let good = if which { &ours } else { &theirs };
            let mut characters: Vec<char> = good.chars().collect();
            for (kind, place, character) in edits {
                let at = place.index(characters.len());
                let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/";
                let near = alphabet.chars().nth(usize::from(kind) % alphabet.len()).unwrap();
                match kind % 7 {
                    0 => characters[at] = character,
                    1 => characters.insert(at, near),
                    2 => drop(characters.remove(at)),
                    3 => {
                        let other = usize::from(kind) % characters.len();
                        characters.swap(at, other);
                    }
                    4 => characters.truncate(at.max(1)),
                    _ => characters[at] = near,
                }
            }
            let token: String = characters.into_iter().collect();
            // White space around a token of Ash is no mutation.
            if token.trim() != good {
                let code = read_now(&token).map_err(TokenError::code);
                // No byte of Ash's claims is ours to choose, but a mutation may leave nothing of them.
                let expected =
                    if token.trim().is_empty() { Code::ContextTokenMissing } else { Code::ContextTokenInvalid };
                prop_assert_eq!(code, Err(expected), "{}", token);
            }
            Ok(())
        })
        .unwrap();
}

/// Attack: see `a_hundred_thousand_mutated_tokens_are_all_refused`.
#[test]
fn forged_expired_and_foreign_tokens_are_all_refused_with_their_codes() {
    let config = ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let strategy = (0..4_u8, any::<[u8; 32]>(), 31..1_000_000_000_i64, "[a-z0-9:._-]{1,24}");
    runner
        .run(&strategy, |(kind, key, seconds, text)| {
            let changed = |changes: Value| {
                let mut claims = good();
                claims.extend(changes.as_object().unwrap().clone());
                Value::Object(claims)
            };
            let (token, expected) = match kind {
                // By an unknown key, in the name of every known issuer.
                0 => {
                    let iss = ["broker", "friend", "ash"][usize::from(key[0]) % 3];
                    let forger = OwnKey::new(&key).unwrap();
                    let claims = changed(json!({ "iss": iss, "sub": text })).to_string();
                    (signed(claims.as_bytes(), |bytes| forger.sign(bytes)), Code::ContextTokenInvalid)
                }
                1 => {
                    let over = NOW - seconds;
                    let claims = changed(json!({ "iat": over - 60, "exp": over, "sub": text }));
                    (by_us(&claims), Code::ContextTokenExpired)
                }
                2 => (by_us(&changed(json!({ "aud": format!("x{text}") }))), Code::ContextTokenInvalid),
                _ => (by_us(&changed(json!({ "group": format!("x{text}") }))), Code::ContextTokenInvalid),
            };
            prop_assert_eq!(read_now(&token).map_err(TokenError::code), Err(expected), "{}", token);
            Ok(())
        })
        .unwrap();
}
