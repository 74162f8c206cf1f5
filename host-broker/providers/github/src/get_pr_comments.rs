//! `get_pr_comments`.

use crate::base::Target;
use crate::client::Session;
use crate::pages::{Place, listed};
use crate::params::{Limit, Number, Owner, Repo, RepoName};
use crate::shapes::ReviewComment;
use crate::{Github, READS};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Level, Timestamp};

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

impl NativeAction for GetPrComments {
    type Shared = Github;
    type Facts = ();
    type Output = ReviewComments;

    const NAME: &'static str = "get_pr_comments";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str =
        "Lists the review comments of a pull request, those on lines of its diff, the oldest first.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        format!("list review comments of {}#{}", self.repo(), self.number)
    }

    fn guard(&self, shared: &Github, _facts: Option<&()>, _now: Timestamp) -> Guard {
        shared.guardrails.repo(self.repo())
    }

    async fn run(
        self,
        shared: &Github,
        _facts: Option<()>,
        execution: &Execution,
    ) -> Result<(ReviewComments, String), Failure> {
        self.perform(&shared.session(execution)?).await
    }
}

impl GetPrComments {
    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    pub(super) async fn perform(&self, session: &Session<'_>) -> Result<(ReviewComments, String), Failure> {
        let at = Target::repo(self.repo()).then("pulls").number(self.number).then("comments").with("per_page", "30");
        let found =
            listed(session, &at, (self.cursor.as_ref(), self.limit.count()), |_| true, ReviewComment::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("review comments of {}#{}: {}", self.repo(), self.number, found.entries.len());
        Ok((ReviewComments { comments: found.entries, more, cursor }, summary))
    }
}
