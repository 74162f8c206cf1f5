//! `get_issue_comments`.

use crate::client::Session;
use crate::params::Repo;
use crate::read::Read;
use crate::responses::Comment;
use crate::thread::Thread;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct GetIssueComments(Thread);

/// The conversation of an issue or pull request.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Comments {
    /// The oldest first.
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
        self.0.repo()
    }

    fn summary(&self) -> String {
        format!("list comments of {}", self.0)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Comments, String), Failure> {
        let found = self.0.entries(session, ("issues", "comments"), Comment::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("comments of {}: {}", self.0, found.entries.len());
        Ok((Comments { comments: found.entries, more, cursor }, summary))
    }
}
