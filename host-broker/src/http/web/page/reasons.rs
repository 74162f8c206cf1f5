//! The reasons for an approval request. The combined exposures of a session are three lists, not one sentence.

use super::{apart, seen, time};
use maud::{Markup, html};
use model::card::{Bringer, Card, TOGETHER};

/// Each reason in a line.
pub(super) fn short(card: &Card) -> Markup {
    html! {
        @for (place, reason) in card.reasons.iter().enumerate() {
            p.why { @if is_of_lists(card, place) { (TOGETHER) } @else { (seen(reason)) } }
        }
    }
}

/// All there is to say.
pub(super) fn all(card: &Card) -> Markup {
    html! {
        @for (place, reason) in card.reasons.iter().enumerate() {
            @match card.together.as_ref().filter(|_| is_of_lists(card, place)) {
                None => p.why { (seen(reason)) },
                Some(together) => {
                    p.why { (TOGETHER) }
                    div.together {
                        @for (name, calls) in together.lists() {
                            section { h3 { (name) } ul { @for call in calls { li { (bringer(call)) } } } }
                        }
                    }
                }
            }
        }
    }
}

fn is_of_lists(card: &Card, place: usize) -> bool {
    card.together.as_ref().is_some_and(|together| together.reason == place)
}

fn bringer(call: &Bringer) -> Markup {
    html! {
        (apart(&call.action))
        @if let Some(at) = call.at { ", " (time(at)) }
    }
}
