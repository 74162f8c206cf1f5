//! The manifest of a backup: what is in it, where its ledger ends, and which keys it needs.
//!
//! SECURITY: a keyed digest covers the manifest, and the manifest the digest of every file. So a backup that somebody
//! changed is refused, as long as nobody else has `ledger.key`.

use model::LedgerKey;
use secrets::keys::KeyFile;
use serde::{Deserialize, Serialize};
use shared::Timestamp;
use shared::digest::Digest;
use std::collections::BTreeSet;
use subtle::ConstantTimeEq as _;

/// The name of the manifest.
pub(in crate::cli) const NAME: &str = "manifest.json";
/// The format, which a later version of the program can still read.
const FORMAT: &str = "ext-broker backup v1";
/// The start of the manifest's keyed digest. It is no JSON, so no digest of a request is one of a manifest.
const LABEL: &[u8] = b"ext-broker backup manifest v1\n";
/// The longest manifest, in bytes: a ledger of a thousand million rows has 20,000 segments.
pub(in crate::cli) const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The longest path, in bytes.
const PATH_MAX: usize = 512;
/// The files at the top of a backup.
const FILES: [&str; 2] = [CONFIG, LEDGER];
/// The directories of a backup. `keys` is not one of them: keys are never listed as files.
pub(in crate::cli) const DIRECTORIES: [&str; 4] = ["policy", "accepted", "groups", SEGMENTS];
/// The configuration.
pub(in crate::cli) const CONFIG: &str = "broker.toml";
/// The database.
pub(in crate::cli) const LEDGER: &str = "ledger.db";
/// The directory of segments.
pub(in crate::cli) const SEGMENTS: &str = store::ledger::segments::DIRECTORY;

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Entry {
    /// Its path in the backup and in the home.
    pub(in crate::cli) path: String,
    /// Its length.
    pub(in crate::cli) bytes: u64,
    /// SHA-256 of its content.
    pub(in crate::cli) sha256: Digest,
}

/// The end of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Head {
    /// The number of the last row; 0 if there is none.
    pub(in crate::cli) seq: i64,
    /// Its hash.
    pub(in crate::cli) event_hash: Digest,
}

/// A key that the backup needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Key {
    /// The name of its file.
    pub(in crate::cli) name: String,
    /// A digest that tells it from another key, and reveals nothing of it.
    pub(in crate::cli) check: Digest,
}

/// The content of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Manifest {
    /// The format.
    pub(in crate::cli) format: String,
    /// The version of the program that made it.
    pub(in crate::cli) version: String,
    /// The version of the database's schema.
    pub(in crate::cli) schema: i64,
    /// The time.
    pub(in crate::cli) taken_at: Timestamp,
    /// The end of the chain.
    pub(in crate::cli) head: Head,
    /// The files, except the keys.
    pub(in crate::cli) files: Vec<Entry>,
    /// The keys that it needs.
    pub(in crate::cli) keys: Vec<Key>,
    /// Whether the keys are in it.
    pub(in crate::cli) with_keys: bool,
}

/// The manifest as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    manifest: Manifest,
    mac: Digest,
}

/// A manifest whose keyed digest is not checked yet.
#[derive(Debug)]
pub(in crate::cli) struct Unchecked(Signed);

impl Manifest {
    /// Returns the format of this program's manifests.
    pub(in crate::cli) fn format() -> String {
        FORMAT.to_owned()
    }

    /// Returns the file.
    pub(in crate::cli) fn to_bytes(&self, key: &LedgerKey) -> Vec<u8> {
        let mac = key.digest(&self.covered());
        let signed = Signed { manifest: self.clone(), mac };
        serde_json::to_vec_pretty(&signed).unwrap_or_default()
    }

    fn covered(&self) -> Vec<u8> {
        [LABEL, &shared::json::canonical(self)].concat()
    }

    /// Returns the names of the segments among its files.
    pub(in crate::cli) fn segments(&self) -> BTreeSet<&str> {
        let paths = self.files.iter().map(|entry| entry.path.as_str());
        paths.filter(|path| path.split_once('/').is_some_and(|(first, _)| first == SEGMENTS)).collect()
    }

    /// Checks everything that does not need a key.
    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("its format is `{}`, and this program knows `{FORMAT}`", self.format));
        }
        let mut seen = BTreeSet::new();
        for entry in &self.files {
            check_path(&entry.path)?;
            if !seen.insert(entry.path.as_str()) {
                return Err(format!("it names {} twice", entry.path));
            }
        }
        for path in &seen {
            let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            if let Some(file) = above.into_iter().find(|above| seen.contains(above)) {
                return Err(format!("it names {file} as a file and as a directory"));
            }
        }
        if let Some(missing) = FILES.into_iter().find(|name| !seen.contains(name)) {
            return Err(format!("it does not name {missing}"));
        }
        let names: BTreeSet<&str> = self.keys.iter().map(|key| key.name.as_str()).collect();
        if names.len() != self.keys.len() || !names.iter().all(|name| secrets::keys::is_known(name)) {
            return Err("it names a key that no home has, or a key twice".to_owned());
        }
        Ok(())
    }
}

impl Unchecked {
    /// Reads the manifest.
    ///
    /// # Errors
    /// The fault, for a person.
    pub(in crate::cli) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let document = shared::json::parse(bytes).map_err(|fault| format!("it is cut or damaged: {fault}"))?;
        // A later format can have other members.
        let format = document.pointer("/manifest/format").and_then(serde_json::Value::as_str).unwrap_or_default();
        if format != FORMAT && !format.is_empty() {
            return Err(format!("its format is `{format}`, and this program knows `{FORMAT}`"));
        }
        let signed = Signed::deserialize(document).map_err(|fault| format!("it is cut or damaged: {fault}"))?;
        signed.manifest.check()?;
        Ok(Self(signed))
    }

    /// Returns the keys that are needed to check it.
    pub(in crate::cli) fn keys(&self) -> Vec<KeyFile> {
        let key = |key: &Key| KeyFile { name: key.name.clone(), check: key.check };
        self.0.manifest.keys.iter().map(key).collect()
    }

    /// Returns the manifest, if this key made its digest; otherwise somebody changed it.
    pub(in crate::cli) fn checked(self, key: &LedgerKey) -> Option<Manifest> {
        let Signed { manifest, mac } = self.0;
        // The comparison takes the same time for each wrong digest.
        let expected = key.digest(&manifest.covered());
        let equal = expected.as_bytes().as_slice().ct_eq(mac.as_bytes().as_slice());
        bool::from(equal).then_some(manifest)
    }
}

/// Checks that a path stays in the home, in a place that a backup has.
fn check_path(path: &str) -> Result<(), String> {
    let shown = || path.escape_debug().to_string();
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control);
    if path.len() > PATH_MAX || !path.split('/').all(plain) {
        return Err(format!("it names the path `{}`, which leaves the backup or is none", shown()));
    }
    let is_known = match path.split_once('/') {
        None => FILES.contains(&path),
        Some((first, _)) => DIRECTORIES.contains(&first),
    };
    if is_known { Ok(()) } else { Err(format!("it names the path `{}`, which no backup has", shown())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(paths: &[&str]) -> Manifest {
        let entry = |path: &&str| Entry { path: (*path).to_owned(), bytes: 1, sha256: Digest::of(b"x") };
        Manifest {
            format: Manifest::format(),
            version: "1".to_owned(),
            schema: 6,
            taken_at: Timestamp::from_millis(1),
            head: Head { seq: 0, event_hash: Digest::ZERO },
            files: ["broker.toml", "ledger.db"].iter().chain(paths).map(entry).collect(),
            keys: vec![Key { name: "ledger.key".to_owned(), check: Digest::of(b"k") }],
            with_keys: false,
        }
    }

    fn key(byte: u8) -> LedgerKey {
        LedgerKey::new(vec![byte; 32])
    }

    /// Attack: see `a_backup_that_was_changed_is_refused_before_anything_is_written`.
    #[test]
    fn a_manifest_is_read_back_with_its_key_only() {
        let written = manifest(&["policy/a.cedar", "segments/000000000001-000000000002.jsonl.gz"]);
        let bytes = written.to_bytes(&key(1));
        assert_eq!(Unchecked::parse(&bytes).unwrap().checked(&key(1)), Some(written.clone()));
        assert_eq!(Unchecked::parse(&bytes).unwrap().checked(&key(2)), None);
        assert_eq!(written.segments().len(), 1);
        let changed = String::from_utf8(bytes).unwrap().replace("\"bytes\": 1", "\"bytes\": 2");
        assert_eq!(Unchecked::parse(changed.as_bytes()).unwrap().checked(&key(1)), None);
    }

    /// Attack: see `a_backup_that_was_changed_is_refused_before_anything_is_written`.
    #[test]
    fn a_manifest_that_is_cut_is_refused_wherever_it_is_cut() {
        let bytes = manifest(&[]).to_bytes(&key(1));
        for length in 0..bytes.len() {
            Unchecked::parse(&bytes[..length]).unwrap_err();
        }
    }

    /// Attack (Repeats, crashes and evidence): a manifest names a path outside of the home, or a
    /// file of a backup is a link to another
    /// Defence: only paths in the places of a home pass; links are refused
    #[test]
    fn a_path_that_leaves_the_backup_or_has_no_place_in_it_is_refused() {
        for path in [
            "../broker.toml",
            "policy/../../x",
            "/etc/passwd",
            "policy//x",
            "policy/./x",
            "policy/",
            "",
            ".",
            "..",
            "keys/ledger.key",
            "ipc/developer/tasks/x.json",
            "ledger.db/x",
            "lock",
            "policy",
            "segments",
            "policy/a\u{0}b",
            "policy/a\nb",
            "POLICY/x",
        ] {
            let bytes = manifest(&[path]).to_bytes(&key(1));
            Unchecked::parse(&bytes).expect_err(path);
        }
        for paths in [&["policy/a", "policy/a"][..], &["policy/a", "policy/a/b"]] {
            let bytes = manifest(paths).to_bytes(&key(1));
            Unchecked::parse(&bytes).expect_err("a file that is a directory, or twice there");
        }
        let long = format!("policy/{}", "x".repeat(PATH_MAX));
        Unchecked::parse(&manifest(&[&long]).to_bytes(&key(1))).unwrap_err();
    }

    #[test]
    fn another_format_and_unknown_keys_are_refused() {
        let bytes = String::from_utf8(manifest(&[]).to_bytes(&key(1))).unwrap();
        let later = bytes.replace("backup v1", "backup v2");
        assert!(Unchecked::parse(later.as_bytes()).unwrap_err().contains("`ext-broker backup v2`"));
        let other = bytes.replace("ledger.key", "../x.key");
        assert!(Unchecked::parse(other.as_bytes()).is_err());
        let more = bytes.replace("\"with_keys\"", "\"more\": 1, \"with_keys\"");
        assert!(Unchecked::parse(more.as_bytes()).is_err());
    }
}
