//! `add_labels`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::text;
use crate::nonce::{Mark, unreadable};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::unusual;
use crate::write::Write;
use http::Method;
use model::EffectMarker;
use provider::contract::{Failure, Probed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddLabels {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The number of the issue or pull request.
    number: Number,
    /// The labels. GitHub makes those that do not exist.
    #[schemars(length(min = 1, max = 20), inner(length(min = 1, max = 50)))]
    labels: Vec<String>,
}

/// An issue or pull request that has the labels.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Labelled {
    /// The number.
    number: Number,
    /// The labels of the call. Those of others are not among them.
    labels: Vec<String>,
}

/// Where to look for the labels.
#[derive(Debug, Serialize, Deserialize)]
struct Handle {
    owner: Owner,
    repo: RepoName,
    number: Number,
    labels: Vec<String>,
}

impl Write for AddLabels {
    type Facts = ();
    type Output = Labelled;

    const NAME: &'static str = "add_labels";
    const DESCRIPTION: &'static str = "Adds labels to an issue or pull request. Its other labels stay.";
    const IDEMPOTENT: bool = true;

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn number(&self) -> Option<Number> {
        Some(self.number)
    }

    fn summary(&self) -> String {
        format!("add labels to {}#{}", self.repo(), self.number)
    }

    fn change(&self, _facts: Option<&()>, _mark: Mark<'_>) -> Option<Change> {
        let target = labels_of(self.repo(), self.number);
        Some(Change { method: Method::POST, target, body: json!({ "labels": self.labels }) })
    }

    fn outcome(&self, answer: &Value) -> Option<(Labelled, String)> {
        has_all(answer, &self.labels)?.then(|| {
            let summary = format!("added labels to {}#{}", self.repo(), self.number);
            (Labelled { number: self.number, labels: self.labels.clone() }, summary)
        })
    }

    fn handle(&self, _facts: Option<&()>, _marker: &EffectMarker) -> Option<Value> {
        let (owner, repo) = (self.owner.clone(), self.repo.clone());
        serde_json::to_value(Handle { owner, repo, number: self.number, labels: self.labels.clone() }).ok()
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let Handle { owner, repo, number, labels } = serde_json::from_value(handle).map_err(|_why| unreadable())?;
        let repo = Repo { owner: &owner, name: &repo };
        let found = session.get(&labels_of(repo, number).with("per_page", "100")).await?;
        let has = if has_all(&found, &labels).ok_or_else(unusual)? { "has" } else { "does not have" };
        let message = format!("{repo}#{number} {has} the labels of the call now. Adding a label again does no harm.");
        Ok(Probed::State { message })
    }
}

fn labels_of(repo: Repo<'_>, number: Number) -> Target {
    Target::repo(repo).then("issues").number(number).then("labels")
}

/// Returns whether a list has all labels; `None` if it is no list of labels. GitHub compares labels without their case.
fn has_all(list: &Value, labels: &[String]) -> Option<bool> {
    let names: Option<Vec<String>> = list.as_array()?.iter().map(|label| text(label, "/name")).collect();
    let names: Vec<String> = names?.iter().map(|name| name.to_lowercase()).collect();
    Some(labels.iter().all(|label| names.contains(&label.to_lowercase())))
}
