//! `fleet`: the database that gets the records of the hosts.

mod key;
mod leave;
mod publish;
mod schema;
mod status;

use crate::cli::Context;
use crate::cli::output::CliError;
use clap::{Args, Subcommand};

/// Prepare and show the PostgreSQL database that gets the records of the hosts.
#[derive(Debug, Args)]
pub struct Fleet {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the SQL script that makes the tables of the database, or adds a host.
    ///
    /// The command needs no home and contacts no database.
    Schema(schema::Schema),
    /// Show the hosts in the database, and the durability of its server.
    ///
    /// The command connects to the database of the table `store` of broker.toml, as the daemon does.
    Status(status::Status),
    /// Print the public key of this host, for broker.toml of other hosts.
    ///
    /// The key signs the commands for other hosts, and the replies to their commands.
    /// Other hosts encrypt their commands for it.
    /// A home without the key gets one.
    Key(key::Key),
    /// Publish a policy for the hosts of the fleet that name this one as `policy_from`.
    ///
    /// When the command returns, these hosts admit no call with an earlier policy. Each of them receives the new one
    /// at once, and refuses calls with `policy_stale` until then.
    Publish(publish::Publish),
    /// Take this home out of the database: from then on, only the home gets new records.
    ///
    /// The daemon must not run. The database keeps its rows, and no daemon serves the host from there any more.
    /// After an error, repeat the command: the database may no longer serve the host.
    Leave(leave::Leave),
}

impl Fleet {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the database cannot be used.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Schema(schema) => schema.run(context),
            Command::Status(status) => status.run(context),
            Command::Key(key) => key.run(context),
            Command::Publish(publish) => publish.run(context),
            Command::Leave(leave) => leave.run(context),
        }
    }
}

/// Returns the error of a home whose configuration names no database.
fn no_store() -> CliError {
    CliError::missing("broker.toml has no table [store], so the records of this host are in the home only")
}
