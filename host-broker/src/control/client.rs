//! The client of the control socket.

use super::{ControlError, SocketRequest};
use crate::fleet_commands;
use serde_json::Value;
use shared::limits;
use std::path::Path;

/// Sends a command to the running daemon; `Ok(None)` if none is running.
///
/// # Errors
/// [`ControlError`]; whether the command was executed is then not known, and asking again is safe.
pub fn send(socket: &Path, request: &SocketRequest) -> Result<Option<Value>, ControlError> {
    use std::io::{BufRead as _, Write as _};
    let failed = |source| ControlError::Socket { path: socket.into(), source };
    let mut stream = match std::os::unix::net::UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(ControlError::Closed { path: socket.into(), uid: rustix::process::geteuid().as_raw() });
        }
        Err(source) => return Err(failed(source)),
    };
    let timeout = match request {
        SocketRequest::Process(request) => request.timeout(),
        SocketRequest::Command(_) => limits::TIMEOUT_DEFAULT,
        SocketRequest::Fleet(_) | SocketRequest::AllHosts(_) => fleet_commands::TIMEOUT,
    };
    stream.set_read_timeout(Some(timeout)).map_err(failed)?;
    let mut line = serde_json::to_vec(request).unwrap_or_default();
    line.push(b'\n');
    let sent = stream.write_all(&line);
    let mut answer = String::new();
    let read = std::io::BufReader::new(stream).read_line(&mut answer);
    // A daemon that refuses the user answers and closes the connection before it reads the command.
    if let Ok(value) = serde_json::from_str(&answer) {
        return Ok(Some(value));
    }
    // The kernel resets a connection that is closed with an unread command.
    let is_closed = |kind| matches!(kind, std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe);
    if let Err(error) = sent.and(read)
        && !is_closed(error.kind())
    {
        return Err(failed(error));
    }
    // A daemon that stops closes its connections.
    let fault = match answer.trim() {
        "" => "it closed the connection; it may be stopping, see `host-broker status`".to_owned(),
        answer => format!("it sent something else: {}", answer.chars().take(200).collect::<String>()),
    };
    Err(ControlError::NoAnswer { fault })
}
