//! `fleet publish`: a policy for the hosts of the fleet.

use super::no_store;
use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::CliError;
use clap::Args;
use config::published::{PublishedPolicy, files_in};
use engine::request::Command;
use model::errors::chain;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "The command checks the files with the configuration of this host. So this host needs each \
    provider that they name. Each group that a rule names needs a profile in DIRECTORY, which can be empty. A host that \
    cannot use the policy executes no call: see `fleet status`.

Examples:
  host-broker fleet publish policy --check
  host-broker fleet publish policy

--json prints {status, summary, data: {number, digest}, evidence: {…}}; with --check {host, files}")]
pub(super) struct Publish {
    /// The directory with the files of rules, `*.cedar`, and the profiles, `profiles/GROUP.toml`.
    directory: PathBuf,
    /// Check the files, and publish nothing.
    #[arg(long)]
    check: bool,
}

impl Publish {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Self { directory, check } = self;
        let config = context.config()?;
        let host = config.store.as_ref().ok_or_else(no_store)?.host.clone();
        let (files, others) = files_in(&directory).map_err(|error| CliError::usage(chain(&error)))?;
        for path in others {
            context.output.say(&format!(
                "host-broker: {} is not published: it is no file named NAME.cedar or profiles/GROUP.toml",
                path.display()
            ));
        }
        if files.is_empty() {
            return Err(CliError::usage(format!(
                "{} has no file NAME.cedar and no file profiles/GROUP.toml; nothing was published",
                directory.display()
            )));
        }
        let policy = PublishedPolicy { host, number: 0, files };
        let catalogue = context.catalogue(&config);
        policy
            .check(&config, &catalogue.named())
            .map_err(|error| CliError::configuration(&error).and_so("nothing was published"))?;
        if !check {
            return ask(context, Command::PublishPolicy { files: policy.files });
        }
        let names: Vec<&String> = policy.files.keys().collect();
        context.output.show(&json!({ "host": policy.host, "files": names }), || {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            format!("The policy is valid: {}. Nothing was published.", names.join(", "))
        });
        Ok(())
    }
}
