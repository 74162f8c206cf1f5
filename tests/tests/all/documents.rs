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
fn every_test_that_the_security_table_names_exists() {
    let folders = ["tests/tests", "host-broker/src", "host-broker/tests", "mcp-shim", "shared/src"];
    let sources: String = folders.iter().flat_map(|folder| sources(&root().join(folder))).collect();
    let table = read("SECURITY.md");
    let names: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.strip_suffix("` |")?.rsplit('`').next())
        .collect();
    assert!(names.len() > 30, "the table was not found");
    for name in names {
        assert!(sources.contains(&format!("fn {name}(")), "SECURITY.md names the test {name}, which does not exist");
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
