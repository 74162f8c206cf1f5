//! The actions of `files`, one file each.

mod apply_patch;
mod apply_proposal;
mod list_dir;
mod list_proposals;
mod read_file;
mod withdraw_proposal;
mod write_file;

use crate::context::FilesContext;
use crate::patch::first_name;
use model::{Exposure, Refusal};
use provider::contract::{Guard, Operation};
use provider::native::{BadDeclaration, operation};
use serde_json::{Map, Value, json};
use shared::{Action, Provider};
use std::sync::Arc;

/// Other authors wrote a part of a workspace, and its content stays on this host.
const READS: Exposure = Exposure { untrusted: true, sensitive: false, egress: false };

/// How many characters of a path a record has.
const PATH_CHARS_MAX: usize = 1024;

/// All of them.
///
/// # Errors
/// [`BadDeclaration`].
pub(super) fn all(provider: &Provider, context: &Arc<FilesContext>) -> Result<Vec<Arc<dyn Operation>>, BadDeclaration> {
    Ok(vec![
        operation::<read_file::ReadFile>(provider, context)?,
        operation::<list_dir::ListDir>(provider, context)?,
        operation::<write_file::WriteFile>(provider, context)?,
        operation::<apply_patch::ApplyPatch>(provider, context)?,
        operation::<apply_proposal::ApplyProposal>(provider, context)?,
        operation::<list_proposals::ListProposals>(provider, context)?,
        operation::<withdraw_proposal::WithdrawProposal>(provider, context)?,
    ])
}

/// Checks whether the path is one that may be asked for.
fn guarded(context: &FilesContext, path: &str) -> Guard {
    match context.path(path) {
        Ok(_) => Guard::Pass,
        Err(refusal) => Guard::Refuse(refusal),
    }
}

fn refuse(code: shared::Code, reason: String) -> Guard {
    Guard::Refuse(Refusal { code, reason })
}

/// Returns a path as it was given, for a record; a long one is cut.
fn clipped(path: &str) -> String {
    path.chars().take(PATH_CHARS_MAX).collect()
}

/// Returns the public members of the record of a call that names no action, or whose parameters do not fit.
pub(super) fn about_unparsed(action: &Action, params: &Map<String, Value>) -> Option<Value> {
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    let path = text("path").map(clipped).or_else(|| Some(clipped(&first_name(text("patch")?)?)))?;
    let op = match action.as_str() {
        proposes @ ("write_file" | "apply_patch") => format!("{proposes}_propose"),
        other => other.to_owned(),
    };
    Some(json!({ "op": op, "path": path }))
}

/// Returns a path for a line that a person reads: a text that is no path is not quoted.
fn named(path: &str) -> String {
    match model::WorkspacePath::new(path) {
        Ok(path) => path.to_string(),
        Err(_) => "a path that is not valid".to_owned(),
    }
}
