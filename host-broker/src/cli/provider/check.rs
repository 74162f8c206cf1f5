//! `provider check`: whether providers can take calls, whether their servers accept them, and how a bridge behaves.

use super::{Name, Seen, list, seen, values};
use crate::assembly::catalogue::with_deps;
use crate::cli::Context;
use crate::cli::ask::answer;
use crate::cli::doctor::service;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Output, Progress, refusal};
use crate::control::ProcessRequest;
use clap::Args;
use config::Config;
use config::provider::ProviderTable;
use platform::service_unit::ServiceUnit;
use provider_bridge::checks::Report;
use secrets::keys;
use serde_json::{Map, Value, json};
use shared::Code;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Check that every enabled provider can be set up, and that its server accepts it.
///
/// If a provider cannot be set up or used, the command exits with 5.
#[derive(Debug, Args)]
#[command(
    after_help = "The command detects missing secrets and invalid settings. Then the broker contacts the server of each provider of the \
kinds mail, calendar, cloud-logs, github and passwords, once. It signs in with the credential of the provider. A provider with \
accounts of persons has none, so the command only checks that its server answers. account link tries an account. The request \
changes nothing, and the ledger has a row of each.
If you name a bridge, the command starts it without any secret. It sends the bridge valid requests, and requests that the \
bridge must refuse.

--json prints {ok, providers: [{provider, kind, enabled, works, reason, description, actions: {NAME: LEVEL}, \
connection: {tried, ok, said, code}}]};
for a named bridge {ok, provider, took_ms, checks: [{what, ok, faults}]}"
)]
pub(super) struct Check {
    /// Check only this provider.
    provider: Option<Name>,
    /// Contact no server.
    #[arg(long)]
    offline: bool,
}

impl Check {
    pub(super) fn run(self, context: &Context, config: &Config) -> Result<(), CliError> {
        // The command runs outside of the service, where a sandbox can be created.
        let unit = ServiceUnit::default();
        let only = self.provider.as_ref().and_then(|name| config.table_of(name)).map(|(own, _)| own);
        let checked = config.providers.keys().filter(|name| self.provider.is_none() || only == Some(*name));
        for warning in checked.filter_map(|name| service::warning(&context.home, config, &unit, name)) {
            context.output.say(&format!("host-broker: warning: {warning}"));
        }
        if let Some(name) = &self.provider {
            let Some((own, table)) = config.table_of(name) else {
                return Err(unknown("provider", name, config.providers.keys()));
            };
            if let Some(bridge) = table.of_kind() {
                return behaviour(context, config, (own, table), bridge);
            }
        }
        let catalogue = context.catalogue_with_secrets(config);
        let mut all = seen(config, &catalogue);
        all.retain(|seen| self.provider.as_ref().is_none_or(|name| seen.name == name));
        let connections = if self.offline { Map::new() } else { connections(context, &all)? };
        let faults = all.iter().filter_map(|seen| fault(seen, connections.get(seen.name.as_str())));
        let faults: Vec<String> = faults.collect();
        let mut documents = values(&all);
        for (seen, document) in all.iter().zip(&mut documents) {
            if let (Some(connection), Some(members)) = (connections.get(seen.name.as_str()), document.as_object_mut()) {
                members.insert("connection".to_owned(), connection.clone());
            }
        }
        let working: Vec<String> =
            all.iter().filter_map(|seen| works(seen, connections.get(seen.name.as_str()))).collect();
        if faults.is_empty() {
            context.output.show(&json!({ "ok": true, "providers": documents }), || {
                let lines = [list(&all, false), working.join("\n")].into_iter().filter(|text| !text.is_empty());
                lines.collect::<Vec<_>>().join("\n\n")
            });
            return Ok(());
        }
        let lines: Vec<String> = faults.into_iter().chain(working).collect();
        Err(CliError::provider(lines.join("\n")).with("ok", false).with("providers", documents))
    }
}

/// Returns the findings about the connections, by provider.
fn connections(context: &Context, all: &[Seen<'_>]) -> Result<Map<String, Value>, CliError> {
    let tried = all.iter().filter(|seen| seen.enabled && !seen.fails() && seen.listed.connection.is_some());
    let providers: BTreeSet<Name> = tried.map(|seen| seen.name.clone()).collect();
    if providers.is_empty() {
        return Ok(Map::new());
    }
    let reply = Progress::during(context.output, "waiting for the servers of the providers", || {
        answer(context, ProcessRequest::Check { providers })
    })?;
    refusal(&reply).map_or(Ok(()), Err)?;
    Ok(reply.get("data").and_then(Value::as_object).cloned().unwrap_or_default())
}

/// Returns the fault of a provider that cannot be used, with the remedy.
fn fault(seen: &Seen<'_>, connection: Option<&Value>) -> Option<String> {
    if seen.fails() {
        return Some(format!("{}: {}", seen.name, seen.state()));
    }
    let connection = connection.filter(|connection| connection.get("ok") == Some(&Value::Bool(false)))?;
    let said = said(connection);
    let name = seen.name;
    if !is(connection, "tried") {
        return Some(format!("{name}: {said}"));
    }
    let remedy = if connection.get("code").and_then(Value::as_str) == Some(Code::ProviderRateLimited.word()) {
        "Try again later.".to_owned()
    } else {
        let table =
            if name.is_namespaced() { format!("[providers.\"{name}\"]") } else { format!("[providers.{name}]") };
        format!("Check that the server runs, and the address and the credential under {table} in broker.toml.")
    };
    Some(format!("{name}: {said} {remedy}"))
}

/// Returns what was found about a provider that works, or that nothing was tried.
fn works(seen: &Seen<'_>, connection: Option<&Value>) -> Option<String> {
    let connection = connection.filter(|connection| connection.get("ok") != Some(&Value::Bool(false)))?;
    Some(format!("{}: {}", seen.name, said(connection)))
}

fn said(connection: &Value) -> &str {
    connection.get("said").and_then(Value::as_str).unwrap_or("the daemon gave no finding")
}

fn is(connection: &Value, member: &str) -> bool {
    connection.get(member).and_then(Value::as_bool).unwrap_or(false)
}

fn behaviour(
    context: &Context,
    config: &Config,
    (name, own): (&Name, &ProviderTable),
    table: &provider_bridge::Table,
) -> Result<(), CliError> {
    let platform = &context.platform;
    let key = Arc::new(keys::identity(&context.home, platform.ids.as_ref())?);
    let bridge = with_deps(config, &context.home, platform, (name, own), |deps| table.without_secrets(name, deps, key));
    let bridge = bridge.map_err(CliError::provider)?;
    let report = Progress::during(context.output, "checking the bridge", || platform.runtime.block_on(bridge.check()));
    let document = document(name, &report);
    if report.is_good() {
        context.output.show(&document, || text(&report));
        return Ok(());
    }
    let fault = CliError::provider(format!("{name} does not conform to bridge-v1:\n{}", text(&report)));
    let members = document.as_object().cloned().unwrap_or_default();
    Err(members.into_iter().fold(fault, |fault, (member, value)| fault.with(&member, value)))
}

fn document(name: &Name, report: &Report) -> Value {
    let checks: Vec<Value> = report
        .checks
        .iter()
        .map(|check| json!({ "what": check.what, "ok": check.faults.is_empty(), "faults": check.faults }))
        .collect();
    let took = report.took.and_then(|took| u64::try_from(took.as_millis()).ok());
    json!({ "ok": report.is_good(), "provider": name, "took_ms": took, "checks": checks })
}

fn text(report: &Report) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for check in &report.checks {
        let word = if check.faults.is_empty() { "ok" } else { "FAILED" };
        rows.push(vec![word.to_owned(), check.what.to_owned()]);
        let lines = check.faults.iter().flat_map(|fault| fault.lines());
        rows.extend(lines.map(|line| vec![String::new(), format!("  {line}")]));
    }
    let table = Output::table(&["RESULT", "CHECK"], &rows);
    match report.took {
        Some(took) => format!("{table}\n\nThe bridge listed its capabilities in {} ms.", took.as_millis()),
        None => table,
    }
}
