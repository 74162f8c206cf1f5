//! `serve`: runs the broker on a home.

use crate::cli::Context;
use crate::cli::output::Fault;
use crate::event::{Event, Reports};
use crate::host::reload::{Reload, start_anew};
use crate::host::{Host, Office};
use clap::Args;
use rustix::process::WaitOptions;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Run the broker on a home, until it is stopped. Prints `ready` when it takes requests.
///
/// Logs go to standard error, with where the inbox is if there is one; `RUST_LOG` sets how much. Ctrl-C, SIGTERM or
/// `host-broker stop` end it in good order. SIGHUP or `host-broker reload` make it read its files again; it then prints
/// `ready` once more.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {ready: true, home, web, callback} instead of `ready`; web is where the \
    inbox is, if broker.toml has a [web] table, callback where browsers bring persons back to, if [identity] has one")]
pub struct Serve {}

/// SECURITY: the SDK prints what a server says, of which nobody knows what it is and how much.
const LOG_FILTER: &str = "info,rmcp=off";

impl Serve {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; nothing is running then.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        // Children of the program that this process was before a reload.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        // Heard from the first moment on: unheard, a signal would end the process that was to start anew.
        let inside = context.effects.runtime.enter();
        let hangup = signal(SignalKind::hangup()).map_err(|error| Fault::internal(&error))?;
        drop(inside);
        let reload = serve(context, &json!({ "ready": true, "home": context.home.path() }), Some(hangup))?;
        if reload.is_some_and(|reload| reload.is_wanted()) {
            return Err(Fault::internal(&start_anew()));
        }
        Ok(())
    }
}

/// Runs the broker until it is stopped, and says `ready`, or prints the document, when it takes requests. Returns how it
/// reads its configuration again, if `hangup` asks for that.
///
/// # Errors
/// [`Fault`]; nothing is running then.
pub fn serve(context: &Context, ready: &Value, hangup: Option<Signal>) -> Result<Option<Reload>, Fault> {
    let said = context.effects.environment.get("RUST_LOG").map_or(LOG_FILTER, String::as_str);
    // A directive for a part of it would win over the one for all of it.
    let said: Vec<&str> = said.split(',').filter(|directive| !directive.contains("rmcp")).collect();
    let said = said.join(",");
    let filter = EnvFilter::try_new(format!("{said},rmcp=off")).unwrap_or_else(|_bad| EnvFilter::new(LOG_FILTER));
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_env_filter(filter).init();
    let mut office = Office::open(context.home.clone(), &context.effects)?;
    if hangup.is_some() {
        office.reload = Some(Reload::new(context.home.clone(), &context.effects, &office.config));
    }
    let host = Host::start(&office, &context.effects)?;
    context.effects.runtime.spawn(stop_on_signal(host.reports()));
    if let Some((reload, hangup)) = office.reload.clone().zip(hangup) {
        context.effects.runtime.spawn(reload_on_signal(hangup, reload, host.reports()));
    }
    let mut ready = ready.clone();
    if let (Some(members), Some(callback)) = (ready.as_object_mut(), host.callback()) {
        members.insert("callback".to_owned(), callback.into());
    }
    if let (Some(members), Some(inbox)) = (ready.as_object_mut(), host.inbox()) {
        members.insert("web".to_owned(), inbox.into());
    }
    context.output.show(&ready, || "ready".to_owned());
    host.join();
    Ok(office.reload)
}

async fn reload_on_signal(mut hangup: Signal, reload: Reload, reports: Reports) {
    while hangup.recv().await.is_some() {
        let asked = reload.clone();
        match tokio::task::spawn_blocking(move || asked.ask()).await {
            Ok(Ok(())) => return reports.happened(Event::Stopping),
            Ok(Err(error)) => {
                tracing::error!(error = ?error, "the configuration cannot be used; the daemon goes on with the one that it has");
            }
            Err(error) => tracing::error!(%error, "the configuration could not be checked"),
        }
    }
}

async fn stop_on_signal(reports: Reports) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    reports.happened(Event::Stopping);
}
