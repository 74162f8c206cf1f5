//! One group's directory, a client at the shim's pipes, and a host that acts when the test says so.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take before a test gives up. Reaching it is a failure, never an expectation.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// The group's directory and how the shim is started in it.
pub(super) struct World {
    directory: TempDir,
    environment: Vec<(&'static str, OsString)>,
    arguments: Vec<&'static str>,
    program: PathBuf,
    /// As whom the shim runs, if not as the tests do.
    user: Option<u32>,
}

/// How a client begins, and what every request of it carries.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Era {
    /// `initialize` with this revision.
    Handshake(&'static str),
    /// The stateless revision.
    Stateless,
}

/// All the ways in which clients of today begin.
pub(super) const ERAS: [Era; 3] = [Era::Handshake("2025-06-18"), Era::Handshake("2025-11-25"), Era::Stateless];

impl World {
    /// A host that has written nothing yet.
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["tasks", "responses"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_mcp-shim").into();
        Self { directory, environment: Vec::new(), arguments: Vec::new(), program, user: None }
    }

    /// A living host with a snapshot.
    pub(super) fn with_snapshot() -> Self {
        let world = Self::new();
        world.beat();
        world.snapshot(&snapshot());
        world
    }

    pub(super) fn set(mut self, variable: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((variable, value.into()));
        self
    }

    pub(super) fn argument(mut self, argument: &'static str) -> Self {
        self.arguments.push(argument);
        self
    }

    /// The shim runs as somebody whom permissions keep out, also where the tests run as root.
    #[expect(clippy::disallowed_methods, reason = "another process copies the binary")]
    pub(super) fn unprivileged(mut self) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        if rustix::process::geteuid().is_root() {
            std::fs::set_permissions(self.directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            let program = self.path("mcp-shim");
            // A child of another test could hold the copy open for writing, and then it could not be executed.
            assert!(Command::new("cp").arg(&self.program).arg(&program).status().unwrap().success());
            self.program = program;
            self.user = Some(65_534);
        }
        self
    }

    /// The user as whom the shim runs.
    pub(super) fn user(&self) -> u32 {
        self.user.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file the way a host does.
    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let temporary = self.path("responses/.tmp-harness");
        std::fs::write(&temporary, bytes).unwrap();
        std::fs::rename(temporary, self.path(name)).unwrap();
    }

    pub(super) fn snapshot(&self, snapshot: &Value) {
        self.write("ext_capabilities.json", snapshot.to_string());
    }

    /// A sign of life, now.
    pub(super) fn beat(&self) {
        self.write("host.json", r#"{"version":"1","protocol":"ext-broker/1","started_at":"2026-02-14T10:00:00.000Z"}"#);
    }

    /// The last sign of life was this long ago.
    pub(super) fn beat_was(&self, ago: Duration) {
        self.beat();
        let file = std::fs::File::options().write(true).open(self.path("host.json")).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified - ago).unwrap();
    }

    pub(super) fn tasks(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("tasks")).unwrap();
        let documents = entries.map(|entry| entry.unwrap().path()).filter(|path| {
            path.extension().is_some_and(|ext| ext == "json")
                && !path.file_name().unwrap().to_str().unwrap().starts_with('.')
        });
        documents.collect()
    }

    /// The next request, left where it is.
    pub(super) fn see(&self) -> (PathBuf, Value) {
        until(|| {
            let path = self.tasks().into_iter().next()?;
            let document = std::fs::read(&path).ok()?;
            Some((path, serde_json::from_slice(&document).unwrap()))
        })
    }

    /// The next request, taken.
    pub(super) fn take(&self) -> Value {
        let (path, request) = self.see();
        std::fs::remove_file(path).unwrap();
        request
    }

    /// Answers a request with these members.
    pub(super) fn reply(&self, request: &Value, members: Value) {
        let id = request["request_id"].as_str().unwrap();
        let mut reply = json!({"request_id": id, "timestamp": "2026-02-14T10:00:01.000Z"});
        let Value::Object(members) = members else { panic!("not members: {members}") };
        reply.as_object_mut().unwrap().extend(members);
        self.write(&format!("responses/{id}.json"), reply.to_string());
    }

    pub(super) fn reply_path(&self, request: &Value) -> PathBuf {
        self.path(&format!("responses/{}.json", request["request_id"].as_str().unwrap()))
    }

    #[expect(clippy::disallowed_methods, reason = "the binary under test is a process")]
    pub(super) fn command(&self) -> Command {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(&self.program);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.env_clear().env("EXT_IPC_DIR", self.directory.path()).stderr(Stdio::piped()).stdout(Stdio::piped());
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).args(&self.arguments);
        command
    }

    /// Starts the server without saying anything to it.
    pub(super) fn start(&self) -> Client {
        let mut child = self.command().stdin(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let value = serde_json::from_str(&line.unwrap()).expect("only JSON on standard output");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Client { child, stdin, lines, early: VecDeque::new(), era: Era::Stateless, last_id: 0 }
    }

    /// Starts the server and begins a conversation.
    pub(super) fn client(&self, era: Era) -> Client {
        let mut client = self.start();
        client.begin(era);
        client
    }

    /// Starts a command; the test plays the host meanwhile.
    pub(super) fn run(&self, arguments: &[&str]) -> Child {
        self.command().args(arguments).stdin(Stdio::null()).spawn().unwrap()
    }
}

/// The output of a finished command.
pub(super) fn printed(child: Child) -> (Option<i32>, Value, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let object = serde_json::from_slice(&stdout).unwrap_or(Value::Null);
    (status.code(), object, String::from_utf8(stderr).unwrap())
}

/// A snapshot with one action of every kind.
pub(super) fn snapshot() -> Value {
    json!({
        "generatedAt": "2026-02-14T10:00:00.000Z", "protocol": "ext-broker/1", "group": "developer", "is_main": false,
        "capabilities": [{
            "provider": "github", "access_level": 2, "allowed_actions": null, "denied_actions": ["merge_pr"],
            "expires_at": null, "actions": {
                "list_issues": {"level": 1, "tier": "auto", "description": "List issues", "status": "available",
                    "input_schema": {"type": "object", "properties": {
                        "repo": {"type": "string"}, "page": {"type": ["integer", "null"], "format": "uint32"},
                        "anything": true}, "required": ["repo"], "additionalProperties": false},
                    "output_schema": {"type": "array"}},
                "create_issue": {"level": 2, "description": "Create an issue", "status": "needs_approval"},
                "deploy": {"level": 3, "description": "Deploy", "status": "needs_gate"},
                "merge_pr": {"level": 3, "description": "Merge (DENIED)", "status": "DENIED"}}}],
        "providers_available": ["github"],
    })
}

/// A client at the shim's pipes.
pub(super) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// The messages that came before somebody asked for them.
    early: VecDeque<Value>,
    era: Era,
    last_id: u64,
}

impl Client {
    pub(super) fn begin(&mut self, era: Era) -> Value {
        self.era = era;
        match era {
            Era::Handshake(version) => {
                let result = self.request(
                    "initialize",
                    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
                );
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
                result["result"].clone()
            }
            Era::Stateless => self.request("server/discover", json!({}))["result"].clone(),
        }
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_line(message.to_string());
    }

    pub(super) fn send_line(&mut self, line: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_ref()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request and returns its id.
    pub(super) fn ask(&mut self, method: &str, mut params: Value) -> u64 {
        self.last_id += 1;
        if self.era == Era::Stateless {
            let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "t", "version": "1"});
        }
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.send(&message);
        self.last_id
    }

    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool and returns the request's id; the answer comes when the host has given one.
    pub(super) fn call(&mut self, name: &str, arguments: Value) -> u64 {
        let mut params = json!({"name": name});
        params["arguments"] = arguments;
        self.ask("tools/call", params)
    }

    /// The next message that satisfies the condition; others are kept for later.
    pub(super) fn next(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&wanted) {
            return self.early.remove(at).unwrap();
        }
        loop {
            let message = self.lines.recv_timeout(DEADLINE).expect("an answer");
            if wanted(&message) {
                return message;
            }
            self.early.push_back(message);
        }
    }

    /// The response to the request of this id.
    pub(super) fn answer(&mut self, id: u64) -> Value {
        self.next(|message| message["id"] == id)
    }

    /// The result of the tool that was called.
    pub(super) fn result(&mut self, id: u64) -> Value {
        let answer = self.answer(id);
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    pub(super) fn notification(&mut self, method: &str) -> Value {
        self.next(|message| message["method"] == method)
    }

    pub(super) fn tools(&mut self) -> Vec<Value> {
        self.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
    }

    pub(super) fn tool_names(&mut self) -> Vec<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Says nothing more.
    pub(super) fn close_input(&mut self) {
        self.stdin = None;
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; what was written to standard error comes with it.
    pub(super) fn ended(mut self) -> (ExitStatus, String) {
        self.stdin = None;
        let status = until(|| self.child.try_wait().unwrap());
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (status, text)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The text that a model reads.
pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

pub(super) fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

/// Looks again and again until there is something.
pub(super) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < DEADLINE, "it never happened");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
