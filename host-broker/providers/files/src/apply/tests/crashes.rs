//! The broker dies: at every point, and again at every point of its recovery.

use super::*;

/// Ends it all at the `n`th point from 0; says whether it came so far.
fn stop_at(n: usize, reached: &mut usize) -> impl FnMut(Point) -> ControlFlow<()> {
    move |_| {
        *reached += 1;
        if *reached > n { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn wherever_it_dies_it_is_all_or_nothing() {
    let (mut undone, mut completed) = (0, 0);
    for n in 0.. {
        for m in 0.. {
            let home = Home::new();
            let before = home.tree();
            let done = Home::everything_done(&before);
            if apply(home.place(), &home.everything(), &mut stop_at(n, &mut 0)).is_ok() {
                assert_eq!(home.tree(), done);
                assert!(undone > 100 && completed > 10, "{undone} {completed}");
                return;
            }
            let settled = recover(&home.workspace, &home.journal, &mut stop_at(m, &mut 0)).is_ok();
            let again = home.recover();
            let tree = home.tree();
            assert!(tree == before || tree == done, "died at {n}, recovering at {m}: {tree:?}");
            assert!(home.journal_is_empty() && home.outside_is_untouched());
            let noted = home.journal.done("it").unwrap();
            assert_eq!(noted.as_deref(), (tree == done).then_some("what"), "died at {n}, recovering at {m}");
            undone += usize::from(tree == before);
            completed += usize::from(tree == done);
            if settled {
                assert_eq!(again, Recovered::Nothing);
                break;
            }
        }
    }
}

#[test]
fn half_written_contents_are_cleared_away() {
    for length in [0, 1, 5] {
        let home = Home::new();
        let before = home.tree();
        let mut written = 0;
        let mut stop = |point| {
            written += usize::from(point == Point::Written);
            if written == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        apply(home.place(), &home.everything(), &mut stop).unwrap_err();
        for (name, file) in home.tree() {
            if name.contains(".files-") {
                assert!(file.is_some());
                fs::OpenOptions::new().write(true).open(home.root().join(name)).unwrap().set_len(length).unwrap();
            }
        }
        home.recover();
        assert_eq!(home.tree(), before, "{length}");
    }
}

#[test]
fn a_draft_of_a_journal_is_nothing() {
    let home = Home::new();
    fs::write(home.directory.path().join("journal/draft"), "half").unwrap();
    assert_eq!(home.recover(), Recovered::Nothing);
    home.apply(&home.everything()).unwrap();
    assert!(home.journal_is_empty());
}
