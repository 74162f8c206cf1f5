//! `comment_issue`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::nonce::{BODY_CHARS_MAX, Handle, Mark};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::probe;
use crate::responses::Commented;
use crate::write::Write;
use http::Method;
use provider::contract::{Failure, Probed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommentIssue {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The issue's number.
    number: Number,
    /// The text, in GitHub's Markdown.
    #[schemars(length(min = 1, max = BODY_CHARS_MAX))]
    body: String,
}

impl Write for CommentIssue {
    type Facts = ();
    type Output = Commented;

    const NAME: &'static str = "comment_issue";
    const DESCRIPTION: &'static str = "Adds a comment to an issue.";
    const MAY_VARY: &[&str] = &["body"];

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn number(&self) -> Option<Number> {
        Some(self.number)
    }

    fn summary(&self) -> String {
        format!("comment on {}#{}", self.repo(), self.number)
    }

    fn change(&self, _facts: Option<&()>, mark: Mark<'_>) -> Option<Change> {
        Some(added(self.repo(), self.number, &self.body, mark))
    }

    fn outcome(&self, answer: &Value) -> Option<(Commented, String)> {
        told(self.repo(), self.number, answer)
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        look(session, &Handle::read(handle)?).await
    }
}

/// A comment more in the conversation of an issue or pull request.
pub(super) fn added(repo: Repo<'_>, number: Number, body: &str, mark: Mark<'_>) -> Change {
    let comment = json!({ "body": mark.on(Some(body)) });
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
