use super::*;
use proptest::prelude::*;

/// The text again, from its parts.
fn joined(parts: &[Part<'_>]) -> Vec<String> {
    let sign = |line: &Line<'_>, sign: &str| match line.number {
        Some(_) => format!("{sign}{}", line.text),
        None => line.text.to_owned(),
    };
    parts
        .iter()
        .flat_map(|part| match part {
            Part::Head(lines) => lines.iter().map(ToString::to_string).collect::<Vec<_>>(),
            Part::Place(line) => vec![(*line).to_owned()],
            Part::Same(lines) => lines.iter().map(|line| format!(" {}", line.text)).collect(),
            Part::Changed { old, new } => {
                old.iter().map(|line| sign(line, "-")).chain(new.iter().map(|line| sign(line, "+"))).collect()
            }
        })
        .collect()
}

fn line(number: u64, text: &str) -> Line<'_> {
    Line { number: Some(number), text }
}

#[test]
fn removed_lines_stand_beside_added_lines_with_their_numbers() {
    let text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -10,3 +10,4 @@ fn main\n one\n-two\n+2\n+2b\n three\n";
    let parts = side_by_side(text);
    let expected = [
        Part::Head(vec!["diff --git a/x b/x", "--- a/x", "+++ b/x"]),
        Part::Place("@@ -10,3 +10,4 @@ fn main"),
        Part::Same(vec![Same { old: 10, new: 10, text: "one" }]),
        Part::Changed { old: vec![line(11, "two")], new: vec![line(11, "2"), line(12, "2b")] },
        Part::Same(vec![Same { old: 12, new: 13, text: "three" }]),
    ];
    assert_eq!(parts, expected);
}

/// Attack (The inbox): A line of a file imitates the header of another file's changes.
/// Defence: A diff is split by the lengths in its headers.
#[test]
fn a_line_of_a_file_that_looks_like_a_head_is_a_line_of_the_file() {
    let text = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n--- a/etc/passwd\n-@@ -1 +1 @@\n+++ b/etc/passwd\n+@@ -9 +9 @@\n \n\
                --- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n";
    let parts = side_by_side(text);
    let heads: Vec<_> = parts.iter().filter(|part| matches!(part, Part::Head(_))).collect();
    assert_eq!(heads, [&Part::Head(vec!["--- a/x", "+++ b/x"]), &Part::Head(vec!["--- a/y", "+++ b/y"])]);
    assert_eq!(parts.iter().filter(|part| matches!(part, Part::Place(_))).count(), 2);
    assert_eq!(joined(&parts), text.lines().collect::<Vec<_>>());
}

#[test]
fn a_missing_line_break_at_the_end_is_said_on_its_side() {
    let text = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n";
    let Part::Changed { old, new } = &side_by_side(text)[1] else { panic!() };
    assert_eq!((old.len(), old[1].number, new.len()), (2, None, 1));
    let text = "@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n";
    assert_eq!(joined(&side_by_side(text)), text.lines().collect::<Vec<_>>());
}

#[test]
fn no_line_of_any_text_is_lost() {
    for text in [
        "",
        "\n",
        "no diff at all\nreally\n",
        "@@ -1,9 +1,9 @@\n cut off",
        "@@ -1 +1 @@\n-a\n-one too many\n+b\n+another\n",
        "@@ -18446744073709551615,2 +1 @@\n-a\n-b\n+c\n",
        "@@ -99999999999999999999 +1 @@\n+a\n",
        "@@ -1,2 +1,2 @@\n-a\n+b\n-c\n+d\n",
        "@@ -1,1 +1,1 @@\n\n+b\n\\ odd\n\\ odder\n",
        "\\ No newline\n@@ -0,0 +1 @@\n+\u{e9}\n",
        "@@ -1 +1 @@\n\u{e9}\n",
    ] {
        let expected: Vec<String> = text
            .split_terminator('\n')
            .map(
                |line| {
                    if line.is_empty() && joined(&side_by_side(text)).contains(&" ".to_owned()) { " " } else { line }
                },
            )
            .map(ToOwned::to_owned)
            .collect();
        assert_eq!(joined(&side_by_side(text)), expected, "{text:?}");
    }
}

#[test]
fn half_a_mebibyte_is_taken_apart_in_one_pass() {
    let many: String = "@@ -1,100000 +1,100000 @@\n".to_owned() + &"-a\n+b\n".repeat(100_000);
    assert_eq!(side_by_side(&many).len(), 100_001);
    let long = format!("@@ -1 +1 @@\n-{}\n+{}\n", "x".repeat(250_000), "y".repeat(250_000));
    let parts = side_by_side(&long);
    assert_eq!(parts.len(), 2);
    assert_eq!(joined(&parts), long.lines().collect::<Vec<_>>());
}

proptest! {
    #[test]
    fn every_line_of_any_text_is_in_one_place_in_its_order(
        lines in prop::collection::vec("@@ -[0-3],[0-9] \\+[0-3],[0-9] @@|[-+ \\\\]?[-+@ab\u{e9}]{0,3}", 0..60),
    ) {
        let text = lines.join("\n");
        let parts = side_by_side(&text);
        let found = joined(&parts);
        let same = |(found, line): (&String, &str)| found == line || (line.is_empty() && found == " ");
        prop_assert_eq!(found.len(), text.split_terminator('\n').count());
        prop_assert!(found.iter().zip(text.split_terminator('\n')).all(same), "{:?} {:?}", found, text);
    }
}
