//! The password managers, behind one interface.

mod bitwarden;
mod keepass;
mod onepassword;
mod pass;
mod program;

use crate::entry::{Entry, Listing, Login};
use crate::settings::Settings;
use bitwarden::BitwardenStore;
use keepass::KeePassStore;
use onepassword::OnePasswordStore;
use pass::PassStore;
use platform::Platform;
use program::Program;
use provider::accounts::Account;
use provider::contract::{Execution, Failure};
use std::path::{Path, PathBuf};

/// A password manager.
#[derive(Clone)]
pub(crate) enum Store {
    /// A directory of `pass`.
    Pass(PassStore),
    /// A file of KeePass.
    KeePass(KeePassStore),
    /// A vault of Bitwarden.
    Bitwarden(BitwardenStore),
    /// A vault of 1Password.
    OnePassword(OnePasswordStore),
}

impl Store {
    /// The password manager of this table, opened with the secret of this account; `None` if the table names none. It
    /// starts no program and opens no file.
    pub(crate) fn new(settings: &Settings, account: Account, platform: &Platform) -> Option<Self> {
        let Settings { entries: _, uses: _, chat_types: _, pass, keepass, bitwarden, onepassword } = settings;
        let program = |program: &str, explain| Program::new(program, explain, platform);
        Some(match (pass, keepass, bitwarden, onepassword) {
            (Some(pass), ..) => Self::Pass(PassStore::new(pass, program(&pass.program, pass::explain))),
            (None, Some(keepass), ..) => Self::KeePass(KeePassStore::new(keepass, account)),
            (None, None, Some(bitwarden), _) => Self::Bitwarden(BitwardenStore::new(
                bitwarden,
                account,
                program(&bitwarden.program, bitwarden::explain),
            )),
            (None, None, None, Some(onepassword)) => Self::OnePassword(OnePasswordStore::new(
                onepassword,
                account,
                program(&onepassword.program, |_error| None),
            )),
            (None, None, None, None) => return None,
        })
    }

    /// Returns the password manager of one account; `None` if the accounts of persons have none.
    pub(crate) fn of_account(&self, account: Account) -> Option<Self> {
        match self {
            Self::Pass(_) => None,
            Self::KeePass(store) => Some(Self::KeePass(store.of_account(account))),
            Self::Bitwarden(store) => Some(Self::Bitwarden(store.of_account(account))),
            Self::OnePassword(store) => Some(Self::OnePassword(store.of_account(account))),
        }
    }

    /// Returns whether the list of entries has their user names and addresses.
    pub(crate) fn lists_content(&self) -> bool {
        !matches!(self, Self::Pass(_))
    }

    /// Returns all entries.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn entries(&self, execution: &Execution) -> Result<Listing, Failure> {
        match self {
            Self::Pass(store) => store.entries().await,
            Self::KeePass(store) => store.entries(execution).await,
            Self::Bitwarden(store) => store.entries(execution).await,
            Self::OnePassword(store) => store.entries(execution).await,
        }
    }

    /// Returns the content of an entry.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn login(&self, entry: &Entry, execution: &Execution) -> Result<Login, Failure> {
        match self {
            Self::Pass(store) => store.login(entry, execution).await,
            Self::KeePass(store) => store.login(entry, execution).await,
            Self::Bitwarden(store) => store.login(entry, execution).await,
            Self::OnePassword(store) => store.login(entry, execution).await,
        }
    }
}

/// The password manager holds no such entry any more.
fn gone() -> Failure {
    Failure::Refused { message: "The password manager has no such entry any more.".into() }
}

/// Returns the part of a directory that belongs to an account: its name, with this ending.
///
/// # Errors
/// [`Failure`]: no account is chosen. The decision refuses such a call.
fn of_person(directory: &Path, account: &Account, ending: &str) -> Result<PathBuf, Failure> {
    let name = account.username().filter(|name| is_file_name(name));
    let name = name.ok_or_else(|| Failure::Unavailable { message: "The call has no account.".into() })?;
    Ok(directory.join(format!("{name}{ending}")))
}

/// Returns whether the name of an account can be the name of a file, a directory and a vault.
pub(crate) fn is_file_name(name: &str) -> bool {
    // SECURITY: `..` is another directory, and a hyphen begins an option of a program.
    !name.is_empty() && !name.starts_with(['.', '-']) && !name.contains(['/', '\0'])
}
