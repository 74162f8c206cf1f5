//! `reload`: makes the running daemon read its configuration again.

use crate::cli::Context;
use crate::cli::edit;
use crate::cli::output::{CliError, Progress};
use crate::control::{self, ProcessRequest};
use clap::Args;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Reload broker.toml, policy/ and keys/ in the running daemon.
///
/// The daemon checks all files first. If one is invalid, it keeps its current configuration. Otherwise it restarts
/// under the same process id. Running calls have five seconds to finish, as with `stop`. People must sign in to the
/// inbox again. SIGHUP has the same effect. The command lists the providers that take no calls, and warnings.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {reloaded: true, unready: {PROVIDER: {reason, lacks_secret}}, warnings: [TEXT]}")]
pub struct Reload {}

/// The time for a stop and a start.
const TIMEOUT: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(20);

impl Reload {
    /// Runs the command.
    ///
    /// # Errors
    /// As [`reload`].
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let _lock = edit::lock(context)?;
        let unready = reload(context)?;
        // The files can have changed again. That is no fault of this reload.
        let warnings = context.config().and_then(|config| context.warnings(&config)).unwrap_or_default();
        context.output.show(&json!({ "reloaded": true, "unready": unready, "warnings": warnings }), || {
            let line = |(name, state): (&String, &Value)| {
                let reason = state.get("reason").and_then(Value::as_str).unwrap_or_default();
                context.at_home(&format!("{name} takes no calls: {reason}"))
            };
            let warnings = warnings.iter().map(|warning| context.at_home(&format!("Warning: {warning}")));
            let head = "The daemon uses the new configuration.".to_owned();
            [head].into_iter().chain(unready.iter().map(line)).chain(warnings).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }
}

/// Has the running daemon read its configuration again, for a command that holds the lock of it. Returns the providers
/// that take no calls then, by name: `{reason, lacks_secret}`.
///
/// # Errors
/// [`CliError`] if no daemon runs, if the configuration is invalid, or if the daemon does not restart.
pub fn reload(context: &Context) -> Result<Map<String, Value>, CliError> {
    let socket = context.home.socket();
    let none = || CliError::missing("no daemon is running on this home; start one: host-broker serve");
    let ask = |request: ProcessRequest| control::send(&socket, &request.into());
    let start = |hello: &Value| hello.pointer("/data/start").cloned();
    // A daemon that waits after a reload counts its attempts.
    let attempts = |hello: &Value| hello.get("attempts").cloned();
    let fault = |reply: &Value| reply.get("error").and_then(Value::as_str).map(CliError::home);
    let before = ask(ProcessRequest::Hello)?.ok_or_else(none)?;
    fault(&ask(ProcessRequest::Reload)?.ok_or_else(none)?).map_or(Ok(()), Err)?;
    let asked = Instant::now();
    let wait = || loop {
        // During the restart there is no socket, or one without a listener.
        if let Ok(Some(reply)) = ask(ProcessRequest::Hello) {
            match fault(&reply) {
                Some(fault) if attempts(&reply) != attempts(&before) => return Err(fault),
                None if start(&reply) != start(&before) => {
                    let unready = reply.pointer("/data/unready").and_then(Value::as_object);
                    return Ok(unready.cloned().unwrap_or_default());
                }
                Some(_) | None => {}
            }
        }
        if asked.elapsed() > TIMEOUT {
            let waited = TIMEOUT.as_secs();
            return Err(CliError::stuck(format!(
                "the daemon did not restart within {waited} s; for the reason: host-broker logs"
            )));
        }
        std::thread::park_timeout(PAUSE);
    };
    Progress::during(context.output, "waiting for the daemon to restart", wait)
}
