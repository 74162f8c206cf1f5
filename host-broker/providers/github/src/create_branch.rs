//! `create_branch`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::{commit, text};
use crate::guardrails::{Guardrails, is_main, refusal};
use crate::nonce::{Mark, unreadable};
use crate::params::{BranchName, CommitSha, Owner, Repo, RepoName};
use crate::responses::Branch;
use crate::write::Write;
use crate::{same_repo, unusual};
use http::Method;
use model::EffectMarker;
use provider::contract::{Failure, Guard, Probed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::Level;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateBranch {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The new branch's short name.
    branch: BranchName,
    /// Where it starts: a branch, or a full commit id. The default branch if absent.
    #[serde(default)]
    from: Option<BranchName>,
}

/// The present state of the repository.
#[derive(Debug)]
pub(super) struct Facts {
    /// Its default branch.
    pub(super) default_branch: String,
    /// The commit that the new branch will point to; it rides in the request.
    pub(super) sha: String,
}

/// Where to look for the branch; nothing can be planted in one.
#[derive(Debug, Serialize, Deserialize)]
struct Handle {
    owner: Owner,
    repo: RepoName,
    branch: BranchName,
    /// The commit that it was to point to.
    #[serde(default)]
    sha: Option<String>,
}

impl Write for CreateBranch {
    type Facts = Facts;
    type Output = Branch;

    const NAME: &'static str = "create_branch";
    const DESCRIPTION: &'static str =
        "Creates a branch, never the default branch, main or master. A production branch needs L3.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("create branch {} in {}", self.branch, self.repo())
    }

    fn level(&self, guardrails: &Guardrails) -> Level {
        if guardrails.is_production(&self.branch) { Level::Production } else { Self::LEVEL }
    }

    fn guard(&self, _guardrails: &Guardrails, facts: Option<&Facts>) -> Guard {
        let never =
            |why: &str| Guard::Refuse(refusal(format!("A branch named {} is not created: {why}.", self.branch)));
        match facts {
            _ if is_main(&self.branch) => never("that name is reserved for the main line"),
            None => Guard::NeedsRemote,
            Some(facts) if facts.default_branch.eq_ignore_ascii_case(self.branch.as_str()) => {
                never("it is the repository's default branch")
            }
            Some(_) => Guard::Pass,
        }
    }

    fn precondition(&self, facts: &Facts) -> Option<Value> {
        Some(json!({ "commit": facts.sha }))
    }

    fn handle(&self, facts: Option<&Facts>, _marker: &EffectMarker) -> Option<Value> {
        let (owner, repo, branch) = (self.owner.clone(), self.repo.clone(), self.branch.clone());
        serde_json::to_value(Handle { owner, repo, branch, sha: facts.map(|facts| facts.sha.clone()) }).ok()
    }

    async fn facts(&self, session: &Session<'_>, _guardrails: &Guardrails) -> Result<Facts, Failure> {
        let repository = session.get(&Target::repo(self.repo())).await?;
        same_repo(self.repo(), text(&repository, "/full_name"))?;
        let default_branch = text(&repository, "/default_branch").ok_or_else(unusual)?;
        if let Some(sha) = self.from.as_ref().and_then(|from| from.as_str().parse::<CommitSha>().ok()) {
            return Ok(Facts { default_branch, sha: sha.to_string() });
        }
        let from = match &self.from {
            Some(from) => from.clone(),
            None => default_branch.parse().map_err(|_odd| Failure::Refused {
                message: "The default branch has an unusual name; say in `from` where to start.".into(),
            })?,
        };
        let reference = session.get(&Target::repo(self.repo()).then("git/ref/heads").branch(&from)).await?;
        let sha = commit(&reference, "/object/sha");
        Ok(Facts { default_branch, sha: sha.ok_or_else(unusual)? })
    }

    fn change(&self, facts: Option<&Facts>, _mark: Mark<'_>) -> Option<Change> {
        let reference = json!({ "ref": format!("refs/heads/{}", self.branch), "sha": facts?.sha });
        Some(Change { method: Method::POST, target: Target::repo(self.repo()).then("git/refs"), body: reference })
    }

    fn outcome(&self, answer: &Value) -> Option<(Branch, String)> {
        text(answer, "/ref").filter(|made| *made == format!("refs/heads/{}", self.branch))?;
        let sha = commit(answer, "/object/sha");
        let branch = Branch { name: self.branch.to_string(), sha, protected: false };
        Some((branch, format!("created branch {} in {}", self.branch, self.repo())))
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let Handle { owner, repo, branch, sha: wanted } =
            serde_json::from_value(handle).map_err(|_why| unreadable())?;
        let repo = Repo { owner: &owner, name: &repo };
        // The list of matching references answers with an empty list where the branch is not there; a 404 would
        // also mean that the repository cannot be seen.
        let matching = session.get(&Target::repo(repo).then("git/matching-refs/heads").branch(&branch)).await?;
        let full = format!("refs/heads/{branch}");
        let matching = matching.as_array().ok_or_else(unusual)?;
        let found = matching.iter().find(|reference| text(reference, "/ref").as_ref() == Some(&full));
        let sha = found.and_then(|reference| commit(reference, "/object/sha"));
        let seen = match (found, sha, wanted) {
            (Some(_), Some(sha), Some(wanted)) if sha == wanted => format!(
                "Branch {branch} exists in {repo} and points to {sha}, as the call wanted. The call created it, or \
                 somebody else did."
            ),
            (Some(_), Some(sha), Some(wanted)) => format!(
                "Branch {branch} exists in {repo} and points to {sha}, not to {wanted}, which the call wanted. Somebody \
                 else created it, or has moved it since."
            ),
            (Some(_), Some(sha), None) => format!("Branch {branch} exists in {repo} and points to {sha}."),
            (Some(_), None, _) => format!("Branch {branch} exists in {repo}."),
            (None, ..) => {
                format!(
                    "There is no branch {branch} in {repo} now. The call did not create it, or is still on its way."
                )
            }
        };
        // GitHub refuses to create an existing branch, so a repeat changes nothing twice.
        Ok(Probed::State { message: format!("{seen} Creating it again does no harm: an existing branch is refused.") })
    }
}
