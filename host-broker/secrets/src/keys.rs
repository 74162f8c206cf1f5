//! The keys that the broker makes for itself: 32 random bytes each, in files that only its own user may read.

use crate::exchange::HostKey;
use crate::identity::issuers::OwnKey;
use crate::vault::{self, KeyBytes};
use model::LedgerKey;
use model::{NoRandomness, Random};
use platform::home::{Home, quoted, write_new};
use shared::digest::Digest;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The reason why a key of the broker cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A key file.
    #[error("the key file {path} cannot be used: {fault}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: String,
    },
    /// The random source of the system failed.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Returns the key of digests: without it, a small value could be guessed from its digest.
///
/// # Errors
/// [`KeyError::File`], [`KeyError::Randomness`]; a missing key may then have been made.
pub fn ledger(home: &Home, ids: &dyn Random) -> Result<LedgerKey, KeyError> {
    key(home, LEDGER, ids).map(|mut bytes| LedgerKey::new(std::mem::take(&mut *bytes)))
}

/// Lists the keys and files that a used home lacks, one sentence each. An absent key counts only if there is a ledger.
/// An absent ledger counts only if there are keys. `own_vault` says that the vault's key lies in the home. `in_fleet` says
/// that a database has the rows, so that an absent ledger is read from there.
///
/// # Errors
/// [`KeyError::File`]: there is a ledger, and its key is gone. No key is made then: a new key would match no digest of
/// an earlier row.
pub fn continuity(home: &Home, own_vault: bool, in_fleet: bool) -> Result<Vec<String>, KeyError> {
    let is_there = |name: &str| home.keys().join(name).exists();
    let place = |name: &str| home.keys().join(name).display().to_string();
    let ledger = home.path().join("ledger.db");
    let has_ledger = has_ledger(home);
    if !has_ledger && in_fleet && !is_there(LEDGER) {
        // Either everything is made, or `missing_in_fleet` says why not.
        return Ok(Vec::new());
    }
    if !has_ledger && !in_fleet {
        let left: Vec<String> = KEYS.into_iter().filter(|name| is_there(name)).map(place).collect();
        let note = format!(
            "{} is missing and is made new, but there is {}; if this home had a ledger, stop and restore it, because \
             grants, approvals and evidence are in it",
            ledger.display(),
            left.join(", ")
        );
        return Ok(if left.is_empty() { Vec::new() } else { vec![note] });
    }
    if !is_there(LEDGER) {
        let path = home.keys().join(LEDGER);
        let fault = format!(
            "it is missing, and {} was written with it; restore it from a backup, or, if it is lost, begin with another \
             one, which matches no digest of earlier rows: (umask 077; head -c 32 /dev/urandom > {})",
            ledger.display(),
            quoted(&path)
        );
        return Err(KeyError::File { path, fault });
    }
    let lost = [
        (IDENTITY, true, "tokens that were signed with the old one"),
        (VAULT, own_vault, "data that was encrypted under the old key"),
    ];
    let missing = lost.into_iter().filter(|(name, ours, _)| *ours && !is_there(name));
    let note = |(name, _, what): (&str, bool, &str)| {
        format!(
            "{} is missing and is made new; if there was one, stop and restore it: {what} is not accepted",
            place(name)
        )
    };
    Ok(missing.map(note).collect())
}

/// The key that signs context tokens.
///
/// # Errors
/// As [`ledger`].
pub fn identity(home: &Home, ids: &dyn Random) -> Result<OwnKey, KeyError> {
    let bytes = key(home, IDENTITY, ids)?;
    OwnKey::new(&bytes).map_err(|fault| KeyError::File { path: home.keys().join(IDENTITY), fault })
}

/// The key of a host of a fleet, for the commands between hosts and the replies.
///
/// # Errors
/// As [`ledger`].
pub fn fleet(home: &Home, ids: &dyn Random) -> Result<HostKey, KeyError> {
    let bytes = key(home, FLEET, ids)?;
    HostKey::new(&bytes).map_err(|fault| KeyError::File { path: home.keys().join(FLEET), fault })
}

/// The same key; `None` if the home has none yet.
///
/// # Errors
/// As [`ledger`].
pub fn fleet_if_any(home: &Home) -> Result<Option<HostKey>, KeyError> {
    if home.keys().join(FLEET).exists() { fleet(home, &NoKey).map(Some) } else { Ok(None) }
}

/// No randomness, because no key may be made.
struct NoKey;

impl Random for NoKey {
    fn fill(&self, _bytes: &mut [u8]) -> Result<(), NoRandomness> {
        Err(NoRandomness)
    }
}

/// The master keys of the vault that lie in the home: the present one, made if there is none, and the one before it, while
/// a new one takes over.
///
/// # Errors
/// As [`ledger`].
pub fn vault(home: &Home, ids: &dyn Random) -> Result<(KeyBytes, Option<KeyBytes>), KeyError> {
    let sized = |bytes: &Zeroizing<Vec<u8>>| {
        let fault = "it does not hold 32 bytes; restore it from a backup".to_owned();
        let bytes = <[u8; vault::KEY]>::try_from(bytes.as_slice()).map(KeyBytes::new);
        bytes.map_err(|_length| KeyError::File { path: home.keys().join(VAULT), fault })
    };
    let current = sized(&key(home, VAULT, ids)?)?;
    let previous = home.keys().join(VAULT_BEFORE);
    let previous = if previous.exists() { Some(sized(&key(home, VAULT_BEFORE, ids)?)?) } else { None };
    Ok((current, previous))
}

/// The keys that sign checkpoints: the present one, made if there is none, and the earlier one, until it has endorsed the
/// present one.
///
/// # Errors
/// As [`ledger`]. If `has_signed` says that there are checkpoints, a missing key is an error and is not made: the earlier
/// key could not endorse it.
pub fn checkpoint(home: &Home, ids: &dyn Random, has_signed: bool) -> Result<(OwnKey, Option<OwnKey>), KeyError> {
    if has_signed {
        present_checkpoint(home)?;
    }
    let sized = |name: &str| {
        let file = |fault| KeyError::File { path: home.keys().join(name), fault };
        OwnKey::new(&key(home, name, ids)?).map_err(file)
    };
    let current = sized(CHECKPOINT)?;
    let earlier = if home.keys().join(CHECKPOINT_BEFORE).exists() { Some(sized(CHECKPOINT_BEFORE)?) } else { None };
    Ok((current, earlier))
}

/// The same keys, of which none is made.
///
/// # Errors
/// [`KeyError::File`], also if the present key is missing.
pub fn present_checkpoint(home: &Home) -> Result<(OwnKey, Option<OwnKey>), KeyError> {
    let path = home.keys().join(CHECKPOINT);
    let missing = || {
        let fault = format!(
            "it is missing, and the ledger has checkpoints; restore it from a backup. If it is lost, begin with another \
             key, and each verification reports that: (umask 077; head -c 32 /dev/urandom > {}; rm -f {})",
            quoted(&path),
            quoted(&home.keys().join(NOTE))
        );
        KeyError::File { path: path.clone(), fault }
    };
    let sized = |name: &str| -> Result<Option<OwnKey>, KeyError> {
        let path = home.keys().join(name);
        let Some(bytes) = read(&home.keys(), name)? else { return Ok(None) };
        private(&path).and_then(|()| OwnKey::new(&bytes)).map(Some).map_err(|fault| KeyError::File { path, fault })
    };
    Ok((sized(CHECKPOINT)?.ok_or_else(missing)?, sized(CHECKPOINT_BEFORE)?))
}

/// Returns whether this is the file of the key that signs checkpoints.
pub fn is_checkpoint(name: &str) -> bool {
    name == CHECKPOINT
}

/// Puts a new key for checkpoints in the place of the present one. That one stays beside it until it has endorsed the new one.
/// If a renewal was begun before, nothing is changed: it continues.
///
/// # Errors
/// As [`renew_vault`].
pub fn renew_checkpoint(home: &Home, ids: &dyn Random) -> Result<(), KeyError> {
    renew(home, ids, CHECKPOINT, CHECKPOINT_BEFORE)
}

/// Removes the earlier key, which has endorsed the present one.
///
/// # Errors
/// The system error; the key is unchanged.
pub fn drop_checkpoint_before(home: &Home) -> Result<(), std::io::Error> {
    forget(home, CHECKPOINT_BEFORE)
}

/// Returns the last checkpoint that this home has signed; `None` if it has signed none.
///
/// # Errors
/// [`KeyError::File`].
pub fn signed_note(home: &Home) -> Result<Option<String>, KeyError> {
    let path = home.keys().join(NOTE);
    match std::fs::read_to_string(&path) {
        Ok(note) => Ok(Some(note)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KeyError::File { path, fault: error.to_string() }),
    }
}

/// Stores the last checkpoint that this home has signed. It is no secret; it lies beside the keys because a process that can
/// write the ledger alone must not replace it.
///
/// # Errors
/// The system error; the earlier checkpoint is still stored.
pub fn keep_signed_note(home: &Home, note: &str) -> Result<(), std::io::Error> {
    let (path, new) = (home.keys().join(NOTE), home.keys().join(NOTE).with_extension("note.new"));
    std::fs::remove_file(&new).ok();
    write_new(&new, note.as_bytes())?;
    std::fs::rename(&new, &path)?;
    std::fs::File::open(home.keys())?.sync_all()
}

/// Returns whether the home has a ledger. A first start that died before it made the tables leaves an empty file.
pub fn has_ledger(home: &Home) -> bool {
    std::fs::metadata(home.path().join("ledger.db")).is_ok_and(|found| found.len() > 0)
}

/// Returns whether the home has the key of digests.
pub fn has_ledger_key(home: &Home) -> bool {
    home.keys().join(LEDGER).exists()
}

/// Returns the error of a home that lacks the key of digests, although a database has rows of its host. No key is made
/// then: a new key would match no digest of those rows.
pub fn missing_in_fleet(home: &Home, host: &str) -> KeyError {
    let fault = format!(
        "it is missing, and the database of [store] has rows of the host `{host}` that were written with it; copy keys/ \
         from the machine that has written them, or from a backup"
    );
    KeyError::File { path: home.keys().join(LEDGER), fault }
}

/// Checks whether the home has a master key of its own.
pub fn has_vault(home: &Home) -> bool {
    home.keys().join(VAULT).exists()
}

/// Returns a master key that is stored nowhere, as a start would make it. Another process may make and use the real one at
/// the same time.
///
/// # Errors
/// As [`ledger`]: a start could not make it.
pub fn unstored_vault(home: &Home, ids: &dyn Random) -> Result<KeyBytes, KeyError> {
    let path = home.keys().join(VAULT);
    let fault = |error: std::io::Error| KeyError::File { path: path.clone(), fault: error.to_string() };
    let mut bytes = KeyBytes::new([0; vault::KEY]);
    ids.fill(bytes.as_mut())?;
    let trial = beside(&path, bytes.as_ref());
    std::fs::write(&trial, "").and_then(|()| std::fs::remove_file(&trial)).map_err(fault)?;
    Ok(bytes)
}

/// Puts a new master key in the place of the present one, which stays beside it until everything is sealed again.
///
/// If a renewal was begun before, nothing is changed: it continues.
///
/// # Errors
/// As [`ledger`]; the present key is there as it was, or as the one before.
pub fn renew_vault(home: &Home, ids: &dyn Random) -> Result<(), KeyError> {
    renew(home, ids, VAULT, VAULT_BEFORE)
}

fn renew(home: &Home, ids: &dyn Random, name: &str, name_before: &str) -> Result<(), KeyError> {
    let (current, before) = (home.keys().join(name), home.keys().join(name_before));
    let now = key(home, name, ids)?;
    if before.exists() && *key(home, name_before, ids)? != *now {
        return Ok(());
    }
    let fault = |error: std::io::Error| KeyError::File { path: current.clone(), fault: error.to_string() };
    let mut bytes = Zeroizing::new([0; vault::KEY]);
    ids.fill(bytes.as_mut())?;
    let new = current.with_extension("new");
    for left in [&new, &before] {
        std::fs::remove_file(left).ok();
    }
    // ORDER: the old key has its second name before the new one takes its first.
    std::fs::hard_link(&current, &before).map_err(fault)?;
    write_new(&new, bytes.as_ref()).map_err(fault)?;
    std::fs::rename(&new, &current).map_err(fault)?;
    std::fs::File::open(home.keys()).and_then(|directory| directory.sync_all()).map_err(fault)
}

/// Removes the master key before the present one, under which nothing is sealed any more.
///
/// # Errors
/// The system error; the key is unchanged.
pub fn drop_vault_before(home: &Home) -> Result<(), std::io::Error> {
    forget(home, VAULT_BEFORE)
}

fn forget(home: &Home, name: &str) -> Result<(), std::io::Error> {
    match std::fs::remove_file(home.keys().join(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A key file, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// Its name.
    pub name: String,
    /// A digest that tells this key from another one.
    ///
    /// SECURITY: a key is 32 random bytes, so that nobody can guess it from its digest.
    pub check: Digest,
}

/// Returns the key files in a directory, as far as there are any.
///
/// # Errors
/// [`KeyError::File`]: one cannot be read, or is no key.
pub fn present(directory: &Path) -> Result<Vec<KeyFile>, KeyError> {
    let mut found = Vec::new();
    for name in FILES {
        if let Some(bytes) = read(directory, name)? {
            found.push(KeyFile { name: name.to_owned(), check: check(name, &bytes) });
        }
    }
    Ok(found)
}

/// Returns whether a key file can have this name.
pub fn is_known(name: &str) -> bool {
    FILES.contains(&name)
}

/// Returns the key of digests in a directory, and makes none.
///
/// # Errors
/// [`KeyError::File`], also if it is missing.
pub fn ledger_in(directory: &Path) -> Result<LedgerKey, KeyError> {
    let missing = || KeyError::File { path: directory.join(LEDGER), fault: "it is missing".to_owned() };
    read(directory, LEDGER)?.ok_or_else(missing).map(|mut bytes| LedgerKey::new(std::mem::take(&mut *bytes)))
}

/// Copies this key, if it is the one that has this digest, into another directory as a private file.
///
/// # Errors
/// [`KeyError::File`], also if it is another key, or is there already.
pub fn copy(from: &Path, to: &Path, key: &KeyFile) -> Result<(), KeyError> {
    let path = to.join(&key.name);
    let bytes = read(from, &key.name)?.filter(|bytes| check(&key.name, bytes) == key.check);
    let fault = |fault: String| KeyError::File { path: path.clone(), fault };
    let bytes = bytes.ok_or_else(|| fault("its original is missing, or was replaced".to_owned()))?;
    match write_new(&path, &bytes) {
        Ok(true) => Ok(()),
        Ok(false) => Err(fault("it exists already".to_owned())),
        Err(error) => Err(fault(error.to_string())),
    }
}

fn check(name: &str, bytes: &[u8]) -> Digest {
    let parts: [&[u8]; 4] = [b"ext-broker key check v1\n", name.as_bytes(), b"\n", bytes];
    let text = parts.concat();
    Digest::of(&Zeroizing::new(text))
}

/// Returns the content of a key file; `None` if it does not exist.
fn read(directory: &Path, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeyError> {
    let path = directory.join(name);
    let fault = |fault: String| KeyError::File { path: path.clone(), fault };
    // A device or a pipe is no key, and could be read without end.
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() && found.len() == 32 => {}
        Ok(_) => return Err(fault("it does not hold 32 bytes".to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(error.to_string())),
    }
    let bytes = Zeroizing::new(std::fs::read(&path).map_err(|error| fault(error.to_string()))?);
    if bytes.len() == 32 { Ok(Some(bytes)) } else { Err(fault("it does not hold 32 bytes".to_owned())) }
}

/// The key of digests, and the one that signs.
const LEDGER: &str = "ledger.key";
const IDENTITY: &str = "identity.key";
/// The vault's master key, and the one before it.
const VAULT: &str = "vault.key";
const VAULT_BEFORE: &str = "vault-before.key";
/// The key that signs checkpoints, and the one before it.
const CHECKPOINT: &str = "checkpoint.key";
const CHECKPOINT_BEFORE: &str = "checkpoint-before.key";
/// The key for commands between hosts. Only a host of a fleet has one.
const FLEET: &str = "fleet.key";
/// The last checkpoint that was signed.
const NOTE: &str = "checkpoint.note";
/// Every key that a home has once it was used.
const KEYS: [&str; 4] = [LEDGER, IDENTITY, VAULT, CHECKPOINT];
/// Every file of a key that a home can have.
const FILES: [&str; 7] = [LEDGER, IDENTITY, VAULT, VAULT_BEFORE, CHECKPOINT, CHECKPOINT_BEFORE, FLEET];

/// The key of this name, made if there is none.
fn key(home: &Home, name: &str, ids: &dyn Random) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let path = home.keys().join(name);
    let fault = |fault: String| KeyError::File { path: path.clone(), fault };
    if !path.exists() {
        let mut bytes = Zeroizing::new([0; 32]);
        ids.fill(bytes.as_mut())?;
        write_new(&path, bytes.as_ref()).map_err(|error| fault(error.to_string()))?;
    }
    let bytes = Zeroizing::new(std::fs::read(&path).map_err(|error| fault(error.to_string()))?);
    if bytes.len() != 32 {
        return Err(fault("it does not hold 32 bytes; restore it from a backup".into()));
    }
    private(&path).map_err(fault)?;
    Ok(bytes)
}

/// Returns a path of this process alone: the name derives from the content.
fn beside(path: &Path, bytes: &[u8]) -> PathBuf {
    let unique: String = Digest::of(bytes).hex().chars().take(16).collect();
    path.with_extension(format!("{unique}.new"))
}

fn private(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.permissions().mode();
    if mode.trailing_zeros() >= 6 { Ok(()) } else { Err(format!("others may read it; chmod 600 {}", path.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::random::SystemRandom;

    #[test]
    fn concurrent_first_starts_have_the_same_key() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().to_path_buf());
        let keys = || identity(&home, &SystemRandom).unwrap().public();
        let found: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..16).map(|_| scope.spawn(keys)).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|key| *key == found[0]));
        let names: Vec<_> = std::fs::read_dir(home.keys()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["identity.key"]);
        let mode = std::fs::metadata(home.keys().join("identity.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_renewal_goes_on_wherever_it_was_broken_off() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().to_path_buf());
        let keys = || vault(&home, &SystemRandom).unwrap();
        let (first, none) = keys();
        assert!(none.is_none());
        // Broken off before there was a new key.
        std::fs::hard_link(home.keys().join(VAULT), home.keys().join(VAULT_BEFORE)).unwrap();
        renew_vault(&home, &SystemRandom).unwrap();
        let (second, before) = keys();
        assert!(*second != *first && *before.unwrap() == *first);
        // Interrupted before everything was under it: the new key stays.
        renew_vault(&home, &SystemRandom).unwrap();
        let (again, before) = keys();
        assert!(*again == *second && *before.unwrap() == *first);
        drop_vault_before(&home).unwrap();
        drop_vault_before(&home).unwrap();
        let (left, none) = keys();
        assert!(*left == *second && none.is_none());
        let mut names: Vec<_> =
            std::fs::read_dir(home.keys()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [VAULT]);
    }

    #[test]
    fn a_key_is_not_made_silently_where_there_is_a_ledger_nor_a_ledger_where_there_are_keys() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().to_path_buf());
        let notes = || continuity(&home, true, false).unwrap();
        assert_eq!(notes(), [""; 0], "an empty home has everything made");
        ledger(&home, &SystemRandom).unwrap();
        let [note] = &notes()[..] else { panic!("one note") };
        assert!(note.contains("ledger.db is missing") && note.contains("ledger.key"), "{note}");
        std::fs::write(directory.path().join("ledger.db"), "rows").unwrap();
        let [identity, vault] = &notes()[..] else { panic!("two notes") };
        assert!(identity.contains("identity.key is missing") && vault.contains("vault.key is missing"));
        assert_eq!(
            continuity(&home, false, false).unwrap(),
            std::slice::from_ref(identity),
            "a vault's key that lies elsewhere is not made"
        );
        std::fs::remove_file(home.keys().join(LEDGER)).unwrap();
        let fault = continuity(&home, true, false).unwrap_err().to_string();
        for part in ["ledger.key", "restore it from a backup", "head -c 32 /dev/urandom >"] {
            assert!(fault.contains(part), "{fault}");
        }
    }

    /// Attack (The host): A new machine takes over a host without its key, which is silently
    /// replaced.
    /// Defence: With `[store]`, the broker makes no key if the database has rows of the host.
    #[test]
    fn a_home_whose_rows_are_in_a_database_needs_its_keys_and_no_ledger() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().to_path_buf());
        let notes = || continuity(&home, true, true).unwrap();
        assert_eq!(notes(), [""; 0], "an empty home has everything made");
        assert!(!has_ledger(&home) && !has_ledger_key(&home));
        ledger(&home, &SystemRandom).unwrap();
        let [identity, vault] = &notes()[..] else { panic!("two notes") };
        assert!(identity.contains("identity.key is missing") && vault.contains("vault.key is missing"));
        super::identity(&home, &SystemRandom).unwrap();
        super::vault(&home, &SystemRandom).unwrap();
        assert_eq!(notes(), [""; 0], "the ledger comes from the database");
        let fault = missing_in_fleet(&home, "a").to_string();
        assert!(fault.contains("ledger.key") && fault.contains("the host `a`"), "{fault}");
    }

    #[test]
    fn a_key_that_others_may_read_or_that_is_cut_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path().to_path_buf());
        ledger(&home, &SystemRandom).unwrap();
        let path = home.keys().join("ledger.key");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(ledger(&home, &SystemRandom).unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, [7; 31]).unwrap();
        assert!(ledger(&home, &SystemRandom).unwrap_err().to_string().contains("32 bytes"));
    }
}
