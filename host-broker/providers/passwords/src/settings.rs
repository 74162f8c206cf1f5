//! The table of a password manager in the configuration, and the provider that is built from it.

use crate::entry::{Allowed, EntryPattern};
use crate::store::Store;
use crate::{Passwords, operations};
use model::ChatType;
use provider::accounts::{self, Account, Credentials};
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::{child, connection, table};
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::{Action, Provider};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// The kind `passwords`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("passwords");

/// The settings of one password manager: exactly one of `pass`, `keepass`, `bitwarden` and `onepassword`.
///
/// With a name in two parts, such as `person.passwords`, each call uses an account of the person behind it. The
/// vault has the password that opens it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The entries that can be found and read: `web/*`, `web/**`, or `**` for all. An empty list allows none.
    #[serde(default)]
    pub entries: Vec<EntryPattern>,
    /// The kinds of chats in which accounts of persons are used; only `private`, unless set. An empty list allows all,
    /// and calls without a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    pub chat_types: Option<Vec<ChatType>>,
    /// The actions of other providers that `use_password` can call. An empty list allows none.
    #[serde(default)]
    pub uses: Vec<Use>,
    /// A store of `pass`, the standard Unix password manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<Pass>,
    /// A database of KeePass or KeePassXC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepass: Option<KeePass>,
    /// A vault of Bitwarden, by its program `bw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitwarden: Option<Bitwarden>,
    /// A vault of 1Password, by its program `op`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onepassword: Option<OnePassword>,
}

/// An action that can get a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// The provider: `browser`.
    pub provider: Provider,
    /// The action: `sign_in`.
    pub action: Action,
    /// The parameter that takes the password: `password`.
    #[schemars(length(min = 1, max = 100))]
    pub field: String,
}

/// A store of `pass`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// The directory of the store: `/home/ada/.password-store`.
    pub store: PathBuf,
    /// The directory of GnuPG, if not `.gnupg` in the broker's own home directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gnupg_home: Option<PathBuf>,
    /// The program: an absolute path, or the name of an installed program.
    #[serde(default = "pass_program")]
    pub program: String,
}

/// A database of KeePass.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeePass {
    /// The file: `/home/ada/logins.kdbx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<PathBuf>,
    /// The directory with the files of persons: `ann.kdbx` for the account `ann`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The source of the master password: the environment variable `KEEPASS_PASSWORD`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// The key file, if the database has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

/// A vault of Bitwarden.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bitwarden {
    /// The source of the session key that `bw unlock --raw` prints: the environment variable `BW_SESSION`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SecretSource>,
    /// The directory of the program's data, if not the usual one in the broker's own home directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// The directory with the data of persons: the directory `ann` in it for the account `ann`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The program: an absolute path, or the name of an installed program.
    #[serde(default = "bitwarden_program")]
    pub program: String,
}

/// A vault of 1Password.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnePassword {
    /// The source of the token of a service account: the environment variable `OP_SERVICE_ACCOUNT_TOKEN`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretSource>,
    /// The name or the id of the vault. For accounts of persons, it is the name of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub vault: Option<String>,
    /// The program: an absolute path, or the name of an installed program.
    #[serde(default = "onepassword_program")]
    pub program: String,
}

/// The sources of the secrets, unless the table has others.
static DEFAULTS: LazyLock<[SecretSource; 3]> = LazyLock::new(|| {
    ["KEEPASS_PASSWORD", "BW_SESSION", "OP_SERVICE_ACCOUNT_TOKEN"].map(|env| SecretSource::Env { env: env.to_owned() })
});

fn pass_program() -> String {
    "pass".to_owned()
}

fn bitwarden_program() -> String {
    "bw".to_owned()
}

fn onepassword_program() -> String {
    "op".to_owned()
}

/// The fault of a table that names no password manager, or several.
const ONE_MANAGER: &str = "pass: name exactly one of `pass`, `keepass`, `bitwarden` and `onepassword`";

impl Settings {
    /// Returns whether the accounts are those of persons.
    fn is_of_persons(&self) -> bool {
        let keepass = self.keepass.as_ref().is_some_and(|keepass| keepass.directory.is_some());
        let bitwarden = self.bitwarden.as_ref().is_some_and(|bitwarden| bitwarden.directory.is_some());
        let onepassword = self.onepassword.as_ref().is_some_and(|onepassword| onepassword.vault.is_none());
        keepass || bitwarden || onepassword
    }

    /// Returns the secret that opens the one password manager, with its name within the provider.
    fn secret(&self) -> Option<(&'static str, &SecretSource)> {
        let [password, session, token] = &*DEFAULTS;
        let keepass = self.keepass.as_ref();
        let keepass = keepass.map(|keepass| ("keepass_password", keepass.password.as_ref().unwrap_or(password)));
        let bitwarden = self.bitwarden.as_ref();
        let bitwarden = bitwarden.map(|bitwarden| ("bitwarden_session", bitwarden.session.as_ref().unwrap_or(session)));
        let onepassword = self.onepassword.as_ref();
        let onepassword =
            onepassword.map(|onepassword| ("onepassword_token", onepassword.token.as_ref().unwrap_or(token)));
        keepass.or(bitwarden).or(onepassword).filter(|_| !self.is_of_persons())
    }

    /// Checks that the table has one account, or those of persons.
    fn check_accounts(&self, name: &Provider) -> Result<(), String> {
        let keepass = self.keepass.as_ref();
        let bitwarden = self.bitwarden.as_ref();
        let onepassword = self.onepassword.as_ref();
        let missing = if name.is_namespaced() {
            [
                ("keepass.directory", keepass.is_some_and(|keepass| keepass.directory.is_none())),
                ("bitwarden.directory", bitwarden.is_some_and(|bitwarden| bitwarden.directory.is_none())),
            ]
        } else {
            [
                ("keepass.database", keepass.is_some_and(|keepass| keepass.database.is_none())),
                ("onepassword.vault", onepassword.is_some_and(|onepassword| onepassword.vault.is_none())),
            ]
        };
        if let Some((key, _)) = missing.into_iter().find(|(_, is_missing)| *is_missing) {
            let what = if name.is_namespaced() { "a provider of persons" } else { "a provider of one account" };
            return Err(format!("{key}: is missing; {what} needs it"));
        }
        let own = [
            ("pass", self.pass.is_some()),
            ("keepass.database", keepass.is_some_and(|keepass| keepass.database.is_some())),
            ("keepass.password", keepass.is_some_and(|keepass| keepass.password.is_some())),
            ("keepass.key_file", keepass.is_some_and(|keepass| keepass.key_file.is_some())),
            ("bitwarden.session", bitwarden.is_some_and(|bitwarden| bitwarden.session.is_some())),
            ("bitwarden.data", bitwarden.is_some_and(|bitwarden| bitwarden.data.is_some())),
            ("onepassword.token", onepassword.is_some_and(|onepassword| onepassword.token.is_some())),
            ("onepassword.vault", onepassword.is_some_and(|onepassword| onepassword.vault.is_some())),
        ];
        accounts::check_table(name, &own, None, ("", false))?;
        if !name.is_namespaced() && self.is_of_persons() {
            return Err("directory: accounts of persons need a name in two parts, such as person.passwords".to_owned());
        }
        Ok(())
    }

    /// Returns the program that reads the password manager.
    fn program(&self) -> Option<&Path> {
        let pass = self.pass.as_ref().map(|pass| &pass.program);
        let bitwarden = self.bitwarden.as_ref().map(|bitwarden| &bitwarden.program);
        let onepassword = self.onepassword.as_ref().map(|onepassword| &onepassword.program);
        pass.or(bitwarden).or(onepassword).map(Path::new)
    }

    fn paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let pass = self
            .pass
            .iter()
            .flat_map(|pass| [("pass.store", Some(&pass.store)), ("pass.gnupg_home", pass.gnupg_home.as_ref())]);
        let keepass = self.keepass.iter().flat_map(|keepass| {
            [
                ("keepass.database", keepass.database.as_ref()),
                ("keepass.directory", keepass.directory.as_ref()),
                ("keepass.key_file", keepass.key_file.as_ref()),
            ]
        });
        let bitwarden = self.bitwarden.iter().flat_map(|bitwarden| {
            [("bitwarden.data", bitwarden.data.as_ref()), ("bitwarden.directory", bitwarden.directory.as_ref())]
        });
        pass.chain(keepass).chain(bitwarden).filter_map(|(key, path)| Some((key, path?.as_path())))
    }
}

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        self.secret().into_iter().collect()
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        let files = self.keepass.iter().flat_map(|keepass| {
            [keepass.database.as_deref(), keepass.directory.as_deref(), keepass.key_file.as_deref()]
                .into_iter()
                .flatten()
        });
        let store = self.pass.as_ref().map(|pass| pass.store.as_path());
        let bitwarden = self.bitwarden.as_ref().and_then(|bitwarden| bitwarden.directory.as_deref());
        files.chain(store).chain(bitwarden).chain(self.program().filter(|program| program.is_absolute())).collect()
    }

    fn check(&self, name: &Provider) -> Result<(), String> {
        for (index, allowed) in self.uses.iter().enumerate() {
            let is_same = |other: &Use| other.provider == allowed.provider && other.action == allowed.action;
            if allowed.field.is_empty() {
                return Err("uses: `field` must name the parameter that takes the password".to_owned());
            }
            if self.uses.iter().skip(index + 1).any(is_same) {
                return Err(format!("uses: {}.{} occurs twice; remove one", allowed.provider, allowed.action));
            }
        }
        let managers =
            [self.pass.is_some(), self.keepass.is_some(), self.bitwarden.is_some(), self.onepassword.is_some()];
        if managers.into_iter().filter(|is_there| *is_there).count() != 1 {
            return Err(ONE_MANAGER.to_owned());
        }
        if self.chat_types.is_some() && !name.is_namespaced() {
            return Err("chat_types: only accounts of persons have it; remove it".to_owned());
        }
        self.check_accounts(name)?;
        let vault = self.onepassword.as_ref().and_then(|onepassword| onepassword.vault.as_deref()).unwrap_or("any");
        if vault.is_empty() || vault.starts_with('-') || vault.contains(|c: char| c.is_control()) {
            return Err("onepassword.vault: must be the name or the id of a vault".to_owned());
        }
        if let Some((key, path)) = self.paths().find(|(_, path)| !path.is_absolute()) {
            return Err(format!("{key}: {} is a relative path; use the absolute path", path.display()));
        }
        if let Some(program) =
            self.program().filter(|program| program.is_relative() && program.components().count() > 1)
        {
            return Err(format!("program: {} is a relative path; use the absolute path", program.display()));
        }
        Ok(())
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let account = if self.is_of_persons() {
            // An operator stores the passwords, so there is nothing to link.
            Credentials::of_persons(name, self.chat_types.as_ref(), None, deps)?.0
        } else {
            let secret = self.secret().and_then(|(name, _)| deps.secret(name));
            Account::Shared { username: String::new(), secret }
        };
        let passwords = Passwords {
            name: name.clone(),
            store: Store::new(self, account.clone(), deps.platform).ok_or(ONE_MANAGER)?,
            account,
            allowed: Allowed::new(&self.entries)?,
            uses: self.uses.clone(),
            vault: deps.runtime.map(|runtime| Arc::clone(&runtime.vault)),
            scrubber: deps.runtime.map(|runtime| Arc::clone(&runtime.scrubber)),
        };
        let passwords = Arc::new(passwords);
        let operations = operations(name, &passwords).map_err(|fault| fault.to_string())?;
        let connection = Some(connection::check(name, &passwords));
        Ok(vec![BuiltProvider { connection, ..BuiltProvider::new(name, operations) }])
    }
}
