//! A page that says one thing.

use super::frame;
use crate::http::web::sessions::Visitor;
use maud::{Markup, html};
use shared::Timestamp;

/// The page.
pub(in crate::http::web) fn page(visitor: Option<&Visitor>, now: Timestamp, title: &str, words: &str) -> Markup {
    let content = html! {
        section.result.silence {
            h1 { (title) }
            p #result role="status" { (words) }
        }
        p.ways { a #up href="/" { "← Inbox" } }
    };
    frame(title, visitor, now, &content)
}
