//! The operator's limits at GitHub, which hold under every grant.

use crate::params::{BranchName, Owner, Repo, RepoName};
use glob::{MatchOptions, Pattern};
use model::Refusal;
use provider::contract::Guard;
use shared::Code;
use std::collections::BTreeSet;

/// The operator's lines.
#[derive(Debug)]
pub(super) struct Guardrails {
    repos: Allowed,
    /// The repositories without marks.
    unmarked: Allowed,
    production: Vec<Pattern>,
    merge_without_checks: bool,
}

#[derive(Debug)]
enum Allowed {
    All,
    /// `owner/repo` in lower case.
    These(BTreeSet<String>),
}

impl Allowed {
    /// Reads a list of repositories.
    ///
    /// # Errors
    /// The entry that is neither `owner/repo` nor `*`.
    fn read(entries: &[String]) -> Result<Self, String> {
        let all = entries.iter().any(|entry| entry == "*");
        let these = entries.iter().filter(|entry| *entry != "*").map(|entry| {
            let is_repo = entry
                .split_once('/')
                .is_some_and(|(owner, repo)| owner.parse::<Owner>().is_ok() && repo.parse::<RepoName>().is_ok());
            if is_repo { Ok(entry.to_ascii_lowercase()) } else { Err(entry.clone()) }
        });
        let these = these.collect::<Result<_, _>>()?;
        Ok(if all { Self::All } else { Self::These(these) })
    }

    fn has(&self, full_name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.contains(&full_name.to_ascii_lowercase()),
        }
    }
}

/// A setting that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGuardrail {
    /// An entry of the allow-list.
    #[error("repos: `{0}` is neither `owner/repo` nor `*`")]
    Repo(String),
    /// An entry of the repositories without marks.
    #[error("unmarked: `{0}` is neither `owner/repo` nor `*`")]
    Unmarked(String),
    /// A pattern of production branches.
    #[error("production_branches: `{0}` is not a pattern")]
    Pattern(String),
}

/// GitHub compares branch names exactly; a guardrail that is wider than needed fails closed.
const BROADLY: MatchOptions =
    MatchOptions { case_sensitive: false, require_literal_separator: false, require_literal_leading_dot: false };

impl Guardrails {
    /// Reads the settings.
    ///
    /// # Errors
    /// [`BadGuardrail`]: a misspelt line must not silently allow or forbid.
    pub(super) fn new(
        repos: &[String],
        production_branches: &[String],
        merge_without_checks: bool,
    ) -> Result<Self, BadGuardrail> {
        let repos = Allowed::read(repos).map_err(BadGuardrail::Repo)?;
        let production = production_branches
            .iter()
            .map(|text| Pattern::new(text).map_err(|_why| BadGuardrail::Pattern(text.clone())))
            .collect::<Result<_, _>>()?;
        Ok(Self { repos, unmarked: Allowed::These(BTreeSet::new()), production, merge_without_checks })
    }

    /// The same, without marks in these repositories.
    ///
    /// # Errors
    /// [`BadGuardrail::Unmarked`].
    pub(super) fn without_marks_in(self, repos: &[String]) -> Result<Self, BadGuardrail> {
        Ok(Self { unmarked: Allowed::read(repos).map_err(BadGuardrail::Unmarked)?, ..self })
    }

    /// Checks whether effects in a repository, as `owner/repo`, have marks.
    pub(super) fn has_marks(&self, full_name: &str) -> bool {
        !self.unmarked.has(full_name)
    }

    /// Checks whether a repository, as `owner/repo`, is on the allow-list.
    pub(super) fn allows(&self, full_name: &str) -> bool {
        self.repos.has(full_name)
    }

    /// The guard of every action that names a repository.
    pub(super) fn repo(&self, repo: Repo<'_>) -> Guard {
        if self.allows(&repo.to_string()) {
            Guard::Pass
        } else {
            Guard::Refuse(Refusal {
                code: Code::RepoNotAllowed,
                reason: format!("The repository {repo} is not on the operator's allow-list."),
            })
        }
    }

    /// Returns whether this branch is production.
    pub(super) fn is_production(&self, branch: &BranchName) -> bool {
        self.production.iter().any(|pattern| pattern.matches_with(branch.as_str(), BROADLY))
    }

    /// Checks whether a merge needs no checks.
    pub(super) fn merge_without_checks(&self) -> bool {
        self.merge_without_checks
    }
}

/// A guardrail's no.
pub(super) fn refusal(reason: impl Into<String>) -> Refusal {
    Refusal { code: Code::Guardrail, reason: reason.into() }
}

/// Checks whether a branch is one that is never created, also if the repository's default is another one.
pub(super) fn is_main(branch: &BranchName) -> bool {
    ["main", "master"].iter().any(|name| branch.as_str().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guardrails(repos: &[&str], production: &[&str]) -> Result<Guardrails, BadGuardrail> {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Guardrails::new(&owned(repos), &owned(production), false)
    }

    #[test]
    fn an_empty_allow_list_allows_nothing_and_a_star_everything() {
        assert!(!guardrails(&[], &[]).unwrap().allows("octocat/hello-world"));
        assert!(guardrails(&["*"], &[]).unwrap().allows("octocat/hello-world"));
    }

    #[test]
    fn the_allow_list_does_not_look_at_case_and_knows_no_prefixes() {
        let list = guardrails(&["Octocat/Hello-World"], &[]).unwrap();
        assert!(list.allows("octocat/HELLO-world"));
        for other in ["octocat/hello-world2", "octocat/hello", "xoctocat/hello-world", "octocat/hello-world.git"] {
            assert!(!list.allows(other), "{other}");
        }
    }

    #[test]
    fn a_misspelt_setting_stops_the_provider() {
        for entry in ["", "octocat", "octocat/*", "*/*", "octocat/a/b", "https://github.com/o/r", "o/..", " o/r"] {
            assert_eq!(guardrails(&[entry], &[]).unwrap_err(), BadGuardrail::Repo(entry.to_owned()));
        }
        assert!(guardrails(&["*"], &["release/["]).is_err());
        let unmarked = guardrails(&["*"], &[]).unwrap().without_marks_in(&["octocat".to_owned()]);
        assert_eq!(unmarked.unwrap_err(), BadGuardrail::Unmarked("octocat".to_owned()));
    }

    #[test]
    fn production_branches_are_matched_broadly() {
        let list = guardrails(&[], &["production", "prod", "release/*"]).unwrap();
        for branch in ["production", "PROD", "release/1.0", "Release/1/x"] {
            assert!(list.is_production(&branch.parse().unwrap()), "{branch}");
        }
        for branch in ["main", "prod2", "releases/1", "release"] {
            assert!(!list.is_production(&branch.parse().unwrap()), "{branch}");
        }
    }

    #[test]
    fn main_and_master_are_never_created_in_any_case() {
        for (branch, never) in [("main", true), ("MASTER", true), ("mainline", false), ("feature/main", false)] {
            assert_eq!(is_main(&branch.parse().unwrap()), never, "{branch}");
        }
    }
}
