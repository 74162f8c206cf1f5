//! The opening and renewal of credentials.

use super::{Carrier, Kept, OAuth, Registered, TokenFault, fresh_until, unlinked};
use kernel::contract::Failure;
use kernel::execution::Execution;
use model::{Ciphertext, Place, RecordKind, Renewal};
use oauth2::basic::BasicErrorResponseType;
use oauth2::{RefreshToken, RequestTokenError};
use secrets::vault::seen_secrets::{Credential, Unfit};
use serde::Deserialize as _;
use serde_json::{Value, json};
use shared::Provider;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{OwnedMutexGuard, oneshot};

/// The result for others that want the same renewal: the old and the new credential.
struct Renewed {
    of: Ciphertext,
    to: Arc<Kept>,
}

type Latest = Arc<tokio::sync::Mutex<Option<Renewed>>>;

/// A renewal that came after its callers had given up.
#[derive(Debug)]
pub struct LateRenewal {
    /// At which capability.
    pub capability: Provider,
    /// The person of the account.
    pub owner: String,
    /// Which.
    pub account: String,
    /// The current credential.
    pub renewal: Renewal,
}

type Tell = Box<dyn Fn(LateRenewal) + Send + Sync>;

/// The renewals of each account, by provider, owner and account, and who stores those that come late.
#[derive(Default)]
pub struct Renewing {
    of: Mutex<BTreeMap<(Provider, String, String), Latest>>,
    late: OnceLock<Tell>,
}

impl Renewing {
    /// The receiver of a late renewal. The first one stays.
    pub fn on_late(&self, tell: Tell) {
        self.late.set(tell).ok();
    }
}

impl OAuth {
    /// The token of the account that a call works with.
    ///
    /// # Errors
    /// [`Failure`]: there is none that can be used; nothing was done.
    pub fn token(&self, sealed: &Ciphertext, execution: &Execution) -> Result<String, Failure> {
        self.kept(sealed, execution).map(|kept| kept.access_token)
    }

    /// Renews a credential.
    ///
    /// Concurrent callers for the same credential get the same result, also if the first one has given up. The broker
    /// always waits for the server's answer to a sent request.
    ///
    /// # Errors
    /// [`Failure`]: the credential here is unchanged. If the answer was lost, the server may have renewed it.
    pub async fn renew(self: &Arc<Self>, sealed: &Ciphertext, execution: Execution) -> Result<Renewal, Failure> {
        let execution = Arc::new(execution);
        let account = execution.account().unwrap_or_default().to_owned();
        let key = (self.provider.clone(), execution.owner().unwrap_or_default(), account);
        let latest = {
            let mut renewing = self.renewing.of.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(renewing.entry(key).or_default())
        };
        // INVARIANT: a refresh token is used once. Servers take a second use for theft, and revoke everything.
        let latest = latest.lock_owned().await;
        let known = latest.as_ref().filter(|renewed| renewed.of == *sealed).map(|renewed| Arc::clone(&renewed.to));
        let kept = match known {
            Some(kept) => kept,
            None => self.renew_with(latest, sealed, &execution).await?,
        };
        self.renewal(sealed, &kept, &execution)
    }

    async fn renew_with(
        self: &Arc<Self>,
        latest: OwnedMutexGuard<Option<Renewed>>,
        sealed: &Ciphertext,
        execution: &Arc<Execution>,
    ) -> Result<Arc<Kept>, Failure> {
        let Some(refresh_token) = self.kept(sealed, execution)?.refresh_token else {
            return Err(unlinked("it has expired and cannot be renewed"));
        };
        let (this, client, of) = (Arc::clone(self), self.client(execution)?, sealed.clone());
        let (execution, (tell, told)) = (Arc::clone(execution), oneshot::channel());
        // A caller's timeout must not end in the middle of it: the server may have renewed it by then.
        tokio::spawn(async move {
            let kept = this.ask_for_new(latest, client, refresh_token, of.clone()).await;
            if let Err(Ok(kept)) = tell.send(kept) {
                this.keep_late(&of, &kept, &execution);
            }
        });
        told.await.unwrap_or_else(|_panic| Err(Failure::Unavailable { message: "the broker itself failed".to_owned() }))
    }

    /// The caller has given up, and the valid credential is in this process alone.
    fn keep_late(&self, old: &Ciphertext, kept: &Kept, execution: &Execution) {
        let renewal = match self.renewal(old, kept, execution) {
            Ok(renewal) => renewal,
            Err(error) => return tracing::error!(provider = %self.provider, ?error, "a renewal cannot be kept"),
        };
        let account = execution.account().unwrap_or_default().to_owned();
        let owner = execution.owner().unwrap_or_default();
        if let Some(tell) = self.renewing.late.get() {
            tell(LateRenewal { capability: self.provider.clone(), owner, account, renewal });
        }
    }

    async fn ask_for_new(
        &self,
        mut latest: OwnedMutexGuard<Option<Renewed>>,
        client: Registered,
        refresh_token: String,
        of: Ciphertext,
    ) -> Result<Arc<Kept>, Failure> {
        let token = RefreshToken::new(refresh_token.clone());
        let request = client.exchange_refresh_token(&token);
        let request = match self.resource() {
            Some(resource) => request.add_extra_param("resource", resource),
            None => request,
        };
        let tokens = request.request_async(&Carrier(Arc::clone(&self.http))).await;
        let mut kept = self.to_keep(&tokens.map_err(|fault| self.not_renewed(fault))?);
        // A server that gives no new one leaves the old one good. (RFC 6749, section 6)
        kept.refresh_token.get_or_insert(refresh_token);
        let to = Arc::new(kept);
        *latest = Some(Renewed { of, to: Arc::clone(&to) });
        Ok(to)
    }

    fn renewal(&self, old: &Ciphertext, kept: &Kept, execution: &Execution) -> Result<Renewal, Failure> {
        let unfit = |unfit: Unfit| Failure::InvalidOutput { message: unfit.to_string() };
        let (owner, account) = (execution.owner().unwrap_or_default(), execution.account().unwrap_or_default());
        let credential = Credential::new(json!(kept), account, &Value::Null).map_err(unfit)?;
        let place = Place { what: RecordKind::Credential, person: &owner, capability: &self.provider, name: account };
        let new = self.vault()?.seal_credential(&place, &credential, execution);
        let new = new.map_err(|fault| Failure::Unavailable { message: fault.to_string() })?;
        Ok(Renewal { old: old.clone(), new, fresh_until: fresh_until(kept) })
    }

    fn kept(&self, sealed: &Ciphertext, execution: &Execution) -> Result<Kept, Failure> {
        let (owner, account) = (execution.owner().unwrap_or_default(), execution.account().unwrap_or_default());
        let place = Place { what: RecordKind::Credential, person: &owner, capability: &self.provider, name: account };
        let credential = self.vault()?.open_credential(&place, sealed, execution);
        let credential = credential.map_err(|fault| unlinked(&fault.to_string()))?;
        Kept::deserialize(&credential.given)
            .map_err(|_damaged| unlinked("the stored credential of this account is damaged"))
    }

    /// Returns the failure of a renewal. An earlier request may have renewed the credential; the next call tries again.
    fn not_renewed(&self, fault: TokenFault) -> Failure {
        self.note(&fault);
        match fault {
            RequestTokenError::ServerResponse(said) if *said.error() == BasicErrorResponseType::InvalidGrant => {
                unlinked("the server does not renew it any more")
            }
            RequestTokenError::ServerResponse(_)
            | RequestTokenError::Request(_)
            | RequestTokenError::Parse(..)
            | RequestTokenError::Other(_) => {
                Failure::Unavailable { message: "the account's token could not be renewed".to_owned() }
            }
        }
    }
}
