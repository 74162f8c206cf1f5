//! The standing approvals, each with a button that ends it.

use super::{apart, by, frame, moment, seen, time};
use crate::http::web::sessions::Visitor;
use maud::{Markup, html};
use model::standing_approval::{ParamPattern, StandingApproval};
use shared::Timestamp;

/// The page.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, found: &[StandingApproval]) -> Markup {
    let content = html! {
        nav { a #up href="/" { "← Inbox" } }
        h1 { "Standing approvals" }
        @if found.is_empty() { p.none { "No standing approval of yours is in force." } }
        @for standing in found { (one(visitor, now, standing)) }
    };
    frame("Standing approvals", Some(visitor), now, &content)
}

fn one(visitor: &Visitor, now: Timestamp, standing: &StandingApproval) -> Markup {
    let (name, words) = (standing.reference(), standing.pattern.as_ref().map(ParamPattern::words).unwrap_or_default());
    html! {
        section.card id=(name) {
            h2 { (apart(&format!("{}.{}", standing.provider, standing.action))) }
            p.meta {
                span { (seen(&standing.caller)) }
                span.until {
                    "until " (time(standing.until)) @if standing.of_session { ", and no longer than the session" }
                }
                span { (standing.uses) @if standing.uses == 1 { " use" } @else { " uses" } }
            }
            p { (seen(&words)) }
            p.by { "given by " (by(&standing.given_by)) ", " (moment(standing.given_at, now)) }
            form method="post" action={ "/standing-approvals/" (name) "/end" } {
                input type="hidden" name="form" value=(visitor.form);
                button.danger type="submit" { "End it" }
            }
        }
    }
}
