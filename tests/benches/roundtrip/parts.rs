//! The processes: what is measured, and what it is compared with.

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde_json::{Value, json};
use shared::mailbox::{Directory, reply_name};
use shared::{Reply, Timestamp};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An MCP client and the process that it talks to.
pub(crate) type Client = RunningService<RoleClient, ()>;

pub(crate) fn call(action: &str) -> Value {
    json!({ "provider": "mock", "action": action, "params": { "a": 1 } })
}

pub(crate) fn request(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { return CallToolRequestParams::new(tool) };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

pub(crate) async fn timed(client: &Client, tool: &'static str, arguments: Value) -> Duration {
    let request = request(tool, arguments);
    let began = Instant::now();
    client.call_tool(request).await.expect("an answer");
    began.elapsed()
}

pub(crate) async fn client(mut command: Command) -> Client {
    command.stderr(Stdio::null());
    ().serve(TokioChildProcess::new(tokio::process::Command::from(command)).unwrap()).await.unwrap()
}

/// The programs under test. They are built in the profile of this benchmark.
pub(crate) struct Programs {
    pub(crate) broker: PathBuf,
    pub(crate) shim: PathBuf,
    pub(crate) echo: PathBuf,
}

impl Programs {
    pub(crate) fn build() -> Self {
        let built = tests::programs::programs();
        let echo = env!("CARGO_BIN_EXE_mcp-echo").into();
        Self { broker: built.host_broker(), shim: built.mcp_shim(), echo }
    }

    pub(crate) fn shim(&self, mailbox: &Path, transport: Transport) -> Command {
        let mut command = Command::new(&self.shim);
        command.arg("--no-action-tools").env("EXT_IPC_DIR", mailbox).env("EXT_TRANSPORT", transport.word());
        command
    }
}

/// The way of the documents between shim and broker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Socket,
    Files,
}

impl Transport {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Files => "files",
        }
    }
}

pub(crate) struct Broker {
    child: Child,
    home: PathBuf,
    program: PathBuf,
}

impl Broker {
    /// With so many groups, each with access to everything but production.
    pub(crate) fn start(programs: &Programs, home: &Path, groups: usize) -> Self {
        Self::prepare_home(home, groups);
        for group in 0..groups {
            Self::grant(programs, home, group);
        }
        Self::serve(programs, home)
    }

    /// Gives a group access to everything but production.
    pub(crate) fn grant(programs: &Programs, home: &Path, group: usize) {
        let mut grant = Command::new(&programs.broker);
        grant.args(["grant", &format!("g{group}"), "mock", "2", "--home"]).arg(home).stdout(Stdio::null());
        assert!(grant.status().unwrap().success());
    }

    /// A home, not yet served.
    pub(crate) fn prepare_home(home: &Path, groups: usize) {
        const SCRIPT: &str = r#"
            [actions.echo]
            level = 1
            reply = "$params"
            exposes = []
            [actions.slow]
            level = 1
            latency_ms = 2000
            exposes = []
            [actions.note]
            level = 2
            reply = "$params"
            exposes = ["egress"]
            [actions.charge]
            level = 3
            exposes = ["egress"]
        "#;
        std::fs::create_dir_all(home).unwrap();
        // The calls of a bench are more than a group may do.
        let mut config = String::from(
            "[broker]\nevidence_mib_per_hour = 1000000\n[limits.\"*\".\"*\"]\n[providers.mock]\nkind = \"mock\"\nscript = \"mock.toml\"\n",
        );
        for group in 0..groups {
            writeln!(config, "[groups.g{group}]").unwrap();
        }
        std::fs::create_dir_all(home.join("policy/profiles")).unwrap();
        for group in 0..groups {
            std::fs::write(home.join(format!("policy/profiles/g{group}.toml")), "write = \"rules\"\n").unwrap();
        }
        std::fs::write(home.join("broker.toml"), config).unwrap();
        std::fs::write(home.join("mock.toml"), SCRIPT).unwrap();
    }

    /// Returns when it says that it is ready.
    pub(crate) fn serve(programs: &Programs, home: &Path) -> Self {
        let log = std::fs::File::create(home.join("log")).unwrap();
        let mut serve = Command::new(&programs.broker);
        serve.args(["serve", "--home"]).arg(home).stdout(Stdio::piped()).stderr(log);
        let mut child = serve.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        Self { child, home: home.to_path_buf(), program: programs.broker.clone() }
    }

    pub(crate) fn mailbox(&self, group: usize) -> PathBuf {
        self.home.join("ipc").join(format!("g{group}"))
    }

    /// User and system time, in ticks of 10 ms.
    pub(crate) fn cpu(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    pub(crate) fn memory_kib(&self) -> u64 {
        memory_kib(self.child.id())
    }

    /// The most memory that it has had.
    pub(crate) fn peak_kib(&self) -> u64 {
        memory(self.child.id(), "VmHWM")
    }

    /// Stops it, and says how often it synced.
    pub(crate) fn stop(&mut self) -> u64 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
        let log = std::fs::read_to_string(self.home.join("log")).unwrap();
        let syncs = log.rsplit("syncs=").next().unwrap().split_whitespace().next().unwrap();
        syncs.parse().expect("the closing line names the syncs")
    }

    /// Lets it verify what it wrote.
    pub(crate) fn verify(self) {
        let mut verify = Command::new(&self.program);
        let output = verify.args(["evidence", "verify", "--home"]).arg(&self.home).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let whole = if output.status.success() { "" } else { "NOT VERIFIED " };
        println!("  evidence: {whole}{}", text.split(", head").next().unwrap());
        std::fs::remove_dir_all(&self.home).ok();
    }
}

/// The memory of a process.
pub(crate) fn memory_kib(process: u32) -> u64 {
    memory(process, "VmRSS")
}

fn memory(process: u32, which: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(which)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The directory protocol with nothing behind it: reads a request, answers, removes it.
pub(crate) struct Bare {
    pub(crate) mailbox: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Bare {
    pub(crate) fn start(path: &Path) -> Self {
        for name in ["tasks", "responses"] {
            std::fs::create_dir_all(path.join(name)).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (tasks, responses) = (path.join("tasks"), Directory::open(&path.join("responses")).unwrap());
        let stopped = Arc::clone(&stop);
        let watch = inotify::init(CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, &tasks, WatchFlags::MOVED_TO).unwrap();
        let directory = Directory::open(&tasks).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [std::mem::MaybeUninit::uninit(); 16384];
            let mut reader = inotify::Reader::new(watch, &mut buffer);
            while !stopped.load(Ordering::Relaxed) {
                let Ok(event) = reader.next() else { break };
                let name = event.file_name().unwrap().to_str().unwrap().to_owned();
                if let Ok(contents) = directory.read(&name, 1 << 20, None) {
                    let document = shared::request::parse(&contents.bytes).unwrap();
                    let id = document.envelope.request_id.unwrap();
                    let reply = Reply::executed(id.clone(), json!({ "a": 1 }), "ok".into(), Timestamp::from_millis(0));
                    responses.write(&reply_name(&id), &serde_json::to_vec(&reply).unwrap(), 0o644).unwrap();
                    directory.remove(&name).unwrap();
                }
            }
        });
        Self { mailbox: path.to_path_buf(), stop }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Beside the build, because `/tmp` may be memory.
    pub(crate) fn new() -> Self {
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
        let path = std::path::absolute(Path::new(&target).join(format!("bench-{}", std::process::id()))).unwrap();
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
