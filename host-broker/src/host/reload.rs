//! Reloading the configuration.
//!
//! The daemon first opens everything that a start reads. If that succeeds, it stops in good order and executes its own
//! program: the process id, the standard streams and the supervisor stay the same. A reload therefore has no state of
//! its own.

use super::{Effects, Office, StartError, every_record_opens, group_number};
use crate::config::home::Home;
use crate::config::web::Loopback;
use crate::config::{Config, ConfigError};
use crate::http;
use crate::mailroom::Mailroom;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A running daemon's way to read its configuration again.
#[derive(Clone)]
pub struct Reload {
    home: Home,
    effects: Effects,
    addresses: [Option<SocketAddr>; 2],
    wanted: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
}

impl Reload {
    /// For the daemon that runs on this configuration.
    pub fn new(home: Home, effects: &Effects, running: &Config) -> Self {
        let addresses = addresses(running);
        Self { home, effects: effects.clone(), addresses, wanted: Arc::default(), stopped: Arc::default() }
    }

    /// Opens everything that a start reads, and notes that the daemon restarts once it has stopped. This blocks.
    ///
    /// # Errors
    /// [`StartError`] if the configuration is invalid; the daemon keeps the current one.
    pub fn ask(&self) -> Result<(), StartError> {
        let office = Office::open(self.home.clone(), &self.effects)?;
        every_record_opens(&office, &self.effects)?;
        Mailroom::open(&office.home, &office.config)?;
        let group = office.config.broker.socket_group.as_deref().map(group_number).transpose();
        let group = group.map_err(|fault| ConfigError::Inconsistent { path: office.home.config(), fault })?;
        self.may_give_to(group)?;
        let [inbox, callback] = addresses(&office.config);
        if let (Some(address), true) = (callback.filter(|address| address.port() != 0), inbox == callback) {
            return Err(StartError::Callback { address, source: ErrorKind::AddrInUse.into() });
        }
        let new = |address: &SocketAddr| !self.addresses.contains(&Some(*address));
        if let Some(address) = inbox.filter(new) {
            http::bind(address, &self.effects.runtime).map_err(|source| StartError::Inbox { address, source })?;
        }
        if let Some(address) = callback.filter(new) {
            http::bind(address, &self.effects.runtime).map_err(|source| StartError::Callback { address, source })?;
        }
        self.wanted.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes a file that is given to this group, as the control socket will be.
    fn may_give_to(&self, group: Option<u32>) -> Result<(), StartError> {
        let path = self.home.path().join("reload.tmp");
        let failed = |source| StartError::Socket { path: self.home.socket(), source };
        std::fs::write(&path, "").map_err(failed)?;
        let given = std::os::unix::fs::chown(&path, None, group);
        std::fs::remove_file(&path).map_err(failed)?;
        given.map_err(failed)
    }

    /// Notes a stop, which beats a reload.
    pub fn has_stopped(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Returns whether the daemon restarts once it has stopped.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) && !self.stopped.load(Ordering::Acquire)
    }

    /// Cancels the restart.
    pub fn give_up(&self) {
        self.wanted.store(false, Ordering::Release);
    }
}

/// Executes this program again with the same arguments in this process. Returns only if that fails.
#[expect(clippy::disallowed_methods, reason = "this makes no child")]
pub fn restart() -> std::io::Error {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    // Also if the program's file was replaced meanwhile.
    std::process::Command::new("/proc/self/exe").arg0(name).args(arguments).exec()
}

/// The addresses on which a daemon of this configuration listens.
fn addresses(config: &Config) -> [Option<SocketAddr>; 2] {
    [config.web.as_ref().map(|web| web.listen.address()), config.identity.callback.map(Loopback::address)]
}
