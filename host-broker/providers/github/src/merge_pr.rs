//! `merge_pr`.

mod facts;

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::{commit, flag, text};
use crate::guardrails::{Guardrails, refusal};
use crate::nonce::{Handle, Mark};
use crate::params::{CommitSha, Number, Owner, Repo, RepoName};
use crate::write::{Write, unknown_facts};
use crate::{probe, unusual, unusual_write};
pub(super) use facts::Facts;
use http::{Method, StatusCode};
use provider::contract::{Failure, Guard, Probed, Success};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::Level;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MergePr {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The pull request's number.
    number: Number,
    /// How to merge.
    method: How,
    /// The commit that must be its head. For every value, the head that was checked is the one that is merged.
    #[serde(default)]
    sha: Option<CommitSha>,
}

/// How to merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum How {
    /// With a merge commit.
    Merge,
    /// All changes as one commit.
    Squash,
    /// The commits one by one, without a merge commit.
    Rebase,
}

impl How {
    fn word(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Rebase => "rebase",
        }
    }
}

/// The result of the merge.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Outcome {
    /// The pull request's number.
    number: Number,
    /// The commit that is now the head of the base branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha: Option<String>,
    /// Always true.
    merged: bool,
}

impl Write for MergePr {
    type Facts = Facts;
    type Output = Outcome;

    const NAME: &'static str = "merge_pr";
    const LEVEL: Level = Level::Production;
    const DESCRIPTION: &'static str =
        "Merges a pull request that is open, mergeable and has passed its checks, exactly as it was checked.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn number(&self) -> Option<Number> {
        Some(self.number)
    }

    fn summary(&self) -> String {
        format!("{} pull request {}#{}", self.method.word(), self.repo(), self.number)
    }

    fn guard(&self, guardrails: &Guardrails, facts: Option<&Facts>) -> Guard {
        let Some(facts) = facts else { return Guard::NeedsRemote };
        match facts.objection(self.sha.as_ref(), guardrails.merge_without_checks()) {
            Some(why) => Guard::Refuse(refusal(format!("{}#{}: {why}.", self.repo(), self.number))),
            None => Guard::Pass,
        }
    }

    async fn facts(&self, session: &Session<'_>, guardrails: &Guardrails) -> Result<Facts, Failure> {
        Facts::fetch(session, self.repo(), self.number, !guardrails.merge_without_checks()).await
    }

    fn precondition(&self, facts: &Facts) -> Option<Value> {
        Some(json!({ "head": facts.head_sha, "base": facts.base, "title": facts.title }))
    }

    fn change(&self, facts: Option<&Facts>, mark: Mark<'_>) -> Option<Change> {
        let facts = facts?;
        let at = Target::repo(self.repo()).then("pulls").number(self.number).then("merge");
        let mut merge = json!({ "merge_method": self.method.word(), "sha": facts.head_sha });
        let message = match self.method {
            // GitHub's own text, and the mark. Without a mark GitHub makes the message.
            How::Merge => mark.trailer().map(|trailer| format!("{}\n\n{trailer}", facts.title)),
            How::Squash => mark.trailer(),
            // Makes no commit that could hold a message.
            How::Rebase => None,
        };
        if let (Some(message), Some(fields)) = (message, merge.as_object_mut()) {
            fields.insert("commit_message".into(), message.into());
        }
        Some(Change { method: Method::PUT, target: at, body: merge })
    }

    fn outcome(&self, answer: &Value) -> Option<(Outcome, String)> {
        flag(answer, "/merged").then(|| told(self.repo(), self.number, commit(answer, "/sha")))
    }

    async fn perform(&self, session: &Session<'_>, facts: Option<&Facts>) -> Result<(Outcome, String), Failure> {
        let change = self.change(facts, session.mark()).ok_or_else(unknown_facts)?;
        let answer = session.send(&change).await?;
        if answer.status == StatusCode::CONFLICT {
            let moved = format!("{}#{}: its head is no longer the commit that was checked.", self.repo(), self.number);
            return Err(Failure::Guard(refusal(moved)));
        }
        self.outcome(&session.reader().written(&answer)?).ok_or_else(unusual_write)
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let handle = Handle::read(handle)?;
        let (repo, number) = handle.thread()?;
        let v = session.get(&Target::repo(repo).then("pulls").number(number)).await?;
        let sha = commit(&v, "/merge_commit_sha");
        if !flag(&v, "/merged") {
            return Ok(Probed::Absent { message: format!("Pull request {repo}#{number} is not merged now.") });
        }
        let Some(sha) = sha else { return Ok(probe::state(&v, &format!("Pull request {repo}#{number}"))) };
        let commit = session.get(&Target::repo(repo).then("git/commits").commit(&sha)).await?;
        if !text(&commit, "/message").is_some_and(|message| handle.is_in_message(&message)) {
            return Ok(Probed::State {
                message: format!("Pull request {repo}#{number} is merged, by a commit without this call's mark."),
            });
        }
        let (merged, summary) = told(repo, number, Some(sha));
        match serde_json::to_value(merged) {
            Ok(data) => Ok(Probed::Happened(Success::new(data, summary))),
            Err(_) => Err(unusual()),
        }
    }
}

fn told(repo: Repo<'_>, number: Number, sha: Option<String>) -> (Outcome, String) {
    (Outcome { number, sha, merged: true }, format!("merged pull request {repo}#{number}"))
}
