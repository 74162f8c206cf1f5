//! Schemas from outside: the limits of their size, and the validator for values.
//!
//! A few lines that refer to each other can stand for more than a machine can hold. So the count includes every
//! referenced schema in each place that refers to it. A schema that refers to itself has no end.

use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeMap;

/// A schema takes no more, in bytes.
pub const SCHEMA_MAX: usize = 64 * 1024;

/// So many values and members, all references followed.
const NODES_MAX: usize = 10_000;
/// So many patterns.
const PATTERNS_MAX: usize = 64;
/// How much memory a pattern may take, in bytes.
const PATTERN_BYTES: usize = 256 * 1024;

/// Returns the validator for a schema that another program wrote.
///
/// Its time is at most the length of the value times the size of the schema with all references expanded. That size is
/// bounded, and nothing is fetched.
///
/// # Errors
/// The reason why it is no schema, or one that cannot be used for validation.
pub fn validator(schema: &Value) -> Result<Validator, String> {
    if shared::json::canonical(schema).len() > SCHEMA_MAX {
        return Err(format!("it is longer than {SCHEMA_MAX} bytes"));
    }
    bounded(schema)?;
    let patterns = jsonschema::PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    jsonschema::options().with_pattern_options(patterns).build(schema).map_err(|error| error.to_string())
}

fn bounded(schema: &Value) -> Result<(), String> {
    let patterns = count(schema, &|name| name == "pattern") + count(schema, &|name| name == "patternProperties");
    if patterns > PATTERNS_MAX {
        return Err(format!("it has more than {PATTERNS_MAX} patterns"));
    }
    plain(schema, true)?;
    let mut following = Following { schema, known: BTreeMap::new(), open: Vec::new() };
    match following.size(schema)? {
        size if size > NODES_MAX => Err(format!("with its references it has more than {NODES_MAX} parts")),
        _ => Ok(()),
    }
}

/// The drafts whose words have the same meaning here and in the validator.
const DRAFTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "https://json-schema.org/draft-07/schema",
];

/// SECURITY: another draft, or a name with an escape, means something else to the validator than to this count.
fn plain(value: &Value, is_root: bool) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| plain(item, false)),
        Value::Object(members) => members.iter().try_for_each(|(name, item)| match (name.as_str(), item) {
            ("$schema", Value::String(draft)) if !is_root || !DRAFTS.contains(&draft.trim_end_matches('#')) => {
                Err("`$schema` is taken at its head only, and only of drafts from 6 on".to_owned())
            }
            ("$ref", Value::String(to)) if !is_plain(to) => {
                Err(format!("`$ref` to `{}` is not taken; refer by `#/$defs/NAME`", to.escape_debug()))
            }
            (_, item) => plain(item, false),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn is_plain(reference: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$-".contains(&byte))
    };
    reference.strip_prefix("#/").is_some_and(|pointer| pointer.split('/').all(is_name))
}

fn count(value: &Value, wanted: &impl Fn(&str) -> bool) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| count(item, wanted)).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, item)| usize::from(wanted(name)) + count(item, wanted)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

struct Following<'a> {
    schema: &'a Value,
    known: BTreeMap<&'a str, usize>,
    open: Vec<&'a str>,
}

impl<'a> Following<'a> {
    fn size(&mut self, value: &'a Value) -> Result<usize, String> {
        match value {
            Value::Array(items) => items.iter().try_fold(1, |sum, item| Ok(add(sum, self.size(item)?))),
            Value::Object(members) => members.iter().try_fold(1, |sum, (name, item)| {
                let size = match (name.as_str(), item) {
                    ("$ref", Value::String(to)) => self.referred(to)?,
                    (
                        "$dynamicRef" | "$recursiveRef" | "$dynamicAnchor" | "$recursiveAnchor" | "$anchor" | "$id",
                        _,
                    ) => {
                        return Err(format!("`{name}` is not taken; refer by `#/$defs/NAME`"));
                    }
                    _ => self.size(item)?,
                };
                Ok(add(sum, size))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(1),
        }
    }

    fn referred(&mut self, to: &'a str) -> Result<usize, String> {
        if let Some(size) = self.known.get(to) {
            return Ok(*size);
        }
        let Some(pointer) = to.strip_prefix('#').filter(|pointer| pointer.starts_with('/')) else {
            return Err(format!("`$ref` to `{to}` is not taken; refer by `#/$defs/NAME`"));
        };
        if self.open.contains(&to) {
            return Err(format!("`{to}` refers to itself"));
        }
        let found = self.schema.pointer(pointer).ok_or_else(|| format!("there is nothing at `{to}`"))?;
        self.open.push(to);
        let size = self.size(found)?;
        self.open.pop();
        self.known.insert(to, size);
        Ok(size)
    }
}

/// Not further than it matters.
fn add(sum: usize, size: usize) -> usize {
    sum.saturating_add(size).min(NODES_MAX + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Attack (Programs: isolation): A small schema takes unlimited time or memory to check.
    /// Defence: Everything that it refers to is counted. Patterns are few and small. At most twenty
    /// faults are reported.
    #[test]
    fn schemas_that_expand_beyond_the_bound_are_refused() {
        let chain = |length: usize| {
            let mut definitions = serde_json::Map::new();
            for index in 0..length {
                let next = json!({ "$ref": format!("#/$defs/d{}", index + 1) });
                definitions.insert(format!("d{index}"), json!({ "allOf": [next, next] }));
            }
            definitions.insert(format!("d{length}"), json!({ "type": "integer" }));
            json!({ "$defs": definitions, "$ref": "#/$defs/d0" })
        };
        bounded(&chain(5)).unwrap();
        assert!(bounded(&chain(40)).unwrap_err().contains("more than 10000 parts"));
        assert!(bounded(&chain(400)).unwrap_err().contains("more than 10000 parts"));
    }

    #[test]
    fn recursive_and_external_references_are_refused() {
        for (schema, fault) in [
            (
                json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/a" } } } }),
                "refers to itself",
            ),
            (json!({ "$ref": "#" }), "is not taken"),
            (json!({ "$ref": "https://example.com/schema" }), "is not taken"),
            (json!({ "$ref": "file:///etc/passwd" }), "is not taken"),
            (json!({ "$ref": "#/$defs/none" }), "there is nothing at"),
            (json!({ "$defs": { "a": { "$anchor": "x" } }, "$ref": "#x" }), "is not taken"),
            (json!({ "$dynamicRef": "#x" }), "is not taken"),
            (json!({ "$id": "https://example.com/" }), "is not taken"),
            (json!({ "$ref": "#/$defs/%641", "$defs": { "%641": {}, "d1": {} } }), "is not taken"),
            (json!({ "$ref": "#/$defs/a~1b", "$defs": { "a/b": {} } }), "is not taken"),
            (json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "#/$defs/" }), "`$schema`"),
            (json!({ "properties": { "a": { "$schema": "http://json-schema.org/draft-07/schema#" } } }), "`$schema`"),
        ] {
            let found = bounded(&schema).unwrap_err();
            assert!(found.contains(fault), "{schema}: {found}");
        }
        let twice = json!({ "$defs": { "a": { "type": "string" } }, "properties": { "b": { "$ref": "#/$defs/a" }, "c": { "$ref": "#/$defs/a" } } });
        bounded(&twice).unwrap();
    }

    /// Attack: see `schemas_that_expand_beyond_the_bound_are_refused`.
    #[test]
    fn patterns_are_few_and_small() {
        let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
        validator(&pattern("^[a-z]{1,64}$")).unwrap();
        assert!(validator(&pattern(r"\p{L}{1000}")).is_err());
        let many: Vec<Value> = (0..65).map(|_| pattern("^a$")).collect();
        assert!(bounded(&json!({ "anyOf": many })).unwrap_err().contains("more than 64 patterns"));
    }
}
