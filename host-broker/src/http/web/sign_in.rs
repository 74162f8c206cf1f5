//! Sign-in: the address, links that are good once, tokens, and the signed-in persons.
//!
//! All of it is in memory, so after a restart all persons sign in again. Only the digest of a secret is kept.

use crate::http::pace::Pace;
use crate::http::web::sessions::{Sessions, Use, Visitor};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use config::Config;
use config::web::{PublicUrl, TokenDigest};
use model::{Clock, LedgerKey, NoRandomness, Random};
use shared::Timestamp;
use shared::digest::Digest;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq as _;

/// How long a link is good.
const LINK_LIFE: Duration = Duration::from_mins(10);
/// How many links of one person are good at once; an older one gives way.
const LINKS_MAX: usize = 4;

/// Where the inbox is reached: one name, so that there is one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    origin: String,
    hosts: Vec<String>,
    tls: bool,
}

impl Address {
    /// The address of an inbox that listens here. The local name is the same after every start and another one in every
    /// home, because a browser gives a cookie to every port of its host.
    pub fn new(bound: SocketAddr, public: Option<&PublicUrl>, key: &LedgerKey) -> Self {
        if let Some(url) = public {
            let hosts = vec![url.authority(), url.authority_with_port()];
            return Self { origin: url.to_string(), hosts, tls: true };
        }
        let name: String = key.digest(b"the name of the inbox").hex().chars().take(16).collect();
        let host = format!("inbox-{name}.localhost");
        let with_port = format!("{host}:{}", bound.port());
        if bound.port() == 80 {
            return Self { origin: format!("http://{host}"), hosts: vec![host, with_port], tls: false };
        }
        Self { origin: format!("http://{with_port}"), hosts: vec![with_port], tls: false }
    }

    /// Returns the address that a person opens.
    pub fn url(&self) -> String {
        format!("{}/", self.origin)
    }

    /// Returns the origin that a browser sends from the inbox's own pages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Checks whether a `Host` header names this inbox.
    pub fn is_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Checks whether browsers reach it through TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }
}

/// A link that signs in the first person who opens it.
#[derive(Debug)]
pub struct Link {
    /// The address to open.
    pub url: String,
    /// Until when.
    pub expires_at: Timestamp,
}

struct Open {
    secret: Digest,
    person: String,
    expires_at: Timestamp,
}

/// The result of a sign-in with a token.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// This person's session has begun: the value of the cookie.
    In(String),
    /// The token is unknown.
    Unknown,
    /// Too many were tried; again after so many seconds.
    TooMany(u64),
}

/// The sign-in.
pub struct WebSignIn {
    address: Address,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Random>,
    tokens: Vec<(String, TokenDigest)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    links: Vec<Open>,
    sessions: Sessions,
    pace: Pace,
}

impl WebSignIn {
    /// Creates a sign-in without sessions.
    pub fn new(address: Address, config: &Config, clock: Arc<dyn Clock>, ids: Arc<dyn Random>) -> Self {
        let token = |(name, table): (&String, &config::PersonTable)| Some((name.clone(), table.web_token_sha256?));
        let tokens = config.people.iter().filter_map(token).collect();
        Self { address, clock, ids, tokens, state: Mutex::default() }
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No step leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A link for this person.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn link(&self, person: &str) -> Result<Link, NoRandomness> {
        let secret = fresh_secret(self.ids.as_ref())?;
        let now = self.clock.now();
        let expires_at = now.plus(LINK_LIFE);
        let url = format!("{}sign-in?link={secret}", self.address.url());
        let links = &mut self.state().links;
        links.retain(|link| link.expires_at > now);
        let mine = links.iter().filter(|link| link.person == person).count();
        if mine >= LINKS_MAX
            && let Some(oldest) = links.iter().position(|link| link.person == person)
        {
            links.remove(oldest);
        }
        links.push(Open { secret: Digest::of(secret.as_bytes()), person: person.to_owned(), expires_at });
        Ok(Link { url, expires_at })
    }

    /// The owner of this link, which stays good.
    pub fn whose(&self, link: &str) -> Option<String> {
        let (digest, now) = (Digest::of(link.as_bytes()), self.clock.now());
        let state = self.state();
        let found = state.links.iter().find(|open| open.secret == digest && open.expires_at > now);
        found.map(|open| open.person.clone())
    }

    /// Signs in the person with this link, and spends it; `None` if it is not good.
    ///
    /// # Errors
    /// [`NoRandomness`]; the link stays good.
    pub fn with_link(&self, link: &str) -> Result<Option<String>, NoRandomness> {
        let cookie = fresh_secret(self.ids.as_ref())?;
        let (digest, now) = (Digest::of(link.as_bytes()), self.clock.now());
        let state = &mut *self.state();
        let Some(found) = state.links.iter().position(|open| open.secret == digest && open.expires_at > now) else {
            return Ok(None);
        };
        let open = state.links.remove(found);
        state.sessions.begin(&cookie, open.person, now);
        Ok(Some(cookie))
    }

    /// Signs in whose token this is.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn with_token(&self, token: &str) -> Result<Admission, NoRandomness> {
        let cookie = fresh_secret(self.ids.as_ref())?;
        let now = self.clock.now();
        let state = &mut *self.state();
        let given = TokenDigest::of(token);
        // SECURITY: all of them are compared, and in the same time, whichever it is.
        let mut found = None;
        for (person, known) in &self.tokens {
            if bool::from(known.as_bytes().ct_eq(given.as_bytes())) {
                found = Some(person);
            }
        }
        let Some(person) = found else {
            // Only wrong tokens are slowed down, so that no client keeps others out.
            return Ok(state.pace.take(now).map_or_else(Admission::TooMany, |()| Admission::Unknown));
        };
        state.sessions.begin(&cookie, person.clone(), now);
        Ok(Admission::In(cookie))
    }

    /// Checks whether anybody signs in with a token.
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// The person with this cookie.
    pub fn visitor(&self, cookie: &str, how: Use) -> Option<Visitor> {
        let now = self.clock.now();
        self.state().sessions.visitor(cookie, how, now)
    }

    /// Ends the session of this cookie.
    pub fn leave(&self, cookie: &str) {
        self.state().sessions.end(cookie);
    }
}

/// 256 random bits, as text that may stand in a URL or a cookie.
///
/// # Errors
/// [`NoRandomness`].
pub fn fresh_secret(ids: &dyn Random) -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    ids.fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests;
