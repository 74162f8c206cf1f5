//! Reloading the configuration.
//!
//! The daemon first opens everything that a start reads. If that succeeds, it stops in good order and executes its own
//! program: the process id, the standard streams and the supervisor stay the same. No effect of the old program runs on
//! in the new one.
//!
//! The new program gets `broker.toml` and `policy/` as they were checked, because the files may change in between. If it
//! cannot start for another reason, such as a full disk, it does not end: it [waits](super::standby).

use super::{LoadedHome, StartError, every_record_opens, group_number};
use crate::assembly::checkpoint_keys;
use crate::http;
use crate::mailboxes::Mailboxes;
use config::profiles::Written;
use config::provider::Kinds;
use config::store::StoreTable;
use config::web::Loopback;
use config::{Config, ConfigError};
use nix::sys::signal::{SigSet, Signal};
use platform::home::Home;
use platform::service_manager::ServiceManager;
use platform::{Environment, Platform};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A running daemon's way to read its configuration again.
#[derive(Clone)]
pub struct Reload {
    home: Home,
    platform: Platform,
    kinds: Kinds,
    addresses: [Option<SocketAddr>; 3],
    store: Option<StoreTable>,
    service_manager: ServiceManager,
    // The checked files, once a reload is wanted.
    wanted: Arc<Mutex<Option<Arc<OperatorFiles>>>>,
    stopped: Arc<AtomicBool>,
}

impl Reload {
    /// For the daemon that runs on this configuration.
    pub fn new(home: Home, platform: &Platform, kinds: Kinds, running: &Config) -> Self {
        Self {
            home,
            platform: platform.clone(),
            kinds,
            addresses: addresses(running),
            store: running.store.clone(),
            service_manager: ServiceManager::default(),
            wanted: Arc::default(),
            stopped: Arc::default(),
        }
    }

    /// The same, for a daemon that a service manager has started.
    pub fn with_service_manager(self, service_manager: ServiceManager) -> Self {
        Self { service_manager, ..self }
    }

    /// Opens everything that a start reads, and notes that the daemon restarts once it has stopped. This blocks.
    ///
    /// # Errors
    /// [`StartError`] if the configuration is invalid; the daemon keeps the current one.
    pub fn ask(&self) -> Result<(), StartError> {
        let checked = self.check()?;
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(checked);
        Ok(())
    }

    fn check(&self) -> Result<Arc<OperatorFiles>, StartError> {
        // Makes no master key: another process could use it, so a check that fails could not remove it.
        let loaded = LoadedHome::check(self.home.clone(), &self.platform, self.kinds)?;
        every_record_opens(&loaded)?;
        Mailboxes::check_keys(&loaded.home, &loaded.config)?;
        checkpoint_keys::check(&loaded.home)?;
        self.check_store(&loaded)?;
        let group = loaded.config.broker.socket_group.as_deref().map(group_number).transpose();
        let group = group.map_err(|fault| ConfigError::Inconsistent { path: loaded.home.config(), fault })?;
        self.may_give_to(group)?;
        let [inbox, callback, metrics] = addresses(&loaded.config);
        if let (Some(address), true) = (callback.filter(|address| address.port() != 0), inbox == callback) {
            return Err(StartError::Callback { address, source: ErrorKind::AddrInUse.into() });
        }
        if let (Some(address), true) = (metrics.filter(|own| own.port() != 0), [inbox, callback].contains(&metrics)) {
            return Err(StartError::Metrics { address, source: ErrorKind::AddrInUse.into() });
        }
        let new = |address: &SocketAddr| !self.addresses.contains(&Some(*address));
        if let Some(address) = inbox.filter(new) {
            http::bind(address, &self.platform.runtime).map_err(|source| StartError::Inbox { address, source })?;
        }
        if let Some(address) = callback.filter(new) {
            http::bind(address, &self.platform.runtime).map_err(|source| StartError::Callback { address, source })?;
        }
        if let Some(address) = metrics.filter(new) {
            http::bind(address, &self.platform.runtime).map_err(|source| StartError::Metrics { address, source })?;
        }
        // Last, because it makes directories.
        Mailboxes::open(&loaded.home, &loaded.config)?;
        Ok(loaded.ruleset_builder.files())
    }

    /// Contacts the database of a changed table `[store]`, because a daemon that cannot start with it serves nobody.
    fn check_store(&self, loaded: &LoadedHome) -> Result<(), StartError> {
        match (&self.store, &loaded.fleet) {
            (Some(running), None) => Err(StartError::Store(format!(
                "the table is missing, and a database has the records of this home as those of the host `{}`; put the \
                 table back",
                running.host.as_str()
            ))),
            (_, Some(fleet)) if self.store != loaded.config.store => Ok(fleet.check()?),
            (_, Some(_)) | (None, None) => Ok(()),
        }
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

    /// Tells the service manager that the daemon takes no more requests: it starts again, or it ends.
    pub fn announce_stop(&self) {
        if self.wanted().is_some() {
            self.service_manager.reloading();
        } else {
            self.service_manager.stopping();
        }
    }

    /// Returns the files with which the daemon starts again once it has stopped; `None` if it ends.
    pub fn wanted(&self) -> Option<Arc<OperatorFiles>> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (!self.stopped.load(Ordering::Acquire)).then_some(wanted)
    }
}

/// The texts of the operators' files, as they were when they were checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorFiles {
    /// `broker.toml`.
    pub config: String,
    /// The files in `policy/`.
    pub written: Written,
}

/// How a daemon starts.
pub enum Start {
    /// By a command. A fault ends it.
    First,
    /// By a reload, with the checked files; `None` reads them again. It waits after a fault.
    Reload(Option<Arc<OperatorFiles>>),
}

impl Start {
    /// Returns how this program was started. It reads the files that the program before it has passed.
    pub fn of_this_program(environment: &Environment) -> Self {
        let prefix = own_prefix();
        let Some(descriptor) = environment.get(RELOADED).and_then(|value| value.strip_prefix(&prefix)) else {
            return Self::First;
        };
        let files = descriptor.parse().ok().and_then(|descriptor: RawFd| {
            let bytes = std::fs::read(format!("/proc/self/fd/{descriptor}")).ok();
            nix::unistd::close(descriptor).ok();
            serde_json::from_slice(&bytes?).ok()
        });
        Self::Reload(files.map(Arc::new))
    }
}

/// The variable of a restarted program: its process id, and the descriptor of the checked files. A child of the daemon has
/// another process id, so it does not apply there.
const RELOADED: &str = "EXT_BROKER_RELOADED";

fn own_prefix() -> String {
    format!("{}:", std::process::id())
}

/// Writes the files into memory that the new program can read. It needs no disk, which may be full.
fn in_memory(files: &OperatorFiles) -> std::io::Result<File> {
    // A path that is not UTF-8 has no form in JSON.
    let bytes = serde_json::to_vec(files)?;
    let mut memory = File::from(memfd_create("operator-files", MemfdFlags::empty())?);
    memory.write_all(&bytes)?;
    Ok(memory)
}

/// Executes this program again in this process, with the same arguments and with the checked files. Returns only if that
/// fails, or if a signal has stopped the daemon.
///
/// ORDER: SIGHUP is blocked before, and [`begun`] admits it after its handler is registered. The mask survives the
/// execution, so a signal to this thread waits. `std` would clear the mask.
///
/// # Errors
/// The system error.
pub fn restart(reload: &Reload, files: &OperatorFiles) -> std::io::Result<()> {
    // Without them, the new program reads the files again.
    let memory = in_memory(files);
    if let Err(error) = &memory {
        tracing::warn!(%error, "the new program reads the files again");
    }
    let descriptor = memory.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let reloaded = format!("{RELOADED}={}{descriptor}", own_prefix());
    let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|_zero| std::io::Error::from(ErrorKind::InvalidInput));
    let arguments: Vec<CString> =
        std::env::args_os().map(|argument| text(argument.into_encoded_bytes())).collect::<Result<_, _>>()?;
    let others = std::env::vars_os().filter(|(name, _)| name != RELOADED);
    let variables = others.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let variables: Vec<CString> = variables.chain([reloaded.into_bytes()]).map(text).collect::<Result<_, _>>()?;
    hangup().thread_block()?;
    if reload.stopped.load(Ordering::Acquire) {
        return Ok(());
    }
    // It also works if the program's file was replaced since.
    let Err(errno) = nix::unistd::execve(c"/proc/self/exe", &arguments, &variables);
    hangup().thread_unblock().ok();
    Err(errno.into())
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
fn addresses(config: &Config) -> [Option<SocketAddr>; 3] {
    [
        config.web.as_ref().map(|web| web.listen.address()),
        config.identity.callback.map(Loopback::address),
        config.metrics.as_ref().map(|metrics| metrics.listen.address()),
    ]
}
