//! 1Password, by its command line client `op` and the token of a service account.
//!
//! Documents: developer.1password.com/docs/cli/reference/management-commands/item and …/reference/commands/read.

use super::is_file_name;
use super::program::Program;
use crate::entry::{Entry, Listing, Login};
use crate::failures::unusable;
use crate::settings::OnePassword;
use provider::accounts::Account;
use provider::contract::{Execution, Failure};
use serde::Deserialize;
use std::ffi::OsString;
use zeroize::Zeroizing;

/// A vault that a service account can read.
#[derive(Clone)]
pub(crate) struct OnePasswordStore {
    /// Its password is the token of the service account.
    account: Account,
    vault: Option<String>,
    program: Program,
}

/// An item of a list, which has no secret.
#[derive(Deserialize)]
struct Item {
    id: String,
    title: String,
    vault: ItemVault,
    // The user name of a login.
    #[serde(default)]
    additional_information: Option<String>,
    #[serde(default)]
    urls: Vec<ItemUrl>,
}

#[derive(Deserialize)]
struct ItemVault {
    id: String,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct ItemUrl {
    href: String,
    #[serde(default)]
    primary: bool,
}

impl Item {
    /// Lists the entry, named by its vault and its title.
    fn list(&self, listing: &mut Listing) {
        // SECURITY: both ids become parts of a reference.
        let is_id = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_id(&self.id) || !is_id(&self.vault.id) {
            listing.unnamable += 1;
            return;
        }
        let vault = self.vault.name.as_deref().unwrap_or(&self.vault.id);
        let username = self.additional_information.clone().filter(|name| !name.is_empty() && name != "—");
        let url = self.urls.iter().find(|url| url.primary).or(self.urls.first()).map(|url| url.href.clone());
        let id = format!("{}/{}", self.vault.id, self.id);
        listing.add(format!("{vault}/{}", self.title), |name| Entry { id, name, username, url });
    }
}

impl OnePasswordStore {
    pub(super) fn new(settings: &OnePassword, account: Account, program: Program) -> Self {
        Self { account, vault: settings.vault.clone(), program }
    }

    /// Returns the name of the vault: that of the table, or that of the account.
    fn vault(&self) -> Result<&str, Failure> {
        let name = self.vault.as_deref().or_else(|| self.account.username().filter(|name| is_file_name(name)));
        name.ok_or_else(|| Failure::Unavailable { message: "The call has no account.".into() })
    }

    pub(super) fn of_account(&self, account: Account) -> Self {
        Self { account, ..self.clone() }
    }

    pub(super) async fn entries(&self, execution: &Execution) -> Result<Listing, Failure> {
        let arguments =
            ["item", "list", "--categories", "Login,Password", "--vault", self.vault()?, "--format", "json"];
        let output = self.output(&arguments, execution).await?;
        let items: Vec<Item> = serde_json::from_slice(&output).map_err(|_error| unusable(self.program.name()))?;
        let mut listing = Listing::default();
        for item in &items {
            item.list(&mut listing);
        }
        Ok(listing)
    }

    pub(super) async fn login(&self, entry: &Entry, execution: &Execution) -> Result<Login, Failure> {
        // The list is read again, because the reference gives the password alone.
        let listing = self.entries(execution).await?;
        let now = listing.entries.into_iter().find(|listed| listed.id == entry.id && listed.name == entry.name);
        let Entry { username, url, .. } = now.ok_or_else(super::gone)?;
        let reference = format!("op://{}/password", entry.id);
        let output = self.output(&["read", "--no-newline", &reference], execution).await?;
        let password = std::str::from_utf8(&output).map_err(|_binary| unusable(self.program.name()))?;
        Ok(Login { password: Zeroizing::new(password.to_owned()), username, url })
    }

    async fn output(&self, arguments: &[&str], execution: &Execution) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let (_, token) = self.account.sign_in(execution)?;
        // Without this, `op` leaves a process behind.
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--cache=false"]).collect();
        let variables: Vec<(OsString, OsString)> = vec![("OP_SERVICE_ACCOUNT_TOKEN".into(), token.as_str().into())];
        let output = self.program.output(&arguments, variables, execution).await;
        output.map_err(|failure| self.account.not_opened(failure))
    }
}
