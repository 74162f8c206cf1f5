//! The common part of the actions that read one repository.

use crate::app::Reach;
use crate::client::Session;
use crate::params::Repo;
use crate::{Github, READS};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shared::{Level, Timestamp};

/// An action that reads one repository. The fields are the parameters.
pub(crate) trait Read: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The result.
    type Output: Serialize + JsonSchema;

    /// The name of the action.
    const NAME: &'static str;
    /// The description for an agent.
    const DESCRIPTION: &'static str;

    /// Returns the repository.
    fn repo(&self) -> Repo<'_>;

    /// Returns one line of public parts: `list open issues of octo/hello`.
    fn summary(&self) -> String;

    /// Checks the parameters as far as their types do not.
    fn guard(&self) -> Guard {
        Guard::Pass
    }

    /// Reads, and returns the result with its summary.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    fn perform(&self, session: &Session<'_>) -> impl Future<Output = Result<(Self::Output, String), Failure>> + Send;
}

/// A [`Read`] as an action of the broker.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ReadAction<A>(A);

impl<A: Read> NativeAction for ReadAction<A> {
    type Shared = Github;
    type Facts = ();
    type Output = A::Output;

    const NAME: &'static str = A::NAME;
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = A::DESCRIPTION;
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        self.0.summary()
    }

    fn guard(&self, github: &Github, _facts: Option<&()>, _now: Timestamp) -> Guard {
        match github.guardrails.repo(self.0.repo()) {
            Guard::Pass => self.0.guard(),
            refused @ (Guard::Refuse(_) | Guard::NeedsRemote) => refused,
        }
    }

    async fn run(
        self,
        github: &Github,
        _facts: Option<()>,
        execution: &Execution,
    ) -> Result<(A::Output, String), Failure> {
        self.0.perform(&github.session(Reach::repository(&self.0.repo()), execution).await?).await
    }
}
