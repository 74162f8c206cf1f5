//! Looking, after an answer was lost, whether the effect is there.
//!
//! Only an object that carries the planted mark counts as the effect. Its absence never licenses a repeat: GitHub's
//! lists may lag behind, and these look at the newest entries only.

use crate::base::Target;
use crate::client::Session;
use crate::fields::{flag, text};
use crate::nonce::Handle;
use crate::pages;
use provider::contract::{Failure, Probed, Success};
use serde::Serialize;
use serde_json::Value;
use shared::Timestamp;
use std::time::Duration;

/// How far back comments are looked through. A lost answer is probed soon after, at the latest after a restart.
const SINCE: Duration = Duration::from_secs(7 * 24 * 3600);
const PER_PAGE: &str = "50";
/// How many pages are looked through. Of a list that shows the newest first, an early one has the effect.
const PAGES: usize = 20;

/// Lists that show the newest first: issues, pull requests, review comments.
pub(super) fn newest(list: Target) -> Target {
    list.with("sort", "created").with("direction", "desc").with("per_page", PER_PAGE)
}

/// Comments of an issue, which GitHub lists from the oldest on.
pub(super) fn recent(list: Target, now: Timestamp) -> Target {
    list.with("since", &now.minus(SINCE).to_string()).with("per_page", PER_PAGE)
}

/// Looks for the marked object in a list and tells it in the action's own shape.
///
/// # Errors
/// [`Failure`]; a read, nothing was changed.
pub(super) async fn marked<T: Serialize>(
    session: &Session<'_>,
    handle: &Handle,
    list: &Target,
    shape: impl Fn(&Value) -> Option<(T, String)> + Send,
) -> Result<Probed, Failure> {
    let Some(found) = pages::first(session, list, PAGES, |object| handle.is_on(object)).await? else {
        let message = format!("None of the newest entries in {} carries this call's mark.", handle.repo());
        return Ok(Probed::Absent { message });
    };
    let told = shape(&found).and_then(|(data, summary)| Some((serde_json::to_value(data).ok()?, summary)));
    match told {
        Some((data, summary)) => Ok(Probed::Happened(Success::new(data, summary))),
        None => Err(Failure::InvalidOutput { message: "The marked object has not its usual fields.".into() }),
    }
}

/// The state of an issue or pull request, for a person.
pub(super) fn state(object: &Value, what: &str) -> Probed {
    let state = if flag(object, "/merged") { "merged".to_owned() } else { text(object, "/state").unwrap_or_default() };
    let word = match state.as_str() {
        "open" | "closed" | "merged" => state.as_str(),
        _ => "in an unknown state",
    };
    Probed::State { message: format!("{what} is {word} now.") }
}
