//! `close_issue`.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::fields::{is_pull_request, text};
use crate::guardrails::{Guardrails, refusal};
use crate::nonce::{Handle, Mark};
use crate::params::{Number, Owner, Repo, RepoName};
use crate::responses::Touched;
use crate::write::Write;
use crate::{probe, repo_of_url, same_repo, unusual};
use http::Method;
use provider::contract::{Failure, Guard, Probed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CloseIssue {
    /// The owner of the repository.
    owner: Owner,
    /// The repository's name.
    repo: RepoName,
    /// The issue's number.
    number: Number,
    /// Why it is closed: `completed` or `not_planned`. GitHub takes `completed` if it is absent.
    #[serde(default)]
    reason: Option<Reason>,
}

/// Why an issue is closed.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Reason {
    /// The request of the issue is fulfilled.
    Completed,
    /// The request of the issue will not be fulfilled.
    NotPlanned,
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::NotPlanned => "not_planned",
        }
    }
}

/// The issue of the number.
#[derive(Debug)]
pub(super) struct Facts {
    /// GitHub counts issues and pull requests together, and would close either.
    pub(super) is_pull_request: bool,
}

impl Write for CloseIssue {
    type Facts = Facts;
    type Output = Touched;

    const NAME: &'static str = "close_issue";
    const DESCRIPTION: &'static str =
        "Closes an issue, as completed or as not planned; pull requests are not closed by it.";
    const IDEMPOTENT: bool = true;

    fn repo(&self) -> Repo<'_> {
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn number(&self) -> Option<Number> {
        Some(self.number)
    }

    fn summary(&self) -> String {
        format!("close issue {}#{}{}", self.repo(), self.number, self.why())
    }

    fn guard(&self, _guardrails: &Guardrails, facts: Option<&Facts>) -> Guard {
        match facts {
            None => Guard::NeedsRemote,
            Some(Facts { is_pull_request: true }) => {
                Guard::Refuse(refusal(format!("{}#{} is a pull request, not an issue.", self.repo(), self.number)))
            }
            Some(Facts { is_pull_request: false }) => Guard::Pass,
        }
    }

    async fn facts(&self, session: &Session<'_>, _guardrails: &Guardrails) -> Result<Facts, Failure> {
        let issue = session.get(&self.at()).await?;
        same_repo(self.repo(), repo_of_url(&issue))?;
        Touched::from(&issue).ok_or_else(unusual)?;
        Ok(Facts { is_pull_request: is_pull_request(&issue) })
    }

    fn change(&self, _facts: Option<&Facts>, _mark: Mark<'_>) -> Option<Change> {
        let mut body = json!({ "state": "closed" });
        if let (Some(reason), Some(fields)) = (self.reason, body.as_object_mut()) {
            fields.insert("state_reason".into(), reason.word().into());
        }
        Some(Change { method: Method::PATCH, target: self.at(), body })
    }

    fn outcome(&self, answer: &Value) -> Option<(Touched, String)> {
        let issue = Touched::from(answer).filter(|issue| issue.state == "closed")?;
        Some((issue, format!("closed issue {}#{}{}", self.repo(), self.number, self.why())))
    }

    async fn look(session: &Session<'_>, handle: Value) -> Result<Probed, Failure> {
        let handle = Handle::read(handle)?;
        let (repo, number) = handle.thread()?;
        let issue = session.get(&Target::repo(repo).then("issues").number(number)).await?;
        let what = format!("Issue {repo}#{number}");
        Ok(match text(&issue, "/state").as_deref() {
            Some("closed") => Probed::State {
                message: format!(
                    "{what} is closed now. This call closed it, or somebody else did. Closing it again does no harm."
                ),
            },
            Some("open") => Probed::State {
                message: format!(
                    "{what} is open now. The call did not close it, has not arrived yet, or somebody has opened it again. \
                     Closing it again does no harm."
                ),
            },
            Some(_) | None => probe::state(&issue, &what),
        })
    }
}

impl CloseIssue {
    fn why(&self) -> &'static str {
        match self.reason {
            None | Some(Reason::Completed) => "",
            Some(Reason::NotPlanned) => " as not planned",
        }
    }

    fn at(&self) -> Target {
        Target::repo(self.repo()).then("issues").number(self.number)
    }
}
