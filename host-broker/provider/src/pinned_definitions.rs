//! The definitions of other people's programs that operators have accepted.
//!
//! A program could list one set of definitions for a review and another for use. Only the definitions that a person has
//! seen count. They lie in the home, one file for each provider, as the program wrote them. Only `provider accept`
//! writes there.

use model::card::Change;
use platform::home::{make_private_directory, replace};
use serde_json::{Map, Value};
use shared::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

/// The result in which a program listed its definitions. Two are equal if they say the same.
#[derive(Debug, Clone)]
pub struct PinnedDefinitions {
    said: Map<String, Value>,
    flagged: BTreeSet<String>,
}

impl PartialEq for PinnedDefinitions {
    fn eq(&self, other: &Self) -> bool {
        self.said == other.said
    }
}

/// An accepted file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AcceptedError {
    /// It cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// The file does not hold the document that was written there.
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
        /// The system error.
        #[source]
        source: std::io::Error,
    },
}

impl PinnedDefinitions {
    /// Wraps the document of a program.
    pub fn new(said: Map<String, Value>) -> Self {
        Self { said, flagged: BTreeSet::new() }
    }

    /// Returns the same with the names of the flagged items that were accepted.
    #[must_use]
    pub fn with_flagged(self, flagged: BTreeSet<String>) -> Self {
        Self { flagged, ..self }
    }

    /// Returns the same with the flagged names of `before` whose tools still say the same.
    #[must_use]
    pub fn keeping_flagged(self, before: &Self) -> Self {
        let is_same =
            |name: &&String| tool(&self.said, name).is_some() && tool(&self.said, name) == tool(&before.said, name);
        let flagged = before.flagged.iter().filter(is_same).cloned().collect();
        self.with_flagged(flagged)
    }

    /// Returns the flagged names that were accepted: tools, capabilities, operations.
    pub fn flagged(&self) -> &BTreeSet<String> {
        &self.flagged
    }

    /// Checks whether the document can be read back after it is written. A document with too deep nesting cannot.
    pub fn can_be_kept(&self) -> bool {
        let document = serde_json::json!({ "said": self.said });
        serde_json::to_vec(&document).is_ok_and(|bytes| shared::json::parse_object(&bytes).is_ok())
    }

    /// Returns the document of the program.
    pub fn said(&self) -> &Map<String, Value> {
        &self.said
    }

    /// Returns the digest that identifies the definitions: the SHA-256 of their canonical form (RFC 8785).
    pub fn digest(&self) -> Digest {
        Digest::of(&shared::json::canonical(&self.said))
    }

    /// Reads the accepted definitions; `None` if there are none.
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
        // Older files have no such names.
        let flagged = file.remove("flagged").unwrap_or_else(|| Value::Array(Vec::new()));
        let flagged: BTreeSet<String> = serde_json::from_value(flagged).map_err(|_fault| damaged())?;
        match (file.remove("digest"), file.remove("said")) {
            (Some(Value::String(digest)), Some(Value::Object(said))) => {
                let accepted = Self { said, flagged };
                if accepted.digest().to_string() == digest { Ok(Some(accepted)) } else { Err(damaged()) }
            }
            _ => Err(damaged()),
        }
    }

    /// Writes the document, whole or not at all.
    ///
    /// # Errors
    /// [`AcceptedError::Write`]; the earlier document is still there.
    pub fn store(&self, path: &Path) -> Result<(), AcceptedError> {
        let failed = |source| AcceptedError::Write { path: path.into(), source };
        let directory = path.parent().unwrap_or(path);
        make_private_directory(directory).map_err(failed)?;
        let document = serde_json::json!({
            "digest": self.digest().to_string(),
            "flagged": self.flagged,
            "said": self.said,
        });
        let mut text = serde_json::to_vec_pretty(&document).unwrap_or_default();
        text.push(b'\n');
        replace(path, &text).map_err(failed)
    }
}

/// Returns the description of the tool with this name.
fn tool<'a>(said: &'a Map<String, Value>, wanted: &str) -> Option<&'a Value> {
    let tools = said.get("tools")?.as_array()?;
    tools.iter().find(|tool| name(tool) == Some(wanted))
}

/// Returns the differences between two documents of a program, one for each member: its place and its change.
///
/// Returns `None` if the list is longer than `most` bytes on either side. A deep place with a long name is short in the
/// document and long in the list.
pub fn difference(before: &Map<String, Value>, after: &Map<String, Value>, most: usize) -> Option<Vec<Change>> {
    let (before, after) = (leaves(before, most)?, leaves(after, most)?);
    let mut changes = Vec::new();
    let places: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for place in places {
        let (old, new) = (before.get(place), after.get(place));
        if old != new {
            changes.extend(old.map(|old| Change::Removed(place.clone(), old.clone())));
            changes.extend(new.map(|new| Change::Added(place.clone(), new.clone())));
        }
    }
    Some(changes)
}

/// Returns every scalar value by its place.
///
/// A place is like a JSON pointer (RFC 6901) with two differences. An entry of a list has `#` before its number. A
/// named entry of a list of such entries (`tools`, `definitions` and their `operations`) stands under `[name]`,
/// wherever in that list it is. Lists of schemas are not among them: their order has a meaning.
fn leaves(said: &Map<String, Value>, most: usize) -> Option<BTreeMap<String, String>> {
    let mut leaves = Leaves { found: BTreeMap::new(), left: most };
    for (name, item) in said {
        leaves.walk(item, &format!("/{}", escaped(name)), Lists::Named)?;
    }
    Some(leaves.found)
}

/// Whether a list is one of things that have names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    Named,
    // Of what is in one of those: its operations are.
    OfNamed,
    Plain,
}

struct Leaves {
    found: BTreeMap<String, String>,
    left: usize,
}

impl Leaves {
    fn walk(&mut self, value: &Value, place: &str, lists: Lists) -> Option<()> {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (name, item) in map {
                    let is_operations = lists == Lists::OfNamed && name == "operations";
                    let inner = if is_operations { Lists::Named } else { Lists::Plain };
                    self.walk(item, &format!("{place}/{}", escaped(name)), inner)?;
                }
                Some(())
            }
            Value::Array(items) if !items.is_empty() => {
                let mut names: BTreeMap<&str, usize> = BTreeMap::new();
                for own in items.iter().filter_map(name) {
                    *names.entry(own).or_default() += 1;
                }
                for (index, item) in items.iter().enumerate() {
                    // A name that two have would hide one of them.
                    let own = name(item).filter(|own| lists == Lists::Named && names.get(own) == Some(&1));
                    let step = own.map_or_else(|| format!("#{index}"), |own| format!("[{}]", escaped(own)));
                    let inner = if lists == Lists::Named { Lists::OfNamed } else { Lists::Plain };
                    self.walk(item, &format!("{place}/{step}"), inner)?;
                }
                Some(())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                let told = value.to_string();
                self.left = self.left.checked_sub(place.len() + told.len())?;
                self.found.insert(place.to_owned(), told);
                Some(())
            }
        }
    }
}

fn name(item: &Value) -> Option<&str> {
    ["id", "name"].into_iter().find_map(|key| item.get(key)?.as_str())
}

/// As a pointer has it, and so that no member looks like something in a list.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1").replace('[', "~2").replace('#', "~3")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changes(before: &Value, after: &Value) -> Vec<String> {
        let object = |value: &Value| value.as_object().unwrap().clone();
        let line = |change: Change| match change {
            Change::Added(at, what) => format!("+ {at} {what}"),
            Change::Removed(at, what) => format!("- {at} {what}"),
        };
        difference(&object(before), &object(after), 1 << 20).unwrap().into_iter().map(line).collect()
    }

    /// Attack (Programs: isolation): The view of differences hides a difference.
    /// Defence: Every value has a place of its own.
    ///
    /// Attack: see
    /// `a_person_sees_what_is_different_and_with_the_yes_it_counts_under_the_running_daemon`.
    #[test]
    fn every_difference_has_a_line_at_any_place_and_under_any_name() {
        for (before, after) in [
            (
                json!({ "properties": { "path": { "pattern": "^a$" } } }),
                json!({ "properties/path": { "pattern": "^a$" } }),
            ),
            (
                json!({ "anyOf": [{ "name": "1", "max": 1 }, { "max": 2 }] }),
                json!({ "anyOf": [{ "name": "1", "max": 1000 }, { "max": 2 }] }),
            ),
            (
                json!({ "a": [{ "id": "x", "n": 1 }, { "id": "x", "n": 2 }] }),
                json!({ "a": [{ "id": "x", "n": 2 }, { "id": "x", "n": 1 }] }),
            ),
            (json!({ "a": {} }), json!({ "a": [] })),
            (json!({ "a": "1" }), json!({ "a": 1 })),
            (json!({ "a": { "[x]": 1 } }), json!({ "a": [{ "id": "x" }] })),
            (json!({ "a~1b": 1 }), json!({ "a/b": 1 })),
            (json!({ "a": [1] }), json!({ "a": { "0": 1 } })),
            (json!({ "a": [1] }), json!({ "a": { "#0": 1 } })),
            (
                json!({ "tools": [{ "name": "t", "s": { "prefixItems": [{ "name": "a" }, { "name": "b" }] } }] }),
                json!({ "tools": [{ "name": "t", "s": { "prefixItems": [{ "name": "b" }, { "name": "a" }] } }] }),
            ),
            (
                json!({ "tools": [{ "name": "t", "s": { "operations": [{ "name": "a" }, { "name": "b" }] } }] }),
                json!({ "tools": [{ "name": "t", "s": { "operations": [{ "name": "b" }, { "name": "a" }] } }] }),
            ),
        ] {
            assert!(!changes(&before, &after).is_empty(), "{before} and {after}");
            assert!(changes(&before, &before).is_empty());
        }
    }

    #[test]
    fn a_name_that_was_accepted_counts_only_for_what_was_said_under_it() {
        let of = |value: Value| PinnedDefinitions::new(value.as_object().unwrap().clone());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let before =
            of(json!({ "tools": [{ "name": "a", "description": "A." }, { "name": "b", "description": "B." }] }))
                .with_flagged(names(&["a", "b", "gone"]));
        let after =
            of(json!({ "tools": [{ "name": "b", "description": "C." }, { "name": "a", "description": "A." }] }));
        assert_eq!(*after.keeping_flagged(&before).flagged(), names(&["a"]));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("accepted/x.json");
        before.store(&path).unwrap();
        assert_eq!(*PinnedDefinitions::load(&path).unwrap().unwrap().flagged(), names(&["a", "b", "gone"]));
    }

    #[test]
    fn beside_nothing_all_of_it_is_new_and_nothing_is_gone() {
        assert_eq!(changes(&json!({}), &json!({ "a": {}, "b": [1] })), ["+ /a {}", "+ /b/#0 1"]);
        assert!(changes(&json!({}), &json!({})).is_empty());
    }

    /// Attack: see
    /// `a_person_sees_what_is_different_and_with_the_yes_it_counts_under_the_running_daemon`.
    #[test]
    fn a_difference_above_the_bound_is_omitted_whole() {
        // Short to write, and as long to tell as its name and its length together.
        let long = json!({ "n".repeat(1 << 17): vec![1; 1 << 16] });
        let object = long.as_object().unwrap();
        assert_eq!(difference(&Map::new(), object, 4 << 20), None);
        let many: Vec<Value> = (0..30_000).map(|n| json!({ "id": n.to_string() })).collect();
        let many = json!({ "tools": many });
        assert_eq!(difference(&Map::new(), many.as_object().unwrap(), 4 << 20).unwrap().len(), 30_000);
    }

    #[test]
    fn reordered_list_entries_are_no_difference() {
        let one = json!({ "operations": [{ "name": "a", "level": 1 }, { "name": "b", "level": 2 }] });
        let other = json!({ "operations": [{ "name": "b", "level": 2 }, { "name": "a", "level": 1 }] });
        assert!(changes(&one, &other).is_empty());
        let third = json!({ "operations": [{ "name": "b", "level": 2 }, { "name": "a", "level": 2 }] });
        assert_eq!(changes(&one, &third), ["- /operations/[a]/level 1", "+ /operations/[a]/level 2"]);
    }
}
