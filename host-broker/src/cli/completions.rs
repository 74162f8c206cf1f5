//! `completions`: the completion script of a shell.

use crate::cli::output::CliError;
use crate::cli::{Context, definition};
use clap::Args;
use clap_complete::Shell;
use serde_json::json;

/// Print the completion script of a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bash: host-broker completions bash > ~/.local/share/bash-completion/completions/host-broker
  zsh:  host-broker completions zsh > ~/.zfunc/_host-broker        # a directory of $fpath
  fish: host-broker completions fish > ~/.config/fish/completions/host-broker.fish

--json prints {shell, script}")]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    ///
    /// # Errors
    /// None.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let mut script = Vec::new();
        let mut command = definition();
        clap_complete::generate(self.shell, &mut command, "host-broker", &mut script);
        let script = String::from_utf8(script).map_err(|error| CliError::internal(&error))?;
        // The generator writes the hyphen of the program in two ways, so bash completes no subcommand (clap-rs/clap#6421).
        let script = script.replace("host__subcmd__broker", "host__broker");
        context.output.raw(&json!({ "shell": self.shell.to_string(), "script": script }), || script.clone());
        Ok(())
    }
}
