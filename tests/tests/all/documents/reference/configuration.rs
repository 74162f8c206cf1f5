//! A JSON Schema as tables of TOML: one section for each table, one row for each key.

use super::table;
use serde_json::Value;
use std::fmt::Write as _;

/// The sections of a schema.
pub(super) fn tables(schema: &Value) -> String {
    let mut text = String::new();
    section(schema, schema, "", &mut text);
    text
}

/// The target of a schema's reference, without `null`.
fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    loop {
        let inner = if let Some(place) = schema["$ref"].as_str() {
            root.pointer(place.trim_start_matches('#'))
        } else {
            let choices = schema["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut real = choices.iter().filter(|choice| choice["type"] != "null");
            let first = real.next();
            first.filter(|_| real.next().is_none())
        };
        match inner {
            Some(inner) => schema = inner,
            None => return schema,
        }
    }
}

/// The schema of a table's own kind, and how its name goes on: `.NAME` for tables by name, brackets for lists.
fn table_of<'a>(root: &'a Value, schema: &'a Value) -> Option<(&'a Value, &'static str)> {
    let schema = resolved(root, schema);
    if is_table(schema) {
        return Some((schema, ""));
    }
    if let Some(items) = schema.get("items").map(|items| resolved(root, items)).filter(|items| is_table(items)) {
        return Some((items, "[]"));
    }
    let by_pattern = schema["patternProperties"].as_object().and_then(|patterns| patterns.values().next());
    let by_name = by_pattern.or_else(|| schema.get("additionalProperties")).filter(|inner| inner.is_object())?;
    let (inner, more) = table_of(root, by_name)?;
    match more {
        "" => Some((inner, ".NAME")),
        ".NAME" => Some((inner, ".NAME.NAME")),
        _ => None,
    }
}

fn is_table(schema: &Value) -> bool {
    schema["properties"].is_object() || schema["oneOf"].as_array().is_some_and(|all| all.iter().all(is_table))
}

fn section(root: &Value, schema: &Value, name: &str, text: &mut String) {
    // Depth is bounded by the name: no table of ours lies deeper.
    if name.matches('.').count() > 5 {
        return;
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        for choice in choices.iter().map(|choice| resolved(root, choice)) {
            let kind = &choice["properties"]["kind"];
            let word = kind["const"].as_str().or_else(|| kind["enum"][0].as_str()).unwrap_or_default();
            rows(root, choice, name, &format!(" with kind = \"{word}\""), text);
        }
    } else {
        rows(root, schema, name, "", text);
    }
}

fn rows(root: &Value, schema: &Value, name: &str, which: &str, text: &mut String) {
    let properties: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
    let (inner, keys): (Vec<_>, Vec<_>) = properties.into_iter().partition(|(_, one)| table_of(root, one).is_some());
    if !name.is_empty() {
        let shown = name.strip_suffix("[]").map_or_else(|| format!("[{name}]"), |name| format!("[[{name}]]"));
        writeln!(text, "## `{shown}`{which}\n").expect("a string");
        if let Some(description) = schema["description"].as_str() {
            writeln!(text, "{description}\n").expect("a string");
        }
    }
    let row = |(key, one): &(&String, &Value)| {
        let default = one.get("default").filter(|default| !default.is_null());
        vec![
            format!("`{key}`"),
            kind(root, one),
            default.map(|default| format!("`{default}`")).unwrap_or_default(),
            one["description"]
                .as_str()
                .or_else(|| resolved(root, one)["description"].as_str())
                .unwrap_or_default()
                .to_owned(),
        ]
    };
    if !keys.is_empty() {
        let keys: Vec<_> = keys.iter().map(row).collect();
        text.push_str(&table(&["key", "type", "default", "meaning"], &keys));
        text.push('\n');
    }
    for (key, one) in inner {
        let Some((schema, more)) = table_of(root, one) else { continue };
        let name = if name.is_empty() { key.clone() } else { format!("{}.{key}", name.trim_end_matches("[]")) };
        section(root, schema, &(name + more), text);
    }
}

/// The type of one of several forms of a value; of a table, the keys that it must have: `{ env_file, name }`.
fn form(root: &Value, schema: &Value) -> String {
    let required: Vec<&str> =
        resolved(root, schema)["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if required.is_empty() { kind(root, schema) } else { format!("`{{ {} }}`", required.join(", ")) }
}

/// A type in one word.
pub(super) fn kind(root: &Value, schema: &Value) -> String {
    let schema = resolved(root, schema);
    let words: Vec<String> = ["enum", "oneOf", "anyOf"]
        .iter()
        .filter_map(|name| schema[*name].as_array())
        .flatten()
        .map(|one| match (one, &one["const"]) {
            (Value::String(word), _) | (_, Value::String(word)) => format!("`\"{word}\"`"),
            (one, _) if one.is_object() => form(root, one),
            (one, _) => one.to_string(),
        })
        .collect();
    if !words.is_empty() {
        return words.join(" or ");
    }
    match &schema["type"] {
        Value::String(one) if one == "array" => match schema.get("items") {
            Some(items) => format!("list of {}", kind(root, items)),
            None => "list".to_owned(),
        },
        Value::String(one) if one == "object" => "table".to_owned(),
        Value::String(one) => one.clone(),
        Value::Array(all) => {
            let names = all.iter().filter_map(Value::as_str).filter(|one| *one != "null");
            names.map(|one| if one == "array" { "list" } else { one }).collect::<Vec<_>>().join(" or ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            schema["const"].as_str().map_or_else(String::new, |word| format!("`\"{word}\"`"))
        }
    }
}
