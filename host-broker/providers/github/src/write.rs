//! The common part of the actions that change one repository.

use crate::app::Reach;
use crate::client::{Change, Session};
use crate::guardrails::{Guardrails, refusal};
use crate::nonce::{Handle, Mark};
use crate::params::{Number, Repo};
use crate::{Github, WRITES, unusual_write};
use model::{Destination, DestinationKind, EffectMarker, Exposure, Nonce, SealedRequest};
use provider::contract::{Execution, Failure, Guard, Probed};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{Level, Timestamp};

/// An action that changes one repository with one request. The fields are the parameters.
pub(crate) trait Write: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The remote facts that the guard or the request needs; `()` if there are none.
    type Facts: Send + Sync + 'static;
    /// The result.
    type Output: Serialize + JsonSchema + Send;

    /// The name of the action.
    const NAME: &'static str;
    /// The level that every call needs at least.
    const LEVEL: Level = Level::Write;
    /// The description for an agent.
    const DESCRIPTION: &'static str;
    /// The parameters that may vary under a standing approval.
    const MAY_VARY: &[&str] = &[];
    /// Whether a repetition is harmless.
    const IDEMPOTENT: bool = false;

    /// Returns the repository.
    fn repo(&self) -> Repo<'_>;

    /// Returns the number of the issue or pull request.
    fn number(&self) -> Option<Number> {
        None
    }

    /// Returns one line of public parts: `open an issue in octo/hello`.
    fn summary(&self) -> String;

    /// Returns the level that this call needs.
    fn level(&self, _guardrails: &Guardrails) -> Level {
        Self::LEVEL
    }

    /// Checks the guardrails beside the allowed repositories, which are checked first.
    fn guard(&self, _guardrails: &Guardrails, _facts: Option<&Self::Facts>) -> Guard {
        Guard::Pass
    }

    /// Reads the remote facts, after [`Guard::NeedsRemote`].
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    fn facts(
        &self,
        _session: &Session<'_>,
        _guardrails: &Guardrails,
    ) -> impl Future<Output = Result<Self::Facts, Failure>> + Send {
        async { Err(Failure::Refused { message: "This action has no remote facts.".into() }) }
    }

    /// Returns the facts that must still hold when the request is sent.
    fn precondition(&self, _facts: &Self::Facts) -> Option<Value> {
        None
    }

    /// Returns the one request; `None` while the remote facts for it are unknown.
    fn change(&self, facts: Option<&Self::Facts>, mark: Mark<'_>) -> Option<Change>;

    /// Returns the result and its summary; `None` if the answer has not its usual fields.
    fn outcome(&self, answer: &Value) -> Option<(Self::Output, String)>;

    /// Returns where to look for the effect if the answer is lost.
    fn handle(&self, _facts: Option<&Self::Facts>, marker: &EffectMarker) -> Option<Value> {
        Handle::stored(self.repo(), self.number(), marker)
    }

    /// Sends the request.
    ///
    /// # Errors
    /// [`Failure`] says whether anything may have been changed.
    fn perform(
        &self,
        session: &Session<'_>,
        facts: Option<&Self::Facts>,
    ) -> impl Future<Output = Result<(Self::Output, String), Failure>> + Send {
        async move {
            let change = self.change(facts, session.mark()).ok_or_else(unknown_facts)?;
            let answer = session.write(&change).await?;
            self.outcome(&answer).ok_or_else(unusual_write)
        }
    }

    /// Looks for the effect.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    fn look(session: &Session<'_>, handle: Value) -> impl Future<Output = Result<Probed, Failure>> + Send;
}

/// Nothing is sent without the facts that the request needs.
pub(crate) fn unknown_facts() -> Failure {
    Failure::Guard(refusal("The remote facts that the request needs are not known."))
}

/// A [`Write`] as an action of the broker.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct WriteAction<A>(A);

impl<A: Write> NativeAction for WriteAction<A> {
    type Shared = Github;
    type Facts = A::Facts;
    type Output = A::Output;

    const NAME: &'static str = A::NAME;
    const LEVEL: Level = A::LEVEL;
    const DESCRIPTION: &'static str = A::DESCRIPTION;
    const IDEMPOTENT: bool = A::IDEMPOTENT;
    const EXPOSES: Exposure = WRITES;
    const MAY_VARY: &[&str] = A::MAY_VARY;
    const DESTINATIONS: Option<DestinationKind> = Some(DestinationKind::Repository);

    fn level(&self, github: &Github) -> Level {
        self.0.level(&github.guardrails)
    }

    fn summary(&self) -> String {
        self.0.summary()
    }

    fn guard(&self, github: &Github, facts: Option<&A::Facts>, _now: Timestamp) -> Guard {
        match github.guardrails.repo(self.0.repo()) {
            Guard::Pass => self.0.guard(&github.guardrails, facts),
            refused @ (Guard::Refuse(_) | Guard::NeedsRemote) => refused,
        }
    }

    fn destinations(&self, _github: &Github) -> Option<Vec<Destination>> {
        DestinationKind::Repository.read(&self.0.repo().to_string()).map(|repository| vec![repository])
    }

    fn precondition(&self, facts: &A::Facts) -> Option<Value> {
        self.0.precondition(facts)
    }

    async fn prepare(&self, github: &Github, execution: &Execution) -> Result<A::Facts, Failure> {
        let session = github.session(Reach::repository(&self.0.repo()), execution).await?;
        self.0.facts(&session, &github.guardrails).await
    }

    fn seal(&self, github: &Github, facts: Option<&A::Facts>, nonce: &Nonce) -> Option<SealedRequest> {
        let mark = if github.guardrails.has_marks(&self.0.repo().to_string()) { Mark::of(nonce) } else { Mark::none() };
        Some(github.client.seal(&self.0.change(facts, mark)?, nonce))
    }

    fn probe_handle(&self, facts: Option<&A::Facts>, marker: &EffectMarker) -> Option<Value> {
        self.0.handle(facts, marker)
    }

    async fn probe(github: &Github, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        let repo = handle.get("owner").and_then(Value::as_str).zip(handle.get("repo").and_then(Value::as_str));
        let repo = repo.map(|(owner, name)| format!("{owner}/{name}"));
        let has_marks = repo.as_ref().is_none_or(|repo| github.guardrails.has_marks(repo));
        let reach = repo.map_or(Reach::Names, |repo| Reach::repository(&repo));
        match A::look(&github.session(reach, execution).await?.patient(), handle).await? {
            Probed::Absent { message } if !has_marks => Ok(Probed::State {
                message: format!(
                    "{message} The marks of calls are switched off for this repository, so their effects cannot be \
                     told from those of others."
                ),
            }),
            found @ (Probed::Happened(_) | Probed::Absent { .. } | Probed::State { .. }) => Ok(found),
        }
    }

    async fn run(
        self,
        github: &Github,
        facts: Option<A::Facts>,
        execution: &Execution,
    ) -> Result<(A::Output, String), Failure> {
        let has_marks = github.guardrails.has_marks(&self.0.repo().to_string());
        let session = github.session(Reach::repository(&self.0.repo()), execution).await?;
        self.0.perform(&session.with_marks(has_marks), facts.as_ref()).await
    }
}
