//! `create_issue`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::nonce::{BODY_CHARS_MAX, Handle, marked};
use crate::params::{Owner, Repo, RepoName};
use crate::probe;
use crate::shapes::Touched;
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
pub(super) struct CreateIssue {
    /// Whose repository it is.
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

impl NativeAction for CreateIssue {
    type Shared = Github;
    type Facts = ();
    type Output = Touched;

    const NAME: &'static str = "create_issue";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Opens an issue.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = WRITES;

    fn summary(&self) -> String {
        format!("open an issue in {}", self.repo())
    }

    fn guard(&self, shared: &Github, _facts: Option<&()>, _now: Timestamp) -> Guard {
        shared.guardrails.repo(self.repo())
    }

    fn seal(&self, shared: &Github, _facts: Option<&()>, nonce: &Nonce) -> Option<SealedRequest> {
        Some(shared.client.seal(&self.change(nonce), nonce))
    }

    fn probe_handle(&self, _facts: Option<&Self::Facts>, planted: &EffectMarker) -> Option<Value> {
        Handle::stored(self.repo(), None, planted)
    }

    async fn probe(shared: &Github, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        Self::look(&shared.session(execution)?.patient(), handle).await
    }

    async fn run(self, shared: &Github, _: Option<()>, execution: &Execution) -> Result<(Touched, String), Failure> {
        self.perform(&shared.session(execution)?).await
    }
}

impl CreateIssue {
    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn change(&self, nonce: &Nonce) -> Change {
        let body = marked(self.body.as_deref(), nonce);
        Change {
            method: Method::POST,
            target: Target::repo(self.repo()).then("issues"),
            body: json!({ "title": self.title, "body": body, "labels": self.labels }),
        }
    }

    pub(super) async fn perform(&self, session: &Session<'_>) -> Result<(Touched, String), Failure> {
        let answer = session.write(&self.change(session.nonce())).await?;
        told(self.repo(), &answer).ok_or_else(unusual_write)
    }

    pub(super) async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
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
