//! A diff: before and after side by side, on a narrow screen one below the other.

use super::lines::marked_in_diff;
use crate::http::web::diff::{Line, Part, side_by_side};
use maud::{Markup, html};

/// The whole diff.
pub(in crate::http::web) fn all(diff: &str) -> Markup {
    html! {
        div.diff {
            @for part in side_by_side(diff) {
                @match part {
                    Part::Head(lines) => {
                        div.files dir="ltr" { @for line in lines { div { (marked_in_diff(line)) } } }
                    }
                    Part::Place(line) => { div.place dir="ltr" { (marked_in_diff(line)) } }
                    Part::Same(lines) => {
                        div.pair {
                            div.old dir="ltr" { @for line in &lines { div data-n=(line.old) { (marked_in_diff(line.text)) } } }
                            // For the eye; it says the same.
                            div.new.again dir="ltr" aria-hidden="true" {
                                @for line in &lines { div data-n=(line.new) { (marked_in_diff(line.text)) } }
                            }
                        }
                    }
                    Part::Changed { old, new } => {
                        div.pair {
                            div.old dir="ltr" { @for line in &old { (changed(line, true)) } }
                            div.new dir="ltr" { @for line in &new { (changed(line, false)) } }
                        }
                    }
                }
            }
        }
    }
}

fn changed(line: &Line<'_>, goes: bool) -> Markup {
    html! {
        @match line.number {
            Some(number) if goes => del data-n=(number) { (marked_in_diff(line.text)) },
            Some(number) => ins data-n=(number) { (marked_in_diff(line.text)) },
            None => div.note { (marked_in_diff(line.text)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_are_escaped_and_every_one_is_there() {
        let text = "--- a/<b>\n+++ b/<b>\n@@ -1,2 +1,2 @@\n-<script>alert(1)</script>\n+</del><ins>\n <!-- same -->\n";
        let page = all(text).into_string();
        assert!(!page.contains("<script>") && !page.contains("<!--"), "{page}");
        assert!(page.contains("&lt;/del&gt;&lt;ins&gt;") && page.contains("a/&lt;b&gt;"));
        let hides = all("@@ -1 +1 @@\n-a<U+202E>b\n+<12 spaces>\n").into_string();
        assert!(hides.contains("a<mark data-name=\"right-to-left override\">&lt;U+202E&gt;</mark>b"), "{hides}");
        assert_eq!(hides.matches("<mark").count(), 1);
        let many = "@@ -1,80000 +1,80000 @@\n".to_owned() + &"-a\n+b\n".repeat(80_000);
        assert_eq!(all(&many).into_string().matches("<ins").count(), 80_000);
    }
}
