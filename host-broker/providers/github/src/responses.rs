//! The results of the actions: small shapes of our own instead of GitHub's whole documents.
//!
//! GitHub's documents are read leniently: a user that is `null` (deleted) or a field that is missing leaves a gap. Only
//! a missing number or name, which a shape needs, makes an entry unusable.

use crate::fields::{count, flag, is_pull_request, text};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Repository {
    /// `owner/name`.
    pub(super) full_name: String,
    /// The owner's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    /// Whether only some may see it.
    pub(super) private: bool,
    /// Whether it is read-only.
    pub(super) archived: bool,
    /// The branch that pull requests go to by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default_branch: Option<String>,
    /// The language most of it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<String>,
    /// How many issues and pull requests are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) open_issues: Option<u64>,
    /// When it was last pushed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pushed_at: Option<String>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Issue {
    /// Its number.
    pub(super) number: u64,
    /// Its title.
    pub(super) title: String,
    /// `open` or `closed`.
    pub(super) state: String,
    /// The author; absent if that account is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<String>,
    /// Its labels.
    pub(super) labels: Vec<String>,
    /// How many comments it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comments: Option<u64>,
    /// When it was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<String>,
    /// When it last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) updated_at: Option<String>,
    /// Whether this number is a pull request's: GitHub counts both together.
    pub(super) is_pull_request: bool,
    /// Its text; only `get_issue` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<String>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct PullRequest {
    /// Its number.
    pub(super) number: u64,
    /// Its title.
    pub(super) title: String,
    /// `open` or `closed`.
    pub(super) state: String,
    /// Whether it is not yet ready for review.
    pub(super) draft: bool,
    /// Whether it was merged.
    pub(super) merged: bool,
    /// The author; absent if that account is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<String>,
    /// The branch it comes from, `owner:branch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<String>,
    /// The commit it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) head_sha: Option<String>,
    /// The branch it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
    /// When it was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<String>,
    /// When it last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) updated_at: Option<String>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

/// A file that a pull request changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct ChangedFile {
    /// Its path.
    pub(super) path: String,
    /// `added`, `modified`, `removed`, `renamed`.
    pub(super) status: String,
    /// Lines added.
    pub(super) additions: u64,
    /// Lines removed.
    pub(super) deletions: u64,
}

/// A review comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct ReviewComment {
    /// Its id.
    pub(super) id: u64,
    /// The author; absent if that account is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<String>,
    /// The file it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    /// The line it is on; absent if the line is no longer there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    /// The comment it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_reply_to: Option<u64>,
    /// The text.
    pub(super) body: String,
    /// When it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<String>,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

/// A comment in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Comment {
    /// The id.
    pub(super) id: u64,
    /// The author; absent if that account is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<String>,
    /// The text.
    pub(super) body: String,
    /// The time of writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<String>,
    /// The time of the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) updated_at: Option<String>,
    /// The page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Review {
    /// The id.
    pub(super) id: u64,
    /// The reviewer; absent if that account is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<String>,
    /// The verdict: `approved`, `changes_requested`, `commented`, `dismissed` or `pending`.
    pub(super) state: String,
    /// The text.
    pub(super) body: String,
    /// The commit that was reviewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<String>,
    /// The time of the review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) submitted_at: Option<String>,
    /// The page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Branch {
    /// Its name.
    pub(super) name: String,
    /// The commit it points to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha: Option<String>,
    /// Whether rules protect it.
    pub(super) protected: bool,
}

/// An issue or pull request that a write made or changed: only what identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Touched {
    /// Its number.
    pub(super) number: u64,
    /// `open` or `closed`.
    pub(super) state: String,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

/// A comment that a write made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Commented {
    /// Its id.
    pub(super) id: u64,
    /// Its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

impl Repository {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        Some(Self {
            full_name: text(v, "/full_name")?,
            description: text(v, "/description"),
            private: flag(v, "/private"),
            archived: flag(v, "/archived"),
            default_branch: text(v, "/default_branch"),
            language: text(v, "/language"),
            open_issues: count(v, "/open_issues_count"),
            pushed_at: text(v, "/pushed_at"),
            url: text(v, "/html_url"),
        })
    }
}

impl Issue {
    /// From GitHub's document, without the text.
    pub(super) fn from(v: &Value) -> Option<Self> {
        let labels = v.get("labels").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Some(Self {
            number: count(v, "/number")?,
            title: text(v, "/title").unwrap_or_default(),
            state: text(v, "/state").unwrap_or_default(),
            author: text(v, "/user/login"),
            // A label is an object, or in old documents its bare name.
            labels: labels.iter().filter_map(|label| text(label, "/name").or_else(|| text(label, ""))).collect(),
            comments: count(v, "/comments"),
            created_at: text(v, "/created_at"),
            updated_at: text(v, "/updated_at"),
            is_pull_request: is_pull_request(v),
            body: None,
            url: text(v, "/html_url"),
        })
    }

    /// From GitHub's document, with the text.
    pub(super) fn whole(v: &Value) -> Option<Self> {
        Some(Self { body: text(v, "/body"), ..Self::from(v)? })
    }
}

impl PullRequest {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        let label = || match (text(v, "/head/user/login"), text(v, "/head/ref")) {
            (Some(owner), Some(branch)) => Some(format!("{owner}:{branch}")),
            (None, branch) => branch,
            (Some(_), None) => None,
        };
        Some(Self {
            number: count(v, "/number")?,
            title: text(v, "/title").unwrap_or_default(),
            state: text(v, "/state").unwrap_or_default(),
            draft: flag(v, "/draft"),
            // Lists have only the date.
            merged: flag(v, "/merged") || text(v, "/merged_at").is_some(),
            author: text(v, "/user/login"),
            head: text(v, "/head/label").or_else(label),
            head_sha: text(v, "/head/sha"),
            base: text(v, "/base/ref"),
            created_at: text(v, "/created_at"),
            updated_at: text(v, "/updated_at"),
            url: text(v, "/html_url"),
        })
    }
}

impl ChangedFile {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        Some(Self {
            path: text(v, "/filename")?,
            status: text(v, "/status").unwrap_or_default(),
            additions: count(v, "/additions").unwrap_or_default(),
            deletions: count(v, "/deletions").unwrap_or_default(),
        })
    }
}

impl ReviewComment {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        Some(Self {
            id: count(v, "/id")?,
            author: text(v, "/user/login"),
            path: text(v, "/path"),
            line: count(v, "/line"),
            in_reply_to: count(v, "/in_reply_to_id"),
            body: text(v, "/body").unwrap_or_default(),
            created_at: text(v, "/created_at"),
            url: text(v, "/html_url"),
        })
    }
}

impl Comment {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        Some(Self {
            id: count(v, "/id")?,
            author: text(v, "/user/login"),
            body: text(v, "/body").unwrap_or_default(),
            created_at: text(v, "/created_at"),
            updated_at: text(v, "/updated_at"),
            url: text(v, "/html_url"),
        })
    }
}

impl Review {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        Some(Self {
            id: count(v, "/id")?,
            author: text(v, "/user/login"),
            state: text(v, "/state")?.to_ascii_lowercase(),
            body: text(v, "/body").unwrap_or_default(),
            commit: text(v, "/commit_id"),
            submitted_at: text(v, "/submitted_at"),
            url: text(v, "/html_url"),
        })
    }
}

impl Branch {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        Some(Self { name: text(v, "/name")?, sha: text(v, "/commit/sha"), protected: flag(v, "/protected") })
    }
}

impl Touched {
    /// From GitHub's document.
    pub(super) fn from(v: &Value) -> Option<Self> {
        Some(Self { number: count(v, "/number")?, state: text(v, "/state")?, url: text(v, "/html_url") })
    }
}

impl Commented {
    /// From GitHub's document. A comment says which issue or pull request it is on; an answer that does not is not
    /// the answer to a comment.
    pub(super) fn from(v: &Value) -> Option<Self> {
        let on = text(v, "/issue_url").or_else(|| text(v, "/pull_request_url"));
        on.and(count(v, "/id")).map(|id| Self { id, url: text(v, "/html_url") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn gaps_in_githubs_documents_are_gaps_and_not_errors() {
        let issue = Issue::whole(
            &json!({ "number": 7, "user": null, "labels": [{"name": "bug"}, "old", {"name": null}], "pull_request": null }),
        );
        let issue = issue.unwrap();
        assert_eq!((issue.number, issue.author, issue.is_pull_request), (7, None, false));
        assert_eq!(issue.labels, ["bug", "old"]);
        let pr = PullRequest::from(
            &json!({ "number": 8, "head": {"user": null, "ref": "x", "repo": null}, "merged_at": "2026-01-01T00:00:00Z" }),
        );
        assert!(pr.is_some_and(|pr| pr.merged && pr.head.as_deref() == Some("x")));
    }

    #[test]
    fn entries_without_their_identifier_are_rejected() {
        for v in [
            json!(null),
            json!([]),
            json!({}),
            json!({"number": "7"}),
            json!({"number": -1}),
            json!({"id": 1, "message": "x"}),
        ] {
            assert_eq!(Issue::from(&v), None);
            assert_eq!(PullRequest::from(&v), None);
            assert_eq!(Repository::from(&v), None);
            assert_eq!(Touched::from(&v), None);
            assert_eq!(Commented::from(&v), None);
        }
    }
}
