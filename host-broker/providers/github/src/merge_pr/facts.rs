//! The facts of a pull request that a merge needs.

use crate::base::Target;
use crate::client::Session;
use crate::fields::{commit, count, flag, text};
use crate::params::{CommitSha, Number, Repo};
use crate::{same_repo, unusual};
use provider::contract::Failure;
use serde_json::Value;
use std::time::Duration;

/// A pull request as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its title.
    pub(crate) title: String,
    /// The commit that was looked at, and that alone will be merged.
    pub(crate) head_sha: String,
    /// The branch that it is merged into, which its author can change at any time.
    pub(super) base: String,
    pub(super) open: bool,
    pub(super) draft: bool,
    /// `None` while GitHub is still finding out.
    pub(super) mergeable: Option<bool>,
    /// `None` where checks are not demanded.
    pub(super) checks: Option<Checks>,
}

/// Statuses and check runs of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Checks {
    pub(super) passed: u64,
    /// Failed, cancelled, timed out, or asking for something.
    pub(super) failed: u64,
    pub(super) running: u64,
    /// More than were read.
    pub(super) unread: u64,
}

/// GitHub finds out in the background whether a pull request is mergeable, and says `null` until then.
const MERGEABLE_PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

/// How many pages of statuses, and of check runs, are read.
const PAGES_MAX: usize = 10;

impl Facts {
    /// Reads them.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn fetch(
        session: &Session<'_>,
        repo: Repo<'_>,
        number: Number,
        with_checks: bool,
    ) -> Result<Self, Failure> {
        let at = Target::repo(repo).then("pulls").number(number);
        let mut v = session.get(&at).await?;
        for pause in MERGEABLE_PAUSES {
            if text(&v, "/state").as_deref() != Some("open") || mergeable(&v).is_some() {
                break;
            }
            session.pause(pause).await?;
            v = session.get(&at).await?;
        }
        same_repo(repo, text(&v, "/base/repo/full_name"))?;
        let head_sha = commit(&v, "/head/sha").ok_or_else(unusual)?;
        let checks = if with_checks { Some(Checks::fetch(session, repo, &head_sha).await?) } else { None };
        Ok(Self {
            title: text(&v, "/title").unwrap_or_default(),
            head_sha,
            base: text(&v, "/base/ref").ok_or_else(unusual)?,
            open: text(&v, "/state").as_deref() == Some("open") && !flag(&v, "/merged"),
            draft: flag(&v, "/draft"),
            mergeable: mergeable(&v),
            checks,
        })
    }

    /// Why it may not be merged.
    pub(super) fn objection(&self, demanded: Option<&CommitSha>, without_checks: bool) -> Option<&'static str> {
        if !self.open {
            return Some("it is not open");
        }
        if self.draft {
            return Some("it is a draft");
        }
        if demanded.is_some_and(|sha| sha.as_str() != self.head_sha) {
            return Some("its head is not the given commit");
        }
        match self.mergeable {
            Some(true) => {}
            Some(false) => return Some("it has conflicts or may not be merged"),
            None => return Some("GitHub has not yet found out whether it is mergeable; ask again in a moment"),
        }
        match self.checks {
            _ if without_checks => None,
            None => Some("its checks are not known"),
            Some(Checks { failed: 1.., .. }) => Some("not all of its checks are successful"),
            Some(Checks { running: 1.., .. }) => Some("not all of its checks have finished"),
            Some(Checks { unread: 1.., .. }) => Some("it has more checks than the broker reads"),
            Some(Checks { passed: 0, .. }) => Some("it has no successful check, and at least one is demanded"),
            Some(Checks { passed: 1.., .. }) => None,
        }
    }
}

fn mergeable(v: &Value) -> Option<bool> {
    v.get("mergeable").and_then(Value::as_bool)
}

impl Checks {
    /// Fetches both kinds: statuses (the older interface) and check runs.
    async fn fetch(session: &Session<'_>, repo: Repo<'_>, sha: &str) -> Result<Self, Failure> {
        let commit = Target::repo(repo).then("commits").commit(sha);
        let mut checks = Self::default();
        let statuses = commit.clone().then("status").with("per_page", "100");
        let of_status = |status: &Value| match text(status, "/state").as_deref() {
            Some("success") => Verdict::Passed,
            Some("pending") => Verdict::Running,
            Some(_) | None => Verdict::Failed,
        };
        checks.read(session, &statuses, "statuses", of_status).await?;
        let runs = commit.then("check-runs").with("per_page", "100");
        let of_run = |run: &Value| match (text(run, "/status").as_deref(), text(run, "/conclusion").as_deref()) {
            (Some("completed"), Some("success")) => Verdict::Passed,
            (Some("completed"), Some("neutral" | "skipped")) => Verdict::NoMatter,
            (Some("completed"), Some(_) | None) | (None, _) => Verdict::Failed,
            (Some(_), _) => Verdict::Running,
        };
        checks.read(session, &runs, "check_runs", of_run).await?;
        Ok(checks)
    }

    /// Reads one kind, page after page. Entries beyond the last page that is read are not judged.
    async fn read(
        &mut self,
        session: &Session<'_>,
        target: &Target,
        list: &str,
        judge: impl Fn(&Value) -> Verdict + Send + Copy,
    ) -> Result<(), Failure> {
        let mut page = session.get_page(target).await?;
        let mut read = 0;
        for pages in 1.. {
            read += self.add(&page.document, list, judge)?;
            let Some(next) = page.next.filter(|_| pages < PAGES_MAX) else { break };
            page = session.get_page(&target.at(&next)).await?;
        }
        let total = count(&page.document, "/total_count").ok_or_else(unusual)?;
        self.unread += total.saturating_sub(read);
        Ok(())
    }

    /// Judges the entries of one page and counts them.
    fn add(&mut self, answer: &Value, list: &str, judge: impl Fn(&Value) -> Verdict) -> Result<u64, Failure> {
        let entries = answer.get(list).and_then(Value::as_array).ok_or_else(unusual)?;
        for entry in entries {
            match judge(entry) {
                Verdict::Passed => self.passed += 1,
                Verdict::NoMatter => {}
                Verdict::Failed => self.failed += 1,
                Verdict::Running => self.running += 1,
            }
        }
        Ok(u64::try_from(entries.len()).unwrap_or(u64::MAX))
    }
}

/// The verdict of one status or check run.
enum Verdict {
    Passed,
    /// Neither for nor against: GitHub lets `neutral` and `skipped` pass, but they prove nothing.
    NoMatter,
    Failed,
    Running,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            title: "A change".into(),
            head_sha: "a".repeat(40),
            base: "main".to_owned(),
            open: true,
            draft: false,
            mergeable: Some(true),
            checks: Some(Checks { passed: 2, ..Checks::default() }),
        }
    }

    #[test]
    fn an_open_checked_mergeable_pull_request_meets_no_objection() {
        assert_eq!(facts().objection(None, false), None);
        assert_eq!(facts().objection(Some(&"a".repeat(40).parse().unwrap()), false), None);
        assert_eq!(Facts { checks: None, ..facts() }.objection(None, true), None);
    }

    #[test]
    fn every_missing_condition_is_an_objection() {
        let checks = |checks: Checks| Facts { checks: Some(checks), ..facts() };
        let ok = Checks { passed: 1, ..Checks::default() };
        for (facts, why) in [
            (Facts { open: false, ..facts() }, "not open"),
            (Facts { draft: true, ..facts() }, "draft"),
            (Facts { mergeable: Some(false), ..facts() }, "conflicts"),
            (Facts { mergeable: None, ..facts() }, "not yet"),
            (Facts { checks: None, ..facts() }, "not known"),
            (checks(Checks::default()), "at least one"),
            (checks(Checks { failed: 1, ..ok }), "successful"),
            (checks(Checks { running: 1, ..ok }), "finished"),
            (checks(Checks { unread: 1, ..ok }), "more checks"),
        ] {
            assert!(facts.objection(None, false).is_some_and(|said| said.contains(why)), "{why}");
        }
        assert!(facts().objection(Some(&"b".repeat(40).parse().unwrap()), true).is_some());
        assert!(Facts { mergeable: Some(false), ..facts() }.objection(None, true).is_some());
    }
}
