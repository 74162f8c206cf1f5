//! `withdraw_proposal`.

use crate::context::{FilesContext, no};
use crate::reply::ActionReply;
use model::{Exposure, ProposalId};
use provider::contract::{Execution, Failure, Guard, SideOutput, StoreInput, StoreRequest};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{Code, Level, Timestamp};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WithdrawProposal {
    /// The proposal's name.
    hitl_id: ProposalId,
}

/// The result of the withdrawal.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Withdrawn {
    hitl_id: String,
    withdrawn: bool,
}

impl NativeAction for WithdrawProposal {
    type Shared = FilesContext;
    type Facts = bool;
    type Output = ActionReply<Withdrawn>;

    const NAME: &'static str = "withdraw_proposal";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str =
        "Takes a proposal back that was not applied: its approval request ends, and it can no longer be applied.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = Exposure::NONE;
    const PROPOSES: bool = true;
    const VERBATIM: bool = true;

    fn summary(&self) -> String {
        format!("withdraw {}", self.hitl_id)
    }

    fn guard(&self, _context: &FilesContext, _facts: Option<&bool>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::ToWithdraw(&self.hitl_id)
    }

    fn supplied(supplied: StoreInput) -> Option<bool> {
        if let StoreInput::Withdrawn(withdrawn) = supplied { Some(withdrawn) } else { None }
    }

    fn aside(output: &mut Self::Output) -> Option<SideOutput> {
        output.take_aside()
    }

    async fn run(
        self,
        _context: &FilesContext,
        facts: Option<bool>,
        _execution: &Execution,
    ) -> Result<(Self::Output, String), Failure> {
        if facts != Some(true) {
            return Err(no(Code::ProposalUnknown, &"there is no such proposal that could be taken back"));
        }
        let hitl_id = self.hitl_id.to_string();
        let noted = json!({ "op": "withdraw_proposal", "hitl_id": hitl_id });
        let summary = format!("withdrawn: {hitl_id}");
        Ok((ActionReply::allowed("fs.withdraw", ".", Withdrawn { hitl_id, withdrawn: true }, noted), summary))
    }
}
