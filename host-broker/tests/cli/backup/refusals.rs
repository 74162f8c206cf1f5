//! Backups that somebody changed: each is refused before anything is written.

use super::{Elsewhere, back_up};
use crate::cli::world::World;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Restores a backup into a new home, which must fail with this code and words, and make nothing.
fn refused(backup: &Path, code: i32, words: &[&str]) {
    let new = World::empty();
    new.run(&["restore", backup.to_str().unwrap()]).fails(code, words);
    assert!(!new.home.exists(), "nothing is written");
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "no `{from}` in {text}");
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// Attack (Repeats, crashes and evidence): somebody changes a file, a row or the manifest of a
/// backup
/// Defence: a digest under `ledger.key` covers the manifest, and the manifest every file; all is
/// checked before anything is written
///
/// Attack: see `a_path_that_leaves_the_backup_or_has_no_place_in_it_is_refused`.
#[test]
fn a_backup_that_was_changed_is_refused_before_anything_is_written() {
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let mut number = 0;
    let mut fresh = || {
        number += 1;
        let path = elsewhere.path(&format!("backup-{number}"));
        back_up(&world, path.to_str().unwrap(), &["--with-keys"]);
        path
    };
    // A file.
    for file in ["broker.toml", "policy/profiles/main.toml", "ledger.db", "groups/main/CLAUDE.md"] {
        let backup = fresh();
        let mut bytes = std::fs::read(backup.join(file)).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(backup.join(file), bytes).unwrap();
        refused(&backup, 5, &[file, "was changed after the backup"]);
        std::fs::remove_file(backup.join(file)).unwrap();
        refused(&backup, 5, &[file, "is missing"]);
        symlink(world.home.join(file), backup.join(file)).unwrap();
        refused(&backup, 5, &[file, "is a link"]);
    }
    let backup = fresh();
    std::fs::rename(backup.join("policy"), backup.join("moved")).unwrap();
    symlink("moved", backup.join("policy")).unwrap();
    refused(&backup, 5, &["policy is a link"]);
    // Rows beside the database.
    let backup = fresh();
    std::fs::write(backup.join("ledger.db-wal"), "rows").unwrap();
    refused(&backup, 5, &["ledger.db-wal"]);
    // The manifest: cut, with another path, and with another digest.
    let backup = fresh();
    let manifest = backup.join("manifest.json");
    let bytes = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &bytes[..bytes.len() / 2]).unwrap();
    refused(&backup, 5, &["manifest.json", "it is cut or damaged"]);
    std::fs::remove_file(&manifest).unwrap();
    refused(&backup, 3, &["is no backup"]);
    for path in ["../broker.toml", "/etc/passwd", "policy/../../x", "keys/ledger.key", "ipc/main/tasks/x.json"] {
        let backup = fresh();
        replace(&backup.join("manifest.json"), "\"broker.toml\"", &format!("\"{path}\""));
        refused(&backup, 5, &["manifest.json", path]);
    }
    let backup = fresh();
    replace(&backup.join("manifest.json"), "\"with_keys\": true", "\"with_keys\": false");
    refused(&backup, 5, &["was changed after the backup"]);
    // Its own digests fit the changed file, but nobody without the key can make the digest of the manifest.
    let backup = fresh();
    let (old, text) = (std::fs::read(backup.join("broker.toml")).unwrap(), "[broker]\n");
    std::fs::write(backup.join("broker.toml"), text).unwrap();
    let digest = |bytes: &[u8]| shared::digest::Digest::of(bytes).to_string();
    replace(&backup.join("manifest.json"), &digest(&old), &digest(text.as_bytes()));
    replace(&backup.join("manifest.json"), &format!("\"bytes\": {}", old.len()), &format!("\"bytes\": {}", text.len()));
    refused(&backup, 5, &["was changed after the backup: its keyed digest is wrong"]);
}

/// Attack (Repeats, crashes and evidence): a backup is restored with keys of another home, so that
/// its digests and credentials are unreadable
/// Defence: the manifest has a digest of each key
#[test]
fn a_backup_without_its_own_keys_is_refused() {
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    let backup = elsewhere.path("backup");
    back_up(&world, backup.to_str().unwrap(), &["--with-keys"]);
    let other = World::with_mock();
    for key in ["ledger.key", "vault.key", "identity.key"] {
        let path = backup.join("keys").join(key);
        let own = std::fs::read(&path).unwrap();
        std::fs::write(&path, std::fs::read(other.home.join("keys").join(key)).unwrap()).unwrap();
        refused(&backup, 5, &[key, "is another key than the one of the backup"]);
        std::fs::write(&path, &own[..31]).unwrap();
        refused(&backup, 4, &[key, "32 bytes"]);
        std::fs::remove_file(&path).unwrap();
        refused(&backup, 4, &[&format!("keys/{key}"), "put them into", "--keys DIR"]);
        std::fs::write(&path, own).unwrap();
    }
    let new = World::empty();
    let keys = other.home.join("keys");
    new.run(&["restore", backup.to_str().unwrap(), "--keys", keys.to_str().unwrap()]).fails(5, &["is another key"]);
    assert!(!new.home.exists());
    new.run(&["restore", backup.to_str().unwrap()]).ok();
}

#[test]
fn a_home_is_made_only_where_nothing_is() {
    let (world, elsewhere) = (World::with_mock(), Elsewhere::new());
    let backup = elsewhere.text("backup");
    back_up(&world, &backup, &["--with-keys"]);
    world.run(&["restore", &backup]).fails(2, &["is not empty"]);
    let inner = elsewhere.text("backup/home");
    world.run(&["--home", &inner, "restore", &backup]).fails(2, &["is in the backup"]);
    let file = elsewhere.path("file");
    std::fs::write(&file, "mine").unwrap();
    world.run(&["--home", file.to_str().unwrap(), "restore", &backup]).fails(4, &["/file"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    // The remains of an interrupted restore are no home.
    let new = World::empty();
    std::fs::create_dir_all(new.home.join("restore.partial")).unwrap();
    new.run(&["restore", &backup]).fails(2, &["is not empty"]);
    new.run(&["serve"]).fails(4, &["broker.toml"]);
}
