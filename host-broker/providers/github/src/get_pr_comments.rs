//! `get_pr_comments`.

use crate::base::Target;
use crate::client::Session;
use crate::pages::{Place, listed};
use crate::params::{Limit, Number, Owner, Repo, RepoName};
use crate::read::Read;
use crate::responses::ReviewComment;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetPrComments {
    /// Whose repository it is.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The pull request's number.
    number: Number,
    /// How many to bring back at most.
    #[serde(default)]
    limit: Limit,
    /// Where an earlier answer ended: its `cursor`, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// The review comments of a pull request.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReviewComments {
    /// The oldest first.
    comments: Vec<ReviewComment>,
    /// Whether there may be more.
    more: bool,
    /// Where the list goes on, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Read for GetPrComments {
    type Output = ReviewComments;

    const NAME: &'static str = "get_pr_comments";
    const DESCRIPTION: &'static str =
        "Lists the review comments of a pull request, those on lines of its diff, the oldest first.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("list review comments of {}#{}", self.repo(), self.number)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(ReviewComments, String), Failure> {
        let at = Target::repo(self.repo()).then("pulls").number(self.number).then("comments").with("per_page", "30");
        let found =
            listed(session, &at, (self.cursor.as_ref(), self.limit.count()), |_| true, ReviewComment::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("review comments of {}#{}: {}", self.repo(), self.number, found.entries.len());
        Ok((ReviewComments { comments: found.entries, more, cursor }, summary))
    }
}
