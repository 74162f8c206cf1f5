//! `limits`: the use of each limit, and open circuit breakers.

use crate::assembly::fleet::FleetDatabase;
use crate::assembly::secrets::secret_of_store;
use crate::cli::Context;
use crate::cli::output::{CliError, Output, Progress};
use crate::host::StartError;
use clap::Args;
use config::Config;
use engine::limits;
use serde_json::json;
use shared::numbers::counted;
use store::fleet::QuotaLook;
use store::state::counters::Used;

/// Show the limits of each grant, their use, and open circuit breakers.
///
/// A rate limit counts the calls of the last minute. A quota counts the calls of today (UTC). Limits are in
/// `[limits.GROUP.PROVIDER]` of broker.toml and in grants. The caller `all` stands for all groups and external
/// agents, which share the quotas of `[shared_quotas.PROVIDER]`. In a fleet, their use is that of all hosts.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {limits: [{caller, provider, scope, used, daily_quota, rate_per_minute, taken, open_until}], warnings: \
    [TEXT]}.
scope is a level, `grant`, `amount:ACTION` or `breaker`. For an amount, used is in millionths. For a breaker, used is the \
    number of consecutive faults. taken is the number of calls that count against the rate now"
)]
pub struct Limits {}

impl Limits {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the ledger cannot be read.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let now = context.platform.clock.now();
        let config = context.config()?;
        let (of_all, warning) = match of_all_hosts(context, &config) {
            Ok(of_all) => (of_all, None),
            Err(error) => {
                let why = model::errors::chain(&error);
                (None, Some(format!("the use of shared quotas is that of this host only: {why}")))
            }
        };
        let tables = (&config.limits, &config.shared_quotas);
        let used = match context.ledger_if_any()? {
            Some(ledger) => limits::in_force(&ledger, now, tables, of_all.as_deref())?,
            None => Vec::new(),
        };
        let warnings: Vec<&String> = warning.iter().collect();
        context.output.show(&json!({ "limits": used, "warnings": warnings }), || {
            let rows: Vec<_> = used.iter().map(row).collect();
            let head = ["CALLER", "PROVIDER", "SCOPE", "THIS MINUTE", "TODAY"];
            let table = Output::table_or("No limits: no group has access.", &head, &rows);
            let warnings = warnings.iter().map(|warning| format!("Warning: {warning}"));
            std::iter::once(table).chain(warnings).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }
}

/// Returns the use of the shared quotas on all hosts of the fleet; `None` without a fleet.
///
/// # Errors
/// [`StartError`]: the database cannot be read.
fn of_all_hosts(context: &Context, config: &Config) -> Result<Option<Vec<QuotaLook>>, StartError> {
    let quotas = limits::shared_figures::scopes(&config.shared_quotas);
    if quotas.is_empty() {
        return Ok(None);
    }
    let secrets = secret_of_store(config, &context.platform);
    let Some(fleet) = FleetDatabase::new(config, &secrets)? else { return Ok(None) };
    Ok(Some(Progress::during(context.output, "asking the database", || fleet.look_at_quotas(quotas))?))
}

fn row(used: &Used) -> Vec<String> {
    let amount = if used.scope.starts_with("amount:") {
        format!("{}.{:06}", used.used / 1_000_000, used.used % 1_000_000)
    } else if used.scope == "breaker" {
        let until = used.open_until.map_or_else(String::new, |until| format!(", open until {until}"));
        format!("{}{until}", counted(used.used, "consecutive fault", "consecutive faults"))
    } else {
        match (used.daily_quota, used.rate_per_minute) {
            (Some(most), _) => format!("{} of {}", used.used, counted(most, "call", "calls")),
            (None, None) => counted(used.used, "call", "calls"),
            (None, Some(_)) => String::new(),
        }
    };
    let rate = used
        .rate_per_minute
        .zip(used.taken)
        .map(|(most, taken)| format!("{taken} of {}", counted(most, "call", "calls")));
    vec![used.caller.clone(), used.provider.clone(), used.scope.clone(), rate.unwrap_or_default(), amount]
}
