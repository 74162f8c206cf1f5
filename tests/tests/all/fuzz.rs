//! The fuzz targets on a small corpus, and on what a few thousand mutations make of it; `fuzz/` does the same for as long
//! as one likes, and learns from what it sees.

use std::path::{Path, PathBuf};
use tests::fakes::CountedRandom;
use tests::fuzz::TARGETS;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The seeds of a target: its own, and for whatever reads JSON the suite.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let mut seeds = files(&fixtures().join("fuzz").join(target));
    assert!(!seeds.is_empty(), "{target} has no seeds");
    if ["json", "request", "signature", "transport", "filter"].contains(&target) {
        seeds.extend(files(&fixtures().join("json/test_parsing")).into_iter().filter(|seed| seed.len() < 4096));
    }
    seeds
}

/// The texts that break parsers: the ends of ranges, half of a pair, and the marks of every format read here.
const WORDS: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"-",
    b"1e400",
    b"9223372036854775808",
    b"\\ud83d",
    b"\xff",
    b"\xf0\x9f",
    b"\0",
    b"\n",
    b"\r\n",
    b"=",
    b"<34>1 ",
    b"\xef\xbb\xbf",
    b"0000-00-00T00:00:00Z",
    b"../",
    b"Feb 29 23:59:60",
];

fn mutated(corpus: &[Vec<u8>], dice: &CountedRandom) -> Vec<u8> {
    let below = |limit: usize| usize::try_from(dice.next()).unwrap() % limit.max(1);
    let mut bytes = corpus[below(corpus.len())].clone();
    for _ in 0..=below(4) {
        let at = below(bytes.len() + 1);
        let end = at + below((bytes.len() - at).min(16) + 1);
        match below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << below(8),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..end, WORDS[below(WORDS.len())].iter().copied())),
            3 => {
                let twice = bytes[at..end].repeat(1 + below(40));
                bytes.splice(at..end, twice);
            }
            4 => {
                let other = &corpus[below(corpus.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[below(other.len() + 1)..]);
            }
            _ => bytes.insert(at, u8::try_from(below(256)).unwrap()),
        }
    }
    bytes
}

#[test]
fn no_parser_of_anybodys_bytes_falls_over() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        for seed in &corpus {
            target(seed);
        }
        let dice = CountedRandom::of(name);
        for round in 0..3_000 {
            let bytes = mutated(&corpus, &dice);
            let fine = std::panic::catch_unwind(|| target(&bytes));
            assert!(fine.is_ok(), "{name}, round {round}: {:?}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn every_target_can_be_fuzzed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        let source = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(source.contains(&format!("tests::fuzz::{name}(")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.join("fuzz_targets")).unwrap().count(), TARGETS.len());
}
