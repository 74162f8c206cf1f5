//! `capabilities`: the present permissions of a group.

use crate::cli::Context;
use crate::cli::home_reader::known_group;
use crate::cli::output::{CliError, Output};
use clap::Args;
use engine::snapshot::snapshot;
use shared::snapshot::{Availability, Capability, Snapshot};
use shared::{Group, Timestamp};

/// Show the actions that a group can perform now.
#[derive(Debug, Args)]
#[command(
    after_help = "The agent of the group reads the same document. --json prints the snapshot of the group's directory: {generatedAt, group, is_main, \
    capabilities: [{provider, access_level, expires_at, actions: {NAME: {level, tier, status, description, \
    input_schema}}}], providers_available, may_request?}"
)]
pub struct Capabilities {
    /// The group.
    group: Group,
    /// Include the actions that the group cannot perform.
    #[arg(long)]
    all: bool,
}

impl Capabilities {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if there is no such group, or no ledger.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let config = context.config()?;
        known_group(&config, &self.group)?;
        let catalogue = context.catalogue_as_seen(&config)?;
        let policy = context.policy(&config, &catalogue)?;
        let now = context.platform.clock.now();
        let snapshot = snapshot(&context.ledger()?, now, &self.group, &config, &catalogue, &policy, None)?;
        let document = serde_json::to_value(&snapshot).map_err(|error| CliError::internal(&error))?;
        context.output.show(&document, || context.at_home(&table(&snapshot, self.all)));
        Ok(())
    }
}

fn table(snapshot: &Snapshot, all: bool) -> String {
    let rows: Vec<_> = snapshot.capabilities.iter().flat_map(|capability| rows(capability, all)).collect();
    Output::table_or(
        "This group has no access. To grant access: host-broker grant GROUP PROVIDER LEVEL",
        &["PROVIDER", "GRANT", "EXPIRES", "ACTION", "LEVEL", "STATUS"],
        &rows,
    )
}

fn rows(capability: &Capability, all: bool) -> Vec<Vec<String>> {
    // An action of a temporary grant ends earlier than the group's own grant.
    let head = |expires_at: Option<Timestamp>| {
        let until = expires_at.or(capability.expires_at).map_or_else(|| "never".to_owned(), |time| time.to_string());
        [capability.provider.to_string(), capability.access_level.to_string(), until]
    };
    let shown = capability
        .actions
        .iter()
        .filter(|(_, entry)| all || !matches!(entry.status, Availability::Denied | Availability::RequiresHigherLevel));
    let mut rows: Vec<Vec<String>> = shown
        .map(|(name, entry)| {
            let cells = [name.to_string(), entry.level.to_string(), word(entry.status).to_owned()];
            head(entry.expires_at).into_iter().chain(cells).collect()
        })
        .collect();
    if rows.is_empty() {
        rows.push(head(None).into_iter().chain(["(no action)".to_owned()]).collect());
    }
    rows
}

fn word(status: Availability) -> &'static str {
    match status {
        Availability::Available => "available",
        Availability::NeedsApproval => "a person must agree",
        Availability::NeedsGate => "needs a task with an open gate",
        Availability::RequiresHigherLevel => "needs a higher level",
        Availability::Denied => "denied",
    }
}
