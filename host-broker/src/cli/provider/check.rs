//! `provider check`: whether providers can take calls, and how a bridge behaves.

use super::{Name, list, seen, values};
use crate::assembly::catalogue::with_deps;
use crate::cli::Context;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Output};
use clap::Args;
use config::Config;
use config::provider::ProviderTable;
use provider_bridge::checks::Report;
use secrets::keys;
use serde_json::{Value, json};
use std::sync::Arc;

/// Check that every enabled provider can be set up.
///
/// If a provider cannot be set up, the command exits with 5.
#[derive(Debug, Args)]
#[command(
    after_help = "The command contacts no provider. It detects missing secrets and invalid settings, but no network faults.
If you name a bridge, the command starts it without any secret. It sends the bridge valid requests, and requests that the \
bridge must refuse.

--json prints {ok, providers: [{provider, kind, enabled, works, reason, description, actions: {NAME: LEVEL}}]};
for a named bridge {ok, provider, took_ms, checks: [{what, ok, faults}]}"
)]
pub(super) struct Check {
    /// Check only this provider.
    provider: Option<Name>,
}

impl Check {
    pub(super) fn run(self, context: &Context, config: &Config) -> Result<(), CliError> {
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
        let failing: Vec<String> =
            all.iter().filter(|seen| seen.fails()).map(|seen| format!("{}: {}", seen.name, seen.state())).collect();
        if failing.is_empty() {
            context.output.show(&json!({ "ok": true, "providers": values(&all) }), || list(&all, false));
            return Ok(());
        }
        Err(CliError::provider(failing.join("\n")).with("ok", false).with("providers", values(&all)))
    }
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
    let report = platform.runtime.block_on(bridge.check());
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
