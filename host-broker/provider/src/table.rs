//! Helpers to parse the table of a provider, and to write it.

use schemars::Schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A table of the configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TableError(String);

impl TableError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Parses a whole table.
///
/// # Errors
/// [`TableError`].
pub fn read<T: DeserializeOwned>(table: toml::Table) -> Result<T, TableError> {
    toml::Value::Table(table).try_into().map_err(|error: toml::de::Error| TableError(error.message().to_owned()))
}

/// Removes and parses one key.
///
/// # Errors
/// [`TableError`].
pub fn take<T: DeserializeOwned>(table: &mut toml::Table, key: &str) -> Result<Option<T>, TableError> {
    let parsed = table.remove(key).map(toml::Value::try_into);
    parsed.transpose().map_err(|error: toml::de::Error| TableError(format!("{key}: {error}")))
}

/// Removes and parses the keys of one struct. `own` are the keys of another struct that parses the rest: an error about an
/// unknown key names the keys of both.
///
/// # Errors
/// [`TableError`].
pub fn take_part<T: DeserializeOwned>(table: &mut toml::Table, own: &[&str], keys: &[&str]) -> Result<T, TableError> {
    let taken = keys.iter().filter_map(|key| table.remove_entry(*key)).collect();
    if let Some(unknown) = table.keys().find(|key| !own.contains(&key.as_str())) {
        let known: Vec<String> = own.iter().chain(keys).map(|key| format!("`{key}`")).collect();
        return Err(TableError(format!("unknown field `{unknown}`, expected one of {}", known.join(", "))));
    }
    read(taken)
}

/// Writes a table with all defaults.
///
/// # Errors
/// A value has no form in TOML.
pub fn write<T: Serialize>(settings: &T) -> Result<toml::Table, toml::ser::Error> {
    toml::Table::try_from(settings)
}

/// Adds the properties of `more`, and requires the key `required`.
pub fn extend_schema(schema: &mut Schema, more: &Schema, required: Option<&str>) {
    let object = schema.ensure_object();
    let added = more.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(properties) = object.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        properties.extend(added);
    }
    if let Some(list) = object.entry("required").or_insert_with(|| json!([])).as_array_mut() {
        list.extend(required.map(Value::from));
    }
}

/// Refuses a table in the JSON form of MCP clients and names the right lines. There, `command` is a text with `args`
/// beside it, and `env` is a table of values.
///
/// # Errors
/// [`TableError`] with the lines to write.
pub fn refuse_client_form(table: &toml::Table) -> Result<(), TableError> {
    let mut lines = Vec::new();
    let command = table.get("command").and_then(toml::Value::as_str);
    let arguments = table.get("args").and_then(toml::Value::as_array);
    if command.is_some() || arguments.is_some() {
        let own = table.get("command").and_then(toml::Value::as_array);
        // A text without `args` is often a whole line of a shell.
        let of_line = command.filter(|_| arguments.is_none()).into_iter().flat_map(str::split_whitespace);
        let one = command.filter(|_| arguments.is_some());
        let words = own.into_iter().flatten().cloned().chain(of_line.chain(one).map(toml::Value::from));
        let all: toml::value::Array = words.chain(arguments.into_iter().flatten().cloned()).collect();
        lines.push(format!("command = {}", toml::Value::Array(all)));
    }
    if let Some(env) = table.get("env").and_then(toml::Value::as_table) {
        // SECURITY: the value may be a secret, so no message shows it.
        let is_secret = |name: &&String| ["TOKEN", "KEY", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word));
        lines.push(match env.keys().find(is_secret) {
            None => format!("variables = {}", inline(env.iter().map(|(name, value)| (name, value.clone())))),
            Some(secret) => {
                let names = env.keys().map(|name| {
                    let source = toml::Table::from_iter([("env".to_owned(), toml::Value::from(name.clone()))]);
                    (name, toml::Value::Table(source))
                });
                format!("secrets = {}  # {secret} from the broker's own environment", inline(names))
            }
        });
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(TableError(format!("this is how MCP clients write it; did you mean: {}", lines.join("; "))))
}

fn inline<'a>(members: impl Iterator<Item = (&'a String, toml::Value)>) -> String {
    toml::Value::Table(members.map(|(name, value)| (name.clone(), value)).collect()).to_string()
}
