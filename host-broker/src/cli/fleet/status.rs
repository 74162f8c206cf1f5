//! `fleet status`: the hosts in the database, and the durability of its server.

use super::no_store;
use crate::assembly::fleet::FleetDatabase;
use crate::assembly::secrets::secret_of_store;
use crate::cli::Context;
use crate::cli::output::{CliError, Output, Progress};
use clap::Args;
use serde_json::json;
use store::fleet::{Look, ServerDurability};

#[derive(Debug, Args)]
#[command(
    after_help = "FENCE rises when a daemon takes over the host. ROWS is the number of rows of its ledger, and BATCHES \
    that of its transactions.

--json prints {host, hosts: [{host, fence, rows, batches}], server_version, durability, warnings: [TEXT]}. host is \
    this one. durability is synchronous_standby, one_machine or none"
)]
pub(super) struct Status {}

impl Status {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Self {} = self;
        let config = context.config()?;
        let secrets = secret_of_store(&config, &context.platform);
        let fleet = FleetDatabase::new(&config, &secrets)?.ok_or_else(no_store)?;
        let look = Progress::during(context.output, "asking the database", || fleet.look())?;
        let warnings: Vec<String> =
            fleet.refusal(&look).iter().map(|refusal| format!("no daemon starts: {refusal}")).collect();
        let hosts: Vec<_> = look
            .hosts
            .iter()
            .map(|one| json!({ "host": one.host, "fence": one.fence, "rows": one.rows, "batches": one.batches }))
            .collect();
        let (word, promise) = durability(&look);
        let document = json!({
            "host": fleet.host(), "hosts": hosts, "server_version": look.server_version, "durability": word,
            "warnings": warnings,
        });
        context.output.show(&document, || {
            let rows: Vec<Vec<String>> = look
                .hosts
                .iter()
                .map(|one| {
                    let figures = [one.fence, one.rows, one.batches].map(|figure| figure.to_string());
                    [one.host.clone()].into_iter().chain(figures).collect()
                })
                .collect();
            let table = Output::table_or("No hosts.", &["HOST", "FENCE", "ROWS", "BATCHES"], &rows);
            let own = format!("This home is that of the host {}.", fleet.host());
            let promise = format!("PostgreSQL {} {promise}.", look.server_version);
            let warnings = warnings.iter().map(|warning| format!("Warning: {warning}"));
            [table, own, promise].into_iter().chain(warnings).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }
}

/// Returns the durability of the server, as a word and as the end of a sentence.
fn durability(look: &Look) -> (&'static str, &'static str) {
    match look.durability {
        ServerDurability::SynchronousStandby => {
            ("synchronous_standby", "has a synchronous standby, so a failover loses no acknowledged record")
        }
        ServerDurability::OneMachine => {
            ("one_machine", "has no synchronous standby, so a failover can lose the last records")
        }
        ServerDurability::None => ("none", "does not write to its disk before it answers, so a crash can lose records"),
    }
}
