//! The accounts of persons, as a provider uses them.
//!
//! ```text
//! supplied account ─► is_stale? ─yes─► renew (an intent of its own) ─► supplied again
//!                         └───no──────────────────────────────────► secret, within the execution
//! ```
//!
//! An account has an OAuth token that the broker renews, or a password that an operator has stored.

use crate::kind::ProviderDeps;
use crate::linking::{self, LinkContext};
use crate::oauth::{self, OAuth};
use kernel::contract::{Failure, LinkedByOperator, Operation, UsedAccount};
use kernel::execution::Execution;
use model::{ChatType, Ciphertext, Place, RecordKind, Renewal};
use secrets::Secret;
use secrets::vault::Vault;
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Code, Provider, Timestamp};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zeroize::Zeroizing;

/// The longest time of a step in which a person signs in at a native provider.
pub const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(20);
/// The most refused tokens that are remembered.
const REFUSED_MAX: usize = 4096;
/// The member of a stored credential that has the password.
const PASSWORD: &str = "password";

/// The credentials of the accounts at one capability.
pub struct Credentials {
    source: Source,
    /// The kinds of chats in which the accounts are used; empty means all.
    chat_types: Vec<ChatType>,
    /// The digests of the sealed tokens that the server has refused before their time.
    refused: Mutex<BTreeSet<[u8; 32]>>,
}

/// The source of the credentials.
enum Source {
    /// A person signs in at an OAuth server.
    Tokens(Arc<OAuth>),
    /// An operator stores the password.
    Passwords { capability: Provider, vault: Option<Arc<Vault>> },
}

/// An OAuth server at which persons link their accounts.
pub struct SignIn<'a> {
    /// How the broker is registered there.
    pub settings: &'a oauth::Settings,
    /// The server that takes the tokens, for the person who approves the account.
    pub server: String,
    /// Whether each request names the server (RFC 8707). Not every OAuth server takes that.
    pub names_resource: bool,
    /// Whether the name of an account is the address that the server states, and nothing else.
    pub names_address: bool,
    /// The longest time of a step.
    pub deadline: Duration,
}

impl Credentials {
    /// Returns the accounts of persons, and the actions that link them. Without an OAuth server, an operator stores their
    /// passwords. `chat_types` is the key of the table; without it, the accounts are used in private chats only.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn of_persons(
        name: &Provider,
        chat_types: Option<&Vec<ChatType>>,
        sign_in: Option<SignIn<'_>>,
        deps: &ProviderDeps<'_>,
    ) -> Result<(Account, Vec<Arc<dyn Operation>>), String> {
        let chat_types = chat_types.cloned().unwrap_or_else(|| vec![ChatType::Private]);
        let Some(sign_in) = sign_in else {
            let vault = deps.runtime.map(|runtime| Arc::clone(&runtime.vault));
            let credentials = Self::new(Source::Passwords { capability: name.clone(), vault }, chat_types);
            return Ok((Account::Persons(Arc::new(credentials)), Vec::new()));
        };
        let (credentials, linking) = Self::with_sign_in(name, chat_types, sign_in, deps)?;
        Ok((Account::Persons(Arc::new(credentials)), linking))
    }

    /// Returns the credentials that persons get at an OAuth server, and the actions that link their accounts.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn with_sign_in(
        name: &Provider,
        chat_types: Vec<ChatType>,
        sign_in: SignIn<'_>,
        deps: &ProviderDeps<'_>,
    ) -> Result<(Self, Vec<Arc<dyn Operation>>), String> {
        let SignIn { settings, server, names_resource, names_address, deadline } = sign_in;
        let redirect = settings.redirect_url.clone().unwrap_or_else(|| format!("{}/{name}", deps.callback_url));
        let vault = deps.runtime.map(|runtime| Arc::clone(&runtime.vault));
        let platform = deps.platform;
        let client = Arc::new(OAuth {
            provider: name.clone(),
            settings: settings.clone(),
            server,
            names_resource,
            names_address,
            redirect,
            secret: deps.secret("client_secret"),
            vault: vault.clone(),
            http: Arc::clone(&platform.http),
            ids: Arc::clone(&platform.ids),
            clock: Arc::clone(&platform.clock),
            renewing: deps.runtime.map(|runtime| Arc::clone(&runtime.renewing)).unwrap_or_default(),
        });
        let linking = linking::operations(&Arc::new(LinkContext {
            capability: name.clone(),
            linker: Arc::<OAuth>::clone(&client),
            hosts: settings.hosts()?,
            chat_types: chat_types.clone(),
            deadline,
            vault,
            ids: Arc::clone(&platform.ids),
            clock: Arc::clone(&platform.clock),
        }))?;
        Ok((Self::new(Source::Tokens(client), chat_types), linking))
    }

    fn new(source: Source, chat_types: Vec<ChatType>) -> Self {
        Self { source, chat_types, refused: Mutex::default() }
    }

    fn refused(&self) -> MutexGuard<'_, BTreeSet<[u8; 32]>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The account that the actions of a provider use.
#[derive(Clone)]
pub enum Account {
    /// One account for all calls.
    Shared {
        /// The user name.
        username: String,
        /// The password or the token; `None` where no call is executed.
        secret: Option<Arc<Secret>>,
    },
    /// The accounts of persons. A call has none before its account is chosen.
    Persons(Arc<Credentials>),
    /// The account of one call. Its name is the user name.
    Person(CallAccount),
}

impl Account {
    /// Returns the account of a call that has not been decided; `None` if all calls use the same.
    pub fn undecided(&self) -> Option<CallAccount> {
        match self {
            Self::Persons(credentials) => Some(CallAccount::new(credentials)),
            Self::Shared { .. } | Self::Person(_) => None,
        }
    }

    /// Returns the user name; `None` if no account is chosen.
    pub fn username(&self) -> Option<&str> {
        match self {
            Self::Shared { username, .. } => Some(username),
            Self::Persons(_) => None,
            Self::Person(account) => account.name(),
        }
    }

    /// Returns the user name, and the password or the token.
    ///
    /// # Errors
    /// [`Failure`]; nothing was done.
    pub fn sign_in(&self, execution: &Execution) -> Result<(&str, Zeroizing<String>), Failure> {
        match self {
            Self::Shared { username, secret: Some(secret) } => {
                Ok((username, Zeroizing::new(secret.expose(execution).to_owned())))
            }
            Self::Person(account) => Ok((account.name().ok_or_else(not_stored)?, account.secret(execution)?)),
            // A provider without its secret is switched off, and the decision refuses a call without an account.
            Self::Shared { secret: None, .. } => {
                Err(Failure::Unavailable { message: "The password of the account is missing.".into() })
            }
            Self::Persons(_) => Err(Failure::Unavailable { message: "The call has no account.".into() }),
        }
    }

    /// Returns the failure of a call that the server does not let in. `failure` is the failure for a shared account.
    pub fn not_signed_in(&self, failure: Failure) -> Failure {
        match (self, &failure) {
            (Self::Person(account), Failure::Refused { message }) => account.refused(message),
            (Self::Shared { .. } | Self::Persons(_) | Self::Person(_), _) => failure,
        }
    }

    /// Returns the failure of a call whose account does not open. The fault is that of one person, and not of the provider.
    pub fn not_opened(&self, failure: Failure) -> Failure {
        match (self, &failure) {
            (Self::Person(account), Failure::Unavailable { message } | Failure::Refused { message }) => {
                account.refused(message)
            }
            (Self::Shared { .. } | Self::Persons(_) | Self::Person(_), _) => failure,
        }
    }
}

/// Checks the keys of a table about accounts. A provider with a name in two parts has the accounts of persons. It has none
/// of the keys `own` of a shared account. `token_auth` is the value of `auth` for OAuth tokens, and whether it is set.
///
/// # Errors
/// `KEY: the fault and the remedy`, without a period.
pub fn check_table(
    name: &Provider,
    own: &[(&str, bool)],
    oauth: Option<&oauth::Settings>,
    (token_auth, is_token_auth): (&str, bool),
) -> Result<(), String> {
    if !name.is_namespaced() {
        return match oauth {
            Some(_) => Err("oauth: accounts of persons need a name in two parts, such as person.mail".to_owned()),
            None => Ok(()),
        };
    }
    if let Some((key, _)) = own.iter().find(|(_, is_set)| *is_set) {
        let remedy = format!("remove {key}, or choose a name without `.`");
        return Err(format!("{key}: a provider with a name in two parts uses the accounts of persons; {remedy}"));
    }
    match (oauth, is_token_auth) {
        (Some(oauth), true) => oauth.check(),
        (None, false) => Ok(()),
        (Some(_), false) => Err(format!("auth: must be \"{token_auth}\" with oauth")),
        (None, true) => Err(format!("oauth: is missing; auth = \"{token_auth}\" needs it for accounts of persons")),
    }
}

/// The account of one call.
#[derive(Clone)]
pub struct CallAccount {
    credentials: Arc<Credentials>,
    used: Option<UsedAccount>,
    renewal: Option<Renewal>,
}

impl CallAccount {
    /// Returns the account of a call that has not been decided.
    pub fn new(credentials: &Arc<Credentials>) -> Self {
        Self { credentials: Arc::clone(credentials), used: None, renewal: None }
    }

    /// Takes the account that the decision has chosen.
    pub fn supply(&mut self, used: UsedAccount) {
        self.used = Some(used);
    }

    /// Returns the provider's name of the account; `None` if none is chosen.
    pub fn name(&self) -> Option<&str> {
        self.used.as_ref().map(|used| used.name.as_str())
    }

    /// Returns how an operator links the account.
    pub fn linked_by_operator(&self) -> LinkedByOperator {
        match self.credentials.source {
            Source::Passwords { .. } => LinkedByOperator::Password,
            Source::Tokens(_) => LinkedByOperator::No,
        }
    }

    /// Returns the kinds of chats in which the account is used; empty means all.
    pub fn chat_types(&self) -> Vec<ChatType> {
        self.credentials.chat_types.clone()
    }

    /// Returns whether the credential must be renewed before its use.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let (Source::Tokens(_), Some((sealed, until))) = (&self.credentials.source, self.credential()) else {
            return false;
        };
        until.is_some_and(|until| until <= now) || self.credentials.refused().contains(&digest(sealed))
    }

    /// Renews the credential.
    ///
    /// # Errors
    /// [`Failure`]; the stored credential is unchanged.
    pub async fn renew(&mut self, execution: Execution) -> Result<(), Failure> {
        let (Source::Tokens(oauth), Some((sealed, _))) = (&self.credentials.source, self.credential()) else {
            return Err(not_stored());
        };
        match oauth.renew(sealed, execution).await {
            Ok(renewal) => {
                // INVARIANT: the old credential stays refused. The new one is stored later, and has another digest.
                self.renewal = Some(renewal);
                Ok(())
            }
            Err(failure) => {
                // The next call tries it as it is.
                self.credentials.refused().remove(&digest(sealed));
                Err(failure)
            }
        }
    }

    /// Returns the credential that was renewed.
    pub fn renewed(&self) -> Option<&Renewal> {
        self.renewal.as_ref()
    }

    /// Returns the token or the password of the account.
    ///
    /// # Errors
    /// [`Failure`]: there is none that can be used; nothing was done.
    pub fn secret(&self, execution: &Execution) -> Result<Zeroizing<String>, Failure> {
        let (sealed, _) = self.credential().ok_or_else(not_stored)?;
        match &self.credentials.source {
            Source::Tokens(oauth) => oauth.token(sealed, execution).map(Zeroizing::new),
            Source::Passwords { capability, vault } => {
                let vault = vault.as_deref().ok_or_else(not_stored)?;
                let (person, name) = (execution.owner().unwrap_or_default(), execution.account().unwrap_or_default());
                let place = Place { what: RecordKind::Credential, person: &person, capability, name };
                let credential = vault.open_credential(&place, sealed, execution);
                let credential =
                    credential.map_err(|fault| unusable(&format!("the password cannot be used: {fault}")))?;
                let password = credential.given.get(PASSWORD).and_then(Value::as_str);
                password.map(|password| Zeroizing::new(password.to_owned())).ok_or_else(not_stored)
            }
        }
    }

    /// Returns the failure of a call whose credential is refused, with the words of the server. The next call renews a token
    /// first.
    pub fn refused(&self, message: &str) -> Failure {
        match (&self.credentials.source, self.credential()) {
            (Source::Tokens(_), Some((sealed, _))) => {
                let mut refused = self.credentials.refused();
                if refused.len() >= REFUSED_MAX {
                    refused.clear();
                }
                refused.insert(digest(sealed));
                drop(refused);
                unusable(&format!("the account's token is refused; call again, or link the account again. {message}"))
            }
            (Source::Tokens(_), None) => not_stored(),
            (Source::Passwords { .. }, _) => unusable(&format!(
                "the account's password is refused; an operator stores it again with account link. {message}"
            )),
        }
    }

    fn credential(&self) -> Option<&(Ciphertext, Option<Timestamp>)> {
        self.used.as_ref()?.credential.as_ref()
    }
}

/// Returns the credential that the vault stores for a password.
pub fn of_password(password: &str) -> Value {
    json!({ PASSWORD: password })
}

fn not_stored() -> Failure {
    unusable("no credential is stored for this account; link it again")
}

fn unusable(message: &str) -> Failure {
    Failure::Coded { code: Code::CapabilityAuthRequired, message: message.to_owned() }
}

fn digest(sealed: &Ciphertext) -> [u8; 32] {
    *Digest::of(sealed.bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, own: bool, oauth: bool, is_token_auth: bool) -> Result<(), String> {
        let settings = r#"client_id = "a"
            authorize_url = "https://sign-in.example/authorize"
            token_url = "https://sign-in.example/token""#;
        let settings = oauth.then(|| toml::from_str::<oauth::Settings>(settings).unwrap());
        check_table(&name.parse().unwrap(), &[("address", own)], settings.as_ref(), ("xoauth2", is_token_auth))
    }

    #[test]
    fn a_table_has_one_account_or_those_of_persons() {
        for (name, own, oauth, is_token_auth) in [
            ("mail", true, false, false),
            ("mail", true, false, true),
            ("person.mail", false, false, false),
            ("person.mail", false, true, true),
        ] {
            assert_eq!(check(name, own, oauth, is_token_auth), Ok(()), "{name}");
        }
        for (name, own, oauth, is_token_auth, key) in [
            ("mail", true, true, true, "oauth: accounts of persons need a name in two parts"),
            ("person.mail", true, false, false, "address: a provider with a name in two parts"),
            ("person.mail", false, true, false, "auth: must be \"xoauth2\" with oauth"),
            ("person.mail", false, false, true, "oauth: is missing"),
        ] {
            let fault = check(name, own, oauth, is_token_auth).unwrap_err();
            assert!(fault.starts_with(key), "{fault}");
        }
    }
}
