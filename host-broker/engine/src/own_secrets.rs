//! Keeps the broker's own secrets out of requests, cards and projections.
//!
//! A request that holds one is refused as a whole, at every type and level. Each surface searches a request once,
//! where it arrives: [`request::parse`](crate::request::parse) a group's document, the control task a person's
//! command with the reason in it, `http/outside` the requests of external agents and operators. Cards and projections
//! are searched when they are finished, because they show stored and remote data too.

use crate::broker::Broker;
use filter::holds_own;
use filter::scrub::Scrubber;
use model::card::Card;
use serde_json::{Value, json};

/// Returns whether a request holds a secret of the broker's own, in its document or in the names that come with it.
pub fn are_in_request(names: &[&str], document: &[u8], scrubber: &Scrubber) -> bool {
    // A document that is no JSON is one text.
    let document = serde_json::from_slice(document)
        .unwrap_or_else(|_no_json| Value::String(String::from_utf8_lossy(document).into_owned()));
    holds_own(json!([names, document]), scrubber)
}

/// Returns whether a text holds a secret of the broker's own.
pub fn are_in_text(text: &str, scrubber: &Scrubber) -> bool {
    holds_own(Value::from(text), scrubber)
}

impl Broker {
    /// Returns whether this shows a secret of the broker's own.
    pub(crate) fn shows_own(&self, shown: Value) -> bool {
        self.filters.as_ref().is_some_and(|filters| holds_own(shown, &filters.scrubber))
    }

    /// Returns whether a card shows a secret of the broker's own.
    pub(crate) fn card_shows_own(&self, card: &Card) -> bool {
        // The filter has searched the diff off the loop, when the provider returned it.
        let card = Card { diff: None, ..card.clone() };
        serde_json::to_value(&card).map_or(true, |card| self.shows_own(card))
    }
}
