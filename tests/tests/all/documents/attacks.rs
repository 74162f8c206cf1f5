//! `docs/security/attack-catalogue.md`, which is generated from the comments of the tests.
//!
//! A test that defends against an attack says so in its comment. `UPDATE_DOCS=1` writes the page.
//!
//! ```text
//! /// Attack (Load and space): A group sends ten thousand files at once.
//! /// Defence: Undecided documents of a group are limited.
//! ```
//!
//! A further test of the same attack names the first one: "Attack: see" and its name in backticks.

use super::{paths, read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

const PAGE: &str = "docs/security/attack-catalogue.md";

/// The sections of the page, in its order.
const SECTIONS: [&str; 19] = [
    "Files in the group's directory",
    "The group's socket",
    "Load and space",
    "Authority",
    "Files provider",
    "Approvals and notices",
    "Repeats, crashes and evidence",
    "The host",
    "Persons",
    "Order of the stages, and content",
    "Cards",
    "The inbox",
    "Programs: isolation",
    "Agents that the broker starts",
    "Flows and external agents",
    "Definitions and servers",
    "Accounts",
    "Hosts of a fleet",
    "Providers and modules",
];

/// An attack, as its first test describes it.
struct Attack {
    section: String,
    text: String,
    defence: String,
    test: String,
}

/// The comments of all tests.
#[derive(Default)]
struct Comments {
    attacks: Vec<Attack>,
    // The further tests of an attack, by the name of the first.
    further: BTreeMap<String, BTreeSet<String>>,
}

impl Comments {
    fn of_the_workspace() -> Self {
        let mut files: Vec<PathBuf> = Vec::new();
        for folder in ["host-broker", "mcp-shim", "shared", "tests"] {
            paths(&root().join(folder), &mut files);
        }
        files.sort();
        let mut comments = Self::default();
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
            comments.add(&std::fs::read_to_string(file).expect("a source file"));
        }
        comments
    }

    /// Adds the comments of a file. A comment belongs to the next function.
    fn add(&mut self, source: &str) {
        let mut comment: Vec<&str> = Vec::new();
        for line in source.lines().map(str::trim_start) {
            if let Some(text) = line.strip_prefix("///") {
                comment.push(text.trim());
            } else if let Some(name) = function(line) {
                self.take(&std::mem::take(&mut comment), name);
            } else if !line.starts_with(['#', ']', ')']) && !line.starts_with("reason =") && !line.ends_with(',') {
                comment.clear();
            }
        }
    }

    fn take(&mut self, comment: &[&str], test: &str) {
        for paragraph in comment.split(|line| line.is_empty()) {
            // Each begins with its word; the other lines continue the one before.
            let mut parts: Vec<String> = Vec::new();
            for line in paragraph {
                let begins = ["Attack (", "Attack: see `", "Defence: "].iter().any(|word| line.starts_with(word));
                match parts.last_mut() {
                    Some(last) if !begins => *last += &[" ", line].concat(),
                    _ => parts.push((*line).to_owned()),
                }
            }
            let mut parts = parts.iter().map(String::as_str).peekable();
            while let Some(part) = parts.next() {
                if let Some(first) = part.strip_prefix("Attack: see `").and_then(|rest| rest.strip_suffix("`.")) {
                    self.further.entry(first.to_owned()).or_default().insert(test.to_owned());
                } else if let Some(rest) = part.strip_prefix("Attack (") {
                    let (section, attack) = rest.split_once("): ").unwrap_or_else(|| panic!("{test}: {part}"));
                    let defence = parts.next_if(|next| next.starts_with("Defence: "));
                    let defence = defence.unwrap_or_else(|| panic!("{test} names an attack without its defence"));
                    assert!(SECTIONS.contains(&section), "{test}: there is no section {section}");
                    self.attacks.push(Attack {
                        section: section.to_owned(),
                        text: attack.to_owned(),
                        defence: defence.trim_start_matches("Defence: ").to_owned(),
                        test: test.to_owned(),
                    });
                }
            }
        }
    }

    /// Returns the page.
    fn page(&self) -> String {
        let mut page = "# Attack catalogue\n\nGenerated from the comments of the tests. Do not edit; run \
            `UPDATE_DOCS=1 cargo test -p tests --test all attacks`.\n\n\
            Each row names an attack, the defence, and the tests. Each of the tests failed before the defence existed.\n"
            .to_owned();
        for section in SECTIONS {
            write!(page, "\n## {section}\n\n| attack | defence | tests |\n| --- | --- | --- |\n").unwrap();
            for Attack { text, defence, test, .. } in self.attacks.iter().filter(|of| of.section == section) {
                let further = self.further.get(test).into_iter().flatten();
                let tests: Vec<String> = std::iter::once(test).chain(further).map(|name| format!("`{name}`")).collect();
                let [text, defence] = [text, defence].map(|text| text.replace('|', "\\|"));
                writeln!(page, "| {text} | {defence} | {} |", tests.join(", ")).unwrap();
            }
        }
        page
    }
}

/// Returns the name of a function that a line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split('(').next()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether to write the page is said outside")]
fn the_attack_catalogue_is_current() {
    let comments = Comments::of_the_workspace();
    assert!(comments.attacks.len() >= 433, "{} attacks", comments.attacks.len());
    let firsts: BTreeSet<&String> = comments.attacks.iter().map(|attack| &attack.test).collect();
    for (first, tests) in &comments.further {
        assert!(firsts.contains(first), "{tests:?} name {first}, whose comment describes no attack");
    }
    for section in SECTIONS {
        assert!(comments.attacks.iter().any(|attack| attack.section == section), "{section} has no attack");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(root().join(PAGE), comments.page()).expect("the page can be written");
    } else {
        let is_current = read(PAGE) == comments.page();
        assert!(is_current, "{PAGE} is out of date: UPDATE_DOCS=1 cargo test -p tests --test all attacks");
    }
}

#[test]
fn a_comment_of_a_test_describes_attacks_and_names_others() {
    let mut comments = Comments::default();
    comments.add(
        "/// Something else.\n///\n/// Attack (Cards): One\n/// of two lines.\n/// Defence: `a`.\n#[test]\n#[expect(\n    x,\n)]\n\
         fn first() {}\n\n/// Attack: see `first`.\n#[tokio::test]\nasync fn second() {}\nfn third() {}\n",
    );
    assert_eq!(comments.attacks.len(), 1);
    let attack = &comments.attacks[0];
    let read = [&attack.section, &attack.text, &attack.defence, &attack.test];
    assert_eq!(read, ["Cards", "One of two lines.", "`a`.", "first"]);
    assert_eq!(comments.further, BTreeMap::from([("first".into(), BTreeSet::from(["second".into()]))]));
}
