//! The common part of the actions that list the entries of an issue or pull request.

use crate::base::Target;
use crate::client::Session;
use crate::pages::{Listed, Place, listed};
use crate::params::{Limit, Number, Owner, Repo, RepoName};
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// The parameters of these actions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Thread {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The number of the issue or pull request.
    number: Number,
    /// The most entries to return.
    #[serde(default)]
    limit: Limit,
    /// The `cursor` of an earlier answer, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

impl Thread {
    /// Returns the repository.
    pub(super) fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    /// Reads a list of `issues` or `pulls`, such as `comments`, the oldest first.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) async fn entries<T>(
        &self,
        session: &Session<'_>,
        (of, list): (&'static str, &'static str),
        shape: impl Fn(&Value) -> Option<T> + Send,
    ) -> Result<Listed<T>, Failure> {
        let at = Target::repo(self.repo()).then(of).number(self.number).then(list).with("per_page", "30");
        listed(session, &at, (self.cursor.as_ref(), self.limit.count()), |_| true, shape).await
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.repo(), self.number)
    }
}
