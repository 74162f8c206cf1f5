//! English phrases of texts that want something of an agent in plain words, without setting earlier instructions aside.
//!
//! An ordinary text tells people what to do, too. So what is looked for is what only makes sense to somebody who works for
//! another: "your user", "your next action", "the tools that you have", or private data with an address.

mod address;
mod answers;
mod demands;

use crate::filter::inspect::rules::Rule;

/// Every rule.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules = address::rules();
    rules.extend(demands::rules());
    rules.extend(answers::rules());
    rules
}
