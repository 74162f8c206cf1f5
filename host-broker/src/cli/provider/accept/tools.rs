//! What an MCP server says of its tools, as a person looks at it.

use super::{Name, Parts, warning};
use crate::approvals::card::visible;
use crate::cli::output::Output;
use crate::providers::contract::Tier;
use crate::providers::mcp::settings::{Settings, Wanted};
use crate::providers::mcp::tools::{Said, ToolTable, shown};
use serde_json::{Value, json};
use shared::Action;
use std::collections::BTreeMap;

pub(super) fn parts(name: &Name, said: &[Said], settings: &Settings) -> Parts {
    let wanted = settings.wanted();
    let table = |said: &Said| Some(&wanted.get(&said.name().parse::<Action>().ok()?)?.table);
    let rows: Vec<_> = said.iter().map(|said| row(said, table(said))).collect();
    let absent = settings.tools.keys().filter(|tool| !said.iter().any(|said| said.name() == tool.as_str()));
    let absent = absent.map(|tool| format!("[providers.{name}.tools] names {tool}, and the server has no such tool."));
    Parts {
        key: "tools",
        list: said.iter().map(|said| document(said, table(said))).collect(),
        tables: vec![Output::table(&["TOOL", "DEMANDS", "TIER", "HINT", "WHAT IT SAYS OF ITSELF"], &rows)],
        warnings: absent.chain(said.iter().filter_map(known)).chain(advice(name, said, &wanted)).collect(),
    }
}

fn document(said: &Said, table: Option<&ToolTable>) -> Value {
    json!({
        "name": said.name(),
        "description": said.description(),
        "level": table.map(|table| table.level),
        "tier": table.and_then(|table| table.tier).map(Tier::word),
        "only_reads": said.only_reads(),
        "fault": said.fault(),
        "input_schema": said.input_schema(),
        "output_schema": said.output_schema(),
    })
}

fn row(said: &Said, table: Option<&ToolTable>) -> Vec<String> {
    let level = table.map_or_else(|| "off".to_owned(), |table| table.level.to_string());
    let tier = table.and_then(|table| table.tier).map_or("", Tier::word);
    let hint = if said.only_reads() { "says it only reads" } else { "" };
    // The first line says what it is; all of it is below, member by member.
    let first = said.description().lines().next().unwrap_or_default();
    vec![shown(said.name()), level, tier.to_owned(), hint.to_owned(), visible(first)]
}

/// What a person should know before saying yes to it.
fn known(said: &Said) -> Option<String> {
    let name = shown(said.name());
    let fault = said.fault().map(|fault| format!("{name} cannot be offered: {fault}."));
    fault.or_else(|| warning(&name, &said.verdict()))
}

/// What to write where nothing is offered yet.
fn advice(name: &Name, said: &[Said], wanted: &BTreeMap<Action, Wanted>) -> Option<String> {
    let first = said.iter().find(|said| said.fault().is_none()).filter(|_| wanted.is_empty())?;
    Some(format!(
        "No tool is offered: give those that you want a level in broker.toml, [providers.{name}.tools] {} = {{ level = \
         {} }}.",
        first.name(),
        if first.only_reads() { 1 } else { 2 }
    ))
}
