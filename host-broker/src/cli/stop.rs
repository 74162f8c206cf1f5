//! `stop`: stops the daemon and waits until it has.

use crate::cli::Context;
use crate::cli::output::{CliError, Progress};
use crate::cli::status::unsettled;
use crate::control::{self, ProcessRequest};
use clap::Args;
use serde_json::json;
use std::time::{Duration, Instant};
use store;
use store::ledger::calls;

/// Stop the running daemon and wait until it has stopped.
///
/// Running calls have five seconds to finish. The daemon delivers every durable reply. The command lists the calls that
/// did not finish; the next start records their outcome.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {stopped: true, was_running: true|false, unfinished: [{seq, caller, request_id, provider, \
    action, since}]}"
)]
pub struct Stop {}

/// Effects that run are given five seconds; the rest is the last row and the last replies.
const TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

impl Stop {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the daemon refuses or does not stop.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let socket = context.home.socket();
        let Some(reply) = control::send(&socket, &ProcessRequest::Stop.into())? else {
            context.output.show(&json!({ "stopped": true, "was_running": false, "unfinished": [] }), || {
                format!("No daemon is running on {}.", context.home.path().display())
            });
            return Ok(());
        };
        if let Some(no) = reply.get("error").and_then(serde_json::Value::as_str) {
            return Err(CliError::refused(no));
        }
        // The socket goes last, after the ledger is closed.
        let asked = Instant::now();
        Progress::during(context.output, "waiting for the daemon to stop", || {
            while socket.exists() {
                if asked.elapsed() > TIMEOUT {
                    let waited = TIMEOUT.as_secs();
                    return Err(CliError::stuck(format!(
                        "the daemon did not stop within {waited} s; for the reason: host-broker logs"
                    )));
                }
                std::thread::park_timeout(PAUSE);
            }
            Ok(())
        })?;
        // A home that was for a while is gone by now.
        let ledger = store::at_rest(context.home.path()).ok().flatten();
        let unfinished = ledger.map(|ledger| calls::open_intents(&ledger)).and_then(Result::ok).unwrap_or_default();
        context.output.show(&json!({ "stopped": true, "was_running": true, "unfinished": unfinished }), || {
            let said = "The daemon has stopped.".to_owned();
            match unsettled("Calls without an outcome; the next start records it:", &unfinished) {
                Some(table) => format!("{said}\n\n{table}"),
                None => said,
            }
        });
        Ok(())
    }
}
