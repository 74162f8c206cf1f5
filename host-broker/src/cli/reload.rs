//! `reload`: makes the running daemon read its configuration again.

use crate::cli::Context;
use crate::cli::output::CliError;
use crate::control::{self, ProcessRequest};
use clap::Args;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Reload broker.toml, policy/ and keys/ in the running daemon.
///
/// The daemon checks all files first. If one is invalid, it keeps its current configuration. Otherwise it restarts
/// under the same process id. Running calls have five seconds to finish, as with `stop`. People must sign in to the
/// inbox again. SIGHUP has the same effect.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {reloaded: true}")]
pub struct Reload {}

/// The time for a stop and a start.
const TIMEOUT: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(20);

impl Reload {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if no daemon runs, if the configuration is invalid, or if the daemon does not restart.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let socket = context.home.socket();
        let started = || -> Result<Option<Value>, CliError> {
            let hello = control::send(&socket, &ProcessRequest::Hello.into())?;
            Ok(hello.and_then(|hello| hello.pointer("/data/start").cloned()))
        };
        let none = || CliError::missing("no daemon is running on this home; start one: host-broker serve");
        let before = started()?.ok_or_else(none)?;
        let reply = control::send(&socket, &ProcessRequest::Reload.into())?.ok_or_else(none)?;
        if let Some(no) = reply.get("error").and_then(Value::as_str) {
            return Err(CliError::home(no));
        }
        let asked = Instant::now();
        // During the restart there is no socket, or one without a listener.
        while !matches!(started(), Ok(Some(now)) if now != before) {
            if asked.elapsed() > TIMEOUT {
                return Err(CliError::stuck(format!(
                    "the daemon did not restart within {} s; see its log",
                    TIMEOUT.as_secs()
                )));
            }
            std::thread::park_timeout(PAUSE);
        }
        context.output.show(&json!({ "reloaded": true }), || "The daemon uses the new configuration.".to_owned());
        Ok(())
    }
}
