//! `files`: changes to a group's workspace, proposed first and applied once a person has seen them.
//!
//! The sandbox owns the workspace and is hostile: it may plant links, pipes and devices, swap directories and edit
//! files at every moment. So every path is a parsed [`WorkspacePath`](model::WorkspacePath), looked at under the operator's
//! [`rules::PathRules`] and reached only through a [`workspace::Workspace`], the handle of one directory.
//!
//! A change is known completely before anybody is asked: [`patch`] makes a [`change::ChangeSet`] of a patch and of what
//! the files are now, [`diff`] shows all of it, and [`apply`] makes it true, all of it or nothing, if the files still are
//! what they were.

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

/// Where a group's files are, and where what is being done to them is written down.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The directory that is mounted into the sandbox.
    pub workspace: PathBuf,
    /// A directory of the host's own.
    pub journal: PathBuf,
}

/// The provider's name.
const NAME: &str = "files";

/// The actions of the provider. `expiry` is for how long people are asked about a proposal where the settings do not say.
///
/// # Errors
/// What is wrong with the configuration, and what to do.
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
