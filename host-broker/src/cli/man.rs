//! `man`: the manual pages.

use crate::cli::output::CliError;
use crate::cli::{Context, definition};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Write the manual pages into a directory.
///
/// There is one page for the program and one for each command, such as host-broker-grant(1).
#[derive(Debug, Args)]
#[command(after_help = "Example:
  host-broker man ~/.local/share/man/man1; man host-broker-grant

--json prints {directory, pages: [NAME]}")]
pub struct Man {
    /// The directory; it is created if it does not exist.
    directory: PathBuf,
}

impl Man {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] that names the file that cannot be written; others are written then.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let directory = &self.directory;
        let cannot =
            |path: &Path, error: &std::io::Error| CliError::home(format!("cannot write {}: {error}", path.display()));
        std::fs::create_dir_all(directory).map_err(|error| cannot(directory, &error))?;
        let mut pages = Vec::new();
        let mut command = definition().disable_help_subcommand(true);
        // It gives each command its full name, such as `host-broker-grant`.
        command.build();
        let mut left = vec![command];
        while let Some(command) = left.pop() {
            let mut page = Vec::new();
            let man = clap_mangen::Man::new(command.clone());
            let name = man.get_filename();
            let path = directory.join(&name);
            man.render(&mut page).and_then(|()| std::fs::write(&path, &page)).map_err(|error| cannot(&path, &error))?;
            pages.push(name);
            left.extend(command.get_subcommands().cloned());
        }
        pages.sort();
        let document = json!({ "directory": directory, "pages": pages });
        context.output.show(&document, || format!("Wrote {} pages to {}.", pages.len(), directory.display()));
        Ok(())
    }
}
