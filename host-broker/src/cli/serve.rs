//! `serve`: runs the broker on a home.

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::output::CliError;
use crate::daemon::EventSender;
use crate::host::reload::{OperatorFiles, Reload, Start, begun, reap_inherited, restart};
use crate::host::standby::Standby;
use crate::host::{Host, LoadedHome, StartError};
use crate::log::{self, Log, LogFormat};
use clap::Args;
use engine::event::Event;
use model::errors::chain;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Run the broker daemon until it is stopped.
///
/// When the daemon accepts requests, it prints `ready`. It writes its log to standard error and to HOME/log, which
/// `host-broker logs` shows; `RUST_LOG` sets the log level. Ctrl-C, SIGTERM and `host-broker stop` stop the daemon in an orderly way. After SIGHUP
/// or `host-broker reload`, the daemon reads its files again and prints `ready` again. As a service of systemd with
/// `Type=notify`, it reports its state to systemd.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {ready: true, home, web, callback, metrics} instead of `ready`. web is the address \
    of the inbox, if broker.toml has a [web] table. callback is the OAuth callback address, if [identity] has one. metrics \
    is the address of the metrics, if broker.toml has a [metrics] table"
)]
pub struct Serve {
    /// The format of the log on standard error [env: `EXT_BROKER_LOG_FORMAT`].
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

/// The line of a daemon that takes requests.
pub const READY: &str = "ready";

impl Serve {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing is running then.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        reap_inherited();
        let start = Start::of_this_program(&context.platform.environment);
        let ready = json!({ "ready": true, "home": context.home.path() });
        let log = start_log(context, self.log_format)?;
        match serve(context, &ready, start, &|_| READY.to_owned())? {
            Some((reload, files)) => {
                // The new program has a log of its own.
                drop(log);
                restart(&reload, &files).map_err(|error| CliError::internal(&error))
            }
            None => Ok(()),
        }
    }
}

/// Starts the log of a daemon. It ends when the value is dropped.
///
/// # Errors
/// [`CliError`] if the environment names no format.
pub(super) fn start_log(context: &Context, format: Option<LogFormat>) -> Result<Log, CliError> {
    let environment = &context.platform.environment;
    let format = format.map_or_else(|| log::format(environment), Ok).map_err(CliError::usage)?;
    Ok(log::start(environment, format, Some(&context.home)))
}

/// Runs the broker until it is stopped. When it takes requests, it prints the document, or the text that `announce` makes of
/// it. Returns the checked files if a reload stopped it.
///
/// # Errors
/// [`CliError`]; nothing is running then.
pub fn serve(
    context: &Context,
    ready: &Value,
    start: Start,
    announce: &dyn Fn(&Value) -> String,
) -> Result<Option<(Reload, Arc<OperatorFiles>)>, CliError> {
    let runtime = &context.platform.runtime;
    // Registered early: before this line, SIGHUP ends the process.
    let inside = runtime.enter();
    let mut hangup = signal(SignalKind::hangup()).ok();
    drop(inside);
    begun();
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
    if let (Some(members), Some(metrics)) = (ready.as_object_mut(), host.metrics()) {
        members.insert("metrics".to_owned(), metrics.into());
    }
    context.service_manager.ready();
    context.output.show(&ready, || announce(&ready));
    host.join().map_err(|failed| CliError::internal(&failed))?;
    // A reload that was asked for while it stopped is checked to its end.
    over.send_replace(true);
    runtime.block_on(reloads).ok();
    Ok(reload.wanted().map(|files| (reload, files)))
}

/// Starts the daemon. After a reload, a fault does not end it: it waits, and tries again. Returns `None` if it was asked
/// to end first.
fn started(
    context: &Context,
    start: Start,
    hangup: &mut Option<Signal>,
) -> Result<Option<(Host, Reload, Option<StopSignals>)>, CliError> {
    let runtime = &context.platform.runtime;
    let attempt = |files| -> Result<_, StartError> {
        let mut loaded = LoadedHome::open_to_serve(context.home.clone(), &context.platform, context.kinds, files)?;
        let reload = Reload::new(context.home.clone(), &context.platform, context.kinds, &loaded.config)
            .with_service_manager(context.service_manager.clone());
        loaded.reload = Some(reload.clone());
        Ok((Host::start(&loaded, &context.platform)?, reload))
    };
    let Start::Reload(mut files) = start else {
        let (host, reload) = attempt(None)?;
        // ORDER: before the daemon says that it is ready. Until here, a signal ends the process as a crash does.
        return Ok(Some((host, reload, StopSignals::new(runtime))));
    };
    let mut stop = StopSignals::new(runtime);
    let (mut standby, mut logged, mut pause): (Option<Standby>, _, _) = (None, String::new(), FIRST_PAUSE);
    loop {
        if let Some(standby) = &mut standby {
            standby.release();
        }
        let error = match attempt(files.clone()) {
            Ok((host, _)) if standby.as_ref().is_some_and(Standby::stop_requested) => {
                host.stop().map_err(|failed| CliError::internal(&failed))?;
                return Ok(None);
            }
            Ok((host, reload)) => return Ok(Some((host, reload, stop))),
            Err(error) => error,
        };
        let reason = chain(&error);
        if reason != logged {
            tracing::error!(error = reason, "the daemon cannot start after the reload, and waits");
            context.service_manager.waits();
            (logged, pause) = (reason, FIRST_PAUSE);
        }
        let is_held = if let Some(standby) = &mut standby {
            standby.hold(&logged)
        } else {
            standby = Standby::open(&context.home, runtime, &logged);
            standby.is_some()
        };
        // A command holds the lock for a moment; another daemon answers.
        if !is_held && matches!(running(context), Ok(Some(hello)) if hello.get("error").is_none()) {
            return Err(error.into());
        }
        match runtime.block_on(waited(pause, &mut stop, hangup, &mut standby)) {
            Waited::Stop => {
                context.service_manager.stopping();
                return Ok(None);
            }
            // The operator may have corrected the files.
            Waited::Requested => (files, pause) = (None, FIRST_PAUSE),
            Waited::Elapsed => pause = (pause * 2).min(PAUSE_MAX),
        }
        if matches!(&error, StartError::Config(_)) {
            files = None;
        }
    }
}

/// The time between two attempts to start after a reload: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How the wait for the next attempt ended.
enum Waited {
    /// A signal or an operator stops the daemon.
    Stop,
    /// An operator asks for an attempt now.
    Requested,
    /// The pause is over.
    Elapsed,
}

/// Waits for the end of the pause, for an operator or for a signal.
async fn waited(
    pause: Duration,
    stop: &mut Option<StopSignals>,
    hangup: &mut Option<Signal>,
    standby: &mut Option<Standby>,
) -> Waited {
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
    let requested = async {
        match standby {
            Some(standby) => {
                standby.requested().await;
                if standby.stop_requested() { Waited::Stop } else { Waited::Requested }
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stopped => Waited::Stop,
        _ = hung_up => Waited::Requested,
        request = requested => request,
        () = tokio::time::sleep(pause) => Waited::Elapsed,
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
                tracing::error!(
                    error = chain(&error),
                    "the configuration is invalid; the daemon keeps the current one"
                );
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
    fn new(runtime: &Handle) -> Option<Self> {
        let _inside = runtime.enter();
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
    let Some(mut stop) = stop else { return };
    stop.received().await;
    reload.has_stopped();
    reports.happened(Event::Stopping);
}
