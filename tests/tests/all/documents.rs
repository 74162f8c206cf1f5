//! What the documents say is so.

use shared::Code;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect(name)
}

#[test]
fn the_readme_lists_every_code_with_its_texts_and_no_other() {
    let readme = read("README.md");
    let listed: Vec<&str> =
        readme.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() == 3).collect();
    let expected: Vec<String> = Code::ALL
        .iter()
        .map(|code| format!("| `{code}` | {} | {} | {} |", code.status(), code.meaning(), code.remedy()))
        .collect();
    assert_eq!(listed, expected, "change the table in README.md to what `host-broker codes` prints");
}

#[test]
fn the_readme_shows_the_two_commands() {
    let readme = read("README.md");
    for command in ["cargo run --release -p host-broker -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command), "{command}");
    }
}

#[test]
fn every_test_that_a_table_names_exists() {
    let folders = ["tests/tests", "host-broker/src", "host-broker/tests", "mcp-shim", "shared/src"];
    let sources: String = folders.iter().flat_map(|folder| sources(&root().join(folder))).collect();
    let documents = [
        ("docs/security/attack-catalogue.md", 200),
        ("docs/security/guarantees.md", 20),
        ("docs/internals/testing.md", 12),
    ];
    for (document, least) in documents {
        let text = read(document);
        let last = |line: &str| Some(line.strip_prefix("| ")?.trim_end_matches(" |").rsplit(" | ").next()?.to_owned());
        let cells: Vec<String> = text.lines().filter_map(last).collect();
        // Every other part of a cell stands between two backticks; tests are those whose name is a sentence.
        let is_test = |name: &str| name.contains('_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let quoted = cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let names: Vec<&str> = quoted.filter(|name| is_test(name)).collect();
        assert!(names.len() > least, "{document}: {} names were found", names.len());
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "{document} names the test {name}, which does not exist");
        }
    }
}

fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                sources(&path)
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                vec![std::fs::read_to_string(&path).expect("a source")]
            } else {
                Vec::new()
            }
        })
        .collect()
}
