//! The statements of the documents are true.

mod attacks;
mod reference;
mod words;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect(name)
}

#[test]
fn the_readme_shows_the_two_commands() {
    let readme = read("README.md");
    for command in ["cargo run --release -p host-broker -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command), "{command}");
    }
}

#[test]
fn the_readme_is_no_longer_than_a_reader_is_patient() {
    assert!(read("README.md").lines().count() <= 150);
}

/// Every page: the documents at the top, and all of `docs/`.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"].iter().map(|name| root().join(name)).collect();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_none_or(|extension| extension != "png") {
                pages.push(entry);
            }
        }
    }
    pages
}

/// The anchor of a heading, as forges make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_of_a_page_leads_to_a_page_and_a_heading() {
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("http")) {
            let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
            let target = if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if let Some(heading) = heading {
                let text = std::fs::read_to_string(&target).expect("a page");
                let mut headings =
                    text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#'));
                assert!(headings.any(|line| anchor(line) == heading), "{}: {link}", page.display());
            }
            count += 1;
        }
    }
    assert!(count > 100, "{count} links were found");
}

#[test]
fn every_test_that_a_table_names_exists() {
    let folders = ["tests/tests", "host-broker", "mcp-shim", "shared/src"];
    let sources: String = folders.iter().flat_map(|folder| sources(&root().join(folder))).collect();
    let documents = [
        ("docs/security/attack-catalogue.md", 600),
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

/// A page that names a file which has moved leads its reader nowhere.
#[test]
fn every_source_file_that_a_page_names_exists() {
    let mut files = Vec::new();
    for folder in ["host-broker", "mcp-shim", "shared", "tests"] {
        paths(&root().join(folder), &mut files);
    }
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        let quoted = text.split('`').skip(1).step_by(2).filter(|name| !name.contains([' ', '{']));
        for name in quoted.filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "rs")) {
            // The style rule names this one, which no directory has.
            if name != "mod.rs" {
                assert!(files.iter().any(|file| file.ends_with(name)), "{} names {name}", page.display());
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count} names were found");
}

fn paths(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() { paths(&path, found) } else { found.push(path) }
    }
}

/// The file that `init` writes shows most keys as comments, which no start reads.
#[test]
fn every_key_of_the_file_that_init_writes_is_in_the_reference() {
    let (template, page) = (read("host-broker/src/cli/init/broker.toml"), read("docs/reference/configuration.md"));
    let is_key =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c));
    let (mut keys, mut tables) = (0, 0);
    for line in template.lines().map(|line| line.trim_start_matches(['#', ' '])) {
        if let Some(key) = line.split_once(" = ").map(|(key, _)| key).filter(|key| is_key(key)) {
            assert!(page.contains(&format!("`{key}`")) || page.contains(&format!(".{key}]")), "{line}");
            keys += 1;
        }
        let table = line.starts_with('[').then(|| line.trim_start_matches('[').split(['.', ']']).next()).flatten();
        if let Some(table) = table.filter(|table| is_key(table)) {
            assert!(page.contains(&format!("[{table}]")) || page.contains(&format!("[{table}.")), "{line}");
            tables += 1;
        }
    }
    assert!(keys > 40 && tables > 15, "{keys} keys and {tables} tables were found");
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
