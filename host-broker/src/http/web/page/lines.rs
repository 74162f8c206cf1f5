//! The lines of a card: a field and its value, so that no part of a value can stand where a field does.

use maud::{Markup, html};
use model::card::Line;
use model::hidden;
use model::hidden::{Part, Parts};

/// How many lines are one list: a browser lays out only the lists that are in sight.
const LIST: usize = 100;

/// All lines.
pub(in crate::http::web) fn all(lines: &[Line]) -> Markup {
    html! {
        @for some in lines.chunks(LIST) {
            dl.lines {
                @for Line { field, value } in some {
                    div { dt { bdi dir="ltr" { (marked(field)) } } dd { bdi dir="ltr" { (marked(value)) } } }
                }
            }
        }
    }
}

/// Returns a value with highlighted marks for invisible characters.
///
/// It begins a new line after each line break that is written out in it. Everything is there, in its order.
pub(in crate::http::web) fn marked(value: &str) -> Markup {
    rendered(hidden::parts(value))
}

/// A line of a diff, with its marks standing out.
pub(in crate::http::web) fn marked_in_diff(line: &str) -> Markup {
    rendered(hidden::parts_of_diff(line))
}

fn rendered(parts: Parts<'_>) -> Markup {
    html! {
        @for part in parts {
            @match part {
                Part::Text(text) => (text),
                Part::Break(written) => { i { (written) } "\n" },
                // The style sheet puts the name behind the mark, so that the text itself is unchanged.
                Part::Mark(mark, what) => mark data-name=[what.name()] { (mark) },
            }
        }
    }
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
        assert_eq!(
            shown("\"a<U+202E>b\""),
            "&quot;a<mark data-name=\"right-to-left override\">&lt;U+202E&gt;</mark>b&quot;"
        );
        let escape = shown(r#""a\u001b""#);
        assert_eq!(escape, "&quot;a<mark data-name=\"escape\">\\u001b</mark>&quot;");
        assert_eq!(shown("<70 spaces>"), "<mark>&lt;70 spaces&gt;</mark>");
        assert_eq!(shown("\"<script>x</script>\""), "&quot;&lt;script&gt;x&lt;/script&gt;&quot;");
        for plain in ["<U+", "<", "<U+zz>", "< spaces", "<>", "<é>", "\\"] {
            assert!(!shown(plain).contains("<mark"), "{plain}");
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
        assert_eq!(all(&[long]).into_string().matches("<mark ").count(), 75_000);
    }

    proptest! {
        #[test]
        fn shown_values_are_complete_and_make_no_markup(
            value in prop_oneof![".{0,40}", "\"?(<U\\+[0-9A-F]{0,5}>|<[0-9]{0,3} spaces>|\\\\n|\\\\|<b>|&|x){0,12}\"?"],
        ) {
            let page = shown(&value);
            // Names of characters have no signs of markup.
            let unnamed = page.split(" data-name=\"").enumerate().fold(String::new(), |out, (place, piece)| {
                out + if place == 0 { piece } else { piece.split_once('"').map_or("", |(_, rest)| rest) }
            });
            let bare = ["<mark>", "</mark>", "<i>", "</i>"].iter().fold(unnamed, |page, tag| page.replace(tag, ""));
            prop_assert!(!bare.contains(['<', '>', '"']), "{}", bare);
            let seen = bare.replace("\\n\n", "\\n").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            prop_assert_eq!(seen.replace("&amp;", "&"), value.replace("\\n\n", "\\n"));
        }
    }
}
