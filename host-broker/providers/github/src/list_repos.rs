//! `list_repos`.

use crate::app::Reach;
use crate::base::Target;
use crate::client::Session;
use crate::fields::text;
use crate::guardrails::Guardrails;
use crate::pages::{Place, listed};
use crate::params::Limit;
use crate::responses::Repository;
use crate::{Github, READS};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::numbers::counted;
use shared::{Level, Timestamp};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRepos {
    /// How many to bring back at most.
    #[serde(default)]
    limit: Limit,
    /// Where an earlier answer ended: its `cursor`, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// The repositories that the token or the app reaches and the operator allows.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Repos {
    /// The most recently pushed first, unless the broker uses a GitHub App.
    repos: Vec<Repository>,
    /// Whether there may be more.
    more: bool,
    /// Where the list goes on, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl NativeAction for ListRepos {
    type Shared = Github;
    type Facts = ();
    type Output = Repos;

    const NAME: &'static str = "list_repos";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Lists the repositories that the broker may use.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        format!("list at most {}", counted(self.limit.count(), "repository", "repositories"))
    }

    fn guard(&self, _shared: &Github, _facts: Option<&()>, _now: Timestamp) -> Guard {
        // No repository is named; repositories that are not allowed are not shown.
        Guard::Pass
    }

    async fn run(self, shared: &Github, _facts: Option<()>, execution: &Execution) -> Result<(Repos, String), Failure> {
        self.perform(&shared.session(Reach::Names, execution).await?, &shared.guardrails).await
    }
}

impl ListRepos {
    pub(super) async fn perform(
        &self,
        session: &Session<'_>,
        guardrails: &Guardrails,
    ) -> Result<(Repos, String), Failure> {
        // Whole pages: the allow-list may let few of them through.
        let list = if session.is_of_an_app() {
            Target::fixed("/installation/repositories")
        } else {
            Target::fixed("/user/repos").with("sort", "pushed")
        };
        let list = list.with("per_page", "100");
        let allowed = |repo: &Value| text(repo, "/full_name").is_none_or(|name| guardrails.allows(&name));
        let found =
            listed(session, &list, (self.cursor.as_ref(), self.limit.count()), allowed, Repository::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("repositories: {}", found.entries.len());
        Ok((Repos { repos: found.entries, more, cursor }, summary))
    }
}
