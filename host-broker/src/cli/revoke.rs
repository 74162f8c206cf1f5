//! `revoke`: ends a group's access to a provider.

use crate::cli::Context;
use crate::cli::ask::{ToHost, ask};
use crate::cli::output::CliError;
use clap::Args;
use engine::request;
use shared::request::RevokeRequest;
use shared::{Group, Provider};

/// Revoke the access of a group to a provider.
///
/// The broker refuses the next call of the group.
#[derive(Debug, Args)]
#[command(after_help = "--json prints the reply: {status, summary, data: {revoked}, evidence: {…}}")]
pub struct Revoke {
    /// The group.
    group: Group,
    /// The provider.
    provider: Provider,
    #[command(flatten)]
    host: ToHost,
}

impl Revoke {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; the access is as it was.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let revoked = RevokeRequest { group_folder: self.group, provider: self.provider };
        ask(context, self.host.request(request::Command::Revoke(revoked)))
    }
}
