//! `add_labels`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::text;
use crate::nonce::{Handle, Mark};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::unusual;
use crate::write::Write;
use http::Method;
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

/// The labels of an issue or pull request.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Labelled {
    /// The number.
    number: Number,
    /// All its labels.
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
        let labels = names(answer)?;
        // GitHub compares labels without their case.
        let has = |wanted: &String| labels.iter().any(|label| label.to_lowercase() == wanted.to_lowercase());
        self.labels.iter().all(has).then(|| {
            let summary = format!("added labels to {}#{}", self.repo(), self.number);
            (Labelled { number: self.number, labels: labels.clone() }, summary)
        })
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let handle = Handle::read(handle)?;
        let (repo, number) = handle.thread()?;
        let labels = names(&session.get(&labels_of(repo, number)).await?).ok_or_else(unusual)?;
        let labels = if labels.is_empty() { "no labels".to_owned() } else { labels.join(", ") };
        let message = format!("{repo}#{number} has {labels} now. Adding a label again does no harm.");
        Ok(Probed::State { message })
    }
}

fn labels_of(repo: Repo<'_>, number: Number) -> Target {
    Target::repo(repo).then("issues").number(number).then("labels")
}

fn names(labels: &Value) -> Option<Vec<String>> {
    labels.as_array()?.iter().map(|label| text(label, "/name")).collect()
}
