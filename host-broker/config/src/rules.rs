//! The files of the rules: `policy/*.cedar`.

use crate::profiles::entries;
use crate::{Config, ConfigError, published};
use ::rules::{NamedProvider, RuleFile, Rules, SHIPPED};
use model::external;
use platform::home::Home;
use shared::Group;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const EXTENSION: &str = "cedar";

/// Reads every file of rules and checks them against the configuration and the catalogue. A home without any has the
/// rules that ship with the broker, which [`create_missing`] writes down. For no rules, the operator writes an empty file.
///
/// # Errors
/// [`ConfigError`], naming the file, the line and what to do.
pub fn load(home: &Home, config: &Config, providers: &[NamedProvider<'_>]) -> Result<Rules, ConfigError> {
    parse(&files(home, config)?, &published::groups(home, config)?, providers)
}

/// Checks these files against the groups that they can name and the catalogue.
///
/// # Errors
/// [`ConfigError::Rules`].
pub fn parse(
    files: &[RuleFile],
    groups: &BTreeSet<Group>,
    providers: &[NamedProvider<'_>],
) -> Result<Rules, ConfigError> {
    Ok(Rules::parse(files, providers, groups.iter().chain([external()]).cloned().collect())?)
}

/// Returns the files of the home or of the publication that it uses, by name.
///
/// # Errors
/// [`ConfigError::Read`] with the file.
pub fn files(home: &Home, config: &Config) -> Result<Vec<RuleFile>, ConfigError> {
    if let Some(policy) = published::of(home, config)? {
        return Ok(policy.rules(&policy.place()));
    }
    let found = paths(home)?;
    if found.is_empty() {
        return Ok(vec![RuleFile { path: shipped(home), text: SHIPPED.to_owned() }]);
    }
    let read = |path: PathBuf| match std::fs::read_to_string(&path) {
        Ok(text) => Ok(RuleFile { path, text }),
        Err(source) => Err(ConfigError::Read { path, source }),
    };
    found.into_iter().map(read).collect()
}

/// Writes the rules that ship with the broker into a home without any. Returns whether it did.
///
/// # Errors
/// [`ConfigError`] with the file.
pub fn create_missing(home: &Home) -> Result<bool, ConfigError> {
    if !paths(home)?.is_empty() {
        return Ok(false);
    }
    let path = shipped(home);
    platform::home::write_new(&path, SHIPPED.as_bytes()).map_err(|source| ConfigError::Write { path, source })
}

fn shipped(home: &Home) -> PathBuf {
    home.policy().join("default").with_extension(EXTENSION)
}

/// Returns whether this is a file of rules.
pub(super) fn is_rule_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn paths(home: &Home) -> Result<Vec<PathBuf>, ConfigError> {
    Ok(entries(&home.policy())?.into_iter().filter(|path| is_rule_file(path)).collect())
}
