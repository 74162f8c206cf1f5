//! The formats that a pattern alone does not tell: each has a second check in `checks` (check digits where the service
//! computes some, a header that can be decoded, a mixture that no word of a language has), or reaches over lines.

use super::checks;
use regex::Regex;
use secrets::search::Found;
use secrets::search::mark::Stamp;
use std::ops::Range;
use std::sync::OnceLock;

/// One kind of credential.
pub(super) struct Format {
    /// Its kind in the mark.
    pub(super) kind: &'static str,
    /// Lower-case words of which one occurs in every instance.
    pub(super) words: &'static [&'static str],
    /// Its group `secret` is the removed part.
    pattern: &'static str,
    /// Whether a match really is one.
    accept: fn(&str) -> bool,
    /// Whether an instance ends where the letters, digits, `_` and `-` end.
    bounded: bool,
    /// Whether `accept` looks at the removed part alone.
    alone: bool,
    compiled: OnceLock<Regex>,
}

impl Format {
    const fn new(
        kind: &'static str,
        words: &'static [&'static str],
        pattern: &'static str,
        accept: fn(&str) -> bool,
    ) -> Self {
        Self { kind, words, pattern, accept, bounded: true, alone: false, compiled: OnceLock::new() }
    }

    const fn unbounded(mut self) -> Self {
        self.bounded = false;
        self
    }

    const fn judged_alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Its pattern, compiled once.
    pub(super) fn regex(&self) -> &Regex {
        #[expect(clippy::expect_used, reason = "constant patterns; a test compiles every one")]
        self.compiled.get_or_init(|| Regex::new(self.pattern).expect("a valid pattern"))
    }

    /// Adds every place in the text.
    pub(super) fn find(&self, text: &str, stamp: &Stamp, found: &mut Vec<Found>) {
        for captures in self.regex().captures_iter(text) {
            let Some(secret) = captures.name("secret") else { continue };
            let judged = if self.alone { secret } else { captures.get_match() };
            if (self.bounded && !is_bounded(text, &secret.range())) || !(self.accept)(judged.as_str()) {
                continue;
            }
            found.push(Found { range: secret.range(), mark: stamp.mark(self.kind, secret.as_str()) });
        }
    }
}

/// Checks whether the characters left and right could not be a part of it.
fn is_bounded(text: &str, range: &Range<usize>) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let left = range.start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    !left.is_some_and(is_word) && !text.as_bytes().get(range.end).is_some_and(is_word)
}

/// All of them.
pub(super) static FORMATS: [Format; 31] = [
    Format::new(
        "github token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"(?-u)(?P<secret>gh[pousr]_[A-Za-z0-9_.-]{36,1024})",
        checks::github,
    ),
    Format::new(
        "github token",
        &["github_pat_"],
        r"(?-u)(?P<secret>github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})",
        checks::mixed,
    ),
    Format::new(
        "aws access key id",
        &["akia", "asia"],
        r"(?-u)(?P<secret>(?:AKIA|ASIA)[A-Z2-7]{16})",
        checks::not_an_example,
    ),
    Format::new(
        "slack token",
        &["xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxc-", "xoxd-", "xapp-"],
        r"(?-u)(?P<secret>(?:xox[abcdeoprs](?:\.xox[bp])?|xapp)-[A-Za-z0-9%-]{20,512})",
        checks::varied,
    ),
    Format::new(
        "slack webhook",
        &["hooks.slack.com"],
        r"(?-u)hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/]{30,128})",
        checks::webhook,
    ),
    Format::new(
        "stripe key",
        &["sk_live_", "rk_live_"],
        r"(?-u)(?P<secret>[sr]k_live_[A-Za-z0-9]{16,256})",
        checks::varied,
    ),
    Format::new("google api key", &["aiza"], r"(?-u)(?P<secret>AIza[A-Za-z0-9_-]{35})", checks::mixed),
    Format::new("npm token", &["npm_"], r"(?-u)(?P<secret>npm_[A-Za-z0-9]{36})", checks::check_digits),
    Format::new("api key", &["sk-"], r"(?-u)(?P<secret>sk-[A-Za-z0-9_-]{20,512})", checks::mixed),
    Format::new(
        "private key",
        &["private key-----", "private key block-----"],
        concat!(
            r"(?-u)(?P<secret>-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
            r#"(?:\\+[nr]|[\s"',>|])*"#,
            r#"(?:[A-Z][A-Za-z-]+: [ -!#-\[\]-~]*(?:\\+[nr]|[\s"',>|])+)*"#,
            r#"(?:[A-Za-z0-9+/]{20,}={0,2}(?:\\+[nr]|\\/|[\s"',>|])*)+"#,
            r#"(?:(?:[A-Za-z0-9+/]+={0,2}(?:\\+[nr]|[\s"',>|])*)*(?:=[A-Za-z0-9+/]{4}(?:\\+[nr]|[\s"',>|])*)?"#,
            r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?)",
        ),
        checks::anything,
    )
    .unbounded(),
    Format::new(
        "jwt",
        &["eyj"],
        r"(?-u)(?P<secret>eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*)",
        checks::jwt,
    ),
    Format::new(
        "url password",
        &["://"],
        r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?\#"'<>\\`]*:(?P<secret>[^\s/?\#"'<>\\`]+)@[A-Za-z0-9_.\[%-]{1,253}"#,
        checks::url_password,
    )
    .unbounded(),
    Format::new(
        "authorization",
        &["authorization"],
        concat!(
            r#"(?-u)(?i:authorization)(?:\\*["'])?[ \t]*[:=][ \t]*(?:\\*["'])?(?i:bearer|basic|token)[ \t]+"#,
            r"(?P<secret>[A-Za-z0-9._~+/=-]{8,8192})",
        ),
        checks::authorization,
    )
    .unbounded(),
    Format::new(
        "authorization",
        &["bearer ", "basic "],
        r"(?-u)\b(?i:bearer|basic)[ \t]+(?P<secret>[A-Za-z0-9._~+/=-]{12,8192})",
        checks::bare_authorization,
    )
    .unbounded(),
    // With the response, passwords can be tried without the server.
    Format::new(
        "authorization",
        &["digest "],
        concat!(
            r#"(?i-u:authorization)(?:\\*["'])?[ \t]*[:=][ \t]*(?:\\*["'])?(?i-u:digest)[ \t][^\n]{1,1024}?"#,
            r#"\bresponse=\\*["']?(?P<secret>[0-9a-f]{32,64})"#,
        ),
        checks::anything,
    ),
    Format::new(
        "password",
        &["password \"", "password\t\""],
        r#"(?m)^[ \t]*(?i-u:password)[ \t]+"(?P<secret>[^\s"]{5,256})"[ \t]*$"#,
        checks::last_word,
    )
    .unbounded(),
    // Names that a blank separates from their value: `.netrc`, command lines, SQL. Also fields known by their position.
    Format::new(
        "password",
        &["machine ", "login "],
        r"\b(?:machine[ \t]+\S+|default)\s+login[ \t]+\S+\s+password[ \t]+(?P<secret>[^\s]{3,256})",
        checks::last_password,
    )
    .unbounded(),
    Format::new(
        "password",
        &["--password", "--passwd", "--token", "--api-key", "--secret", "--access-key", "--auth-token"],
        concat!(
            r#"(?:^|[\s"'])--(?:password|passwd|token|api-key|secret(?:-key)?|access-key|auth-token)[ \t]+["']?"#,
            r#"(?P<secret>[^\s"'<>()\[\]{}|;&,`]{6,4096})"#,
        ),
        checks::last_word,
    )
    .unbounded(),
    // A parameter of PowerShell.
    Format::new(
        "password",
        &["-password "],
        r#"[ \t](?i-u:-password)[ \t]+["']?(?P<secret>[^\s"'<>()\[\]{}|;&,`$]{6,256})"#,
        checks::last_word,
    )
    .unbounded(),
    Format::new(
        "password",
        &["curl"],
        concat!(
            r#"\bcurl\b[^\n]{0,512}?[ \t](?:-u|--user)[ \t=]*["']?[^\s:"'$<{]{1,128}:"#,
            r#"(?P<secret>[^\s"'<>()\[\]{}|;&,`]{4,256})"#,
        ),
        checks::last_login,
    )
    .unbounded(),
    Format::new(
        "password",
        &["identified by"],
        concat!(
            r#"(?i-u:\b(?:user|to|for|exists)\b)[ \t]+["'`]?[^\s"'`]{1,128}["'`]?(?:@["'`]?[^\s"'`]{1,128}["'`]?)?[ \t]+"#,
            r#"(?i-u:identified[ \t]+by[ \t]+(?:password[ \t]+)?)["'](?P<secret>[^\s"']{4,256})"#,
        ),
        checks::last_password,
    )
    .unbounded(),
    Format::new(
        "password",
        &["password '", "password='", "password = '"],
        concat!(
            r"(?i-u:\b(?:user|role|login)\b)[ \t][^\n;']{1,200}(?i-u:\bpassword)[ \t]{0,4}=?[ \t]{0,4}'",
            r"(?P<secret>[^\s']{4,256})'",
        ),
        checks::last_password,
    )
    .unbounded(),
    // `.login("user", "password")`, and the third argument of a connection to a database.
    Format::new(
        "password",
        &["connect(", "login(", "log_in(", "sign_in(", "authenticate(", "basic_auth(", "basicauth("],
        concat!(
            r#"\.(?i-u:connect|login|log_in|sign_in|authenticate|(?:set_?|with_?|http_?)?basic_?auth)"#,
            r#"\([ \t]{0,4}["'][^"'\n]{1,128}["'][ \t]{0,4},[ \t]{0,4}["'](?P<secret>[^\s"']{5,256})["']"#,
        ),
        checks::last_argument,
    )
    .unbounded(),
    Format::new(
        "password",
        &["mysql_connect(", "mysqli_connect(", "getconnection(", "mysqli("],
        concat!(
            r#"(?i-u:mysqli?_connect|getconnection|new[ \t]+mysqli)\((?:[^,()\n]{1,200},){2}[ \t]{0,4}"#,
            r#"["'](?P<secret>[^\s"']{5,256})["']"#,
        ),
        checks::last_argument,
    )
    .unbounded(),
    // `host:port:database:user:password`, the lines of `.pgpass`.
    Format::new(
        "password",
        &[":5432:", ":5433:", ":6432:", ":*:"],
        concat!(
            r"(?m)^[A-Za-z0-9.*_/-]{1,253}:(?:[0-9]{2,5}|\*):[A-Za-z0-9*_-]{1,64}:[^\s:]{1,64}:",
            r"(?P<secret>[^\s]{4,256})$",
        ),
        checks::last_password,
    )
    .unbounded(),
    Format::new(
        "cookie",
        &["\ttrue\t", "\tfalse\t"],
        concat!(
            r"(?m)^(?:\#HttpOnly_)?[A-Za-z0-9.-]{3,253}\t(?:TRUE|FALSE)\t/[^\t\n]*\t(?:TRUE|FALSE)\t[0-9]{1,12}\t",
            r"[^\t\n]{1,256}\t(?P<secret>[^\t\r\n]{4,8192})",
        ),
        checks::last_field,
    )
    .unbounded(),
    // The same where a terminal or an editor has made blanks of the tabs.
    Format::new(
        "cookie",
        &["true /", "false /", "true  ", "false  ", "true\t/", "false\t/"],
        concat!(
            r"(?m)^[ \t]*(?:\#HttpOnly_)?[A-Za-z0-9.-]{3,253}[ \t]+(?:TRUE|FALSE)[ \t]+/\S*[ \t]+(?:TRUE|FALSE)[ \t]+",
            r"[0-9]{1,12}[ \t]+\S+[ \t]+(?P<secret>\S{4,})",
        ),
        checks::last_field,
    )
    .unbounded(),
    // Browsers copy a request with this option on a line of its own.
    Format::new(
        "cookie",
        &["curl", "--cookie"],
        concat!(
            r"(?m)(?:(?:\bcurl\b[^\n]{0,512}?[ \t]|^[ \t]+)",
            r#"-[A-Za-z]{0,8}b(?:[ \t]+["']?|["'])|(?:^|[ \t])--cookie(?:[ \t]+|=)["']?)"#,
            r#"(?P<secret>[^\s"'=;$<]+=[^\s"';]*(?:;[ \t]*[^\s"'=;]+=[^\s"';]*)*)"#,
        ),
        checks::cookies,
    )
    .unbounded()
    .judged_alone(),
    // `{Cookie=sid=…, Host=h}`, `map[Cookie:[sid=…]]`: a header in brackets, which programs print.
    Format::new(
        "cookie",
        &["cookie=", "cookie:"],
        concat!(
            r"(?i-u:cookie)[:=][ \t]*[\[({]{0,2}",
            r#"(?P<secret>[^\s"'=;,<>(){}\[\]]+=[^\s"';,<>(){}\[\]]*(?:;[ \t]*[^\s"'=;,<>(){}\[\]]+=[^\s"';,<>(){}\[\]]*)*)"#,
        ),
        checks::random_cookies,
    )
    .unbounded()
    .judged_alone(),
    // The text that Python prints for its jars.
    Format::new(
        "cookie",
        &["<cookie "],
        r"<Cookie [^\s=<>]+=(?P<secret>[^\s<>]{8,}) for ",
        checks::cookies,
    )
    .unbounded()
    .judged_alone(),
    // `Cookie("sid", "…")` of a program, `Cookie(version=0, name='sid', value='…')`.
    Format::new(
        "cookie",
        &["cookie("],
        concat!(
            r#"(?i-u:cookie)\((?:["'][^"'\n]{1,128}["'],[ \t]*|[^()\n]{0,200}\bvalue=)"#,
            r#"["'](?P<secret>[^"'\n]{16,})["']"#,
        ),
        checks::random,
    )
    .unbounded()
    .judged_alone(),
];
