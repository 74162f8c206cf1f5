//! English phrases that want something of an agent in plain words, without setting earlier instructions aside.
//!
//! An ordinary text tells people what to do, too. So the rules look for phrases that fit only a reader who works for
//! another. Examples are "your user", "your next action", "the tools that you have", and private data with an address.

mod address;
mod answers;
mod demands;

use crate::inspect::rules::Rule;

/// Returns every rule.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules = address::rules();
    rules.extend(demands::rules());
    rules.extend(answers::rules());
    rules
}
