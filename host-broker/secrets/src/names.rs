//! Names beside which credentials stand: members of JSON, variables, headers, attributes, parameters of addresses.
//!
//! One list serves everything that is written as a name and a value. A name counts in every spelling (`api_key`,
//! `apiKey`, `API-KEY`). A whole name makes any value a credential. A name that only ends so (`DB_PASSWORD`,
//! `github_token`) needs a value that looks like one.

/// The kind of value beside a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A header, whose value goes to the end of its line.
    Header,
    /// A password, which a person may have chosen.
    Password,
    /// A key or a token, which was made at random.
    Key,
}

/// A name of the list, in small letters and without separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// The kind that the mark shows.
    pub kind: &'static str,
    /// The kind of the value.
    pub sort: Sort,
    /// Whether the whole name makes any value a credential.
    is_sure: bool,
}

impl Name {
    /// Returns whether the whole name makes any value a credential.
    pub fn is_sure(self) -> bool {
        self.is_sure
    }
}

const fn sure(kind: &'static str, sort: Sort) -> Name {
    Name { kind, sort, is_sure: true }
}

const fn likely(kind: &'static str, sort: Sort) -> Name {
    Name { kind, sort, is_sure: false }
}

/// The list. If two of its names end a name, the first one counts.
const NAMES: [Name; 63] = [
    sure("accesstoken", Sort::Key),
    sure("refreshtoken", Sort::Key),
    sure("idtoken", Sort::Key),
    sure("clientsecret", Sort::Key),
    sure("setcookie", Sort::Header),
    sure("cookiejar", Sort::Header),
    sure("cookies", Sort::Header),
    sure("cookie", Sort::Header),
    sure("proxyauthorization", Sort::Header),
    sure("authorization", Sort::Header),
    sure("apikey", Sort::Key),
    sure("password", Sort::Password),
    sure("privatekey", Sort::Key),
    sure("sessiontoken", Sort::Key),
    sure("privatetoken", Sort::Key),
    sure("authtoken", Sort::Key),
    sure("oauthtoken", Sort::Key),
    sure("bearertoken", Sort::Key),
    sure("apitoken", Sort::Key),
    sure("apisecret", Sort::Key),
    sure("secretaccesskey", Sort::Key),
    sure("secretkeybase", Sort::Key),
    sure("passwd", Sort::Password),
    sure("passphrase", Sort::Password),
    sure("userpass", Sort::Password),
    likely("secretkey", Sort::Key),
    likely("accesskey", Sort::Key),
    likely("signingkey", Sort::Key),
    likely("encryptionkey", Sort::Key),
    likely("masterkey", Sort::Key),
    likely("storagekey", Sort::Key),
    likely("accountkey", Sort::Key),
    likely("sharedkey", Sort::Key),
    likely("authkey", Sort::Key),
    likely("appkey", Sort::Key),
    likely("consumerkey", Sort::Key),
    likely("oauthverifier", Sort::Key),
    likely("oauthsignature", Sort::Key),
    likely("credentialvalue", Sort::Key),
    likely("passwordconfirmation", Sort::Password),
    likely("passwordrepeat", Sort::Password),
    likely("appsecret", Sort::Key),
    likely("webhooksecret", Sort::Key),
    likely("sessionid", Sort::Key),
    likely("sessid", Sort::Key),
    likely("sessionkey", Sort::Key),
    likely("securekey", Sort::Key),
    likely("loggedinkey", Sort::Key),
    likely("noncekey", Sort::Key),
    likely("validationkey", Sort::Key),
    likely("decryptionkey", Sort::Key),
    likely("cipherkey", Sort::Key),
    likely("authsalt", Sort::Key),
    likely("loggedinsalt", Sort::Key),
    likely("noncesalt", Sort::Key),
    likely("auth", Sort::Key),
    likely("credentials", Sort::Key),
    likely("credential", Sort::Key),
    likely("secret", Sort::Key),
    likely("token", Sort::Key),
    likely("pwd", Sort::Password),
    likely("pass", Sort::Password),
    likely("pw", Sort::Password),
];

/// Variables of the environment that end in `_KEY` hold the keys of services, under any name before it.
const VARIABLE: Name = likely("key", Sort::Key);

/// Beginnings of the names of variables for keys that are no credentials: published ones, and those of tables.
const OTHER_KEYS: [&str; 10] =
    ["PUBLIC", "PUB", "PRIMARY", "FOREIGN", "SORT", "CACHE", "PARTITION", "HOT", "INDEX", "GPG"];

/// Ends of names that only look like the list: places in a list of results, and names of no value.
const OTHERS: [&str; 15] = [
    "pagetoken",
    "nexttoken",
    "previoustoken",
    "continuationtoken",
    "continuetoken",
    "synctoken",
    "cursortoken",
    "cancellationtoken",
    "canceltoken",
    "stoptoken",
    "publickeytoken",
    "bypass",
    "compass",
    "oauth",
    "preauth",
];

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Returns the kinds of all names.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|name| name.kind).chain([VARIABLE.kind])
}

/// Returns the name of the list that this one spells, if that name makes any value a credential.
pub fn whole(name: &str) -> Option<Name> {
    NAMES.into_iter().find(|listed| listed.is_sure && letters(name).eq(listed.kind.bytes()))
}

/// Returns the name of the list with which this one ends.
pub fn ending(name: &str) -> Option<Name> {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    // `smtp_password_v4`.
    let name = name.strip_suffix("_v").unwrap_or(name).trim_end_matches(['_', '-']);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || OTHERS.iter().any(|other| ends_with(name, other)) {
        return None;
    }
    NAMES
        .into_iter()
        .find(|listed| ends_with(name, listed.kind) && (listed.kind.len() > 4 || begins_a_word(name, listed)))
}

/// Returns the name of the list of whose values this one holds several: `tokens`, `API_KEYS`.
pub fn plural(name: &str) -> Option<Name> {
    let one = name.strip_suffix(['s', 'S'])?;
    // `pass` is no plural.
    ending(one).filter(|_| ending(name).is_none())
}

/// Returns the name that a variable of the environment has, which ends in `_KEY`.
pub fn variable(name: &str) -> Option<Name> {
    let before = name.strip_suffix("_KEY")?;
    let is_capital = before.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let is_other = OTHER_KEYS.iter().any(|other| before.split('_').any(|word| word == *other));
    (is_capital && !before.is_empty() && name.len() <= NAME_BYTES_MAX && !is_other).then_some(VARIABLE)
}

/// Returns whether the letters that end the name begin a word: `DB_PASS` and `dbPass`, not `trespass`.
fn begins_a_word(name: &str, listed: &Name) -> bool {
    let before = name.len().checked_sub(listed.kind.len() + 1).and_then(|at| name.as_bytes().get(at..));
    match before {
        Some([before, first, ..]) => {
            !before.is_ascii_alphabetic() || before.is_ascii_lowercase() && first.is_ascii_uppercase()
        }
        Some(_) | None => true,
    }
}

fn ends_with(name: &str, listed: &str) -> bool {
    // `fs.s3a.secret.key`.
    let parts = |byte: u8| parts_words(byte) || byte == b'.';
    let mut letters = name.bytes().rev().filter(|byte| !parts(*byte)).map(|byte| byte.to_ascii_lowercase());
    listed.bytes().rev().all(|byte| letters.next() == Some(byte))
}

fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| !parts_words(*byte)).map(|byte| byte.to_ascii_lowercase())
}

fn parts_words(byte: u8) -> bool {
    matches!(byte, b'_' | b'-' | b' ')
}

/// Checks whether a member of this name holds a credential.
pub fn is_credential_key(name: &str) -> bool {
    whole(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_name_counts() {
        for name in ["access_token", "accessToken", "AccessToken", "ACCESS-TOKEN", "access token"] {
            assert_eq!(whole(name).map(|name| name.kind), Some("accesstoken"), "{name}");
        }
        for (name, kind) in [
            ("DB_PASSWORD", "password"),
            ("sshUserPassword", "password"),
            ("spring.datasource.password", "password"),
            ("HOMEBREW_GITHUB_API_TOKEN", "apitoken"),
            ("MLAB_PASS", "pass"),
            ("dbPass", "pass"),
            ("//registry.example.com/:_authToken", "authtoken"),
            ("X-Api-Key", "apikey"),
            ("PASSWORD_2", "password"),
            ("_auth", "auth"),
            ("AWS_SECRET_ACCESS_KEY", "secretaccesskey"),
            ("smtp_password_v4", "password"),
            ("fs.s3a.secret.key", "secretkey"),
            ("WLS_PW", "pw"),
            ("cookieValidationKey", "validationkey"),
        ] {
            assert_eq!(ending(name).map(|name| name.kind), Some(kind), "{name}");
            assert_eq!(ending(name).and_then(|_| whole(name)).is_some(), name == "DB", "{name}");
        }
    }

    #[test]
    fn names_that_resemble_a_credential_name_are_none() {
        for name in [
            "nextPageToken",
            "page_token",
            "NextToken",
            "password_changed_at",
            "token_type",
            "tokens",
            "trespass",
            "bypass",
            "compass",
            "oauth",
            "keys",
            "",
            "_",
            "passwordField",
            "renpw",
        ] {
            assert_eq!(ending(name), None, "{name}");
        }
    }

    #[test]
    fn a_plural_and_a_variable_are_known_by_their_end() {
        for (name, kind) in [("tokens", "token"), ("API_KEYS", "apikey"), ("refreshTokens", "refreshtoken")] {
            assert_eq!(plural(name).map(|name| name.kind), Some(kind), "{name}");
        }
        for name in ["pass", "keys", "token", "nextPageTokens", "s", ""] {
            assert_eq!(plural(name), None, "{name}");
        }
        for name in ["STEAM_KEY", "LASTFM_KEY", "A_B2_KEY"] {
            assert_eq!(variable(name).map(|name| name.kind), Some("key"), "{name}");
        }
        for name in ["steam_key", "KEY", "_KEY_", "SSH_PUBLIC_KEY", "PRIMARY_KEY", "GPG_KEY", "STEAM_KEYS", "Steam_KEY"]
        {
            assert_eq!(variable(name), None, "{name}");
        }
    }
}
