//! `get_issue_comments`.

use crate::base::Target;
use crate::client::Session;
use crate::pages::{Place, listed};
use crate::params::{Limit, Number, Owner, Repo, RepoName};
use crate::read::Read;
use crate::responses::Comment;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetIssueComments {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The number of the issue or pull request.
    number: Number,
    /// The most comments to return.
    #[serde(default)]
    limit: Limit,
    /// The `cursor` of an earlier answer, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// The conversation of an issue or pull request.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Comments {
    /// The comments, the oldest first.
    comments: Vec<Comment>,
    /// Whether there may be more.
    more: bool,
    /// The place where the list continues, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Read for GetIssueComments {
    type Output = Comments;

    const NAME: &'static str = "get_issue_comments";
    const DESCRIPTION: &'static str =
        "Lists the comments in the conversation of an issue or pull request, the oldest first.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("list comments of {}#{}", self.repo(), self.number)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Comments, String), Failure> {
        let at = Target::repo(self.repo()).then("issues").number(self.number).then("comments").with("per_page", "30");
        let found = listed(session, &at, (self.cursor.as_ref(), self.limit.count()), |_| true, Comment::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("comments of {}#{}: {}", self.repo(), self.number, found.entries.len());
        Ok((Comments { comments: found.entries, more, cursor }, summary))
    }
}
