//! `search_code`.

use crate::base::Target;
use crate::client::Session;
use crate::fields::{count, flag, text};
use crate::guardrails::refusal;
use crate::params::{Limit, Owner, Repo, RepoName};
use crate::read::Read;
use crate::{same_repo, unusual};
use provider::contract::{Failure, Guard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchCode {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The text to find, without quotes and backslashes.
    #[schemars(length(min = 1, max = 200))]
    text: String,
    /// Only files with this extension: `rs`.
    #[serde(default)]
    #[schemars(length(max = 20), regex(pattern = "^[A-Za-z0-9_]+$"))]
    extension: Option<String>,
    /// The most files to return.
    #[serde(default)]
    limit: Limit,
    /// The page, from 1.
    #[serde(default = "first")]
    #[schemars(range(min = 1, max = 1000))]
    page: u16,
}

/// The most results of a search that GitHub returns (REST API, "Search").
const RESULTS_MAX: usize = 1000;

fn first() -> u16 {
    1
}

/// The files of the default branch in which the text is.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Found {
    /// The files.
    files: Vec<File>,
    /// The number of all files with the text.
    total: u64,
    /// Whether GitHub did not search everything in time.
    is_incomplete: bool,
    /// The next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page: Option<u16>,
}

/// A file with the text.
#[derive(Debug, Serialize, JsonSchema)]
struct File {
    /// The path.
    path: String,
    /// The page of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl Read for SearchCode {
    type Output = Found;

    const NAME: &'static str = "search_code";
    const DESCRIPTION: &'static str = "Finds the files of one repository that contain a text, in the default branch.";

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("search the code of {}", self.repo())
    }

    fn guard(&self) -> Guard {
        // SECURITY: the text is quoted in GitHub's query. Outside of the quotes it could name other repositories.
        if self.text.contains(|c: char| c == '"' || c == '\\' || c.is_control()) {
            return Guard::Refuse(refusal("The text is one line without quotes and backslashes."));
        }
        Guard::Pass
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Found, String), Failure> {
        let extension = self.extension.as_ref().map(|extension| format!(" extension:{extension}"));
        let query = format!("\"{}\" repo:{}{}", self.text, self.repo(), extension.unwrap_or_default());
        let (limit, page) = (self.limit.count(), usize::from(self.page));
        let at = Target::fixed("/search/code").with("q", &query);
        let at = at.with("per_page", &limit.to_string()).with("page", &page.to_string());
        let v = session.get(&at).await?;
        let items = v.pointer("/items").and_then(Value::as_array).ok_or_else(unusual)?;
        let mut files = Vec::new();
        for item in items.iter().take(limit) {
            same_repo(self.repo(), Some(text(item, "/repository/full_name").ok_or_else(unusual)?))?;
            files.push(File { path: text(item, "/path").ok_or_else(unusual)?, url: text(item, "/html_url") });
        }
        let total = count(&v, "/total_count").ok_or_else(unusual)?;
        let next_page = next_page(self.page, limit, total);
        let summary = format!("files of {} with the text: {}", self.repo(), files.len());
        Ok((Found { files, total, is_incomplete: flag(&v, "/incomplete_results"), next_page }, summary))
    }
}

/// Returns the page after this one, if GitHub has one.
fn next_page(page: u16, limit: usize, total: u64) -> Option<u16> {
    let next = page.checked_add(1)?;
    let seen = u64::try_from(limit * usize::from(page)).unwrap_or(u64::MAX);
    (total > seen && limit * usize::from(next) <= RESULTS_MAX).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_on_as_far_as_github_returns_results() {
        assert_eq!((next_page(1, 30, 30), next_page(1, 30, 31)), (None, Some(2)));
        assert_eq!((next_page(10, 30, 5_000), next_page(32, 30, 5_000)), (Some(11), Some(33)));
        assert_eq!((next_page(33, 30, 5_000), next_page(10, 100, 5_000)), (None, None));
    }
}
