//! The inbox.

use super::{age, apart, by, folded, frame, left, lines, moment, outcome, reasons, seen, stakes};
use crate::control::approvals::ApprovalRecord;
use crate::http::web::read_pool::{Listed, Waiting};
use crate::http::web::sessions::Visitor;
use maud::{Markup, html};
use model::approval::{Approval, SubjectKind};
use model::card::{Card, Line};
use shared::{Code, Level, Timestamp};

/// The page.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, found: &Waiting) -> Markup {
    let content = html! {
        div #live data-fragment="/fragment" { (fragment(now, found)) }
        p.ways { a href="/standing-approvals" { "Standing approvals" } }
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
                p.none { "When an agent's call needs your approval, it appears here by itself." }
            }
            @if !found.mine.is_empty() {
                ol.questions { @for listed in &found.mine { li { (question(now, listed)) } } }
            }
            @match found.elsewhere {
                0 => {}
                1 => p.elsewhere { "1 approval request waits for other people." },
                more => p.elsewhere { (more) " approval requests wait for other people." },
            }
            @for (host, reason) in &found.silent {
                p.elsewhere { "The host " (host) " gives no approval requests: " (seen(reason)) }
            }
        }
        @if !found.over.is_empty() {
            section.over aria-labelledby="over" {
                h2 #over { "Latest" }
                ul { @for listed in &found.over { li { (over(now, listed)) } } }
            }
        }
    }
}

/// Returns the caller and its purpose, without the text above it and without ids.
fn asker(card: &Card) -> Vec<Line> {
    let head = card.head.iter().filter(|line| !matches!(line.field.as_str(), "Action" | "Level" | "Note"));
    head.filter(|line| !folded::is_id(line)).cloned().collect()
}

/// The number of an approval request's values in the list.
const VALUES: usize = 6;
/// How many characters a value has that is shown before longer ones.
const SHORT: usize = 60;
/// How many characters the list shows of one value.
const VALUE_CHARS: usize = 120;

/// Returns the values that distinguish approval requests: short ones first, long ones cut.
///
/// The page of the approval request has all of them.
fn values(params: &[Line]) -> Markup {
    let mut chosen: Vec<&Line> = params.iter().collect();
    chosen.sort_by_key(|line| line.value.chars().count() > SHORT);
    let more = chosen.len() > VALUES;
    chosen.truncate(VALUES);
    let cut = |line: &&Line| {
        let mut value: String = line.value.chars().take(VALUE_CHARS).collect();
        if value.len() < line.value.len() {
            value.push('…');
        }
        Line { field: line.field.clone(), value }
    };
    let chosen: Vec<Line> = chosen.iter().map(cut).collect();
    html! {
        @if !chosen.is_empty() { div.values { (lines::all(&chosen)) } }
        @if more { p.more { "There are more values on its page." } }
    }
}

fn count(waiting: usize) -> String {
    match waiting {
        0 => "Nothing waits for you".to_owned(),
        1 => "1 approval request waits for you".to_owned(),
        more => format!("{more} approval requests wait for you"),
    }
}

fn question(now: Timestamp, listed: &Listed) -> Markup {
    let ApprovalRecord { approval, answers, .. } = &listed.record;
    let of_host = listed.host.as_ref().map_or_else(String::new, |host| format!("{host}-"));
    let id = format!("open-{of_host}{}", approval.reference());
    html! {
        article.question.grave[approval.level >= Level::Production] {
            (stakes(approval.level))
            h2 { a #(id) href=(listed.path()) { (name(approval)) } }
            p.meta {
                (names(approval))
                @if let Some(host) = &listed.host { span.host { "on " (host) } }
                (left(approval.expires_at, now))
                span { "asked " (age(approval.asked_at, now)) }
                span.level { (approval.level) }
                @if approval.quorum > 1 {
                    span { (answers.iter().filter(|answer| answer.yes).count()) " of " (approval.quorum) " yes" }
                }
            }
            @if let Some(card) = &approval.card {
                (lines::all(&asker(card)))
                // The changes of a grant, a flow or a definition are too long for the list.
                @if matches!(approval.kind, SubjectKind::Call | SubjectKind::Account | SubjectKind::Plan) { (values(&card.params)) }
                (reasons::short(card))
            }
        }
    }
}

/// The code and the name of the request, as in notices and at the command line: `k7f3qd (ask-9)`.
pub(super) fn names(approval: &Approval) -> Markup {
    html! { span.names { code { (approval.code) } " (" code { (approval.reference()) } ")" } }
}

/// `provider.action`
pub(super) fn name(approval: &Approval) -> Markup {
    apart(&format!("{}.{}", approval.provider, approval.action))
}

fn over(now: Timestamp, listed: &Listed) -> Markup {
    let ApprovalRecord { approval, answers, outcome, .. } = &listed.record;
    html! {
        a href=(listed.path()) { (name(approval)) }
        " " span.by { (names(approval)) } " " (ended(approval))
        @if let Some(outcome) = outcome { ": " (outcome::words(outcome)) }
        @if let Some(last) = answers.last() { " " span.by { (by(&last.by)) ", " (moment(last.at, now)) } }
        @else { " " span.by { "asked " (moment(approval.asked_at, now)) } }
    }
}

/// How it ended, in words.
pub(super) fn ended(approval: &Approval) -> Markup {
    let became = approval.became.as_deref().unwrap_or(approval.state.word());
    let (words, class) = match became {
        "spent" => ("approved, and started", "yes"),
        "approval_denied" => ("denied", "no"),
        "approval_expired" => ("expired without an answer", "silence"),
        other => (other.parse::<Code>().ok().map_or(other, |code| code.meaning()), "silence"),
    };
    html! { span.ended.(class) { (words) } }
}
