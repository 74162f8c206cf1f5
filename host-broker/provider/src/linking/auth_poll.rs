//! `auth_poll`.

use super::{LinkContext, Polled, aside, no};
use crate::native::NativeAction;
use kernel::contract::{Failure, Guard, Progress, SideOutput, StoreInput, StoreRequest};
use kernel::execution::Execution;
use model::{Declaration, Exposure, LinkSessionState, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Code, FlowId, Level, Timestamp};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthPoll {
    /// The flow.
    flow_id: FlowId,
}

/// How far a flow is.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Standings {
    /// Always.
    ok: bool,
    /// `pending`: the person is not done; `waiting`: a person on the host is asked about the account; `linked`; `denied`,
    /// `expired` or `cancelled`: it is not linked.
    state: String,
    /// The provider's name of the account, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    account_ref: Option<String>,
    /// When to ask again, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u64>,
    #[serde(skip)]
    #[schemars(skip)]
    aside: Option<SideOutput>,
}

/// How often to ask about a flow that waits for something to be brought back, in seconds.
const PATIENTLY: u64 = 5;

impl Standings {
    fn of(state: &str) -> Self {
        Self { ok: true, state: state.to_owned(), account_ref: None, retry_after_s: None, aside: None }
    }
}

impl NativeAction for AuthPoll {
    type Shared = LinkContext;
    type Facts = (LinkSessionState, bool);
    type Output = Standings;

    const NAME: &'static str = shared::auth::POLL;
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Asks how far a flow is: whether the person is done with the page, and what a person \
        on the host has answered about the account.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = Exposure::NONE;

    fn declared(context: &LinkContext, declaration: &mut Declaration) {
        context.declare(declaration);
    }

    fn summary(&self) -> String {
        "ask how far a flow is that links an account".to_owned()
    }

    fn guard(&self, _context: &LinkContext, facts: Option<&Self::Facts>, _now: Timestamp) -> Guard {
        let refuse = |code: Code| Guard::Refuse(Refusal { code, reason: code.meaning().to_owned() });
        match facts {
            Some((LinkSessionState::Open(_) | LinkSessionState::Asked { .. }, _)) => Guard::Pass,
            Some((LinkSessionState::Expired, _)) => refuse(Code::CapabilityAuthFlowExpired),
            Some((LinkSessionState::Missing, _)) | None => refuse(Code::CapabilityAuthFlowInvalid),
        }
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::ToPoll(&self.flow_id)
    }

    fn supplied(supplied: StoreInput) -> Option<Self::Facts> {
        if let StoreInput::Flow(standing, due) = supplied { Some((standing, due)) } else { None }
    }

    fn aside(output: &mut Standings) -> Option<SideOutput> {
        output.aside.take()
    }

    async fn run(
        self,
        context: &LinkContext,
        facts: Option<Self::Facts>,
        execution: &Execution,
    ) -> Result<(Standings, String), Failure> {
        let (flow, due) = match facts {
            Some((LinkSessionState::Open(flow), due)) => (flow, due),
            Some((LinkSessionState::Asked { account, state }, _)) => {
                let state = if state == "approved" { "linked" } else { state.as_str() };
                let standings = Standings { account_ref: Some(account.to_string()), ..Standings::of(state) };
                return Ok((standings, format!("the account {account} is {state}")));
            }
            Some((LinkSessionState::Missing | LinkSessionState::Expired, _)) | None => {
                return Err(no(Code::CapabilityAuthFlowInvalid, "there is no such flow"));
            }
        };
        let pending = |after: u64, aside| {
            let standings = Standings { retry_after_s: Some(after), aside, ..Standings::of("pending") };
            Ok((standings, "the person is not done yet".to_owned()))
        };
        let pace = flow.pace.map_or(PATIENTLY, |pace| pace.as_secs());
        if !due {
            return pending(pace, None);
        }
        let state = context.state(&self.flow_id, &flow, execution)?;
        match context.linker.poll(&context.capability, &state, execution).await? {
            Polled::Pending(None) => pending(pace, None),
            Polled::Pending(Some(slower)) => {
                let after = slower.as_secs().clamp(pace, 60);
                let slower = std::time::Duration::from_secs(after);
                pending(after, Some(aside("slower", Progress::Slower(self.flow_id, slower))))
            }
            Polled::Given(given) => {
                let found = context.found(&self.flow_id, given, execution)?;
                let account = found.account.to_string();
                let standings = Standings {
                    account_ref: Some(account.clone()),
                    aside: Some(aside("found", Progress::Found(Box::new(found)))),
                    ..Standings::of("waiting")
                };
                Ok((standings, format!("a person is asked about the account {account}")))
            }
        }
    }
}
