//! `reload`: has the running daemon read its configuration again.

use crate::cli::Context;
use crate::cli::output::Fault;
use crate::control::{self, Control};
use clap::Args;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Have the running daemon read broker.toml, policy/ and keys/ again: all of it, or nothing.
///
/// The daemon checks everything first, and goes on as it is if something is wrong. Then it starts anew as the same
/// process. Calls under way may finish, as with `stop`. SIGHUP does the same. People sign in to the inbox again.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {reloaded: true}")]
pub struct Reload {}

/// As long as `stop` waits, and a start.
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(20);

impl Reload {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`] if no daemon runs, if it cannot use the configuration, or if it does not come back.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        let socket = context.home.socket();
        let started = || -> Result<Option<Value>, Fault> {
            let hello = control::send(&socket, &Control::Hello)?;
            Ok(hello.and_then(|hello| hello.pointer("/data/start").cloned()))
        };
        let none = || Fault::missing("no daemon is running on this home; a new one reads the files: host-broker serve");
        let before = started()?.ok_or_else(none)?;
        let reply = control::send(&socket, &Control::Reload)?.ok_or_else(none)?;
        if let Some(no) = reply.get("error").and_then(Value::as_str) {
            return Err(Fault::home(no));
        }
        let asked = Instant::now();
        // Between the two there is no socket, or one that nobody serves any more.
        while !matches!(started(), Ok(Some(now)) if now != before) {
            if asked.elapsed() > PATIENCE {
                return Err(Fault::stuck(format!(
                    "the daemon was asked to start anew and has not after {} s; its log says why",
                    PATIENCE.as_secs()
                )));
            }
            std::thread::park_timeout(PAUSE);
        }
        context.output.show(&json!({ "reloaded": true }), || "The daemon uses the files as they are now.".to_owned());
        Ok(())
    }
}
