//! A server that is called with persons' accounts: a connection for each, with that account's token.

use super::upstream::Upstream;
use provider::accounts::{CallAccount, Credentials};
use provider::contract::{Execution, Failure};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many connections are kept; another one takes the place of whichever.
const CONNECTIONS_MAX: usize = 64;

/// Owner and account.
type Key = (String, String);

/// Persons' accounts at a server.
pub struct Accounts {
    credentials: Arc<Credentials>,
    upstream: Arc<Upstream>,
    /// By owner and account: the token's digest, and the connection with it.
    connected: Mutex<BTreeMap<Key, (Digest, Arc<Upstream>)>>,
}

impl Accounts {
    /// Those with these credentials at this server.
    pub fn new(credentials: Credentials, upstream: Arc<Upstream>) -> Self {
        Self { credentials: Arc::new(credentials), upstream, connected: Mutex::default() }
    }

    /// Returns the account of a call that has not been decided.
    pub(super) fn of_call(&self) -> CallAccount {
        CallAccount::new(&self.credentials)
    }

    /// The server, with the token of the account that this call works with.
    pub(super) fn upstream(&self, account: &CallAccount, execution: &Execution) -> Result<Arc<Upstream>, Failure> {
        let token = account.secret(execution)?;
        let key = (execution.owner().unwrap_or_default(), execution.account().unwrap_or_default().to_owned());
        let own = Digest::of(token.as_bytes());
        if let Some((of, upstream)) = self.connected().get(&key)
            && *of == own
        {
            return Ok(Arc::clone(upstream));
        }
        // Not while others wait: it takes a while.
        let upstream = Arc::new(self.upstream.with_token(token.to_string(), execution));
        let mut connected = self.connected();
        if connected.len() >= CONNECTIONS_MAX && !connected.contains_key(&key) {
            connected.pop_first();
        }
        connected.insert(key, (own, Arc::clone(&upstream)));
        Ok(upstream)
    }

    fn connected(&self) -> MutexGuard<'_, BTreeMap<Key, (Digest, Arc<Upstream>)>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
