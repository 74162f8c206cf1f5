//! A home, a host on it, and what the test wants to know about both.

mod process;

use crate::canary::Canary;
use crate::fakes::{CountedRandom, FakeClock, real_now};
use crate::fleet_database::FleetDatabase;
use crate::group::Group;
use crate::sender::Senders;
use crate::{evidence, logs, programs, runs, until};
use config::provider::Kinds;
use config::{Config, profiles};
use engine::request;
use host_broker::control::{self, SocketRequest};
use host_broker::host::{Host, LoadedHome, StartError};
use host_broker::providers::KINDS;
use model::Clock as _;
use platform::commands::SystemCommands;
use platform::home::Home;
use platform::http::SystemHttp;
use platform::{Environment, Platform};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use shared::Timestamp;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::ledger::chain::Row;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The configuration of a world unless a test says otherwise.
pub const CONFIG: &str = r#"
[broker]
call_timeout_ms = 60000

[groups.main]
main = true
[groups.developer]
[groups.security]

[gates.Security]
groups = ["security"]
people = ["operator"]
"#;

/// Actions that expose one property each, and one that declares none.
pub const EXPOSING: &str = r#"
[actions.read_mail]
level = 1
exposes = ["untrusted"]

[actions.read_files]
level = 1
exposes = ["sensitive"]

[actions.post]
level = 2
exposes = ["egress"]
append_to = "post.log"

[actions.search]
level = 1
exposes = ["egress"]
append_to = "search.log"

[actions.unsaid]
level = 1
append_to = "unsaid.log"
"#;

/// One action of every kind that a test may want.
pub const SCRIPT: &str = r#"
[actions.echo]
level = 1
reply = "$params"
exposes = []

[actions.wait]
level = 1
latency_param = "ms"
exposes = []

[actions.broken]
level = 1
fail = "the remote said no"
exposes = []

[actions.strict]
level = 1
exposes = []
input_schema = { type = "object", required = ["repo"], additionalProperties = false, properties = { repo = { type = "string" }, page = { type = "integer" } } }

[actions.agree]
level = 1
human = true
append_to = "agree.log"
exposes = []

[actions.charge]
level = 2
append_to = "charge.log"
latency_param = "ms"
exposes = ["egress"]

[actions.lossy]
level = 2
append_to = "lossy.log"
lose_reply = true
probe = true
exposes = ["egress"]

[actions.vanish]
level = 2
append_to = "vanish.log"
lose_reply = true
exposes = ["egress"]

[actions.deploy]
level = 3
append_to = "deploy.log"
exposes = ["egress"]
"#;

/// The profile of every group for which a test writes none. Most tests are not about who must agree. The rules decide
/// about writes, and production needs its gate only.
pub const PROFILE: &str = "write = \"rules\"\nproduction = \"auto\"\n";

/// The script of a second provider, whose actions read private data.
pub const PRIVATE_SCRIPT: &str = r#"
[actions.read]
level = 1
exposes = ["sensitive"]
reply = "private"
"#;

/// A temporary home with a host on it.
pub struct World {
    // Before the directory that they are in: it is removed after them.
    mounts: Vec<Mount>,
    root: TempDir,
    // The table of its database, if it is a host of a fleet.
    database: Option<String>,
    /// The time of hosts in this process.
    pub clock: Arc<FakeClock>,
    /// Randomness, also for the test's own choices.
    pub ids: Arc<CountedRandom>,
    secrets: Vec<Vec<u8>>,
    kinds: Kinds,
    count: Arc<AtomicU64>,
    senders: Arc<Senders>,
    runtime: Runtime,
    running: Running,
}

enum Running {
    Nothing,
    Here(Box<Host>),
    Process(Child),
}

/// A file system in memory, until it is dropped.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

/// A world that is not made yet.
pub struct Builder {
    config: String,
    scripts: Vec<(String, String)>,
    files: Vec<(String, Vec<u8>)>,
    start: Timestamp,
    kinds: Kinds,
    store: bool,
    url: Option<(String, String)>,
    durability: &'static str,
}

/// Whether worlds are hosts of a fleet: `EXT_TEST_STORE=postgres`.
fn is_of_fleet() -> bool {
    std::env::var_os("EXT_TEST_STORE").is_some_and(|value| value == "postgres")
}

/// The table `[store]` of the host `a`, whose URL is in this directory.
fn store_table((host, url): (&str, &str), durability: &str, directory: &Path) -> String {
    let path = directory.join("store-url");
    std::fs::write(&path, url).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let url = path.display();
    format!("\n[store]\nhost = \"{host}\"\nurl = {{ file = \"{url}\" }}\n{durability}")
}

/// How far back a world's clock begins: requests are real files whose age is measured against it, so a test can let
/// weeks pass without one of them growing old.
const BEGINNING: Duration = Duration::from_secs(60 * 24 * 3600);

impl Builder {
    /// Replaces the configuration. The providers of the scripts are added to it.
    pub fn config(mut self, text: &str) -> Self {
        text.clone_into(&mut self.config);
        self
    }

    /// Sets a provider's script.
    pub fn script(mut self, provider: &str, text: &str) -> Self {
        self.scripts.retain(|(name, _)| name != provider);
        self.scripts.push((provider.to_owned(), text.to_owned()));
        self
    }

    /// Puts a file into the home.
    pub fn file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), bytes.into()));
        self
    }

    /// Sets where the clock begins.
    pub fn clock(mut self, start: Timestamp) -> Self {
        self.start = start;
        self
    }

    /// Sets the kinds of providers.
    pub fn kinds(mut self, kinds: Kinds) -> Self {
        self.kinds = kinds;
        self
    }

    /// Keeps the records in the home also where worlds are hosts of a fleet.
    pub fn alone(mut self) -> Self {
        self.store = false;
        self
    }

    /// Makes it the host `a` of the database at this URL.
    pub fn database(self, url: String) -> Self {
        self.host("a", url)
    }

    /// Makes it a host of the database at this URL.
    pub fn host(mut self, name: &str, url: String) -> Self {
        self.url = Some((name.to_owned(), url));
        self
    }

    /// Demands that the server of the database has a synchronous standby.
    pub fn with_standby(mut self) -> Self {
        self.durability = "";
        self
    }

    /// Makes the home; nothing runs on it yet.
    pub fn down(self) -> World {
        logs::listen();
        let root = tempfile::Builder::new().prefix("broker-world-").tempdir().unwrap();
        let home = root.path().join("home");
        platform::home::make_private_directory(&home).unwrap();
        std::fs::create_dir(root.path().join("logs")).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let mut config = format!("{}\n[people.operator]\nuid = {uid}\napproves = {{}}\n", self.config);
        if !self.config.contains("[limits") {
            // Few tests are about how much a group may do.
            config.push_str("\n[limits.\"*\".\"*\"]\n");
        }
        for (provider, text) in &self.scripts {
            let table = format!("\n[providers.{provider}]\nkind = \"mock\"\nscript = \"{provider}.toml\"\n");
            config.push_str(&table);
            std::fs::write(home.join(format!("{provider}.toml")), text).unwrap();
        }
        for (name, bytes) in &self.files {
            let path = home.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let made = (self.store && is_of_fleet()).then(FleetDatabase::new).flatten();
        let database = self.url.or_else(|| made.map(|made| ("a".to_owned(), made.url("a", made.server.port))));
        let database = database.map(|(host, url)| store_table((&host, &url), self.durability, root.path()));
        config.push_str(database.as_deref().unwrap_or_default());
        let path = home.join("broker.toml");
        let parsed = Config::parse(&config, &path, &Environment::new(), self.kinds).map(|config| config.groups);
        for group in parsed.unwrap_or_default().keys() {
            profiles::write(&Home::at(home.clone()), group, PROFILE).unwrap();
        }
        std::fs::write(&path, config).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        World {
            mounts: Vec::new(),
            root,
            database,
            clock: Arc::new(FakeClock::at(self.start)),
            ids: Arc::new(CountedRandom::of(&name)),
            secrets: Vec::new(),
            kinds: self.kinds,
            count: Arc::new(AtomicU64::new(1)),
            senders: Arc::new(Senders::new()),
            runtime,
            running: Running::Nothing,
        }
    }

    /// Makes the home and starts a host on it, in this process.
    pub fn up(self) -> World {
        let mut world = self.down();
        world.start();
        world
    }

    /// Makes the home and starts the real daemon on it.
    pub fn process(self) -> World {
        let mut world = self.down();
        world.start_process();
        world
    }
}

impl World {
    /// A world to be described.
    pub fn builder() -> Builder {
        Builder {
            config: CONFIG.to_owned(),
            scripts: vec![("demo".to_owned(), SCRIPT.to_owned()), ("private".to_owned(), PRIVATE_SCRIPT.to_owned())],
            files: Vec::new(),
            start: real_now().minus(BEGINNING),
            kinds: KINDS,
            store: true,
            url: None,
            durability: "durability = \"one-machine\"\n",
        }
    }

    /// The usual world, with a host in this process.
    #[expect(clippy::new_without_default, reason = "a host starts, which is no default")]
    pub fn new() -> Self {
        Self::builder().up()
    }

    /// The usual world, in which the developers may read and write.
    pub fn with_grant() -> Self {
        let world = Self::new();
        world.grant("developer", 2);
        world
    }

    /// The home.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Puts the home of a world in which nothing runs on a disk of its own, of so many MiB; the groups' directories lie
    /// on another one. Says why, where that is not possible.
    ///
    /// # Errors
    /// The error of `mount`, if it fails.
    pub fn move_to_a_small_disk(&mut self, mebibytes: u32) -> Result<(), String> {
        let of = |directory: &Path| std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<(PathBuf, Vec<u8>)> = of(&self.home())
            .chain(of(&self.path("policy/profiles")))
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        self.mount(&self.home(), mebibytes)?;
        std::fs::create_dir_all(self.path("policy/profiles")).unwrap();
        for (path, bytes) in files {
            std::fs::write(path, bytes).unwrap();
        }
        let ipc = self.path("ipc");
        std::fs::create_dir(&ipc).unwrap();
        self.mount(&ipc, 64)
    }

    fn mount(&mut self, path: &Path, mebibytes: u32) -> Result<(), String> {
        let options = format!("size={mebibytes}m,mode=0700");
        let mut command = Command::new("mount");
        let output = command.args(["-t", "tmpfs", "-o", &options, "none"]).arg(path).output();
        let output = output.map_err(|error| format!("mount cannot be started: {error}"))?;
        if !output.status.success() {
            return Err(format!("nothing can be mounted here: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        // The inner ones are unmounted first.
        self.mounts.insert(0, Mount(path.to_owned()));
        Ok(())
    }

    /// A name in the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    /// A directory of this world that belongs to nobody: for what must not be touched.
    pub fn outside(&self) -> PathBuf {
        let path = self.root.path().join("outside");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Replaces a file of the home, for the next start.
    pub fn rewrite(&self, name: &str, text: &str) {
        let table = self.database.as_deref().filter(|_| name == "broker.toml" && !text.contains("[store]"));
        std::fs::write(self.path(name), format!("{text}{}", table.unwrap_or_default())).unwrap();
    }

    /// A group's directory.
    pub fn group(&self, name: &str) -> Group {
        let (count, senders) = (Arc::clone(&self.count), Arc::clone(&self.senders));
        Group::new(name, self.home().join("ipc").join(name), count, senders)
    }

    /// Names a text that must be found nowhere when the world ends.
    pub fn keep_secret(&mut self, secret: impl Into<Vec<u8>>) {
        self.secrets.push(secret.into());
    }

    fn platform(&self) -> Platform {
        let clock: Arc<FakeClock> = Arc::clone(&self.clock);
        let ids: Arc<CountedRandom> = Arc::clone(&self.ids);
        Platform {
            clock,
            ids,
            environment: Arc::new(Environment::new()),
            commands: Arc::new(SystemCommands::default()),
            http: Arc::new(SystemHttp::default()),
            runtime: self.runtime.handle().clone(),
        }
    }

    /// Starts a host in this process, or says why it does not start.
    ///
    /// # Errors
    /// The result of the start of the host.
    pub fn try_start(&mut self) -> Result<(), StartError> {
        let platform = self.platform();
        let loaded = LoadedHome::open_to_serve(Home::at(self.home()), &platform, self.kinds, None)?;
        self.running = Running::Here(Box::new(Host::start(&loaded, &platform)?));
        Ok(())
    }

    /// Starts a host in this process.
    pub fn start(&mut self) {
        self.try_start().unwrap();
    }

    /// Stops the host as an operator does.
    pub fn stop(&mut self) {
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Nothing => {}
            Running::Here(host) => {
                let ended = host.stop();
                assert!(std::thread::panicking() || ended.is_ok(), "the loop has panicked");
            }
            Running::Process(mut child) => {
                kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
                until("the daemon's end", || child.try_wait().unwrap());
            }
        }
    }

    /// Ends the daemon's process, in one way or the other, and waits until nothing with one of these arguments runs any more.
    pub fn end_with(&mut self, is_killed: bool, arguments: &[&str]) {
        if is_killed {
            self.kill();
        } else {
            self.stop();
        }
        until("the end of all that it has started", || {
            (!arguments.iter().any(|argument| runs(argument))).then_some(())
        });
    }

    /// Whether the daemon's process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let has_ended = match &mut self.running {
            Running::Process(child) => child.try_wait().unwrap().is_some(),
            Running::Nothing | Running::Here(_) => false,
        };
        if has_ended {
            self.running = Running::Nothing;
        }
        has_ended
    }

    /// Stops the host and starts it on the same files.
    pub fn restart(&mut self) {
        match self.running {
            Running::Process(_) => {
                self.stop();
                self.start_process();
            }
            Running::Nothing | Running::Here(_) => {
                self.stop();
                self.start();
            }
        }
    }

    /// A person's command, through the control socket.
    pub fn control(&self, request: impl Into<SocketRequest>) -> Value {
        control::send(&self.path("broker.sock"), &request.into()).unwrap().expect("a daemon that listens")
    }

    /// The command line on this home, in an environment that has nothing.
    pub fn cli(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(programs::programs().host_broker());
        command.arg("--home").arg(self.home()).args(arguments).env_clear().stdin(Stdio::null()).output().unwrap()
    }

    /// A person's command where no daemon runs.
    pub fn in_place(&self, command: &request::Command) -> Value {
        let platform = self.platform();
        let loaded = LoadedHome::open(Home::at(self.home()), &platform, self.kinds).unwrap();
        let mut ledger = loaded.ledger(Arc::clone(&platform.clock)).unwrap();
        control::administer(&mut ledger, &mut loaded.broker(&platform.ids), &loaded.dispatcher(&platform), command)
            .unwrap()
    }

    /// Why the running daemon cannot write its ledger, by its own word; null if it can.
    pub fn cannot_write(&self) -> Value {
        let hello = self.command(json!({ "type": "hello" }));
        hello.pointer("/data/evidence/cannot_write").cloned().unwrap()
    }

    /// The same, from its document.
    pub fn command(&self, document: Value) -> Value {
        self.control(serde_json::from_value::<SocketRequest>(document).unwrap())
    }

    /// A person gives a group access to the provider `demo`.
    pub fn grant(&self, group: &str, level: u8) {
        self.grant_with(group, level, json!({}));
    }

    /// The same, with more members of the grant.
    pub fn grant_with(&self, group: &str, level: u8, more: Value) {
        let mut document = json!({ "type": "grant", "group_folder": group, "provider": "demo", "access_level": level });
        let Value::Object(more) = more else { panic!("not members: {more}") };
        document.as_object_mut().unwrap().extend(more);
        let reply = self.command(document);
        assert_eq!(reply.get("status").and_then(Value::as_str), Some("executed"), "{reply}");
    }

    /// A person creates a task for a group.
    pub fn task(&self, id: &str, group: &str) {
        let task = json!({ "type": "task_create", "title": "Ship it", "group_folder": group, "task_id": id });
        let reply = self.command(task);
        assert_eq!(reply.get("status").and_then(Value::as_str), Some("executed"), "{reply}");
    }

    /// A person ends a group's access to the provider `demo`.
    pub fn revoke(&self, group: &str) {
        let reply = self.command(json!({ "type": "revoke", "group_folder": group, "provider": "demo" }));
        assert_eq!(reply.get("status").and_then(Value::as_str), Some("executed"), "{reply}");
    }

    /// Every row so far.
    pub fn rows(&self) -> Vec<Row> {
        evidence::rows(&self.home())
    }

    /// The rows of one request.
    pub fn rows_of(&self, group: &Group, id: &str) -> Vec<Row> {
        let caller = format!("group:{}", group.name());
        let of = |row: &Row| row.caller == caller && row.request_id.as_deref() == Some(id);
        self.rows().into_iter().filter(of).collect()
    }

    /// The kinds of the rows of one request, in order.
    pub fn kinds_of(&self, group: &Group, id: &str) -> Vec<String> {
        self.rows_of(group, id).into_iter().map(|row| row.kind).collect()
    }

    /// The rows of a query, as objects.
    pub fn query(&self, sql: &str) -> Vec<Value> {
        evidence::query(&self.home(), sql)
    }

    /// The executions of a scripted action: the request id of each, in order.
    pub fn effects_of(&self, action: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(&format!("{action}.log"))).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Waits until no effect is under way.
    pub fn settle(&self) {
        until("no open intents", || (evidence::open_intents(&self.home()) == 0).then_some(()));
    }

    /// The state that every test must leave behind.
    fn check(&mut self) {
        if !self.path("ledger.db").exists() {
            return;
        }
        if !matches!(self.running, Running::Nothing) {
            self.settle();
        }
        self.stop();
        evidence::verify(&self.home());
        self.search();
    }

    /// No secret is where it does not belong.
    fn search(&self) {
        let mut secrets = self.secrets.clone();
        secrets.extend(std::fs::read(self.path("keys/ledger.key")));
        if secrets.is_empty() {
            return;
        }
        let canary = Canary::of(&secrets);
        let home = self.home();
        // Where secrets are at home: keys, and what the operator wrote.
        let is_theirs = |path: &Path| {
            path.starts_with(home.join("keys"))
                || (path.parent() == Some(&home) && path.extension().is_some_and(|ext| ext == "toml" || ext == "key"))
        };
        canary.search(self.root.path(), &is_theirs);
        if let Some(form) = logs::read(|log| canary.find(log)) {
            panic!("a secret is in the log as {form}");
        }
    }

    /// The time on the world's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Running::Process(child) = &mut self.running {
                child.kill().ok();
                child.wait().ok();
            } else {
                self.stop();
            }
        } else {
            self.check();
        }
    }
}
