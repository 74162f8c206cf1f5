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
    let mut outcomes = [0, 0];
    for n in 0.. {
        let mut points_of_recovery = 0;
        for m in 0.. {
            let home = Home::new();
            let before = home.tree();
            let done = home.everything_done(&before);
            let set = home.everything();
            let result = apply(home.place(), &set, &mut stop_at(n, &mut 0));
            if result.is_ok() {
                assert_eq!(home.tree(), done);
                assert!(outcomes[0] > 10 && outcomes[1] > 4, "{outcomes:?}");
                return;
            }
            let interrupted = recover(&home.workspace, &home.journal, &mut stop_at(m, &mut points_of_recovery));
            points_of_recovery = 0;
            let settled = interrupted.as_ref().is_ok();
            let recovered = home.recover();
            let tree = home.tree();
            assert!(tree == before || tree == done, "died at {n}, recovering at {m}: {tree:?}");
            assert!(home.journal_is_empty() && home.outside_is_untouched());
            outcomes[usize::from(tree == done)] += 1;
            if settled {
                assert_eq!(recovered, Recovered::Nothing);
                break;
            }
        }
        assert_eq!(points_of_recovery, 0);
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
