//! Real changes: two versions of one crate, as the lockfile happens to bring them.

use super::{Tree, both_take, changed, git, git_apply, plan_on};
use crate::change::FileState;
use crate::diff::Diff;
use crate::patch::{HunkError, Limits, PatchError, plan};
use crate::rules::PathRules;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// As many pairs as are tried; all of them would take a minute.
const PAIRS: usize = 12;

/// Directories of the registry that hold two versions of one crate.
fn pairs() -> Vec<(PathBuf, PathBuf)> {
    let home = option_env!("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| option_env!("HOME").map(|home| Path::new(home).join(".cargo")));
    let sources = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok()).into_iter().flatten();
    let mut versions: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for crates in sources.filter_map(|entry| fs::read_dir(entry.ok()?.path()).ok()) {
        for entry in crates.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let parts: Vec<&str> = name.split('-').collect();
            let version = parts.iter().position(|part| part.starts_with(|c: char| c.is_ascii_digit()));
            if let Some(at) = version.filter(|at| *at > 0) {
                versions.entry(parts[..at].join("-")).or_default().push(entry.path());
            }
        }
    }
    let mut pairs = Vec::new();
    for mut paths in versions.into_values().filter(|paths| paths.len() > 1) {
        paths.sort();
        pairs.push((paths[0].clone(), paths[1].clone()));
    }
    pairs
}

#[test]
fn versions_of_real_crates_become_one_another_as_git_makes_them() {
    let pairs = pairs();
    if pairs.len() < 3 {
        println!("skipped: the registry holds two versions of only {} crates", pairs.len());
        return;
    }
    let mut files = 0;
    for (old, new) in pairs.iter().take(PAIRS) {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        git(&["init", "--quiet"], root);
        let trees = [old, new].map(|from| {
            fs::remove_dir_all(root.join("src")).ok();
            copy(from, &root.join("src"));
            git(&["add", "--all", "--force"], root);
            let (_, id, _) = git(&["write-tree"], root);
            let mut tree = super::read(root);
            tree.retain(|name, _| name.starts_with("src/"));
            (String::from_utf8(id).unwrap().trim().to_owned(), tree)
        });
        let [(old_id, before), (new_id, after)] = trees;
        for options in [&["--no-renames"][..], &["--find-renames=40%"], &["-U0", "--no-renames"], &["-U1"]] {
            let mut arguments = vec!["diff", "--no-color"];
            arguments.extend(options);
            arguments.extend([&*old_id, &*new_id]);
            let (_, patch, _) = git(&arguments, root);
            let set = match plan(&patch, &everywhere(), roomy(), |path| {
                Ok(before.get(path.as_str()).map(|(bytes, executable)| FileState::created(bytes.clone(), *executable)))
            }) {
                Ok(set) => set,
                // Without context, git takes only new lines, and puts them at the end of the file.
                Err(PatchError::Hunk { fault, .. }) if options.contains(&"-U0") => {
                    assert!(fault == HunkError::NoContext || git_apply(&before, &patch).is_none(), "{}", new.display());
                    continue;
                }
                Err(fault) => panic!("{}: {fault}", new.display()),
            };
            files += set.changes().len();
            let ours = changed(&before, &set);
            assert_eq!(ours, after, "{} {options:?}", new.display());
            assert_eq!(git_apply(&before, &patch), Some(ours.clone()), "{}", new.display());
            if let Ok(diff) = Diff::of(&set) {
                assert_eq!(git_apply(&before, diff.text().as_bytes()), Some(ours), "{}", new.display());
            }
        }
    }
    assert!(files > 20, "only {files} files differed");
}

/// The text files of a crate.
fn copy(from: &Path, to: &Path) {
    let tree: Tree = super::read(from)
        .into_iter()
        .filter(|(name, (bytes, _))| {
            name != ".cargo-ok" && !bytes.contains(&0) && bytes.len() < 400_000 && std::str::from_utf8(bytes).is_ok()
        })
        .collect();
    super::write(&tree, to);
}

fn everywhere() -> PathRules {
    let denied: [&str; 0] = [];
    PathRules::new(&denied, &["src"]).unwrap()
}

fn roomy() -> Limits {
    Limits { patch_bytes: 64 << 20, files: 10_000, file_bytes: 64 << 20 }
}

#[test]
fn a_patch_that_fits_nothing_here_is_refused_by_both() {
    let tree = Tree::from([("f".to_owned(), (b"x\n".to_vec(), false))]);
    let patch = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-y\n+z\n";
    assert!(plan_on(&tree, patch).is_err() && git_apply(&tree, patch).is_none());
    both_take(&tree, b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+z\n", "and taken where it fits");
}
