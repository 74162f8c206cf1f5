//! A vault of Bitwarden: its real command line client, signed in at a server of this machine, for one test.

use crate::servers::{installed, misbehaving};
use crate::until;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const EMAIL: &str = "ada@example.com";
const MASTER: &str = "bw-master-Gh47-zP2x";

/// The server, and the data of the client.
#[derive(Debug)]
pub struct BitwardenVault {
    directory: TempDir,
    server: Child,
    /// The client.
    pub program: PathBuf,
    /// The key of the session that is open.
    pub session: String,
}

impl BitwardenVault {
    /// Starts the server with these items and signs the client in; `None`, with the reason printed, where the client is not
    /// installed.
    pub fn start(items: &Value) -> Option<Self> {
        let program = installed("bitwarden")?.join("node_modules/.bin/bw");
        let directory = tempfile::Builder::new().prefix("bitwarden-").tempdir().unwrap();
        let account = json!({ "email": EMAIL, "password": MASTER, "items": items });
        std::fs::write(directory.path().join("vault.json"), account.to_string()).unwrap();
        let mut command = Command::new("/usr/bin/python3");
        command.arg(misbehaving().with_file_name("bitwarden_server.py")).arg(directory.path());
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut vault = Self { directory, server, program, session: String::new() };
        let port = until("the port of the server", || std::fs::read_to_string(vault.file("port")).ok());
        vault.run(&["config", "server", &format!("https://127.0.0.1:{}", port.trim())]);
        vault.session = vault.run(&["login", EMAIL, "--passwordenv", "MASTER", "--raw", "--nointeraction"]);
        Some(vault)
    }

    /// The tables of the provider, with these lines. The session key is in the file `manager.key`.
    pub fn table(&self, lines: &str) -> String {
        let (data, program) = (self.data().display().to_string(), self.program.display().to_string());
        format!(
            "{lines}\n[providers.passwords.bitwarden]\nsession = {{ file = \"manager.key\" }}\ndata = {data:?}\n\
             program = {program:?}\n"
        )
    }

    /// Locks the vault, so that the session key opens it no more.
    pub fn lock(&self) {
        self.run(&["lock"]);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The data of the client.
    pub fn data(&self) -> PathBuf {
        self.file("data")
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("MASTER", MASTER);
        command.env("BITWARDENCLI_APPDATA_DIR", self.data()).env("NODE_EXTRA_CA_CERTS", self.file("cert.pem"));
        command.env("BW_SESSION", &self.session);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "bw {:?}: {complaint}", arguments.first().map(Path::new));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for BitwardenVault {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}
