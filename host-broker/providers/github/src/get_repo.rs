//! `get_repo`.

use crate::base::Target;
use crate::client::Session;
use crate::params::{Owner, Repo, RepoName};
use crate::read::Read;
use crate::responses::Repository;
use crate::{same_repo, unusual};
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetRepo {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
}

impl Read for GetRepo {
    type Output = Repository;

    const NAME: &'static str = "get_repo";
    const DESCRIPTION: &'static str = "Shows one repository: description, visibility, default branch.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("get repository {}", self.repo())
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Repository, String), Failure> {
        let document = session.get(&Target::repo(self.repo())).await?;
        let repository = Repository::from(&document).ok_or_else(unusual)?;
        same_repo(self.repo(), Some(repository.full_name.clone()))?;
        Ok((repository, format!("repository {}", self.repo())))
    }
}
