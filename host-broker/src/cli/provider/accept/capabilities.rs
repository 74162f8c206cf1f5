//! The definitions of a bridge, for a person's review.

use super::Parts;
use crate::cli::output::Output;
use filter::inspect::Verdict;
use model::Tier;
use model::card::visible;
use provider::definitions::warning;
use provider_bridge::definitions::{Operation, Registered};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn parts(registered: &[Registered], attacks: &BTreeMap<String, Verdict>) -> Parts {
    let flagged = attacks.iter().filter_map(|(name, verdict)| {
        let why = warning(name, verdict)?;
        Some((name.clone(), format!("{why} To accept it anyway, add --accept-flagged {name}")))
    });
    Parts {
        key: "capabilities",
        list: registered.iter().map(document).collect(),
        tables: registered.iter().flat_map(tables).collect(),
        warnings: Vec::new(),
        flagged: flagged.collect(),
        proposed: Vec::new(),
        permitted: Vec::new(),
    }
}

fn document(capability: &Registered) -> Value {
    let operation = |operation: &Operation| {
        json!({
            "name": operation.action,
            "description": operation.description,
            "level": operation.level,
            "tier": operation.tier.map(Tier::word),
            "requires_auth": operation.requires_auth,
            "input_schema": operation.input_schema,
            "output_schema": operation.output_schema,
        })
    };
    json!({
        "id": capability.provider,
        "description": capability.description,
        "chat_types": capability.chat_types,
        "operations": capability.operations.iter().map(operation).collect::<Vec<_>>(),
    })
}

fn tables(capability: &Registered) -> [String; 2] {
    let chats: Vec<&str> = capability.chat_types.iter().map(|kind| kind.word()).collect();
    let chats = if chats.is_empty() { "all chats".to_owned() } else { format!("{} chats", chats.join(", ")) };
    let row = |operation: &Operation| {
        let tier = operation.tier.map_or_else(String::new, |tier| tier.word().to_owned());
        let account = if operation.requires_auth { "account" } else { "" };
        let (level, name) = (operation.level.to_string(), operation.action.to_string());
        vec![name, level, tier, account.to_owned(), visible(&operation.description)]
    };
    let rows: Vec<_> = capability.operations.iter().map(row).collect();
    [
        format!("{} ({chats}): {}", capability.provider, visible(&capability.description)),
        Output::table(&["OPERATION", "LEVEL", "TIER", "REQUIRES", "DESCRIPTION"], &rows),
    ]
}
