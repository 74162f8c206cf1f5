//! `apply_proposal`: makes the changes that a person has agreed to, once.

use super::{clipped, guarded, named, refuse};
use crate::apply::{ApplyError, Mark, Place, apply, unwatched};
use crate::change::{Change, ChangeSet, FileState};
use crate::context::{FilesContext, no};
use crate::diff::Diff;
use crate::reply::ActionReply;
use model::proposal::StoredProposal;
use model::{EffectMarker, Exposure, ProposalId, Tier};
use provider::contract::{Execution, Failure, Guard, Probed, SideOutput, StoreInput, StoreRequest, Success};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Code, Group, Level, Timestamp};
use tokio::time::Instant;

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyProposal {
    /// The path that the proposal goes by: of many the first.
    path: String,
    /// The proposal's name.
    hitl_id: ProposalId,
}

impl ApplyProposal {
    /// Returns the path under which proposals are stored.
    fn path(&self) -> &str {
        self.path.strip_prefix("./").unwrap_or(&self.path)
    }
}

/// The changes that were made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(super) struct Changed {
    /// The path that the proposal goes by.
    path: String,
    /// Whether that file was created.
    created: bool,
    /// SHA-256 of what that file was; absent if it was created.
    before_hash: Option<Digest>,
    /// SHA-256 of what that file is; absent if it was deleted.
    after_hash: Option<Digest>,
    hitl_id: String,
    /// The request that proposed it.
    proposed_by: String,
    /// Every file, if they are many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Vec<File>>,
}

/// One file that was changed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct File {
    path: String,
    /// Where it was, if it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    before_hash: Option<Digest>,
    after_hash: Option<Digest>,
}

/// The handle for a probe: the workspace, and the proposal.
#[derive(Debug, Serialize, Deserialize)]
struct Handle {
    group: Group,
    id: ProposalId,
}

impl NativeAction for ApplyProposal {
    type Shared = FilesContext;
    type Facts = StoredProposal;
    type Output = ActionReply<Changed>;

    const NAME: &'static str = "apply_proposal";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Makes the changes of a proposal, all of them or none, once, after a person has \
        agreed; until then it waits, and may answer `pending`: call it again. A file that changed meanwhile is not \
        overwritten: propose again.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = Exposure::NONE;
    const TIER: Option<Tier> = Some(Tier::Human);
    const VERBATIM: bool = true;

    fn about(&self) -> Option<Value> {
        Some(json!({ "op": "apply_proposal", "path": clipped(&self.path), "hitl_id": self.hitl_id }))
    }

    fn summary(&self) -> String {
        format!("apply {} to {}", self.hitl_id, named(&self.path))
    }

    fn guard(&self, context: &FilesContext, facts: Option<&StoredProposal>, _now: Timestamp) -> Guard {
        match facts {
            Some(stored) if stored.path != self.path() => {
                refuse(Code::Guardrail, "The proposal is about another path.".into())
            }
            Some(_) | None => guarded(context, &self.path),
        }
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::ToApply(&self.hitl_id, self.path())
    }

    fn supplied(supplied: StoreInput) -> Option<StoredProposal> {
        if let StoreInput::Changes(stored) = supplied { Some(*stored) } else { None }
    }

    fn aside(output: &mut Self::Output) -> Option<SideOutput> {
        output.take_aside()
    }

    fn probe_handle(&self, facts: Option<&StoredProposal>, _planted: &EffectMarker) -> Option<Value> {
        let stored = facts?;
        serde_json::to_value(Handle { group: stored.group.clone(), id: stored.id.clone() }).ok()
    }

    async fn probe(context: &FilesContext, handle: Value, _execution: &Execution) -> Result<Probed, Failure> {
        let Ok(Handle { group, id }) = serde_json::from_value(handle) else {
            return Ok(Probed::State { message: "the stored changes are no longer available".into() });
        };
        context
            .work_for(group, move |_, spot, workspace| {
                let busy = spot.alone();
                // Unfinished changes are made whole first, in one direction or the other; then the journal knows.
                spot.settle(workspace, &busy)?;
                let report = spot.journal()?.done(id.as_str());
                let report = report.map_err(|fault| Failure::Refused { message: fault.to_string() })?;
                let Some(report) = report else {
                    return Ok(Probed::Absent { message: "it was not applied, and the files are as they were".into() });
                };
                let Ok(changed) = serde_json::from_str::<Changed>(&report) else {
                    return Ok(Probed::State { message: "it was applied, but its record cannot be read".into() });
                };
                let (mut answer, summary) = answer(changed);
                let aside = answer.take_aside().map(Box::new);
                match serde_json::to_value(answer) {
                    Ok(data) => Ok(Probed::Happened(Success { data, summary, aside })),
                    Err(_) => Ok(Probed::State { message: "it was applied".into() }),
                }
            })
            .await
    }

    async fn run(
        self,
        context: &FilesContext,
        facts: Option<StoredProposal>,
        execution: &Execution,
    ) -> Result<(Self::Output, String), Failure> {
        let Some(stored) = facts else { return Err(no(Code::ProposalUnknown, &"there is no such proposal")) };
        let deadline = execution.deadline();
        context
            .work(execution, move |context, spot, workspace| {
                // ORDER: first, so that a concurrent probe waits until this is over.
                let busy = spot.alone();
                if Instant::now() >= deadline {
                    return Err(no(Code::ProviderTimeout, &"other changes to this workspace took too long"));
                }
                let set =
                    ChangeSet::from_bytes(&stored.changes).map_err(|damaged| no(Code::ProposalUnknown, &damaged))?;
                // The shown changes are the applied ones: the approved diff is the diff of the stored changes.
                if Diff::of(&set).map(|diff| diff.hash()) != Ok(stored.patch_hash) {
                    return Err(no(Code::ProposalUnknown, &"the stored changes differ from the approved ones"));
                }
                spot.settle(workspace, &busy)?;
                let journal = spot.journal()?;
                let changed = changed(&stored, &set);
                let report = serde_json::to_string(&changed).unwrap_or_default();
                let mark = Mark { name: stored.id.to_string(), report };
                let place = Place {
                    workspace,
                    journal: &journal,
                    rules: &context.rules,
                    ids: context.ids.as_ref(),
                    mark: &mark,
                };
                spot.unsettle();
                let applied = apply(place, &set, &mut unwatched);
                if !matches!(applied, Err(ApplyError::Unknown(_))) {
                    spot.settle(workspace, &busy)?;
                }
                match applied {
                    Ok(_) => Ok(answer(changed)),
                    Err(ApplyError::Unchanged(reason)) => Err(no(reason.code(), &reason)),
                    Err(ApplyError::Unknown(unsettled)) => Err(Failure::Unknown { message: unsettled.to_string() }),
                }
            })
            .await
    }
}

impl File {
    fn planned(change: &Change) -> Self {
        Self {
            path: change.path.to_string(),
            from: change.from.as_ref().map(ToString::to_string),
            before_hash: change.before.as_ref().map(FileState::hash),
            after_hash: change.after.as_ref().map(FileState::hash),
        }
    }
}

fn changed(stored: &StoredProposal, set: &ChangeSet) -> Changed {
    let files: Vec<File> = set.changes().iter().map(File::planned).collect();
    let first = files.first();
    Changed {
        path: stored.path.clone(),
        created: first.is_some_and(|file| file.before_hash.is_none()),
        before_hash: first.and_then(|file| file.before_hash),
        after_hash: first.and_then(|file| file.after_hash),
        hitl_id: stored.id.to_string(),
        proposed_by: stored.proposed_by.to_string(),
        files: (files.len() > 1).then_some(files),
    }
}

fn answer(changed: Changed) -> (ActionReply<Changed>, String) {
    let files = changed.files.as_ref().map_or(1, Vec::len);
    let path = changed.path.clone();
    let summary = if files == 1 { format!("applied: {path}") } else { format!("applied: {files} files") };
    let noted = json!({
        "op": "write_file_apply",
        "path": path,
        "created": changed.created,
        "before_hash": changed.before_hash,
        "after_hash": changed.after_hash,
        "hitl_id": changed.hitl_id,
        "files": files,
    });
    (ActionReply::allowed("fs.apply_patch", &path, changed, noted), summary)
}
