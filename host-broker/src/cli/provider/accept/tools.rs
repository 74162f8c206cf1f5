//! The tools of an MCP server, for a person's review.

use super::proposals::Line;
use super::{Name, Parts};
use crate::cli::output::Output;
use model::Tier;
use model::card::visible;
use provider_mcp::proposals::{Proposal, propose};
use provider_mcp::settings::{Settings, Wanted};
use provider_mcp::tools::{ServerTool, ToolTable, absent, shown};
use serde_json::{Value, json};
use shared::{Action, Level};
use std::collections::BTreeMap;

pub(super) fn parts(name: &Name, said: &[ServerTool], settings: &Settings, has_network: bool) -> Parts {
    let wanted = settings.wanted();
    let table = |said: &ServerTool| Some(&wanted.get(&said.name().parse::<Action>().ok()?)?.table);
    let rows: Vec<_> = said.iter().map(|said| row(said, table(said))).collect();
    let is_there = |tool: &Action| said.iter().any(|said| said.name() == tool.as_str());
    let gone = settings.tools.keys().filter(|tool| !is_there(tool));
    let gone = gone.map(|tool| format!("[providers.{name}] {}. The other tools work.", absent(tool, said)));
    let proposals: Vec<Proposal> =
        said.iter().map(|said| propose(said, has_network, table(said).map(|table| table.level))).collect();
    // A preset has left a tool off on purpose.
    let is_open = |said: &&ServerTool| settings.preset.is_none() || table(said).is_some();
    let proposed = said.iter().zip(&proposals).filter(|(said, _)| is_open(said));
    let proposed = proposed.filter_map(|(said, proposal)| Line::of(said, table(said), proposal));
    // Agents do not see a tool that is off; it is flagged once it has a level.
    let offered = said.iter().filter(|said| said.fault().is_none() && table(said).is_some());
    let flagged = offered.filter_map(|said| {
        let why = said.flagged()?;
        let name = said.name().to_owned();
        let text = format!("{name}: {why} To accept it anyway, add --accept-flagged {name}");
        Some((name, text))
    });
    let by_rules = |said: &ServerTool| {
        table(said).filter(|table| table.level == Level::Write && table.tier == Some(Tier::Rules))?;
        said.name().parse().ok()
    };
    Parts {
        key: "tools",
        list: said.iter().zip(&proposals).map(|(said, proposal)| document(said, table(said), proposal)).collect(),
        tables: vec![Output::table(&["TOOL", "LEVEL", "TIER", "HINT", "DESCRIPTION"], &rows)],
        flagged: flagged.collect(),
        proposed: proposed.collect(),
        permitted: said.iter().filter(|said| said.fault().is_none()).filter_map(by_rules).collect(),
        warnings: gone
            .chain(said.iter().filter_map(|said| known(said, table(said))))
            .chain(advice(name, said, &wanted))
            .collect(),
    }
}

fn document(said: &ServerTool, table: Option<&ToolTable>, proposal: &Proposal) -> Value {
    json!({
        "name": said.name(),
        "description": said.description(),
        "level": table.map(|table| table.level),
        "tier": table.and_then(|table| table.tier).map(Tier::word),
        "only_reads": said.only_reads(),
        "fault": said.fault(),
        "flagged": said.flagged(),
        "proposed": {
            "level": proposal.table.level,
            "tier": proposal.table.tier.map(Tier::word),
            "exposes": proposal.table.exposes,
            "idempotent": proposal.table.idempotent,
            "why": proposal.why,
        },
        "input_schema": said.input_schema(),
        "output_schema": said.output_schema(),
    })
}

fn row(said: &ServerTool, table: Option<&ToolTable>) -> Vec<String> {
    let level = table.map_or_else(|| "off".to_owned(), |table| table.level.to_string());
    let tier = table.and_then(|table| table.tier).map_or("", Tier::word);
    let hint = if said.only_reads() { "says it only reads" } else { "" };
    // The first line is the summary; all of it is below, member by member.
    let first = said.description().lines().next().unwrap_or_default();
    vec![shown(said.name()), level, tier.to_owned(), hint.to_owned(), visible(first)]
}

/// Returns the warnings for a person before the acceptance of a tool.
fn known(said: &ServerTool, table: Option<&ToolTable>) -> Option<String> {
    let name = shown(said.name());
    let fault = said.fault().map(|fault| format!("{name} cannot be offered: {fault}."));
    // A tool with a level is in the flagged list, which needs an option of its own.
    let off = || Some(format!("{name} is off, and {}", said.flagged().filter(|_| table.is_none())?));
    fault.or_else(off)
}

/// Returns the text to write where no tool is offered yet.
fn advice(name: &Name, said: &[ServerTool], wanted: &BTreeMap<Action, Wanted>) -> Option<String> {
    let first = said.iter().find(|said| said.fault().is_none()).filter(|_| wanted.is_empty())?;
    Some(format!(
        "No tool is offered: give those that you want a level in broker.toml, [providers.{name}.tools] {} = {{ level = \
         {} }}.",
        first.name(),
        if first.only_reads() { 1 } else { 2 }
    ))
}
