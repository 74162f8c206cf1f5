//! The common part of the actions that read the account.

use crate::client::Session;
use crate::{Calendar, READS};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shared::{Level, Timestamp};

/// An action that reads the account. The fields are the parameters.
pub(crate) trait Read: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The result.
    type Output: Serialize + JsonSchema + Send;

    /// The name of the action.
    const NAME: &'static str;
    /// The description for an agent.
    const DESCRIPTION: &'static str;

    /// Returns one line of public parts: `list events`.
    fn summary(&self) -> String;

    /// Checks the parameters as far as their types do not.
    fn guard(&self, _calendar: &Calendar, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    /// Reads, and returns the result with its summary.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    fn perform(self, session: &Session<'_>) -> impl Future<Output = Result<(Self::Output, String), Failure>> + Send;
}

/// Returns whether a number says nothing, so it is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A [`Read`] as an action of the broker.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ReadAction<A>(A);

impl<A: Read> NativeAction for ReadAction<A> {
    type Shared = Calendar;
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

    fn guard(&self, calendar: &Calendar, _facts: Option<&()>, now: Timestamp) -> Guard {
        self.0.guard(calendar, now)
    }

    async fn run(
        self,
        calendar: &Calendar,
        _: Option<()>,
        execution: &Execution,
    ) -> Result<(A::Output, String), Failure> {
        self.0.perform(&calendar.session(execution)?).await
    }
}
