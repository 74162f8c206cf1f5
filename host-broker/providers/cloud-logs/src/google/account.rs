//! A service account of Google: its key signs an assertion, and Google issues a token for it.
//!
//! ```text
//! private key ─► assertion (JWT, 10 min) ─► POST token_url ─► token, kept until it is about to end
//! ```
//!
//! SECURITY: the private key stays in its secret, which signs. The assertion goes to the token address only, and the token to
//! the address of the API only. A token can read logs and nothing else.
//!
//! Source: RFC 7523, sections 2.1 and 3; Google Identity documentation, "Using OAuth 2.0 for server to server applications".

use crate::transport::{self, Answer};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use model::Clock;
use platform::http::{Exchange, Http};
use provider::contract::Execution;
use provider::issued_tokens::{self, IssuedToken, TokenText};
use provider::remote::words;
use secrets::Secret;
use secrets::vault::seen_secrets::SeenSecrets;
use serde::Deserialize;
use serde_json::{Map, Value};
use shared::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::Url;
use url::form_urlencoded::Serializer;
use zeroize::Zeroizing;

/// The scope of the tokens.
const SCOPE: &str = "https://www.googleapis.com/auth/logging.read";
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The longest life of a token that is believed, in seconds.
const LIFE_SECONDS_MAX: u64 = 24 * 60 * 60;
/// The longest answer with a token.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
const FORM: &str = "application/x-www-form-urlencoded";

/// A service account.
pub(crate) struct Account {
    client_email: String,
    token_url: Url,
    /// A call that finds no token requests it, and the others wait for that.
    kept: tokio::sync::Mutex<Option<IssuedToken>>,
}

/// The proof of an account's identity.
#[derive(Clone)]
enum Proof {
    /// There is a token.
    Unneeded,
    /// A signed assertion.
    Assertion(TokenText),
    /// The secret is no key.
    NoKey,
}

/// The permission of one execution to use an account.
#[derive(Clone)]
pub(crate) struct Pass {
    account: Arc<Account>,
    proof: Proof,
    seen: SeenSecrets,
}

/// An answer with a token (RFC 6749, section 5.1).
#[derive(Deserialize)]
struct Issued {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// An answer without one (RFC 6749, section 5.2).
#[derive(Deserialize)]
struct Fault {
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Account {
    pub(super) fn new(client_email: String, token_url: Url) -> Self {
        Self { client_email, token_url, kept: tokio::sync::Mutex::default() }
    }

    /// Returns the permission of an execution to use the account. The key signs only if no token is kept.
    pub(crate) fn pass(self: &Arc<Self>, key: &Secret, now: Timestamp, execution: &Execution) -> Pass {
        // While another call requests a token, this one may have to do it.
        let is_kept = self.kept.try_lock().is_ok_and(|kept| kept.as_ref().is_some_and(|token| token.is_usable(now)));
        let proof = if is_kept {
            Proof::Unneeded
        } else {
            let assertion = issued_tokens::assertion(key, self.claims(), now, execution);
            assertion.map_or(Proof::NoKey, Proof::Assertion)
        };
        Pass { account: Arc::clone(self), proof, seen: SeenSecrets::of(execution.slots()) }
    }

    /// Returns the claims of an assertion beside its times.
    pub(super) fn claims(&self) -> Map<String, Value> {
        let claims = [("iss", self.client_email.as_str()), ("scope", SCOPE), ("aud", self.token_url.as_str())];
        claims.map(|(name, value)| (name.to_owned(), Value::from(value))).into_iter().collect()
    }

    /// Requests a token, once.
    async fn request(
        &self,
        assertion: &str,
        http: &dyn Http,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<IssuedToken, String> {
        let issued = Instant::now();
        let of_server = |reason: &str| format!("the token server: {reason}");
        let pairs = [("grant_type", GRANT_TYPE), ("assertion", assertion)];
        let body = Serializer::new(String::new()).extend_pairs(pairs).finish();
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(FORM))]);
        let uri = self.token_url.as_str().parse().map_err(|_long| of_server(transport::UNWRITABLE))?;
        let exchange = Exchange::post(uri, headers, body.into_bytes(), deadline);
        let Answer { status, body, .. } = transport::send(http, exchange).await.map_err(of_server)?;
        let body = Zeroizing::new(body.filter(|body| body.len() <= ANSWER_BYTES_MAX).unwrap_or_default());
        if status != StatusCode::OK {
            return Err(refused(status, &body, assertion));
        }
        let answer: Option<Issued> = serde_json::from_slice(&body).ok();
        let usable = answer.filter(|answer| answer.token_type.eq_ignore_ascii_case("bearer"));
        let Issued { access_token, expires_in, .. } =
            usable.ok_or_else(|| of_server("its answer has no usable token"))?;
        let end = expires_in.map(|seconds| now.plus(Duration::from_secs(seconds.min(LIFE_SECONDS_MAX))));
        Ok(IssuedToken::new(TokenText::new(access_token), issued, end, now))
    }
}

impl Pass {
    /// Returns the kept token or a new one, and keeps it out of everything that comes back.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) async fn token(
        &self,
        http: &dyn Http,
        clock: &dyn Clock,
        deadline: Instant,
    ) -> Result<TokenText, String> {
        let kept = timeout_at(deadline, self.account.kept.lock()).await;
        let mut kept = kept.map_err(|_elapsed| "the token server: it does not answer in time".to_owned())?;
        let token = match kept.as_ref().filter(|token| token.is_usable(clock.now())) {
            Some(token) => token.text().clone(),
            None => match &self.proof {
                Proof::Unneeded => return Err("its token has just ended; try again".to_owned()),
                Proof::NoKey => {
                    return Err("its private key is not an RSA key in PEM of 2048 to 4096 bits".to_owned());
                }
                Proof::Assertion(assertion) => {
                    *kept = None;
                    let issued = self.account.request(assertion.reveal(), http, clock.now(), deadline).await?;
                    let text = issued.text().clone();
                    self.hide(text.reveal())?;
                    *kept = Some(issued);
                    text
                }
            },
        };
        drop(kept);
        self.hide(token.reveal())?;
        Ok(token)
    }

    /// Keeps a token out of everything that comes back.
    fn hide(&self, token: &str) -> Result<(), String> {
        let hidden = self.seen.hide(token);
        hidden.map_err(|_unfit| "the token server: its token cannot be kept out of results".to_owned())
    }

    /// Drops a token that Google has refused, unless there is a newer one.
    pub(super) async fn drop_refused(&self, token: &str, deadline: Instant) {
        let Ok(mut kept) = timeout_at(deadline, self.account.kept.lock()).await else { return };
        if kept.as_ref().is_some_and(|kept| kept.text().reveal() == token) {
            *kept = None;
        }
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({})", self.account.client_email)
    }
}

/// Explains an answer of the token server that is not 200.
fn refused(status: StatusCode, body: &[u8], assertion: &str) -> String {
    let number = status.as_u16();
    let Ok(Fault { error, error_description }) = serde_json::from_slice(body) else {
        return format!("the token server: it answers {number}");
    };
    let said = said(&format!("{error}: {error_description}"), assertion);
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!(
            "Google refuses the service account; the operator must check client_email, private_key and the clock \
             ({number}){said}"
        ),
        _ => format!("the token server: it answers {number}{said}"),
    }
}

/// Returns the words of a server as the end of a sentence, without a secret.
pub(super) fn said(text: &str, secret: &str) -> String {
    let words = words(text, secret);
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

#[cfg(test)]
impl Pass {
    /// A pass with this assertion.
    pub(super) fn signed(account: &Arc<Account>, assertion: &str) -> Self {
        let proof = Proof::Assertion(TokenText::new(assertion.to_owned()));
        Self { account: Arc::clone(account), proof, seen: SeenSecrets::default() }
    }
}
