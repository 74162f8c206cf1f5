//! Checks of channels and people against each other, and of the channels for full cards.

use super::{ChannelTable, Way, is_identity, is_safe};
use crate::Config;
use platform::home::Home;
use shared::Group;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Any right of users other than the owner and its group of users.
const OTHERS: u32 = 0o007;

impl Config {
    /// Checks whether channels and people fit each other and the rest.
    pub(crate) fn check_notify(&self, folder: &Path) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for table in &self.channels {
            let place = format!("channels `{}`", table.name);
            if !names.insert(&table.name) {
                return Err(format!("{place}: two channels have this name; rename one"));
            }
            if let Some(unknown) = table.groups.iter().flatten().find(|group| !self.groups.contains_key(*group)) {
                return Err(format!("{place}: there is no group `{unknown}`; add [groups.{unknown}]"));
            }
            let others = self.channels.iter().take_while(|other| other.name != table.name);
            if let Some(other) = others.into_iter().find(|other| is_same_bot(table, other)) {
                return Err(format!(
                    "{place}: `{}` fetches the same answers; take another bot or room, or remove accepts_answers",
                    other.name
                ));
            }
            let mut providers = table.providers.iter().flatten();
            if let Some(unknown) = providers.find(|provider| !self.is_asked_about(provider)) {
                return Err(format!("{place}: there is no provider `{unknown}`; add [providers.{unknown}]"));
            }
            let approves = |name: &String| self.people.get(name).is_some_and(|person| person.approves.is_some());
            if let Some(unknown) = table.approvers.iter().find(|name| !approves(name)) {
                return Err(format!(
                    "{place}: the approver `{unknown}` cannot approve calls; add `approves` to [people.{unknown}] or name another"
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
                let network = identity.split(':').next();
                // A bridge chooses its own ids.
                let is_fetched = self.receiving_channels().any(|table| network == Some(table.kind()));
                let checked = is_identity(identity).and_then(|()| if is_fetched { is_id(identity) } else { Ok(()) });
                checked.map_err(|fault| format!("people.{name}.chat: {fault}"))?;
                if let Some(other) = speakers.insert(identity, name) {
                    return Err(format!(
                        "people.{name}.chat: `{identity}` belongs to {other} already; remove one of the two"
                    ));
                }
            }
        }
        Ok(())
    }

    /// SECURITY: a reader of a full card knows the code, and a writer beside it can counterfeit one. So neither may be
    /// a group. A program in a group's reach would be the group's program.
    fn check_place(&self, table: &ChannelTable, home: &Home) -> Result<(), String> {
        let within = |path: &Path| {
            let path = real(path);
            self.groups.keys().find_map(|group| {
                let elsewhere = self.workspaces().filter_map(|all| all.get(group)).map(|path| home.path().join(path));
                let places = [home.mailbox(group), home.workspace(group)].into_iter().chain(elsewhere);
                let place = places.into_iter().find(|place| path.starts_with(real(place)))?;
                Some((group, place))
            })
        };
        match &table.way {
            Way::Command(command) => {
                let mut paths = command.iter().map(Path::new).filter(|path| path.is_absolute());
                let found = paths.find_map(|path| Some((path.display(), within(path)?)));
                found.map_or(Ok(()), |(path, (group, place))| {
                    let place = place.display();
                    Err(format!("{path} lies in {place}, which group `{group}` can write to; put it elsewhere"))
                })
            }
            Way::Webhook { .. } | Way::Telegram { .. } | Way::Matrix { .. } | Way::Slack { .. } => Ok(()),
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
                if directory.components().any(|part| part == Component::ParentDir) {
                    return Err(format!("full_cards, and the directory {shown} has `..` in its path; write it out"));
                }
                if let Some((group, place)) = self.owned_by_a_group(directory) {
                    let place = place.display();
                    return Err(format!("full_cards, but {place} belongs to the user of group `{group}`; {remedy}"));
                }
                // A missing directory is checked before each write.
                if directory.exists() {
                    is_closed(directory).map_err(|fault| format!("full_cards, but {fault}, or {remedy}"))
                } else {
                    Ok(())
                }
            }
        }
    }
}

impl Config {
    /// Returns the part of a directory's path that belongs to the user of a group, who could replace it. If sandboxes
    /// run as the broker's own user, mounts confine them, and not the user.
    fn owned_by_a_group<'a>(&self, directory: &'a Path) -> Option<(&Group, &'a Path)> {
        let own = rustix::process::geteuid().as_raw();
        let foreign = |uid: &u32| *uid != own && *uid != 0;
        directory.ancestors().find_map(|place| {
            let owner = Some(std::fs::metadata(place).ok()?.uid()).filter(foreign)?;
            let (group, _) = self.groups.iter().find(|(_, table)| table.uid == Some(owner))?;
            Some((group, place))
        })
    }
}

/// Checks whether an identity of a chat whose answers the broker fetches has an id. A name in its place would never match.
fn is_id(identity: &str) -> Result<(), String> {
    let (network, id) = identity.split_once(':').unwrap_or_default();
    let (is_id, form) = match network {
        "telegram" => (id.chars().all(|c| c.is_ascii_digit()), "telegram:12345, with the number of the user"),
        "slack" => {
            let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
            (id.starts_with(['U', 'W']) && id.chars().all(is_plain), "slack:U0123456789, with the member ID")
        }
        "matrix" => (id.starts_with('@') && id.contains(':'), "matrix:@alice:example.org"),
        _ => (true, ""),
    };
    if is_id { Ok(()) } else { Err(format!("`{identity}` must be like {form}")) }
}

/// Returns whether two channels fetch the answers of the same bot. A Matrix account tells rooms apart.
fn is_same_bot(one: &ChannelTable, other: &ChannelTable) -> bool {
    let room = |table: &ChannelTable| match &table.way {
        Way::Matrix { room_id, .. } => Some(room_id.clone()),
        Way::Command(_) | Way::Webhook { .. } | Way::Nanoclaw { .. } | Way::Telegram { .. } | Way::Slack { .. } => None,
    };
    let is_shared = || other.secrets().values().any(|source| one.secrets().values().any(|own| own == source));
    one.receives && other.receives && room(one) == room(other) && is_shared()
}

/// Checks whether a directory is closed to everybody but its owner and its group of users.
///
/// # Errors
/// The error and the remedy.
pub fn is_closed(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    match std::fs::metadata(directory) {
        Ok(found) if found.mode() & OTHERS == 0 => Ok(()),
        Ok(_) => Err(format!("other users can access the directory {shown}; chmod o= {shown}")),
        Err(error) => Err(format!("the directory {shown} cannot be read ({error})")),
    }
}

/// Returns the path without links, as far as it exists.
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
