//! A GitHub App as the broker's identity: its tokens live one hour and reach one repository each.
//!
//! ```text
//! private key ─► assertion (JWT, 10 min) ─► POST /app/installations/N/access_tokens ─► token, kept until it is about to end
//! ```
//!
//! SECURITY: the private key stays in its secret, which signs. The assertion goes to the base URL only. A token is for the
//! one repository of the call. The token for the list of repositories can read metadata only.
//!
//! Source: GitHub documentation, "Authenticating with a GitHub App".

use crate::base::Target;
use crate::client::{Change, Client, Session};
use crate::errors::sentence;
use crate::fields::text;
use http::{Method, StatusCode};
use model::Nonce;
use provider::contract::{Execution, Failure};
use provider::issued_tokens::{self, IssuedToken, TokenText};
use secrets::Secret;
use secrets::vault::seen_secrets::hide;
use serde_json::{Map, Value, json};
use shared::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A token that GitHub refuses is dropped if it is older. A younger one may not be known to all of GitHub yet.
const YOUNG: Duration = Duration::from_secs(60);
/// The most tokens that are kept, so that the names of repositories cost a bounded amount of memory.
const TOKENS_MAX: usize = 1024;

/// The repositories that a token reaches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// One repository, as `owner/repo` in lower case.
    Repository(String),
    /// The names of all repositories of the installation.
    Names,
}

impl Reach {
    /// The repository of this owner and name.
    pub(super) fn repository(repo: &impl fmt::Display) -> Self {
        Self::Repository(repo.to_string().to_ascii_lowercase())
    }

    /// Returns the body of the request for a token.
    fn body(&self) -> Value {
        match self {
            Self::Repository(name) => json!({ "repositories": [name.rsplit('/').next().unwrap_or_default()] }),
            Self::Names => json!({ "permissions": { "metadata": "read" } }),
        }
    }

    /// Checks whether the token of this answer reaches what was asked for. An app can be installed for another owner,
    /// who has a repository of the same name.
    fn is_reached_by(&self, answer: &Value) -> bool {
        match self {
            Self::Repository(asked) => {
                let reached = answer.get("repositories").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                matches!(reached, [only] if text(only, "/full_name").is_some_and(|name| name.eq_ignore_ascii_case(asked)))
            }
            Self::Names => true,
        }
    }
}

/// The token of one reach. A call that finds none requests it, and the others wait for that.
type Place = Arc<tokio::sync::Mutex<Option<IssuedToken>>>;

/// A GitHub App, and one of its installations.
pub struct App {
    // The client id, or the app id.
    id: String,
    installation: u64,
    key: Arc<Secret>,
    tokens: Mutex<BTreeMap<Reach, Place>>,
}

/// The private key of the app is not usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "app: the private key is not an RSA key in PEM of 2048 to 4096 bits without a passphrase; download one from the page of \
     the app at GitHub"
)]
pub struct NoKey;

impl App {
    /// An app by its client id or app id, in this installation, with its private key.
    ///
    /// # Errors
    /// [`NoKey`].
    pub fn new(id: String, installation: u64, key: Arc<Secret>) -> Result<Self, NoKey> {
        if key.is_rsa_key() { Ok(Self { id, installation, key, tokens: Mutex::default() }) } else { Err(NoKey) }
    }

    /// Returns a token of this reach, and keeps it and its assertion out of everything that comes back.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed. It is none that could mean a change of the call.
    pub(super) async fn token(
        &self,
        client: &Client,
        reach: &Reach,
        execution: &Execution,
    ) -> Result<TokenText, Failure> {
        let assertion = |now| issued_tokens::assertion(&self.key, claims(&self.id), now, execution);
        let token = self.kept_or_new(client, reach, (execution.deadline(), execution.nonce()), assertion).await?;
        hide(token.reveal(), execution).map_err(|_unfit| unusable("its token cannot be kept out of results"))?;
        Ok(token)
    }

    /// The kept token, or a new one for which `assertion` proves the app's identity.
    pub(super) async fn kept_or_new(
        &self,
        client: &Client,
        reach: &Reach,
        (deadline, nonce): (Instant, &Nonce),
        assertion: impl FnOnce(Timestamp) -> Option<TokenText>,
    ) -> Result<TokenText, Failure> {
        let place = self.place(reach);
        let token = {
            let mut kept = timeout_at(deadline, place.lock()).await.map_err(|_elapsed| Failure::Timeout)?;
            if let Some(token) = kept.as_ref().filter(|token| token.is_usable(client.now())) {
                return Ok(token.text().clone());
            }
            let assertion = assertion(client.now()).ok_or_else(|| refused(NoKey.to_string()))?;
            let token = self.request(&Session::open(client, assertion.reveal(), deadline, nonce)?, reach).await;
            token.map(|token| kept.insert(token).text().clone())
        };
        if token.is_err() {
            self.leave(reach, &place);
        }
        token
    }

    /// Requests a token, once.
    async fn request(&self, session: &Session<'_>, reach: &Reach) -> Result<IssuedToken, Failure> {
        let issued = Instant::now();
        let target = Target::fixed("/app/installations").id(self.installation).then("access_tokens");
        let change = Change { method: Method::POST, target, body: reach.body() };
        // A token that nobody has changes nothing.
        let is_unknown = |failure: &Failure| matches!(failure, Failure::Unknown { .. });
        let answer = session.send(&change).await.map_err(|why| if is_unknown(&why) { lost() } else { why })?;
        let said = || session.reader().message(&answer);
        match answer.status {
            StatusCode::UNAUTHORIZED => {
                return Err(refused(sentence(
                    "GitHub does not accept the broker's GitHub App. The operator must check its id, its key and the clock",
                    &said(),
                )));
            }
            StatusCode::NOT_FOUND => {
                return Err(refused(sentence(
                    "GitHub does not know the broker's GitHub App or its installation. The operator must check the id, \
                     the number of the installation and the base URL",
                    &said(),
                )));
            }
            StatusCode::UNPROCESSABLE_ENTITY => {
                return Err(refused(sentence("The broker's GitHub App has no access to this repository", &said())));
            }
            _ => {}
        }
        let answer = session.reader().read(&answer).map_err(|failure| match failure {
            // Of a write, this failure would say that the change may have been made.
            Failure::InvalidOutput { message } => Failure::Unavailable { message },
            known @ (Failure::Refused { .. }
            | Failure::Unavailable { .. }
            | Failure::RateLimited { .. }
            | Failure::Coded { .. }
            | Failure::Guard(_)
            | Failure::Timeout
            | Failure::Unknown { .. }) => known,
        })?;
        if !reach.is_reached_by(&answer) {
            return Err(refused("The broker's GitHub App has no access to this repository.".into()));
        }
        let found = text(&answer, "/token").filter(|token| !token.is_empty()).map(TokenText::new);
        let text = found.ok_or_else(|| unusable("it has no token"))?;
        Ok(IssuedToken::new(text, issued, end_of(&answer), session.now()))
    }

    /// Drops the token of this reach, which GitHub has refused: it can be revoked, or its permissions can have changed.
    pub(super) fn drop_refused(&self, reach: &Reach) {
        let mut places = self.places();
        let is_old = |place: &Place| {
            // A call that requests a token now gets a new one.
            let Ok(kept) = place.try_lock() else { return false };
            kept.as_ref().is_some_and(|token| token.issued.elapsed() >= YOUNG)
        };
        if places.get(reach).is_some_and(is_old) {
            places.remove(reach);
        }
    }

    /// Makes the token of this reach older.
    #[cfg(test)]
    pub(super) async fn age(&self, reach: &Reach, by: Duration) {
        let place = self.place(reach);
        if let Some(token) = place.lock().await.as_mut() {
            token.issued = token.issued.checked_sub(by).expect("the machine runs for longer");
        }
    }

    /// Removes the place of a token that could not be had, unless another call waits there.
    fn leave(&self, reach: &Reach, place: &Place) {
        let mut places = self.places();
        // The map has one, and this call.
        if Arc::strong_count(place) == 2 {
            places.remove(reach);
        }
    }

    fn place(&self, reach: &Reach) -> Place {
        let mut places = self.places();
        if places.len() >= TOKENS_MAX && !places.contains_key(reach) {
            // Each of them can be had again.
            places.clear();
        }
        Arc::clone(places.entry(reach.clone()).or_default())
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<Reach, Place>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the claims of an assertion beside its times.
pub(super) fn claims(id: &str) -> Map<String, Value> {
    Map::from_iter([("iss".to_owned(), Value::from(id))])
}

fn end_of(answer: &Value) -> Option<Timestamp> {
    text(answer, "/expires_at")?.parse().ok()
}

fn refused(message: String) -> Failure {
    Failure::Refused { message }
}

fn lost() -> Failure {
    Failure::Unavailable { message: "GitHub's answer with a token was lost. Try again.".into() }
}

fn unusable(how: &str) -> Failure {
    Failure::Unavailable { message: format!("GitHub's answer with a token cannot be used: {how}.") }
}
