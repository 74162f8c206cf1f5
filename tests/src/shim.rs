//! The real shim on a world's mailbox, at the end of a real MCP client.

use crate::programs::programs;
use crate::world::World;
use rmcp::ServiceExt as _;
use rmcp::handler::client::ClientHandler;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{NotificationContext, RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::Runtime;

/// A client, and the shim it started.
pub struct Shim {
    runtime: Runtime,
    client: Option<RunningService<RoleClient, Listener>>,
    changes: Arc<AtomicUsize>,
}

/// Counts how often the shim says that its tools have changed.
struct Listener(Arc<AtomicUsize>);

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Shim {
    /// Starts the shim in a group's sandbox.
    pub fn start(world: &World, group: &str) -> Self {
        Self::start_with(world, group, &[])
    }

    /// The same, with more environment.
    pub fn start_with(world: &World, group: &str, environment: &[(&str, &str)]) -> Self {
        // A host that has just started for the first time writes it a moment later; before, a shim knows nothing.
        world.group(group).snapshot();
        let mut command = Command::new(programs().mcp_shim());
        command.env_clear().env("EXT_IPC_DIR", world.group(group).directory()).envs(environment.iter().copied());
        Self::of(command)
    }

    /// Starts the shim by this command.
    pub fn of(command: Command) -> Self {
        let command = tokio::process::Command::from(command);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let changes = Arc::new(AtomicUsize::new(0));
        let listener = Listener(Arc::clone(&changes));
        let client = runtime.block_on(async {
            let (transport, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
            listener.serve(transport).await.unwrap()
        });
        Self { runtime, client: Some(client), changes }
    }

    fn client(&self) -> &RunningService<RoleClient, Listener> {
        self.client.as_ref().expect("a client until it is dropped")
    }

    /// Calls a tool; the result as the client received it.
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("not arguments: {arguments}") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.runtime.block_on(self.client().call_tool(request)).expect("an answer");
        serde_json::to_value(result).unwrap()
    }

    /// The tools, by name.
    pub fn tools(&self) -> Vec<Value> {
        let tools = self.runtime.block_on(self.client().list_all_tools()).expect("a list");
        tools.into_iter().map(|tool| serde_json::to_value(tool).unwrap()).collect()
    }

    /// The names of the tools.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools().iter().filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect()
    }

    /// How often the shim has said that its tools have changed.
    pub fn changes(&self) -> usize {
        self.changes.load(Ordering::SeqCst)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.runtime.block_on(client.cancel()).ok();
        }
    }
}

/// The text of a result, as a model reads it.
pub fn text(result: &Value) -> &str {
    result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_else(|| panic!("no text: {result}"))
}

/// The output of a shim that ends at once because of its environment.
pub fn ended(environment: &[(&str, &str)]) -> Output {
    Command::new(programs().mcp_shim()).env_clear().envs(environment.iter().copied()).output().unwrap()
}

/// The output of the shim for one request of a script in a group's sandbox.
pub fn told(world: &World, group: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(programs().mcp_shim());
    command.env_clear().env("EXT_IPC_DIR", world.group(group).directory());
    command.args(arguments).output().unwrap()
}

/// The shim on a directory of the test's own, in which `tasks` and `responses` are those of a group.
///
/// # Errors
/// Why there is no sandbox here.
pub fn in_front(world: &World, group: &str, front: &Path) -> Result<Command, String> {
    Command::new("bwrap").args(["--dev-bind", "/", "/", "true"]).output().map_err(|error| error.to_string())?;
    let mut command = Command::new("bwrap");
    command.args(["--dev-bind", "/", "/"]);
    for name in ["tasks", "responses"] {
        std::fs::create_dir(front.join(name)).unwrap();
        command.arg("--bind").arg(world.group(group).directory().join(name)).arg(front.join(name));
    }
    command.arg(programs().mcp_shim()).env_clear().env("EXT_IPC_DIR", front);
    Ok(command)
}

/// The shim in a sandbox without network, in which the group's directory is mounted read-only and its `tasks` is not.
///
/// # Errors
/// Why there is no sandbox here.
pub fn isolated(world: &World, group: &str) -> Result<Command, String> {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp"]);
    let directory = world.group(group).directory().to_owned();
    command.arg("--ro-bind").arg(&directory).arg("/tmp/ipc");
    command.arg("--bind").arg(directory.join("tasks")).arg("/tmp/ipc/tasks");
    // The path of the program leads through a process that is not seen from there.
    let program = world.outside().join("mcp-shim");
    // Another process copies it: a child of another test could hold a copy of this process open for writing.
    let copied = Command::new("cp").arg(programs().mcp_shim()).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()), "the shim cannot be copied");
    command.arg("--ro-bind").arg(&program).arg("/tmp/mcp-shim");
    let mut probe = Command::new(command.get_program());
    let probed = probe.args(command.get_args()).arg("true").output().map_err(|error| error.to_string())?;
    if !probed.status.success() {
        return Err(String::from_utf8_lossy(&probed.stderr).into_owned());
    }
    command.arg("/tmp/mcp-shim").env_clear().env("EXT_IPC_DIR", "/tmp/ipc");
    Ok(command)
}
