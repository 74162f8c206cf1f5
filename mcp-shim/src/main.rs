//! Starts the shim: as an MCP server over standard input and output, or for one request of a script.
//!
//! Only this file and `settings` know the environment.

use mcp_shim::cli::{self, Command, Question};
use mcp_shim::settings::Settings;
use mcp_shim::shim::Shim;
use mcp_shim::{sandbox_start, server, transport};
use std::io::Write as _;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        // The message could quote an argument; the place cannot.
        let place = panic.location().map_or_else(String::new, ToString::to_string);
        complain(&format!("internal fault at {place}"));
    }));
    match sandbox_start::run(std::env::args_os()) {
        None => {}
        Some(Ok(code)) => return code.into(),
        Some(Err(failure)) => {
            complain(&failure);
            return ExitCode::FAILURE;
        }
    }
    let command = match Command::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(fault) => {
            complain(&format!("{fault}; mcp-shim --help tells more"));
            return cli::USAGE.into();
        }
    };
    if let Command::Print(text) = &command {
        // If the output is closed, there is no reader.
        std::io::stdout().lock().write_all(text.as_bytes()).ok();
        return ExitCode::SUCCESS;
    }
    #[expect(clippy::disallowed_methods, reason = "this is where the environment comes in")]
    let settings = match Settings::read(|name| std::env::var_os(name)) {
        Ok(settings) => settings,
        Err(fault) => {
            complain(&fault.to_string());
            return cli::USAGE.into();
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => {
            complain(&format!("cannot start: {fault}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(command, settings));
    // If the standard input is no pipe, a thread still reads it; the process does not wait for that.
    runtime.shutdown_background();
    code
}

async fn run(command: Command, mut settings: Settings) -> ExitCode {
    match command {
        Command::Print(_) => ExitCode::SUCCESS,
        Command::Serve { action_tools } => {
            settings.action_tools = action_tools;
            settings.begins_conversations = true;
            Box::pin(serve(settings)).await
        }
        Command::Ask(question) => ask(question, settings).await,
    }
}

async fn serve(settings: Settings) -> ExitCode {
    let stop = CancellationToken::new();
    let transport = transport::stdio(stop.clone());
    match Box::pin(server::serve(Shim::new(settings), transport, stop, told_to_end())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            complain(&fault);
            ExitCode::FAILURE
        }
    }
}

async fn ask(question: Question, settings: Settings) -> ExitCode {
    let answer = cli::run(&Shim::new(settings), question, told_to_end()).await;
    if let Some(reason) = &answer.reason {
        complain(reason);
    }
    let printed = writeln!(std::io::stdout().lock(), "{}", answer.object);
    if printed.is_err() { ExitCode::FAILURE } else { answer.code.into() }
}

/// Waits for the signals by which clients and containers end a process.
///
/// An immediate end would leave a request in the mailbox that the host executes although its caller is gone.
///
/// ORDER: it listens from now on, not only once it is waited for: a signal that comes in between would end the process.
fn told_to_end() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else { return std::future::pending().await };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

/// One line on standard error, and never an argument of a call in it.
fn complain(what: &str) {
    let line: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // With standard error closed there is no reader.
    writeln!(std::io::stderr().lock(), "mcp-shim: {line}").ok();
}
