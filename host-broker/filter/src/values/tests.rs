use super::crafted::FORMATS;
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

fn redacted(text: &str) -> Vec<String> {
    let mut found = Formats::with([]).unwrap().find(text, &Stamp::new([5; 32]));
    found.sort_by_key(|f| (f.range.start, f.range.end));
    // Several lists may know one.
    found.dedup_by_key(|f| f.range.clone());
    found.into_iter().map(|f| text.get(f.range).unwrap().to_owned()).collect()
}

/// Random-looking, and not the same everywhere.
fn noise(seed: u64, length: usize, alphabet: &str) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letters: Vec<char> = alphabet.chars().collect();
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[usize::try_from(state >> 33).unwrap() % letters.len()]
    };
    (0..length).map(|_| next()).collect()
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

fn with_check_digits(prefix: &str, seed: u64) -> String {
    const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let random = noise(seed, 30, ALNUM);
    let mut crc = flate2::Crc::new();
    crc.update(random.as_bytes());
    let mut rest = usize::try_from(crc.sum()).unwrap();
    let mut digits = Vec::new();
    for _ in 0..6 {
        digits.push(BASE62[rest % 62]);
        rest /= 62;
    }
    digits.reverse();
    format!("{prefix}_{random}{}", String::from_utf8(digits).unwrap())
}

#[test]
fn every_pattern_compiles_and_names_its_secret() {
    for format in &FORMATS {
        assert!(format.regex().capture_names().any(|name| name == Some("secret")), "{}", format.kind);
    }
}

#[test]
fn tokens_with_check_digits_are_known_by_them() {
    for prefix in ["ghp", "gho", "ghu", "ghs", "ghr", "npm"] {
        let token = with_check_digits(prefix, 1);
        assert_eq!(redacted(&format!("x={token};")), std::slice::from_ref(&token));
        let last = if token.ends_with('a') { 'b' } else { 'a' };
        let wrong = format!("{}{last}", token.split_at(token.len() - 1).0);
        assert_eq!(redacted(&wrong), Vec::<String>::new(), "{wrong}");
    }
    // A published example, long revoked.
    let published = ["ghp_zQWBuTSOoRi4A9spHcVY5ncn", "sDkxkJ0mLq17"].concat();
    assert_eq!(redacted(&published), [published.as_str()]);
}

#[test]
fn tokens_of_well_known_services_are_found() {
    let n = |length| noise(9, length, ALNUM);
    for token in [
        format!("github_pat_{}_{}", n(22), n(59)),
        format!("ghs_{}", n(200)),
        format!("AKIA{}", noise(3, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        format!("xoxb-{}-{}", noise(2, 12, "0123456789"), n(24)),
        format!("xapp-1-A{}", n(40)),
        ["sk", "_live_", &n(24)].concat(),
        ["rk", "_live_", &n(99)].concat(),
        format!("AIza{}", n(35)),
        format!("sk-{}", n(48)),
        format!("sk-ant-api03-{}", n(90)),
        format!("sk-proj-{}_{}", n(60), n(60)),
        format!("SUA{}", noise(6, 55, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        format!("SOA{}", noise(7, 53, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
    ] {
        for text in [token.clone(), format!("key: \"{token}\","), format!("({token})")] {
            assert_eq!(redacted(&text), std::slice::from_ref(&token), "{text}");
        }
    }
    let hook = format!("https://hooks.slack.com/services/T0{}/B0{}/{}", n(8), n(8), n(24));
    assert_eq!(redacted(&hook), [hook.split("services/").nth(1).unwrap()]);
}

#[test]
fn private_keys_are_found_however_they_are_written() {
    let body: Vec<String> = (1..20).map(|seed| noise(seed, 64, &format!("{ALNUM}+/"))).collect();
    for (kind, separator) in [("RSA ", "\n"), ("", "\r\n"), ("EC ", "\\n"), ("OPENSSH ", "\",\n  \""), ("", "\\\\n")] {
        let end = format!("-----END {kind}PRIVATE KEY-----");
        let key = format!(
            "-----BEGIN {kind}PRIVATE KEY-----{separator}{}{separator}Ab1={separator}{end}",
            body.join(separator)
        );
        assert_eq!(redacted(&format!("a {key} z")), std::slice::from_ref(&key));
        let cut = key.split("Ab1=").next().unwrap();
        assert_eq!(redacted(cut), [cut]);
    }
    let headers =
        format!("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n{}\n", body[0]);
    assert_eq!(redacted(&headers), [headers.as_str()]);
    for text in [
        "-----BEGIN PRIVATE KEY----- is how it begins",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new());
    }
}

#[test]
fn a_jwt_has_a_header_with_an_algorithm() {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let jwt = format!("{}.{}.{}", part(r#"{"alg":"HS256","typ":"JWT"}"#), part(r#"{"sub":"1"}"#), part("signature!"));
    assert_eq!(redacted(&format!("t={jwt}&x")), [jwt]);
    let other = format!("{}.{}.{}", part(r#"{"version":"HS256"}"#), part(r#"{"sub":"1"}"#), part("signature!"));
    assert_eq!(redacted(&other), Vec::<String>::new());
}

#[test]
fn only_the_password_of_a_url_is_taken_out() {
    for (text, password) in [
        ("postgres://app:hunter2@db:5432/x", "hunter2"),
        ("see https://:p%40ss@[::1]/ ok", "p%40ss"),
        ("amqp://u:a@b@host", "a@b"),
        ("redis://u:ключ@host", "ключ"),
        ("postgres://app:k7Qz9f@db.example.com/x", "k7Qz9f"),
        ("http://proxyuser:proxypass@proxy.company.com:8080", "proxypass"),
        ("https://foo.com:123,foo:k7Qz9f@bar.com/x", "123,foo:k7Qz9f"),
    ] {
        assert_eq!(redacted(text), [password], "{text}");
    }
    for (text, password) in [
        ("nats://ivan:ivan@%s:%d", "ivan"),
        ("mysql://ctfduser:ctfd@localhost/ctfd", "ctfd"),
        ("ca://cassandra:cassandra@localhost", "cassandra"),
    ] {
        assert_eq!(redacted(text), [password], "{text}");
    }
    for text in [
        "redis://[:password]@host",
        "scheme://[user[:secret2]]@host",
        "nats://%s:%s@%s:%d",
        "x://admin:admin@localhost",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new(), "{text}");
    }
    for text in [
        "http://host:80/a@b",
        "https://u:password@h",
        "https://u:${PW}@h",
        "git://u@h",
        "https://u:***@h",
        "http://a:b@h",
        "ftp://rms:secret123@example.com",
        "https://user:letmein@www.example.org/",
        "moz://foo:bar@servo/baz",
        "cvs://:pserver:anoncvs@sources.redhat.com:/cvs/src",
        "https://foo.com:123,foo:bar@bar.com/x",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn headers_in_text_lose_their_credential() {
    let token = noise(4, 40, ALNUM);
    let basic = STANDARD.encode("aladdin:opensesame");
    for (text, secret) in [
        (format!("> Authorization: Bearer {token}"), &token),
        (format!("{{\\\"authorization\\\": \\\"bearer {token}\\\"}}"), &token),
        (format!("Authorization: token {token}"), &token),
        (format!("sent Bearer {token}."), &format!("{token}.")),
        (format!("Authorization: Basic {basic}"), &basic),
    ] {
        assert!(redacted(&text).contains(secret), "{text}");
    }
    for text in [
        "Authorization: Bearer <token>",
        "basic authentication",
        "Bearer authentication-scheme-of-rfc6750",
        "authorization: \"token 0000000000000000000000000000000000000001\"",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_header_that_surely_has_a_credential_loses_it() {
    for (text, secret) in [
        ("Authorization: opaquesecretvalue\r\n", "opaquesecretvalue"),
        ("GET / HTTP/1.1\n> Authorization: Bearer opaquesecretvalue", "Bearer opaquesecretvalue"),
        ("Authorization: Basic am9objpwYXNzd29yZA==", "am9objpwYXNzd29yZA=="),
        (
            "Authorization: Digest username=\"ada\", response=\"6629fae49393a05397450978507c4ef1\", opaque=\"x\"",
            "6629fae49393a05397450978507c4ef1",
        ),
        ("Cookie: session=opaque", "session=opaque"),
        ("curl -H 'Cookie: lang=en; sid=opaque' https://h", "lang=en; sid=opaque"),
        ("X-Api-Key: Zq8rT2mK9wX4", "Zq8rT2mK9wX4"),
        ("curl -H \"PRIVATE-TOKEN: Zq8rT2mK9w\" https://h", "Zq8rT2mK9w"),
        ("token=Zq8rT2mK9w", "Zq8rT2mK9w"),
        ("https://h/x?access_token=Zq8rT2mK9w&y=1", "Zq8rT2mK9w"),
        ("identity \"ada@h\"\n  password \"Xk29ddLq\"\n", "Xk29ddLq"),
        ("{\"auth\": \"dXNlcjpYazI5ZGRMcQ==\"}", "dXNlcjpYazI5ZGRMcQ=="),
        ("curl -u 'admin:hunter' https://h", "hunter"),
    ] {
        assert!(redacted(text).iter().any(|found| found == secret), "{text}: {:?}", redacted(text));
    }
    for text in [
        "Authorization: Bearer <token>",
        "Authorization: Bearer TOKEN",
        "Authorization: Bearer authentication",
        "Authorization: Bearer your-token-goes-here",
        "Authorization: required",
        "Authorization: AuthorizationCodeFlow",
        "Authorization: the caller must be an administrator",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",
        "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        "Cookie: name=value",
        "Cookie: session=value",
        "Cookie: session=<session>",
        "X-Api-Key: your-key",
        "X-Api-Key: api-key-2",
        "authorization: unauthenticated",
        "token=next_token2",
        "password \"required\"",
        "The password \"Xk29ddLq\" is wrong.",
        "curl -u user:pass https://h",
        "curl -u username:password https://h",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn hashes_ids_and_example_keys_stay() {
    for text in [
        "commit 46c2e58a5f3c9d1b7e8f0a2b4c6d8e0f1a3b5c7d",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "550e8400-e29b-41d4-a716-446655440000",
        "integrity sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
        "AKIAIOSFODNN7EXAMPLE",
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "class=\"sk-folding-cube-animation-delayed-by-two\"",
        "SNAPSHOTSSWHICHARENOTRENEWEDBEFORETHEENDOFTHISMONTHENDS",
        "risk-sk-abcdefghijklmnopqrstuvwxyz0123456789ABC",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new(), "{text}");
    }
    let image = noise(77, 200_000, &format!("{ALNUM}+/"));
    assert_eq!(redacted(&format!("data:image/png;base64,{image}")), Vec::<String>::new());
}

#[test]
fn tokens_of_the_vendored_set_are_found() {
    let n = |length| noise(11, length, ALNUM);
    let hex = |length| noise(12, length, "0123456789abcdef");
    for token in [
        format!("nvapi-{}", n(64)),
        format!("sk-or-v1-{}", hex(64)),
        format!("phx_{}", n(43)),
        format!("ptr_{}=", n(43)),
        format!("apify_api_{}", n(36)),
    ] {
        assert!(redacted(&format!("key {token} end")).contains(&token), "{token}");
    }
}

/// Attack: see `a_value_beside_its_name_is_judged_by_that_name`.
#[test]
fn cookies_of_commands_and_jars_are_found() {
    let value = "k7Qz9fXw2LmP4vRt";
    let cookie = "sid=k7Qz9fXw2LmP4vRt";
    for (text, secret) in [
        ("curl -b 'sid=k7Qz9fXw2LmP4vRt' https://h", cookie),
        ("curl -b'sid=k7Qz9fXw2LmP4vRt' https://h", cookie),
        ("curl https://h --cookie sid=k7Qz9fXw2LmP4vRt", cookie),
        ("curl -s --cookie=sid=k7Qz9fXw2LmP4vRt https://h", cookie),
        ("curl -sb \"lang=en; sid=k7Qz9fXw2LmP4vRt\" https://h", "lang=en; sid=k7Qz9fXw2LmP4vRt"),
        ("curl 'https://h' \\\n  -H 'accept: */*' \\\n  -b 'sid=k7Qz9fXw2LmP4vRt' \\\n  --compressed", cookie),
        ("h.example\tFALSE\t/\tTRUE\t0\tsid\tk7Qz9fXw2LmP4vRt\n", value),
        ("h.example FALSE / TRUE 1830000000 sid k7Qz9fXw2LmP4vRt\n", value),
        ("# jar\n  #HttpOnly_.h.example   TRUE   /app   FALSE   0   sid   k7Qz9fXw2LmP4vRt\nend", value),
        ("sqlmap --cookie=\"sid=k7Qz9fXw2LmP4vRt\" -u https://h", cookie),
        ("headers {Cookie=sid=k7Qz9fXw2LmP4vRt, Host=h}", cookie),
        ("map[Accept:[*/*] Cookie:[sid=k7Qz9fXw2LmP4vRt]]", cookie),
        ("sent (Cookie: sid=k7Qz9fXw2LmP4vRt)", cookie),
        ("<RequestsCookieJar[<Cookie sid=k7Qz9fXw2LmP4vRt for h.example/>]>", value),
        ("Cookie(version=0, name='sid', value='k7Qz9fXw2LmP4vRt', port=None)", value),
    ] {
        assert_eq!(redacted(text), [secret], "{text}");
    }
    for text in [
        "curl -b cookies.txt -c cookies.txt https://h",
        "curl --cookie-jar sid=k7Qz9fXw2LmP4vRt https://h",
        "curl -b \"$COOKIES\" https://h",
        "curl -b 'name=value' https://h",
        "cookie: Option=parse(k7Qz9fXw2LmP4vRt)",
        "{Cookie=theme=dark, Host=h}",
        "curl -b 'lang=en; theme=dark' https://h",
        "it is TRUE / and FALSE 12 or so it seems1",
        "h.example FALSE / TRUE 0 sid your_value1",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new(), "{text}");
    }
}

/// Attack (Providers and modules): A result contains a password as an argument of a call, not
/// beside a name.
/// Defence: The format is known by the call and the position of the argument.
#[test]
fn passwords_in_files_and_statements_are_known_by_their_place() {
    for (text, password) in [
        ("db.internal:5432:app:root:hunter22\n", "hunter22"),
        ("# pgpass\n*:*:*:postgres:wossname\n", "wossname"),
        ("machine h login me password hunter22", "hunter22"),
        ("machine h\n  login me\n  password wossname\n", "wossname"),
        ("curl -u me:hunter22 https://h", "hunter22"),
        ("machine h login me password pass123", "pass123"),
        ("Invoke-Spray -UserList .\\users.txt -Password Winter2020\n", "Winter2020"),
        ("mimi.exe -Username 'user1' -Password 'Welcome01!'", "Welcome01!"),
        ("client.login(\"ada\", \"hunter2xyz\")", "hunter2xyz"),
        ("db.connect('ada', 'hunter2xyz');", "hunter2xyz"),
        ("$db = mysqli_connect($host, \"ada\", \"hunter2xyz\", \"shop\");", "hunter2xyz"),
        ("CREATE USER sandy WITH PASSWORD 'Ride2Win@' NOSUPERUSER;", "Ride2Win@"),
        ("alter role app password 'wossname'", "wossname"),
        ("CREATE USER 'app'@'%' IDENTIFIED BY 'hunter22';", "hunter22"),
    ] {
        assert_eq!(redacted(text), [password], "{text}");
    }
    for text in [
        "localhost:5432:database:root:password",
        "hostname:port:database:username:password",
        "machine python.org\nlogin other\npassword other-password\n",
        "default login log2 password pass2 account acct2",
        "Load a dynamic library identified by 'name'.",
        "CREATE USER app WITH PASSWORD '<password>';",
        "the user sees a field for the password 'as text'",
        "Authorization: Basic YWFhOmJiYg==",
        "Authorization: Basic QWxhZGRpbjpvcGVuc2VzYW1l",
        "Authorization: Basic dXNlcm5hbWU6cGFzc3dvcmQ=",
        "https://username%40gmail.com:pa%20ssword@example.com",
        "Authorization: Bearer my-test-token-12345",
        "button.connect('clicked', 'on_button1_clicked')",
        "socket.connect('tcp', 'localhost:8080')",
        "client.login(\"ada\", \"password1\")",
        "Set-User -Password $secret2 -Force",
        "the option -password takes a value",
        "mysqli_connect($host, \"ada\", $password, \"shop1\");",
        "http://ada:opensesame@localhost:8887",
    ] {
        assert_eq!(redacted(text), Vec::<String>::new(), "{text}");
    }
}
