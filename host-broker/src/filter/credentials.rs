//! Takes credentials out of values: the broker's own secrets, then known formats.

use super::pieces::{self, Order, Pieces};
use super::scrub::Scrubber;
use serde_json::Value;

/// How often a value is gone over. One round finds everything that is there, the next sees that nothing is left;
/// only secrets that were wrapped into each other on purpose need more.
const ROUNDS_MAX: usize = 4;

/// Which credentials are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The broker's own.
    Own,
    /// Those, and everything of a known format.
    All,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Scrubbed {
    /// There was nothing.
    Untouched,
    /// Something was taken out, and what is left is clean.
    Redacted,
    /// Every round laid bare something new; what is left must not be shown.
    Hopeless,
}

/// Takes credentials out of keys, strings and numbers, also where one is split over several of them.
///
/// INVARIANT: a value that was not found hopeless is one in which a further round finds nothing, so scrubbing
/// twice is scrubbing once.
pub(super) fn scrub(value: &mut Value, scrubber: &Scrubber, extent: Extent) -> Scrubbed {
    for round in 0..ROUNDS_MAX {
        let replaced = {
            let pieces = Pieces::of(value);
            pieces.replaced(find(&pieces, scrubber, extent))
        };
        if replaced.is_empty() {
            return if round == 0 { Scrubbed::Untouched } else { Scrubbed::Redacted };
        }
        pieces::put_back(value, replaced);
    }
    Scrubbed::Hopeless
}

fn find(pieces: &Pieces<'_>, scrubber: &Scrubber, extent: Extent) -> Vec<pieces::Edit> {
    let mut edits = Vec::new();
    // A secret may be split anywhere, so parts are joined without anything between them.
    for order in [Order::Document, Order::Texts, Order::Columns, Order::Keys] {
        if let Some(joined) = pieces.joined(order, "") {
            joined.edits(scrubber.find(&joined.text), &mut edits);
        }
    }
    if let Some(joined) = pieces.joined(Order::Numbers, ",") {
        joined.edits(scrubber.find_in_numbers(&joined.text), &mut edits);
    }
    if extent == Extent::All {
        // Tokens are not split; private keys are, at line ends.
        for order in [Order::Document, Order::Texts, Order::Columns] {
            if let Some(joined) = pieces.joined(order, "\n") {
                joined.edits(scrubber.find_foreign(&joined.text), &mut edits);
            }
        }
    }
    edits
}
