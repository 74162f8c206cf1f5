//! `list_prs`.

use crate::base::Target;
use crate::client::Session;
use crate::pages::{Place, listed};
use crate::params::{Limit, Owner, Repo, RepoName, StateFilter};
use crate::read::Read;
use crate::responses::PullRequest;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListPrs {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// Which ones to show.
    #[serde(default)]
    state: StateFilter,
    /// How many to bring back at most.
    #[serde(default)]
    limit: Limit,
    /// Where an earlier answer ended: its `cursor`, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// The pull requests of a repository.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct PullRequests {
    /// The newest first, without their texts.
    pull_requests: Vec<PullRequest>,
    /// Whether there may be more.
    more: bool,
    /// Where the list goes on, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Read for ListPrs {
    type Output = PullRequests;

    const NAME: &'static str = "list_prs";
    const DESCRIPTION: &'static str = "Lists a repository's pull requests, the newest first. `get_pr` has the details.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("list {} pull requests of {}", self.state.word(), self.repo())
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(PullRequests, String), Failure> {
        // Small pages: each entry carries its whole text and two repositories, and an answer is bounded.
        let list = Target::repo(self.repo()).then("pulls").with("state", self.state.word()).with("per_page", "30");
        let found =
            listed(session, &list, (self.cursor.as_ref(), self.limit.count()), |_| true, PullRequest::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("pull requests of {}: {}", self.repo(), found.entries.len());
        Ok((PullRequests { pull_requests: found.entries, more, cursor }, summary))
    }
}
