//! What operators have accepted of what other people's programs say they can do.
//!
//! A program could say one thing when it is looked at and another when it is used; what counts is what a person has seen.
//! It lies in the home, one file a provider, as the program wrote it, and only `provider accept` writes there.

use crate::host::make_private_directory;
use serde_json::{Map, Value};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The result in which a program said what it can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted(Map<String, Value>);

/// An accepted file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AcceptedError {
    /// It cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is not what was written there.
    #[error("{path} is damaged; accept the definitions again")]
    Damaged {
        /// The file.
        path: std::path::PathBuf,
    },
    /// It cannot be written.
    #[error("{path} cannot be written")]
    Write {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl Accepted {
    /// What a program says.
    pub fn new(said: Map<String, Value>) -> Self {
        Self(said)
    }

    /// What it says.
    pub fn said(&self) -> &Map<String, Value> {
        &self.0
    }

    /// What tells it from everything else: the SHA-256 of its canonical form (RFC 8785).
    pub fn digest(&self) -> Digest {
        Digest::of(&shared::json::canonical(&self.0))
    }

    /// Reads what was accepted; `None` if nothing was.
    ///
    /// # Errors
    /// [`AcceptedError`].
    pub fn load(path: &Path) -> Result<Option<Self>, AcceptedError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(AcceptedError::Read { path: path.into(), source }),
        };
        let damaged = || AcceptedError::Damaged { path: path.into() };
        let mut file = shared::json::parse_object(&bytes).map_err(|_fault| damaged())?;
        match (file.remove("digest"), file.remove("said")) {
            (Some(Value::String(digest)), Some(Value::Object(said))) => {
                let accepted = Self(said);
                if accepted.digest().to_string() == digest { Ok(Some(accepted)) } else { Err(damaged()) }
            }
            _ => Err(damaged()),
        }
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// [`AcceptedError::Write`]; what was there is still there.
    pub fn store(&self, path: &Path) -> Result<(), AcceptedError> {
        let failed = |source| AcceptedError::Write { path: path.into(), source };
        let directory = path.parent().unwrap_or(path);
        make_private_directory(directory).map_err(failed)?;
        let document = serde_json::json!({ "digest": self.digest().to_string(), "said": self.0 });
        let mut text = serde_json::to_vec_pretty(&document).unwrap_or_default();
        text.push(b'\n');
        let new = path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&new).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            std::fs::File::open(directory)?.sync_all()
        });
        written.map_err(failed)
    }
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Only after.
    Added(String, String),
    /// Only before.
    Removed(String, String),
}

/// What is different between two things that a program says, member by member: each with where it is and what.
pub fn difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<Change> {
    let (before, after) = (leaves(before), leaves(after));
    let mut changes = Vec::new();
    let places: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for place in places {
        let (old, new) = (before.get(place), after.get(place));
        if old != new {
            changes.extend(old.map(|old| Change::Removed(place.clone(), old.clone())));
            changes.extend(new.map(|new| Change::Added(place.clone(), new.clone())));
        }
    }
    changes
}

/// Every value that holds no other, by where it is. What has a name is found by it, wherever in its list it stands.
fn leaves(said: &Map<String, Value>) -> BTreeMap<String, String> {
    fn names(item: &Value) -> impl Iterator<Item = &str> {
        ["id", "name"].into_iter().filter_map(|key| item.get(key)?.as_str())
    }
    fn walk(value: &Value, place: &str, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (name, item) in map {
                    walk(item, &format!("{place}/{name}"), found);
                }
                return;
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    let name = names(item).next();
                    // Names that two have would hide one of the two.
                    let is_one =
                        |name: &&str| items.iter().filter(|other| names(other).any(|own| own == *name)).count() == 1;
                    let name = name.filter(is_one).map_or_else(|| index.to_string(), str::to_owned);
                    walk(item, &format!("{place}/{name}"), found);
                }
                return;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            }
        }
        found.insert(place.to_owned(), value.to_string());
    }
    let mut found = BTreeMap::new();
    walk(&Value::Object(said.clone()), "", &mut found);
    found
}
