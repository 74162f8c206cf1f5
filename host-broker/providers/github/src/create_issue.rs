//! `create_issue`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::nonce::{BODY_CHARS_MAX, Handle, Mark};
use crate::params::{Owner, Repo, RepoName};
use crate::probe;
use crate::responses::Touched;
use crate::write::Write;
use http::Method;
use provider::contract::{Failure, Probed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateIssue {
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
    /// Labels to put on it; GitHub makes those that do not exist.
    #[serde(default)]
    #[schemars(length(max = 20), inner(length(min = 1, max = 50)))]
    labels: Vec<String>,
}

impl Write for CreateIssue {
    type Facts = ();
    type Output = Touched;

    const NAME: &'static str = "create_issue";
    const DESCRIPTION: &'static str = "Opens an issue.";
    const MAY_VARY: &[&str] = &["title", "body"];

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("open an issue in {}", self.repo())
    }

    fn change(&self, _facts: Option<&()>, mark: Mark<'_>) -> Option<Change> {
        let body = mark.on(self.body.as_deref());
        Some(Change {
            method: Method::POST,
            target: Target::repo(self.repo()).then("issues"),
            body: json!({ "title": self.title, "body": body, "labels": self.labels }),
        })
    }

    fn outcome(&self, answer: &Value) -> Option<(Touched, String)> {
        told(self.repo(), answer)
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let handle = Handle::read(handle)?;
        let list = probe::newest(Target::repo(handle.repo()).then("issues").with("state", "all"));
        probe::marked(session, &handle, &list, |found| told(handle.repo(), found)).await
    }
}

fn told(repo: Repo<'_>, issue: &Value) -> Option<(Touched, String)> {
    let issue = Touched::from(issue)?;
    let summary = format!("opened issue {repo}#{}", issue.number);
    Some((issue, summary))
}
