//! `get_pr_checks`.

use crate::base::Target;
use crate::client::Session;
use crate::fields::{commit, count, text};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::read::Read;
use crate::{same_repo, unusual};
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetPrChecks {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The number of the pull request.
    number: Number,
}

/// The checks of the head commit of a pull request.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Checks {
    /// The head commit.
    head_sha: String,
    /// At most 100 statuses and 100 check runs.
    checks: Vec<Check>,
    /// Whether the commit has more checks than are listed.
    more: bool,
}

/// A status or a check run of a commit.
#[derive(Debug, Serialize, JsonSchema)]
struct Check {
    /// The name.
    name: String,
    /// `success`, `failure`, `pending`, `in_progress`, and other words of GitHub.
    state: String,
    /// A sentence about the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The page with its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl Read for GetPrChecks {
    type Output = Checks;

    const NAME: &'static str = "get_pr_checks";
    const DESCRIPTION: &'static str = "Shows the statuses and check runs of the head commit of a pull request.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("get checks of pull request {}#{}", self.repo(), self.number)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Checks, String), Failure> {
        let v = session.get(&Target::repo(self.repo()).then("pulls").number(self.number)).await?;
        same_repo(self.repo(), text(&v, "/base/repo/full_name"))?;
        let head_sha = commit(&v, "/head/sha").ok_or_else(unusual)?;
        let at = Target::repo(self.repo()).then("commits").commit(&head_sha);
        let statuses = session.get(&at.clone().then("status").with("per_page", "100")).await?;
        let runs = session.get(&at.then("check-runs").with("per_page", "100")).await?;
        let (mut checks, mut more) = entries(&statuses, "/statuses", status)?;
        let (check_runs, more_runs) = entries(&runs, "/check_runs", check_run)?;
        checks.extend(check_runs);
        more |= more_runs;
        let summary = format!("checks of pull request {}#{}: {}", self.repo(), self.number, checks.len());
        Ok((Checks { head_sha, checks, more }, summary))
    }
}

/// Returns the entries of a list, and whether there are more than it has.
fn entries(v: &Value, list: &str, shape: impl Fn(&Value) -> Option<Check>) -> Result<(Vec<Check>, bool), Failure> {
    let found = v.pointer(list).and_then(Value::as_array).ok_or_else(unusual)?;
    let checks: Option<Vec<Check>> = found.iter().map(shape).collect();
    let checks = checks.ok_or_else(unusual)?;
    let total = count(v, "/total_count").and_then(|total| usize::try_from(total).ok()).ok_or_else(unusual)?;
    let more = total > checks.len();
    Ok((checks, more))
}

fn status(v: &Value) -> Option<Check> {
    Some(Check {
        name: text(v, "/context")?,
        state: text(v, "/state")?,
        description: text(v, "/description"),
        url: text(v, "/target_url"),
    })
}

fn check_run(v: &Value) -> Option<Check> {
    Some(Check {
        name: text(v, "/name")?,
        // A run has a conclusion when it is completed.
        state: text(v, "/conclusion").or_else(|| text(v, "/status"))?,
        description: text(v, "/output/title"),
        url: text(v, "/html_url"),
    })
}
