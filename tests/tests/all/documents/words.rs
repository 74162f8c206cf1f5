//! Documents, help and messages use the words of the glossary.

use super::{pages, root};
use regex::Regex;
use std::path::{Path, PathBuf};

/// Words that no page contains, each with the word to use instead.
const BANNED: [(&str, &str); 26] = [
    ("agent outside", "external agent"),
    ("agents outside", "external agents"),
    ("anew", "again, or a more exact verb"),
    ("at hand", "available"),
    ("broker s log", "the command host-broker logs"),
    ("clerk", "dispatcher"),
    ("comes to light", "is disclosed"),
    ("courier", "notice sender"),
    ("daemon s log", "the command host-broker logs"),
    ("deputy", "inspection"),
    ("for ever", "permanently"),
    ("hand over", "pass"),
    ("in vain", "without effect"),
    ("is had", "an active verb"),
    ("is over", "has ended, or has expired"),
    ("mailroom", "mailboxes"),
    ("nobody knows", "unknown"),
    ("patience", "timeout"),
    ("read its log", "the command host-broker logs"),
    ("see its log", "the command host-broker logs"),
    ("that which", "a noun"),
    ("what became of", "the outcome of"),
    ("what is behind", "backend"),
    ("whatever", "any"),
    ("whoever", "a person who, or the caller"),
    ("whomever", "a person who"),
];

/// The banned words of a line.
fn banned(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    // Names in code have words of their own.
    let prose: String = line.to_lowercase().split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words: Vec<&str> = prose.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let line = format!(" {} ", words.join(" "));
    BANNED.into_iter().filter(move |(word, _)| line.contains(&format!(" {word} ")))
}

#[test]
fn no_page_has_a_banned_word() {
    let mut found = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for (number, line) in text.lines().enumerate() {
            let words = banned(line);
            found.extend(
                words.map(|(word, instead)| format!("{}:{}: `{word}`; use: {instead}", page.display(), number + 1)),
            );
        }
    }
    assert!(found.is_empty(), "{} banned words:\n{}", found.len(), found.join("\n"));
}

/// Every source file of the products.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["host-broker", "mcp-shim", "shared"].map(|name| root().join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_source = entry.extension().is_some_and(|extension| extension == "rs");
            if entry.is_dir() && name != "tests" && name != "target" {
                folders.push(entry);
            } else if is_source && !name.ends_with("tests.rs") {
                found.push(entry);
            }
        }
    }
    found
}

/// The string literals of a source file that are texts: several words, with the number of their line. Comments, tests,
/// raw strings and statements are none.
fn texts(source: &str) -> Vec<(usize, String)> {
    let product = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let comment = Regex::new(r"(?m)^\s*//.*$|\s// .*$").unwrap();
    let odd = Regex::new(r##"(?s)r#+".*?"#+|\br"[^"]*"|\bb"(?:[^"\\]|\\.)*"|'\\?"'"##).unwrap();
    let literal = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap();
    let folded = Regex::new(r"\\\n\s*").unwrap();
    let blank = |found: &regex::Captures<'_>| "\n".repeat(found[0].matches('\n').count());
    let product = comment.replace_all(product, blank);
    let product = odd.replace_all(&product, blank);
    literal
        .captures_iter(&product)
        .filter_map(|found| {
            let whole = found.get(1)?;
            let line = product.get(..whole.start())?.matches('\n').count() + 1;
            Some((line, folded.replace_all(whole.as_str(), "").into_owned()))
        })
        .filter(|(_, text)| is_text(text))
        .collect()
}

/// Whether it is of several words, and no statement of SQL.
fn is_text(literal: &str) -> bool {
    const SQL: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "PRAGMA"];
    literal.contains(' ') && !SQL.contains(&literal.split_whitespace().next().unwrap_or_default())
}

/// The words of agents in the texts of attacks, which the product looks for, and of the classifier's instructions.
fn is_of_others(path: &Path) -> bool {
    ["filter/src/inspect", "engine/src/inspection.rs"].iter().any(|part| path.to_string_lossy().contains(part))
}

#[test]
fn no_message_has_a_banned_word_or_begins_with_what() {
    let (mut found, mut count) = (Vec::new(), 0);
    for path in sources().into_iter().filter(|path| !is_of_others(path)) {
        let source = std::fs::read_to_string(&path).expect("a source file");
        for (line, text) in texts(&source) {
            count += 1;
            let place = format!("{}:{line}", path.display());
            found.extend(banned(&text).map(|(word, instead)| format!("{place}: `{word}`; use: {instead}")));
            let begins = ["What ", "Whoever ", "Whatever "].iter().any(|word| text.starts_with(word));
            if begins && !text.trim_end().ends_with('?') {
                found.push(format!("{place}: begin with a noun: {text}"));
            }
        }
    }
    assert!(count > 2_000, "only {count} texts were found");
    assert!(found.is_empty(), "{} texts:\n{}", found.len(), found.join("\n"));
}

#[test]
fn texts_are_the_literals_of_the_product_and_nothing_else() {
    let source = "// a \"comment here\"\nlet a = \"one text\"; // \"none here\"\nlet b = \"word\";\n\
                  let c = \"two \\\n    lines\";\n#[cfg(test)]\nmod tests { const D: &str = \"a test\"; }\n";
    assert_eq!(texts(source), [(2, "one text".to_owned()), (4, "two lines".to_owned())]);
}

#[test]
fn a_banned_word_is_found_as_a_whole_word_in_any_case() {
    assert_eq!(banned("**Whoever** asks, asks anew.").map(|(word, _)| word).collect::<Vec<_>>(), ["anew", "whoever"]);
    assert_eq!(banned("The renewal of `patience` is a name.").count(), 0);
    assert_eq!(banned("it has ended; see its log").count() + banned("the daemon's log says why").count(), 2);
    assert!(BANNED.is_sorted());
}
