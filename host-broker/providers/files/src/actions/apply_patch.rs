//! `apply_patch`: proposes, and never writes.

use super::{clipped, refuse};
use crate::context::{FilesContext, no};
use crate::patch::{Limits, first_name, plan};
use crate::propose::{Proposal, inverse, propose};
use crate::reply::ActionReply;
use crate::settings::SET_BYTES_MAX;
use crate::workspace::FileError;
use model::{Exposure, ProposalId};
use provider::contract::{Execution, Failure, Guard, InverseError, Proposed, SideOutput};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::numbers::counted;
use shared::{Code, Level, Timestamp};
use std::time::Duration;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyPatch {
    /// A unified diff as git writes it: many files, creations, deletions, renames, modes.
    patch: String,
}

impl NativeAction for ApplyPatch {
    type Shared = FilesContext;
    type Facts = ();
    type Output = ActionReply<Proposal>;

    const NAME: &'static str = "apply_patch";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Proposes a patch to files of the workspace, all of it or nothing. Nothing is \
        written: a person sees the diff, and after a yes apply_proposal with the hitl_id makes the changes. Context must \
        fit exactly, at any offset.";
    const IDEMPOTENT: bool = false;
    // Its preview shows the file's former content.
    const EXPOSES: Exposure = super::READS;
    const PROPOSES: bool = true;
    const VERBATIM: bool = true;

    fn about(&self) -> Option<Value> {
        let path = first_name(&self.patch).map(|name| clipped(&name));
        Some(json!({ "op": "apply_patch_propose", "path": path }))
    }

    fn inverse(changes: &[u8], id: ProposalId, ttl: Duration) -> Result<Proposed, InverseError> {
        inverse(changes, id, ttl)
    }

    fn summary(&self) -> String {
        format!("propose a patch of {}", counted(self.patch.len(), "byte", "bytes"))
    }

    fn guard(&self, _context: &FilesContext, _facts: Option<&()>, _now: Timestamp) -> Guard {
        let most = Limits::default().patch_bytes;
        if self.patch.len() > most {
            return refuse(Code::TooLarge, format!("A patch may have {most} bytes."));
        }
        // Which paths it touches only its parsing tells; the rules look at each of them there.
        Guard::Pass
    }

    fn aside(output: &mut Self::Output) -> Option<SideOutput> {
        output.take_aside()
    }

    async fn run(
        self,
        context: &FilesContext,
        _facts: Option<()>,
        execution: &Execution,
    ) -> Result<(Self::Output, String), Failure> {
        context
            .work(execution, move |context, _, workspace| {
                let limits = Limits { file_bytes: context.settings.max_write_bytes_hard, ..Limits::default() };
                let mut read = 0;
                let look = |path: &_| {
                    let state = workspace.state(path, limits.file_bytes)?;
                    read += state.as_ref().map_or(0, |state| u64::try_from(state.bytes().len()).unwrap_or(u64::MAX));
                    // A small patch of many large files is a large change.
                    if read > SET_BYTES_MAX { Err(FileError::TooLarge { max: SET_BYTES_MAX }) } else { Ok(state) }
                };
                let set = plan(self.patch.as_bytes(), &context.rules, limits, look);
                let set = set.map_err(|fault| no(fault.code(), &fault))?;
                propose(context, &set, "apply_patch_propose")
            })
            .await
    }
}
