//! The entries of a password manager: their names, and those that an operator has allowed.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// The longest name, in characters.
const NAME_CHARS_MAX: usize = 300;

/// The name of an entry, with the folders before it: `web/github.com`. It is one line of visible text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct EntryName(#[schemars(length(min = 1, max = 300))] String);

/// A text is not the name of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not one line of 1 to {NAME_CHARS_MAX} visible characters")]
pub struct BadName;

impl TryFrom<String> for EntryName {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        let is_visible = !text.chars().any(model::conceals);
        let is_short = text.chars().count() <= NAME_CHARS_MAX;
        let is_name = is_visible && is_short && !text.trim().is_empty();
        if is_name { Ok(Self(text)) } else { Err(BadName) }
    }
}

impl EntryName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pattern of names: `web/*` matches the entries in `web`, `web/**` those below it, and `**` all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct EntryPattern(#[schemars(length(min = 1, max = 300))] String);

/// A text is not a pattern of names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a pattern of entries: {fault}")]
pub struct BadPattern {
    pattern: String,
    fault: String,
}

impl TryFrom<String> for EntryPattern {
    type Error = BadPattern;

    fn try_from(pattern: String) -> Result<Self, BadPattern> {
        let checked = Allowed::new(&[Self(pattern.clone())]);
        checked.map(|_works| Self(pattern.clone())).map_err(|fault| BadPattern { pattern, fault })
    }
}

/// The allowed names.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    set: GlobSet,
    everything: bool,
}

impl Allowed {
    /// Compiles the patterns. No pattern allows nothing.
    ///
    /// # Errors
    /// The fault of a pattern.
    pub(crate) fn new(patterns: &[EntryPattern]) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for EntryPattern(pattern) in patterns {
            if pattern.is_empty() {
                return Err("it is empty".to_owned());
            }
            // A class matches the slash, too, so it would leave its folder.
            if pattern.contains('[') {
                return Err("it has a class of characters, which is not supported".to_owned());
            }
            let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
            set.add(glob.map_err(|error| error.kind().to_string())?);
        }
        let everything = patterns.iter().any(|EntryPattern(pattern)| pattern == "**");
        set.build().map(|set| Self { set, everything }).map_err(|error| error.kind().to_string())
    }

    /// Returns whether there is no pattern.
    pub(crate) fn allows_nothing(&self) -> bool {
        self.set.is_empty()
    }

    /// Returns whether a pattern matches every name.
    pub(crate) fn allows_everything(&self) -> bool {
        self.everything
    }

    /// Returns whether a pattern matches the name.
    pub(crate) fn allows(&self, name: &EntryName) -> bool {
        self.set.is_match(name.as_str())
    }
}

/// An entry, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The password manager's own id.
    pub(crate) id: String,
    /// The name.
    pub(crate) name: EntryName,
    /// The user name, if the manager lists it.
    pub(crate) username: Option<String>,
    /// The address, if the manager lists it.
    pub(crate) url: Option<String>,
}

/// The entries of a password manager.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The entries whose names can be shown.
    pub(crate) entries: Vec<Entry>,
    /// The number of the others.
    pub(crate) unnamable: usize,
}

impl Listing {
    /// Adds an entry with this name, if it can be shown.
    pub(crate) fn add(&mut self, name: String, entry: impl FnOnce(EntryName) -> Entry) {
        match EntryName::try_from(name) {
            Ok(name) => self.entries.push(entry(name)),
            Err(BadName) => self.unnamable += 1,
        }
    }
}

/// The content of an entry.
pub(crate) struct Login {
    /// The password.
    pub(crate) password: Zeroizing<String>,
    /// The user name.
    pub(crate) username: Option<String>,
    /// The address.
    pub(crate) url: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> EntryName {
        text.to_owned().try_into().unwrap()
    }

    fn allowed(patterns: &[&str]) -> Allowed {
        let patterns: Vec<EntryPattern> = patterns.iter().map(|text| (*text).to_owned().try_into().unwrap()).collect();
        Allowed::new(&patterns).unwrap()
    }

    #[test]
    fn a_pattern_without_two_stars_stays_in_its_folder_and_no_pattern_allows_nothing() {
        let [web, deep, bank] = ["web/github.com", "web/work/github.com", "bank"].map(name);
        assert!(!allowed(&[]).allows(&bank));
        let one = allowed(&["web/*"]);
        assert_eq!([&web, &deep, &bank].map(|name| one.allows(name)), [true, false, false]);
        let below = allowed(&["web/**"]);
        assert_eq!([&web, &deep, &bank].map(|name| below.allows(name)), [true, true, false]);
        let all = allowed(&["**"]);
        assert_eq!([&web, &deep, &bank].map(|name| all.allows(name)), [true, true, true]);
        // The letter case of a name counts.
        assert!(!allowed(&["WEB/*"]).allows(&web));
        assert!(!below.allows_everything() && all.allows_everything());
        for bad in ["a{", "web[!x]y"] {
            assert!(EntryPattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        assert!(EntryPattern::try_from(String::new()).is_err());
    }

    #[test]
    fn a_name_is_one_visible_line() {
        for bad in ["", "  ", "a\nb", "a\u{200b}b", "a\u{202e}b", "\u{0}", &"x".repeat(NAME_CHARS_MAX + 1)] {
            assert_eq!(EntryName::try_from(bad.to_owned()), Err(BadName), "{bad:?}");
        }
        for good in ["-x", "Bücher/日本", "a b", "$(id)"] {
            assert_eq!(name(good).as_str(), good);
        }
    }
}
