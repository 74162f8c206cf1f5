//! KeePass: a database in one encrypted file (KDBX 3.1 and 4, KDB).
//!
//! Each call opens the file again, so nothing of it stays in memory. Deriving the key takes as long and as much memory as
//! the file demands; only one call does it at a time.

use super::{gone, of_person};
use crate::entry::{Entry, Listing, Login};
use crate::failures::unavailable;
use crate::settings::KeePass;
use ::keepass::db::{EntryRef, GroupRef};
use ::keepass::{Database, DatabaseKey};
use provider::accounts::Account;
use provider::contract::{Execution, Failure};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use uuid::Uuid;
use zeroize::Zeroizing;

/// The longest database, in bytes. The longest key file is as long.
const FILE_MAX: u64 = 64 * 1024 * 1024;

/// A database of KeePass.
#[derive(Clone)]
pub(crate) struct KeePassStore {
    /// Its password is the master password.
    account: Account,
    database: Option<PathBuf>,
    directory: Option<PathBuf>,
    key_file: Option<PathBuf>,
    openers: Arc<Semaphore>,
}

impl KeePassStore {
    pub(super) fn new(settings: &KeePass, account: Account) -> Self {
        let KeePass { database, directory, password: _, key_file } = settings.clone();
        Self { account, database, directory, key_file, openers: Arc::new(Semaphore::new(1)) }
    }

    /// Returns the file of the database.
    fn file(&self) -> Result<PathBuf, Failure> {
        match (&self.database, &self.directory) {
            (Some(database), _) => Ok(database.clone()),
            (None, Some(directory)) => of_person(directory, &self.account, ".kdbx"),
            (None, None) => Err(unavailable("The table names no KeePass database.")),
        }
    }

    pub(super) fn of_account(&self, account: Account) -> Self {
        Self { account, ..self.clone() }
    }

    pub(super) async fn entries(&self, execution: &Execution) -> Result<Listing, Failure> {
        self.read(execution, |database| {
            let mut listing = Listing::default();
            each(database, |name, entry| {
                let (id, username, url) = (entry.id().uuid().to_string(), entry.get_username(), entry.get_url());
                listing.add(name, |name| Entry { id, name, username: text(username), url: text(url) });
            });
            listing
        })
        .await
    }

    pub(super) async fn login(&self, entry: &Entry, execution: &Execution) -> Result<Login, Failure> {
        let wanted = entry.clone();
        let login = self
            .read(execution, move |database| {
                let mut found = None;
                each(database, |name, entry| {
                    if name == wanted.name.as_str() && entry.id().uuid().to_string() == wanted.id {
                        found = Some(Login {
                            password: Zeroizing::new(entry.get_password().unwrap_or_default().to_owned()),
                            username: text(entry.get_username()),
                            url: text(entry.get_url()),
                        });
                    }
                });
                found
            })
            .await?;
        login.ok_or_else(gone)
    }

    /// Opens the database on a thread for long work, and reads from it.
    async fn read<T: Send + 'static>(
        &self,
        execution: &Execution,
        work: impl FnOnce(&Database) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (_, password) = self.account.sign_in(execution)?;
        let (file, key_file) = (self.file()?, self.key_file.clone());
        let opened = async {
            let permit = Arc::clone(&self.openers).acquire_owned().await;
            let opened = spawn_blocking(move || {
                let result = open(&file, key_file.as_deref(), &password).map(|database| work(&database));
                drop(permit);
                result
            });
            opened.await.unwrap_or_else(|_panic| Err(unavailable("The KeePass database cannot be read.")))
        };
        let opened = timeout_at(execution.deadline(), opened).await.unwrap_or(Err(Failure::Timeout));
        opened.map_err(|failure| self.account.not_opened(failure))
    }
}

/// Opens the database. Its errors say no more than that it does not open.
fn open(file: &Path, key_file: Option<&Path>, password: &str) -> Result<Database, Failure> {
    let mut key = DatabaseKey::new().with_password(password);
    if let Some(path) = key_file {
        let bytes = bytes(path).ok_or_else(|| unavailable("The key file of the KeePass database cannot be read."))?;
        key = key
            .with_keyfile(&mut bytes.as_slice())
            .map_err(|_error| unavailable("The key file of the KeePass database cannot be read."))?;
    }
    let bytes = bytes(file).ok_or_else(|| unavailable("The file of the KeePass database cannot be read."))?;
    Database::parse(&bytes, key).map_err(|error| {
        tracing::warn!(%error, database = %file.display(), "a KeePass database does not open");
        unavailable("The KeePass database does not open. An operator checks its password and its key file.")
    })
}

fn bytes(path: &Path) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    let mut file = File::open(path).ok()?.take(FILE_MAX + 1);
    file.read_to_end(&mut bytes).ok()?;
    u64::try_from(bytes.len()).is_ok_and(|length| length <= FILE_MAX).then_some(bytes)
}

/// The most groups in each other. Deeper groups are not read.
const DEPTH_MAX: usize = 64;

/// Calls `visit` for each entry and its name, but for those in the recycle bin.
fn each(database: &Database, mut visit: impl FnMut(String, &EntryRef<'_>)) {
    walk(&database.root(), "", database.meta.recyclebin_uuid, DEPTH_MAX, &mut visit);
}

fn walk(
    group: &GroupRef<'_>,
    path: &str,
    bin: Option<Uuid>,
    depth: usize,
    visit: &mut dyn FnMut(String, &EntryRef<'_>),
) {
    for entry in group.entries() {
        visit(format!("{path}{}", entry.get_title().unwrap_or_default()), &entry);
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    for inner in group.groups().filter(|inner| Some(inner.id().uuid()) != bin) {
        walk(&inner, &format!("{path}{}/", inner.name), bin, depth, visit);
    }
}

/// Returns a field that is not empty.
fn text(field: Option<&str>) -> Option<String> {
    field.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}
