//! A real `PostgreSQL` server, for one test or for all tests of a process.

use crate::{skipped, until};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock, mpsc};

/// The password of all roles.
pub const PASSWORD: &str = "postgres-pass-3Vw8kZ1nQx";

/// The server, whose superuser is `owner`, on a port of this machine.
#[derive(Debug)]
pub struct PostgresServer {
    directory: PathBuf,
    programs: PathBuf,
    keeper: Child,
    /// The port.
    pub port: u16,
}

impl PostgresServer {
    /// Starts it; `None`, with the reason printed, where it is not installed. It does not sync its files.
    pub fn start() -> Option<Self> {
        Self::start_with(&["fsync=off"])
    }

    /// Returns the one server of this process, which syncs its files. It ends with the process.
    pub fn shared() -> Option<Arc<Self>> {
        static SERVER: OnceLock<Option<Arc<PostgresServer>>> = OnceLock::new();
        let started = SERVER.get_or_init(|| {
            let (send, receive) = mpsc::channel();
            // The server ends with the thread that has started it, so that thread stays.
            std::thread::spawn(move || {
                send.send(Self::start_with(&["max_connections=200"]).map(Arc::new)).unwrap();
                loop {
                    std::thread::park();
                }
            });
            receive.recv().unwrap()
        });
        started.clone()
    }

    /// Starts it with these settings.
    pub fn start_with(settings: &[&str]) -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
        let programs = versions.into_iter().flatten().flatten().map(|version| version.path().join("bin"));
        let Some(programs) = programs.filter(|programs| programs.join("initdb").exists()).max() else {
            skipped("there is no PostgreSQL; apt-get install postgresql");
            return None;
        };
        // Somebody else can take a port between the choice and the start.
        let started = (0..5).find_map(|_| Self::try_start(&programs, settings, None));
        Some(started.expect("PostgreSQL does not start"))
    }

    /// Starts a standby of this server with these settings. Its name for the primary is `standby`.
    pub fn standby(&self, settings: &[&str]) -> Self {
        let started = (0..5).find_map(|_| Self::try_start(&self.programs, settings, Some(self)));
        started.expect("the standby does not start")
    }

    fn try_start(programs: &Path, settings: &[&str], primary: Option<&Self>) -> Option<Self> {
        // The script below removes it, also after the end of this process.
        let directory = tempfile::Builder::new().prefix("postgres-").tempdir().unwrap().keep();
        std::fs::write(directory.join("password"), PASSWORD).unwrap();
        if rustix::process::geteuid().is_root() {
            let given = Command::new("chown").args(["-R", "postgres:postgres"]).arg(&directory).status().unwrap();
            assert!(given.success(), "the user postgres comes with the package");
        }
        let (data, password) = (directory.join("data"), directory.join("password"));
        let mut copied = own();
        match primary {
            None => copied
                .arg(programs.join("initdb"))
                .args(["--no-sync", "--username=owner", "--auth=scram-sha-256"])
                .args([data.as_os_str(), format!("--pwfile={}", password.display()).as_ref()]),
            Some(primary) => copied
                .arg(programs.join("pg_basebackup"))
                .args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf"])
                .arg("--dbname")
                .arg(format!("host=127.0.0.1 port={} user=owner application_name=standby", primary.port))
                .args(["--pgdata".as_ref(), data.as_os_str()])
                .env("PGPASSWORD", PASSWORD),
        };
        let made = copied.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let always = ["listen_addresses=127.0.0.1", "unix_socket_directories="];
        let mut command = own();
        command.args(["sh", "-c", KEEPER, "keeper"]).args([&directory, &data]);
        command.arg(programs.join("postgres")).arg("-D").arg(&data).args(["-p", &port.to_string()]);
        command.args(always.iter().chain(settings).flat_map(|setting| ["-c", setting]));
        let keeper = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { directory, programs: programs.to_owned(), keeper, port };
        until("PostgreSQL", || {
            if server.keeper.try_wait().unwrap().is_some() {
                return Some(None);
            }
            server.try_run_as("owner", "postgres", "SELECT 1").ok().map(|_| Some(()))
        })?;
        Some(server)
    }

    /// Returns the first process of the server.
    fn pid(&self) -> Option<Pid> {
        let file = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).ok()?;
        Pid::from_raw(file.lines().next()?.parse().ok()?)
    }

    /// Kills all processes of the server, and waits until it has recovered.
    pub fn crash(&self) {
        let killed = self.pid().expect("a server that runs");
        kill_process(killed, Signal::KILL).unwrap();
        until("a new server", || self.pid().filter(|pid| *pid != killed));
        until("its recovery", || self.try_run_as("owner", "postgres", "SELECT 1").ok());
    }

    /// Kills all processes of the server. It is not started again, as if its machine were lost.
    pub fn lose(&self) {
        let first = self.pid().expect("a server that runs");
        // Without this file, it is not started again.
        std::fs::remove_file(self.directory.join("data/postmaster.pid")).unwrap();
        signal(first, Signal::KILL);
    }

    /// Lets all processes of the server stand still, or continue.
    pub fn stand_still(&self, stands: bool) {
        signal(self.pid().expect("a server that runs"), if stands { Signal::STOP } else { Signal::CONT });
    }

    /// Makes a standby take over.
    pub fn promote(&self) {
        assert_eq!(self.run("SELECT pg_promote()"), "t");
    }

    /// Runs statements as the superuser, and returns their rows.
    pub fn run(&self, statements: &str) -> String {
        self.run_in("postgres", statements)
    }

    /// Does the same in another database than `postgres`.
    pub fn run_in(&self, database: &str, statements: &str) -> String {
        self.try_run_as("owner", database, statements).unwrap()
    }

    /// Runs statements as a role, and returns their rows, or the error of the server.
    ///
    /// # Errors
    /// The text of `psql`.
    pub fn try_run_as(&self, role: &str, database: &str, statements: &str) -> Result<String, String> {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", role, "-d", database]);
        command.args(["-Atq", "-v", "ON_ERROR_STOP=1", "-c", statements]).env("PGPASSWORD", PASSWORD);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
    }
}

/// Sends a signal to a process and its children.
fn signal(first: Pid, signal: Signal) {
    let number = first.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap();
    let children = children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?));
    for process in std::iter::once(first).chain(children) {
        // A child may have ended.
        kill_process(process, signal).ok();
    }
}

/// Starts the server, and restarts it after its death. SIGTERM ends the server and removes the directory.
const KEEPER: &str = r#"
directory=$1 data=$2; shift 2
trap 'ending=1; kill -QUIT "$server"' TERM
while [ -z "$ending" ]; do
    "$@" & server=$!
    [ -z "$ending" ] || kill -QUIT "$server"
    wait "$server"
    # Its children end when they notice its death. Until then no other server starts.
    [ -n "$ending" ] || [ -f "$data/postmaster.pid" ] || break
done
wait "$server"
rm -rf "$directory"
"#;

/// The start of a command that runs as a user other than root. It ends with the thread that has started it.
fn own() -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=TERM");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg("--").current_dir("/");
    command
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if matches!(self.keeper.try_wait(), Ok(None)) {
            kill_process(Pid::from_child(&self.keeper), Signal::TERM).ok();
            self.keeper.wait().ok();
        }
    }
}
