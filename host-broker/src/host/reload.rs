//! Reloading the configuration.
//!
//! The daemon first opens everything that a start reads. If that succeeds, it stops in good order and executes its own
//! program: the process id, the standard streams and the supervisor stay the same. A reload therefore has no state of
//! its own, and no effect of the old program outlives it.
//!
//! The new program gets the text of `broker.toml` that was checked, because the file may change in between. It does not
//! end if it cannot start: it tries again until the files are valid.

use super::{LoadedHome, StartError, every_record_opens, group_number};
use crate::http;
use crate::mailboxes::Mailboxes;
use config::provider::Kinds;
use config::web::Loopback;
use config::{Config, ConfigError};
use nix::sys::signal::{SigSet, Signal};
use platform::home::Home;
use platform::{Environment, Platform};
use rustix::process::{Pid, WaitOptions, waitpid};
use shared::digest::Digest;
use std::ffi::CString;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A running daemon's way to read its configuration again.
#[derive(Clone)]
pub struct Reload {
    home: Home,
    platform: Platform,
    kinds: Kinds,
    addresses: [Option<SocketAddr>; 2],
    // The text of `broker.toml` that was checked, once a reload is wanted.
    wanted: Arc<Mutex<Option<Arc<str>>>>,
    stopped: Arc<AtomicBool>,
}

impl Reload {
    /// For the daemon that runs on this configuration.
    pub fn new(home: Home, platform: &Platform, kinds: Kinds, running: &Config) -> Self {
        let addresses = addresses(running);
        Self { home, platform: platform.clone(), kinds, addresses, wanted: Arc::default(), stopped: Arc::default() }
    }

    /// Opens everything that a start reads, and notes that the daemon restarts once it has stopped. This blocks.
    ///
    /// # Errors
    /// [`StartError`] if the configuration is invalid; the daemon keeps the current one.
    pub fn ask(&self) -> Result<(), StartError> {
        let text = self.check()?;
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        Ok(())
    }

    /// Returns the text of `broker.toml` that was checked.
    fn check(&self) -> Result<Arc<str>, StartError> {
        // Makes no master key: another process could use it, so a check that fails could not remove it.
        let loaded = LoadedHome::check(self.home.clone(), &self.platform, self.kinds)?;
        every_record_opens(&loaded)?;
        Mailboxes::check_keys(&loaded.home, &loaded.config)?;
        let group = loaded.config.broker.socket_group.as_deref().map(group_number).transpose();
        let group = group.map_err(|fault| ConfigError::Inconsistent { path: loaded.home.config(), fault })?;
        self.may_give_to(group)?;
        let [inbox, callback] = addresses(&loaded.config);
        if let (Some(address), true) = (callback.filter(|address| address.port() != 0), inbox == callback) {
            return Err(StartError::Callback { address, source: ErrorKind::AddrInUse.into() });
        }
        let new = |address: &SocketAddr| !self.addresses.contains(&Some(*address));
        if let Some(address) = inbox.filter(new) {
            http::bind(address, &self.platform.runtime).map_err(|source| StartError::Inbox { address, source })?;
        }
        if let Some(address) = callback.filter(new) {
            http::bind(address, &self.platform.runtime).map_err(|source| StartError::Callback { address, source })?;
        }
        // Last, because it makes directories.
        Mailboxes::open(&loaded.home, &loaded.config)?;
        Ok(loaded.text)
    }

    /// Makes a file that is given to this group, as the control socket will be.
    fn may_give_to(&self, group: Option<u32>) -> Result<(), StartError> {
        let path = handover(&self.home);
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

    /// Returns how the daemon starts again once it has stopped; `None` if it ends.
    pub fn next_start(&self) -> Option<Start> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (!self.stopped.load(Ordering::Acquire)).then_some(Start::Reload(Some(wanted)))
    }
}

/// How a daemon starts.
pub enum Start {
    /// By a command. A fault ends it.
    First,
    /// By a reload, with the text of `broker.toml` that was checked; `None` reads the file. It tries again after a fault.
    Reload(Option<Arc<str>>),
}

impl Start {
    /// Returns how this program was started. It takes the text that the program before it has left.
    pub fn of_this_program(home: &Home, environment: &Environment) -> Self {
        let Some(digest) = environment.get(RELOADED).and_then(|value| value.strip_prefix(&own_prefix())) else {
            return Self::First;
        };
        let path = handover(home);
        let text = std::fs::read_to_string(&path).ok();
        std::fs::remove_file(&path).ok();
        // The file may be of an earlier reload.
        Self::Reload(text.filter(|text| Digest::of(text.as_bytes()).hex() == digest).map(Arc::from))
    }

    /// Executes this program again with the same arguments in this process, for this start. Returns only if that fails.
    ///
    /// ORDER: SIGHUP is blocked before, and [`begun`] admits it after its handler is registered. The mask survives the
    /// execution, so a signal in between waits. `std` would clear the mask.
    pub fn in_new_program(&self, home: &Home) -> std::io::Error {
        let Self::Reload(Some(text)) = self else { return ErrorKind::InvalidInput.into() };
        // Without the text, the new program reads the file.
        if let Err(error) = leave(&handover(home), text) {
            tracing::warn!(%error, "the checked text of broker.toml cannot be kept; the new program reads the file");
        }
        let reloaded = format!("{RELOADED}={}{}", own_prefix(), Digest::of(text.as_bytes()).hex());
        let fault = |errno: nix::Error| std::io::Error::from(errno);
        if let Err(errno) = hangup().thread_block() {
            return fault(errno);
        }
        let arguments: Result<Vec<CString>, _> =
            std::env::args_os().map(|argument| CString::new(argument.into_encoded_bytes())).collect();
        let others = std::env::vars_os().filter(|(name, _)| name != RELOADED);
        let variables = others.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let variables: Result<Vec<CString>, _> = variables.chain([reloaded.into_bytes()]).map(CString::new).collect();
        let executed = match (arguments, variables) {
            // It also works if the program's file was replaced since.
            (Ok(arguments), Ok(variables)) => {
                nix::unistd::execve(c"/proc/self/exe", &arguments, &variables).err().map(fault)
            }
            (Err(_zero), _) | (_, Err(_zero)) => None,
        };
        hangup().thread_unblock().ok();
        executed.unwrap_or_else(|| ErrorKind::InvalidInput.into())
    }
}

/// The variable that names the process whose program was executed by a reload, and the digest of the checked text.
/// A child of the daemon has another process id, so it does not apply there.
const RELOADED: &str = "EXT_BROKER_RELOADED";

fn own_prefix() -> String {
    format!("{}:", std::process::id())
}

/// The file with which a program hands the checked text to the next.
fn handover(home: &Home) -> PathBuf {
    home.path().join("reload.tmp")
}

/// Writes a private file.
fn leave(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::remove_file(path)
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Completes a start once its handler of SIGHUP is registered.
///
/// It admits the signal, and restores the process name that the execution of `/proc/self/exe` replaced.
pub fn begun() {
    hangup().thread_unblock().ok();
    rustix::thread::set_name(c"host-broker").ok();
}

fn hangup() -> SigSet {
    SigSet::from(Signal::SIGHUP)
}

/// Reaps the children of the program before a reload, which no other part of this one waits for. It ends with the last.
pub fn reap_inherited() {
    let inherited = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let pid = |text: &str| text.parse().ok().and_then(Pid::from_raw);
    let mut left: Vec<Pid> = inherited.split_whitespace().filter_map(pid).collect();
    if left.is_empty() {
        return;
    }
    let reap = move || {
        while !left.is_empty() {
            left.retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
            std::thread::park_timeout(REAP);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("reaper".to_owned()).spawn(reap) {
        tracing::warn!(%error, "children of the program before the reload stay as zombies");
    }
}

/// How often it is looked whether an inherited child has ended.
const REAP: Duration = Duration::from_millis(500);

/// The addresses on which a daemon of this configuration listens.
fn addresses(config: &Config) -> [Option<SocketAddr>; 2] {
    [config.web.as_ref().map(|web| web.listen.address()), config.identity.callback.map(Loopback::address)]
}
