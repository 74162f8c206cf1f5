//! Whether channels and people fit each other, and what full cards may go through.

use super::{NotifyTable, Way, is_identity, is_safe};
use crate::config::Config;
use crate::config::home::Home;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

impl Config {
    /// Whether channels and people fit each other and the rest.
    pub(in crate::config) fn check_notify(&self, folder: &Path) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for table in &self.notify {
            let place = format!("notify `{}`", table.name);
            if !names.insert(&table.name) {
                return Err(format!("{place}: there are two of this name; give each its own"));
            }
            if let Some(unknown) = table.groups.iter().flatten().find(|group| !self.groups.contains_key(*group)) {
                return Err(format!("{place}: there is no group `{unknown}`; add [groups.{unknown}]"));
            }
            let mut providers = table.providers.iter().flatten();
            if let Some(unknown) = providers.find(|provider| !self.providers.contains_key(*provider)) {
                return Err(format!("{place}: there is no provider `{unknown}`; add [providers.{unknown}]"));
            }
            let approves = |name: &String| self.people.get(name).is_some_and(|person| person.approves.is_some());
            if let Some(unknown) = table.approvers.iter().find(|name| !approves(name)) {
                return Err(format!(
                    "{place}: `{unknown}` approves nothing; add `approves` to [people.{unknown}] or name another"
                ));
            }
            self.check_place(table, &Home::at(folder.to_owned())).map_err(|fault| format!("{place}: {fault}"))?;
        }
        if let Some(base) = &self.notices.link_base {
            is_safe(base).map_err(|fault| format!("notices.link_base: {fault}"))?;
        }
        let mut speakers = BTreeMap::new();
        for (name, person) in &self.people {
            for identity in &person.chat {
                is_identity(identity).map_err(|fault| format!("people.{name}.chat: {fault}"))?;
                if let Some(other) = speakers.insert(identity, name) {
                    return Err(format!("people.{name}.chat: `{identity}` is {other} already; one of them only"));
                }
            }
        }
        Ok(())
    }

    /// SECURITY: who can read a full card knows the code, and who can write beside it can counterfeit one. So neither may
    /// be a group. A program in a group's reach would be the group's program.
    fn check_place(&self, table: &NotifyTable, home: &Home) -> Result<(), String> {
        let within = |path: &Path| {
            let path = real(path);
            self.groups.keys().find_map(|group| {
                let places = [home.mailbox(group), home.path().join("workspaces").join(group.as_str())];
                let place = places.into_iter().find(|place| path.starts_with(real(place)))?;
                Some((group, place))
            })
        };
        match &table.way {
            Way::Command(command) => {
                let mut paths = command.iter().map(Path::new).filter(|path| path.is_absolute());
                paths.find_map(within).map_or(Ok(()), |(group, place)| {
                    let place = place.display();
                    Err(format!("the program lies in {place}, which group `{group}` can write to; put it elsewhere"))
                })
            }
            Way::Webhook { .. } => Ok(()),
            Way::Nanoclaw { .. } if !table.full_cards => Ok(()),
            Way::Nanoclaw { directory, .. } => {
                let shown = directory.display();
                let remedy = "choose a directory that no sandbox mounts, or set full_cards = false";
                if let Some((group, place)) = within(directory) {
                    return Err(format!(
                        "full_cards, but the directory {shown} lies in {}, which group `{group}` reads and writes; \
                         {remedy}",
                        place.display()
                    ));
                }
                // What is not there yet is looked at again at the next start.
                let Ok(found) = std::fs::metadata(directory) else { return Ok(()) };
                let owner = self.groups.iter().find(|(_, group)| group.uid == Some(found.uid()));
                if let Some((group, _)) = owner {
                    return Err(format!(
                        "full_cards, but the directory {shown} belongs to the user of group `{group}`; {remedy}"
                    ));
                }
                if found.mode() & 0o007 != 0 {
                    return Err(format!(
                        "full_cards, but others may look into the directory {shown}; chmod o= {shown}, or {remedy}"
                    ));
                }
                Ok(())
            }
        }
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(mut found) = ancestor.canonicalize() {
            found.extend(rest.iter().rev());
            return found;
        }
        rest.extend(ancestor.file_name());
    }
    path.to_owned()
}
