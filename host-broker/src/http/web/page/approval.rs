//! One approval request: everything that will run, field by field, and the two buttons.

use super::inbox::{ended, name};
use super::{by, folded, frame, left, lines, moment, outcome, reasons, seen, sides, stakes, time};
use crate::control::approvals::ApprovalRecord;
use crate::http::web::decide::SESSION_S;
use crate::http::web::read_pool::{Listed, waits};
use crate::http::web::sessions::Visitor;
use engine::approval_subjects;
use maud::{Markup, html};
use model::approval::{Answered, Approval, ApprovalReason, ApprovalState, SubjectKind};
use model::card::{Card, Line};
use model::hidden::Count;
use shared::{Level, Timestamp};
use std::collections::BTreeSet;

/// The page. `longest` is the longest time of a standing approval, in seconds.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, listed: &Listed, longest: u64) -> Markup {
    let approval = &listed.record.approval;
    let reference = approval.reference();
    let content = html! {
        nav { a #up href="/" { "← Inbox" } }
        (stakes(approval.level))
        h1 { (name(approval)) }
        p.meta {
            code { (approval.code) }
            @if let Some(host) = &listed.host { span.host { "on " (host) } }
        }
        (live(now, listed, false))
        @match &approval.card {
            Some(card) => (shown(approval, card)),
            None => p.none { "The request is no longer stored." },
        }
        (folded::all(approval, approval.card.as_ref()))
        @if waits(approval, now) { (buttons(visitor, listed, longest)) }
    };
    frame(&format!("{reference} {}.{}", approval.provider, approval.action), Some(visitor), now, &content)
}

/// Returns the part that renews itself.
///
/// When the approval request is over, the page is loaded again, unless it is to stay.
pub(super) fn live(now: Timestamp, listed: &Listed, stays: bool) -> Markup {
    html! {
        div #live data-fragment={ (listed.path()) "/standing" } data-stays[stays] {
            (standing(now, listed))
        }
    }
}

/// Where it stands, and who has answered.
pub(in crate::http::web) fn standing(now: Timestamp, listed: &Listed) -> Markup {
    let ApprovalRecord { approval, answers, outcome, .. } = &listed.record;
    let open = waits(approval, now);
    html! {
        section.standing aria-label="Where it stands" data-state=(if open { "waiting" } else { "over" }) {
            p.meta {
                @if open {
                    (left(approval.expires_at, now))
                    span.until { "until " (time(approval.expires_at)) }
                } @else if approval.state == ApprovalState::Waiting {
                    span.ended.silence { "expired without an answer" }
                } @else {
                    (ended(approval))
                }
                span { "asked " (moment(approval.asked_at, now)) }
            }
            @if let Some(outcome) = outcome { p #outcome { "Outcome: " (outcome::words(outcome)) "." } }
            @if approval.quorum > 1 {
                p.quorum {
                    (answers.iter().filter(|answer| answer.yes).count()) " of " (approval.quorum)
                    " different people have said yes."
                }
            }
            @if !answers.is_empty() { ul.answers { @for answer in answers { li { (said(answer, now)) } } } }
        }
    }
}

fn said(answer: &Answered, now: Timestamp) -> Markup {
    html! {
        (by(&answer.by)) " said " strong { (if answer.yes { "yes" } else { "no" }) }
        " by " (answer.channel) ", " (moment(answer.at, now))
        @if let Some(reason) = &answer.reason { ": " q { (seen(reason)) } }
    }
}

/// The warning above a card that has hidden characters.
fn warning(card: &Card) -> Markup {
    let count = Count::of(card);
    html! {
        @match count.all() {
            0 => {}
            all => {
                section.warning role="note" {
                    strong { (all) @if all == 1 { " hidden or misleading character" } @else { " hidden or misleading characters" } }
                    p { "Each is written out and highlighted below: " (count.to_string()) "." }
                }
            }
        }
    }
}

fn shown(approval: &Approval, card: &Card) -> Markup {
    let (kind, texts) = (approval.kind, approval_subjects::of(approval.kind).page());
    let head: Vec<Line> = card.head.iter().filter(|line| !folded::is_id(line)).cloned().collect();
    let conditions: Vec<Line> = card.conditions.iter().filter(|line| !folded::is_hash(line)).cloned().collect();
    html! {
        (warning(card))
        section.card.grave[approval.level >= Level::Production] aria-label="Who asks" { (lines::all(&head)) }
        @if !card.reasons.is_empty() {
            section.card {
                h2 { "Why you are asked" }
                (reasons::all(card))
            }
        }
        @if card.diff.is_none() || !card.params.is_empty() {
            section.card.grave[approval.level >= Level::Production] {
                h2 { (texts.heading) }
                @if card.params.is_empty() { p.none { (texts.no_values) } }
                @match sides::rows(kind, &card.params) {
                    Some(rows) => (sides::all(&rows)),
                    None => (lines::all(&card.params)),
                }
            }
        }
        @if !conditions.is_empty() {
            section.card { h2 { "Only while this holds" } (lines::all(&conditions)) }
        }
        @if !card.sent.is_empty() {
            section.card { h2 { "Request to be sent" } (lines::all(&card.sent)) }
        }
        @if let Some(diff) = &card.diff {
            section.card.wide { h2 { "Changes" } (super::diff::all(diff)) }
        }
    }
}

/// The times for which a person can approve later calls.
const TIMES: [(&str, u64, &str); 6] = [
    ("", 0, "This call alone"),
    ("session", SESSION_S, "Until the session ends, at most a day"),
    ("3600", 3_600, "1 hour"),
    ("28800", 28_800, "8 hours"),
    ("86400", 86_400, "1 day"),
    ("2592000", 2_592_000, "30 days"),
];

/// The scope of a standing approval.
fn later(approval: &Approval, vary: &BTreeSet<String>, longest: u64) -> Markup {
    html! {
        details.later {
            summary { "Approve later calls like it, too" }
            p {
                @if vary.is_empty() { "They must have the same parameters." }
                @else {
                    "They must have the same parameters, except "
                    @for (index, name) in vary.iter().enumerate() { @if index > 0 { ", " } code { (seen(name)) } }
                    "."
                }
            }
            label for="standing" { "For how long?" }
            select #standing name="standing" {
                @for (value, seconds, words) in TIMES {
                    @if seconds <= longest { option value=(value) { (words) } }
                }
            }
            @if !vary.is_empty() {
                label for="fixed" { "Names of those that must stay the same, too" }
                textarea #fixed name="fixed" rows="1" maxlength="500" placeholder="optional" {}
            }
            @if approval.level >= Level::Production {
                label { input type="checkbox" name="production" value="yes"; " Although it is a production action" }
            }
            @if approval.asks.contains(&ApprovalReason::Trifecta) {
                label {
                    input type="checkbox" name="trifecta" value="yes";
                    " Although they join private data, untrusted content and an egress channel"
                }
            }
        }
    }
}

/// The times for which a person can give access.
const ACCESS_TIMES: [(u64, &str); 5] =
    [(3_600, "1 hour"), (28_800, "8 hours"), (86_400, "1 day"), (604_800, "7 days"), (2_592_000, "30 days")];

/// The access that a person gives in place of the requested one.
fn other_access() -> Markup {
    html! {
        details.later {
            summary { "Give less or more" }
            p { "An empty field is as requested." }
            label for="level" { "Level" }
            select #level name="level" {
                option value="" { "As requested" }
                @for (value, words) in [("1", "1, read"), ("2", "2, write with guardrails"), ("3", "3, production or money")] {
                    option value=(value) { (words) }
                }
            }
            label for="actions" { "Only these actions" }
            // Enter must not press the button.
            textarea #actions name="actions" rows="1" maxlength="4000" placeholder="as requested" {}
            label for="access_s" { "For how long?" }
            select #access_s name="access_s" {
                option value="" { "As requested" }
                @for (seconds, words) in ACCESS_TIMES { option value=(seconds) { (words) } }
            }
            label for="gate" { "Gate of production actions" }
            textarea #gate name="gate" rows="1" maxlength="200" placeholder="optional" {}
        }
    }
}

/// Two forms, so that neither button is the other's default.
fn buttons(visitor: &Visitor, listed: &Listed, longest: u64) -> Markup {
    let (approval, action) = (&listed.record.approval, format!("{}/answer", listed.path()));
    let subject = approval_subjects::of(approval.kind);
    let hidden = html! {
        input type="hidden" name="form" value=(visitor.form);
        input type="hidden" name="digest" value=(approval.digest.hex());
    };
    html! {
        section.answer aria-labelledby="answer" {
            h2 #answer { "Your answer" }
            form.yes method="post" action=(action) {
                (hidden)
                p { (subject.page().scope) }
                button #approve.go type="submit" name="answer" value="yes" { "Approve" }
                @if let Some(vary) = approval.card.as_ref().and_then(|card| card.may_vary.as_ref()) {
                    (later(approval, vary, longest))
                }
                @if approval.kind == SubjectKind::Access && approval.quorum <= 1 { (other_access()) }
                @if subject.is_applied_at_once() {
                    p { "The agent makes the change when it asks for it; or you make it now." }
                    button type="submit" name="answer" value="apply" { "Approve and make it now" }
                }
            }
            form.no method="post" action=(action) {
                (hidden)
                label for="reason" { "Why not? The agent is told." }
                textarea #reason name="reason" rows="2" maxlength="1000" placeholder="optional" {}
                button #deny.danger type="submit" name="answer" value="no" { "Deny" }
            }
        }
        p.keys { "Keys: " kbd { "a" } " or " kbd { "d" } " selects a button, " kbd { "Enter" } " presses it, " kbd { "u" } " returns to the inbox" }
    }
}
