use super::super::automata::Search;
use super::super::mark::Stamp;
use super::super::view::{SEAM, Undo, View};
use super::*;

const SECRET: &str = "k7Qz-9fXw2-Lm4tRb8";

/// Secrets of random letters, without a generator: the digits of a digest.
fn secrets(count: usize) -> Vec<String> {
    (0..count)
        .map(|n| shared::digest::Digest::of(&n.to_le_bytes()).to_string().chars().rev().take(24).collect())
        .collect()
}

fn search(secrets: &[&str]) -> Search {
    Search::new(secrets.iter().map(|secret| ("S", *secret)), &Stamp::new([3; 32]), None).unwrap()
}

/// The parts that are found, in the order of the text.
fn found(pieces: &[&str]) -> Vec<String> {
    let text = pieces.join(&SEAM.to_string());
    let mut found = Vec::new();
    search(&[SECRET]).find_scattered(&View::of(&text, &[], Undo::Both), &mut found);
    found.into_iter().map(|found| text.get(found.range).unwrap().to_owned()).collect()
}

#[test]
fn a_short_part_is_a_whole_piece() {
    for (pieces, parts) in [
        (&["k7Qz-9fX", "noise", "w2-", "noise", "Lm4tRb8"][..], &["k7Qz-9fX", "w2-", "Lm4tRb8"][..]),
        (&["k7Q", "noise", "z-9", "x", "fXw2-", "noise", "Lm4tRb8"], &["k7Q", "z-9", "fXw2-", "Lm4tRb8"]),
        (&["Lm4tRb", "8", "noise", "k7Qz-9fXw2-"], &["Lm4tRb", "8", "k7Qz-9fXw2-"]),
        (&["K", "x", "7qZ-9FXW2-", "noise", "LM4", "7", "TRB8"], &["K", "7qZ-9FXW2-", "LM4", "TRB8"]),
        (&["k7Q", "a", "z-9", "b", "fXw", "c", "2-L", "m4t", "Rb8"], &["k7Q", "z-9", "fXw", "2-L", "m4t", "Rb8"]),
        // A piece that only repeats a part is none.
        (&["k7Qz-9fX", "7", "w2-Lm4tRb8"], &["k7Qz-9fX", "w2-Lm4tRb8"]),
    ] {
        assert_eq!(found(pieces), parts, "{pieces:?}");
    }
    for pieces in [
        &["k7Qz-9fX", "noise", "w2-x", "noise", "Lm4tRb8"][..],
        &["k7Qz-9fX", "noise", "w2", "noise", "Lm4tRb8"],
        &["7Qz-9fX", "w2-", "Lm4tRb8"],
        &["k7Qz-9fX", "w2-", "Lm4tRb"],
    ] {
        assert_eq!(found(pieces), Vec::<String>::new(), "{pieces:?}");
    }
}

/// Texts of a MiB in short lines, made so that many lines are parts or nearly parts.
fn hostile(secret: &str) -> Vec<(&'static str, String)> {
    const BYTES: usize = 1 << 20;
    let parts = |length: usize| (0..secret.len() - length).filter_map(move |at| secret.get(at..at + length));
    let text = |line: &mut dyn FnMut(usize) -> String| {
        let mut text = String::new();
        for n in 0.. {
            if text.len() >= BYTES {
                break;
            }
            text.push_str(&line(n));
            text.push(SEAM);
        }
        text
    };
    let short: Vec<&str> = (1..4).flat_map(parts).collect();
    let long: Vec<&str> = (4..12).flat_map(parts).collect();
    let (without_last, _) = secret.split_at(secret.len() - 1);
    let (first, _) = secret.split_at(9);
    let letters: Vec<&str> = without_last.split("").filter(|letter| !letter.is_empty()).collect();
    vec![
        ("all short parts", text(&mut |n| short[n % short.len()].to_owned())),
        ("all letters but the last", text(&mut |n| letters[n % letters.len()].to_owned())),
        ("all parts", text(&mut |n| long[n % long.len()].to_owned())),
        ("parts with another end each", text(&mut |n| format!("{}{n:x}", long[n % long.len()]))),
        ("parts with another beginning each", text(&mut |n| format!("{n:x}{}", long[n % long.len()]))),
        ("the secret but for its end", text(&mut |n| format!("{without_last}{n:x}"))),
        ("short texts", text(&mut |n| format!("{:x}", n % 4096))),
        ("short texts and the first part", text(&mut |n| format!("{}{:x}", if n == 0 { first } else { "" }, n % 4096))),
    ]
}

/// Attack (Providers and modules): A provider sends a MiB of lines that are parts of the token, or
/// nearly parts, so that the search takes long.
/// Defence: The work of the search is linear in the text and in the secrets.
#[test]
fn hostile_lines_cost_a_few_steps_a_byte() {
    let secrets = secrets(20);
    let secrets: Vec<&str> = secrets.iter().map(String::as_str).chain([SECRET]).collect();
    let search = search(&secrets);
    for (name, text) in hostile(SECRET) {
        for undo in [Undo::Both, Undo::Hexadecimal, Undo::Decimal] {
            let view = View::of(&text, &[], undo);
            work::take();
            search.may_find_scattered(undo, view.bytes());
            let scattered = work::take();
            let mut found = Vec::new();
            search.find_scattered(&view, &mut found);
            let twice = work::take();
            search.find_apart(&view, &mut found);
            let apart = work::take();
            println!("{name:<36} {undo:?} {} bytes: {scattered}, {twice}, {apart}", view.bytes().len());
            let most = 16 * text.len();
            assert!(
                scattered < most && twice < 2 * most && apart < most,
                "{name}, {undo:?}: {scattered}, {twice}, {apart}"
            );
        }
    }
}

/// Attack: see `hostile_lines_cost_a_few_steps_a_byte`.
#[test]
fn a_piece_that_is_repeated_costs_its_runs_once() {
    let secret = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    let search = search(&[secret]);
    let text = ["aaaa", "aaaaa"].join(&SEAM.to_string()) + &SEAM.to_string();
    let mut counts = Vec::new();
    for count in [1, 1000] {
        work::take();
        search.may_find_scattered(Undo::Both, text.repeat(count).as_bytes());
        counts.push(work::take());
    }
    assert!(counts[0] > 100 && counts[1] <= counts[0], "{counts:?}");
}
