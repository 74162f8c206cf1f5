//! `auth_complete`.

use super::{Brought, LinkContext, aside, no};
use crate::native::NativeAction;
use kernel::contract::{Failure, Guard, Progress, SideOutput, StoreInput, StoreRequest};
use kernel::execution::Execution;
use model::{Declaration, Exposure, LinkSessionState, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Code, FlowId, Level, Timestamp};

/// The parameters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthComplete {
    /// The flow.
    flow_id: FlowId,
    /// The address to which the page led, whole.
    #[serde(default)]
    callback_url: Option<String>,
    /// Or the code alone that it showed.
    #[serde(default)]
    code: Option<String>,
}

/// An account about which a person is asked.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Completed {
    /// Always.
    ok: bool,
    /// The provider's name of the account.
    account_ref: String,
    /// `waiting`: a person is asked, and until a yes nothing can be done with the account.
    state: &'static str,
    #[serde(skip)]
    #[schemars(skip)]
    aside: Option<SideOutput>,
}

impl Completed {
    /// An account that was found.
    pub(super) fn of(account: &str, aside: SideOutput) -> Self {
        Self { ok: true, account_ref: account.to_owned(), state: "waiting", aside: Some(aside) }
    }
}

impl NativeAction for AuthComplete {
    type Shared = LinkContext;
    type Facts = LinkSessionState;
    type Output = Completed;

    const NAME: &'static str = shared::auth::COMPLETE;
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Completes a flow with the address to which the page led, or with the code that it \
        showed. A person on the host is then asked whether the account is the right one; auth_poll says what they answered.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = Exposure { untrusted: false, sensitive: false, egress: true };

    fn declared(context: &LinkContext, declaration: &mut Declaration) {
        context.declare(declaration);
    }

    fn summary(&self) -> String {
        "complete a flow that links an account".to_owned()
    }

    fn guard(&self, _context: &LinkContext, standing: Option<&LinkSessionState>, _now: Timestamp) -> Guard {
        let refuse = |code: Code| Guard::Refuse(Refusal { code, reason: code.meaning().to_owned() });
        let flow = match standing {
            Some(LinkSessionState::Open(flow)) => flow,
            Some(LinkSessionState::Expired) => return refuse(Code::CapabilityAuthFlowExpired),
            Some(LinkSessionState::Missing | LinkSessionState::Asked { .. }) | None => {
                return refuse(Code::CapabilityAuthFlowInvalid);
            }
        };
        match Brought::read(self.callback_url.as_deref(), self.code.as_deref()) {
            Ok(brought) if brought.belongs(flow.expected.as_deref()) => Guard::Pass,
            Ok(_) => refuse(Code::CapabilityStateMismatch),
            Err(code) => refuse(code),
        }
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::ToComplete(&self.flow_id)
    }

    fn supplied(supplied: StoreInput) -> Option<LinkSessionState> {
        if let StoreInput::Flow(standing, _due) = supplied { Some(standing) } else { None }
    }

    fn aside(output: &mut Completed) -> Option<SideOutput> {
        output.aside.take()
    }

    async fn run(
        self,
        context: &LinkContext,
        standing: Option<LinkSessionState>,
        execution: &Execution,
    ) -> Result<(Completed, String), Failure> {
        let Some(LinkSessionState::Open(flow)) = standing else {
            return Err(no(Code::CapabilityAuthFlowInvalid, "there is no such flow"));
        };
        let brought = Brought::read(self.callback_url.as_deref(), self.code.as_deref())
            .map_err(|code| no(code, code.meaning()))?;
        let state = context.state(&self.flow_id, &flow, execution)?;
        let given = context.linker.complete(&context.capability, &state, &brought, execution).await?;
        let found = context.found(&self.flow_id, given, execution)?;
        let account = found.account.to_string();
        let completed = Completed::of(&account, aside("found", Progress::Found(Box::new(found))));
        Ok((completed, format!("a person is asked about the account {account}")))
    }
}
