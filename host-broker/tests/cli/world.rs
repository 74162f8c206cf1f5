//! A temporary home, the program run on it, and a group's sandbox beside it.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest that anything here may take; only a test that fails waits for it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A terminal with a person who answers.
const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/terminal.py");

#[expect(clippy::disallowed_methods, reason = "a test runs an interpreter directly")]
fn python() -> Command {
    Command::new("python3")
}

pub(super) struct World {
    folder: TempDir,
    pub(super) home: PathBuf,
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Done {
    /// It ended well; its output.
    pub(super) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// It ended well; its output as one document.
    pub(super) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// It ended with this code, and says each of these.
    pub(super) fn fails(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.out, "", "a fault is no result");
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in {self:?}");
        }
    }
}

/// A process that is killed at the end of its test.
pub(super) struct Running {
    child: Child,
    pub(super) out: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Running {
    /// The next line that it prints.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a signal to it.
    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    pub(super) fn end(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl World {
    /// A home that does not exist yet.
    pub(super) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        Self { folder, home }
    }

    /// A home with a mock provider: echo (L1), note (L2, guarded by a schema), person (L2), charge (L3).
    pub(super) fn with_mock() -> Self {
        let world = Self::empty();
        world.run(&["init"]).ok();
        // Whether the machine has a token, or logs, is not what these tests are about.
        let config = world.read("broker.toml");
        let (config, _real_providers) = config.split_once("# GitHub.").expect("the template");
        std::fs::write(world.home.join("broker.toml"), config).expect("written");
        for group in ["main", "developer", "security"] {
            let profile = world.home.join(format!("policy/profiles/{group}.toml"));
            std::fs::write(profile, "write = \"rules\"\nproduction = \"auto\"\n").expect("written");
        }
        world.append("broker.toml", "\n[providers.mock]\nkind = \"mock\"\nscript = \"mock.toml\"\n");
        world.append(
            "mock.toml",
            r#"
            [actions.echo]
            level = 1
            reply = "$params"
            exposes = []
            [actions.note]
            level = 2
            append_to = "notes.log"
            input_schema = { type = "object", properties = { n = { type = "integer" } }, required = ["n"] }
            exposes = ["egress"]
            [actions.person]
            level = 2
            human = true
            exposes = ["egress"]
            [actions.lose]
            level = 2
            append_to = "notes.log"
            lose_reply = true
            probe = true
            exposes = ["egress"]
            [actions.charge]
            level = 3
            append_to = "charges.log"
            exposes = ["egress"]
            "#,
        );
        world
    }

    pub(super) fn append(&self, file: &str, text: &str) {
        let path = self.home.join(file);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, before + text).unwrap();
    }

    pub(super) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.home.join(file)).unwrap()
    }

    /// The program with this home and no other environment.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the program under test is a child process")]
        let mut command = Command::new(env!("CARGO_BIN_EXE_host-broker"));
        command.args(arguments).env_clear().env("EXT_BROKER_HOME", &self.home).env("USER", "tester");
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Done {
        finish(&mut self.command(arguments))
    }

    /// Runs it with an output that nobody reads, and gives its exit code.
    pub(super) fn run_unread(&self, arguments: &[&str]) -> i32 {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = self.command(arguments);
        let done = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(String::from_utf8(done.stderr).unwrap(), "");
        done.status.code().unwrap_or(-1)
    }

    /// Runs it with a full disk behind its output, and returns its exit code and its errors.
    pub(super) fn run_on_full_disk(&self, arguments: &[&str]) -> (i32, String) {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = self.command(arguments);
        let done = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().unwrap();
        (done.status.code().unwrap_or(-1), String::from_utf8(done.stderr).unwrap())
    }

    /// Runs it on a terminal, and returns what the terminal shows. Each character of `answers` answers one question. Without
    /// Python there is no terminal.
    pub(super) fn run_on_terminal(&self, answers: &str, arguments: &[&str]) -> Option<String> {
        if Self::has_no_terminal() {
            return None;
        }
        let mut command = python();
        command.args([TERMINAL, answers, env!("CARGO_BIN_EXE_host-broker")]).args(arguments);
        command.env("EXT_BROKER_HOME", &self.home).env("USER", "tester").env("NO_COLOR", "1");
        let done = finish(&mut command);
        assert_eq!(done.err, "", "{done:?}");
        Some(done.out.replace('\r', ""))
    }

    /// Whether [`Self::run_on_terminal`] runs nothing.
    pub(super) fn has_no_terminal() -> bool {
        !python().arg("--version").stdin(Stdio::null()).output().is_ok_and(|done| done.status.success())
    }

    /// Starts a program that runs until it is stopped.
    pub(super) fn start(&self, arguments: &[&str]) -> Running {
        start(&mut self.command(arguments))
    }

    /// The same, with an input to write to.
    pub(super) fn start_with_input(&self, arguments: &[&str]) -> (Running, ChildStdin) {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, out) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        (Running { child, out }, input)
    }

    /// A daemon that takes requests.
    pub(super) fn serve(&self) -> Running {
        let mut daemon = self.start(&["serve"]);
        assert_eq!(daemon.line(), "ready");
        daemon
    }

    /// Starts a daemon that takes requests, and returns the file of its log.
    pub(super) fn serve_with_log(&self) -> (Running, PathBuf) {
        let log = self.folder.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        let mut child =
            self.command(&["serve"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut daemon = Running { child, out };
        assert_eq!(daemon.line(), "ready");
        (daemon, log)
    }

    /// Puts a request into a group's directory and waits for its reply.
    pub(super) fn ask(&self, group: &str, id: &str, mut request: Value) -> Value {
        request["request_id"] = id.into();
        let mailbox = self.home.join("ipc").join(group);
        let written = mailbox.join("tasks").join(format!(".{id}"));
        std::fs::write(&written, request.to_string()).unwrap();
        std::fs::rename(written, mailbox.join("tasks").join(format!("{id}.json"))).unwrap();
        let reply = mailbox.join("responses").join(format!("{id}.json"));
        wait_for(|| reply.exists());
        serde_json::from_slice(&std::fs::read(reply).unwrap()).unwrap()
    }

    /// A call of the developer group at the mock.
    pub(super) fn call(&self, id: &str, action: &str, params: &Value, task: Option<&str>) -> Value {
        let request =
            json!({ "type": "ext_call", "provider": "mock", "action": action, "params": params, "task_id": task });
        self.ask("developer", id, request)
    }
}

pub(super) fn finish(command: &mut Command) -> Done {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(super) fn start(command: &mut Command) -> Running {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    Running { child, out }
}

pub(super) fn wait_for(mut there: impl FnMut() -> bool) {
    let since = Instant::now();
    while !there() {
        assert!(since.elapsed() < TIMEOUT, "it never came");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

pub(super) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
