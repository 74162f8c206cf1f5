//! The processes of the demo: the daemon, the shims, and the clients that drive them.

use crate::cli::output::Output;
use anyhow::{Context as _, anyhow, bail};
use config::profiles;
use model::approval;
use model::approval::Approval;
use platform::Platform;
use platform::home::Home;
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Map, Value, json};
use shared::numbers::counted;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use store;
use store::ledger::chain::RowKind;
use store::ledger::export;
use store::ledger::verifier::Verifier;
use store::state::approvals;
use tokio::time::Instant;

const CONFIG: &str = include_str!("broker.toml");
const SCRIPT: &str = include_str!("mock.toml");
/// How long anything here may take before the demo gives up on it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How often the removal of the home is tried, and the time between two tries.
const REMOVALS_MAX: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// A temporary home with a running daemon.
pub(super) struct Stage {
    home: PathBuf,
    broker: PathBuf,
    shim: PathBuf,
    daemon: Option<Child>,
    github: bool,
    keep: bool,
}

/// An agent: an MCP client whose child is the shim.
pub(super) struct Agent(RunningService<RoleClient, ()>);

/// The answer that an agent reads.
pub(super) struct DemoReply {
    /// The text that its model sees.
    pub(super) text: String,
    /// Whether the client sees it as an error.
    pub(super) is_error: bool,
    structured: Value,
}

/// The summary of the evidence.
pub(super) struct Proof {
    pub(super) rows: i64,
    pub(super) head: String,
    pub(super) open: usize,
    pub(super) refused: usize,
    /// The number of rows that the last checkpoint covers.
    pub(super) signed: i64,
}

impl Stage {
    /// Makes the home and starts the daemon.
    pub(super) fn set(platform: &Platform, output: Output) -> anyhow::Result<Self> {
        let broker = std::env::current_exe()?;
        let shim = shim_beside(&broker, platform, output)?;
        let mut name = [0; 6];
        platform.ids.fill(&mut name)?;
        let home = std::env::temp_dir().join(format!("host-broker-demo-{}", base16ct::lower::encode_string(&name)));
        platform::home::make_private_directory(&home)?;
        let github = platform.environment.get("GITHUB_TOKEN").is_some_and(|token| !token.is_empty());
        let mut stage = Self { home, broker, shim, daemon: None, github, keep: false };
        let uid = rustix::process::geteuid().as_raw();
        stage.write("broker.toml", &format!("{CONFIG}\n[people.you]\nuid = {uid}\napproves = {{}}\n"))?;
        stage.write("mock.toml", SCRIPT)?;
        for group in ["main", "developer", "security"] {
            let group = group.parse()?;
            profiles::write(&Home::at(stage.home.clone()), &group, &profiles::with_free_mock("mock"))?;
        }
        stage.start()?;
        Ok(stage)
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn has_github(&self) -> bool {
        self.github
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        std::fs::write(self.home.join(name), text).with_context(|| format!("cannot write {name}"))
    }

    /// Starts the daemon and waits until it takes requests.
    fn start(&mut self) -> anyhow::Result<()> {
        let mut child = self.process(&["serve"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        self.daemon = Some(child);
        if line.trim() == "ready" {
            Ok(())
        } else {
            bail!("the daemon did not start; try host-broker serve on the home")
        }
    }

    /// The same program, on this home.
    fn process(&self, arguments: &[&str]) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the demo's processes are this program and its shim")]
        let mut command = Command::new(&self.broker);
        command.arg("--home").arg(&self.home).args(arguments);
        command
    }

    /// Runs a command as a person would.
    pub(super) fn command(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.process(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            return Ok(format!("host-broker {}\n    {said}", arguments.join(" ")));
        }
        bail!("host-broker {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim())
    }

    /// An agent of this group.
    pub(super) async fn agent(&self, group: &str) -> anyhow::Result<Agent> {
        #[expect(clippy::disallowed_methods, reason = "the demo's processes are this program and its shim")]
        let mut command = tokio::process::Command::new(&self.shim);
        command.env_clear().env("EXT_IPC_DIR", self.home.join("ipc").join(group));
        let transport = TokioChildProcess::new(command)?;
        match ().serve(transport).await {
            Ok(client) => Ok(Agent(client)),
            Err(error) => bail!("the shim of {group} did not answer: {error}"),
        }
    }

    /// How often a scripted effect has happened.
    pub(super) fn count(&self, file: &str) -> usize {
        std::fs::read_to_string(self.home.join(file)).map_or(0, |text| text.lines().count())
    }

    /// Checks whether the ledger gets such a row in time.
    pub(super) async fn wait_for_row(&self, kind: &str) -> bool {
        self.wait_until(|row| row.kind == kind).await
    }

    async fn wait_until(&self, is_it: impl Fn(&store::ledger::chain::Row) -> bool) -> bool {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let mut found = false;
            let read = store::reader(&self.home).and_then(|reader| {
                export::each(&reader, 1, |row| {
                    found |= is_it(&row);
                    Ok(())
                })
            });
            if read.is_ok() && found {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    /// Returns the pending approval request, once there is one.
    pub(super) async fn approval_request(&self) -> anyhow::Result<Approval> {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            let open = store::reader(&self.home).and_then(|reader| approvals::open(&reader, None));
            let waiting = |approval: &Approval| approval.state == approval::ApprovalState::Waiting;
            if let Some(approval) = open?.into_iter().find(waiting) {
                return Ok(approval);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("no approval request was sent")
    }

    /// Kills the daemon once the action's intent is in the ledger, and starts the next one.
    pub(super) async fn kill_and_restart(&mut self, action: &str) -> anyhow::Result<()> {
        let begun =
            self.wait_until(|row| row.kind == RowKind::Intended.word() && row.action.as_deref() == Some(action)).await;
        if !begun {
            bail!("the slow call did not begin");
        }
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().and_then(|()| daemon.wait())?;
        }
        self.start()
    }

    /// Stops the daemon as an operator would.
    pub(super) fn stop(&mut self, _timeout: Duration) -> anyhow::Result<()> {
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        let pid = rustix::process::Pid::from_child(&daemon);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        daemon.wait()?;
        Ok(())
    }

    /// Verifies the whole chain.
    pub(super) fn verify(&self) -> anyhow::Result<Proof> {
        let reader = store::reader(&self.home)?;
        let (mut verifier, mut refused) = (Verifier::new(), 0);
        export::each(&reader, 1, |row| {
            refused += usize::from(row.kind == RowKind::Refused.word());
            verifier.take(&row).map_err(store::StoreError::from)
        })?;
        let head = verifier.head();
        let signed = verifier.checkpoints().latest().map_or(0, |(_, checkpoint)| checkpoint.size());
        Ok(Proof { rows: head.seq, head: head.hash.to_string(), open: verifier.open().count(), refused, signed })
    }

    /// Leaves everything running, and says where.
    pub(super) fn keep(&mut self) -> String {
        self.keep = true;
        let pid = self.daemon.as_ref().map_or(0, Child::id);
        let home = self.home.display();
        format!(
            "\nLeft running: home {home}, process {pid}\n  look:  host-broker --home {home} status\n  stop:  kill {pid} && rm -r {home}"
        )
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().and_then(|()| daemon.wait()).ok();
        }
        // A shim that ends now can still write into its directory.
        for _ in 0..REMOVALS_MAX {
            if std::fs::remove_dir_all(&self.home).is_ok() || !self.home.exists() {
                return;
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

impl Agent {
    /// Calls an action through `ext_call`, with more arguments beside its parameters.
    pub(super) async fn call(
        &self,
        provider: &str,
        action: &str,
        params: Value,
        more: Value,
    ) -> anyhow::Result<DemoReply> {
        let mut arguments = json!({ "provider": provider, "action": action, "params": params });
        if let (Some(arguments), Value::Object(more)) = (arguments.as_object_mut(), more) {
            arguments.extend(more);
        }
        self.tool("ext_call", arguments).await
    }

    /// Calls a tool.
    pub(super) async fn tool(&self, tool: &'static str, arguments: Value) -> anyhow::Result<DemoReply> {
        let arguments: Map<String, Value> = match arguments {
            Value::Object(map) => map,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
        };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        match self.0.call_tool(request).await {
            Ok(result) => Ok(DemoReply::of(result)),
            Err(error) => bail!("{tool}: {error}"),
        }
    }
}

impl DemoReply {
    fn of(result: CallToolResult) -> Self {
        let texts: Vec<String> =
            result.content.iter().filter_map(|block| Some(block.as_text()?.text.clone())).collect();
        Self {
            text: texts.join("\n"),
            is_error: result.is_error == Some(true),
            structured: result.structured_content.unwrap_or_default(),
        }
    }

    pub(super) fn is_executed(&self) -> bool {
        !self.is_error && self.code().is_empty()
    }

    /// The reason code; empty for success.
    pub(super) fn code(&self) -> &str {
        self.structured.get("code").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the value at this place of the structured answer; null if there is none.
    pub(super) fn at(&self, pointer: &str) -> Value {
        self.structured.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Returns the text without its log lines, which do not belong on a screen.
    pub(super) fn brief(&self) -> String {
        let first: Vec<&str> = self.text.lines().take(6).collect();
        let bytes = counted(self.text.len(), "byte", "bytes");
        if self.is_error { self.text.clone() } else { format!("{bytes}: {}", first.join(" ")) }
    }
}

/// The shim that belongs to this program. Run by cargo, it is built first: nothing else makes sure that it is there.
fn shim_beside(broker: &Path, platform: &Platform, output: Output) -> anyhow::Result<PathBuf> {
    if let (Some(cargo), Some(_)) = (platform.environment.get("CARGO"), platform.environment.get("CARGO_MANIFEST_DIR"))
    {
        return build_shim(cargo, broker, platform, output);
    }
    let shim = broker.with_file_name("mcp-shim");
    if shim.is_file() {
        return Ok(shim);
    }
    bail!("there is no {}; build it with: cargo build -p mcp-shim", shim.display())
}

/// In the profile in which this program was built; the path is taken from cargo's own report. The broker is named too,
/// so that cargo takes the dependencies with the features with which they are built already.
fn build_shim(cargo: &str, broker: &Path, platform: &Platform, output: Output) -> anyhow::Result<PathBuf> {
    let release = broker.components().any(|component| component.as_os_str() == "release");
    #[expect(clippy::disallowed_methods, reason = "the demo's processes are this program and its shim")]
    let mut command = Command::new(cargo);
    command.args(["build", "-p", "host-broker", "-p", "mcp-shim", "--message-format=json"]);
    // Set by cargo for this program. Some build scripts ask for them, and would build again because they changed.
    for name in platform
        .environment
        .keys()
        .filter(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|set| name.starts_with(set)))
    {
        command.env_remove(name);
    }
    if let Some(folder) = platform.environment.get("CARGO_MANIFEST_DIR") {
        command.current_dir(folder);
    }
    if release {
        command.arg("--release");
    }
    if !output.json {
        output.say("building mcp-shim, if it is not built yet");
    }
    let done = command.stderr(Stdio::inherit()).output()?;
    String::from_utf8_lossy(&done.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message.pointer("/target/name").and_then(Value::as_str) == Some("mcp-shim"))
        .find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .ok_or_else(|| anyhow!("mcp-shim does not build; see above"))
}
