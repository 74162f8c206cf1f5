use super::*;
use crate::rules::{CREATABLE, DENIED};
use model::NoRandomness;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

mod crashes;
mod hostile;

/// Names that count.
#[derive(Default)]
struct Counting(AtomicU64);

impl Random for Counting {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        let next = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        buffer.iter_mut().rev().zip(next.iter().rev()).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

/// A workspace, its journal, and files elsewhere that must not change.
struct Home {
    directory: TempDir,
    workspace: Workspace,
    journal: Journal,
    rules: PathRules,
    ids: Counting,
    mark: Mark,
}

/// Every file, and directories as `None`.
type Tree = BTreeMap<String, Option<(Vec<u8>, u32)>>;

fn tree_of(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let data = fs::symlink_metadata(&path).unwrap();
            if data.is_dir() {
                open.push(path);
                tree.insert(name, None);
            } else if data.is_symlink() {
                tree.insert(name, Some((fs::read_link(&path).unwrap().to_str().unwrap().into(), 0o120_000)));
            } else {
                let bytes = if data.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                tree.insert(name, Some((bytes, data.permissions().mode() & 0o7777)));
            }
        }
    }
    tree
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["workspace/src", "journal", "outside"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for name in ["outside/a", "outside/secret"] {
            fs::write(directory.path().join(name), "outside").unwrap();
        }
        let home = Self {
            workspace: Workspace::open(&directory.path().join("workspace")).unwrap(),
            journal: Journal::open(&directory.path().join("journal")).unwrap(),
            rules: PathRules::new(&DENIED, &CREATABLE).unwrap(),
            ids: Counting::default(),
            mark: Mark { name: "it".into(), report: "what".into() },
            directory,
        };
        home.put("src/a", "a\n", 0o640);
        home.put("gone", "gone\n", 0o644);
        home.put("old name", "old\n", 0o600);
        home.put("bystander", "b\n", 0o644);
        home
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().join("workspace")
    }

    fn put(&self, name: &str, text: &str, mode: u32) {
        let file = self.root().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn tree(&self) -> Tree {
        tree_of(&self.root())
    }

    fn place(&self) -> Place<'_> {
        let Self { workspace, journal, rules, ids, mark, .. } = self;
        Place { workspace, journal, rules, ids, mark }
    }

    fn apply(&self, set: &ChangeSet) -> Result<Vec<Applied>, ApplyError> {
        apply(self.place(), set, &mut unwatched)
    }

    fn recover(&self) -> Recovered {
        recover(&self.workspace, &self.journal, &mut unwatched).unwrap()
    }

    fn state(&self, name: &str) -> Option<FileState> {
        self.workspace.state(&path(name), 1000).unwrap()
    }

    fn journal_is_empty(&self) -> bool {
        tree_of(&self.directory.path().join("journal")).keys().all(|name| name.starts_with("done-"))
    }

    fn outside_is_untouched(&self) -> bool {
        let file = || Some((b"outside".to_vec(), 0o644));
        tree_of(&self.directory.path().join("outside")) == Tree::from([("a".into(), file()), ("secret".into(), file())])
    }

    /// A set with one change of each kind.
    fn everything(&self) -> ChangeSet {
        let text = |text: &str, mode| Some(FileState::new(text.into(), mode));
        let change = |to: &str, from: Option<&str>, before, after| Change {
            path: path(to),
            from: from.map(path),
            before,
            after,
        };
        ChangeSet::new(vec![
            change("src/a", None, self.state("src/a"), text("new a\n", 0o640)),
            change("src/deep/er/n", None, None, text("n\n", 0o755)),
            change("gone", None, self.state("gone"), None),
            change("src/renamed", Some("old name"), self.state("old name"), text("old and new\n", 0o700)),
        ])
        .unwrap()
    }

    /// Returns the files after that.
    fn everything_done(before: &Tree) -> Tree {
        let mut tree = before.clone();
        for name in ["gone", "old name"] {
            tree.remove(name);
        }
        for (name, text, mode) in
            [("src/a", "new a\n", 0o640), ("src/deep/er/n", "n\n", 0o755), ("src/renamed", "old and new\n", 0o700)]
        {
            tree.insert(name.into(), Some((text.into(), mode)));
        }
        for name in ["src/deep", "src/deep/er"] {
            tree.insert(name.into(), None);
        }
        tree
    }
}

fn path(text: &str) -> WorkspacePath {
    WorkspacePath::new(text).unwrap()
}

fn write(home: &Home, name: &str, text: &str) -> ChangeSet {
    ChangeSet::write(path(name), home.state(name), text.into()).unwrap()
}

fn reason(result: Result<Vec<Applied>, ApplyError>) -> Reason {
    match result {
        Err(ApplyError::Unchanged(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_set_is_applied_once_and_can_be_undone() {
    let home = Home::new();
    let before = home.tree();
    let set = home.everything();
    let applied = home.apply(&set).unwrap();
    assert_eq!(home.tree(), Home::everything_done(&before));
    let hashes: Vec<_> = applied.iter().map(|one| (one.path.as_str(), one.before, one.after)).collect();
    let hash = |text: &str| Some(Digest::of(text.as_bytes()));
    assert_eq!(
        hashes,
        [
            ("src/a", hash("a\n"), hash("new a\n")),
            ("src/deep/er/n", None, hash("n\n")),
            ("gone", hash("gone\n"), None),
            ("src/renamed", hash("old\n"), hash("old and new\n")),
        ]
    );
    assert!(home.journal_is_empty());
    assert!(matches!(reason(home.apply(&set)), Reason::BaseChanged(_)), "only once");
    home.apply(&set.inverse()).unwrap();
    let mut again = home.tree();
    again.retain(|name, _| !name.starts_with("src/deep"));
    assert_eq!(again, before, "directories stay");
    assert_eq!(home.recover(), Recovered::Nothing);
}

/// Something done to a workspace.
type Edit = fn(&Path);

#[test]
fn files_that_differ_from_their_base_are_left_alone() {
    let edits: [(&str, Edit); 12] = [
        ("content", |root| fs::write(root.join("src/a"), "x\n").unwrap()),
        ("permissions", |root| fs::set_permissions(root.join("gone"), fs::Permissions::from_mode(0o600)).unwrap()),
        ("a removed file", |root| fs::remove_file(root.join("gone")).unwrap()),
        ("a second name", |root| fs::hard_link(root.join("gone"), root.join("second")).unwrap()),
        ("a link to a file", |root| {
            fs::remove_file(root.join("src/a")).unwrap();
            symlink("../../outside/a", root.join("src/a")).unwrap();
        }),
        ("a link to a directory", |root| {
            fs::rename(root.join("src"), root.join("moved")).unwrap();
            symlink("../outside", root.join("src")).unwrap();
        }),
        ("a pipe", |root| {
            fs::remove_file(root.join("gone")).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o644);
            rustix::fs::mknodat(rustix::fs::CWD, root.join("gone"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        ("a directory", |root| {
            fs::remove_file(root.join("gone")).unwrap();
            fs::create_dir(root.join("gone")).unwrap();
        }),
        ("the new name is taken", |root| fs::write(root.join("src/renamed"), "").unwrap()),
        ("the new name is a link into nothing", |root| symlink("nowhere", root.join("src/renamed")).unwrap()),
        ("a directory's name is taken", |root| fs::write(root.join("src/deep"), "").unwrap()),
        ("a set-user-id bit", |root| {
            fs::set_permissions(root.join("gone"), fs::Permissions::from_mode(0o4644)).unwrap();
        }),
    ];
    for (case, edit) in edits {
        let home = Home::new();
        let set = home.everything();
        edit(&home.root());
        let before = home.tree();
        assert!(matches!(reason(home.apply(&set)), Reason::BaseChanged(_)), "{case}");
        assert_eq!(home.tree(), before, "{case}");
        assert!(home.journal_is_empty() && home.outside_is_untouched(), "{case}");
    }
}

#[test]
fn the_rules_hold_when_it_is_applied_too() {
    let home = Home::new();
    home.put(".env", "secret\n", 0o600);
    let set = write(&home, ".env", "x");
    assert_eq!(reason(home.apply(&set)).code(), Code::PathDenied);
    let elsewhere = ChangeSet::write(path("vendor/new/x"), None, b"x".to_vec()).unwrap();
    assert_eq!(reason(home.apply(&elsewhere)).code(), Code::CreateNotAllowed);
    assert!(!home.root().join("vendor").exists());
}

#[test]
fn one_at_a_time_and_nothing_on_top_of_something_unfinished() {
    let home = Home::new();
    let set = home.everything();
    let lock = home.journal.lock().unwrap();
    assert!(matches!(reason(home.apply(&set)), Reason::Journal(JournalError::Busy)));
    drop(lock);
    let mut stop = |point| if point == Point::Exchanged { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    assert!(matches!(apply(home.place(), &set, &mut stop), Err(ApplyError::Unknown(Unsettled::Interrupted))));
    home.put("other", "x\n", 0o644);
    assert!(matches!(reason(home.apply(&write(&home, "other", "y\n"))), Reason::Journal(JournalError::Unfinished)));
    assert!(matches!(home.recover(), Recovered::Undone { disturbed, .. } if disturbed.is_empty()));
    home.apply(&write(&home, "other", "y\n")).unwrap();
}

#[test]
fn a_journal_that_is_damaged_or_anothers_is_not_followed() {
    let home = Home::new();
    let set = home.everything();
    let mut stop = |point| if point == Point::Exchanged { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    apply(home.place(), &set, &mut stop).unwrap_err();
    let (pending, tree) = (home.directory.path().join("journal/pending"), home.tree());
    let other = Workspace::open(&home.directory.path().join("outside")).unwrap();
    let refused = recover(&other, &home.journal, &mut unwatched);
    assert!(matches!(refused, Err(Unsettled::Journal(JournalError::OtherWorkspace))));
    let good = fs::read(&pending).unwrap();
    let mut bad = good.clone();
    bad[20] ^= 1;
    fs::write(&pending, bad).unwrap();
    let refused = recover(&home.workspace, &home.journal, &mut unwatched);
    assert!(matches!(refused, Err(Unsettled::Journal(JournalError::Damaged))));
    assert_eq!(home.tree(), tree);
    fs::write(&pending, good).unwrap();
    assert!(matches!(home.recover(), Recovered::Undone { .. }));
}
