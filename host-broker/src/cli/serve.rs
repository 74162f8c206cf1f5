//! `serve`: runs the broker on a home.

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::output::CliError;
use crate::daemon::EventSender;
use crate::host::reload::{Checked, Reload, Start, begun, reap_inherited, restart};
use crate::host::standby::Standby;
use crate::host::{Host, LoadedHome, StartError};
use clap::Args;
use engine::event::Event;
use model::errors::chain;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
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
            Some((reload, checked)) => {
                restart(&context.home, &reload, &checked).map_err(|error| CliError::internal(&error))
            }
            None => Ok(()),
        }
    }
}

/// Runs the broker until it is stopped, and says `ready`, or prints the document, when it takes requests. Returns the
/// checked texts if a reload stopped it.
///
/// # Errors
/// [`CliError`]; nothing is running then.
pub fn serve(context: &Context, ready: &Value, start: Start) -> Result<Option<(Reload, Arc<Checked>)>, CliError> {
    let runtime = &context.platform.runtime;
    // Registered early: before this line, SIGHUP ends the process.
    let inside = runtime.enter();
    let mut hangup = signal(SignalKind::hangup()).ok();
    drop(inside);
    begun();
    log_to_standard_error(context);
    let Some((host, reload, stop)) = started(context, start, &mut hangup)? else { return Ok(None) };
    runtime.spawn(stop_on_signal(stop, reload.clone(), host.reports()));
    let (over, is_over) = watch::channel(false);
    let reloads = runtime.spawn(reload_on_signal(hangup, reload.clone(), host.reports(), is_over));
    let mut ready = ready.clone();
    if let (Some(members), Some(callback)) = (ready.as_object_mut(), host.callback()) {
        members.insert("callback".to_owned(), callback.into());
    }
    if let (Some(members), Some(inbox)) = (ready.as_object_mut(), host.inbox()) {
        members.insert("web".to_owned(), inbox.into());
    }
    context.output.show(&ready, || "ready".to_owned());
    host.join().map_err(|failed| CliError::internal(&failed))?;
    // A reload that was asked for while it stopped is checked to its end.
    over.send_replace(true);
    runtime.block_on(reloads).ok();
    Ok(reload.wanted().map(|checked| (reload, checked)))
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

/// Starts the daemon. After a reload, a fault does not end it: it waits, and tries again. Returns `None` if it was asked
/// to end first.
fn started(
    context: &Context,
    start: Start,
    hangup: &mut Option<Signal>,
) -> Result<Option<(Host, Reload, Option<StopSignals>)>, CliError> {
    let runtime = &context.platform.runtime;
    let attempt = |checked| -> Result<_, StartError> {
        let mut loaded = LoadedHome::open_to_serve(context.home.clone(), &context.platform, context.kinds, checked)?;
        let reload = Reload::new(context.home.clone(), &context.platform, context.kinds, &loaded.config);
        loaded.reload = Some(reload.clone());
        Ok((Host::start(&loaded, &context.platform)?, reload))
    };
    let Start::Reload(mut checked) = start else {
        let (host, reload) = attempt(None)?;
        return Ok(Some((host, reload, None)));
    };
    let inside = runtime.enter();
    let mut stop = StopSignals::new();
    drop(inside);
    if checked.is_none() {
        tracing::warn!("the checked texts were not handed over; the files are read again");
    }
    let (mut standby, mut told, mut pause): (Option<Standby>, _, _) = (None, String::new(), FIRST_PAUSE);
    loop {
        if let Some(standby) = &mut standby {
            standby.release();
        }
        let error = match attempt(checked.clone()) {
            Ok((host, _)) if standby.as_ref().is_some_and(Standby::is_to_stop) => {
                host.stop().map_err(|failed| CliError::internal(&failed))?;
                return Ok(None);
            }
            Ok((host, reload)) => return Ok(Some((host, reload, stop))),
            Err(error) => error,
        };
        let because = chain(&error);
        if because != told {
            tracing::error!(error = because, "the daemon cannot start after the reload, and waits");
            (told, pause) = (because, FIRST_PAUSE);
        }
        let is_held = if let Some(standby) = &mut standby {
            standby.hold(&told)
        } else {
            standby = Standby::open(&context.home, runtime, &told);
            standby.is_some()
        };
        // A command holds the lock for a moment; another daemon answers.
        if !is_held && matches!(running(context), Ok(Some(hello)) if hello.get("error").is_none()) {
            return Err(error.into());
        }
        let wish = runtime.block_on(next_attempt(pause, &mut stop, hangup, &mut standby));
        match wish {
            Wish::Stop => return Ok(None),
            // The operator may have corrected the files.
            Wish::TryAgain => (checked, pause) = (None, FIRST_PAUSE),
            Wish::Wait => pause = (pause * 2).min(PAUSE_MAX),
        }
        if matches!(&error, StartError::Config(_)) {
            checked = None;
        }
    }
}

/// The time between two attempts to start after a reload: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How the wait for the next attempt ended.
enum Wish {
    /// The daemon is to end.
    Stop,
    /// An operator wants an attempt now.
    TryAgain,
    /// The time is over.
    Wait,
}

/// Waits until the next attempt is due, or somebody wants it, or wants an end.
async fn next_attempt(
    pause: Duration,
    stop: &mut Option<StopSignals>,
    hangup: &mut Option<Signal>,
    standby: &mut Option<Standby>,
) -> Wish {
    let stopped = async {
        match stop {
            Some(stop) => stop.received().await,
            None => std::future::pending().await,
        }
    };
    let hung_up = async {
        match hangup {
            Some(hangup) => hangup.recv().await,
            None => std::future::pending().await,
        }
    };
    let wished = async {
        match standby {
            Some(standby) => {
                standby.wish().await;
                if standby.is_to_stop() { Wish::Stop } else { Wish::TryAgain }
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stopped => Wish::Stop,
        _ = hung_up => Wish::TryAgain,
        wish = wished => wish,
        () = tokio::time::sleep(pause) => Wish::Wait,
    }
}

/// Reloads when the signal comes, also while the daemon stops: the last text counts. After the stop, it checks at most once
/// more.
async fn reload_on_signal(
    hangup: Option<Signal>,
    reload: Reload,
    reports: EventSender,
    mut is_over: watch::Receiver<bool>,
) {
    let Some(mut hangup) = hangup else { return };
    loop {
        tokio::select! {
            biased;
            signal = hangup.recv() => if signal.is_none() { return },
            _ = is_over.wait_for(|over| *over) => return,
        }
        let asked = reload.clone();
        match tokio::task::spawn_blocking(move || asked.ask()).await {
            Ok(Ok(())) => reports.happened(Event::Stopping),
            Ok(Err(error)) => {
                tracing::error!(error = ?error, "the configuration is invalid; the daemon keeps the current one");
            }
            Err(error) => tracing::error!(%error, "the configuration could not be checked"),
        }
        if *is_over.borrow() {
            return;
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
