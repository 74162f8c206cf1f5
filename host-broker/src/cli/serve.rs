//! `serve`: runs the broker on a home.

use crate::cli::Context;
use crate::cli::output::CliError;
use crate::daemon::EventSender;
use crate::host::reload::{Reload, Start, begun, reap_inherited};
use crate::host::{Host, LoadedHome, StartError};
use clap::Args;
use engine::event::Event;
use model::errors::chain;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
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
        let start = Start::of_this_program(&context.home, &context.platform.environment);
        match serve(context, &json!({ "ready": true, "home": context.home.path() }), start)? {
            Some(next) => Err(CliError::internal(&next.in_new_program(&context.home))),
            None => Ok(()),
        }
    }
}

/// Runs the broker until it is stopped, and says `ready`, or prints the document, when it takes requests. Returns how it
/// starts again, if a reload stopped it.
///
/// # Errors
/// [`CliError`]; nothing is running then.
pub fn serve(context: &Context, ready: &Value, start: Start) -> Result<Option<Start>, CliError> {
    let runtime = &context.platform.runtime;
    // Registered early: before this line, SIGHUP ends the process.
    let inside = runtime.enter();
    let hangup = signal(SignalKind::hangup()).ok();
    drop(inside);
    begun();
    log_to_standard_error(context);
    let Some((host, reload, stop)) = started(context, start)? else { return Ok(None) };
    runtime.spawn(stop_on_signal(stop, reload.clone(), host.reports()));
    let reloads = runtime.spawn(reload_on_signal(hangup, reload.clone(), host.reports()));
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
    Ok(reload.next_start())
}

fn log_to_standard_error(context: &Context) {
    let said = context.platform.environment.get("RUST_LOG").map_or(LOG_FILTER, String::as_str);
    // A log filter for a part of it would win over the one for all of it.
    let said: Vec<&str> = said.split(',').filter(|command_request| !command_request.contains("rmcp")).collect();
    let said = said.join(",");
    let filter = EnvFilter::try_new(format!("{said},rmcp=off")).unwrap_or_else(|_bad| EnvFilter::new(LOG_FILTER));
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_env_filter(filter);
    // A log on a full disk stops nothing. The library would panic where it cannot report that it cannot write.
    log.log_internal_errors(false).try_init().ok();
}

/// Starts the daemon. After a reload, a fault does not end it: it tries again until it starts. Returns `None` if a signal
/// asked it to stop first.
fn started(context: &Context, start: Start) -> Result<Option<(Host, Reload, Option<StopSignals>)>, CliError> {
    let attempt = |text| -> Result<_, StartError> {
        let mut loaded = LoadedHome::open_to_serve(context.home.clone(), &context.platform, context.kinds, text)?;
        let reload = Reload::new(context.home.clone(), &context.platform, context.kinds, &loaded.config);
        loaded.reload = Some(reload.clone());
        Ok((Host::start(&loaded, &context.platform)?, reload))
    };
    let Start::Reload(mut text) = start else {
        let (host, reload) = attempt(None)?;
        return Ok(Some((host, reload, None)));
    };
    let inside = context.platform.runtime.enter();
    let mut stop = StopSignals::new();
    drop(inside);
    let mut told = String::new();
    loop {
        let error = match attempt(text.take()) {
            Ok((host, reload)) => return Ok(Some((host, reload, stop))),
            Err(error) => chain(&error),
        };
        if error != told {
            tracing::error!(error, "the daemon cannot start after the reload; it tries again until it can");
            told = error;
        }
        let is_to_stop = async {
            match &mut stop {
                Some(stop) => stop.received().await,
                None => std::future::pending().await,
            }
        };
        if context.platform.runtime.block_on(async { timeout(RETRY, is_to_stop).await }).is_ok() {
            return Ok(None);
        }
    }
}

/// The time between two attempts to start after a reload.
const RETRY: Duration = Duration::from_millis(500);

async fn reload_on_signal(hangup: Option<Signal>, reload: Reload, reports: EventSender) {
    let Some(mut hangup) = hangup else { return };
    while hangup.recv().await.is_some() {
        let asked = reload.clone();
        match tokio::task::spawn_blocking(move || asked.ask()).await {
            Ok(Ok(())) => return reports.happened(Event::Stopping),
            Ok(Err(error)) => {
                tracing::error!(error = ?error, "the configuration is invalid; the daemon keeps the current one");
            }
            Err(error) => tracing::error!(%error, "the configuration could not be checked"),
        }
    }
}

/// The signals that stop the daemon.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> Option<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate()).ok()?, signal(SignalKind::interrupt()).ok()?);
        Some(Self { terminate, interrupt })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn stop_on_signal(stop: Option<StopSignals>, reload: Reload, reports: EventSender) {
    let Some(mut stop) = stop.or_else(StopSignals::new) else { return };
    stop.received().await;
    reload.has_stopped();
    reports.happened(Event::Stopping);
}
