//! `comment_issue`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::nonce::{BODY_CHARS_MAX, Handle, marked};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::probe;
use crate::shapes::Commented;
use crate::{Github, WRITES, unusual_write};
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
pub(super) struct CommentIssue {
    /// Whose repository it is.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The issue's number.
    number: Number,
    /// The text, in GitHub's Markdown.
    #[schemars(length(min = 1, max = BODY_CHARS_MAX))]
    body: String,
}

impl NativeAction for CommentIssue {
    type Shared = Github;
    type Facts = ();
    type Output = Commented;

    const NAME: &'static str = "comment_issue";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Adds a comment to an issue.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = WRITES;

    fn summary(&self) -> String {
        format!("comment on {}#{}", self.repo(), self.number)
    }

    fn guard(&self, shared: &Github, _facts: Option<&()>, _now: Timestamp) -> Guard {
        shared.guardrails.repo(self.repo())
    }

    fn seal(&self, shared: &Github, _facts: Option<&()>, nonce: &Nonce) -> Option<SealedRequest> {
        Some(shared.client.seal(&added(self.repo(), self.number, &self.body, nonce), nonce))
    }

    fn probe_handle(&self, _facts: Option<&Self::Facts>, planted: &EffectMarker) -> Option<Value> {
        Handle::stored(self.repo(), Some(self.number), planted)
    }

    async fn probe(shared: &Github, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        look(&shared.session(execution)?.patient(), &Handle::read(handle)?).await
    }

    async fn run(self, shared: &Github, _: Option<()>, execution: &Execution) -> Result<(Commented, String), Failure> {
        self.perform(&shared.session(execution)?).await
    }
}

impl CommentIssue {
    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    pub(super) async fn perform(&self, session: &Session<'_>) -> Result<(Commented, String), Failure> {
        let change = added(self.repo(), self.number, &self.body, session.nonce());
        let answer = session.write(&change).await?;
        told(self.repo(), self.number, &answer).ok_or_else(unusual_write)
    }
}

/// A comment more in the conversation of an issue or pull request.
pub(super) fn added(repo: Repo<'_>, number: Number, body: &str, nonce: &Nonce) -> Change {
    let comment = json!({ "body": marked(Some(body), nonce) });
    Change { method: Method::POST, target: conversation(repo, number), body: comment }
}

/// Looks for the comment in the conversation.
///
/// # Errors
/// [`Failure`]; a read, nothing was changed.
pub(super) async fn look(session: &Session<'_>, handle: &Handle) -> Result<Probed, Failure> {
    let (repo, number) = handle.thread()?;
    let list = probe::recent(conversation(repo, number), session.now());
    probe::marked(session, handle, &list, |found| told(repo, number, found)).await
}

/// A comment in the words of its summary.
pub(super) fn told(repo: Repo<'_>, number: Number, comment: &Value) -> Option<(Commented, String)> {
    let comment = Commented::from(comment)?;
    let summary = format!("commented on {repo}#{number}");
    Some((comment, summary))
}

fn conversation(repo: Repo<'_>, number: Number) -> Target {
    Target::repo(repo).then("issues").number(number).then("comments")
}
