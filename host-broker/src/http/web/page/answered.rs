//! What became of an answer.

use super::inbox::name;
use super::{frame, seen};
use crate::approvals::Approval;
use crate::http::web::answering::Came;
use crate::http::web::sessions::Visitor;
use maud::{Markup, html};
use shared::Timestamp;

/// The page. Loaded again it answers again, which changes nothing.
pub(in crate::http::web) fn page(
    visitor: &Visitor,
    now: Timestamp,
    approval: &Approval,
    yes: bool,
    came: &Came,
) -> Markup {
    let (title, words, class) = match came {
        Came::Counted(words) if yes => ("You said yes", words, "yes"),
        Came::Counted(words) => ("You said no", words, "no"),
        Came::Refused(words) => ("Your answer does not count", words, "silence"),
        Came::Unknown(words) => ("It is not known whether your answer counts", words, "silence"),
    };
    let reference = approval.reference();
    let content = html! {
        section.result.(class) {
            h1 { (title) }
            @if !words.contains(approval.action.as_str()) { p { (name(approval)) } }
            p #result role="status" { (seen(words)) }
            @if matches!(came, Came::Refused(_)) { p { "Nothing was changed." } }
        }
        div #live data-fragment={ "/approvals/" (reference) "/standing" } data-stays {}
        p.ways { a #up href="/" { "← Inbox" } " " a href={ "/approvals/" (reference) } { "Look at it again" } }
    };
    frame(title, Some(visitor), now, &content)
}
