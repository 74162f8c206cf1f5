//! `create_pr`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::nonce::{BODY_CHARS_MAX, Handle, marked};
use crate::params::{BranchName, HeadName, Owner, Repo, RepoName};
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
pub(super) struct CreatePr {
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
    /// The branch with the changes, or `owner:branch` of a fork.
    head: HeadName,
    /// The branch to change. A production branch needs L3.
    base: BranchName,
    /// Whether it is not yet ready for review.
    #[serde(default)]
    draft: bool,
}

impl NativeAction for CreatePr {
    type Shared = Github;
    type Facts = ();
    type Output = Touched;

    const NAME: &'static str = "create_pr";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Opens a pull request. One onto a production branch needs L3.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = WRITES;

    fn level(&self, shared: &Github) -> Level {
        if shared.guardrails.is_production(&self.base) { Level::Production } else { Self::LEVEL }
    }

    fn summary(&self) -> String {
        format!("open a pull request in {} from {} onto {}", self.repo(), self.head, self.base)
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

impl CreatePr {
    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn change(&self, nonce: &Nonce) -> Change {
        let pull_request = json!({
            "title": self.title,
            "body": marked(self.body.as_deref(), nonce),
            "head": self.head,
            "base": self.base,
            "draft": self.draft,
        });
        Change { method: Method::POST, target: Target::repo(self.repo()).then("pulls"), body: pull_request }
    }

    pub(super) async fn perform(&self, session: &Session<'_>) -> Result<(Touched, String), Failure> {
        let answer = session.write(&self.change(session.nonce())).await?;
        told(self.repo(), &answer).ok_or_else(unusual_write)
    }

    pub(super) async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
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
