//! `serve`: runs the broker on a home.

use crate::cli::Context;
use crate::cli::output::CliError;
use crate::daemon::EventSender;
use crate::host::reload::{Reload, begun, reap_inherited, restart};
use crate::host::{Host, LoadedHome};
use clap::Args;
use engine::event::Event;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Run the broker daemon until it is stopped.
///
/// When the daemon accepts requests, it prints `ready`. It writes logs and the address of the inbox to standard error;
/// `RUST_LOG` sets the log level. Ctrl-C, SIGTERM and `host-broker stop` stop the daemon in an orderly way. After SIGHUP
/// or `host-broker reload`, the daemon reads its files again and prints `ready` again.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {ready: true, home, web, callback} instead of `ready`. web is the address of the \
    inbox, if broker.toml has a [web] table. callback is the OAuth callback address, if [identity] has one"
)]
pub struct Serve {}

/// SECURITY: the SDK prints a server's text, of unknown content and length.
const LOG_FILTER: &str = "info,rmcp=off";

impl Serve {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing is running then.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        reap_inherited();
        if serve(context, &json!({ "ready": true, "home": context.home.path() }))? {
            return Err(CliError::internal(&restart()));
        }
        Ok(())
    }
}

/// Runs the broker until it is stopped, and says `ready`, or prints the document, when it takes requests. Returns whether
/// it must start again, because it is to read its files again.
///
/// # Errors
/// [`CliError`]; nothing is running then.
pub fn serve(context: &Context, ready: &Value) -> Result<bool, CliError> {
    // Registered early: before this line, SIGHUP ends the process.
    let inside = context.platform.runtime.enter();
    let mut hangup = signal(SignalKind::hangup()).ok();
    drop(inside);
    begun();
    let said = context.platform.environment.get("RUST_LOG").map_or(LOG_FILTER, String::as_str);
    // A log filter for a part of it would win over the one for all of it.
    let said: Vec<&str> = said.split(',').filter(|command_request| !command_request.contains("rmcp")).collect();
    let said = said.join(",");
    let filter = EnvFilter::try_new(format!("{said},rmcp=off")).unwrap_or_else(|_bad| EnvFilter::new(LOG_FILTER));
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_env_filter(filter);
    // A log on a full disk stops nothing. The library would panic where it cannot report that it cannot write.
    log.log_internal_errors(false).try_init().ok();
    let mut loaded = LoadedHome::open_to_serve(context.home.clone(), &context.platform, context.kinds)?;
    let reload = Reload::new(context.home.clone(), &context.platform, context.kinds, &loaded.config);
    loaded.reload = Some(reload.clone());
    loop {
        let host = Host::start(&loaded, &context.platform)?;
        let runtime = &context.platform.runtime;
        runtime.spawn(stop_on_signal(reload.clone(), host.reports()));
        let reloads = runtime.spawn(reload_on_signal(hangup.take(), reload.clone(), host.reports()));
        let mut ready = ready.clone();
        if let (Some(members), Some(callback)) = (ready.as_object_mut(), host.callback()) {
            members.insert("callback".to_owned(), callback.into());
        }
        if let (Some(members), Some(inbox)) = (ready.as_object_mut(), host.inbox()) {
            members.insert("web".to_owned(), inbox.into());
        }
        context.output.show(&ready, || "ready".to_owned());
        host.join().map_err(|failed| CliError::internal(&failed))?;
        reloads.abort();
        if !reload.is_wanted() {
            return Ok(false);
        }
        // The files may have changed while it stopped.
        match reload.ask() {
            Ok(()) => return Ok(reload.is_wanted()),
            Err(error) => {
                tracing::error!(error = ?error, "{KEEPS}");
                reload.give_up();
            }
        }
    }
}

const KEEPS: &str = "the configuration is invalid; the daemon keeps the current one";

async fn reload_on_signal(hangup: Option<Signal>, reload: Reload, reports: EventSender) {
    let Some(mut hangup) = hangup.or_else(|| signal(SignalKind::hangup()).ok()) else { return };
    while hangup.recv().await.is_some() {
        let asked = reload.clone();
        match tokio::task::spawn_blocking(move || asked.ask()).await {
            Ok(Ok(())) => return reports.happened(Event::Stopping),
            Ok(Err(error)) => tracing::error!(error = ?error, "{KEEPS}"),
            Err(error) => tracing::error!(%error, "the configuration could not be checked"),
        }
    }
}

async fn stop_on_signal(reload: Reload, reports: EventSender) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    reload.has_stopped();
    reports.happened(Event::Stopping);
}
