//! `ext_capabilities`: the snapshot, without asking the host.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_capabilities",
    words: words::EXT_CAPABILITIES,
    seen_by: SeenBy::All,
    effect: Effect::Reads,
    open_world: false,
    schema: || Arc::new(schema::object(json!({"properties": {}, "additionalProperties": false}))),
};

/// The snapshot is shown whole, so there is nothing to choose.
pub(super) fn check(arguments: &Map<String, Value>) -> Result<(), String> {
    if arguments.values().all(Value::is_null) { Ok(()) } else { Err("ext_capabilities takes no arguments".to_owned()) }
}
