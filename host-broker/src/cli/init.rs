//! `init`: makes a home.

use crate::cli::Context;
use crate::cli::output::Fault;
use crate::host::{Office, make_private_directory};
use clap::Args;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Make a home: configuration with comments, groups main, developer and security, keys, directories.
#[derive(Debug, Args)]
pub struct Init {}

impl Init {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; what exists is never overwritten.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        let home = context.home.path();
        make_private_directory(home).map_err(|error| Fault::internal(&error))?;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let config = context.home.config();
        match options.open(&config) {
            Ok(mut file) => file.write_all(CONFIG.as_bytes()).map_err(|error| Fault::internal(&error))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Fault::usage(format!("{} exists already; nothing was changed", config.display())));
            }
            Err(error) => return Err(Fault::internal(&error)),
        }
        Office::open(context.home.clone(), &context.effects)?;
        context.output.line(&format!("made {}", home.display()));
        Ok(())
    }
}

const CONFIG: &str =
    "[groups.main]\nmain = true\n[groups.developer]\n[groups.security]\n[gates.Security]\ngroups = [\"security\"]\n";
