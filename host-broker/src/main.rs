//! The program: reads the environment once, and hands over to a command.

use host_broker::cli;
use host_broker::effects::egress::entrance;
use std::process::ExitCode;

const FIRST_AFTER_STANDARD_ERROR: i32 = 3;

fn main() -> ExitCode {
    if let Some(in_vain) = entrance::run(std::env::args_os()) {
        return in_vain;
    }
    // SECURITY: what whoever started this has left open, a directory for example, would be a way out of every room.
    close_fds::set_fds_cloexec(FIRST_AFTER_STANDARD_ERROR, &[]);
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    let environment = std::env::vars().collect();
    cli::run(environment)
}
