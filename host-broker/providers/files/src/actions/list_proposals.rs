//! `list_proposals`.

use crate::context::FilesContext;
use crate::reply::ActionReply;
use model::Exposure;
use model::proposal::Listed;
use provider::contract::{Execution, Failure, Guard, SideOutput, StoreInput, StoreRequest};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::numbers::counted;
use shared::{Level, Timestamp};

/// It takes no parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListProposals {}

/// The proposals.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Proposals {
    /// Oldest first, at most the latest 50.
    proposals: Vec<Listed>,
}

impl NativeAction for ListProposals {
    type Shared = FilesContext;
    type Facts = Vec<Listed>;
    type Output = ActionReply<Proposals>;

    const NAME: &'static str = "list_proposals";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Lists this group's latest proposals and where each stands: waiting, approved, \
        applied, denied, expired, withdrawn.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = Exposure::NONE;
    const VERBATIM: bool = true;

    fn summary(&self) -> String {
        "list proposals".to_owned()
    }

    fn guard(&self, _context: &FilesContext, _facts: Option<&Vec<Listed>>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::Proposals
    }

    fn supplied(supplied: StoreInput) -> Option<Vec<Listed>> {
        if let StoreInput::Proposals(listed) = supplied { Some(listed) } else { None }
    }

    fn aside(output: &mut Self::Output) -> Option<SideOutput> {
        output.take_aside()
    }

    async fn run(
        self,
        _context: &FilesContext,
        facts: Option<Vec<Listed>>,
        _execution: &Execution,
    ) -> Result<(Self::Output, String), Failure> {
        let proposals = facts.unwrap_or_default();
        let summary = counted(proposals.len(), "proposal", "proposals");
        let noted = json!({ "op": "list_proposals", "proposals": proposals.len() });
        Ok((ActionReply::allowed("fs.list_proposals", ".", Proposals { proposals }, noted), summary))
    }
}
