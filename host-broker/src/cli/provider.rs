//! `provider`: the configured providers and whether they can take calls.

mod accept;
mod add;
mod check;
mod remove;

use crate::cli::Context;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use config::Config;
use engine::catalogue::{Catalogue, Listed};
use serde_json::{Value, json};
use shared::{Level, Provider as Name};
use std::collections::BTreeSet;
use store::state::grants;

/// List, add, remove and check providers, and accept their tool definitions.
#[derive(Debug, Args)]
pub struct Provider {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the providers of the configuration.
    List(List),
    /// Check that every enabled provider can be set up, and that its server accepts it.
    Check(check::Check),
    /// Add a common MCP server to the configuration, by its preset.
    Add(add::Add),
    /// Remove a provider from the configuration.
    Remove(remove::Remove),
    /// Review and accept the definitions of a bridge or an MCP server.
    Accept(accept::Accept),
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {providers: [{provider, kind, enabled, works, reason, description, actions: {NAME: LEVEL}, left_out}]}"
)]
struct List {
    /// Include every action with its level.
    #[arg(long)]
    actions: bool,
}

/// A provider as these commands see it.
struct Seen<'a> {
    name: &'a Name,
    enabled: bool,
    listed: &'a Listed,
}

impl Seen<'_> {
    fn fails(&self) -> bool {
        self.enabled && self.listed.state.is_err()
    }

    fn state(&self) -> String {
        match &self.listed.state {
            Ok(()) => "ready".to_owned(),
            Err(reason) => reason.clone(),
        }
    }

    fn value(&self) -> Value {
        let levels: serde_json::Map<String, Value> = self
            .listed
            .operations
            .iter()
            .map(|(name, operation)| (name.to_string(), operation.declaration().level.number().into()))
            .collect();
        json!({
            "provider": self.name,
            "kind": self.listed.kind,
            "enabled": self.enabled,
            "works": self.listed.state.is_ok(),
            "reason": self.listed.state.as_ref().err(),
            "description": self.listed.description,
            "actions": levels,
            "left_out": self.listed.left_out,
        })
    }

    fn row(&self) -> Vec<String> {
        let count = |level: Level| {
            let demanded = self.listed.operations.values().map(|operation| operation.declaration().level);
            let count = demanded.filter(|demanded| *demanded == level).count();
            (count > 0).then(|| format!("{count} L{}", level.number()))
        };
        let levels: Vec<String> = Level::ALL.into_iter().filter_map(count).collect();
        vec![self.name.to_string(), self.listed.kind.to_owned(), levels.join(", "), self.state()]
    }
}

impl Provider {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; for `check` also if a provider that is switched on cannot take calls.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Add(command) => command.run(context),
            Command::Remove(command) => command.run(context),
            Command::Accept(command) => command.run(context, &context.config()?),
            Command::Check(command) => command.run(context, &context.config()?),
            Command::List(List { actions }) => {
                let config = context.config()?;
                let catalogue = context.catalogue_with_secrets(&config);
                let all = seen(&config, &catalogue);
                let text = || context.at_home(&list(&all, actions));
                context.output.show(&json!({ "providers": values(&all) }), text);
                Ok(())
            }
        }
    }
}

/// Checks that no group has access to a provider of this name: a new one of the name would give it at once.
fn has_no_grants(context: &Context, name: &Name, or: &str) -> Result<(), CliError> {
    let Some(ledger) = context.ledger_if_any()? else { return Ok(()) };
    let now = context.platform.clock.now();
    let live = grants::list(&ledger, None)?.into_iter().filter(|grant| &grant.provider == name && grant.is_live(now));
    let groups: BTreeSet<_> = live.map(|grant| grant.group).collect();
    if groups.is_empty() {
        return Ok(());
    }
    let commands: Vec<String> = groups.iter().map(|group| format!("host-broker revoke {group} {name}")).collect();
    Err(CliError::refused(context.at_home(&format!(
        "groups have access to a provider `{name}`, which a new one of that name would give them; revoke it first{or}: {}",
        commands.join("; ")
    ))))
}

fn seen<'a>(config: &'a Config, catalogue: &'a Catalogue) -> Vec<Seen<'a>> {
    let enabled = |name: &Name| config.table_of(name).is_some_and(|(_, table)| table.enabled);
    catalogue.providers().map(|(name, listed)| Seen { name, enabled: enabled(name), listed }).collect()
}

fn values(all: &[Seen<'_>]) -> Vec<Value> {
    all.iter().map(Seen::value).collect()
}

const NONE: &str = "The configuration has no providers; add a [providers.NAME] table to broker.toml.";

fn list(all: &[Seen<'_>], actions: bool) -> String {
    let rows: Vec<_> = all.iter().map(Seen::row).collect();
    let table = Output::table_or(NONE, &["PROVIDER", "KIND", "ACTIONS", "STATE"], &rows);
    let left_out = |seen: &Seen<'_>| -> Vec<String> {
        seen.listed.left_out.iter().map(|why| format!("{} omits {why}", seen.name)).collect()
    };
    let left_out: Vec<String> = all.iter().flat_map(left_out).collect();
    let table = if left_out.is_empty() { table } else { format!("{table}\n\n{}", left_out.join("\n")) };
    if !actions {
        return table;
    }
    let rows: Vec<_> = all
        .iter()
        .flat_map(|seen| {
            seen.listed.operations.values().map(|operation| {
                let declaration = operation.declaration();
                let name = format!("{}.{}", seen.name, declaration.action);
                vec![name, declaration.level.to_string(), declaration.description.clone()]
            })
        })
        .collect();
    format!("{table}\n\n{}", Output::table(&["ACTION", "LEVEL", "DESCRIPTION"], &rows))
}
