//! `write_file`: proposes, and never writes.

use super::{clipped, guarded, named, refuse};
use crate::change::ChangeSet;
use crate::context::{FilesContext, no, unread};
use crate::propose::{Proposal, inverse, propose};
use crate::reply::ActionReply;
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
pub(super) struct WriteFile {
    /// The file, relative to the workspace.
    path: String,
    /// The new content.
    content: String,
}

impl NativeAction for WriteFile {
    type Shared = FilesContext;
    type Facts = ();
    type Output = ActionReply<Proposal>;

    const NAME: &'static str = "write_file";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Proposes the new content of a file of the workspace. Nothing is written: a person sees the diff, and after an approval apply_proposal with the hitl_id makes the change.";
    const IDEMPOTENT: bool = false;
    // Its preview shows the file's former content.
    const EXPOSES: Exposure = super::READS;
    const PROPOSES: bool = true;
    const VERBATIM: bool = true;

    fn about(&self) -> Option<Value> {
        Some(json!({ "op": "write_file_propose", "path": clipped(&self.path) }))
    }

    fn inverse(changes: &[u8], id: ProposalId, ttl: Duration) -> Result<Proposed, InverseError> {
        inverse(changes, id, ttl)
    }

    fn summary(&self) -> String {
        format!("propose {}, {}", named(&self.path), counted(self.content.len(), "byte", "bytes"))
    }

    fn guard(&self, context: &FilesContext, _facts: Option<&()>, _now: Timestamp) -> Guard {
        let most = context.settings.max_write_bytes_hard;
        if u64::try_from(self.content.len()).unwrap_or(u64::MAX) > most {
            return refuse(Code::TooLarge, format!("A file may have {most} bytes after a change."));
        }
        guarded(context, &self.path)
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
                let path = context.path(&self.path).map_err(Failure::Guard)?;
                let most = context.settings.max_write_bytes_hard;
                let before = workspace.state(&path, most).map_err(|fault| unread(path.as_str(), &fault))?;
                if before.is_none() {
                    context.rules.check_creation(&path).map_err(|breach| no(breach.code(), &breach))?;
                }
                let set = ChangeSet::write(path, before, self.content.into_bytes());
                let set = set.map_err(|fault| no(Code::PatchFailed, &fault))?;
                propose(context, &set, "write_file_propose")
            })
            .await
    }
}
