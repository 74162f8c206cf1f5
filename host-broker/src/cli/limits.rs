//! `limits`: what is used of each quota today, and which providers are left alone.

use crate::cli::Context;
use crate::cli::output::{Fault, Output};
use crate::limits::{self, Used};
use clap::Args;
use serde_json::json;

/// Show what is used of each quota today (UTC), and which providers are left alone because they fail.
///
/// What is not limited is not counted. Limits are [limits.GROUP.PROVIDER] in broker.toml, and in grants.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {limits: [{caller, provider, scope, used, open_until}]}; scope is a level, `grant`,
`amount:ACTION` (used is in millionths then) or `breaker` (used is the faults in a row)"
)]
pub struct Limits {}

impl Limits {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`] if the ledger cannot be read.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        let now = context.effects.clock.now();
        let used = match context.ledger_if_any()? {
            Some(ledger) => limits::list(&ledger, now)?,
            None => Vec::new(),
        };
        context.output.show(&json!({ "limits": used }), || {
            let rows: Vec<_> = used.iter().map(row).collect();
            Output::table_or("Nothing that is limited was used today.", &["CALLER", "PROVIDER", "OF", "USED"], &rows)
        });
        Ok(())
    }
}

fn row(used: &Used) -> Vec<String> {
    let amount = if used.scope.starts_with("amount:") {
        format!("{}.{:06}", used.used / 1_000_000, used.used % 1_000_000)
    } else if used.scope == "breaker" {
        let until = used.open_until.map_or_else(String::new, |until| format!(", left alone until {until}"));
        format!("{} faults in a row{until}", used.used)
    } else {
        format!("{} calls", used.used)
    };
    vec![used.caller.clone(), used.provider.clone(), used.scope.clone(), amount]
}
