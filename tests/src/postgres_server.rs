//! A real `PostgreSQL` server with one database, for one test.

use crate::{skipped, until};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The password of all roles.
pub const PASSWORD: &str = "postgres-pass-3Vw8kZ1nQx";

/// The server, whose superuser is `owner`, on a port of this machine.
#[derive(Debug)]
pub struct PostgresServer {
    _directory: TempDir,
    programs: PathBuf,
    server: Child,
    /// The port.
    pub port: u16,
}

impl PostgresServer {
    /// Starts it; `None`, with the reason printed, where it is not installed.
    pub fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
        let programs = versions.into_iter().flatten().flatten().map(|version| version.path().join("bin"));
        let Some(programs) = programs.filter(|programs| programs.join("initdb").exists()).max() else {
            skipped("there is no PostgreSQL; apt-get install postgresql");
            return None;
        };
        // Somebody else can take a port between the choice and the start.
        let started = (0..5).find_map(|_| Self::try_start(&programs));
        Some(started.expect("PostgreSQL does not start"))
    }

    fn try_start(programs: &Path) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("postgres-").tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join("password"), PASSWORD).unwrap();
        if rustix::process::geteuid().is_root() {
            let given = Command::new("chown").args(["-R", "postgres:postgres"]).arg(path).status().unwrap();
            assert!(given.success(), "the user postgres comes with the package");
        }
        let (data, password) = (path.join("data"), path.join("password"));
        let made = own(&programs.join("initdb"))
            .args(["--no-sync", "--username=owner", "--auth=scram-sha-256"])
            .args([data.as_os_str(), format!("--pwfile={}", password.display()).as_ref()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"];
        let mut command = own(&programs.join("postgres"));
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { _directory: directory, programs: programs.to_owned(), server, port };
        until("PostgreSQL", || {
            if server.server.try_wait().unwrap().is_some() {
                return Some(None);
            }
            server.psql("SELECT 1").status.success().then_some(Some(()))
        })?;
        Some(server)
    }

    /// Runs statements as the superuser, and returns their rows.
    pub fn run(&self, statements: &str) -> String {
        let output = self.psql(statements);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn psql(&self, statements: &str) -> Output {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "owner", "-d", "postgres"]);
        command.args(["-At", "-v", "ON_ERROR_STOP=1", "-c", statements]).env("PGPASSWORD", PASSWORD);
        command.output().unwrap()
    }
}

/// The program as a user that is not root.
fn own(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=TERM", "--"]).arg(program);
    command.current_dir("/");
    command
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}
