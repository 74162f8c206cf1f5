//! `list_issues`.

use crate::base::Target;
use crate::client::Session;
use crate::fields::is_pull_request;
use crate::pages::{Place, listed};
use crate::params::{Limit, Owner, Repo, RepoName, StateFilter};
use crate::read::Read;
use crate::responses::Issue;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListIssues {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// Which ones to show.
    #[serde(default)]
    state: StateFilter,
    /// Only those that have all of these labels.
    #[serde(default)]
    #[schemars(length(max = 20), inner(length(min = 1, max = 50), regex(pattern = "^[^,]+$")))]
    labels: Vec<String>,
    /// How many to bring back at most.
    #[serde(default)]
    limit: Limit,
    /// Where an earlier answer ended: its `cursor`, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// The issues of a repository.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Issues {
    /// The newest first, without pull requests and without their texts.
    issues: Vec<Issue>,
    /// Whether there may be more.
    more: bool,
    /// Where the list goes on, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Read for ListIssues {
    type Output = Issues;

    const NAME: &'static str = "list_issues";
    const DESCRIPTION: &'static str =
        "Lists a repository's issues, the newest first, without pull requests. `get_issue` has the text.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("list {} issues of {}", self.state.word(), self.repo())
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Issues, String), Failure> {
        let mut list = Target::repo(self.repo()).then("issues").with("state", self.state.word());
        if !self.labels.is_empty() {
            list = list.with("labels", &self.labels.join(","));
        }
        // Small pages: each entry carries its whole text, and an answer is bounded.
        let list = list.with("per_page", "30");
        let found = listed(
            session,
            &list,
            (self.cursor.as_ref(), self.limit.count()),
            |entry| !is_pull_request(entry),
            Issue::from,
        )
        .await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("issues of {}: {}", self.repo(), found.entries.len());
        Ok((Issues { issues: found.entries, more, cursor }, summary))
    }
}
