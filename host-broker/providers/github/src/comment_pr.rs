//! `comment_pr`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::{commit, text};
use crate::guardrails::refusal;
use crate::nonce::{BODY_CHARS_MAX, Handle, marked};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::shapes::Commented;
use crate::{Github, WRITES, comment_issue, probe, same_repo, unusual, unusual_write};
use http::Method;
use model::{EffectMarker, Exposure, Nonce, SealedRequest};
use provider::contract::{Execution, Failure, Guard, Probed};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{Level, Timestamp};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("dependentRequired" = { "path": ["line"], "line": ["path"] }))]
pub(super) struct CommentPr {
    /// Whose repository it is.
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

/// What the pull request looks like now.
#[derive(Debug)]
pub(super) struct Facts {
    /// The commit that a review comment is on; it rides in the request.
    pub(super) head_sha: String,
}

impl NativeAction for CommentPr {
    type Shared = Github;
    type Facts = Facts;
    type Output = Commented;

    const NAME: &'static str = "comment_pr";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str =
        "Adds a comment to a pull request: to a line of its diff with `path` and `line`, else to its conversation.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = WRITES;

    fn summary(&self) -> String {
        let kind = if self.place().is_some() { "add a review comment to" } else { "comment on" };
        format!("{kind} pull request {}#{}", self.repo(), self.number)
    }

    fn guard(&self, shared: &Github, facts: Option<&Facts>, _now: Timestamp) -> Guard {
        match (shared.guardrails.repo(self.repo()), facts) {
            (Guard::Pass, _) if self.path.is_some() != self.line.is_some() => {
                Guard::Refuse(refusal("A review comment needs both `path` and `line`."))
            }
            (Guard::Pass, None) if self.place().is_some() => Guard::NeedsRemote,
            (verdict, _) => verdict,
        }
    }

    fn precondition(&self, facts: &Facts) -> Option<Value> {
        Some(json!({ "commit": facts.head_sha }))
    }

    async fn prepare(&self, shared: &Github, execution: &Execution) -> Result<Facts, Failure> {
        self.facts(&shared.session(execution)?).await
    }

    fn seal(&self, shared: &Github, facts: Option<&Facts>, nonce: &Nonce) -> Option<SealedRequest> {
        Some(shared.client.seal(&self.change(facts, nonce)?, nonce))
    }

    fn probe_handle(&self, _facts: Option<&Self::Facts>, planted: &EffectMarker) -> Option<Value> {
        Handle::stored(self.repo(), Some(self.number), planted)
    }

    async fn probe(shared: &Github, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        Self::look(&shared.session(execution)?.patient(), handle).await
    }

    async fn run(
        self,
        shared: &Github,
        facts: Option<Facts>,
        execution: &Execution,
    ) -> Result<(Commented, String), Failure> {
        self.perform(&shared.session(execution)?, facts.as_ref()).await
    }
}

impl CommentPr {
    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn place(&self) -> Option<(&str, Number)> {
        self.path.as_deref().zip(self.line)
    }

    pub(super) async fn facts(&self, session: &Session<'_>) -> Result<Facts, Failure> {
        let v = session.get(&Target::repo(self.repo()).then("pulls").number(self.number)).await?;
        same_repo(self.repo(), text(&v, "/base/repo/full_name"))?;
        let head_sha = commit(&v, "/head/sha");
        Ok(Facts { head_sha: head_sha.ok_or_else(unusual)? })
    }

    /// `None` for a comment on a line as long as the pull request's head is not known.
    fn change(&self, facts: Option<&Facts>, nonce: &Nonce) -> Option<Change> {
        let Some((path, line)) = self.place() else {
            return Some(comment_issue::added(self.repo(), self.number, &self.body, nonce));
        };
        let comment = json!({
            "body": marked(Some(&self.body), nonce),
            "commit_id": facts?.head_sha,
            "path": path,
            "line": line,
            "side": "RIGHT",
        });
        Some(Change { method: Method::POST, target: review(self.repo(), self.number), body: comment })
    }

    pub(super) async fn perform(
        &self,
        session: &Session<'_>,
        facts: Option<&Facts>,
    ) -> Result<(Commented, String), Failure> {
        let Some(change) = self.change(facts, session.nonce()) else {
            return Err(Failure::Guard(refusal("The pull request's head is not known.")));
        };
        let answer = session.write(&change).await?;
        comment_issue::told(self.repo(), self.number, &answer).ok_or_else(unusual_write)
    }

    /// The handle does not say which kind of comment it was, so both places are looked at.
    pub(super) async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
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

fn review(repo: Repo<'_>, number: Number) -> Target {
    Target::repo(repo).then("pulls").number(number).then("comments")
}
