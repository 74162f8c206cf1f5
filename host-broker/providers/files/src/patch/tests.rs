use super::*;
use crate::diff::Diff;
use crate::rules::{CREATABLE, DENIED};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

mod random;
mod real;

/// Files by name: their bytes, and whether they are executable.
type Tree = BTreeMap<String, (Vec<u8>, bool)>;

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(name, text)| ((*name).to_owned(), (text.as_bytes().to_vec(), false))).collect()
}

fn rules() -> PathRules {
    let anywhere: Vec<&str> = CREATABLE.iter().copied().chain(["d"]).collect();
    PathRules::new(&DENIED, &anywhere).unwrap()
}

fn plan_on(tree: &Tree, patch: &[u8]) -> Result<ChangeSet, PatchError> {
    plan(patch, &rules(), Limits::default(), |path| {
        Ok(tree.get(path.as_str()).map(|(bytes, executable)| FileState::created(bytes.clone(), *executable)))
    })
}

fn changed(tree: &Tree, set: &ChangeSet) -> Tree {
    let mut tree = tree.clone();
    for change in set.changes() {
        tree.remove(change.from.as_ref().unwrap_or(&change.path).as_str());
        if let Some(after) = &change.after {
            tree.insert(change.path.as_str().to_owned(), (after.bytes().to_vec(), after.is_executable()));
        }
    }
    tree
}

#[expect(clippy::disallowed_methods, reason = "git is what the engine is compared with")]
fn git(arguments: &[&str], directory: &Path) -> (bool, Vec<u8>, String) {
    let output = std::process::Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null"), ("LC_ALL", "C")])
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap_or(directory))
        .output()
        .unwrap();
    (output.status.success(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn write(tree: &Tree, root: &Path) {
    for (name, (bytes, executable)) in tree {
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 })).unwrap();
    }
}

fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let name = directory.join(entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                directories.push(name);
            } else if kind.is_file() {
                let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                let bytes = fs::read(entry.path()).unwrap();
                tree.insert(name.to_str().unwrap().to_owned(), (bytes, executable));
            }
        }
    }
    tree
}

/// Returns git's result; `None` if it refuses.
fn git_apply(tree: &Tree, patch: &[u8]) -> Option<Tree> {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("tree");
    fs::create_dir(&root).unwrap();
    write(tree, &root);
    fs::write(home.path().join("patch"), patch).unwrap();
    let (applied, _, _complaint) = git(&["apply", "--whitespace=nowarn", "../patch"], &root);
    applied.then(|| read(&root))
}

/// Applies it with GNU patch, without fuzz; `None` if GNU patch refuses.
#[expect(clippy::disallowed_methods, reason = "GNU patch is what the engine is compared with")]
fn gnu_patch(tree: &Tree, patch: &[u8]) -> Option<Tree> {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("tree");
    fs::create_dir(&root).unwrap();
    write(tree, &root);
    fs::write(home.path().join("patch"), patch).unwrap();
    let output = std::process::Command::new("patch")
        .args([
            "-p1",
            "--fuzz=0",
            "--silent",
            "--force",
            "--no-backup-if-mismatch",
            "--reject-file=-",
            "--input=../patch",
        ])
        .current_dir(&root)
        .output()
        .unwrap();
    output.status.success().then(|| read(&root))
}

/// Returns whether a program can be run here. If not, reports that its test is skipped.
#[expect(clippy::disallowed_methods, reason = "these programs are what the engine is compared with")]
fn is_installed(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Both take it and make the same of it; and the diff of that makes the same again.
fn both_take(tree: &Tree, patch: &[u8], case: &str) -> ChangeSet {
    let set = plan_on(tree, patch).unwrap_or_else(|e| panic!("{case}: {e}"));
    let ours = changed(tree, &set);
    assert_eq!(git_apply(tree, patch).as_ref(), Some(&ours), "{case}");
    if let Ok(diff) = Diff::of(&set) {
        let again = plan_on(tree, diff.text().as_bytes()).unwrap_or_else(|e| panic!("{case}: {e}\n{}", diff.text()));
        assert_eq!(again, set, "{case}");
        assert_eq!(git_apply(tree, diff.text().as_bytes()), Some(ours), "{case}");
    }
    set
}

fn refusal(tree: &Tree, patch: &str) -> String {
    plan_on(tree, patch.as_bytes()).map(|set| panic!("{patch}\n{set:?}")).unwrap_err().to_string()
}

const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

#[test]
fn patches_that_git_takes_give_the_same_result() {
    let twice = "x\na\ny\n-\n-\n-\nx\na\ny\n";
    let f = "diff --git a/f b/f\n--- a/f\n+++ b/f\n";
    let cases: Vec<(&str, Tree, String)> = vec![
        ("modify", tree(&[("f", TEN)]), format!("{f}@@ -3,3 +3,3 @@ note\n 3\n-4\n+four\n 5\n")),
        ("without git's line", tree(&[("f", TEN)]), "--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n 3\n-4\n+four\n 5\n".into()),
        ("time behind a name", tree(&[("f", TEN)]), "--- a/f\t2026-01-01\n+++ b/f\t2026-01-02\n@@ -3,3 +3,3 @@\n 3\n-4\n+4a\n 5\n".into()),
        ("other numbers", tree(&[("f", TEN)]), format!("{f}@@ -103,3 +103,3 @@\n 3\n-4\n+four\n 5\n")),
        ("two equal places, the nearer first", tree(&[("f", twice)]), format!("{f}@@ -2,3 +2,3 @@\n x\n-a\n+b\n y\n")),
        ("two equal places, the nearer last", tree(&[("f", twice)]), format!("{f}@@ -6,3 +6,3 @@\n x\n-a\n+b\n y\n")),
        ("two equal places as near", tree(&[("f", twice)]), format!("{f}@@ -4,3 +4,3 @@\n x\n-a\n+b\n y\n")),
        ("at the end, which moved", tree(&[("f", "}\nq\n}\na\n}\n")]), format!("{f}@@ -2 +2,2 @@\n }}\n+z\n")),
        ("two hunks", tree(&[("f", TEN)]), format!("{f}@@ -1,2 +1,3 @@\n 1\n+1a\n 2\n@@ -9,2 +10,2 @@\n 9\n-10\n+ten\n")),
        ("no newline before", tree(&[("f", "a\nb")]), format!("{f}@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n")),
        ("no newline afterwards", tree(&[("f", "a\nb\n")]), format!("{f}@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n")),
        ("no newline in context", tree(&[("f", "a\nb")]), format!("{f}@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n")),
        ("carriage returns", tree(&[("f", "a\r\nb\r\n")]), format!("{f}@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n")),
        ("an empty context line without its space", tree(&[("f", "a\n\nb\n")]), format!("{f}@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")),
        ("create", tree(&[]), "diff --git a/n b/n\nnew file mode 100755\nindex 0000000..1234567\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n".into()),
        ("create in a directory", tree(&[]), "diff --git a/d/e/n b/d/e/n\nnew file mode 100644\n--- /dev/null\n+++ b/d/e/n\n@@ -0,0 +1 @@\n+x\n".into()),
        ("create empty", tree(&[]), "diff --git a/n m b/n m\nnew file mode 100644\nindex 0000000..e69de29\n".into()),
        ("create without git's line", tree(&[]), "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n".into()),
        ("into an empty file", tree(&[("f", "")]), format!("{f}@@ -0,0 +1,2 @@\n+x\n+y\n")),
        ("empty a file", tree(&[("f", "x\n")]), format!("{f}@@ -1 +0,0 @@\n-x\n")),
        ("delete", tree(&[("f", "x\n"), ("g", "y")]), "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n".into()),
        ("delete empty", tree(&[("f", "")]), "diff --git a/f b/f\ndeleted file mode 100644\nindex e69de29..0000000\n".into()),
        ("rename", tree(&[("f", "x\n")]), "diff --git a/f b/d/g h\nsimilarity index 100%\nrename from f\nrename to d/g h\n".into()),
        ("rename with a hunk", tree(&[("f", "x\ny\n")]), "diff --git a/f b/g\nsimilarity index 50%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n".into()),
        ("mode", tree(&[("f", "x\n")]), "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n".into()),
        ("mode and content", tree(&[("f", "x\n")]), "diff --git a/f b/f\nold mode 100644\nnew mode 100755\nindex 1..2\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n".into()),
        ("quoted names", tree(&[("d/\"q\" \\ä", "x\n")]), "diff --git \"a/d/\\\"q\\\" \\\\\\303\\244\" \"b/d/\\\"q\\\" \\\\\\303\\244\"\n--- \"a/d/\\\"q\\\" \\\\\\303\\244\"\n+++ \"b/d/\\\"q\\\" \\\\\\303\\244\"\n@@ -1 +1 @@\n-x\n+y\n".into()),
        ("names with spaces", tree(&[("d/a b", "x\n")]), "diff --git a/d/a b b/d/a b\n--- a/d/a b\t\n+++ b/d/a b\t\n@@ -1 +1 @@\n-x\n+y\n".into()),
        ("lines that look like heads", tree(&[("f", "-- a/x\n")]), format!("{f}@@ -1 +1,2 @@\n--- a/x\n+++ b/x\n+@@ -1 +1 @@\n")),
        ("a mail", tree(&[("f", "x\n")]), format!("From 12 Mon\nSubject: x\n\n---\n f | 2 +-\n\n{f}@@ -1 +1 @@\n-x\n+y\n-- \n2.47.3\n\n")),
    ];
    for (case, tree, patch) in cases {
        both_take(&tree, patch.as_bytes(), case);
    }
}

#[test]
fn bytes_that_are_no_text_survive() {
    let mut tree = tree(&[]);
    tree.insert("f".into(), (b"\xff\xfe\r\nb\n\xc3(\n".to_vec(), true));
    let set = both_take(&tree, b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n \xff\xfe\r\n-b\n+\x80\xff\n \xc3(\n", "bytes");
    assert_eq!(set.changes()[0].after.as_ref().unwrap().bytes(), b"\xff\xfe\r\n\x80\xff\n\xc3(\n");
    assert!(Diff::of(&set).is_err(), "nobody could read it");
}

#[test]
fn a_last_newline_that_is_missing_is_no_marker() {
    let set = plan_on(&tree(&[("f", "x\n")]), b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y").unwrap();
    assert_eq!(set.changes()[0].after.as_ref().unwrap().bytes(), b"y\n");
}

#[test]
fn a_hunk_of_the_beginning_or_the_end_fits_nowhere_else() {
    for (file, hunk, reason) in [
        ("0\n1\n2\n3\n", "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n", "belongs to the beginning of the file, and line 1 of"),
        ("0\n1\n2\n3\n", "@@ -1,3 +1,3 @@\n-1\n+one\n 2\n 3\n", "belongs to the beginning of the file, and line 1 of"),
        ("1\n2\n3\n4\n", "@@ -2,2 +2,2 @@\n 2\n-3\n+three\n", "belongs to the end of the file, and line 3 of"),
        ("a\nb\n", "@@ -1 +1 @@\n-a\n+x\n", "belongs to the end of the file, and line 2 of"),
        ("1\n2\n", "@@ -0,0 +1 @@\n+x\n", "neither context nor removed lines"),
    ] {
        let files = tree(&[("f", file)]);
        let patch = format!("--- a/f\n+++ b/f\n{hunk}");
        let said = refusal(&files, &patch);
        assert!(said.contains(reason), "{patch}\n{said}");
        assert_eq!(git_apply(&files, patch.as_bytes()), None, "{patch}");
    }
}

#[test]
fn patches_that_git_and_gnu_patch_apply_differently_are_refused() {
    let files = tree(&[("f", TEN)]);
    let f = "--- a/f\n+++ b/f\n";
    // Git puts the line at the end, GNU patch behind line 3.
    let bare = format!("{f}@@ -3,0 +4 @@\n+x\n");
    // Git takes it, GNU patch does not.
    let descending = format!("{f}@@ -7,3 +7,3 @@\n 7\n-8\n+x\n 9\n@@ -2,3 +2,3 @@\n 2\n-3\n+y\n 4\n");
    for (patch, reason) in [(bare, "neither context"), (descending, "hunk 2 (line 8 of the patch): it belongs before")]
    {
        assert!(refusal(&files, &patch).contains(reason), "{patch}");
        assert_ne!(git_apply(&files, patch.as_bytes()), gnu_patch(&files, patch.as_bytes()), "{patch}");
    }
    both_take(&files, format!("{f}@@ -10,0 +11 @@\n+x\n").as_bytes(), "new lines at the end");
}

#[test]
fn refused_patches_name_the_place_and_the_reason() {
    let files = tree(&[("f", TEN), ("g", "x\n"), ("d/h", "x\n"), ("src/a", ""), ("e", "")]);
    let f = "diff --git a/f b/f\n--- a/f\n+++ b/f\n";
    let new = "new file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n";
    for (patch, reason) in [
        // Nothing to do.
        (String::new(), "line 1 of the patch: there is nothing in the patch that names a file"),
        ("please change f\n".into(), "there is nothing in the patch that names a file"),
        ("diff --git a/f b/f\nindex 1..2 100644\n".into(), "`f` is not changed"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100644\n".into(), "`f` is not changed"),
        (f.into(), "line 4 of the patch: there is no hunk"),
        (format!("{f}@@ -1 +1 @@\n 1\n"), "`f`: hunk 1 (line 4 of the patch): it changes nothing"),
        (format!("{f}@@ -1,2 +1,2 @@\n-1\n+1\n 2\n"), "`f` is not changed"),
        (format!("{f}@@\n-1\n+2\n"), "line 4 of the patch: the head of a hunk is written"),
        (format!("{f}@@ -1,3 +1,3 @@\n-1\n+2\n"), "line 7 of the patch: the hunk ends here"),
        (format!("{f}@@ -1 +1 @@\n-1\n+2\n+3\n"), "line 7 of the patch: this line belongs to a file or a hunk"),
        (format!("{f}@@ -1 +1 @@\n-1\n+2\njunk\n@@ -3 +3 @@\n-3\n+4\n"), "line 8 of the patch: this line belongs"),
        (format!("{f}@@ -1,2 +1 @@\n-1\n+2\n+3\n"), "line 7 of the patch: the head of a hunk"),
        (format!("{f}@@ -99999999999 +1 @@\n-1\n+2\n"), "the head of a hunk"),
        ("@@ -1 +1 @@\n-1\n+2\n".into(), "line 1 of the patch: this line belongs"),
        ("+++ b/f\n@@ -1 +1 @@\n-1\n+2\n".into(), "line 1 of the patch: this line belongs"),
        ("--- a/f\n@@ -1 +1 @@\n-1\n+2\n".into(), "line 2 of the patch: a file's hunks come after both"),
        ("diff --git a/f b/f\n@@ -1 +1 @@\n-1\n+2\n".into(), "line 2 of the patch: a file's hunks come after both"),
        // Not at this place.
        (format!("{f}@@ -2,3 +2,3 @@\n 2\n-x\n+y\n 4\n"), "`f`: hunk 1 (line 4 of the patch): its context and removed lines are nowhere in the file; where it says, line 3"),
        (format!("{f}@@ -1,2 +1,2 @@\n-1\n+one\n 2\n@@ -5,3 +5,3 @@\n 5\n-x\n+y\n 7\n"), "`f`: hunk 2 (line 8 of the patch): its context and removed lines are nowhere"),
        (format!("{f}@@ -2 +2 @@\n-x\n+2\n"), "its result is already there"),
        (format!("{f}@@ -3,0 +4 @@\n+x\n"), "neither context nor removed lines"),
        (format!("{f}@@ -2,3 +2,3 @@\n 2\r\n-3\r\n+y\r\n 4\r\n"), "nowhere in the file"),
        (format!("{f}@@ -10 +10,2 @@\n+x\n\\ No newline at end of file\n 10\n"), "a line before the last one has no newline"),
        // Kinds of files.
        ("diff --git a/n b/n\nnew file mode 120000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n".into(), "line 2 of the patch: only regular files"),
        ("diff --git a/n b/n\nnew file mode 160000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+Subproject commit 1\n".into(), "only regular files"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 120000\n".into(), "line 3 of the patch: only regular files"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 104755\n".into(), "only regular files"),
        ("diff --git a/f b/f\nindex 1..2 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n".into(), "only regular files"),
        ("diff --git a/f b/f\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n".into(), "binary patches"),
        ("diff --git a/f b/f\nindex 1..2\nBinary files a/f and b/f differ\n".into(), "binary patches"),
        ("diff --git a/f b/n\nsimilarity index 100%\ncopy from f\ncopy to n\n".into(), "copies are not taken"),
        // Files that are there, or not.
        (format!("diff --git a/n b/n\n{new}diff --git a/n b/n\n{new}"), "`n` is touched twice"),
        (format!("{f}@@ -1,2 +1,2 @@\n-1\n+2\n 2\n{f}@@ -3,2 +3,2 @@\n-3\n+4\n 4\n"), "`f` is touched twice"),
        ("diff --git a/f b/n\nrename from f\nrename to n\ndiff --git a/g b/n\nrename from g\nrename to n\n".into(), "`n` is touched twice"),
        ("diff --git a/f b/g\nrename from f\nrename to g\n".into(), "`g`: there is already a file"),
        ("diff --git a/f b/f\nrename from f\nrename to f\n".into(), "`f`: there is already a file"),
        ("--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n".into(), "`g`: there is already a file"),
        ("diff --git a/e b/e\nnew file mode 100644\n".into(), "`e`: there is already a file"),
        ("--- a/m\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n".into(), "`m`: there is no such file"),
        ("--- a/m\n+++ b/m\n@@ -1 +1 @@\n-x\n+y\n".into(), "`m`: there is no such file"),
        ("diff --git a/m b/n\nrename from m\nrename to n\n".into(), "`m`: there is no such file"),
        ("--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n".into(), "`g`: hunk 1"),
        ("--- a/f\n+++ /dev/null\n@@ -1,2 +1 @@\n-1\n 2\n".into(), "the patch does not remove all of it"),
        ("diff --git a/g b/g\ndeleted file mode 100644\n".into(), "the patch does not remove all of it"),
        ("--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ b/d/x\n@@ -0,0 +1 @@\n+x\n".into(), "`d/x` is a file here and a directory there"),
        // Paths.
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-x\n+y\n".into(), "line 1 of the patch: the path has `..` in it"),
        ("--- a//etc/passwd\n+++ b//etc/passwd\n@@ -1 +1 @@\n-x\n+y\n".into(), "the path is absolute"),
        ("diff --git a/f b/../n\nrename from f\nrename to ../n\n".into(), "the path has `..` in it"),
        ("--- \"a/\\056\\056/x\"\n+++ \"b/\\056\\056/x\"\n@@ -1 +1 @@\n-x\n+y\n".into(), "the path has `..` in it"),
        ("--- \"a/x\\000y\"\n+++ \"b/x\\000y\"\n@@ -1 +1 @@\n-x\n+y\n".into(), "U+0000"),
        ("--- \"a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n".into(), "line 1 of the patch: the name is not written"),
        ("--- f\n+++ f\n@@ -1 +1 @@\n-1\n+y\n".into(), "names begin with `a/` and `b/`"),
        ("--- a/f\n+++ b/g\n@@ -1 +1 @@\n-1\n+y\n".into(), "different files"),
        ("diff --git a/f b/g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-1\n+y\n".into(), "different files"),
        ("diff --git a/f b/g\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+y\n".into(), "different files"),
        ("diff --git a/g b/g\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+y\n".into(), "different files"),
        ("diff --git a/f b/n\nrename from f\nrename to n\n--- a/g\n+++ b/n\n@@ -1 +1 @@\n-x\n+y\n".into(), "different files"),
        ("diff --git a/f b/n\nrename from f\n".into(), "contradict"),
        ("diff --git a/f b/f\nnew file mode 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+y\n".into(), "contradict"),
        ("diff --git a/f b/f\nnew mode 100755\n".into(), "contradict"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-1\n+y\n".into(), "both sides"),
        ("diff --git a/f b/f\nold mode 100644\nold mode 100644\nnew mode 100755\n".into(), "line 3 of the patch: this line stands twice"),
        ("--- a/d/.env\n+++ b/d/.env\n@@ -1 +1 @@\n-x\n+y\n".into(), "denies access to `d/.env`"),
        ("diff --git a/f b/.git/hooks/x\nrename from f\nrename to .git/hooks/x\n".into(), "denies access to `.git/hooks/x`"),
        ("diff --git a/.env b/n\nrename from .env\nrename to n\n".into(), "denies access to `.env`"),
        ("--- /dev/null\n+++ b/vendor/x\n@@ -0,0 +1 @@\n+x\n".into(), "no file may be created at `vendor/x`"),
        ("diff --git a/f b/Makefile\nrename from f\nrename to Makefile\n".into(), "no file may be created at `Makefile`"),
    ] {
        let said = refusal(&files, &patch);
        assert!(said.contains(reason), "{patch}\n{said}");
    }
}

#[test]
fn git_refuses_these_too() {
    let files = tree(&[("f", TEN), ("g", "x\n")]);
    let f = "diff --git a/f b/f\n--- a/f\n+++ b/f\n";
    for patch in [
        format!("{f}@@ -2,3 +2,3 @@\n 2\n-x\n+y\n 4\n"),
        format!("{f}@@ -1,3 +1,3 @@\n-1\n+2\n"),
        format!("{f}@@ -2,3 +2,3 @@\n 2\r\n-3\r\n+y\r\n 4\r\n"),
        "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-x\n+y\n".to_owned(),
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n".to_owned(),
        "diff --git a/f b/g\nrename from f\nrename to g\n".to_owned(),
        "--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n".to_owned(),
    ] {
        assert_eq!(git_apply(&files, patch.as_bytes()), None, "{patch}");
        refusal(&files, &patch);
    }
}

#[test]
fn limits_hold() {
    let small = Limits { patch_bytes: 1000, files: 2, file_bytes: 10 };
    let try_plan = |patch: &str| plan(patch.as_bytes(), &rules(), small, |_| Ok(None)).map(|_| ()).unwrap_err();
    assert_eq!(try_plan(&"x".repeat(1001)).code(), Code::TooLarge);
    let create = |n: u32, text: &str| format!("--- /dev/null\n+++ b/{n}\n@@ -0,0 +1 @@\n+{text}\n");
    assert!(matches!(
        try_plan(&(0..3).map(|n| create(n, "x")).collect::<String>()),
        PatchError::TooManyFiles { max: 2 }
    ));
    assert!(matches!(try_plan(&create(1, "0123456789")), PatchError::ResultTooLarge { max: 10, .. }));
    assert!(plan(create(1, "012345678").as_bytes(), &rules(), small, |_| Ok(None)).is_ok());
}

#[test]
fn hostile_patches_cost_no_more_than_allowed() {
    // Every place almost fits every hunk, and the last hunk fits nowhere.
    let file = "a\n".repeat(260_000);
    let files = tree(&[("f", &file)]);
    let long = format!("--- a/f\n+++ b/f\n@@ -2,200002 +2,200001 @@\n{}-b\n a\n", " a\n".repeat(200_000));
    assert!(refusal(&files, &long).contains("takes too long"));
    let many = (1..30_001).map(|n| format!("@@ -{n},3 +{n},2 @@\n a\n-b\n a\n")).collect::<Vec<_>>().concat();
    assert!(refusal(&files, &format!("--- a/f\n+++ b/f\n{many}")).contains("hunk 1 "));
    let fitting =
        (0..20_000).map(|n| format!("@@ -{0},3 +{0},3 @@\n a\n-a\n+b\n a\n", 4 * n + 1)).collect::<Vec<_>>().concat();
    let said = refusal(&files, &format!("--- a/f\n+++ b/f\n{fitting}"));
    assert!(said.contains("takes too long"), "{said}");
}
