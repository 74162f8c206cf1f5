//! `files`: changes to a group's workspace, proposed first and applied once a person has seen them.
//!
//! The sandbox owns the workspace and is hostile: it may plant links, pipes and devices, swap directories and edit
//! files at every moment. So every path is a parsed [`WorkspacePath`](model::WorkspacePath), looked at under the
//! operator's [`rules::PathRules`] and reached only through a [`workspace::Workspace`], the handle of one directory.
//!
//! A change is known completely before the approval request: [`patch`] makes a [`change::ChangeSet`] of a patch and of
//! the present files, [`diff`] shows all of it, and [`apply`] applies it, all of it or nothing, if the files are
//! unchanged.

pub mod rules;
pub mod workspace;
pub mod record;
pub mod change;
pub mod patch;
pub mod diff;
pub mod apply;
pub mod settings;
mod actions;
mod context;
pub(crate) mod propose;
mod reply;
mod table;

pub use settings::Settings;
pub use table::KIND;

use context::FilesContext;
use model::Random;
use provider::contract::Operation;
use rules::PathRules;
use shared::{Group, Provider};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The place of a group's files, and of the journal of their changes.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The directory that is mounted into the sandbox.
    pub workspace: PathBuf,
    /// A directory of the host's own.
    pub journal: PathBuf,
}

/// The provider's name.
const NAME: &str = "files";

/// Returns the actions of the provider. `expiry` is the default lifetime of a proposal's approval request.
///
/// # Errors
/// The fault of the configuration, and the next step.
pub fn operations(
    name: &Provider,
    settings: &Settings,
    expiry: Duration,
    spots: BTreeMap<Group, Spot>,
    ids: &Arc<dyn Random>,
) -> Result<Vec<Arc<dyn Operation>>, String> {
    if name.as_str() != NAME {
        return Err(format!("it must be called [providers.files], not [providers.{name}]: a group has one workspace"));
    }
    settings.check()?;
    if let Some(unknown) = settings.workspaces.keys().find(|group| !spots.contains_key(*group)) {
        return Err(format!("workspaces.{unknown}: there is no group `{unknown}`; add [groups.{unknown}]"));
    }
    let rules = PathRules::new(&settings.deny_path_globs, &settings.allowlisted_create_dirs);
    let rules = rules.map_err(|fault| fault.to_string())?;
    let context = Arc::new(FilesContext::new(settings.clone(), expiry, rules, Arc::clone(ids), spots));
    actions::all(name, &context).map_err(|fault| fault.to_string())
}
