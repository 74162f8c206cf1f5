use super::*;
use crate::patch::{Limits, plan};
use crate::rules::{CREATABLE, DENIED, PathRules};
use proptest::prelude::*;

fn path(text: &str) -> WorkspacePath {
    WorkspacePath::new(text).unwrap()
}

fn change(to: &str, from: Option<&str>, before: Option<&str>, after: Option<(&str, u32)>) -> Change {
    Change {
        path: path(to),
        from: from.map(path),
        before: before.map(|text| FileState::new(text.into(), 0o644)),
        after: after.map(|(text, mode)| FileState::new(text.into(), mode)),
    }
}

fn diff(changes: Vec<Change>) -> Diff {
    Diff::of(&ChangeSet::new(changes).unwrap()).unwrap()
}

#[test]
fn a_diff_is_what_git_would_write() {
    let shown = diff(vec![
        change("src/new", None, None, Some(("x\n", 0o755))),
        change("src/empty", None, None, Some(("", 0o644))),
        change("gone", None, Some("y"), None),
        change("b c", Some("a\\b"), Some("1\n2\n3\n4\n5\n"), Some(("1\n2\n3\n4\nfive", 0o755))),
    ]);
    let expected = "\
diff --git a/src/new b/src/new
new file mode 100755
--- /dev/null
+++ b/src/new
@@ -0,0 +1 @@
+x
diff --git a/src/empty b/src/empty
new file mode 100644
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-y
\\ No newline at end of file
diff --git \"a/a\\\\b\" b/b c
old mode 100644
new mode 100755
rename from \"a\\\\b\"
rename to b c
--- \"a/a\\\\b\"
+++ b/b c\t
@@ -2,4 +2,4 @@
 2
 3
 4
-5
+five
\\ No newline at end of file
";
    assert_eq!(shown.text(), expected);
    assert_eq!(shown.hash(), Digest::of(expected.as_bytes()));
}

#[test]
fn binary_content_has_no_diff() {
    for bytes in [&b"\xff"[..], b"a\0b"] {
        let before = FileState::created(b"x".to_vec(), false);
        let set = ChangeSet::write(path("f"), Some(before), bytes.to_vec()).unwrap();
        assert_eq!(Diff::of(&set), Err(NotShowable(path("f"))));
        assert_eq!(Diff::of(&set.inverse()), Err(NotShowable(path("f"))));
    }
}

#[test]
fn hidden_characters_of_a_diff_are_made_visible() {
    let shown = diff(vec![
        change("a", None, Some("x\n"), Some(("x\r\n", 0o644))),
        change("b", None, None, Some(("if \u{202e}x\u{1b}[2K\n", 0o644))),
        change("c", None, None, Some(("a\rb\n", 0o644))),
        change("d", None, None, Some(("\tplain ä 日 Größe Привет\n", 0o644))),
        change("e", None, None, Some(("is\u{410}dmin \u{ff41}b p\u{3bf}rt\n", 0o644))),
    ]);
    assert_eq!(shown.concealing(), [path("b"), path("c")]);
    let readable = shown.readable();
    assert!(readable.contains("-x\n+x<U+000D>\n") && readable.contains("+if <U+202E>x<U+001B>[2K\n"), "{readable}");
    assert!(readable.contains("+\tplain ä 日 Größe Привет\n"), "{readable}");
    assert!(readable.contains("+is<U+0410>dmin <U+FF41>b p<U+03BF>rt\n"), "{readable}");
    assert!(!readable.chars().any(|c| c != '\n' && c != '\t' && conceals(c)));
}

#[test]
fn a_preview_says_that_it_is_not_all() {
    let short = diff(vec![change("a", None, None, Some(("ä\n", 0o644)))]);
    assert_eq!(short.preview(), short.text());
    let exact = diff(vec![change("a", None, None, Some((&"x".repeat(PREVIEW_MAX), 0o644)))]);
    for text in ["äöü\n".repeat(9000), "日".repeat(20_000), format!("{}\n", "x".repeat(30_000))] {
        let shown = diff(vec![change("a", None, None, Some((&text, 0o644)))]);
        let preview = shown.preview();
        assert!(preview.chars().count() <= PREVIEW_MAX);
        let (kept, note) = preview.trim_end().rsplit_once('\n').unwrap();
        assert!(shown.text().starts_with(kept) && note.starts_with("[cut: "), "{note}");
    }
    assert!(exact.preview().chars().count() <= PREVIEW_MAX);
}

fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => Just("a"), 2 => Just("b"), 1 => Just(""), 1 => Just("c\r"), 1 => Just("--- a/x"), 1 => Just("+++ b/x"),
        1 => Just("@@ -1 +1 @@"), 1 => Just("\\ No newline at end of file"), 1 => Just("diff --git a/f b/f"), 1 => Just("ä日"),
    ];
    (prop::collection::vec(line, 0..30), any::<bool>())
        .prop_map(|(lines, end)| lines.join("\n") + if end && !lines.is_empty() { "\n" } else { "" })
}

proptest! {
    #[test]
    fn a_diff_read_as_a_patch_makes_the_same_bytes(
        files in prop::collection::vec((prop::option::of(text()), prop::option::of(text()), any::<bool>(), any::<bool>()), 1..4)
    ) {
        let mut changes = Vec::new();
        for (index, (before, after, executable, renamed)) in files.into_iter().enumerate() {
            let mode = if executable { 0o755 } else { 0o644 };
            let from = (renamed && before.is_some() && after.is_some()).then(|| path(&format!("src/old {index}")));
            let before = before.map(|text| FileState::new(text.into(), 0o644));
            let after = after.map(|text| FileState::new(text.into(), mode));
            if from.is_some() || before != after {
                changes.push(Change { path: path(&format!("src/n{index}")), from, before, after });
            }
        }
        prop_assume!(!changes.is_empty());
        let set = ChangeSet::new(changes).unwrap();
        let rules = PathRules::new(&DENIED, &CREATABLE).unwrap();
        for set in [set.inverse(), set] {
            let diff = Diff::of(&set).unwrap();
            let again = plan(diff.text().as_bytes(), &rules, Limits::default(), |path| {
                let found = set.changes().iter().find(|change| change.from.as_ref().unwrap_or(&change.path) == path);
                Ok(found.and_then(|change| change.before.clone()))
            });
            prop_assert_eq!(again.map_err(|e| format!("{e}\n{}", diff.text())), Ok(set.clone()));
            prop_assert_eq!(Diff::of(&set).unwrap(), diff);
        }
    }
}

#[test]
fn hostile_texts_are_shown_in_time() {
    // As large as files may be, and as unlike, or as confusing, as they can be.
    let numbered = |from: u32| (from..from + 70_000).map(|n| format!("{n:x}\n")).collect::<Vec<_>>();
    let cycle =
        |step: usize| (0..250_000).map(|n: usize| if n * step % 7 < 3 { "a\n" } else { "b\n" }).collect::<String>();
    let random = |seed: u64| {
        let next = |state: &mut u64| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(if *state >> 63 == 0 { "a\n" } else { "b\n" })
        };
        std::iter::successors(Some(seed), |_| None)
            .flat_map(|seed| {
                let mut state = seed;
                std::iter::from_fn(move || next(&mut state)).take(250_000)
            })
            .collect::<String>()
    };
    let reversed: Vec<String> = numbered(0x10_0000).into_iter().rev().collect();
    for (old, new) in [
        (numbered(0x10_0000).concat(), numbered(0x90_0000).concat()),
        (cycle(1), cycle(3)),
        (random(1), random(2)),
        (numbered(0x10_0000).concat(), reversed.concat()),
    ] {
        let before = FileState::created(old.into_bytes(), false);
        let set = ChangeSet::write(path("f"), Some(before), new.into_bytes()).unwrap();
        let diff = Diff::of(&set).unwrap();
        assert_eq!(Diff::of(&set).unwrap().hash(), diff.hash());
    }
}
