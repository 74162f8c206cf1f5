//! `get_pr_comments`.

use crate::client::Session;
use crate::params::Repo;
use crate::read::Read;
use crate::responses::ReviewComment;
use crate::thread::Thread;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct GetPrComments(Thread);

/// The review comments of a pull request.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ReviewComments {
    /// The oldest first.
    comments: Vec<ReviewComment>,
    /// Whether there may be more.
    more: bool,
    /// The place where the list continues, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Read for GetPrComments {
    type Output = ReviewComments;

    const NAME: &'static str = "get_pr_comments";
    const DESCRIPTION: &'static str =
        "Lists the review comments of a pull request, those on lines of its diff, the oldest first.";

    fn repo(&self) -> Repo<'_> {
        self.0.repo()
    }

    fn summary(&self) -> String {
        format!("list review comments of {}", self.0)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(ReviewComments, String), Failure> {
        let found = self.0.entries(session, ("pulls", "comments"), ReviewComment::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("review comments of {}: {}", self.0, found.entries.len());
        Ok((ReviewComments { comments: found.entries, more, cursor }, summary))
    }
}
