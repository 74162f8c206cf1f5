//! The description of a change: for the person, for the store, and for the agent.

use crate::change::{Change, ChangeSet, FileState};
use crate::context::{FilesContext, no};
use crate::diff::Diff;
use crate::reply::{ActionReply, HitlRequest};
use crate::settings::SET_BYTES_MAX;
use model::ProposalId;
use model::card::DIFF_BYTES_MAX;
use provider::contract::{Failure, InverseError, Proposed, SideOutput};
use schemars::JsonSchema;
use secrets::search::mark::marks_of;
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::Code;
use shared::digest::Digest;
use std::time::Duration;

/// A proposal, as the agent hears of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Proposal {
    /// The path that it goes by: the first of them.
    path: String,
    /// Whether that file is created.
    created: bool,
    /// SHA-256 of that file as it is; absent if it is created.
    base_hash: Option<Digest>,
    /// SHA-256 of the whole diff.
    patch_hash: Digest,
    patch_format: &'static str,
    /// Every file, if they are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<File>>,
}

/// One file of a proposal.
#[derive(Debug, Serialize, JsonSchema)]
struct File {
    path: String,
    /// Where it is now, if it is renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    created: bool,
    deleted: bool,
    base_hash: Option<Digest>,
}

/// The random name of this call's proposal.
pub(super) fn fresh_id(context: &FilesContext) -> Result<ProposalId, Failure> {
    let mut random = [0; 16];
    match context.ids.fill(&mut random) {
        Ok(()) => Ok(ProposalId::of(random)),
        Err(_none) => Err(Failure::Refused { message: "the system has no random numbers".into() }),
    }
}

/// Describes the changes. Writes nothing.
pub(super) fn propose(
    context: &FilesContext,
    set: &ChangeSet,
    operation: &'static str,
) -> Result<(ActionReply<Proposal>, String), Failure> {
    if let Some(path) = set.changes().iter().find_map(marked) {
        let reason = format!(
            "`{path}` would get a mark that stands for something taken out (<redacted: …>), so the written text would differ from the text that was read"
        );
        return Err(no(Code::Guardrail, &reason));
    }
    let changes = set.to_bytes();
    if u64::try_from(changes.len()).unwrap_or(u64::MAX) > SET_BYTES_MAX {
        return Err(no(Code::TooLarge, &"the files of the change have too many bytes together; change fewer at once"));
    }
    let diff = Diff::of(set).map_err(|fault| no(Code::PatchFailed, &fault))?;
    let readable = diff.readable();
    if readable.len() > DIFF_BYTES_MAX {
        return Err(no(Code::TooLarge, &"the changes are too large to be shown to a person in full"));
    }
    let id = fresh_id(context)?;
    let Some(first) = set.changes().first() else { return Err(no(Code::PatchFailed, &"nothing is changed")) };
    let summary = summary(set, first);
    let base = |change: &Change| change.before.as_ref().map(FileState::hash);
    let files: Vec<File> = set
        .changes()
        .iter()
        .map(|change| File {
            path: change.path.to_string(),
            from: change.from.as_ref().map(ToString::to_string),
            created: change.before.is_none(),
            deleted: change.after.is_none(),
            base_hash: base(change),
        })
        .collect();
    let data = Proposal {
        path: first.path.to_string(),
        created: first.before.is_none(),
        base_hash: base(first),
        patch_hash: diff.hash(),
        patch_format: "unified_diff",
        files: (files.len() > 1).then_some(files),
    };
    let noted = json!({
        "op": operation,
        "path": data.path,
        "created": data.created,
        "base_hash": data.base_hash,
        "patch_hash": data.patch_hash,
        "hitl_id": id,
        "files": set.changes().len(),
    });
    let hitl = HitlRequest {
        hitl_id: id.to_string(),
        ttl_seconds: context.ttl.as_secs(),
        summary: summary.clone(),
        diff_preview: diff.preview(),
    };
    let proposed = Proposed {
        id,
        path: data.path.clone(),
        paths: set.changes().iter().flat_map(Change::paths).map(ToString::to_string).collect(),
        summary: summary.clone(),
        changes,
        patch_hash: diff.hash(),
        diff: readable,
        lines: diff.lines(),
        conditions: conditions(set),
        ttl: context.ttl,
        window: context.settings.window(),
    };
    let path = data.path.clone();
    let aside = SideOutput { noted, proposed: Some(proposed), takes_receipt: true, ..SideOutput::default() };
    let answer = ActionReply::asks(&path, data, hitl, aside);
    Ok((answer, format!("proposed: {summary}")))
}

/// Describes the change that undoes an applied one.
///
/// # Errors
/// [`InverseError`]; nothing was changed.
pub(super) fn inverse(changes: &[u8], id: ProposalId, ttl: Duration) -> Result<Proposed, InverseError> {
    let set = ChangeSet::from_bytes(changes).map_err(|_damaged| InverseError::Damaged)?.inverse();
    let diff = Diff::of(&set).map_err(|_fault| InverseError::NotShowable)?;
    let first = set.changes().first().ok_or(InverseError::NotShowable)?;
    Ok(Proposed {
        id,
        path: first.path.to_string(),
        paths: set.changes().iter().flat_map(Change::paths).map(ToString::to_string).collect(),
        summary: summary(&set, first),
        changes: set.to_bytes(),
        patch_hash: diff.hash(),
        diff: diff.readable(),
        lines: diff.lines(),
        conditions: conditions(&set),
        ttl,
        window: ttl,
    })
}

/// One line about the changes: `CREATE FILE src/a.rs`, `MODIFY src/a.rs`, `PATCH 3 files`.
fn summary(set: &ChangeSet, first: &Change) -> String {
    match (set.changes().len(), &first.before, &first.after, &first.from) {
        (1, None, _, _) => format!("CREATE FILE {}", first.path),
        (1, _, None, _) => format!("DELETE {}", first.path),
        (1, _, _, Some(from)) => format!("RENAME {from} TO {}", first.path),
        (1, _, _, None) => format!("MODIFY {}", first.path),
        (many, ..) => format!("PATCH {many} files"),
    }
}

/// Returns the state that must still be there at the application.
fn conditions(set: &ChangeSet) -> Value {
    let mut all = Map::new();
    for change in set.changes() {
        let is = |state: &FileState| json!(format!("{} ({:o})", state.hash(), state.mode()));
        let before = change.before.as_ref();
        let place = change.from.as_ref().unwrap_or(&change.path);
        all.insert(place.to_string(), before.map_or_else(|| json!("absent"), is));
        if change.from.is_some() {
            all.insert(change.path.to_string(), json!("absent"));
        }
    }
    Value::Object(all)
}

/// The path of a change that would write a mark that was not there before.
fn marked(change: &Change) -> Option<String> {
    let after = text(change.after.as_ref()?);
    let before = change.before.as_ref().map(text).unwrap_or_default();
    marks_of(&after).any(|mark| !before.contains(mark)).then(|| change.path.to_string())
}

fn text(state: &FileState) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(state.bytes())
}
