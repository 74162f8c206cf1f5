//! A temporary home with its daemon, on the disk of the chosen home.

use crate::cli::Context;
use anyhow::{Context as _, bail};
use config::profiles;
use platform::home::{Home, make_private_directory};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const CONFIG: &str = "[broker]
evidence_mib_per_hour = 1000000

[limits.\"*\".\"*\"]

[providers.mock]
kind = \"mock\"
script = \"mock.toml\"

[groups.g]
";
const SCRIPT: &str = "[actions.read]
level = 1
reply = \"$params\"
exposes = []

[actions.write]
level = 2
reply = \"$params\"
exposes = [\"egress\"]
";
/// The size of a write to the disk that is synced: that of a page of the ledger.
const PAGE: usize = 4096;

/// The home; dropping it stops the daemon and removes the home.
pub(super) struct Scratch {
    home: PathBuf,
    daemon: Option<Child>,
}

/// A file on the disk of the ledger.
pub(super) struct Disk(File);

impl Scratch {
    /// Makes the home and starts the daemon.
    pub(super) fn start(context: &Context) -> anyhow::Result<Self> {
        let mut name = [0; 6];
        context.platform.ids.fill(&mut name)?;
        let name = format!("bench-{}", base16ct::lower::encode_string(&name));
        let chosen = context.home.path();
        let home =
            if chosen.is_dir() { chosen.join(name) } else { std::env::temp_dir().join(format!("host-broker-{name}")) };
        make_private_directory(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let mut scratch = Self { home, daemon: None };
        for (name, text) in [("broker.toml", CONFIG), ("mock.toml", SCRIPT)] {
            std::fs::write(scratch.home.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        profiles::write(&Home::at(scratch.home.clone()), &"g".parse()?, &profiles::with_free_mock("mock"))?;
        let granted = scratch.process(&["grant", "g", "mock", "2"])?.output()?;
        if !granted.status.success() {
            bail!("cannot grant access: {}", String::from_utf8_lossy(&granted.stderr).trim());
        }
        let mut child = scratch.process(&["serve"])?.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take();
        scratch.daemon = Some(child);
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.trim() == "ready" { Ok(scratch) } else { bail!("the daemon did not start") }
    }

    fn process(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        #[expect(clippy::disallowed_methods, reason = "the process is this program")]
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--home").arg(&self.home).args(arguments);
        Ok(command)
    }

    pub(super) fn mailbox(&self) -> PathBuf {
        self.home.join("ipc/g")
    }

    /// A file of one page, already allocated.
    pub(super) fn disk(&self) -> anyhow::Result<Disk> {
        Disk::open(&self.home.join("page"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // Nothing of the home is needed any more.
            daemon.kill().ok();
            daemon.wait().ok();
        }
        std::fs::remove_dir_all(&self.home).ok();
    }
}

impl Disk {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let mut file = File::create_new(path)?;
        file.write_all(&[0; PAGE])?;
        file.sync_all()?;
        Ok(Self(file))
    }

    /// Writes the page and waits until it is on the disk.
    pub(super) fn sync(&mut self) -> anyhow::Result<()> {
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(&[1; PAGE])?;
        Ok(self.0.sync_data()?)
    }
}
