//! `get_issue`.

use crate::base::Target;
use crate::client::Session;
use crate::params::{Number, Owner, Repo, RepoName};
use crate::read::Read;
use crate::responses::Issue;
use crate::{repo_of_url, same_repo, unusual};
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetIssue {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The issue's number.
    number: Number,
}

impl Read for GetIssue {
    type Output = Issue;

    const NAME: &'static str = "get_issue";
    const DESCRIPTION: &'static str = "Shows one issue with its text.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("get issue {}#{}", self.repo(), self.number)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Issue, String), Failure> {
        let document = session.get(&Target::repo(self.repo()).then("issues").number(self.number)).await?;
        let issue = Issue::whole(&document).ok_or_else(unusual)?;
        same_repo(self.repo(), repo_of_url(&document))?;
        Ok((issue, format!("issue {}#{}", self.repo(), self.number)))
    }
}
