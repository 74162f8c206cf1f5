//! Bitwarden, by its command line client `bw`: the vault that the client has synchronized and that a session key opens.
//!
//! The client gives whole items, so each list has all passwords of the vault. They stay in this module.

use super::program::Program;
use super::{gone, of_person};
use crate::entry::{Entry, Listing, Login};
use crate::failures::unusable;
use crate::settings::Bitwarden;
use provider::accounts::Account;
use provider::contract::{Execution, Failure};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::PathBuf;
use zeroize::{Zeroize, Zeroizing};

/// The type of an item that is a login.
const LOGIN: u8 = 1;

/// A vault of Bitwarden.
#[derive(Clone)]
pub(crate) struct BitwardenStore {
    /// Its password is the session key.
    account: Account,
    data: Option<PathBuf>,
    directory: Option<PathBuf>,
    program: Program,
}

/// An item, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    id: String,
    name: String,
    #[serde(rename = "type")]
    kind: u8,
    #[serde(default)]
    login: Option<ItemLogin>,
    #[serde(default)]
    deleted_date: Option<String>,
    // 1: the master password is asked for again before the item is shown.
    #[serde(default)]
    reprompt: u8,
}

#[derive(Deserialize)]
struct ItemLogin {
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    uris: Option<Vec<ItemUri>>,
}

#[derive(Deserialize)]
struct ItemUri {
    #[serde(default)]
    uri: Option<String>,
}

impl Drop for ItemLogin {
    fn drop(&mut self) {
        self.password.zeroize();
    }
}

impl Item {
    fn is_login(&self) -> bool {
        self.kind == LOGIN && self.deleted_date.is_none()
    }

    fn username(&self) -> Option<String> {
        self.login.as_ref()?.username.clone().filter(|name| !name.is_empty())
    }

    fn url(&self) -> Option<String> {
        self.login.as_ref()?.uris.iter().flatten().find_map(|uri| uri.uri.clone().filter(|uri| !uri.is_empty()))
    }
}

impl BitwardenStore {
    pub(super) fn new(settings: &Bitwarden, account: Account, program: Program) -> Self {
        Self { account, data: settings.data.clone(), directory: settings.directory.clone(), program }
    }

    /// Returns the directory of the client's data; `None` if it is the usual one.
    fn data(&self) -> Result<Option<PathBuf>, Failure> {
        match &self.directory {
            Some(directory) => of_person(directory, &self.account, "").map(Some),
            None => Ok(self.data.clone()),
        }
    }

    pub(super) fn of_account(&self, account: Account) -> Self {
        Self { account, ..self.clone() }
    }

    pub(super) async fn entries(&self, execution: &Execution) -> Result<Listing, Failure> {
        let output = self.output(&["list", "items"], execution).await?;
        let items: Vec<Item> = serde_json::from_slice(&output).map_err(|_error| unusable(self.program.name()))?;
        let mut listing = Listing::default();
        for item in items.iter().filter(|item| item.is_login()) {
            let (id, username, url) = (item.id.clone(), item.username(), item.url());
            listing.add(item.name.clone(), |name| Entry { id, name, username, url });
        }
        Ok(listing)
    }

    pub(super) async fn login(&self, entry: &Entry, execution: &Execution) -> Result<Login, Failure> {
        // SECURITY: an id that begins with a hyphen would be an option.
        if entry.id.is_empty()
            || !entry.id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
            || entry.id.starts_with('-')
        {
            return Err(unusable(self.program.name()));
        }
        let output = self.output(&["get", "item", &entry.id], execution).await?;
        let item: Item = serde_json::from_slice(&output).map_err(|_error| unusable(self.program.name()))?;
        if item.id != entry.id || item.name != entry.name.as_str() || !item.is_login() {
            return Err(gone());
        }
        if item.reprompt != 0 {
            let message = "The owner of the entry wants the master password to be entered each time, which only a \
                           person can do.";
            return Err(Failure::Refused { message: message.into() });
        }
        let (username, url) = (item.username(), item.url());
        let password = item.login.and_then(|mut login| login.password.take()).unwrap_or_default();
        Ok(Login { password: Zeroizing::new(password), username, url })
    }

    /// Runs the client. It never asks for anything.
    async fn output(&self, arguments: &[&str], execution: &Execution) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let (_, session) = self.account.sign_in(execution)?;
        let mut variables: Vec<(OsString, OsString)> = vec![("BW_SESSION".into(), session.as_str().into())];
        if let Some(data) = self.data()? {
            variables.push(("BITWARDENCLI_APPDATA_DIR".into(), data.into()));
        }
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--nointeraction"]).collect();
        let output = self.program.output(&arguments, variables, execution).await;
        output.map_err(|failure| self.account.not_opened(failure))
    }
}

/// Explains a locked vault.
pub(super) fn explain(error: &str) -> Option<&'static str> {
    let is_locked = error.contains("locked") || error.contains("not logged in");
    is_locked.then_some(
        "The vault of Bitwarden is locked. An operator unlocks it with `bw unlock --raw`, stores the new session key, and \
         runs: host-broker reload.",
    )
}
