//! The mark that is planted into an effect, so that a look can settle a lost answer.

use crate::params::{Number, Owner, Repo, RepoName};
use model::{EffectMarker, Nonce};
use provider::contract::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest text that a caller may write: GitHub takes 65,536 characters, and the mark goes at the end.
pub(super) const BODY_CHARS_MAX: usize = 65_000;

/// The mark of a call in its effect. An operator can switch marks off for a repository.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark<'a>(Option<&'a Nonce>);

impl<'a> Mark<'a> {
    /// The mark with the nonce of a call.
    pub(super) fn of(nonce: &'a Nonce) -> Self {
        Self(Some(nonce))
    }

    /// No mark.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Returns a text with the mark at its end, in a comment that GitHub does not show.
    pub(super) fn on(self, text: Option<&str>) -> String {
        let text = text.unwrap_or_default();
        match self.0.map(|nonce| comment(nonce.as_str())) {
            Some(mark) if text.is_empty() => mark,
            Some(mark) => format!("{text}\n\n{mark}"),
            None => text.to_owned(),
        }
    }

    /// Returns the mark as a trailer of a commit message.
    pub(super) fn trailer(self) -> Option<String> {
        self.0.map(|nonce| format!("Ext-Broker: {}", nonce.as_str()))
    }
}

fn comment(nonce: &str) -> String {
    format!("<!-- ext-broker:{nonce} -->")
}

/// Where to look for an effect, and for which mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handle {
    owner: Owner,
    repo: RepoName,
    number: Option<Number>,
    nonce: String,
}

impl Handle {
    /// The handle of an effect, as it is stored.
    pub(super) fn stored(repo: Repo<'_>, number: Option<Number>, planted: &EffectMarker) -> Option<Value> {
        let (owner, repo) = (repo.owner.clone(), repo.name.clone());
        serde_json::to_value(Self { owner, repo, number, nonce: planted.nonce.as_str().to_owned() }).ok()
    }

    /// Reads a stored one.
    ///
    /// # Errors
    /// [`Failure::Refused`] if it is not one of this provider's.
    pub(super) fn read(stored: Value) -> Result<Self, Failure> {
        let handle = serde_json::from_value::<Self>(stored).ok().filter(|handle| !handle.nonce.is_empty());
        handle.ok_or_else(unreadable)
    }

    /// The repository.
    pub(super) fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    /// The issue or pull request that the effect is on.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the handle names none.
    pub(super) fn thread(&self) -> Result<(Repo<'_>, Number), Failure> {
        match self.number {
            Some(number) => Ok((self.repo(), number)),
            None => Err(unreadable()),
        }
    }

    /// Checks whether an issue, comment or pull request ends with the mark. Elsewhere it would be a quotation.
    pub(super) fn is_on(&self, object: &Value) -> bool {
        object.get("body").and_then(Value::as_str).is_some_and(|body| body.trim_end().ends_with(&comment(&self.nonce)))
    }

    /// Checks whether a commit message has the trailer.
    pub(super) fn is_in_message(&self, message: &str) -> bool {
        message.lines().any(|line| line.trim() == format!("Ext-Broker: {}", self.nonce))
    }
}

/// Returns the failure for a stored effect that is not one of this provider's handles.
pub(super) fn unreadable() -> Failure {
    Failure::Refused { message: "The stored description of the effect is unreadable.".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::random::SystemRandom;
    use serde_json::json;

    fn handle(nonce: &Nonce) -> Handle {
        let planted = EffectMarker { request_id: "ext-1".parse().unwrap(), nonce: nonce.clone() };
        let (owner, name) = ("octocat".parse().unwrap(), "hello-world".parse().unwrap());
        let stored = Handle::stored(Repo { owner: &owner, name: &name }, None, &planted).unwrap();
        Handle::read(stored).unwrap()
    }

    #[test]
    fn marks_are_recognised_and_quoted_marks_are_not() {
        let nonce = Nonce::fresh(&SystemRandom).unwrap();
        let other = Nonce::fresh(&SystemRandom).unwrap();
        let handle = handle(&nonce);
        assert!(handle.is_on(&json!({ "body": Mark::of(&nonce).on(Some("text")) })));
        assert!(handle.is_on(&json!({ "body": format!("{}\r\n", Mark::of(&nonce).on(None)) })));
        for body in [
            json!(null),
            json!(""),
            json!(Mark::of(&other).on(Some("text"))),
            json!(format!("> {}\nsee above", Mark::of(&nonce).on(None))),
        ] {
            assert!(!handle.is_on(&json!({ "body": body })));
        }
        assert_eq!((Mark::none().on(Some("text")), Mark::none().trailer()), ("text".to_owned(), None));
        assert!(handle.is_in_message(&format!("Title\n\n{}", Mark::of(&nonce).trailer().unwrap())));
        assert!(!handle.is_in_message(&format!("Title\n\n{}", Mark::of(&other).trailer().unwrap())));
    }

    #[test]
    fn a_handle_without_a_nonce_recognises_nothing() {
        for stored in [
            json!(null),
            json!({}),
            json!({"owner": "o", "repo": "r", "number": null, "nonce": ""}),
            json!({"owner": "../x", "repo": "r", "number": null, "nonce": "a"}),
        ] {
            assert!(Handle::read(stored).is_err());
        }
    }
}
