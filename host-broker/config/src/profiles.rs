//! The files of the groups' profiles: `policy/profiles/<group>.toml`.

use crate::error::parse;
use crate::known::Known;
use crate::published::PublishedPolicy;
use crate::{Config, ConfigError, PersonTable, Policy, published, rules};
use ::rules::{NamedProvider, RuleFile};
use model::{Patterns, Publication};
use platform::home::Home;
use policy::profile::STARTING;
use policy::profile::{ApprovalMode, Profile, Profiles};
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use shared::{Group, Provider};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The operators' files beside the configuration, as they were when they were read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Written {
    profiles: BTreeMap<Group, (PathBuf, Profile)>,
    rules: Vec<RuleFile>,
    /// The groups that rules can name.
    groups: BTreeSet<Group>,
    /// The publication that they are from; absent, they are from `policy/`.
    publication: Option<Publication>,
}

impl Written {
    /// Reads all files. A group without a file has the strict profile; [`warnings`](crate::warnings) names it.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, the place and what to do.
    pub fn read(home: &Home, config: &Config) -> Result<Self, ConfigError> {
        if let Some(policy) = published::of(home, config)? {
            return Self::of(&policy, config);
        }
        let (profiles, rules) = (read(home, config)?, rules::files(home, config)?);
        Ok(Self { profiles, rules, groups: config.groups.keys().cloned().collect(), publication: None })
    }

    /// Returns the files of a publication. Groups without a profile in it have the strict one.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, the place and what to do.
    pub fn of(policy: &PublishedPolicy, config: &Config) -> Result<Self, ConfigError> {
        let (profiles, publication) = (own_profiles(policy, config)?, Some(policy.publication()));
        Ok(Self { profiles, rules: policy.rules(&policy.place()), groups: policy.all_groups(config), publication })
    }

    /// Returns whether the host does not know the publication which it uses.
    pub fn is_unknown(&self) -> bool {
        self.publication.as_ref().is_some_and(|publication| publication.number == 0)
    }

    /// Leaves a file of rules out.
    #[must_use]
    pub fn without(mut self, path: &Path) -> Self {
        self.rules.retain(|file| file.path != path);
        self
    }

    /// Returns the policy with this catalogue: quorums, profiles, rules and provider settings.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, the place and what to do.
    pub fn policy(&self, home: &Home, config: &Config, providers: &[NamedProvider<'_>]) -> Result<Policy, ConfigError> {
        checked(home, Known { config, providers })?;
        let digest = |name: &Provider| {
            let (_, table) = config.table_of(name)?;
            Some((name.clone(), Digest::of(&shared::json::canonical(table))))
        };
        let settings = providers.iter().filter_map(|named| digest(named.name)).collect();
        let profiles = parsed(&self.profiles, Known { config, providers })?;
        let rules = rules::parse(&self.rules, &self.groups, providers)?;
        let flows = config.flows.clone();
        let rights = |(name, table): (&String, &PersonTable)| Some((name.clone(), table.approves.clone()?));
        let approvers = config.people.iter().filter_map(rights).collect();
        let (limits, shared_quotas) = (config.limits.clone(), config.shared_quotas.clone());
        let (approvals, quorum) = (config.approvals.clone(), config.quorums());
        let publication = self.publication.clone();
        Ok(Policy {
            quorum,
            profiles,
            rules,
            limits,
            shared_quotas,
            flows,
            settings,
            approvals,
            approvers,
            publication,
        })
    }
}

/// Checks profiles against the configuration and the catalogue.
fn parsed(profiles: &BTreeMap<Group, (PathBuf, Profile)>, known: Known<'_>) -> Result<Profiles, ConfigError> {
    for (path, profile) in profiles.values() {
        check(profile, known).map_err(|fault| ConfigError::Inconsistent { path: path.clone(), fault })?;
    }
    let profiles = profiles.iter().map(|(group, (_, profile))| (group.clone(), profile.clone()));
    Ok(Profiles::new(profiles.collect()))
}

/// Returns the policy of the operators, from the present files.
///
/// # Errors
/// [`ConfigError`], naming the file, the place and what to do.
pub fn policy(home: &Home, config: &Config, providers: &[NamedProvider<'_>]) -> Result<Policy, ConfigError> {
    Written::read(home, config)?.policy(home, config, providers)
}

/// Checks whether each action that the configuration names exists.
fn checked(home: &Home, known: Known<'_>) -> Result<(), ConfigError> {
    let config = known.config;
    for (provider, actions) in &config.approvals.actions {
        if known.may_be_of_a_bridge(provider) {
            continue;
        }
        if let Some(action) = actions.keys().find(|action| known.action(provider, action).is_none()) {
            // A quorum for an unknown action protects nothing.
            let fault = format!(
                "approvals.actions.{provider}.{action}: provider {provider} has no such action; correct the name"
            );
            return Err(ConfigError::Inconsistent { path: home.config(), fault });
        }
    }
    for (provider, actions) in &config.approvals.actions {
        let has_own = known.has_workspaces(provider);
        if let Some((action, _)) = actions.iter().find(|(_, table)| has_own && table.expires_s.is_some()) {
            let fault = format!(
                "approvals.actions.{provider}.{action}.expires_s: proposals do not use it; set hitl_ttl_seconds of \
                 [providers.{provider}]"
            );
            return Err(ConfigError::Inconsistent { path: home.config(), fault });
        }
    }
    if let Err(fault) = config.flows.check_against(known) {
        return Err(ConfigError::Inconsistent { path: home.config(), fault });
    }
    for (place, provider, action) in config.limits.amounts().chain(config.shared_quotas.amounts()) {
        let named = known.providers.iter().filter(|named| provider == "*" || named.name.as_str() == provider);
        if !named.flat_map(|named| &named.actions).any(|named| named.declaration.action == *action) {
            let fault = format!("{place}.{action}: no matching provider has such an action; correct the name");
            return Err(ConfigError::Inconsistent { path: home.config(), fault });
        }
    }
    Ok(())
}

/// Reads every profile and checks it against the configuration and the catalogue.
///
/// # Errors
/// [`ConfigError`], naming the file, the place and what to do.
pub fn load(home: &Home, config: &Config, providers: &[NamedProvider<'_>]) -> Result<Profiles, ConfigError> {
    parsed(&read(home, config)?, Known { config, providers })
}

/// Returns the sorted entries of a directory of the operators; none if there is no such directory.
///
/// # Errors
/// [`ConfigError::Read`] with the directory.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let failed = |source| ConfigError::Read { path: directory.into(), source };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.push(entry.map_err(failed)?.path());
    }
    found.sort();
    Ok(found)
}

/// Returns the name of the group whose profile this file would be: `developer` of `policy/profiles/developer.toml`.
pub(super) fn profile_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".toml")
}

/// Returns the profiles of the home, with their files.
///
/// # Errors
/// [`ConfigError`], naming the file, the place and what to do.
pub(super) fn read(home: &Home, config: &Config) -> Result<BTreeMap<Group, (PathBuf, Profile)>, ConfigError> {
    if let Some(policy) = published::of(home, config)? {
        return own_profiles(&policy, config);
    }
    let read = |path: &Path, source| ConfigError::Read { path: path.into(), source };
    let mut profiles = BTreeMap::new();
    for path in entries(&home.profiles())? {
        let Some(stem) = profile_name(&path) else { continue };
        let inconsistent = |fault: String| ConfigError::Inconsistent { path: path.clone(), fault };
        let group = stem.parse::<Group>().ok().filter(|group| config.holds(group));
        let group = group.ok_or_else(|| {
            inconsistent(format!("there is no group `{stem}`; add [groups.{stem}] to broker.toml or remove this file"))
        })?;
        let text = std::fs::read_to_string(&path).map_err(|source| read(&path, source))?;
        let profile: Profile = parse(&text, &path)?;
        profiles.insert(group, (path, profile));
    }
    Ok(profiles)
}

/// Returns the profiles of a publication for the groups of this host. It has profiles for the groups of all hosts.
fn own_profiles(policy: &PublishedPolicy, config: &Config) -> Result<BTreeMap<Group, (PathBuf, Profile)>, ConfigError> {
    Ok(policy.profiles(&policy.place())?.into_iter().filter(|(group, _)| config.holds(group)).collect())
}

/// Writes the starting profile of each group of a home without a directory for profiles. Returns whether it did.
///
/// # Errors
/// [`ConfigError::Write`] with the file.
pub fn create_missing(home: &Home, config: &Config) -> Result<bool, ConfigError> {
    let directory = home.profiles();
    if directory.exists() {
        return Ok(false);
    }
    // All files or none: the directory marks that this was done.
    let beside = directory.with_extension("new");
    // A host on which people work has no groups, and still a directory.
    let failed = |source| ConfigError::Write { path: beside.clone(), source };
    platform::home::make_private_directory(&beside).map_err(failed)?;
    for group in config.groups.keys() {
        write_in(&beside, group, STARTING)?;
    }
    std::fs::rename(&beside, &directory).map_err(|source| ConfigError::Write { path: directory, source })?;
    Ok(true)
}

/// Returns a group's profile for a home for tests: its mock needs no approval.
pub fn with_free_mock(provider: &str) -> String {
    format!(
        "{STARTING}\n[providers.{provider}]\nwrite = \"auto\"\nproduction = \"auto\"\n\
         trifecta_off = \"a script; nothing of it is real\"\n"
    )
}

/// Writes a group's profile unless it has one.
///
/// # Errors
/// [`ConfigError::Write`] with the file.
pub fn write(home: &Home, group: &Group, text: &str) -> Result<(), ConfigError> {
    write_in(&home.profiles(), group, text)
}

fn write_in(directory: &Path, group: &Group, text: &str) -> Result<(), ConfigError> {
    let path = directory.join(format!("{group}.toml"));
    platform::home::write_new(&path, text.as_bytes()).map(drop).map_err(|source| ConfigError::Write { path, source })
}

/// Checks a profile. A line about an unknown action protects nothing.
pub(super) fn check(profile: &Profile, known: Known<'_>) -> Result<(), String> {
    for (provider, posture) in &profile.providers {
        if known.may_be_of_a_bridge(provider) {
            tracing::warn!(%provider, "the capability is not accepted; its lines in the profile have no effect yet");
            continue;
        }
        let named = known.provider(provider).ok_or_else(|| match provider.namespace() {
            Some(bridge) => format!(
                "there is no provider `{provider}`; to accept it as a capability of \
                                     [providers.{bridge}]: host-broker provider accept {bridge}"
            ),
            None => format!("there is no provider `{provider}`; add [providers.{provider}] to broker.toml"),
        })?;
        if let Some(action) = posture.actions.keys().find(|action| known.action(provider, action).is_none()) {
            let known_actions: Vec<&str> =
                named.actions.iter().map(|named| named.declaration.action.as_str()).collect();
            return Err(format!("provider {provider} has no action `{action}`; it has {}", known_actions.join(", ")));
        }
        if posture.trifecta_off.as_ref().is_some_and(|why| why.trim().is_empty()) {
            return Err(format!("providers.{provider}.trifecta_off must not be empty; state the reason"));
        }
        let kind = named.actions.iter().find_map(|named| named.declaration.destinations);
        if let Some(own) = posture.own.iter().find(|own| kind.is_none_or(|kind| kind.read(own).is_none())) {
            return Err(match kind {
                Some(kind) => {
                    format!("providers.{provider}.own: `{own}` is no single destination; write {}", kind.example())
                }
                None => format!(
                    "providers.{provider}.own: the actions of {provider} do not name their destinations; remove the line"
                ),
            });
        }
        if !posture.paths.is_empty() && !known.has_workspaces(provider) {
            return Err(format!("providers.{provider}.paths: only providers of files have paths; remove them"));
        }
        for (pattern, setting) in &posture.paths {
            if let Err(fault) = Patterns::new([pattern.as_str()]) {
                return Err(format!("providers.{provider}.paths: {fault}"));
            }
            if !matches!(setting, ApprovalMode::Auto | ApprovalMode::Human) {
                return Err(format!(
                    "providers.{provider}.paths: `{pattern}` must be `auto` or `human`; to deny a path, add it to \
                     deny_path_globs in broker.toml"
                ));
            }
        }
    }
    Ok(())
}
