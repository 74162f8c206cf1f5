//! The strings and keys of a JSON value, one by one and the seams between them.
//!
//! A text can be split over neighbouring strings. So the end of one and the beginning of the next are read together, in
//! the likely orders of a reader. Only the ends are: a long text is not read several times.

use serde_json::Value;

/// How much of either end of a string takes part in a seam, in bytes.
const END_BYTES: usize = 160;

/// One string or key.
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    is_key: bool,
    /// The key under which it lies, passing over arrays.
    under: &'a str,
}

/// Every string and key, in the order of the document.
pub(super) fn pieces(value: &Value) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    collect(value, "", &mut pieces);
    pieces
}

fn collect<'a>(value: &'a Value, under: &'a str, pieces: &mut Vec<Piece<'a>>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => pieces.push(Piece { text, is_key: false, under }),
        Value::Array(items) => items.iter().for_each(|item| collect(item, under, pieces)),
        Value::Object(entries) => {
            for (key, item) in entries {
                pieces.push(Piece { text: key, is_key: true, under });
                collect(item, key, pieces);
            }
        }
    }
}

/// The seams as texts: all pieces in their order, strings without keys, and the strings of the same key together.
pub(super) fn seams(pieces: &[Piece<'_>]) -> Vec<String> {
    if pieces.len() < 2 {
        return Vec::new();
    }
    let texts: Vec<&Piece<'_>> = pieces.iter().filter(|piece| !piece.is_key).collect();
    let mut columns = texts.clone();
    columns.sort_by_key(|piece| piece.under);
    let all = joined(pieces.iter());
    let mut seams = vec![all];
    for order in [texts, columns] {
        let seam = joined(order.into_iter());
        if !seams.contains(&seam) {
            seams.push(seam);
        }
    }
    seams
}

fn joined<'a>(pieces: impl Iterator<Item = &'a Piece<'a>>) -> String {
    let mut text = String::new();
    for piece in pieces {
        let (head, tail) = ends(piece.text);
        text.push_str(head);
        if !tail.is_empty() {
            // An omission must not join the texts on its two sides.
            text.push_str(" \u{2026} x \u{2026} ");
            text.push_str(tail);
        }
        text.push('\n');
    }
    text
}

/// Both ends of a long text; the whole of a short one.
fn ends(text: &str) -> (&str, &str) {
    if text.len() <= 2 * END_BYTES {
        return (text, "");
    }
    let head = text.floor_char_boundary(END_BYTES);
    let tail = text.ceil_char_boundary(text.len() - END_BYTES);
    (text.get(..head).unwrap_or(text), text.get(tail..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn seams_follow_the_document_the_strings_and_the_columns() {
        let value = json!([{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]);
        assert_eq!(seams(&pieces(&value)), ["a\n1\nb\n2\na\n3\nb\n4\n", "1\n2\n3\n4\n", "1\n3\n2\n4\n"]);
        assert_eq!(seams(&pieces(&json!(["x", "y"]))), ["x\ny\n"]);
        assert_eq!(seams(&pieces(&json!("alone"))), Vec::<String>::new());
    }

    #[test]
    fn of_a_long_string_both_ends_are_kept() {
        let long = format!("{}é{}", "a".repeat(159), "b".repeat(500));
        let seam = seams(&pieces(&json!([long, "c"]))).remove(0);
        assert_eq!(seam, format!("{} \u{2026} x \u{2026} {}\nc\n", "a".repeat(159), "b".repeat(160)));
    }
}
