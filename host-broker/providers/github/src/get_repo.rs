//! `get_repo`.

use crate::base::Target;
use crate::client::Session;
use crate::params::{Owner, Repo, RepoName};
use crate::shapes::Repository;
use crate::{Github, READS, same_repo, unusual};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Level, Timestamp};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetRepo {
    /// Whose repository it is.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
}

impl NativeAction for GetRepo {
    type Shared = Github;
    type Facts = ();
    type Output = Repository;

    const NAME: &'static str = "get_repo";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Shows one repository: description, visibility, default branch.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        format!("get repository {}", self.repo())
    }

    fn guard(&self, shared: &Github, _facts: Option<&()>, _now: Timestamp) -> Guard {
        shared.guardrails.repo(self.repo())
    }

    async fn run(
        self,
        shared: &Github,
        _facts: Option<()>,
        execution: &Execution,
    ) -> Result<(Repository, String), Failure> {
        self.perform(&shared.session(execution)?).await
    }
}

impl GetRepo {
    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    pub(super) async fn perform(&self, session: &Session<'_>) -> Result<(Repository, String), Failure> {
        let document = session.get(&Target::repo(self.repo())).await?;
        let repository = Repository::from(&document).ok_or_else(unusual)?;
        same_repo(self.repo(), Some(repository.full_name.clone()))?;
        Ok((repository, format!("repository {}", self.repo())))
    }
}
