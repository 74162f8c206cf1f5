//! `create_pr`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::guardrails::Guardrails;
use crate::nonce::{BODY_CHARS_MAX, Handle, Mark};
use crate::params::{BranchName, HeadName, Owner, Repo, RepoName};
use crate::probe;
use crate::responses::Touched;
use crate::write::Write;
use http::Method;
use provider::contract::{Failure, Probed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::Level;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreatePr {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The title.
    #[schemars(length(min = 1, max = 256))]
    title: String,
    /// The text, in GitHub's Markdown.
    #[serde(default)]
    #[schemars(length(max = BODY_CHARS_MAX))]
    body: Option<String>,
    /// The branch with the changes, or `owner:branch` of a fork.
    head: HeadName,
    /// The branch to change. A production branch needs L3.
    base: BranchName,
    /// Whether it is not yet ready for review.
    #[serde(default)]
    draft: bool,
}

impl Write for CreatePr {
    type Facts = ();
    type Output = Touched;

    const NAME: &'static str = "create_pr";
    const DESCRIPTION: &'static str = "Opens a pull request. One onto a production branch needs L3.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("open a pull request in {} from {} onto {}", self.repo(), self.head, self.base)
    }

    fn level(&self, guardrails: &Guardrails) -> Level {
        if guardrails.is_production(&self.base) { Level::Production } else { Self::LEVEL }
    }

    fn change(&self, _facts: Option<&()>, mark: Mark<'_>) -> Option<Change> {
        let pull_request = json!({
            "title": self.title,
            "body": mark.on(self.body.as_deref()),
            "head": self.head,
            "base": self.base,
            "draft": self.draft,
        });
        Some(Change { method: Method::POST, target: Target::repo(self.repo()).then("pulls"), body: pull_request })
    }

    fn outcome(&self, answer: &Value) -> Option<(Touched, String)> {
        told(self.repo(), answer)
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let handle = Handle::read(handle)?;
        let list = probe::newest(Target::repo(handle.repo()).then("pulls").with("state", "all"));
        probe::marked(session, &handle, &list, |found| told(handle.repo(), found)).await
    }
}

fn told(repo: Repo<'_>, pull_request: &Value) -> Option<(Touched, String)> {
    let pull_request = Touched::from(pull_request)?;
    let summary = format!("opened pull request {repo}#{}", pull_request.number);
    Some((pull_request, summary))
}
