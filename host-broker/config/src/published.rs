//! The policy that a host of the fleet publishes, and that other hosts use instead of their `policy/`.
//!
//! ```toml
//! [store]
//! policy_from = "a"
//! ```
//!
//! The daemon verifies a publication and keeps it in `publication.json` of the home. Everything else reads it from there.

use crate::error::parse;
use crate::known::Known;
use crate::profiles::check;
use crate::{Config, ConfigError, rules};
use ::rules::{NamedProvider, RuleFile};
use model::{HostName, Publication};
use platform::home::Home;
use policy::profile::Profile;
use serde::{Deserialize, Serialize};
use shared::Group;
use shared::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The most bytes of the files of a policy, with their names.
pub const BYTES_MAX: usize = 256 * 1024;
/// The directory of the profiles in a policy.
const PROFILES: &str = "profiles/";

/// A policy, as a host publishes it:
///
/// ```json
/// {"host": "a", "number": 3, "files": {"own.cedar": "permit (…);", "profiles/developer.toml": "…"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPolicy {
    /// The host that publishes it.
    pub host: HostName,
    /// The number of the publication.
    pub number: i64,
    /// The texts of its files, by their names in `policy/`.
    pub files: BTreeMap<String, String>,
}

impl PublishedPolicy {
    /// Returns the strict policy of a host that does not know the publication which it uses. It is never in force.
    pub fn unknown(from: &HostName) -> Self {
        Self { host: from.clone(), number: 0, files: BTreeMap::new() }
    }

    /// Returns whether it is unknown.
    pub fn is_unknown(&self) -> bool {
        self.number == 0
    }

    /// Returns the publication.
    pub fn publication(&self) -> Publication {
        let text = serde_json::to_value(self).map(|policy| shared::json::canonical(&policy));
        // A policy of texts can be written as JSON.
        let digest = text.map_or(Digest::ZERO, |text| Digest::of(&text));
        Publication { host: self.host.clone(), number: self.number, digest }
    }

    /// Returns the place of its files, for people: `publication 3 of the host a`.
    pub(crate) fn place(&self) -> PathBuf {
        self.publication().to_string().into()
    }

    /// Returns the files of rules, by name, with their paths at this place.
    pub(crate) fn rules(&self, place: &Path) -> Vec<RuleFile> {
        let rules = self.files.iter().filter(|(name, _)| !name.starts_with(PROFILES));
        rules.map(|(name, text)| RuleFile { path: place.join(name), text: text.clone() }).collect()
    }

    /// Returns the profiles of all groups, with their paths at this place.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, the line and the remedy.
    pub(crate) fn profiles(&self, place: &Path) -> Result<BTreeMap<Group, (PathBuf, Profile)>, ConfigError> {
        let mut profiles = BTreeMap::new();
        for (name, text) in &self.files {
            let Some(group) = profile_of(name) else { continue };
            let path = place.join(name);
            let profile = parse(text, &path)?;
            profiles.insert(group, (path, profile));
        }
        Ok(profiles)
    }

    /// Returns the groups with a profile, on all hosts.
    fn groups(&self) -> impl Iterator<Item = Group> {
        self.files.keys().filter_map(|name| profile_of(name))
    }

    /// Returns the groups that rules can name: those of the configuration, and those of other hosts with a profile.
    pub(crate) fn all_groups(&self, config: &Config) -> BTreeSet<Group> {
        config.groups.keys().cloned().chain(self.groups()).collect()
    }

    /// Checks the policy before it is published. This host needs each provider that the policy names. Rules can name the groups
    /// with a profile only, because other hosts may not have the others.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file, the place and the remedy.
    pub fn check(&self, config: &Config, providers: &[NamedProvider<'_>]) -> Result<(), ConfigError> {
        self.check_names()?;
        let bytes = self.files.iter().fold(0_usize, |bytes, (name, text)| bytes + name.len() + text.len());
        if bytes > BYTES_MAX {
            let fault = format!("the files have {bytes} bytes, and a policy has at most {BYTES_MAX}; remove some");
            return Err(ConfigError::Inconsistent { path: "policy".into(), fault });
        }
        // The files are where the person has them.
        let place = Path::new("");
        for (path, profile) in self.profiles(place)?.values() {
            let fault = check(profile, Known { config, providers });
            fault.map_err(|fault| ConfigError::Inconsistent { path: path.clone(), fault })?;
        }
        rules::parse(&self.rules(place), &self.groups().collect(), providers).map(drop)
    }

    /// Checks the names of the files.
    ///
    /// # Errors
    /// [`ConfigError`] with the name.
    pub fn check_names(&self) -> Result<(), ConfigError> {
        let Some(name) = self.files.keys().find(|name| !is_name(name)) else { return Ok(()) };
        let fault = "a file of a policy is named NAME.cedar or profiles/GROUP.toml".to_owned();
        Err(ConfigError::Inconsistent { path: name.into(), fault })
    }
}

fn profile_of(name: &str) -> Option<Group> {
    name.strip_prefix(PROFILES)?.strip_suffix(".toml")?.parse().ok()
}

/// Returns whether this can be the name of a file of a policy.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_rules = |stem: &str| !stem.is_empty() && !stem.starts_with('.') && stem.chars().all(is_plain);
    profile_of(name).is_some() || name.strip_suffix(".cedar").is_some_and(is_rules)
}

/// Returns the publication that this host uses; `None` if it uses its own `policy/`. A host that has not received it yet has an
/// unknown one.
///
/// # Errors
/// [`ConfigError`]: the file cannot be used.
pub fn of(home: &Home, config: &Config) -> Result<Option<PublishedPolicy>, ConfigError> {
    let Some(from) = config.policy_from() else { return Ok(None) };
    let path = home.publication();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(PublishedPolicy::unknown(from))),
        Err(source) => return Err(ConfigError::Read { path, source }),
    };
    let policy: PublishedPolicy = serde_json::from_str(&text).map_err(|fault| ConfigError::Inconsistent {
        path,
        fault: format!("{fault}; remove the file, and start the daemon: host-broker serve"),
    })?;
    Ok(Some(if policy.host == *from { policy } else { PublishedPolicy::unknown(from) }))
}

/// Returns the groups that rules can name: those of the configuration, and those with a profile in the publication that this
/// host uses.
///
/// # Errors
/// As [`of`].
pub fn groups(home: &Home, config: &Config) -> Result<BTreeSet<Group>, ConfigError> {
    let own = || config.groups.keys().cloned().collect();
    Ok(of(home, config)?.map_or_else(own, |policy| policy.all_groups(config)))
}

/// Reads the files of a directory that a person wants to publish: `*.cedar`, and `*.toml` in `profiles/`. Returns them, and the
/// paths of all other files.
///
/// # Errors
/// [`ConfigError::Read`] with the file.
pub fn files_in(directory: &Path) -> Result<(BTreeMap<String, String>, Vec<PathBuf>), ConfigError> {
    let read = |path: &Path, source| ConfigError::Read { path: path.into(), source };
    // A mistyped directory must not publish an empty policy.
    std::fs::read_dir(directory).map_err(|source| read(directory, source))?;
    let profiles = directory.join(PROFILES.trim_end_matches('/'));
    let (mut files, mut others) = (BTreeMap::new(), Vec::new());
    let below = crate::profiles::entries(&profiles)?.into_iter().map(|path| (PROFILES, path));
    let above = crate::profiles::entries(directory)?.into_iter().filter(|path| *path != profiles);
    for (prefix, path) in above.map(|path| ("", path)).chain(below) {
        let name = path.file_name().and_then(|name| name.to_str()).map(|name| format!("{prefix}{name}"));
        // Reading a pipe would block.
        let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
        match name.filter(|name| is_name(name) && is_file) {
            Some(name) => {
                let text = std::fs::read_to_string(&path).map_err(|source| read(&path, source))?;
                files.insert(name, text);
            }
            None => others.push(path),
        }
    }
    Ok((files, others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::Environment;

    const STORE: &str = "[store]\nurl = { env = \"URL\" }\nhost = \"b\"\npolicy_from = \"a\"\n\
        [store.hosts.a]\nkey = \"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"\n[groups.developer]\n";

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("/x/broker.toml"), &Environment::new(), crate::KINDS).unwrap()
    }

    fn policy(files: &[(&str, &str)]) -> PublishedPolicy {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        PublishedPolicy { host: "a".parse().unwrap(), number: 3, files }
    }

    const ANY: &str = "forbid (principal == Group::\"elsewhere\", action, resource);";

    #[test]
    fn only_files_of_a_policy_with_known_names_are_published() {
        let config = config(STORE);
        let faults = |files: &[(&str, &str)]| policy(files).check(&config, &[]).map_err(|error| error.to_string());
        faults(&[("own.cedar", "")]).unwrap();
        faults(&[("own.cedar", ANY), ("profiles/elsewhere.toml", "")]).unwrap();
        for (files, words) in [
            (&[("own.cedar", ANY)][..], "in a published policy, add profiles/elsewhere.toml"),
            (&[("own.cedar", &ANY.replace("elsewhere", "developer"))], "there is no group `developer`"),
            (&[("own.cedar", "permit")], "own.cedar:1: "),
            (&[("profiles/developer.toml", "[providers.github]\nwrite = \"auto\"")], "there is no provider `github`"),
            (&[("profiles/developer.toml", "[provider]")], "did you mean `providers`?"),
            (&[("../own.cedar", "")], "NAME.cedar"),
            (&[(".cedar", "")], "NAME.cedar"),
            (&[("profiles/a b.toml", "")], "profiles/GROUP.toml"),
            (&[("broker.toml", "")], "NAME.cedar"),
            (&[("own.cedar", &" ".repeat(BYTES_MAX))], "a policy has at most 262144"),
        ] {
            let fault = faults(files).unwrap_err();
            assert!(fault.contains(words), "no `{words}` in {fault}");
        }
    }

    #[test]
    fn a_host_uses_the_publication_of_the_host_that_it_names_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let home = Home::at(home.path().to_owned());
        assert_eq!(of(&home, &config("")).unwrap(), None);
        let config = config(STORE);
        let unknown = || of(&home, &config).unwrap().unwrap().is_unknown();
        assert!(unknown());
        let write = |policy: &PublishedPolicy| {
            std::fs::write(home.publication(), serde_json::to_string(policy).unwrap()).unwrap();
        };
        let published = policy(&[("own.cedar", ANY), ("profiles/elsewhere.toml", "")]);
        write(&published);
        assert_eq!(of(&home, &config).unwrap(), Some(published.clone()));
        let digest = |policy: &PublishedPolicy| policy.publication().digest;
        assert_ne!(digest(&published), digest(&policy(&[("own.cedar", ANY)])));
        let names: Vec<String> = groups(&home, &config).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["developer", "elsewhere"]);
        write(&PublishedPolicy { host: "c".parse().unwrap(), ..published });
        assert!(unknown());
        std::fs::write(home.publication(), "{}").unwrap();
        let fault = of(&home, &config).unwrap_err().to_string();
        assert!(fault.contains("remove the file"), "{fault}");
    }

    #[test]
    fn the_files_of_a_directory_are_read_and_the_others_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("profiles")).unwrap();
        for name in ["own.cedar", "own.cedar.bak", "profiles/developer.toml", "profiles/Developer.toml~"] {
            std::fs::write(at(name), name).unwrap();
        }
        let (files, others) = files_in(directory.path()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["own.cedar", "profiles/developer.toml"]);
        assert_eq!(others, [at("own.cedar.bak"), at("profiles/Developer.toml~")]);
        assert!(files_in(&at("missing")).is_err());
    }
}
