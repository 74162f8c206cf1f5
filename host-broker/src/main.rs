//! The program: reads the environment once, and starts a command.

use host_broker::cli;
use host_broker::providers::KINDS;
use platform::egress::init;
use std::process::ExitCode;

const FIRST_AFTER_STANDARD_ERROR: i32 = 3;

fn main() -> ExitCode {
    if let Some(failure) = init::run(std::env::args_os()) {
        return failure;
    }
    // SECURITY: an inherited descriptor, such as an open directory, would be a way out of every sandbox.
    close_fds::set_fds_cloexec(FIRST_AFTER_STANDARD_ERROR, &[]);
    let variables = std::env::vars_os();
    // A variable that is no text is nothing that the broker reads.
    let environment =
        variables.filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok())).collect();
    cli::run(environment, KINDS)
}
