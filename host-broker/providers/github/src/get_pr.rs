//! `get_pr`.

use crate::base::Target;
use crate::client::Session;
use crate::fields::{count, text};
use crate::pages::{Place, listed};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::read::Read;
use crate::responses::{ChangedFile, PullRequest};
use crate::{same_repo, unusual};
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetPr {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The pull request's number.
    number: Number,
    /// Where the files of an earlier answer ended: its `cursor`, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// A pull request with a summary of its diff.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Details {
    /// The pull request.
    pull_request: PullRequest,
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// Whether it can be merged without conflicts; absent while GitHub is still finding out.
    #[serde(skip_serializing_if = "Option::is_none")]
    mergeable: Option<bool>,
    /// How many commits it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    commits: Option<u64>,
    /// How many files it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_files: Option<u64>,
    /// Lines added, over all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    additions: Option<u64>,
    /// Lines removed, over all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    deletions: Option<u64>,
    /// At most 50 files, without their patches.
    files: Vec<ChangedFile>,
    /// Whether it changes more files than are listed.
    more_files: bool,
    /// Where the files go on, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// GitHub sends each file with its patch, so few at a time; the totals above count all.
const FILES_MAX: usize = 50;

impl Read for GetPr {
    type Output = Details;

    const NAME: &'static str = "get_pr";
    const DESCRIPTION: &'static str = "Shows one pull request: its text, its state, and a summary of its diff (totals, and the files with their line counts, 50 at a time).";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("get pull request {}#{}", self.repo(), self.number)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Details, String), Failure> {
        let at = Target::repo(self.repo()).then("pulls").number(self.number);
        let v = session.get(&at).await?;
        let pull_request = PullRequest::from(&v).ok_or_else(unusual)?;
        same_repo(self.repo(), text(&v, "/base/repo/full_name"))?;
        let list = at.then("files").with("per_page", "50");
        let files = listed(session, &list, (self.cursor.as_ref(), FILES_MAX), |_| true, ChangedFile::from).await?;
        let (more_files, cursor) = (files.more(), files.cursor());
        let details = Details {
            pull_request,
            body: text(&v, "/body"),
            mergeable: v.get("mergeable").and_then(Value::as_bool),
            commits: count(&v, "/commits"),
            changed_files: count(&v, "/changed_files"),
            additions: count(&v, "/additions"),
            deletions: count(&v, "/deletions"),
            files: files.entries,
            more_files,
            cursor,
        };
        Ok((details, format!("pull request {}#{}", self.repo(), self.number)))
    }
}
