//! Puts the parts together: configuration, keys, catalogue, ledger, threads.

mod dispatcher;
mod inbox;
mod monitoring;
pub mod reload;
pub mod standby;

use crate::assembly::catalogue::create_directories;
use crate::assembly::checkpoint_keys::checkpoint_keys;
use crate::assembly::filters::scrubber;
use crate::assembly::fleet::FleetDatabase;
use crate::assembly::ruleset::RulesetBuilder;
use crate::assembly::secrets::load_secrets;
use crate::assembly::vault::{checked_vault, open_vault};
use crate::control;
use crate::daemon::{Changes, Daemon, EventSender, Halted};
use crate::fleet_policy::{self, PolicyFollower};
use crate::http::web::sign_in::Address;
use crate::http::{self, Server};
use crate::mailboxes::{Mailboxes, MailboxesError};
use crate::outbox::{Outbox, sweep};
use crate::receivers::AnswerReceiver;
use crate::request_watcher::{ParseWorker, RequestWatcher};
use crate::sinks::{RunningSinks, Sink, Sinks};
use config::profiles::Written;
use config::provider::Kinds;
use config::published::PublishedPolicy;
use config::socket::group_number;
use config::warnings::warnings;
use config::{Config, ConfigError};
use config::{permissions, profiles, rules};
use engine::broker::Broker;
use engine::event::Event;
use engine::notices::sender::NoticeSender;
use engine::request::ParseContext;
use engine::ruleset::Ruleset;
use inbox::Inbox;
use kernel::Ledger;
use model::errors::chain;
use model::{Clock, HostName, LedgerKey, NoRandomness, Random};
use monitoring::Monitoring;
use platform::Platform;
use platform::home::Home;
use provider::kind::RuntimeDeps;
use reload::{OperatorFiles, Reload};
use rustix::process::{Resource, Rlimit};
use secrets::identity::issuers::Issuers;
use secrets::keys;
use secrets::keys::KeyError;
use secrets::vault::{Vault, key_names};
use shared::snapshot::{HostInfo, PROTOCOL};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use store::StoreError;
use store::ledger::health::Health;
use store::state::linking::ciphertexts;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The content of a home, loaded and checked: every command that does more than read rows needs it.
pub struct LoadedHome {
    /// Where things lie.
    pub home: Home,
    /// The configuration.
    pub config: Arc<Config>,
    /// The ruleset for every call.
    pub ruleset: Ruleset,
    /// The builder of the ruleset.
    pub ruleset_builder: Arc<RulesetBuilder>,
    /// The sender of notices.
    pub notice_sender: Arc<NoticeSender>,
    /// The places that receive the rows of the evidence.
    pub sinks: Vec<Arc<Sink>>,
    /// The key of digests.
    pub key: Arc<LedgerKey>,
    /// The vault of persons' credentials.
    pub vault: Arc<Vault>,
    /// The database that gets the records of this host, if the configuration names one.
    pub fleet: Option<FleetDatabase>,
    /// The issuers that may name the person for whom a group asks.
    pub issuers: Arc<Issuers>,
    /// Notes for a person: a key or the ledger is made new although others exist.
    pub notes: Vec<String>,
    /// How its daemon reads the configuration again; `None` if it does not.
    pub reload: Option<Reload>,
}

/// The use of a home that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A daemon writes what is missing.
    Serve,
    /// A command uses what is there.
    Command,
    /// A check also makes no master key.
    Check,
}

/// A running daemon.
pub struct Host {
    reports: EventSender,
    stop: Arc<AtomicBool>,
    broker: JoinHandle<(Ledger, Option<Halted>)>,
    sweeper: JoinHandle<()>,
    socket: PathBuf,
    inbox: Option<(Server, Address)>,
    callback: Option<(Server, SocketAddr)>,
    metrics: Option<(Server, SocketAddr)>,
    sinks: RunningSinks,
    /// The tasks that execute the commands of other hosts, and receive their policy.
    fleet_tasks: Vec<AbortHandle>,
    runtime: Handle,
}

/// The loop has ended early, so the daemon has stopped. A new start recovers like one after a crash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopFailed {
    /// It has panicked.
    #[error("the broker's own code failed, and the daemon has stopped; for the reason: host-broker logs")]
    Panicked,
    /// It could not go on.
    #[error("the daemon has stopped: {0}")]
    Halted(Halted),
}

/// The host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] StoreError),
    /// The database of the records.
    #[error("[store] of broker.toml cannot be used: {0}")]
    Store(String),
    /// The policy that another host publishes. A later publication may be usable.
    #[error("the policy of the host {from} cannot be used: {fault}")]
    Policy {
        /// The host.
        from: HostName,
        /// The fault and its repair.
        fault: String,
    },
    /// A group's directory.
    #[error(transparent)]
    Mailboxes(#[from] MailboxesError),
    /// A key of the broker.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The vault.
    #[error("the vault cannot be opened: {0}")]
    Vault(String),
    /// The control socket.
    #[error("the control socket {path} cannot be made")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// The inbox's address.
    #[error(
        "the inbox cannot listen on {address}; name another port in [web] of broker.toml, or 0 for any, and start again"
    )]
    Inbox {
        /// The address.
        address: SocketAddr,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// The address to which browsers are brought back.
    #[error("browsers cannot be brought back to {address}; name another port in [identity] callback of broker.toml")]
    Callback {
        /// The address.
        address: SocketAddr,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// The address of the metrics.
    #[error("metrics cannot be served on {address}; name another port in [metrics] of broker.toml, or 0 for any")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// The metrics.
    #[error("the metrics cannot be made")]
    Meter(#[from] prometheus::Error),
    /// The ledger could not be written.
    #[error("the ledger cannot be written, so nothing is served: {0}")]
    FirstRow(String),
    /// A thread.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
    /// The filter.
    #[error("the filter cannot be built: {0}")]
    Filter(String),
    /// Randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

impl LoadedHome {
    /// Loads a home.
    ///
    /// # Errors
    /// [`StartError`], with the fault and its repair.
    pub fn open(home: Home, platform: &Platform, kinds: Kinds) -> Result<Self, StartError> {
        Self::load(home, platform, kinds, Purpose::Command, None)
    }

    /// Writes the profiles and rules that a home does not have yet, and loads it. A daemon that wrote them after it has
    /// read the home would count as behind its files. `files` are those that a reload has checked; `None` reads them.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_serve(
        home: Home,
        platform: &Platform,
        kinds: Kinds,
        files: Option<Arc<OperatorFiles>>,
    ) -> Result<Self, StartError> {
        Self::load(home, platform, kinds, Purpose::Serve, files)
    }

    /// Loads a home to find out whether it can be opened. Makes no master key.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn check(home: Home, platform: &Platform, kinds: Kinds) -> Result<Self, StartError> {
        Self::load(home, platform, kinds, Purpose::Check, None)
    }

    fn load(
        home: Home,
        platform: &Platform,
        kinds: Kinds,
        purpose: Purpose,
        files: Option<Arc<OperatorFiles>>,
    ) -> Result<Self, StartError> {
        permissions::check(&home)?;
        let text = files.as_ref().map_or_else(|| Config::text(&home.config()), |files| Ok(files.config.clone()))?;
        let config = Arc::new(Config::parse(&text, &home.config(), &platform.environment, kinds)?);
        let is_written = purpose == Purpose::Serve && write_missing(&home, &config)?;
        let written = match files {
            // A published policy is that of the home, or is received again.
            Some(files) if !is_written && config.policy_from().is_none() => Ok(files.written.clone()),
            Some(_) | None => Written::read(&home, &config),
        };
        let written = match (written, config.policy_from()) {
            (Err(fault), Some(from)) => {
                tracing::warn!(%fault, "the published policy cannot be read");
                Written::of(&PublishedPolicy::unknown(from), &config)?
            }
            (written, _) => written?,
        };
        let is_unknown = written.is_unknown();
        let files = Arc::new(OperatorFiles { config: text, written });
        permissions::check_named(&home, &config)?;
        let notes = keys::continuity(&home, config.vault.key.is_none(), config.store.is_some())?;
        let secrets = load_secrets(&config, platform);
        let fleet = FleetDatabase::new(&config, &secrets)?;
        fleet.as_ref().map_or(Ok(()), |fleet| fleet.check_key(&home))?;
        let key = Arc::new(keys::ledger(&home, platform.ids.as_ref())?);
        let own = Arc::new(keys::identity(&home, platform.ids.as_ref())?);
        let issuers =
            Arc::new(Issuers::new(&own, config.identity.audience.as_deref(), &config.identity.issuers, &secrets));
        let scrubber = scrubber(&secrets, &key, config.formats(&home.config())?)?;
        let vault = match purpose {
            Purpose::Serve | Purpose::Command => open_vault(&config, &home, platform)?,
            Purpose::Check => checked_vault(&config, &home, platform)?,
        };
        let notice_sender = Arc::new(NoticeSender::new(&config, &secrets, platform));
        let sinks = Sink::all(&config, &secrets, platform);
        let running = RuntimeDeps { scrubber, own, vault: Arc::clone(&vault), renewing: Arc::default() };
        let ruleset_builder = Arc::new(RulesetBuilder::new((&home, &config), &files, platform, secrets, running, &key));
        let built = ruleset_builder.build();
        let ruleset = match config.policy_from().zip(fleet.as_ref()).filter(|_| is_unknown || built.is_err()) {
            None => built?,
            // A command of a person decides no call.
            Some((from, _)) if purpose == Purpose::Command => {
                ruleset_builder.with_policy(None, &PublishedPolicy::unknown(from))?
            }
            Some((from, fleet)) => {
                let policy = fleet_policy::receive((&home, &config), from, fleet, platform.ids.as_ref())?;
                let built = match purpose {
                    Purpose::Serve => ruleset_builder.keeping_policy(None, &policy),
                    Purpose::Command | Purpose::Check => ruleset_builder.with_policy(None, &policy),
                };
                built.map_err(|fault| StartError::Policy { from: from.clone(), fault: chain(&fault) })?
            }
        };
        let reload = None;
        Ok(Self {
            home,
            config,
            ruleset,
            ruleset_builder,
            notice_sender,
            sinks,
            key,
            vault,
            fleet,
            issuers,
            notes,
            reload,
        })
    }

    /// The one writer of this home, and of its host's rows in the database of a fleet.
    ///
    /// # Errors
    /// [`StoreError`], also if a daemon is running.
    pub fn ledger(&self, clock: Arc<dyn Clock>) -> Result<Ledger, StoreError> {
        let (home, version) = (self.home.path(), self.ruleset.version.clone());
        let mut ledger = match &self.fleet {
            Some(fleet) => fleet.open(home, clock, version, &self.key),
            None => Ledger::open(home, clock, version),
        }?;
        ledger.follow(self.ruleset.policy.publication.clone());
        ledger.set_hourly_budget(self.config.broker.evidence_mib_per_hour.saturating_mul(1024 * 1024));
        Ok(ledger)
    }

    /// A broker on this configuration.
    pub fn broker(&self, ids: &Arc<dyn Random>) -> Broker {
        let Ruleset { catalogue, policy, filters, version: _ } = self.ruleset.clone();
        Broker::new(Arc::clone(&self.config), catalogue, policy, Arc::clone(ids))
            .with_filters(filters)
            .with_vault(Arc::clone(&self.vault))
            .with_policy_signer(Arc::new(fleet_policy::Signature(self.home.clone())))
    }
}

/// Writes the profiles and rules that a home does not have. Returns whether it wrote any.
fn write_missing(home: &Home, config: &Config) -> Result<bool, ConfigError> {
    if config.policy_from().is_some() {
        return Ok(false);
    }
    let has_profiles = profiles::create_missing(home, config)?;
    if has_profiles && !config.groups.is_empty() {
        let path = home.profiles();
        tracing::warn!(path = %path.display(), "every write of every group takes a person now; relax it there");
    }
    let has_rules = rules::create_missing(home)?;
    if has_rules {
        tracing::info!(path = %home.policy().display(), "the rules that ship with the broker are written down");
    }
    Ok(has_profiles || has_rules)
}

/// The open files of a group: three directories, a listener, eight connections.
const FILES_OF_GROUP: u64 = 12;
/// The open files of everything else: the ledger, children, HTTP.
const OTHER_FILES: u64 = 256;
/// The reason why the first row is not written, if the loop has panicked.
const FAILED: &str = "the daemon's own code failed; for the reason: host-broker logs";
/// The interval of the removal of unread replies.
const SWEEP: Duration = Duration::from_secs(60);

impl Host {
    /// Starts the daemon of a home. When this returns, it takes requests.
    ///
    /// # Errors
    /// [`StartError`]; nothing is running then.
    pub fn start(loaded: &LoadedHome, platform: &Platform) -> Result<Self, StartError> {
        let runtime = &platform.runtime;
        let ledger = loaded.ledger(Arc::clone(&platform.clock))?;
        let (signing, kept) = checkpoint_keys(&loaded.home, &ledger, platform.ids.as_ref())?;
        has_present_keys(loaded, platform)?;
        every_record_opens(loaded)?;
        raise_open_files(loaded.config.groups.len());
        create_directories(&loaded.config, &loaded.home)
            .unwrap_or_else(|error| tracing::warn!(%error, "a workspace cannot be made"));
        let mailboxes = Mailboxes::open(&loaded.home, &loaded.config)?;
        log_warnings(loaded);
        let (sender, news) = channel();
        let reports = EventSender::new(sender, Arc::clone(mailboxes.waker()));
        let info = host_info(platform);
        let host_info = serde_json::to_vec(&info).unwrap_or_default();
        let outbox = Outbox::new(mailboxes.clone(), Arc::clone(&loaded.vault));
        outbox.host_info(None, &host_info);
        mailboxes.open_sockets(&info);
        let (changes, (health, seen)) = (Changes::default(), watch::channel(Health::default()));
        let (synced, durable) = watch::channel(ledger.synced_rows());
        let (catalogue, listed) = watch::channel(Arc::clone(&loaded.ruleset.catalogue));
        let served = Inbox::open(loaded, platform)?;
        let callback = callback_address(loaded, platform)?;
        let monitoring = Monitoring::open(loaded, platform)?;
        let (worker, parse) = ParseWorker::new(reports.clone());
        let mut daemon = Daemon {
            ledger,
            broker: loaded.broker(&platform.ids).with_checkpoint_keys(signing),
            intake: RequestWatcher::new(
                mailboxes.clone(),
                parse_context(loaded, platform),
                Arc::clone(&platform.clock),
                worker,
            ),
            news,
            reports: reports.clone(),
            outbox,
            host_info,
            ruleset: loaded.ruleset.clone(),
            ruleset_builder: Arc::clone(&loaded.ruleset_builder),
            catalogue,
            clock: Arc::clone(&platform.clock),
            notice_sender: Arc::clone(&loaded.notice_sender),
            receiver: None,
            runtime: runtime.clone(),
            changes: changes.clone(),
            health,
            synced,
            kept,
            meter: monitoring.meter(loaded)?,
            reload: loaded.reload.clone(),
        };
        loaded.ruleset_builder.watch(&loaded.ruleset, &reports);
        let socket = loaded.home.socket();
        let group = loaded.config.broker.socket_group.as_deref().map(group_number).transpose();
        let group = group.map_err(|fault| ConfigError::Inconsistent { path: loaded.home.config(), fault })?;
        // It gets its name when the daemon serves, so a start that fails takes no other one away.
        let unnamed = socket.with_extension("new");
        let listener = bind(&unnamed, group, runtime)?;
        let mut dispatcher = loaded.running_dispatcher(platform, (listed, seen, &mailboxes))?;
        let follower = PolicyFollower::new(loaded, platform.ids.as_ref())?;
        dispatcher.policy = follower.as_ref().map(PolicyFollower::used);
        dispatcher.metrics = monitoring.url();
        let sinks = Sinks::new((&loaded.home, &platform.clock), &loaded.sinks, &durable);
        dispatcher.sinks = sinks.states.clone();
        let exported = monitoring.exported(&dispatcher, &mailboxes, (loaded, platform, info.started_at));
        dispatcher.callback = callback.as_ref().map(|(_, address)| http::callback::url(*address));
        dispatcher.inbox = served.as_ref().map(|inbox| Arc::clone(&inbox.sign_in));
        daemon.receiver = Some(AnswerReceiver {
            notice_sender: Arc::clone(&loaded.notice_sender),
            dispatcher: dispatcher.clone(),
            reports: reports.clone(),
        });
        let (ready, started) = channel();
        // It ends with the daemon.
        thread("parser", parse)?;
        let broker = thread("broker", move || daemon.run(&ready))?;
        match started.recv() {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(StartError::FirstRow(why)),
            Err(_gone) => return Err(StartError::FirstRow(FAILED.to_owned())),
        }
        let ended = |error| {
            reports.happened(Event::Stopping);
            error
        };
        std::fs::rename(&unnamed, &socket)
            .map_err(|source| ended(StartError::Socket { path: socket.clone(), source }))?;
        runtime.spawn(control::listen(listener, dispatcher.clone(), reports.clone()));
        let others = dispatcher.other_hosts.as_ref();
        let fleet_commands = others.map(|others| others.start(runtime, dispatcher.clone(), reports.clone()));
        let follower = follower.map(|follower| follower.start(runtime, reports.clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, clock) = (Arc::clone(&stop), Arc::clone(&platform.clock));
        let sweeper = thread("sweeper", move || keep_sweeping(&mailboxes, clock.as_ref(), &stopped)).map_err(ended)?;
        let inbox = served.map(|inbox| inbox.serve(loaded, platform, dispatcher, reports.clone(), changes));
        let callback = callback.map(|bound| http::callback::serve(bound, &loaded.home, platform, reports.clone()));
        let metrics = exported.map(|exported| exported.serve(runtime));
        let (sinks, runtime) = (sinks.start(runtime), runtime.clone());
        let fleet_tasks = fleet_commands.into_iter().chain(follower).collect();
        Ok(Self { reports, stop, broker, sweeper, socket, inbox, callback, metrics, sinks, fleet_tasks, runtime })
    }

    /// Where the inbox is, if it is served.
    pub fn inbox(&self) -> Option<String> {
        self.inbox.as_ref().map(|(_, address)| address.url())
    }

    /// Where browsers are brought back to, if they are.
    pub fn callback(&self) -> Option<String> {
        self.callback.as_ref().map(|(_, address)| http::callback::url(*address))
    }

    /// Where the metrics are, if they are served.
    pub fn metrics(&self) -> Option<String> {
        self.metrics.as_ref().map(|(_, address)| http::metrics::url(*address))
    }

    /// Stops: no new requests, the last row, everything that is durable delivered.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn stop(self) -> Result<(), LoopFailed> {
        self.reports.happened(Event::Stopping);
        self.join()
    }

    /// Waits until the daemon has stopped, for any reason.
    ///
    /// # Errors
    /// [`LoopFailed`]; the daemon has stopped, too.
    pub fn join(self) -> Result<(), LoopFailed> {
        let ended = self.broker.join();
        self.fleet_tasks.iter().for_each(AbortHandle::abort);
        self.stop.store(true, Ordering::Release);
        self.sweeper.thread().unpark();
        self.sweeper.join().ok();
        if let Some((server, _)) = self.inbox {
            server.stop();
        }
        if let Some((server, _)) = self.callback {
            server.stop();
        }
        if let Some((server, _)) = self.metrics {
            server.stop();
        }
        // ORDER: the sinks end before the lock, which the ledger has: they write their positions until then. The socket goes
        // last, because it says that the daemon has ended.
        self.sinks.end(&self.runtime);
        let ended = match ended {
            Ok((_ledger, None)) => Ok(()),
            Ok((_ledger, Some(halted))) => Err(LoopFailed::Halted(halted)),
            Err(_panic) => Err(LoopFailed::Panicked),
        };
        std::fs::remove_file(&self.socket).ok();
        ended
    }

    /// Where news goes; for a signal that asks the daemon to stop.
    pub fn reports(&self) -> EventSender {
        self.reports.clone()
    }
}

/// Logs the state of the home that an operator should look at.
fn log_warnings(loaded: &LoadedHome) {
    for note in &loaded.notes {
        tracing::error!(note, "something of this home is missing");
    }
    for (group, provider, why) in loaded.ruleset.policy.profiles.waivers() {
        tracing::warn!(%group, %provider, why, "its calls there may join all three without an approval");
    }
    // A file that has become invalid since it was read is no fault of this start.
    for warning in warnings(&loaded.home, &loaded.config).unwrap_or_default() {
        tracing::warn!(warning, "check that this is the right home");
    }
}

/// The document that says that a host is there.
fn host_info(platform: &Platform) -> HostInfo {
    HostInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL.to_owned(),
        started_at: platform.clock.now(),
    }
}

/// The parts of a home with which requests are parsed.
fn parse_context(loaded: &LoadedHome, platform: &Platform) -> ParseContext {
    ParseContext {
        catalogue: Arc::clone(&loaded.ruleset.catalogue),
        key: Arc::clone(&loaded.key),
        issuers: Arc::clone(&loaded.issuers),
        ids: Arc::clone(&platform.ids),
        timeout: loaded.config.timeout(),
        unknown_requests: loaded.config.broker.unknown_requests,
        filters: Some(Arc::clone(&loaded.ruleset.filters)),
    }
}

/// Raises the limit of open files where the groups need more. Each has three directories, a listener and connections.
fn raise_open_files(groups: usize) {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let needed = u64::try_from(groups).unwrap_or(u64::MAX).saturating_mul(FILES_OF_GROUP).saturating_add(OTHER_FILES);
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let raised = Rlimit { current: Some(current), maximum: limit.maximum };
        let set = rustix::process::setrlimit(Resource::Nofile, raised);
        if current < needed || set.is_err() {
            tracing::warn!(
                needed,
                limit = current,
                "too few open files for all groups; raise LimitNOFILE or ulimit -n"
            );
        }
    }
}

/// Where browsers are brought back to: taken before anything runs, like the inbox's.
fn callback_address(loaded: &LoadedHome, platform: &Platform) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    let Some(listen) = loaded.config.identity.callback else { return Ok(None) };
    let address = listen.address();
    let failed = |source| StartError::Callback { address, source };
    let listener = http::bind(address, &platform.runtime).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok(Some((listener, bound)))
}

fn thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(StartError::Thread)
}

/// Beside the loop, which it would hold up where many replies lie.
fn keep_sweeping(mailboxes: &Mailboxes, clock: &dyn Clock, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        std::thread::park_timeout(SWEEP);
        sweep(mailboxes, clock.now());
    }
}

/// Keys are renewed under the lock, which is ours only now.
fn has_present_keys(loaded: &LoadedHome, platform: &Platform) -> Result<(), StartError> {
    let LoadedHome { vault, home, config, .. } = loaded;
    if config.vault.key.is_none() && open_vault(config, home, platform)?.names() != vault.names() {
        return Err(StartError::Vault("its master key was renewed in the meantime; start the daemon again".to_owned()));
    }
    Ok(())
}

/// Checks that the vault has the key of every record.
///
/// Otherwise the fault would show in the middle of a call. A new key in the place of a lost one would be used from now
/// on.
fn every_record_opens(loaded: &LoadedHome) -> Result<(), StartError> {
    let LoadedHome { vault, home, .. } = loaded;
    let used = key_names(&ciphertexts(&store::reader(home.path())?)?);
    if used.is_subset(&vault.names()) {
        return Ok(());
    }
    let keys = home.keys();
    Err(StartError::Vault(format!(
        "there are records under a master key that is not there; put that key into [vault] of broker.toml, or \
         restore {} from a backup. If the key is lost, delete the records: host-broker vault renew --forget",
        keys.join("vault.key").display()
    )))
}

/// The lock of the home is held, so a socket that is there was left behind.
fn bind(path: &Path, group: Option<u32>, runtime: &Handle) -> Result<UnixListener, StartError> {
    let failed = |source| StartError::Socket { path: path.into(), source };
    std::fs::remove_file(path)
        .or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(failed(error)) })?;
    let _guard = runtime.enter();
    let listener = UnixListener::bind(path).map_err(failed)?;
    // The group is set before the mode, so until then only the owner can connect.
    std::os::unix::fs::chown(path, None, group).map_err(failed)?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}
