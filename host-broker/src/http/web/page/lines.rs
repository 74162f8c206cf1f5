//! The lines of a card: a field and its value, so that no part of a value can stand where a field does.

use crate::approvals::card::Line;
use maud::{Escaper, Markup, PreEscaped, html};
use std::fmt::Write as _;

/// How many lines are one list: a browser lays out only the lists that are in sight.
const LIST: usize = 100;

/// All lines.
pub(in crate::http::web) fn all(lines: &[Line]) -> Markup {
    html! {
        @for some in lines.chunks(LIST) {
            dl.lines {
                @for Line { field, value } in some {
                    div { dt { bdi dir="ltr" { (field) } } dd { bdi dir="ltr" { (marked(value)) } } }
                }
            }
        }
    }
}

/// A value, with the marks of what could not be seen standing out, and with a new line after each line break that is
/// written out in it. Everything is there, in its order.
pub(in crate::http::web) fn marked(value: &str) -> Markup {
    let mut out = String::with_capacity(value.len() + 16);
    let is_text = value.starts_with('"');
    let mut rest = value;
    while let Some(at) = rest.find(['<', '\\']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        escape(&mut out, before);
        let length = mark(from);
        if length > 0 {
            let (mark, after) = from.split_at_checked(length).unwrap_or((from, ""));
            out.push_str("<mark>");
            escape(&mut out, mark);
            out.push_str("</mark>");
            rest = after;
        } else if let Some(after) = from.strip_prefix("\\n").filter(|_| is_text) {
            out.push_str("<i>\\n</i>\n");
            rest = after;
        } else {
            // A backslash and what it stands before are one.
            let length = if from.starts_with('\\') { from.chars().take(2).map(char::len_utf8).sum() } else { 1 };
            let (one, after) = from.split_at_checked(length).unwrap_or((from, ""));
            escape(&mut out, one);
            rest = after;
        }
    }
    escape(&mut out, rest);
    PreEscaped(out)
}

fn escape(out: &mut String, text: &str) {
    // Writing to a string does not fail.
    Escaper::new(out).write_str(text).ok();
}

/// The length of the mark at the beginning, `<U+202E>` or `<12 spaces>`; 0 if there is none. A value cannot hold one
/// itself: its `<` is written as a mark then.
fn mark(text: &str) -> usize {
    let Some(end) = text.bytes().take(24).position(|byte| byte == b'>') else { return 0 };
    let inner = text.get(1..end).unwrap_or_default();
    let is_code = inner.strip_prefix("U+").is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let is_gap = inner.strip_suffix(" spaces").is_some_and(|n| n.bytes().all(|digit| digit.is_ascii_digit()));
    if text.starts_with('<') && (is_code || is_gap) { end + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(value: &str) -> String {
        marked(value).into_string()
    }

    #[test]
    fn marks_stand_out_and_the_rest_is_escaped() {
        assert_eq!(shown("\"a<U+202E>b\""), "&quot;a<mark>&lt;U+202E&gt;</mark>b&quot;");
        assert_eq!(shown("<70 spaces>"), "<mark>&lt;70 spaces&gt;</mark>");
        assert_eq!(shown("\"<script>x</script>\""), "&quot;&lt;script&gt;x&lt;/script&gt;&quot;");
        for plain in ["<U+", "<", "<U+zz>", "< spaces", "<>", "<é>", "\\"] {
            assert!(!shown(plain).contains("<mark>"), "{plain}");
        }
    }

    #[test]
    fn a_written_line_break_begins_a_line_and_an_escaped_backslash_does_not() {
        assert_eq!(shown(r#""a\nb""#), "&quot;a<i>\\n</i>\nb&quot;");
        assert_eq!(shown(r#""a\\nb""#), "&quot;a\\\\nb&quot;");
        assert_eq!(shown(r#""a\\\nb\"<i>""#), "&quot;a\\\\<i>\\n</i>\nb\\&quot;&lt;i&gt;&quot;");
        assert_eq!(shown(r"a\nb"), "a\\nb", "a word of the broker's own");
        assert_eq!(shown("\"\\é\\"), "&quot;\\é\\");
    }

    #[test]
    fn the_longest_card_is_rendered_whole() {
        let line = Line { field: "a".into(), value: "1".into() };
        let many = vec![line; 150_000];
        let page = all(&many).into_string();
        assert_eq!(page.matches("<dt>").count(), 150_000);
        let long = Line { field: "body".into(), value: format!("\"{}\"", "<U+202E>\\n".repeat(75_000)) };
        assert_eq!(all(&[long]).into_string().matches("<mark>").count(), 75_000);
    }

    proptest! {
        #[test]
        fn what_a_reader_sees_is_the_value_and_no_markup_is_made_of_it(
            value in prop_oneof![".{0,40}", "\"?(<U\\+[0-9A-F]{0,5}>|<[0-9]{0,3} spaces>|\\\\n|\\\\|<b>|&|x){0,12}\"?"],
        ) {
            let page = shown(&value);
            let bare = ["<mark>", "</mark>", "<i>", "</i>"].iter().fold(page, |page, tag| page.replace(tag, ""));
            prop_assert!(!bare.contains(['<', '>', '"']), "{}", bare);
            let seen = bare.replace("\\n\n", "\\n").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            prop_assert_eq!(seen.replace("&amp;", "&"), value.replace("\\n\n", "\\n"));
        }
    }
}
