//! GitHub: repositories, issues and pull requests, through GitHub's REST API.
//!
//! Each action is one file: its fields are the parameters, and it implements `read::Read` or `write::Write`, which add
//! everything that actions have in common. Only `list_repos` names no repository and implements the contract itself.
//!
//! | shared modules | contents |
//! | --- | --- |
//! | `params` | the parts of a request |
//! | `base`, `client`, `app` | the only way out, and the tokens of a GitHub App |
//! | `send_state`, `errors` | the meaning of a failure |
//! | `guardrails` | the limits of the operator |
//! | `nonce`, `probe` | the search for a lost effect |
//! | `pages`, `links`, `etags`, `fields`, `responses`, `thread` | the results |
//!
//! Enter at [`operations`]. Works with github.com, with an enterprise server, and with a stand-in on loopback.

mod app;
mod base;
mod client;
mod connection;
mod send_state;
mod errors;
mod etags;
mod fields;
mod guardrails;
mod links;
mod nonce;
mod pages;
mod params;
mod probe;
mod read;
mod responses;
mod table;
mod thread;
mod write;

mod add_labels;
mod close_issue;
mod comment_issue;
mod comment_pr;
mod create_branch;
mod create_issue;
mod create_pr;
mod get_file;
mod get_issue;
mod get_issue_comments;
mod get_pr;
mod get_pr_checks;
mod get_pr_comments;
mod get_pr_reviews;
mod get_repo;
mod list_branches;
mod list_issues;
mod list_prs;
mod list_repos;
mod merge_pr;
mod request_review;
mod search_code;
mod update_branch;

#[cfg(test)]
mod action_tests;
#[cfg(test)]
mod app_tests;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod seal_tests;
#[cfg(test)]
mod standin;
#[cfg(test)]
mod standin_tests;
#[cfg(test)]
mod wire_tests;

pub use app::{App, NoKey};
pub use table::KIND;

use app::Reach;
use base::{BadBaseUrl, BaseUrl};
use client::{Client, NoClient, Session};
use fields::text;
use guardrails::{BadGuardrail, Guardrails};
use model::{Clock, Exposure};
use params::Repo;
use provider::contract::{Execution, Failure, Operation};
use provider::native::{BadDeclaration, SharedState, operation};
use read::ReadAction;
use schemars::JsonSchema;
use secrets::Secret;
use serde::{Deserialize, Serialize};
use shared::Provider;
use std::sync::Arc;
use write::WriteAction;

/// The settings of the GitHub provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The root URL of the API: `https://api.github.com`, or `https://host/api/v3` of an enterprise server. Plain
    /// `http` is valid for loopback addresses only.
    pub base_url: String,
    /// The allowed repositories, as `owner/repo`; `*` allows all, and an empty list allows none.
    pub repos: Vec<String>,
    /// Patterns of production branches. Creating such a branch, or a pull request onto one, needs level 3.
    pub production_branches: Vec<String>,
    /// Whether a pull request can be merged without a successful check, or with failed checks.
    pub allow_merge_without_checks: bool,
    /// The repositories, as `owner/repo`, in which calls leave no hidden marks; `*` is all. The outcome of a call whose
    /// answer is lost then stays unknown.
    pub unmarked: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base_url: "https://api.github.com".into(),
            repos: Vec::new(),
            production_branches: ["production", "prod", "release/*"].map(str::to_owned).to_vec(),
            allow_merge_without_checks: false,
            unmarked: Vec::new(),
        }
    }
}

/// Why the provider cannot be set up; the broker starts without it and says so.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The base URL.
    #[error("base_url: {0}")]
    BaseUrl(#[source] BadBaseUrl),
    /// The allow-list or the production branches.
    #[error(transparent)]
    Guardrail(BadGuardrail),
    /// The HTTP client.
    #[error(transparent)]
    Client(NoClient),
    /// An action's own declaration.
    #[error(transparent)]
    Declaration(BadDeclaration),
}

/// The broker's identity at GitHub.
pub enum Identity {
    /// A token, if there is one.
    Token(Option<Arc<Secret>>),
    /// A GitHub App.
    App(App),
}

/// Returns the actions; without a token they are declared and refuse to run.
///
/// It contacts no server, and must be called inside the runtime.
///
/// # Errors
/// [`SetupError`].
pub fn operations(
    name: &Provider,
    settings: Settings,
    identity: Identity,
    clock: Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn Operation>>, SetupError> {
    actions(name, &Arc::new(Github::new(settings, identity, clock)?))
}

fn actions(name: &Provider, shared: &Arc<Github>) -> Result<Vec<Arc<dyn Operation>>, SetupError> {
    let all = [
        operation::<list_repos::ListRepos>(name, shared),
        operation::<ReadAction<get_repo::GetRepo>>(name, shared),
        operation::<ReadAction<list_issues::ListIssues>>(name, shared),
        operation::<ReadAction<get_issue::GetIssue>>(name, shared),
        operation::<ReadAction<list_prs::ListPrs>>(name, shared),
        operation::<ReadAction<get_pr::GetPr>>(name, shared),
        operation::<ReadAction<get_pr_comments::GetPrComments>>(name, shared),
        operation::<ReadAction<list_branches::ListBranches>>(name, shared),
        operation::<ReadAction<get_issue_comments::GetIssueComments>>(name, shared),
        operation::<ReadAction<get_pr_reviews::GetPrReviews>>(name, shared),
        operation::<ReadAction<get_pr_checks::GetPrChecks>>(name, shared),
        operation::<ReadAction<get_file::GetFile>>(name, shared),
        operation::<ReadAction<search_code::SearchCode>>(name, shared),
        operation::<WriteAction<create_issue::CreateIssue>>(name, shared),
        operation::<WriteAction<comment_issue::CommentIssue>>(name, shared),
        operation::<WriteAction<close_issue::CloseIssue>>(name, shared),
        operation::<WriteAction<create_branch::CreateBranch>>(name, shared),
        operation::<WriteAction<create_pr::CreatePr>>(name, shared),
        operation::<WriteAction<comment_pr::CommentPr>>(name, shared),
        operation::<WriteAction<add_labels::AddLabels>>(name, shared),
        operation::<WriteAction<request_review::RequestReview>>(name, shared),
        operation::<WriteAction<update_branch::UpdateBranch>>(name, shared),
        operation::<WriteAction<merge_pr::MergePr>>(name, shared),
    ];
    all.into_iter().map(|one| one.map_err(SetupError::Declaration)).collect()
}

/// The state that the actions share.
struct Github {
    client: Client,
    guardrails: Guardrails,
    identity: Identity,
}

impl SharedState for Github {}

impl Github {
    fn new(settings: Settings, identity: Identity, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        let Settings { base_url, repos, production_branches, allow_merge_without_checks, unmarked } = settings;
        let base = BaseUrl::parse(&base_url).map_err(SetupError::BaseUrl)?;
        let guardrails = Guardrails::new(&repos, &production_branches, allow_merge_without_checks)
            .and_then(|guardrails| guardrails.without_marks_in(&unmarked))
            .map_err(SetupError::Guardrail)?;
        let client = Client::new(base, clock).map_err(SetupError::Client)?;
        Ok(Self { client, guardrails, identity })
    }

    /// Opens a session for an execution that needs no more than this reach. The one place where a token is exposed.
    async fn session<'a>(&'a self, reach: Reach, execution: &'a Execution) -> Result<Session<'a>, Failure> {
        let open = |token: &str| Session::open(&self.client, token, execution.deadline(), execution.nonce());
        let session = match &self.identity {
            // A provider without its secret is switched off, so this refuses only calls that should not have come here.
            Identity::Token(None) => {
                return Err(Failure::Unavailable { message: "GitHub's token is missing.".into() });
            }
            Identity::Token(Some(token)) => open(token.expose(execution))?,
            Identity::App(app) => {
                open(app.token(&self.client, &reach, execution).await?.reveal())?.issued_by(app, reach)
            }
        };
        Ok(session.bound_to(execution.sealed()))
    }
}

/// The exposure of every read: text of other authors, some of it private.
const READS: Exposure = Exposure { untrusted: true, sensitive: true, egress: false };

/// The exposure of every write: its parameters leave. Its result is numbers, states and addresses, and no text of other
/// authors.
const WRITES: Exposure = Exposure { untrusted: false, sensitive: false, egress: true };

/// The answer to a read has not its usual fields.
fn unusual() -> Failure {
    Failure::InvalidOutput { message: "GitHub's answer has not the usual fields.".into() }
}

/// The answer to a write has not its usual fields, although GitHub accepted it.
fn unusual_write() -> Failure {
    errors::unknown("GitHub's answer has not the usual fields")
}

/// Refuses an answer that is about another repository than was asked for: after a rename GitHub may answer for the
/// old name, and the allow-list was asked about the old one.
fn same_repo(asked: Repo<'_>, full_name: Option<String>) -> Result<(), Failure> {
    match full_name {
        Some(name) if !name.eq_ignore_ascii_case(&asked.to_string()) => Err(Failure::Refused {
            message: format!("The repository {asked} was renamed or moved. Use its new name, if it is allowed."),
        }),
        Some(_) | None => Ok(()),
    }
}

/// `owner/repo` at the end of an API address, as issues carry it in `repository_url`.
fn repo_of_url(document: &serde_json::Value) -> Option<String> {
    let url = text(document, "/repository_url")?;
    let (rest, name) = url.rsplit_once('/')?;
    let (_, owner) = rest.rsplit_once('/')?;
    Some(format!("{owner}/{name}"))
}
