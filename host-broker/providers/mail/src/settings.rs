//! The table of mail accounts in the configuration, and the provider that is built from it.

use crate::address::{Address, RecipientPattern};
use crate::backend::{Backend, Servers};
use crate::gmail::{self, Gmail};
use crate::parsing::parsers;
use crate::reference::Folder;
use crate::tls::Tls;
use crate::{Mail, operations};
use model::ChatType;
use provider::accounts::{self, Account, Credentials, SignIn};
use provider::child;
use provider::connection;
use provider::contract::Operation;
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::{oauth, remote, table};
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::Provider;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use url::Url;

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
    /// The source of the password, or of the access token with `auth = "xoauth2"` or `api = "gmail"`: the environment variable
    /// `MAIL_PASSWORD`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// How the broker signs in. Gmail's API takes tokens only.
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
    /// The interface of the account; `imap`, unless set.
    #[serde(default, skip_serializing_if = "Api::is_imap")]
    pub api: Api,
    /// The server that holds the mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imap: Option<Server>,
    /// The server that sends mail; without it, nothing can be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smtp: Option<Server>,
    /// The address of Gmail's API, if it is not Google's own. Plain `http` is valid for loopback addresses only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The certificates (PEM) of the authorities that both servers are checked against, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The permitted recipients: addresses, `@example.com` for everybody at a domain, `*` for everybody. An empty list
    /// allows nobody.
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

/// An interface to mail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// IMAP and SMTP.
    #[default]
    Imap,
    /// Gmail's API, without `imap` and `smtp`.
    Gmail,
}

impl Api {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_imap(&self) -> bool {
        *self == Self::Imap
    }
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
        let server = match &self.imap {
            Some(imap) => format!("{}:{}", imap.host, imap.port),
            None => self.url.clone().unwrap_or_else(|| gmail::URL.to_owned()),
        };
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

const NO_IMAP: &str = "imap: is missing; it is the server that holds the mail";

impl Settings {
    /// Checks the keys of the interface.
    fn check_api(&self) -> Result<(), String> {
        match self.api {
            Api::Imap => {
                let imap = self.imap.as_ref().ok_or(NO_IMAP)?;
                if self.url.is_some() {
                    return Err("url: is the address of Gmail's API; remove it, or set api = \"gmail\"".to_owned());
                }
                imap.check("imap")?;
                self.smtp.as_ref().map_or(Ok(()), |smtp| smtp.check("smtp"))
            }
            Api::Gmail => {
                let others = [
                    ("imap", self.imap.is_some()),
                    ("smtp", self.smtp.is_some()),
                    ("ca_file", self.ca_file.is_some()),
                    ("username", self.username.is_some()),
                ];
                if let Some((key, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
                    return Err(format!("{key}: Gmail's API does not use it; remove it, or remove api"));
                }
                self.url().map(drop)
            }
        }
    }

    /// Returns the address of Gmail's API.
    fn url(&self) -> Result<Url, String> {
        remote::address(self.url.as_deref().unwrap_or(gmail::URL)).map_err(str::to_owned)
    }

    /// Returns the way to the mail.
    fn backend(&self, deps: &ProviderDeps<'_>) -> Result<Backend, String> {
        if self.api == Api::Gmail {
            return Ok(Backend::Gmail(Gmail::new(self.url()?, Arc::clone(&deps.platform.http))));
        }
        let imap = self.imap.clone().ok_or(NO_IMAP)?;
        let ca_file = self.ca_file.as_ref().map(|file| deps.home.path().join(file));
        Ok(Backend::Imap(Servers { imap, smtp: self.smtp.clone(), tls: Tls::new(ca_file.as_deref())? }))
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
        if self.api == Api::Gmail && name.is_namespaced() && self.oauth.is_none() {
            return Err("oauth: is missing; with it, people sign in for Gmail's API".to_owned());
        }
        let is_token = self.auth == Auth::Xoauth2 || self.api == Api::Gmail;
        accounts::check_table(name, &own, self.oauth.as_ref(), ("xoauth2", is_token))?;
        if self.address.is_none() && !name.is_namespaced() {
            return Err("address: is missing; it is the mail address of the account".to_owned());
        }
        self.check_api()?;
        for (key, text) in [("display_name", &self.display_name), ("username", &self.username)] {
            if text.as_ref().is_some_and(|text| text.is_empty() || text.contains(|c: char| c.is_control())) {
                return Err(format!("{key}: must be one line of text"));
            }
        }
        Ok(())
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let (account, linking) = self.account(name, deps)?;
        let mail = Arc::new(Mail {
            settings: Arc::new(self.clone()),
            account,
            address: self.address.clone(),
            backend: Arc::new(self.backend(deps)?),
            clock: Arc::clone(&deps.platform.clock),
            parsers: parsers(),
        });
        let mut operations = operations(name, &mail).map_err(|fault| fault.to_string())?;
        operations.extend(linking);
        let connection = Some(connection::check(name, &mail));
        Ok(vec![BuiltProvider { connection, ..BuiltProvider::new(name, operations) }])
    }
}
