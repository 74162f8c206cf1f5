//! MCP servers for tests: the one that misbehaves, real ones, and homes that have them.

use crate::bridges::{self, is_apart};
use crate::fakes::real_now;
use crate::group::code;
use crate::skipped;
use crate::world::{CONFIG, World};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The one that does for each mode what no server should.
pub fn misbehaving() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("servers").join("misbehaving.py")
}

/// A server of a home's configuration.
pub struct Server<'a> {
    /// Its name.
    pub name: &'a str,
    /// The program, and its arguments.
    pub command: &'a [&'a str],
    /// The files that it can read.
    pub readable: &'a [&'a Path],
    /// The keys of its table of tools, as TOML.
    pub tools: &'a str,
    /// More keys of its own table, as TOML.
    pub more: &'a str,
}

/// A home with these servers, of which nobody has accepted anything yet, kept apart where that is possible. `more` goes to
/// the end of its configuration.
pub fn home(servers: &[Server<'_>], more: &str) -> World {
    let isolation = if is_apart() { "bwrap" } else { "none" };
    let tables: Vec<String> = servers
        .iter()
        .map(|Server { name, command, readable, tools, more }| {
            format!(
                "[providers.{name}]\nkind = \"mcp\"\ncommand = {command:?}\nreadable = {readable:?}\n\
                 isolation = \"{isolation}\"\n{more}\n[providers.{name}.tools]\n{tools}\n"
            )
        })
        .collect();
    home_of(&tables.concat(), more)
}

/// The same, with these tables of providers.
pub fn home_of(tables: &str, more: &str) -> World {
    // No rule that ships with the broker permits writes of strangers' programs.
    let profile = "write = \"auto\"\n";
    let config = format!("{CONFIG}\n{tables}\n{more}\n");
    World::builder().config(&config).file("policy/profiles/developer.toml", profile).clock(real_now()).down()
}

/// Accepts what they say now, starts the daemon, and lets the developers read and write there.
pub fn open(world: &mut World, names: &[&str]) {
    for name in names {
        bridges::accept(world, name);
    }
    world.start_process();
    for name in names {
        let grant = json!({ "type": "grant", "group_folder": "developer", "provider": name, "access_level": 2 });
        assert_eq!(code(&world.command(grant)), "executed");
    }
}

/// A server on a port of this machine, which does for each mode what no server should. It ends with this.
pub struct Remote {
    child: Child,
    port: u16,
}

impl Remote {
    /// Starts it; `None` where there is nothing to run it with.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::run(Path::new("/usr/bin/python3"), "remote.py", arguments)
    }

    /// Starts another one with this interpreter.
    pub fn run(python: &Path, name: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(python);
        command.arg(misbehaving().with_file_name(name)).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Some(Self { child, port: line.trim().parse().unwrap() })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A request over a connection of its own: the status, the head, the body.
pub fn http(method: &str, url: &str, kind: &str, body: &str) -> (u16, String, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: {kind}\r\n");
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

/// Signs the person in on the page, as a browser does; where the page leads to.
pub fn sign_in(auth_url: &str) -> String {
    let (status, head, body) = http("GET", auth_url, "text/plain", "");
    assert_eq!(status, 302, "{head}\n{body}");
    let location = head.lines().find(|line| line.to_ascii_lowercase().starts_with("location:"));
    location.unwrap().split_once(':').unwrap().1.trim().to_owned()
}

/// A call of a tool.
pub fn call(server: &str, tool: &str, arguments: &Value) -> Value {
    json!({ "type": "ext_call", "provider": server, "action": tool, "params": arguments })
}

/// The text of the first block of an answer.
pub fn text(reply: &Value) -> &str {
    reply.pointer("/data/content/0/text").and_then(Value::as_str).unwrap_or_else(|| panic!("{reply}"))
}

/// Where the real ones are of this kind: a directory below `EXT_TEST_SERVERS`. Says that it skips where there is none.
pub fn installed(kind: &str) -> Option<PathBuf> {
    let parts = std::env::var_os("EXT_TEST_SERVERS").map(PathBuf::from);
    let found = parts.map(|parts| parts.join(kind)).filter(|part| part.exists());
    if found.is_none() {
        skipped(&format!("EXT_TEST_SERVERS names no directory with `{kind}`"));
    }
    found
}

/// The output of a program that succeeds.
pub fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The output of git in this repository.
pub fn git(repository: &Path, arguments: &[&str]) -> String {
    printed("git", &[&["-C", repository.to_str().unwrap()], arguments].concat())
}
