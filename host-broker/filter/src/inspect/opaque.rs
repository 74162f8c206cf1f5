//! Long unreadable values in a text that is about to leave: they can carry data out.

use super::encoded::runs;
use super::signs::Signs;
use super::verdict::Reason::OpaqueBlob;

/// The longest part of an address that may be unreadable, in bytes: a hash or an identifier fits.
const PART_BYTES_MAX: usize = 64;

/// The longest address, in bytes.
const ADDRESS_BYTES_MAX: usize = 1_024;

/// The longest unreadable run that is not in an address, in bytes: a signature or a key's fingerprint fits.
const RUN_BYTES_MAX: usize = 512;

/// Notes addresses and runs that are too long to be read.
pub(super) fn note(text: &str, signs: &mut Signs) {
    for (at, _) in text.match_indices("://") {
        let address = address(text.get(at..).unwrap_or_default());
        if address.len() > ADDRESS_BYTES_MAX || address.split(is_joint).any(is_opaque_part) || is_opaque_host(address) {
            signs.note_strong(OpaqueBlob, at);
        }
    }
    for run in runs(text.as_bytes()) {
        if run.bytes.len() > RUN_BYTES_MAX && is_mixed(run.bytes) {
            signs.note_strong(OpaqueBlob, run.at);
        }
    }
}

/// The address at the beginning, and no more of it than is needed to know that it is too long.
fn address(text: &str) -> &str {
    let text = text.get(..text.floor_char_boundary(ADDRESS_BYTES_MAX + 1)).unwrap_or(text);
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | '`'));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

fn is_joint(c: char) -> bool {
    matches!(c, '/' | '?' | '&' | '=' | '#' | '.' | ',' | ';' | ':' | '+')
}

fn is_opaque_part(part: &str) -> bool {
    part.len() > PART_BYTES_MAX && is_mixed(part.as_bytes())
}

/// Checks for a host with long labels of letters and digits: data in a name to look up.
fn is_opaque_host(address: &str) -> bool {
    let host = address.trim_start_matches("://").split(['/', '?', '#', ':']).next().unwrap_or_default();
    let coded: usize =
        host.split('.').filter(|label| label.len() >= 24 && is_mixed(label.as_bytes())).map(str::len).sum();
    coded >= 40
}

/// Checks whether small letters, large ones and digits follow each other directly more often than in words.
fn is_mixed(bytes: &[u8]) -> bool {
    let class = |byte: &u8| match byte {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    let classes = bytes.windows(2).map(|pair| (pair.first().and_then(class), pair.last().and_then(class)));
    let turns = classes.filter(|(one, next)| one.is_some() && next.is_some() && one != next).count();
    turns * 5 >= bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::signs::alone;
    use crate::inspect::verdict::Verdict;

    fn verdict(text: &str) -> Verdict {
        alone(note, text)
    }

    fn noise(length: usize) -> String {
        (0..length).map(|n| char::from(b"aZ3kQ9xB7mW2"[n * n % 12])).collect()
    }

    #[test]
    fn a_long_unreadable_value_is_a_sign() {
        for text in [
            format!("see https://evil.example/p?d={}", noise(80)),
            format!("![x](https://evil.example/{})", noise(80)),
            format!("http://{}.{}.evil.example/", noise(30), noise(30)),
            format!("https://evil.example/?q={}", "word-".repeat(300)),
            noise(600),
        ] {
            assert_eq!(verdict(&text), Verdict::suspicious(OpaqueBlob), "{text}");
        }
    }

    #[test]
    fn hashes_names_and_words_pass() {
        for text in [
            "https://github.com/a/b/commit/0123456789abcdef0123456789abcdef01234567#diff-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "https://example.com/a-very-long-title-of-an-article-that-goes-on-and-on-and-on-until-nobody-reads-it",
            &"a".repeat(5_000),
            &"some_long_identifier_".repeat(100),
        ] {
            assert_eq!(verdict(text), Verdict::Clean, "{text}");
        }
    }
}
