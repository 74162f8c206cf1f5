//! Documents and help texts use the words of the glossary.

use super::pages;

/// Words that no page contains, each with the word to use instead.
const BANNED: [(&str, &str); 22] = [
    ("agent outside", "external agent"),
    ("agents outside", "external agents"),
    ("anew", "again, or a more exact verb"),
    ("at hand", "available"),
    ("clerk", "dispatcher"),
    ("comes to light", "is disclosed"),
    ("courier", "notice sender"),
    ("deputy", "inspection"),
    ("for ever", "permanently"),
    ("hand over", "pass"),
    ("in vain", "without effect"),
    ("is had", "an active verb"),
    ("is over", "has ended, or has expired"),
    ("mailroom", "mailboxes"),
    ("nobody knows", "unknown"),
    ("patience", "timeout"),
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

#[test]
fn a_banned_word_is_found_as_a_whole_word_in_any_case() {
    assert_eq!(banned("**Whoever** asks, asks anew.").map(|(word, _)| word).collect::<Vec<_>>(), ["anew", "whoever"]);
    assert_eq!(banned("The renewal of `patience` is a name.").count(), 0);
    assert!(BANNED.is_sorted());
}
