//! Another process changes the workspace during an application.

use super::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::sync::Barrier;

const EDIT: &str = "somebody's edit\n";

fn long() -> bool {
    #[expect(clippy::disallowed_methods, reason = "how thorough a test is, is said by its environment")]
    let asked = std::env::var_os("EXT_TEST_LONG");
    asked.is_some_and(|value| value == "1")
}

/// Something done to a workspace.
type Deed = fn(&Path);

/// The possible deeds of another process between two steps.
const DEEDS: [(&str, Deed); 11] = [
    ("writes into the file", |root| drop(fs::write(root.join("src/a"), EDIT))),
    ("replaces the file", |root| {
        fs::write(root.join("edit"), EDIT).unwrap();
        drop(fs::rename(root.join("edit"), root.join("src/a")));
    }),
    ("removes the file", |root| drop(fs::remove_file(root.join("src/a")))),
    ("replaces the file by a link", |root| {
        drop(fs::remove_file(root.join("src/a")));
        drop(symlink("../../outside/a", root.join("src/a")));
    }),
    ("replaces the directory by a link", |root| {
        drop(fs::rename(root.join("src"), root.join("moved")));
        drop(symlink("../outside", root.join("src")));
    }),
    ("writes where a file is deleted", |root| drop(fs::write(root.join("gone"), EDIT))),
    ("takes the new name", |root| drop(fs::write(root.join("src/renamed"), EDIT))),
    ("takes the new directory", |root| {
        fs::create_dir_all(root.join("src/deep/er")).ok();
        drop(fs::write(root.join("src/deep/er/n"), EDIT));
    }),
    ("removes what waits for its name", |root| {
        for (name, _) in tree_of(root).iter().filter(|(name, _)| name.contains(".files-")) {
            drop(fs::remove_file(root.join(name)));
        }
    }),
    ("changes what waits for its name", |root| {
        for (name, _) in tree_of(root).iter().filter(|(name, _)| name.contains(".files-")) {
            drop(fs::write(root.join(name), "x"));
        }
    }),
    ("gives the file a second name", |root| drop(fs::hard_link(root.join("src/a"), root.join("second")))),
];

/// Which of these leave an edit that must not be lost.
const EDITS: [&str; 5] = [
    "writes into the file",
    "replaces the file",
    "writes where a file is deleted",
    "takes the new name",
    "takes the new directory",
];

#[test]
fn interference_at_any_point_of_an_apply_loses_nothing_and_reaches_nothing() {
    for (deed, act) in DEEDS {
        for n in 0.. {
            let home = Home::new();
            let before = home.tree();
            let done = Home::everything_done(&before);
            let set = home.everything();
            let mut at = 0;
            let root = home.root();
            let mut watch = |_| {
                if at == n {
                    act(&root);
                }
                at += 1;
                ControlFlow::Continue(())
            };
            let result = apply(home.place(), &set, &mut watch);
            if at <= n {
                break;
            }
            let tree = home.tree();
            let case = format!("{deed} at {n}: {result:?}\n{tree:?}");
            assert!(home.outside_is_untouched(), "{case}");
            assert_eq!(tree["bystander"], before["bystander"], "{case}");
            let edit_is_there = tree.values().flatten().any(|(bytes, _)| bytes == EDIT.as_bytes());
            assert!(edit_is_there || !EDITS.contains(&deed), "{case}");
            match &result {
                // Done, and every later difference was made afterwards; but for the one file, all is there.
                Ok(_) => {
                    let different = done.iter().filter(|(name, file)| tree.get(*name) != Some(file)).count();
                    assert!(different <= 1 || deed.contains("directory"), "{case}");
                }
                // Every file of no other process is as before.
                Err(ApplyError::Unchanged(reason)) => {
                    assert!(matches!(reason, Reason::BaseChanged(_) | Reason::File { .. }), "{case}");
                    assert!(!tree.values().flatten().any(|(bytes, _)| bytes == b"new a\n"), "{case}");
                    assert!(!tree.keys().any(|name| name.contains(".files-")), "{case}");
                }
                Err(ApplyError::Unknown(unsettled)) => {
                    assert!(matches!(unsettled, Unsettled::Disturbed(_)), "{case}");
                }
            }
            assert!(home.journal_is_empty(), "{case}");
            assert_eq!(home.recover(), Recovered::Nothing, "{case}");
        }
    }
}

#[test]
fn interference_before_a_recovery_does_not_stop_it() {
    for (deed, act) in DEEDS {
        for n in 0.. {
            let home = Home::new();
            let set = home.everything();
            let mut at = 0;
            let mut watch = |_| {
                at += 1;
                if at > n { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            if apply(home.place(), &set, &mut watch).is_ok() {
                break;
            }
            act(&home.root());
            let recovered = recover(&home.workspace, &home.journal, &mut unwatched);
            assert!(recovered.is_ok(), "{deed} at {n}: {recovered:?}");
            assert!(home.outside_is_untouched() && home.journal_is_empty(), "{deed} at {n}");
        }
    }
}

/// Attack: see `apply_proposal_with_a_modified_file`.
#[test]
fn a_race_loses_no_edit_and_overwrites_none_unseen() {
    let races = if long() { 12_000 } else { 400 };
    let mut outcomes = BTreeMap::new();
    let home = Home::new();
    let mut seed: u64 = 1;
    for race in 0..races {
        let (base, new) = (format!("base {race}\n"), format!("new {race}\n"));
        home.put("src/a", &base, 0o644);
        let set = write(&home, "src/a", &new);
        let edits: Vec<String> = (0..=race % 3).map(|n| format!("edit {race} {n}\n")).collect();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let timeout = (seed >> 33) % 400_000;
        let start = Barrier::new(2);
        let root = home.root();
        let (result, displaced) = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                start.wait();
                let mut displaced = Vec::new();
                for (n, edit) in edits.iter().enumerate() {
                    (0..timeout).for_each(|_| std::hint::spin_loop());
                    let mine = root.join(format!("mine {n}"));
                    fs::write(&mine, edit).unwrap();
                    renameat_with(CWD, &mine, CWD, root.join("src/a"), RenameFlags::EXCHANGE).unwrap();
                    displaced.push(fs::read_to_string(&mine).unwrap());
                    fs::remove_file(&mine).unwrap();
                }
                displaced
            });
            start.wait();
            let result = home.apply(&set);
            (result, other.join().unwrap())
        });
        let tree = home.tree();
        let case = format!("race {race}: {result:?}\n{displaced:?}\n{tree:?}");
        let left: Vec<&[u8]> = tree.values().flatten().map(|(bytes, _)| &bytes[..]).collect();
        for edit in &edits {
            assert!(displaced.contains(edit) || left.contains(&edit.as_bytes()), "lost: {edit}{case}");
        }
        let outcome = match &result {
            Ok(_) => {
                assert!(!displaced.contains(&base), "applied over something else: {case}");
                "applied"
            }
            Err(ApplyError::Unchanged(Reason::BaseChanged(_))) => {
                assert!(!displaced.contains(&new) && !left.contains(&new.as_bytes()), "{case}");
                "base changed"
            }
            Err(ApplyError::Unknown(Unsettled::Disturbed(_))) => "disturbed",
            Err(ApplyError::Unchanged(_) | ApplyError::Unknown(_)) => panic!("{case}"),
        };
        *outcomes.entry(outcome).or_insert(0) += 1;
        assert!(home.journal_is_empty() && home.outside_is_untouched(), "{case}");
        for name in tree.keys().filter(|name| name.contains(".files-")) {
            assert_eq!(outcome, "disturbed", "{case}");
            fs::remove_file(home.root().join(name)).unwrap();
        }
    }
    println!("{outcomes:?}");
}

/// Attack: see `apply_proposal_with_a_modified_file`.
#[test]
fn a_directory_that_turns_into_a_link_and_back_leads_nowhere() {
    let races = if long() { 3_000 } else { 100 };
    let home = Home::new();
    let root = home.root();
    // The exchange under the same name: a directory and a link to the outside.
    symlink("../outside", root.join("link")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, root.join("link"), CWD, root.join("src"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        for race in 0..races {
            for name in ["src/a", "link/a"] {
                // One of them is the directory at this moment; the link would lead elsewhere.
                let Ok(Some(now)) = home.workspace.state(&path(name), 1000) else { continue };
                let set = ChangeSet::write(path(name), Some(now), format!("a {race} {name}\n").into()).unwrap();
                drop(home.apply(&set));
            }
            assert!(home.outside_is_untouched(), "{race}");
            assert!(home.journal_is_empty(), "{race}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}
