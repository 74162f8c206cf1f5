//! Warnings about a valid home that may differ from the operator's intent. `serve` logs them; `status` and
//! `config check` print them. They change no decision.

use crate::channels::ChannelTable;
use crate::inspection::ClassifierTable;
use crate::profiles::{entries, profile_name, read};
use crate::rules::is_rule_file;
use crate::web::Loopback;
use crate::{Config, ConfigError, published, socket};
use platform::home::{Home, quoted};
use policy::profile::Profile;
use shared::Group;
use shared::mailbox::{RESPONSES, TASKS};
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Returns the warnings about a home, one sentence each:
/// `group developer has no profile, so a person must agree to each of its writes; …`
///
/// # Errors
/// [`ConfigError`] if a file cannot be read.
pub fn warnings(home: &Home, config: &Config) -> Result<Vec<String>, ConfigError> {
    let mut found = match published::of(home, config)? {
        Some(policy) if policy.is_unknown() => vec![format!(
            "this host uses the policy of the host {} and has not received it yet; the daemon receives it at its next start \
             or reload",
            policy.host
        )],
        Some(_) | None => strict_groups(home, config)?,
    };
    found.extend(unused_files(home, config)?);
    found.extend(config.groups.iter().filter_map(|(group, table)| foreign_mailbox(home, group, table.uid?)));
    found.extend(config.groups.keys().filter(|group| config.has_conversations(group)).map(|group| {
        format!(
            "group {group} begins each conversation without exposure; its agent must not run programs, nor keep files or \
             memory"
        )
    }));
    found.extend(missing_files(home, config));
    found.extend(unanswered_channels(config));
    found.extend(config.inspection.classifier.as_ref().and_then(ClassifierTable::fault).map(|fault| {
        format!("{fault}, so all its results count as suspicious; correct [inspection.classifier] in broker.toml")
    }));
    found.extend(shared_addresses(config));
    found.extend(config.broker.socket_group.iter().filter_map(|group| socket::unreachable(home, group)));
    Ok(found)
}

/// Returns warnings about tables that listen on the address of `[metrics]`. The daemon cannot start then.
fn shared_addresses(config: &Config) -> Vec<String> {
    let Some(own) = config.metrics.as_ref().map(|table| table.listen.address()).filter(|own| own.port() != 0) else {
        return Vec::new();
    };
    let others = [
        ("[web] listen", config.web.as_ref().map(|web| web.listen.address())),
        ("[identity] callback", config.identity.callback.map(Loopback::address)),
    ];
    let same = others.into_iter().filter(|(_, address)| *address == Some(own));
    same.map(|(name, _)| {
        format!("[metrics] listen and {name} are both {own}, so the daemon cannot start; change one of the ports")
    })
    .collect()
}

/// Returns warnings about groups without a profile, or with an empty one.
fn strict_groups(home: &Home, config: &Config) -> Result<Vec<String>, ConfigError> {
    let profiles = read(home, config)?;
    let warning = |group| {
        let what = match profiles.get(group) {
            Some((_, profile)) if *profile == Profile::default() => "an empty profile",
            Some(_) => return None,
            None => "no profile",
        };
        let place = match config.policy_from() {
            Some(from) => format!("the policy of the host {from}"),
            None => home.profile(group).display().to_string(),
        };
        Some(format!(
            "group {group} has {what}, so a person must agree to each of its writes; {place} is the place for what you \
             mean to relax"
        ))
    };
    Ok(config.groups.keys().filter_map(warning).collect())
}

/// Returns warnings about files and directories that a provider needs and that do not exist.
fn missing_files(home: &Home, config: &Config) -> Vec<String> {
    let missing = |path: &Path| home.path().join(path).symlink_metadata().is_err_and(|error| error.kind() == NotFound);
    let of_providers = config.providers.iter().flat_map(|(provider, table)| {
        let paths = table.configured.trusted_files().into_iter().filter(|path| missing(path));
        paths.map(move |path| format!("provider {provider} needs {}, which does not exist", path.display()))
    });
    of_providers.collect()
}

/// Returns warnings about channels whose answers count for nobody: no person has an identity in the chat, or none of those
/// who have one can approve a call.
fn unanswered_channels(config: &Config) -> Vec<String> {
    let warning = |table: &ChannelTable| {
        let (name, kind) = (&table.name, table.kind());
        let is_there = |identity: &String| identity.split(':').next() == Some(kind);
        let speakers: Vec<_> = config.people.iter().filter(|(_, person)| person.chat.iter().any(is_there)).collect();
        if speakers.is_empty() {
            return Some(format!(
                "no answer in channel {name} counts, because no person has a {kind} identity; add chat = [\"{kind}:…\"] to \
                 [people.NAME]"
            ));
        }
        let approves = speakers.iter().any(|(_, person)| person.approves.is_some());
        (!approves).then(|| {
            let people: Vec<&str> = speakers.iter().map(|(name, _)| name.as_str()).collect();
            format!(
                "no answer in channel {name} counts, because {} cannot approve calls; add `approves` to [people.NAME]",
                people.join(" and ")
            )
        })
    };
    config.receiving_channels().filter_map(warning).collect()
}

/// Returns a warning about directories of a mailbox that the sandbox's user cannot write.
fn foreign_mailbox(home: &Home, group: &Group, uid: u32) -> Option<String> {
    let mailbox = home.mailbox(group);
    let places = [TASKS, RESPONSES].map(|name| mailbox.join(name));
    let owner = |path: &PathBuf| path.symlink_metadata().ok().map(|found| found.uid()).filter(|owner| *owner != uid);
    let foreign: Vec<(&PathBuf, u32)> = places.iter().filter_map(|path| Some((path, owner(path)?))).collect();
    let (first, owner) = foreign.first()?;
    let all: Vec<String> = foreign.iter().map(|(path, _)| quoted(path)).collect();
    Some(format!(
        "the sandbox of group {group} runs as user {uid} and cannot write {}, which belongs to user {owner}; as root: \
         chown {uid} {}",
        first.display(),
        all.join(" ")
    ))
}

/// Returns warnings about unread files beside the profiles and the rules: an editor's copy, or a misspelled name.
fn unused_files(home: &Home, config: &Config) -> Result<Vec<String>, ConfigError> {
    if let Some(from) = config.policy_from() {
        let files = entries(&home.profiles())?.into_iter().chain(entries(&home.policy())?);
        let is_empty = !files.into_iter().any(|path| path != home.profiles());
        let warning = || {
            format!(
                "the files in {} are not read, because this host uses the policy of the host {from}",
                home.policy().display()
            )
        };
        return Ok(if is_empty { Vec::new() } else { vec![warning()] });
    }
    let profiles = entries(&home.profiles())?.into_iter().filter(|path| profile_name(path).is_none());
    let rules = entries(&home.policy())?.into_iter();
    let rules = rules.filter(|path| !is_rule_file(path) && *path != home.profiles());
    let profiles = profiles.map(|path| format!("{} is not read: a profile is named GROUP.toml", path.display()));
    let rules = rules.map(|path| format!("{} is not read: a file of rules is named NAME.cedar", path.display()));
    Ok(profiles.chain(rules).collect())
}
