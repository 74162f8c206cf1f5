//! `list_branches`.

use crate::base::Target;
use crate::client::Session;
use crate::pages::{Place, listed};
use crate::params::{Limit, Owner, Repo, RepoName};
use crate::read::Read;
use crate::responses::Branch;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListBranches {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// How many to bring back at most.
    #[serde(default)]
    limit: Limit,
    /// Where an earlier answer ended: its `cursor`, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// The branches of a repository.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Branches {
    /// By name.
    branches: Vec<Branch>,
    /// Whether there may be more.
    more: bool,
    /// Where the list goes on, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Read for ListBranches {
    type Output = Branches;

    const NAME: &'static str = "list_branches";
    const DESCRIPTION: &'static str = "Lists a repository's branches with the commits they point to.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("list branches of {}", self.repo())
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Branches, String), Failure> {
        let list = Target::repo(self.repo()).then("branches").with("per_page", "100");
        let found = listed(session, &list, (self.cursor.as_ref(), self.limit.count()), |_| true, Branch::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("branches of {}: {}", self.repo(), found.entries.len());
        Ok((Branches { branches: found.entries, more, cursor }, summary))
    }
}
