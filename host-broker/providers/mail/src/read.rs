//! The common part of the actions that read the account.

use crate::backend::Mailbox;
use crate::{Mail, READS};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shared::{Level, Timestamp};
use tokio::time::timeout_at;

/// An action that reads the account. The fields are the parameters.
pub(crate) trait Read: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The result.
    type Output: Serialize + JsonSchema + Send;

    /// The name of the action.
    const NAME: &'static str;
    /// The description for an agent.
    const DESCRIPTION: &'static str;
    /// The exposure of the action.
    const EXPOSES: Exposure = READS;

    /// Returns one line of public parts: `list messages`.
    fn summary(&self) -> String;

    /// Checks the parameters as far as their types do not.
    fn guard(&self, _mail: &Mail) -> Guard {
        Guard::Pass
    }

    /// Reads, and returns the result with its summary.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    fn perform(
        self,
        mail: &Mail,
        mailbox: &mut Mailbox,
    ) -> impl Future<Output = Result<(Self::Output, String), Failure>> + Send;
}

/// A [`Read`] as an action of the broker.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ReadAction<A>(A);

impl<A: Read> NativeAction for ReadAction<A> {
    type Shared = Mail;
    type Facts = ();
    type Output = A::Output;

    const NAME: &'static str = A::NAME;
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = A::DESCRIPTION;
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = A::EXPOSES;

    fn summary(&self) -> String {
        self.0.summary()
    }

    fn guard(&self, mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        self.0.guard(mail)
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(A::Output, String), Failure> {
        in_time(execution, async {
            let mut mailbox = mail.mailbox(execution).await?;
            let result = self.0.perform(mail, &mut mailbox).await?;
            mailbox.close().await;
            Ok(result)
        })
        .await
    }
}

/// Runs a read until the deadline of the call.
///
/// # Errors
/// [`Failure::Timeout`], or the failure of the read; nothing was changed.
pub(crate) async fn in_time<T>(
    execution: &Execution,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(execution.deadline(), work).await.unwrap_or(Err(Failure::Timeout))
}
