//! The program: reads the environment once, and hands over to a command.

use host_broker::cli;
use host_broker::effects::egress::entrance;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(in_vain) = entrance::run(std::env::args_os()) {
        return in_vain;
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    let environment = std::env::vars().collect();
    cli::run(environment)
}
