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
use provider::contract::{Execution, Failure};
use secrets::Secret;
use std::sync::Arc;

/// A password manager.
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
    /// The password manager of this table; `None` if it names none. It starts no program and opens no file.
    pub(crate) fn new(settings: &Settings, secret: Option<Arc<Secret>>, platform: &Platform) -> Option<Self> {
        let Settings { entries: _, uses: _, pass, keepass, bitwarden, onepassword } = settings;
        let program = |program: &str, explain| Program::new(program, explain, platform);
        Some(match (pass, keepass, bitwarden, onepassword) {
            (Some(pass), ..) => Self::Pass(PassStore::new(pass, program(&pass.program, pass::explain))),
            (None, Some(keepass), ..) => Self::KeePass(KeePassStore::new(keepass, secret)),
            (None, None, Some(bitwarden), _) => {
                Self::Bitwarden(BitwardenStore::new(bitwarden, secret, program(&bitwarden.program, bitwarden::explain)))
            }
            (None, None, None, Some(onepassword)) => Self::OnePassword(OnePasswordStore::new(
                onepassword,
                secret,
                program(&onepassword.program, |_error| None),
            )),
            (None, None, None, None) => return None,
        })
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

/// The secret that opens the password manager is missing. A provider without it is switched off.
fn locked() -> Failure {
    Failure::Unavailable { message: "The secret of the password manager is missing.".into() }
}
