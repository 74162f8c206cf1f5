//! Names and hashes, folded away below the subject of the decision.

use super::lines;
use maud::{Markup, html};
use model::approval::Approval;
use model::card::{Card, Line};

/// Checks whether the broker's line is a name by which a machine finds something.
pub(super) fn is_id(line: &Line) -> bool {
    matches!(line.field.as_str(), "Proposal" | "Idempotency key")
}

/// Checks whether the value is a hash: at least 32 hexadecimal digits, perhaps with its kind before and a file mode
/// behind.
pub(super) fn is_hash(line: &Line) -> bool {
    let value = line.value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(&line.value);
    let (hash, mode) = value.split_once(' ').unwrap_or((value, "(0)"));
    let mode = mode.strip_prefix('(').and_then(|mode| mode.strip_suffix(')')).unwrap_or("x");
    let hash = hash.strip_prefix("sha256:").unwrap_or(hash);
    hash.len() >= 32
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        && mode.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the folded part of an approval request.
pub(super) fn all(approval: &Approval, card: Option<&Card>) -> Markup {
    let line = |field: &str, value: String| Line { field: field.to_owned(), value };
    let mut names = vec![line("Approval request", approval.reference()), line("Digest", approval.digest.to_string())];
    names.extend(card.iter().flat_map(|card| &card.head).filter(|line| is_id(line)).cloned());
    let hashes: Vec<Line> =
        card.iter().flat_map(|card| &card.conditions).filter(|line| is_hash(line)).cloned().collect();
    html! {
        details.folded {
            summary { "Names and hashes" }
            (lines::all(&names))
            @if !hashes.is_empty() {
                h3 { "Only while these are unchanged" }
                (lines::all(&hashes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_form_of_a_hash_is_folded_away() {
        let is = |value: &str| is_hash(&Line { field: "a".into(), value: value.into() });
        let hash = "0123456789abcdef".repeat(4);
        for value in [format!("\"sha256:{hash} (644)\""), format!("\"{hash}\""), format!("\"{}\"", "a1".repeat(20))] {
            assert!(is(&value), "{value}");
        }
        for value in ["\"absent\"", "\"main\"", "\"abc123\"", "1", "\"\"", &format!("\"{hash} (rm -rf)\"")] {
            assert!(!is(value), "{value}");
        }
    }
}
