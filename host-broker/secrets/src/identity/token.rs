//! Context tokens: the requirements for a token, and the broker's own tokens.
//!
//! A token is a compact JWS (RFC 7515, section 7.1) over the claims of a JWT (RFC 7519). [`read`] takes it apart and
//! asks the [`Issuers`] for its alleged signer. A token is valid only in the one form and with the one algorithm of its
//! issuer. Ambiguous tokens are refused: padding, other spellings of the same bytes, members that occur twice, unknown
//! headers.
//!
//! ```text
//! {"alg":"EdDSA","typ":"JWT"}
//! {"iss":"broker","aud":"host-broker:5f2c…","sub":"user-1","iat":…,"exp":…,"jti":"…","group":"family","chat_type":"private"}
//! ```

use super::issuers::{Issuer, Issuers, Scheme};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{ChatType, Person, TokenError};
use serde_json::{Map, Value};
use shared::{Group, Timestamp, json};
use std::time::Duration;

/// How far clocks may be apart.
const LEEWAY_S: i64 = 30;
/// How long a token may live.
pub const LIFE_MAX: Duration = Duration::from_secs(3600);
/// The default lifetime of a token.
pub const LIFE: Duration = Duration::from_secs(900);
/// A token longer than this is not looked at.
const BYTES_MAX: usize = 8 * 1024;
/// A text in a token may be this long, in bytes.
const TEXT_MAX: usize = 256;
/// The only version of tokens that there is.
const VERSION: i64 = 1;
/// The `typ` of a token with a shared secret.
const LEGACY_TYPE: &str = "ASH_CONTEXT";

/// The person that a token proves to stand behind a request of this group.
///
/// # Errors
/// [`TokenError`], with a reason that quotes nothing of the token.
pub fn read(token: &str, group: &Group, issuers: &Issuers, now: Timestamp) -> Result<Person, TokenError> {
    let trimmed = token.trim();
    if trimmed.is_empty() {
        return Err(TokenError::Missing);
    }
    if trimmed.len() > BYTES_MAX {
        return Err(TokenError::Invalid("it is too long"));
    }
    let mut parts = trimmed.split('.');
    let (Some(head), Some(body), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Invalid("it has not three parts"));
    };
    let header = object(head).ok_or(TokenError::Invalid("its header cannot be read"))?;
    let claims = Claims(object(body).ok_or(TokenError::Invalid("its claims cannot be read"))?);
    let signature = decoded(signature).ok_or(TokenError::Invalid("its signature cannot be read"))?;
    let issuer = issuers.find(&header, claims.text("iss")?.as_deref())?;
    let known = |member: &String| ["alg", "typ", "ver", "kid"].contains(&member.as_str());
    if !header.keys().all(known) {
        return Err(TokenError::Invalid("its header has a member that is not known"));
    }
    let signed = trimmed.get(..head.len() + 1 + body.len()).unwrap_or_default();
    if !issuer.verifies(signed.as_bytes(), &signature) {
        return Err(TokenError::Invalid("its signature does not verify"));
    }
    let legacy = issuer.scheme() == Scheme::Hs256;
    if !legacy && trimmed.len() != token.len() {
        return Err(TokenError::Invalid("there is white space around it"));
    }
    if legacy && header.get("typ").and_then(Value::as_str) != Some(LEGACY_TYPE) {
        return Err(TokenError::Invalid("its type is another one"));
    }
    for version in [header.get("ver"), claims.0.get("ver")] {
        if version.is_some_and(|version| version.as_i64() != Some(VERSION)) || legacy && header.get("ver").is_none() {
            return Err(TokenError::Invalid("its version is not known"));
        }
    }
    claims.audience(&issuers.audience, legacy)?;
    claims.time(now, legacy)?;
    claims.person(issuer, group, legacy)
}

/// The use to which a token is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The only group that may use it; `None` means any group.
    pub group: Option<String>,
    /// The time of its expiry.
    pub expires_at: Option<Timestamp>,
}

/// Returns the use to which a token is limited, without verifying the token. [`read`] verifies it.
pub fn scope(token: &str) -> Scope {
    let body = token.trim().split('.').nth(1).and_then(object);
    let claims = Claims(body.unwrap_or_default());
    let expires_at = claims.seconds("exp", true).ok().flatten().and_then(|seconds| seconds.checked_mul(1000));
    Scope { group: claims.name("group", true).ok().flatten(), expires_at: expires_at.map(Timestamp::from_millis) }
}

/// The content of a token of the broker's own.
#[derive(Debug, Clone, Default)]
pub struct ExpectedClaims {
    /// The person.
    pub sub: String,
    /// The one group that may use it.
    pub group: Option<Group>,
    /// The chat.
    pub chat_id: Option<String>,
    /// Its kind.
    pub chat_type: Option<ChatType>,
    /// The thread within it.
    pub thread_id: Option<String>,
    /// The messenger that the chat belongs to.
    pub provider: Option<String>,
    /// The conversation that the agent is in.
    pub session_key: Option<String>,
    /// The person's name at the source.
    pub source_username: Option<String>,
    /// The person's chosen display name.
    pub source_display_name: Option<String>,
}

impl ExpectedClaims {
    /// Returns the content for a person in this group. `sub` is the person's name for the reader of the token.
    pub fn of(person: &Person, sub: String, group: Option<&Group>) -> Self {
        Self {
            sub,
            group: group.cloned(),
            chat_id: person.chat_id.clone(),
            chat_type: person.chat_type,
            thread_id: person.thread_id.clone(),
            provider: person.provider.clone(),
            session_key: person.session_key.clone(),
            source_username: person.source_username.clone(),
            source_display_name: person.source_display_name.clone(),
        }
    }
}

/// The claims of a token that lives from `now` on for `life`, as JSON; `jti` is its name.
pub fn claims(wanted: &ExpectedClaims, audience: &str, jti: String, now: Timestamp, life: Duration) -> Vec<u8> {
    let mut claims = told(wanted, jti, now, life);
    claims.insert("iss".to_owned(), super::issuers::OWN.into());
    claims.insert("aud".to_owned(), audience.into());
    json::canonical(&claims)
}

/// The same as Ash writes them: without issuer and audience, and with the version that its readers ask for.
pub fn legacy_claims(wanted: &ExpectedClaims, jti: String, now: Timestamp, life: Duration) -> Vec<u8> {
    let mut claims = told(wanted, jti, now, life);
    claims.insert("ver".to_owned(), VERSION.into());
    json::canonical(&claims)
}

fn told(wanted: &ExpectedClaims, jti: String, now: Timestamp, life: Duration) -> Map<String, Value> {
    let iat = now.millis().div_euclid(1000);
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let members = [
        ("sub", Some(Value::from(wanted.sub.clone()))),
        ("iat", Some(Value::from(iat))),
        ("exp", Some(Value::from(iat + i64::try_from(life.as_secs()).unwrap_or(i64::MAX)))),
        ("jti", Some(Value::from(jti))),
        ("group", wanted.group.as_ref().map(|group| Value::from(group.as_str()))),
        ("chat_id", text(&wanted.chat_id)),
        ("chat_type", wanted.chat_type.map(|kind| Value::from(kind.word()))),
        ("thread_id", text(&wanted.thread_id)),
        ("provider", text(&wanted.provider)),
        ("session_key", text(&wanted.session_key)),
        ("source_username", text(&wanted.source_username)),
        ("source_display_name", text(&wanted.source_display_name)),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The token of these claims, a JSON object; `sign` makes the signature.
pub fn signed(claims: &[u8], sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    token(&serde_json::json!({ "alg": "EdDSA", "typ": "JWT" }), claims, sign)
}

/// The same with a shared secret, as Ash signs.
pub fn legacy(claims: &[u8], sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    token(&serde_json::json!({ "alg": "HS256", "typ": LEGACY_TYPE, "ver": VERSION }), claims, sign)
}

fn token(header: &Value, claims: &[u8], sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let header = json::canonical(header);
    let mut token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(token.as_bytes()));
    token.push('.');
    token.push_str(&signature);
    token
}

/// Base64url in its one form: without padding, without bits that are passed over.
fn decoded(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn object(part: &str) -> Option<Map<String, Value>> {
    json::parse_object(&decoded(part)?).ok()
}

struct Claims(Map<String, Value>);

impl Claims {
    /// A claim that is there; `null` is none.
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text that a line can hold.
    fn text(&self, name: &'static str) -> Result<Option<String>, TokenError> {
        let good =
            |text: &&String| text.len() <= TEXT_MAX && !text.trim().is_empty() && !text.chars().any(char::is_control);
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                Some(text).filter(good).cloned().map(Some).ok_or(TokenError::Invalid("a claim is empty or unprintable"))
            }
            Some(_) => Err(TokenError::Invalid("a claim is of another type than it must be")),
        }
    }

    /// The same where old tokens may have a whole number.
    fn name(&self, name: &'static str, legacy: bool) -> Result<Option<String>, TokenError> {
        match self.get(name) {
            Some(Value::Number(number)) if legacy && (number.is_i64() || number.is_u64()) => {
                Ok(Some(number.to_string()))
            }
            _ => self.text(name),
        }
    }

    /// Seconds since 1970, whole ones.
    fn seconds(&self, name: &'static str, legacy: bool) -> Result<Option<i64>, TokenError> {
        let bad = TokenError::Invalid("a time in it is not a whole number of seconds");
        match self.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => number.as_i64().map(Some).ok_or(bad),
            Some(Value::String(digits)) if legacy && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map(Some).map_err(|_too_long| bad)
            }
            Some(_) => Err(bad),
        }
    }

    /// It is for this broker. (RFC 7519, section 4.1.3)
    fn audience(&self, ours: &str, legacy: bool) -> Result<(), TokenError> {
        let fits = match self.get("aud") {
            None => legacy,
            Some(Value::String(aud)) => aud == ours,
            Some(Value::Array(all)) => all.iter().any(|aud| aud.as_str() == Some(ours)),
            Some(_) => false,
        };
        if fits { Ok(()) } else { Err(TokenError::Invalid("it is for somebody else")) }
    }

    /// It has begun, is not over, and does not live too long.
    fn time(&self, now: Timestamp, legacy: bool) -> Result<(), TokenError> {
        let now = now.millis().div_euclid(1000);
        let absent = TokenError::Invalid("it lacks the time of issue or the expiry");
        let iat = self.seconds("iat", legacy)?.ok_or(absent)?;
        let exp = self.seconds("exp", legacy)?.ok_or(absent)?;
        let begins = self.seconds("nbf", legacy)?.unwrap_or(iat).max(iat);
        let life = exp.checked_sub(iat).ok_or(absent)?;
        if life < -LEEWAY_S {
            return Err(TokenError::Invalid("it expires before it was issued"));
        }
        if life > i64::try_from(LIFE_MAX.as_secs()).unwrap_or(0) {
            return Err(TokenError::Invalid("it lives longer than an hour"));
        }
        if begins > now + LEEWAY_S {
            return Err(TokenError::Invalid("its time has not come"));
        }
        if exp < now - LEEWAY_S { Err(TokenError::Expired) } else { Ok(()) }
    }

    fn person(&self, issuer: &Issuer, group: &Group, legacy: bool) -> Result<Person, TokenError> {
        if self.name("group", legacy)?.is_some_and(|named| named != group.as_str()) {
            return Err(TokenError::Invalid("it is for another group"));
        }
        let jti = self.text("jti")?;
        if jti.is_none() && !legacy {
            return Err(TokenError::Invalid("it has no name of its own"));
        }
        let kind = self.text("chat_type")?;
        Ok(Person {
            issuer: issuer.name().to_owned(),
            sub: self.name("sub", legacy)?.ok_or(TokenError::Invalid("it names no person"))?,
            chat_id: self.name("chat_id", legacy)?,
            chat_type: match kind {
                Some(word) => Some(ChatType::of(&word).ok_or(TokenError::Invalid("its kind of chat is not known"))?),
                None => None,
            },
            thread_id: self.name("thread_id", legacy)?,
            provider: self.text("provider")?,
            session_key: self.text("session_key")?,
            source_username: self.text("source_username")?,
            source_display_name: self.text("source_display_name")?,
            jti,
        })
    }
}

#[cfg(test)]
mod tests;
