//! `request_review`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::guardrails::{Guardrails, refusal};
use crate::nonce::{Handle, Mark};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::responses::Touched;
use crate::unusual;
use crate::write::Write;
use http::Method;
use provider::contract::{Failure, Guard, Probed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::numbers::counted;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestReview {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The number of the pull request.
    number: Number,
    /// The logins of people.
    #[serde(default)]
    #[schemars(length(max = 15))]
    reviewers: Vec<Owner>,
    /// The short names of teams of the organisation.
    #[serde(default)]
    #[schemars(length(max = 15))]
    teams: Vec<Owner>,
}

impl Write for RequestReview {
    type Facts = ();
    type Output = Touched;

    const NAME: &'static str = "request_review";
    const DESCRIPTION: &'static str = "Asks people or teams to review a pull request. GitHub notifies them.";
    const IDEMPOTENT: bool = true;

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn number(&self) -> Option<Number> {
        Some(self.number)
    }

    fn summary(&self) -> String {
        format!("ask for a review of pull request {}#{}", self.repo(), self.number)
    }

    fn guard(&self, _guardrails: &Guardrails, _facts: Option<&()>) -> Guard {
        if self.reviewers.is_empty() && self.teams.is_empty() {
            return Guard::Refuse(refusal("A request for a review names a person or a team."));
        }
        Guard::Pass
    }

    fn change(&self, _facts: Option<&()>, _mark: Mark<'_>) -> Option<Change> {
        Some(Change {
            method: Method::POST,
            target: Target::repo(self.repo()).then("pulls").number(self.number).then("requested_reviewers"),
            body: json!({ "reviewers": self.reviewers, "team_reviewers": self.teams }),
        })
    }

    fn outcome(&self, answer: &Value) -> Option<(Touched, String)> {
        let pull_request = Touched::from(answer)?;
        Some((pull_request, format!("asked for a review of pull request {}#{}", self.repo(), self.number)))
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let handle = Handle::read(handle)?;
        let (repo, number) = handle.thread()?;
        let v = session.get(&Target::repo(repo).then("pulls").number(number)).await?;
        let count = |list: &str| v.pointer(list).and_then(Value::as_array).map(Vec::len);
        let (people, teams) = (count("/requested_reviewers"), count("/requested_teams"));
        let asked = people.ok_or_else(unusual)? + teams.ok_or_else(unusual)?;
        let asked = counted(asked, "person or team", "people and teams");
        Ok(Probed::State {
            message: format!("Pull request {repo}#{number} waits for {asked} now. Asking again does no harm."),
        })
    }
}
