//! `limits`: the use of each limit, and open circuit breakers.

use crate::cli::Context;
use crate::cli::output::{CliError, Output};
use clap::Args;
use engine::limits;
use serde_json::json;
use shared::numbers::counted;
use store::state::counters::Used;

/// Show the limits of each grant, their use, and open circuit breakers.
///
/// A rate limit counts the calls of the last minute. A quota counts the calls of today (UTC). Limits are in
/// `[limits.GROUP.PROVIDER]` of broker.toml and in grants.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {limits: [{caller, provider, scope, used, daily_quota, rate_per_minute, taken, open_until}]}.
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
        let used = match context.ledger_if_any()? {
            Some(ledger) => limits::in_force(&ledger, now, &config.limits)?,
            None => Vec::new(),
        };
        context.output.show(&json!({ "limits": used }), || {
            let rows: Vec<_> = used.iter().map(row).collect();
            let head = ["CALLER", "PROVIDER", "SCOPE", "THIS MINUTE", "TODAY"];
            Output::table_or("No limits: no group has access.", &head, &rows)
        });
        Ok(())
    }
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
