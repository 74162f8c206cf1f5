//! The parameters that GitHub's actions share, each with GitHub's own alphabet.
//!
//! SECURITY: octocrab does not escape the values in a path, so an owner `o/../../user` would reach another endpoint
//! with the token. A value that exists here cannot leave its place in a path.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use shared::names::{Grammar, Name};
use std::borrow::Cow;
use std::fmt;

/// A user's or an organisation's login: `octocat`.
pub(super) type Owner = Name<OwnerGrammar>;
/// A repository's name without its owner: `hello-world`.
pub(super) type RepoName = Name<RepoNameGrammar>;
/// A branch's short name: `feature/login`, never `refs/heads/feature/login`.
pub(super) type BranchName = Name<BranchNameGrammar>;
/// Where a pull request comes from: a branch of the repository, or `owner:branch` of a fork.
pub(super) type HeadName = Name<HeadNameGrammar>;
/// A full commit id in lower-case hexadecimal.
pub(super) type CommitSha = Name<CommitShaGrammar>;

/// The path of a file or directory in a repository: `src/main.rs`.
pub(super) type FilePath = Name<FilePathGrammar>;

/// Grammar of [`Owner`].
#[derive(Debug)]
pub(super) struct OwnerGrammar;
/// Grammar of [`RepoName`].
#[derive(Debug)]
pub(super) struct RepoNameGrammar;
/// Grammar of [`BranchName`].
#[derive(Debug)]
pub(super) struct BranchNameGrammar;
/// Grammar of [`HeadName`].
#[derive(Debug)]
pub(super) struct HeadNameGrammar;
/// Grammar of [`CommitSha`].
#[derive(Debug)]
pub(super) struct CommitShaGrammar;

/// Grammar of [`FilePath`].
#[derive(Debug)]
pub(super) struct FilePathGrammar;

impl Grammar for OwnerGrammar {
    const WHAT: &'static str = "owner";
    // The underscore is that of enterprise-managed users: `octocat_acme`.
    const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,38}$";
    fn accepts(text: &str) -> bool {
        text.len() <= 39
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    }
}

impl Grammar for RepoNameGrammar {
    const WHAT: &'static str = "repo";
    // `.`, `..` and names of dots alone are not in it; `.github` is.
    const PATTERN: &'static str = r"^\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]{0,97}$";
    fn accepts(text: &str) -> bool {
        let rest = text.strip_prefix("..").or_else(|| text.strip_prefix('.')).unwrap_or(text);
        rest.len() <= 98
            && rest.as_bytes().first().is_some_and(|b| b.is_ascii_alphanumeric() || b"_-".contains(b))
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    }
}

const BRANCH_BYTES_MAX: usize = 200;

impl Grammar for BranchNameGrammar {
    const WHAT: &'static str = "branch";
    const PATTERN: &'static str =
        r"^[A-Za-z0-9_#+=,@-]+(\.[A-Za-z0-9_#+=,@-]+)*(/[A-Za-z0-9_#+=,@-]+(\.[A-Za-z0-9_#+=,@-]+)*)*$";
    /// Narrower than git's own rules: no component that starts or ends with a dot or ends in `.lock`, and no
    /// spelled-out reference, so that a guardrail on a name cannot be passed by another name of the same branch.
    fn accepts(text: &str) -> bool {
        let spelled_out = ["refs", "heads", "tags", "remotes"];
        let first = text.split('/').next().unwrap_or_default();
        text.len() <= BRANCH_BYTES_MAX
            && text != "@"
            && !text.starts_with('-')
            && !(text.contains('/') && spelled_out.iter().any(|word| first.eq_ignore_ascii_case(word)))
            && text.split('/').all(is_component)
    }
}

fn is_component(text: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_#+=,@-".contains(&b));
    text.split('.').all(is_part) && text.rsplit('.').next().is_none_or(|end| !(text.contains('.') && end == "lock"))
}

impl Grammar for HeadNameGrammar {
    const WHAT: &'static str = "head";
    const PATTERN: &'static str = r"^([A-Za-z0-9][A-Za-z0-9_-]{0,38}:)?[A-Za-z0-9_#+=,@-]+(\.[A-Za-z0-9_#+=,@-]+)*(/[A-Za-z0-9_#+=,@-]+(\.[A-Za-z0-9_#+=,@-]+)*)*$";
    fn accepts(text: &str) -> bool {
        match text.split_once(':') {
            Some((owner, branch)) => OwnerGrammar::accepts(owner) && BranchNameGrammar::accepts(branch),
            None => BranchNameGrammar::accepts(text),
        }
    }
}

impl Grammar for CommitShaGrammar {
    const WHAT: &'static str = "sha";
    const PATTERN: &'static str = "^([0-9a-f]{40}|[0-9a-f]{64})$";
    fn accepts(text: &str) -> bool {
        matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    }
}

impl Grammar for FilePathGrammar {
    const WHAT: &'static str = "path";
    const PATTERN: &'static str = r"^[^/\\\x00-\x1f\x7f]+(/[^/\\\x00-\x1f\x7f]+)*$";
    /// No component is `.` or `..`: a server or a library could take such a path for another endpoint.
    fn accepts(text: &str) -> bool {
        let is_name = |name: &str| !matches!(name, "" | "." | "..");
        text.len() <= 1024
            && !text.contains(|c: char| c.is_ascii_control() || c == '\\')
            && text.split('/').all(is_name)
    }
}

/// A repository, `octocat/hello-world`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repo<'a> {
    /// The owner.
    pub(super) owner: &'a Owner,
    /// Its name.
    pub(super) name: &'a RepoName,
}

impl fmt::Display for Repo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// The number of an issue or pull request, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Number(u64);

/// Not a number that GitHub gives out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of range")]
pub(super) struct OutOfRange;

impl Number {
    /// The largest that every JSON reader keeps exact.
    const MAX: u64 = 9_007_199_254_740_991;
}

impl TryFrom<u64> for Number {
    type Error = OutOfRange;

    fn try_from(number: u64) -> Result<Self, OutOfRange> {
        if (1..=Self::MAX).contains(&number) { Ok(Self(number)) } else { Err(OutOfRange) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Number {
    fn schema_name() -> Cow<'static, str> {
        "number".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": Self::MAX })
    }
}

/// How many entries a list may bring back: 1–100, 20 unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub(super) struct Limit(u8);

impl Limit {
    /// As a count.
    pub(super) fn count(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(20)
    }
}

impl TryFrom<u8> for Limit {
    type Error = OutOfRange;

    fn try_from(count: u8) -> Result<Self, OutOfRange> {
        if (1..=100).contains(&count) { Ok(Self(count)) } else { Err(OutOfRange) }
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "limit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 20 })
    }
}

/// Which issues or pull requests a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StateFilter {
    /// Those that are open.
    #[default]
    Open,
    /// Those that are closed or merged.
    Closed,
    /// Both.
    All,
}

impl StateFilter {
    /// The word in GitHub's query.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::All => "all",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted<G: Grammar>(text: &str) -> bool {
        text.parse::<Name<G>>().is_ok()
    }

    /// The pattern in the schema and the parser agree, except where the parser is stricter.
    fn in_pattern<G: Grammar>(text: &str) -> bool {
        regex::Regex::new(G::PATTERN).unwrap().is_match(text)
    }

    /// Attack (Providers and modules): An owner or repository contains slashes or dots.
    /// Defence: GitHub's alphabets are enforced. Only absolute addresses of the configured origin
    /// are used.
    #[test]
    fn owners_and_repositories_cannot_leave_their_place_in_a_path() {
        for text in ["octocat", "my-org", "octo_acme", "A1"] {
            assert!(accepted::<OwnerGrammar>(text) && in_pattern::<OwnerGrammar>(text), "{text}");
        }
        for text in ["", ".", "..", "o/../../user", "o%2Fx", "-o", "o?x", "o#", "o x", "o\n", "ö", &"a".repeat(40)] {
            assert!(!accepted::<OwnerGrammar>(text) && !in_pattern::<OwnerGrammar>(text), "{text:?}");
        }
        for text in ["hello-world", ".github", "a.b", "_", "..a", "x.js"] {
            assert!(accepted::<RepoNameGrammar>(text) && in_pattern::<RepoNameGrammar>(text), "{text}");
        }
        for text in ["", ".", "..", "...", "a/b", "a%2e", "a?b", "a#b", "a\\b", "a b", "a\0", &"a".repeat(101)] {
            assert!(!accepted::<RepoNameGrammar>(text) && !in_pattern::<RepoNameGrammar>(text), "{text:?}");
        }
    }

    #[test]
    fn a_branch_has_one_name_only() {
        for text in ["main", "feature/login", "release/1.0", "dependabot/npm_and_yarn/x-1.2.3", "fix#12", "a@b"] {
            assert!(accepted::<BranchNameGrammar>(text) && in_pattern::<BranchNameGrammar>(text), "{text}");
        }
        for text in [
            "", "/a", "a/", "a//b", "a..b", ".a", "a/.b", "a.", "a b", "a~b", "a^", "a:b", "a?b", "a*", "a[b", "a\\b",
            "a%2fb", "a\n",
        ] {
            assert!(!accepted::<BranchNameGrammar>(text) && !in_pattern::<BranchNameGrammar>(text), "{text:?}");
        }
        for text in ["refs/heads/main", "heads/main", "REFS/heads/main", "tags/x", "a.lock", "a.lock/b", "-a", "@"] {
            assert!(!accepted::<BranchNameGrammar>(text), "{text}");
        }
        assert!(accepted::<BranchNameGrammar>("lock"));
        assert!(!accepted::<BranchNameGrammar>(&"a".repeat(201)));
    }

    #[test]
    fn a_path_of_a_file_stays_below_its_repository() {
        for text in ["a", "src/main.rs", ".github/workflows/ci.yml", "a b/ü.txt", "..a", "a..b/c%2F"] {
            assert!(accepted::<FilePathGrammar>(text) && in_pattern::<FilePathGrammar>(text), "{text}");
        }
        for text in ["", "/a", "a/", "a//b", "a\\b", "a\n", "a\0"] {
            assert!(!accepted::<FilePathGrammar>(text) && !in_pattern::<FilePathGrammar>(text), "{text:?}");
        }
        for text in [".", "..", "../x", "a/../b", "a/.", &"a".repeat(1025)] {
            assert!(!accepted::<FilePathGrammar>(text), "{text}");
        }
    }

    #[test]
    fn a_head_may_name_a_fork() {
        for text in ["topic", "mallory:topic/x"] {
            assert!(accepted::<HeadNameGrammar>(text) && in_pattern::<HeadNameGrammar>(text), "{text}");
        }
        for text in [":x", "a:", "a:b:c", "../x:y", "a/b:c"] {
            assert!(!accepted::<HeadNameGrammar>(text) && !in_pattern::<HeadNameGrammar>(text), "{text}");
        }
        assert!(!accepted::<HeadNameGrammar>("mallory:refs/heads/x"));
    }

    #[test]
    fn numbers_and_limits_stay_in_their_range() {
        for text in ["0", "-1", "1.5", "9007199254740992", "\"1\""] {
            assert!(serde_json::from_str::<Number>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Number>("7").unwrap(), Number(7));
        for text in ["0", "101", "300", "-1"] {
            assert!(serde_json::from_str::<Limit>(text).is_err(), "{text}");
        }
        assert_eq!(Limit::default().count(), 20);
    }

    #[test]
    fn a_commit_id_is_whole_and_lower_case() {
        assert!(accepted::<CommitShaGrammar>(&"a1".repeat(20)));
        for text in ["", "a1b2c3", &"A1".repeat(20), &"g".repeat(40)] {
            assert!(!accepted::<CommitShaGrammar>(text), "{text}");
        }
    }
}
