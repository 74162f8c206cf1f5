//! Delivery of notices and evidence to the places that an operator names: a program, an HTTP server, or a server that
//! answers nothing.
//!
//! Each function makes one attempt. Its error is a sentence for the operator, without anything of the bytes or of the
//! answer. The bytes may have arrived all the same.

pub mod connection;

use crate::commands::{Command, CommandError, Commands, Ending, Finished};
use crate::http::{Exchange, Http};
use http::{HeaderMap, HeaderValue};
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// The most bytes of a program's output.
const OUTPUT_MAX: usize = 64 * 1024;
/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

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

/// Returns the value of a header with a token, which is the secret of this key.
///
/// # Errors
/// A sentence for the operator: the token cannot be in a header.
pub fn bearer(key: &str, token: &str) -> Result<HeaderValue, String> {
    let bearer = Zeroizing::new(format!("Bearer {token}"));
    let not_a_token = |_bad| format!("its secret `{key}` has characters that no token has; set it again");
    let mut value = HeaderValue::from_str(&bearer).map_err(not_a_token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the pause after this many attempts.
pub fn pause(attempts: u32) -> Duration {
    let (first, longest) = PAUSES;
    first.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1))).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_a_second_to_five_minutes() {
        let seconds: Vec<u64> = (1..=12).map(|attempts| pause(attempts).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(pause(u32::MAX), Duration::from_secs(300));
    }
}
