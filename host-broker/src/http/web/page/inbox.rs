//! The inbox.

use super::{apart, by, frame, left, lines, seen, time};
use crate::approvals::Approval;
use crate::http::web::desk::{Listed, Waiting};
use crate::http::web::sessions::Visitor;
use maud::{Markup, html};
use shared::{Code, Timestamp};

/// The page.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, found: &Waiting) -> Markup {
    let content = html! {
        div #live data-fragment="/fragment" { (fragment(now, found)) }
        p.keys { "Keys: " kbd { "j" } " next, " kbd { "k" } " previous, " kbd { "Enter" } " opens" }
    };
    let title = match found.mine.len() {
        0 => "Inbox".to_owned(),
        waiting => format!("({waiting}) Inbox"),
    };
    frame(&title, Some(visitor), now, &content)
}

/// The part that renews itself.
pub(in crate::http::web) fn fragment(now: Timestamp, found: &Waiting) -> Markup {
    html! {
        section aria-labelledby="waiting" data-waiting=(found.mine.len()) {
            h1 #waiting { (count(found.mine.len())) }
            @if found.mine.is_empty() {
                p.none { "When an agent's call needs your yes, it appears here by itself." }
            }
            @if !found.mine.is_empty() {
                ol.questions { @for listed in &found.mine { li { (question(now, listed)) } } }
            }
            @match found.elsewhere {
                0 => {}
                1 => p.elsewhere { "1 question waits for other people." },
                more => p.elsewhere { (more) " questions wait for other people." },
            }
        }
        @if !found.over.is_empty() {
            section.over aria-labelledby="over" {
                h2 #over { "Latest" }
                ul { @for listed in &found.over { li { (over(listed)) } } }
            }
        }
    }
}

fn count(waiting: usize) -> String {
    match waiting {
        0 => "Nothing waits for you".to_owned(),
        1 => "1 question waits for you".to_owned(),
        more => format!("{more} questions wait for you"),
    }
}

fn question(now: Timestamp, Listed { approval, answers }: &Listed) -> Markup {
    let reference = approval.reference();
    html! {
        article.question {
            h2 { a #{ "open-" (reference) } href={ "/approvals/" (reference) } { (name(approval)) } }
            p.meta {
                (left(approval.expires_at, now))
                span.until { "until " (time(approval.expires_at)) }
                @if approval.quorum > 1 {
                    span { (answers.iter().filter(|answer| answer.yes).count()) " of " (approval.quorum) " yes" }
                }
            }
            @if let Some(card) = &approval.card {
                (lines::all(&card.head))
                @for reason in &card.reasons { p.why { (seen(reason)) } }
            }
        }
    }
}

/// `provider.action`
pub(super) fn name(approval: &Approval) -> Markup {
    apart(&format!("{}.{}", approval.provider, approval.action))
}

fn over(Listed { approval, answers }: &Listed) -> Markup {
    html! {
        a href={ "/approvals/" (approval.reference()) } { (name(approval)) }
        " " (ended(approval))
        @if let Some(last) = answers.last() { " " span.by { (by(&last.by)) ", " (time(last.at)) } }
        @else { " " span.by { "asked " (time(approval.asked_at)) } }
    }
}

/// How it ended, in words.
pub(super) fn ended(approval: &Approval) -> Markup {
    let became = approval.became.as_deref().unwrap_or(approval.state.word());
    let (words, class) = match became {
        "spent" => ("approved, and started", "yes"),
        "approval_denied" => ("denied", "no"),
        "approval_expired" => ("nobody answered in time", "silence"),
        other => (other.parse::<Code>().ok().map_or(other, |code| code.meaning()), "silence"),
    };
    html! { span.ended.(class) { (words) } }
}
