use super::*;

fn secrets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    find(text, &Stamp::new([5; 32]), &[], &mut found);
    found.into_iter().map(|found| text.get(found.range).unwrap()).collect()
}

const KEY: &str = "nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX";

#[test]
fn a_value_is_found_however_its_name_is_put_beside_it() {
    for (text, secret) in [
        ("DB_PASSWORD=admin123\n", "admin123"),
        ("export MLAB_PASS='pw-4711-xy'", "pw-4711-xy"),
        ("password: hunter22", "hunter22"),
        ("aws_secret_access_key = nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX # risk", KEY),
        ("  \"sshUserPassword\" : \"hunter-22\",", "hunter-22"),
        ("{\\\"api_key\\\": \\\"nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX\\\"}", KEY),
        ("$config['db']['passwd'] = 'pw-4711-z';", "pw-4711-z"),
        ("'password' => 'hunter22',", "hunter22"),
        ("define( 'AUTH_KEY',   'MW1pxMctoyA(>M%0Vl 2(#o0|2$cB+K|.G$h' );", "MW1pxMctoyA(>M%0Vl 2(#o0|2$cB+K|.G$h"),
        ("settings.setApiKey(\"nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX\")", KEY),
        ("<Pass>ExamplPas123</Pass>", "ExamplPas123"),
        ("<Pass encoding=\"base64\">NjllNWU5ZWMwZDU0MmU5Y2Q</Pass>", "NjllNWU5ZWMwZDU0MmU5Y2Q"),
        ("<fileTransfer port=\"21\" password=\"dff9dfdfdfdadfcf\" username=\"root\">", "dff9dfdfdfdadfcf"),
        ("password: str = \"hunter22\"", "hunter22"),
        ("let token: &str = b\"nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX\";", KEY),
        ("api_key := `nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX`", KEY),
        ("https://h/x?user=1&access_token=nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX&y=2", KEY),
        ("Server=db;User Id=app;Password=hunter22;", "hunter22"),
        (
            "//registry.npmjs.org/:_authToken=26dfe8d8-889b-4380-92ff-9c3c6ea5d930",
            "26dfe8d8-889b-4380-92ff-9c3c6ea5d930",
        ),
        ("X-Api-Key: nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX", KEY),
        ("curl -H 'PRIVATE-TOKEN: nAH2VzKrMrRjySLlt8HCdFU3tM2TUuUZgh39NX' https://h", KEY),
        ("> Cookie: theme=dark; sid=k7Qz9fXw2LmP\r\n", "theme=dark; sid=k7Qz9fXw2LmP"),
        ("[Cookie: sid=k7Qz9fXw2LmP]: user logged in", "sid=k7Qz9fXw2LmP]: user logged in"),
        ("< Set-Cookie: sid=k7Qz9fXw2LmP; Path=/; HttpOnly", "sid=k7Qz9fXw2LmP; Path=/; HttpOnly"),
        ("Authorization: ApiKey k7Qz9fXw2LmP", "ApiKey k7Qz9fXw2LmP"),
        (
            "secret_key_base: e0ec946fcefea5ce0d4d924f3c8db11dffeb7d10b320a691",
            "e0ec946fcefea5ce0d4d924f3c8db11dffeb7d10b320a691",
        ),
        ("POSTGRES_PASSWORD: wossname\n", "wossname"),
        ("- MYSQL_ROOT_PASSWORD=gorm\n", "gorm"),
        ("docker run -e DB_PASS=correct-horse img", "correct-horse"),
        ("oauth_token=kjerht2309uf90asd&x=1", "kjerht2309uf90asd"),
        ("user.set_password(\"hunter22\")", "hunter22"),
        ("password = \"harbvcrtvoxqjfeuaqbtalcypoixyw\"", "harbvcrtvoxqjfeuaqbtalcypoixyw"),
        ("password: harbvcrtvoxqjfeuaqbtalcypoixyw\n", "harbvcrtvoxqjfeuaqbtalcypoixyw"),
        ("password = \"hunter2xyz\"", "hunter2xyz"),
        ("password: 'p@ssword',", "p@ssword"),
        ("password_confirmation: \"saweeeet2\",", "saweeeet2"),
        ("consumer_secret: 'j49sk3j29djd',", "j49sk3j29djd"),
        ("oauth_consumer_key: '9djdj82h48djs9d2',", "9djdj82h48djs9d2"),
        ("\"auth\": \"X3Rva2VuOjEyMzQuMThqZjg0MWZrbDQwYU90\"", "X3Rva2VuOjEyMzQuMThqZjg0MWZrbDQwYU90"),
        ("login password=k7Qz9fXw2LmP4vRt, ip=198.51.100.7", "k7Qz9fXw2LmP4vRt"),
        ("INFO user=ada api_key=k7Qz9fXw2LmP4vRt, ip=198.51.100.7", "k7Qz9fXw2LmP4vRt"),
        ("(password=k7Qz9fXw2LmP4vRt)", "k7Qz9fXw2LmP4vRt"),
        ("{password=k7Qz9fXw2LmP4vRt}", "k7Qz9fXw2LmP4vRt"),
        ("Login(user=ada, token: k7Qz9fXw2LmP4vRt)", "k7Qz9fXw2LmP4vRt"),
        ("map[api_key:k7Qz9fXw2LmP4vRt]", "k7Qz9fXw2LmP4vRt"),
        ("user=ada|secret=k7Qz9fXw2LmP4vRt|ip=198.51.100.7", "k7Qz9fXw2LmP4vRt"),
        ("env:\n  - name: DB_PASSWORD\n    value: k7Qz9fXw2LmP4vRt\n", "k7Qz9fXw2LmP4vRt"),
        ("env=[{\"name\":\"API_KEY\",\"value\":\"k7Qz9fXw2LmP4vRt\"}] started", "k7Qz9fXw2LmP4vRt"),
        ("{'name': 'Cookie', 'value': 'sid=k7Qz9fXw2LmP4vRt'}", "sid=k7Qz9fXw2LmP4vRt"),
        ("headers=[(b'Host', b'h'), (b'cookie', b'sid=k7Qz9fXw2LmP4vRt')]", "sid=k7Qz9fXw2LmP4vRt"),
        ("cookies={'lang': u'en', b'sid': b'k7Qz9fXw2LmP4vRt'}", "k7Qz9fXw2LmP4vRt"),
        ("requests.get(url, cookies={'sid':'k7Qz9fXw2LmP4vRt'})", "k7Qz9fXw2LmP4vRt"),
        ("cookies = {\"lang\": \"en\", \"sid\": \"k7Qz9fXw2LmP4vRt\"}", "k7Qz9fXw2LmP4vRt"),
        ("sent 'cookies': {'sid': 'k7Qz9fXw2LmP4vRt'}, 'x': 'k7Qz9fXw2LmP4vRs'", "k7Qz9fXw2LmP4vRt"),
        ("log {\\\"cookies\\\": {\\\"sid\\\": \\\"k7Qz9fXw2LmP4vRt\\\"}}", "k7Qz9fXw2LmP4vRt"),
    ] {
        assert_eq!(secrets(text), [secret], "{text}");
    }
}

#[test]
fn placeholders_for_credentials_stay() {
    for text in [
        "password=${DB_PASSWORD}",
        "password=$PASSWORD",
        "password: <password>",
        "token: xxxxxxxxxxxxxxxx",
        "token = \"your-token-here-1234\"",
        "api_key: YOUR_API_KEY_123",
        "password: changeme123",
        "password = \"{{ vault_password_1 }}\"",
        "api_key = os.environ[\"API_KEY_2\"]",
        "token = get_token2()",
        "self.token = token2",
        "connect(password=password2, user=user1)",
        "password: string",
        "password: Option<String>,",
        "Password: required, at least 8 characters",
        "\"password\": \"required|string|min:8\"",
        "if password == \"hunter22\" {",
        "token::Kind2",
        "type: 'password', name: 'password2'",
        "secret: /run/secrets/db2",
        "next_page_token=CAESBAgDEAE4nAH2VzKrMrRjySLlt8",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN1",
        "Authorization: Basic realm",
        "Cookie: name=value; name2=value2",
        "Set-Cookie: lang=en; Expires=Wed, 21 Oct 2026 07:28:00 GMT",
        "password=<redacted: password, 8 bytes, #00000000>",
        "token: my-secret-token-2",
        "passwords: 12345678",
        "password hash: sha256",
        "key: value",
        "const cookie = request.getHeader('cookie2');",
        "authorization: header(&headers, AUTHORIZATION2),",
        "tests.pass(\"tests/01-parse.rs\")",
        "raw_private_key: Curve25519SeedBin",
        "credentials: someone256/home#assets/crates-credentials",
        "let secret = b\"\\x9b\\xbe\\x43\\x6b\\xa9\\x40\";",
        "(?P<secret>AIza[a-zA-Z0-9_-]{35})",
        "\"access_token\": \"m2m-access-token-12345\"",
        "pub const ESCAPE_DEFRAG_PASS: D3DKMT_DEFRAG_ESCAPE_OPERATION = 3i32;",
        "pub const ERROR_INVALID_PASSWORD: WIN32_ERROR = 86u32;",
        "pub Authorization: PRESENCE_0,",
        "fn fetch(pcookie : *mut USAGE_COOKIE1) -> i32",
        "def __iter__(self) -> Iterator[Cookie]:  # type: ignore[override1]",
        "cookie := cookies1[0]",
        "pub const ERROR_COOKIE: WIN32_ERROR = 13846u32;",
        "session.headers.update({\"Proxy-Authorization\": proxy_value1})",
        "MLKEM768X25519PrivateKey = rust_openssl.hpke.MLKEM768X25519PrivateKey",
        "{\"sessioncookie\": \"123456789\"}",
        "\"private_key\": r\"-----BEGIN (?:RSA|DSA|EC) PRIVATE KEY-----\"",
        "headers = {'Authorization': 'AWS4-HMAC-SHA256 ...'}",
        "headers={\"Authorization\": \"Basic notabase64token1\"}",
        "headers = {'Authorization': 'Bearer ntn_test_token_123'}",
        "user.set_passwd(\"hi,i_am_passwd\")",
        "db.store_password(\"alice1\", \"…\")",
        "\"hashed_password\": \"fakehashedsecret2\"",
        "access_key: A1B2C3D4E5F6G7H8I9J0",
        "DB_PASSWORD=password",
        "DB_PASSWORD=secret",
        "TEST_PASSWORD: string",
        "password: wachtwoord",
        "'password' => 'kennwort',",
        "password = \"butterfly\"",
        "password = \"correcthorsebatterystaple\"",
        "password: internationalisationdictionary",
        "DEFAULT_ADMIN_PASS = \"admin123\"",
        "password=\"testpass123\"",
        "should_pass(\"WinDLL('./_sqlite3.dll')\")",
        "connect(password=hunter22, user=ada)",
        "f(token=token_of_the_user2)",
        "signing_key: Ed25519SigningKey,",
        "pub Token: D3DKMT_PRESENTHISTORYTOKEN_0,",
        "Self { password: password2, token: next_token_value22 }",
        "cookies={'lang': 'en', 'theme': 'dark'}",
        "cookies={name1: value1, sid: getSession(\"k7Qz9fXw2LmP4vRt\")}",
        "cookie = {};",
        "- name: DB_PASSWORD\n  valueFrom: k7Qz9fXw2LmP4vRt",
        "- name: colour\n  value: k7Qz9fXw2LmP4vRt",
        "- name: password\n  value: required",
        "value: k7Qz9fXw2LmP4vRt",
        "cookies={'sid': '",
        "cookies: {\n    [cookie: string]: string;\n}",
        "portfolio_share_token = f\"share-{portfolio_id}-{org_type}-{org_value}\"",
        "self.update_token = \"1a2b3c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d\"",
        "otpauth://totp/KeePassXC:none?secret=JBSWY3DPEHPK3PXP&period=30",
    ] {
        assert_eq!(secrets(text), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn a_mark_is_no_value() {
    let stamp = Stamp::new([5; 32]);
    let mut found = Vec::new();
    let marks: Vec<Range<usize>> = std::iter::once(12..24).collect();
    find("Cookie: sid=k7Qz9fXw2LmP", &stamp, &marks, &mut found);
    assert!(found.is_empty());
}

#[test]
fn a_word_is_a_password_where_its_form_or_the_user_beside_it_says_so() {
    for (text, secret) in [
        ("tc.connect(username=\"slowdive\", password=\"pygmalion\")", "pygmalion"),
        ("connect(host, password=\"television\")", "television"),
        ("{'username': 'sakuya', 'password': 'izayoi'}", "izayoi"),
        ("[json| { \"password\": \"lemontree\" } |]", "lemontree"),
        ("const password = 'superexpress';", "superexpress"),
        ("c.User = \"gromit\"\nc.Password = \"penguin\"", "penguin"),
        ("username = \"telegraf\"\npassword = \"metricsmetrics\"", "metricsmetrics"),
        ("auth: { user: 'Mufasa', pass: 'CircleOfLife' }", "CircleOfLife"),
        ("authorization {\n  user: derek\n  password: porkchop\n  timeout: 1\n}", "porkchop"),
        ("{user: ivan, password: ivan}", "ivan"),
        ("client.username=canal\nclient.password=canal\n", "canal"),
        ("RemoteUser=xuesong12\nIp=192.0.2.1\nRemotePasswd=xuesong\n", "xuesong"),
        ("curl -d 'auth_user=fdgxf&auth_pwd=oxfdscds&x=1'", "oxfdscds"),
        ("users = [{user: \"user1\", password: \"user1\"}]", "user1"),
        ("$dbuser = 'root';\n$dbpasswd = 'pass123';", "pass123"),
        ("nextcloud_sql_password: \"nextcloud-sea\"", "nextcloud-sea"),
        ("    keystore_password: cassandra\n", "cassandra"),
        ("#   username: kataras\n#   password: kataras_pass\n", "kataras_pass"),
        ("store(username='reimu', secret='hakurei')", "hakurei"),
        ("jwt-secret = \"reallyreallyreallyreallyverysafe\"", "reallyreallyreallyreallyverysafe"),
        ("account.setPassword(\"lemontree\")", "lemontree"),
        ("\\$DB['PASSWORD'] = 'zabbix';", "zabbix"),
    ] {
        assert_eq!(secrets(text), [secret], "{text}");
    }
    for text in [
        "{ \"Username\": \"Benutzername\", \"Password\": \"Geheimwort\" }",
        "username: 'Nombre de usuario', password: 'Contrasena'",
        "email: EmailStr\npassword: SecretStr\n",
        "user: string,\n  password: string,",
        "login(user=user, password=password)",
        "connect(user=\"user\", password=\"pass\")",
        "username=\"testuser\", password=\"testpass\"",
        "{ username: login, password: hashedPassword }",
        "username = user\npassword = candidate\n",
        "user_password: hashed\n",
        "render_pass = \"opaque\"",
        "{ pass: \"opaque\" }",
        "password: { type: 'string' }",
        "form.password('label')",
        "reset_password('email')",
        "if (username == \"paranoid\" and password == \"paranoid\")",
        "this.password = this.form.password",
        "secret=\"internal\"",
        "username: admin\npassword: changeme\n",
        "username: \"x\", password: \"password\"",
    ] {
        assert_eq!(secrets(text), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn the_values_of_a_list_and_of_text_within_text_are_found() {
    let two = ["08f5098517a10231", "8d219a2e09242e02"];
    assert_eq!(secrets("{\"color\":null,\"tokens\":[\"08f5098517a10231\",\"8d219a2e09242e02\"],\"x\":1"), two);
    assert_eq!(secrets("API_KEYS = ['08f5098517a10231', '8d219a2e09242e02']"), two);
    assert_eq!(secrets("log {\\\"tokens\\\": [\\\"08f5098517a10231\\\", \\\"8d219a2e09242e02\\\"]}"), two);
    assert_eq!(
        secrets("headers:\n  Authorization:\n  - Bearer 0383e3ae4c7d8e14ba17af871cf5211c\n  Accept:\n  - '*/*'\n"),
        ["Bearer 0383e3ae4c7d8e14ba17af871cf5211c"]
    );
    assert_eq!(
        secrets("Set-Cookie:\r\n    - lang=en\r\n    - \"auth.sid=s%3AFkrpEHCCrdXVdhqCoBAEXYMw; Path=/\"\r\n"),
        ["auth.sid=s%3AFkrpEHCCrdXVdhqCoBAEXYMw; Path=/"]
    );
    assert_eq!(
        secrets(
            "{\"Apitoken\":\"{\\\"name\\\":\\\"root\\\",\\\"sig\\\":\\\"427d6803b78311e68afd0242\\\"}\",\"A\":\"b\"}"
        ),
        ["427d6803b78311e68afd0242"]
    );
    for text in [
        "\"tokens\": [\"identifier\", \"string\", \"number2\"]",
        "tokens = [1, 2, 3]",
        "tokens: [token1, token2]",
        "Authorization:\n  - required\n  - Basic\n",
        "Authorization:\n- name: x1\n",
        "Authorization:\n  - Bearer <token>\n",
        "let tokens = [\"08f5098517a10231",
        "Cookie:\n  - theme=dark\n",
    ] {
        assert_eq!(secrets(text), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn keys_of_services_and_names_of_two_words_are_known() {
    for (text, secret) in [
        ("STEAM_KEY=D1240DEF4D41D416FD291D0075B6ED3F\n", "D1240DEF4D41D416FD291D0075B6ED3F"),
        ("GOOGLE_SECRET=JdZsIaWhUFIchmC1a_IZzOHb\n", "JdZsIaWhUFIchmC1a_IZzOHb"),
        ("export const apiKey = 'ccJMY9txxWhRRMWNLgOT';", "ccJMY9txxWhRRMWNLgOT"),
        ("'cookieValidationKey' => 'O1d232trde1x-M97_7QvwPo-5QGdkLMp#@#@',", "O1d232trde1x-M97_7QvwPo-5QGdkLMp#@#@"),
        ("> Consumer Key: ``RKCGzna7bv9YD57c``\n", "RKCGzna7bv9YD57c"),
        ("> Consumer Secret: ``D+EdQ-gs$-%@2Nu7``\n", "D+EdQ-gs$-%@2Nu7"),
        ("MINIO_SECRET_KEY: minio123\n", "minio123"),
        ("https://h/cb?oauth_token=kjherht2309uf&x=1", "kjherht2309uf"),
        ("'oauth_token_secret': 'lsdajfh923874',", "lsdajfh923874"),
        ("- \"WLS_PW=weblogic1\"", "weblogic1"),
        (
            "\"smtp_password_v4\": \"BGs3WynOIYxgkjXeS7hNjFqhSSjjKHoTBLwObSd3pcSr\"",
            "BGs3WynOIYxgkjXeS7hNjFqhSSjjKHoTBLwObSd3pcSr",
        ),
        (
            "define('AUTH_SALT', 'Ed&1cr+{3T$a+{[8LP~i5-[|Z`x-V>;Di_C/E~UnSg{n[h#{D[-t>yIU');",
            "Ed&1cr+{3T$a+{[8LP~i5-[|Z`x-V>;Di_C/E~UnSg{n[h#{D[-t>yIU",
        ),
        ("export MLAB_PASS='password123'", "password123"),
        ("const secretKey = createSecretKey(Buffer.from('7f908df6c8bd634f769c', 'hex'))", "7f908df6c8bd634f769c"),
        ("manager.setCipherKey(Base64.decode(\"3AvVhmFLUs0KTA3Kprsdag==\"));", "3AvVhmFLUs0KTA3Kprsdag=="),
    ] {
        assert_eq!(secrets(text), [secret], "{text}");
    }
    for text in [
        "const STORAGE_KEY = 'theme-settings-v2';",
        "SSH_PUBLIC_KEY=AAAAC3NzaC1lZDI1NTE5AAAAIJ1240DEF4D41D",
        "CACHE_KEY = `user_${id}_22`",
        "Public Key: 1240DEF4D41D416FD291D0075B6ED3F",
        "The key: k7Qz9fXw2LmP4vRt",
        "user=FILE0 password=FILE1 0=users.txt",
        "user_pass=COMBO00:COMBO01 0=list.txt",
        "Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089",
        "https://h/cb?token=getAccessToken2&x=1",
        "API_TOKEN=mytoken12",
        "secret = \"toLowerCaseOfAll\"",
        "token = os.environ.get('SERVICE_TOKEN_2_V22')",
        "private_key = read(\"tests/data/rsa-2048-key2.pem\")",
        "signing_key = \"WebKitJSObjectRef\"",
    ] {
        assert_eq!(secrets(text), Vec::<&str>::new(), "{text}");
    }
}
