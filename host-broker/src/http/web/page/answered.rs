//! The result of an answer, and the next pending approval requests.

use super::approval::live;
use super::inbox::name;
use super::{frame, seen};
use crate::http::web::decide::FormOutcome;
use crate::http::web::read_pool::Listed;
use crate::http::web::sessions::Visitor;
use maud::{Markup, html};
use model::approval::ApprovalState;
use shared::Timestamp;

/// The answered approval request, and its present state.
pub(in crate::http::web) struct Answered<'a> {
    /// The approval request, and its outcome.
    pub(in crate::http::web) listed: &'a Listed,
    /// Whether the answer was an approval.
    pub(in crate::http::web) yes: bool,
    /// The broker's response to the answer.
    pub(in crate::http::web) came: &'a FormOutcome,
    /// The person's other pending approval requests, oldest first.
    pub(in crate::http::web) waiting: &'a [Listed],
}

/// The page. Loaded again it answers again, which changes nothing.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, answered: &Answered<'_>) -> Markup {
    let Answered { listed, yes, came, waiting } = answered;
    let approval = &listed.record.approval;
    let (title, words, class) = match came {
        FormOutcome::Counted(words) if *yes && approval.state == ApprovalState::Waiting => {
            ("You said yes; others must agree", words, "yes")
        }
        FormOutcome::Counted(words) if *yes => ("You said yes: approved", words, "yes"),
        FormOutcome::Counted(words) => ("You denied it", words, "no"),
        FormOutcome::Refused(words) => ("Your answer does not count", words, "silence"),
        FormOutcome::Unknown(words) => ("It is not known whether your answer counts", words, "silence"),
    };
    let content = html! {
        section.result.(class) {
            h1 { (title) }
            @if !words.contains(approval.action.as_str()) { p { (name(approval)) } }
            p #result role="status" { (seen(words)) }
            @if matches!(came, FormOutcome::Refused(_)) { p { "Nothing was changed." } }
        }
        (live(now, listed, true))
        (ways(&listed.path(), waiting))
    };
    frame(title, Some(visitor), now, &content)
}

fn ways(path: &str, waiting: &[Listed]) -> Markup {
    html! {
        @match waiting.first() {
            Some(next) => {
                p.next {
                    a #next.button href=(next.path()) { "Next approval request: " (name(&next.record.approval)) }
                    " " span.by { (waiting.len()) @if waiting.len() == 1 { " approval request waits for you." } @else { " approval requests wait for you." } }
                }
            }
            None => p.none { "Nothing else waits for you." },
        }
        p.ways { a #up href="/" { "← Inbox" } " " a href=(path) { "Look at it again" } }
    }
}
