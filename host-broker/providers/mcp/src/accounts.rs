//! A server that is called with persons' accounts: a connection for each, with that account's token.

use super::upstream::Upstream;
use model::{Ciphertext, Renewal};
use provider::contract::{Execution, Failure};
use provider::oauth::OAuth;
use shared::digest::Digest;
use shared::{Code, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many connections are kept; another one takes the place of whichever.
const CONNECTIONS_MAX: usize = 64;

/// The credential of an account, and its end without a renewal.
pub(super) type Credential = Option<(Ciphertext, Option<Timestamp>)>;

/// Owner and account.
type Key = (String, String);

/// Persons' accounts at a server.
pub struct Accounts {
    oauth: Arc<OAuth>,
    upstream: Arc<Upstream>,
    /// By owner and account: the token's digest, and the connection with it.
    connected: Mutex<BTreeMap<Key, (Digest, Arc<Upstream>)>>,
    /// The accounts whose tokens the server has refused before their time, by the digests of their stored credentials.
    unknown: Mutex<BTreeSet<[u8; 32]>>,
}

impl Accounts {
    /// Those of this client at this server.
    pub fn new(oauth: Arc<OAuth>, upstream: Arc<Upstream>) -> Self {
        Self { oauth, upstream, connected: Mutex::default(), unknown: Mutex::default() }
    }

    /// Checks whether it is to be renewed before it is used.
    pub(super) fn is_stale(&self, credential: &Credential, now: Timestamp) -> bool {
        let Some((sealed, until)) = credential else { return false };
        until.is_some_and(|until| until <= now) || self.unknown().contains(&digest(sealed))
    }

    /// Renews it.
    pub(super) async fn renew(&self, credential: &Credential, execution: Execution) -> Result<Renewal, Failure> {
        let Some((sealed, _)) = credential else {
            let message = "no credential is stored for this account; link it again".to_owned();
            return Err(Failure::Coded { code: Code::CapabilityAuthRequired, message });
        };
        let renewal = self.oauth.renew(sealed, execution).await;
        // Where it cannot be renewed it is tried as it is the next time.
        self.unknown().remove(&digest(sealed));
        renewal
    }

    /// The server, with the token of the account that this call works with.
    pub(super) fn upstream(&self, credential: &Credential, execution: &Execution) -> Result<Arc<Upstream>, Failure> {
        let token = self.oauth.token(credential.as_ref().map(|(sealed, _)| sealed), execution)?;
        let key = (execution.owner().unwrap_or_default(), execution.account().unwrap_or_default().to_owned());
        let own = Digest::of(token.as_bytes());
        if let Some((of, upstream)) = self.connected().get(&key)
            && *of == own
        {
            return Ok(Arc::clone(upstream));
        }
        // Not while others wait: it takes a while.
        let upstream = Arc::new(self.upstream.with_token(token, execution));
        let mut connected = self.connected();
        if connected.len() >= CONNECTIONS_MAX && !connected.contains_key(&key) {
            connected.pop_first();
        }
        connected.insert(key, (own, Arc::clone(&upstream)));
        Ok(upstream)
    }

    /// Returns the failure for a caller whose account's token the server refuses: the next call renews it.
    pub(super) fn refused(&self, credential: &Credential) -> Failure {
        if let Some((sealed, _)) = credential {
            self.unknown().insert(digest(sealed));
        }
        let message = "the server refuses the account's token; call again, or link the account again";
        Failure::Coded { code: Code::CapabilityAuthRequired, message: message.to_owned() }
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<Key, (Digest, Arc<Upstream>)>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> MutexGuard<'_, BTreeSet<[u8; 32]>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(sealed: &Ciphertext) -> [u8; 32] {
    *Digest::of(sealed.bytes()).as_bytes()
}
