//! The table of the workspaces in the configuration, and the provider that is built from it.

use crate::settings::Settings;
use crate::{Spot, actions};
use platform::home::Home;
use provider::child;
use provider::kind::{AboutUnparsed, BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::table;
use secrets::source::SecretSource;
use shared::{Group, Provider};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The kind `files`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("files");

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        BTreeMap::new()
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        Vec::new()
    }

    fn workspaces(&self) -> Option<&BTreeMap<Group, PathBuf>> {
        Some(&self.workspaces)
    }

    fn about_unparsed(&self) -> Option<AboutUnparsed> {
        Some(actions::about_unparsed)
    }

    /// Creates the workspaces in the home; the others belong to the operator.
    fn create_directories(&self, home: &Home, groups: &[&Group]) -> std::io::Result<()> {
        let own = groups.iter().filter(|group| !self.workspaces.contains_key(**group));
        own.map(|group| home.workspace(group)).try_for_each(std::fs::create_dir_all)
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let spots = spots(self, &deps.groups, deps.home)?;
        let operations = crate::operations(name, self, deps.approval_expiry, spots, &deps.platform.ids)?;
        Ok(vec![BuiltProvider::new(name, operations)])
    }
}

/// Returns the workspace and the journal of each group.
///
/// # Errors
/// A workspace is in a place that a sandbox must not reach, with the remedy.
fn spots(settings: &Settings, groups: &[&Group], home: &Home) -> Result<BTreeMap<Group, Spot>, String> {
    let own = real(home.path());
    let mut spots: BTreeMap<Group, Spot> = BTreeMap::new();
    for group in groups.iter().copied() {
        let workspace = match settings.workspaces.get(group) {
            Some(path) => home.path().join(path),
            None => home.workspace(group),
        };
        if workspace.components().any(|part| part == Component::ParentDir) {
            let shown = workspace.display();
            return Err(format!("workspaces.{group}: {shown} goes up with `..`; write where it is"));
        }
        let place = real(&workspace);
        // SECURITY: a caller who can propose changes to the broker's own files can propose another broker.
        let reaches_home =
            own.starts_with(&place) || place.starts_with(&own) && !place.starts_with(own.join("workspaces"));
        if reaches_home {
            return Err(format!(
                "workspaces.{group}: {} holds or lies in the broker's home; only workspaces/ of it may be shown to a \
                 sandbox",
                workspace.display()
            ));
        }
        let nested = |other: &PathBuf| place.starts_with(other) || other.starts_with(&place);
        if let Some((other, _)) = spots.iter().find(|(_, spot)| nested(&real(&spot.workspace))) {
            return Err(format!(
                "workspaces.{group}: {} is the workspace of group `{other}`, or lies in it; give each its own",
                workspace.display()
            ));
        }
        spots.insert(group.clone(), Spot { workspace, journal: home.journal(group) });
    }
    Ok(spots)
}

/// Returns the real path. A missing path is placed at its nearest existing ancestor.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match found {
        Some((ancestor, real)) => real.join(path.strip_prefix(ancestor).unwrap_or(Path::new(""))),
        None => path.to_path_buf(),
    }
}
