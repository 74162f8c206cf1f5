//! The program: reads the environment once, and hands over to a command.

use host_broker::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    let environment = std::env::vars().collect();
    cli::run(environment)
}
