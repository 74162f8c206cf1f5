//! Random files and changes, as `git diff` writes them, applied to slightly different files.

use super::{Tree, changed, git, git_apply, gnu_patch, is_installed, plan_on, tree};
use crate::patch::{HunkError, PatchError};
use proptest::prelude::*;
use std::collections::HashSet;
use std::fs;

/// Makes few different lines, so that much of a file looks like the rest of it.
fn text() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "", "}", "  x", "-- y", "@@ z"]), 0..24)
}

/// Makes edits: lines that are replaced, removed and added.
fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, Option<&'static str>)>> {
    let line = prop::option::of(prop::sample::select(vec!["a", "b", "new", "}", ""]));
    prop::collection::vec((any::<prop::sample::Index>(), 0_usize..3, line), 0..4)
}

fn edited(lines: &[&'static str], edits: &[(prop::sample::Index, usize, Option<&'static str>)]) -> Vec<&'static str> {
    let mut lines = lines.to_vec();
    for (at, removed, added) in edits {
        let at = at.index(lines.len() + 1);
        let end = (at + removed).min(lines.len());
        lines.splice(at..end, *added);
    }
    lines
}

fn file(lines: &[&str], has_last_newline: bool) -> String {
    let text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
    if has_last_newline { text } else { text.strip_suffix('\n').unwrap_or_default().to_owned() }
}

/// Returns the output of `git diff` for two files, both named `f`.
fn diff(old: &str, new: &str, context: usize) -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    for (side, text) in [("a", old), ("b", new)] {
        fs::create_dir(home.path().join(side)).unwrap();
        fs::write(home.path().join(side).join("f"), text).unwrap();
    }
    let context = format!("-U{context}");
    git(&["diff", "--no-index", "--no-prefix", &context, "a/f", "b/f"], home.path()).1
}

/// Applies it with the engine. The error is the fault of a hunk, if it is one's.
fn ours(tree: &Tree, patch: &[u8]) -> Result<Tree, Option<HunkError>> {
    match plan_on(tree, patch) {
        Ok(set) => Ok(changed(tree, &set)),
        Err(PatchError::Hunk { fault, .. }) => Err(Some(fault)),
        Err(_) => Err(None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Attack (Providers and modules): git, GNU patch and the broker apply a patch differently.
    /// Defence: The broker refuses a patch that `git apply` refuses, and one that git and GNU patch
    /// place differently.
    #[test]
    fn random_patches_are_applied_or_refused_as_by_git(
        old in text(),
        change in edits(),
        drift in edits(),
        context in 0_usize..4,
        newlines in (any::<bool>(), any::<bool>(), any::<bool>()),
        shift in 0_usize..4,
    ) {
        if !is_installed("git") || !is_installed("patch") {
            return Ok(());
        }
        let new = edited(&old, &change);
        let target = edited(&old, &drift);
        let patch = diff(&file(&old, newlines.0), &file(&new, newlines.1), context);
        prop_assume!(!patch.is_empty());
        // A model counts lines wrongly more often than not.
        let patch = String::from_utf8(patch).unwrap();
        let patch = if shift == 0 { patch.replace("@@ -1,", "@@ -2,") } else { patch };
        for target in [&old, &target] {
            let tree = tree(&[("f", &file(target, newlines.2))]);
            let git = git_apply(&tree, patch.as_bytes());
            match (ours(&tree, patch.as_bytes()), git) {
                (Ok(ours), git) => prop_assert_eq!(Some(ours), git, "{}\n{:?}", patch, target),
                // Git puts new lines without any context at the end, which only by chance is their place.
                (Err(_), None) | (Err(Some(HunkError::NoContext)), Some(_)) => {}
                (Err(Some(HunkError::OutOfOrder | HunkError::NewlineInside)), git) => {
                    // Among equal lines, two places can give the same file.
                    let has_repeats = target.iter().collect::<HashSet<_>>().len() < target.len();
                    if !has_repeats {
                        prop_assert_ne!(git, gnu_patch(&tree, patch.as_bytes()), "{}\n{:?}", patch, target);
                    }
                }
                (Err(fault), Some(git)) => {
                    prop_assert!(false, "git takes it, {fault:?}\n{patch}\n{target:?}\n{git:?}");
                }
            }
        }
    }
}
