//! `get_issue`.

use crate::base::Target;
use crate::client::Session;
use crate::params::{Number, Owner, Repo, RepoName};
use crate::shapes::Issue;
use crate::{Github, READS, repo_of_url, same_repo, unusual};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Level, Timestamp};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetIssue {
    /// Whose repository it is.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The issue's number.
    number: Number,
}

impl NativeAction for GetIssue {
    type Shared = Github;
    type Facts = ();
    type Output = Issue;

    const NAME: &'static str = "get_issue";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Shows one issue with its text.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        format!("get issue {}#{}", self.repo(), self.number)
    }

    fn guard(&self, shared: &Github, _facts: Option<&()>, _now: Timestamp) -> Guard {
        shared.guardrails.repo(self.repo())
    }

    async fn run(self, shared: &Github, _facts: Option<()>, execution: &Execution) -> Result<(Issue, String), Failure> {
        self.perform(&shared.session(execution)?).await
    }
}

impl GetIssue {
    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    pub(super) async fn perform(&self, session: &Session<'_>) -> Result<(Issue, String), Failure> {
        let document = session.get(&Target::repo(self.repo()).then("issues").number(self.number)).await?;
        let issue = Issue::whole(&document).ok_or_else(unusual)?;
        same_repo(self.repo(), repo_of_url(&document))?;
        Ok((issue, format!("issue {}#{}", self.repo(), self.number)))
    }
}
