//! `update_branch`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::{commit, text};
use crate::guardrails::{Guardrails, is_main, refusal};
use crate::nonce::{Mark, unreadable};
use crate::params::{BranchName, Number, Owner, Repo, RepoName};
use crate::write::Write;
use crate::{same_repo, unusual};
use http::Method;
use model::EffectMarker;
use provider::contract::{Failure, Guard, Probed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateBranch {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The number of the pull request.
    number: Number,
}

/// The pull request as it was found.
#[derive(Debug)]
pub(super) struct Facts {
    is_open: bool,
    /// The commit to which the merge is added; the request has it.
    head_sha: String,
    head: String,
    /// The repository of the head, `owner/name`; `None` if it is gone.
    head_repo: Option<String>,
    base: String,
    default_branch: Option<String>,
}

/// A branch that GitHub brings up to date.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Updating {
    /// The number of the pull request.
    number: Number,
    /// Always true. GitHub makes the merge commit after its answer.
    updating: bool,
}

/// Where to look for the merge commit.
#[derive(Debug, Serialize, Deserialize)]
struct Handle {
    owner: Owner,
    repo: RepoName,
    number: Number,
    #[serde(default)]
    head_sha: Option<String>,
}

impl Write for UpdateBranch {
    type Facts = Facts;
    type Output = Updating;

    const NAME: &'static str = "update_branch";
    const DESCRIPTION: &'static str =
        "Merges the default or a production branch into the head branch of an open pull request onto it.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn number(&self) -> Option<Number> {
        Some(self.number)
    }

    fn summary(&self) -> String {
        format!("update the branch of pull request {}#{}", self.repo(), self.number)
    }

    fn guard(&self, guardrails: &Guardrails, facts: Option<&Facts>) -> Guard {
        let Some(facts) = facts else { return Guard::NeedsRemote };
        match facts.objection(self.repo(), guardrails) {
            Some(reason) => Guard::Refuse(refusal(format!("{}#{}: {reason}.", self.repo(), self.number))),
            None => Guard::Pass,
        }
    }

    fn precondition(&self, facts: &Facts) -> Option<Value> {
        Some(json!({ "head": facts.head_sha, "base": facts.base }))
    }

    async fn facts(&self, session: &Session<'_>, _guardrails: &Guardrails) -> Result<Facts, Failure> {
        let v = session.get(&Target::repo(self.repo()).then("pulls").number(self.number)).await?;
        same_repo(self.repo(), text(&v, "/base/repo/full_name"))?;
        Ok(Facts {
            is_open: text(&v, "/state").as_deref() == Some("open"),
            head_sha: commit(&v, "/head/sha").ok_or_else(unusual)?,
            head: text(&v, "/head/ref").ok_or_else(unusual)?,
            head_repo: text(&v, "/head/repo/full_name"),
            base: text(&v, "/base/ref").ok_or_else(unusual)?,
            default_branch: text(&v, "/base/repo/default_branch"),
        })
    }

    fn change(&self, facts: Option<&Facts>, _mark: Mark<'_>) -> Option<Change> {
        Some(Change {
            method: Method::PUT,
            target: Target::repo(self.repo()).then("pulls").number(self.number).then("update-branch"),
            body: json!({ "expected_head_sha": facts?.head_sha }),
        })
    }

    fn outcome(&self, answer: &Value) -> Option<(Updating, String)> {
        // GitHub names the pull request. Another document is not its answer.
        let place = format!("/pulls/{}", self.number);
        text(answer, "/message").and(text(answer, "/url")).filter(|url| url.ends_with(&place))?;
        let summary = format!("asked GitHub to update the branch of pull request {}#{}", self.repo(), self.number);
        Some((Updating { number: self.number, updating: true }, summary))
    }

    fn handle(&self, facts: Option<&Facts>, _marker: &EffectMarker) -> Option<Value> {
        let (owner, repo, number) = (self.owner.clone(), self.repo.clone(), self.number);
        serde_json::to_value(Handle { owner, repo, number, head_sha: facts.map(|facts| facts.head_sha.clone()) }).ok()
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let Handle { owner, repo, number, head_sha } = serde_json::from_value(handle).map_err(|_why| unreadable())?;
        let repo = Repo { owner: &owner, name: &repo };
        let v = session.get(&Target::repo(repo).then("pulls").number(number)).await?;
        let now = commit(&v, "/head/sha").ok_or_else(unusual)?;
        let seen = if Some(&now) == head_sha.as_ref() {
            "is as it was. GitHub has not updated it, or not yet"
        } else {
            "has another commit now. This call updated it, or somebody pushed"
        };
        Ok(Probed::State { message: format!("The branch of pull request {repo}#{number} {seen}.") })
    }
}

impl Facts {
    /// Returns the reason, as the rest of a sentence, why the branch is not updated.
    fn objection(&self, repo: Repo<'_>, guardrails: &Guardrails) -> Option<&'static str> {
        if !self.is_open {
            return Some("it is not open");
        }
        // SECURITY: the merge commit is pushed to the head, which can be in a repository that nobody has allowed.
        if self.head_repo.as_ref().is_none_or(|head| !head.eq_ignore_ascii_case(&repo.to_string())) {
            return Some("its head branch is in another repository");
        }
        let Ok(head) = self.head.parse::<BranchName>() else { return Some("its head branch has an unusual name") };
        let is_default = self.default_branch.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(&self.head));
        if is_default || is_main(&head) {
            return Some("its head branch is the default branch, main or master");
        }
        if guardrails.is_production(&head) {
            return Some("its head branch is a production branch");
        }
        // SECURITY: any other base could hold code that nobody has reviewed. To add it to a branch is a merge.
        let Ok(base) = self.base.parse::<BranchName>() else { return Some("its base branch has an unusual name") };
        let is_reviewed = self.default_branch.as_deref() == Some(base.as_str()) || guardrails.is_production(&base);
        (!is_reviewed).then_some("its base branch is neither the default branch nor a production branch")
    }
}
