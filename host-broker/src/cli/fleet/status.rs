//! `fleet status`: the hosts in the database, and the durability of its server.

use super::no_store;
use crate::assembly::fleet::FleetDatabase;
use crate::assembly::secrets::secret_of_store;
use crate::cli::Context;
use crate::cli::output::{CliError, Output, Progress, ago};
use clap::Args;
use serde_json::json;
use store::fleet::{DaemonState, HostLook, Look, ServerDurability};

#[derive(Debug, Args)]
#[command(
    after_help = "DAEMON is running, stopped (in an orderly way), silent (no sign for 15 seconds), left (`fleet leave`) or never. SEEN is the \
    time of its last sign. FENCE rises when a daemon takes over the host. ROWS is the number of rows of its ledger, and \
    BATCHES that of its transactions. PUBLISHED is the number of its last publication, and \
    POLICY the publication that its daemon uses, if it does not use its own policy.

--json prints {host, hosts: [{host, daemon, seen_s, fence, rows, batches, published, publication: {host, number}, \
    publication_fault}], \
    server_version, durability, warnings: [TEXT]}. host is this one. seen_s is the number of seconds since the last sign. \
    publication is null for a host with its own policy. durability is synchronous_standby, one_machine or none"
)]
pub(super) struct Status {}

impl Status {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Self {} = self;
        let config = context.config()?;
        let secrets = secret_of_store(&config, &context.platform);
        let fleet = FleetDatabase::new(&config, &secrets)?.ok_or_else(no_store)?;
        let look = Progress::during(context.output, "asking the database", || fleet.look())?;
        let mut warnings: Vec<String> =
            fleet.refusal(&look).iter().map(|refusal| format!("no daemon starts: {refusal}")).collect();
        let faulty = look.hosts.iter().filter(|one| !one.publication_fault.is_empty());
        warnings.extend(faulty.map(|one| format!("host {}: {}", one.host, one.publication_fault)));
        let hosts: Vec<_> = look
            .hosts
            .iter()
            .map(|one| {
                json!({
                    "host": one.host, "daemon": one.daemon.word(), "seen_s": one.seen.map(|seen| seen.as_secs()),
                    "fence": one.fence, "rows": one.rows, "batches": one.batches,
                    "published": one.published,
                    "publication": one.publication.as_ref().map(|(host, number)| json!({ "host": host, "number": number })),
                    "publication_fault": Some(&one.publication_fault).filter(|fault| !fault.is_empty()),
                })
            })
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
                    let used = one.publication.as_ref();
                    let used = used.map_or("-".to_owned(), |(host, number)| format!("{number} of {host}"));
                    let state = [one.host.clone(), one.daemon.word().to_owned(), seen(one)];
                    let published = one.published.map_or("-".to_owned(), |number| number.to_string());
                    state.into_iter().chain(figures).chain([published, used]).collect()
                })
                .collect();
            let table = Output::table_or("No hosts.", &HEAD, &rows);
            let own = format!("This home is that of the host {}.", fleet.host());
            let promise = format!("PostgreSQL {} {promise}.", look.server_version);
            let warnings = warnings.iter().map(|warning| format!("Warning: {warning}"));
            [table, own, promise].into_iter().chain(warnings).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }
}

const HEAD: [&str; 8] = ["HOST", "DAEMON", "SEEN", "FENCE", "ROWS", "BATCHES", "PUBLISHED", "POLICY"];

/// Returns the time of the last sign of a daemon. So a watched page of running daemons does not change.
fn seen(host: &HostLook) -> String {
    match (host.daemon, host.seen) {
        (DaemonState::Running, _) => "now".to_owned(),
        (_, Some(seen)) => ago(seen),
        (_, None) => "-".to_owned(),
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
