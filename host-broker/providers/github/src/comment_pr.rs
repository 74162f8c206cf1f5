//! `comment_pr`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::{commit, text};
use crate::guardrails::{Guardrails, refusal};
use crate::nonce::{BODY_CHARS_MAX, Handle, Mark};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::responses::Commented;
use crate::write::Write;
use crate::{comment_issue, probe, same_repo, unusual};
use http::Method;
use provider::contract::{Failure, Guard, Probed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("dependentRequired" = { "path": ["line"], "line": ["path"] }))]
pub(super) struct CommentPr {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The pull request's number.
    number: Number,
    /// The text, in GitHub's Markdown.
    #[schemars(length(min = 1, max = BODY_CHARS_MAX))]
    body: String,
    /// The changed file to comment on, together with `line`. Without both, the comment goes into the conversation.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1024))]
    path: Option<String>,
    /// The line of the file as it is after the change.
    #[serde(default)]
    line: Option<Number>,
}

/// The present state of the pull request.
#[derive(Debug)]
pub(super) struct Facts {
    /// The commit that a review comment is on; it rides in the request.
    pub(super) head_sha: String,
}

impl Write for CommentPr {
    type Facts = Facts;
    type Output = Commented;

    const NAME: &'static str = "comment_pr";
    const DESCRIPTION: &'static str =
        "Adds a comment to a pull request: to a line of its diff with `path` and `line`, else to its conversation.";
    const MAY_VARY: &[&str] = &["body"];

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn number(&self) -> Option<Number> {
        Some(self.number)
    }

    fn summary(&self) -> String {
        let kind = if self.place().is_some() { "add a review comment to" } else { "comment on" };
        format!("{kind} pull request {}#{}", self.repo(), self.number)
    }

    fn guard(&self, _guardrails: &Guardrails, facts: Option<&Facts>) -> Guard {
        if self.path.is_some() != self.line.is_some() {
            return Guard::Refuse(refusal("A review comment needs both `path` and `line`."));
        }
        if facts.is_none() && self.place().is_some() { Guard::NeedsRemote } else { Guard::Pass }
    }

    fn precondition(&self, facts: &Facts) -> Option<Value> {
        Some(json!({ "commit": facts.head_sha }))
    }

    async fn facts(&self, session: &Session<'_>, _guardrails: &Guardrails) -> Result<Facts, Failure> {
        let v = session.get(&Target::repo(self.repo()).then("pulls").number(self.number)).await?;
        same_repo(self.repo(), text(&v, "/base/repo/full_name"))?;
        let head_sha = commit(&v, "/head/sha");
        Ok(Facts { head_sha: head_sha.ok_or_else(unusual)? })
    }

    /// `None` for a comment on a line as long as the pull request's head is not known.
    fn change(&self, facts: Option<&Facts>, mark: Mark<'_>) -> Option<Change> {
        let Some((path, line)) = self.place() else {
            return Some(comment_issue::added(self.repo(), self.number, &self.body, mark));
        };
        let comment = json!({
            "body": mark.on(Some(&self.body)),
            "commit_id": facts?.head_sha,
            "path": path,
            "line": line,
            "side": "RIGHT",
        });
        Some(Change { method: Method::POST, target: review(self.repo(), self.number), body: comment })
    }

    fn outcome(&self, answer: &Value) -> Option<(Commented, String)> {
        comment_issue::told(self.repo(), self.number, answer)
    }

    /// The handle does not say which kind of comment it was, so both places are looked at.
    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let handle = Handle::read(handle)?;
        let (repo, number) = handle.thread()?;
        let list = probe::newest(review(repo, number));
        let told = |found: &Value| comment_issue::told(repo, number, found);
        match probe::marked(session, &handle, &list, told).await? {
            Probed::Absent { .. } => comment_issue::look(session, &handle).await,
            found @ (Probed::Happened(_) | Probed::State { .. }) => Ok(found),
        }
    }
}

impl CommentPr {
    /// The line of the diff that the comment is about.
    fn place(&self) -> Option<(&str, Number)> {
        self.path.as_deref().zip(self.line)
    }
}

fn review(repo: Repo<'_>, number: Number) -> Target {
    Target::repo(repo).then("pulls").number(number).then("comments")
}
