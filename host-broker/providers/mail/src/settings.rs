//! The table of mail accounts in the configuration, and the provider that is built from it.

use crate::address::{Address, RecipientPattern};
use crate::parsing::parsers;
use crate::reference::Folder;
use crate::tls::Tls;
use crate::{Mail, operations};
use model::ChatType;
use provider::accounts::{self, Account, Credentials, SignIn};
use provider::child;
use provider::contract::Operation;
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::{oauth, table};
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::Provider;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// The kind `mail`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("mail");

/// The environment variable of the password, unless the table has another source.
const PASSWORD: &str = "MAIL_PASSWORD";

/// The settings of one mail account, or of the accounts of persons at one server.
///
/// With a name in two parts, such as `person.mail`, each call uses an account of the person behind it. The name
/// of that account is its mail address.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The address of the account. Mail is sent from it: `ada@example.com`. Accounts of persons have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// The name beside the address in sent mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The user name at both servers; the address, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The source of the password, or of the access token with `auth = "xoauth2"`: the environment variable
    /// `MAIL_PASSWORD`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// How the broker signs in.
    #[serde(default)]
    pub auth: Auth,
    /// The kinds of chats in which accounts of persons are used; only `private`, unless set. An empty list allows all,
    /// and calls without a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    pub chat_types: Option<Vec<ChatType>>,
    /// The OAuth client with which people link their accounts. Without it, an operator stores their passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<oauth::Settings>,
    /// The server that holds the mail.
    pub imap: Server,
    /// The server that sends mail; without it, nothing can be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smtp: Option<Server>,
    /// The certificates (PEM) of the authorities that both servers are checked against, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Who may get mail: addresses, `@example.com` for everybody at a domain, `*` for everybody. An empty list allows
    /// nobody.
    #[serde(default)]
    pub recipients: Vec<RecipientPattern>,
    /// The folder for archived mail.
    #[serde(default = "archive")]
    pub archive: Folder,
    /// The folder for deleted mail.
    #[serde(default = "trash")]
    pub trash: Folder,
    /// The folder for drafts.
    #[serde(default = "drafts")]
    pub drafts: Folder,
    /// The folder for sent mail. A lost outcome is looked for there.
    #[serde(default = "sent")]
    pub sent: Folder,
    /// Whether the broker saves sent mail in that folder. Some servers save it themselves.
    #[serde(default = "yes")]
    pub save_sent: bool,
}

/// A way to sign in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// With a password.
    #[default]
    Password,
    /// With an OAuth access token (SASL `XOAUTH2`).
    Xoauth2,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The host: `imap.example.com`.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,
    /// The port: usually 993 for IMAP, 465 or 587 for SMTP.
    pub port: u16,
    /// The encryption of the connection.
    #[serde(default)]
    pub tls: Encryption,
}

/// The encryption of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// TLS from the first byte.
    #[default]
    Implicit,
    /// TLS after the command `STARTTLS`. A server without it is refused.
    Starttls,
    /// None. Only for loopback addresses.
    None,
}

/// The source of the password, unless the table has another one.
static DEFAULT_PASSWORD: LazyLock<SecretSource> = LazyLock::new(|| SecretSource::Env { env: PASSWORD.to_owned() });

fn archive() -> Folder {
    Folder::known("Archive")
}

fn trash() -> Folder {
    Folder::known("Trash")
}

fn drafts() -> Folder {
    Folder::known("Drafts")
}

fn sent() -> Folder {
    Folder::known("Sent")
}

fn yes() -> bool {
    true
}

impl Settings {
    /// Returns the account, and the actions that link accounts of persons.
    fn account(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<(Account, Vec<Arc<dyn Operation>>), String> {
        if let Some(address) = &self.address {
            let username = self.username.clone().unwrap_or_else(|| address.to_string());
            return Ok((Account::Shared { username, secret: deps.secret("password") }, Vec::new()));
        }
        let server = format!("{}:{}", self.imap.host, self.imap.port);
        let sign_in = self.oauth.as_ref().map(|settings| SignIn {
            settings,
            server,
            // Sign-in servers of mail providers refuse a request with `resource`.
            names_resource: false,
            names_address: true,
            deadline: accounts::SIGN_IN_TIMEOUT,
        });
        Credentials::of_persons(name, self.chat_types.as_ref(), sign_in, deps)
    }
}

impl Server {
    fn check(&self, key: &str) -> Result<(), String> {
        let is_loopback = self.host == "localhost" || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if self.tls == Encryption::None && !is_loopback {
            return Err(format!(
                "{key}.tls: a connection to another machine must be encrypted; use implicit or starttls"
            ));
        }
        Ok(())
    }
}

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        if self.address.is_some() {
            return BTreeMap::from([("password", self.password.as_ref().unwrap_or(&DEFAULT_PASSWORD))]);
        }
        let client_secret = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        client_secret.into_iter().map(|secret| ("client_secret", secret)).collect()
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        self.ca_file.as_deref().into_iter().collect()
    }

    fn redirect_url(&self) -> Option<&str> {
        self.oauth.as_ref()?.redirect_url.as_deref()
    }

    fn check(&self, name: &Provider) -> Result<(), String> {
        let own = [
            ("address", self.address.is_some()),
            ("display_name", self.display_name.is_some()),
            ("username", self.username.is_some()),
            ("password", self.password.is_some()),
        ];
        if self.chat_types.is_some() && !name.is_namespaced() {
            return Err("chat_types: only accounts of persons have it; remove it".to_owned());
        }
        accounts::check_table(name, &own, self.oauth.as_ref(), ("xoauth2", self.auth == Auth::Xoauth2))?;
        if self.address.is_none() && !name.is_namespaced() {
            return Err("address: is missing; it is the mail address of the account".to_owned());
        }
        self.imap.check("imap")?;
        if let Some(smtp) = &self.smtp {
            smtp.check("smtp")?;
        }
        for (key, text) in [("display_name", &self.display_name), ("username", &self.username)] {
            if text.as_ref().is_some_and(|text| text.is_empty() || text.contains(|c: char| c.is_control())) {
                return Err(format!("{key}: must be one line of text"));
            }
        }
        Ok(())
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let ca_file = self.ca_file.as_ref().map(|file| deps.home.path().join(file));
        let tls = Tls::new(ca_file.as_deref())?;
        let (account, linking) = self.account(name, deps)?;
        let mail = Mail {
            settings: Arc::new(self.clone()),
            account,
            address: self.address.clone(),
            tls: Arc::new(tls),
            clock: Arc::clone(&deps.platform.clock),
            parsers: parsers(),
        };
        let mut operations = operations(name, mail).map_err(|fault| fault.to_string())?;
        operations.extend(linking);
        Ok(vec![BuiltProvider::new(name, operations)])
    }
}
