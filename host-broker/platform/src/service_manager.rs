//! Messages to the service manager that started the daemon, such as systemd.
//!
//! The service manager names a datagram socket in `NOTIFY_SOCKET`. Without the variable, there is no service manager,
//! and nothing is sent.
//!
//! Source: `sd_notify(3)`.

use crate::Environment;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the address of the socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// The service manager, if there is one.
#[derive(Debug, Clone, Default)]
pub struct ServiceManager {
    address: Option<String>,
}

impl ServiceManager {
    /// Takes the address out of the environment.
    ///
    /// SECURITY: no secret source and no program of a provider can then learn it from the broker.
    pub fn take_from(environment: &mut Environment) -> Self {
        Self { address: environment.remove(VARIABLE).filter(|address| !address.is_empty()) }
    }

    /// The daemon takes requests.
    pub fn ready(&self) {
        self.send("READY=1\nSTATUS=takes requests");
    }

    /// The daemon stops, and starts again in the same process.
    pub fn reloading(&self) {
        self.send("RELOADING=1\nSTATUS=restarts with the new configuration");
    }

    /// The daemon stops.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stops; running calls have five seconds");
    }

    /// The daemon cannot start, and tries again.
    ///
    /// SECURITY: every user of the machine can read the status, so the reason is in the log only.
    pub fn waits(&self) {
        self.send("STATUS=cannot start after the reload, and waits; the log has the reason");
    }

    fn send(&self, message: &str) {
        let Some(address) = &self.address else { return };
        if let Err(error) = deliver(address, message) {
            tracing::warn!(%error, address, "the service manager cannot be told about the state of the daemon");
        }
    }
}

fn deliver(address: &str, message: &str) -> io::Result<()> {
    // `@` stands for the zero byte of an abstract address.
    let address = match address.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(address),
    }?;
    let socket = UnixDatagram::unbound()?;
    // A service manager that does not read must not hold up the daemon.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_that_does_not_read_holds_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = ServiceManager { address: Some(path.to_str().unwrap().to_owned()) };
        manager.ready();
        let socket = UnixDatagram::bind(&path).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        while other.send_to(b"full", &path).is_ok() {}
        deliver(path.to_str().unwrap(), "READY=1").unwrap_err();
        drop(socket);
        // Without an address nothing is sent, and neither is it with an empty one.
        ServiceManager::default().ready();
        let mut environment = Environment::from([(VARIABLE.to_owned(), String::new())]);
        assert!(ServiceManager::take_from(&mut environment).address.is_none());
    }
}
