//! Passwords: the logins of a password manager, by the manager's own program or file.
//!
//! Each action is one file: its fields are the parameters. `settings` is the table in the configuration, and `entry` has
//! the names of entries and the allowed ones. `lookup` finds and reads the entry that a call names. `store` has the
//! password managers behind one interface, each in a file of its own.
//!
//! An agent reads the names of entries. A password leaves only in a call that a person has approved: as a one-time value,
//! or as a parameter of another provider's action, which an operator has named.

mod connection;
mod entry;
mod failures;
mod lookup;
mod settings;
mod store;

mod find_login;
mod get_password;
mod use_password;

pub use entry::{BadName, BadPattern, EntryName, EntryPattern};
pub use settings::{Bitwarden, KIND, KeePass, OnePassword, Pass, Settings, Use};

use entry::{Allowed, Listing};
use filter::scrub::Scrubber;
use model::Exposure;
use provider::accounts::{Account, CallAccount};
use provider::contract::{Execution, Failure, Operation};
use provider::native::{BadDeclaration, SharedState, operation};
use secrets::vault::Vault;
use shared::Provider;
use std::sync::Arc;
use store::{Store, is_file_name};

/// The exposure of every action: private data, and in a shared vault text of other authors.
const READS: Exposure = Exposure { untrusted: true, sensitive: true, egress: false };

/// The state that the actions share.
#[derive(Clone)]
struct Passwords {
    name: Provider,
    account: Account,
    store: Store,
    allowed: Allowed,
    uses: Vec<Use>,
    // Both are absent where the provider is only listed.
    vault: Option<Arc<Vault>>,
    scrubber: Option<Arc<Scrubber>>,
}

impl SharedState for Passwords {
    fn account(&self) -> Option<CallAccount> {
        self.account.undecided()
    }

    fn with_account(&self, account: &CallAccount) -> Option<Self> {
        let store = self.store.of_account(Account::Person(account.clone()))?;
        Some(Self { account: Account::Person(account.clone()), store, ..self.clone() })
    }

    fn account_fault(&self, name: &str) -> Option<&'static str> {
        (!is_file_name(name)).then_some("The name of the account begins with a letter, a digit, `_`, `@` or `+`.")
    }
}

impl Passwords {
    /// Returns whether a password has the secret of a person that opens the password manager. The search for the broker's
    /// own secrets does not know it.
    fn holds_key(&self, password: &str, execution: &Execution) -> Result<bool, Failure> {
        match &self.account {
            Account::Person(account) => account.secret(execution).map(|secret| password.contains(secret.as_str())),
            Account::Shared { .. } | Account::Persons(_) => Ok(false),
        }
    }

    /// Returns the entries that an operator has allowed.
    async fn entries(&self, execution: &Execution) -> Result<Listing, Failure> {
        let mut listing = self.store.entries(execution).await?;
        listing.entries.retain(|entry| self.allowed.allows(&entry.name));
        // Entries without a name match no pattern but the one for all.
        if !self.allowed.allows_everything() {
            listing.unnamable = 0;
        }
        Ok(listing)
    }
}

/// Returns the actions. It starts no program and opens no file.
fn operations(name: &Provider, shared: &Arc<Passwords>) -> Result<Vec<Arc<dyn Operation>>, BadDeclaration> {
    Ok(vec![
        operation::<find_login::FindLogin>(name, shared)?,
        operation::<get_password::GetPassword>(name, shared)?,
        operation::<use_password::UsePassword>(name, shared)?,
    ])
}
