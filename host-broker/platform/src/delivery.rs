//! Delivery of notices and evidence to the places that an operator names: a program, an HTTP server, or a server that
//! answers nothing.
//!
//! Each function makes one attempt. Its error is a sentence for the operator, without anything of the bytes or of the
//! answer. The bytes may have arrived all the same.

pub mod connection;

use crate::commands::{Command, CommandError, Commands, Ending, Finished};
use crate::http::{Exchange, Http};
use http::HeaderMap;
use tokio::time::Instant;

/// The most bytes of a program's output.
const OUTPUT_MAX: usize = 64 * 1024;

/// Runs a program, which accepts its standard input by ending with status 0.
///
/// # Errors
/// A sentence for the operator.
pub async fn to_program(commands: &dyn Commands, mut command: Command) -> Result<(), String> {
    let program = command.program.display().to_string();
    let seconds = command.deadline.saturating_duration_since(Instant::now()).as_secs_f64().round();
    (command.stdout_max, command.stderr_max) = (OUTPUT_MAX, OUTPUT_MAX);
    let finished = commands.run(command).await;
    if let Ok(Finished { exceeded: Some(limit), .. }) = &finished {
        return Err(format!("`{program}` has exceeded its limit {limit}"));
    }
    match finished.map(|finished| finished.ending) {
        Ok(Ending::Exited(0)) => Ok(()),
        Ok(Ending::Exited(status)) => Err(format!("`{program}` ended with status {status}")),
        Ok(Ending::Signalled(signal)) => Err(format!("`{program}` was ended by signal {signal}")),
        Ok(Ending::Overflowed(_)) => Err(format!("`{program}` printed more than {OUTPUT_MAX} bytes and was stopped")),
        Err(CommandError::Deadline) => Err(format!("`{program}` was not done within {seconds} s and was stopped")),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Posts a document to a server, which accepts it with a status from 200 to 299.
///
/// # Errors
/// A sentence for the operator.
pub async fn to_server(
    http: &dyn Http,
    url: &str,
    headers: HeaderMap,
    body: Vec<u8>,
    deadline: Instant,
) -> Result<(), String> {
    let status = http.send(post(url, headers, body, deadline)?).await.map_err(|fault| fault.to_string())?;
    accepted(status)
}

/// Returns the request that posts a document.
///
/// # Errors
/// A sentence for the operator.
pub fn post(url: &str, headers: HeaderMap, body: Vec<u8>, deadline: Instant) -> Result<Exchange, String> {
    let uri = url.parse().map_err(|_bad| "the url is no address".to_owned())?;
    Ok(Exchange::post(uri, headers, body, deadline))
}

/// Checks that a status accepts a document.
///
/// # Errors
/// A sentence for the operator.
pub fn accepted(status: u16) -> Result<(), String> {
    match status {
        200..=299 => Ok(()),
        300..=399 => Err(format!("it answered HTTP {status}: name the address that it leads to")),
        _ => Err(format!("it answered HTTP {status}")),
    }
}
