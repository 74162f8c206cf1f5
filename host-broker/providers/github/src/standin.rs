//! The stateful GitHub of `tests/support/github`, for tests: a stand-in process, and before it a proxy with faults.

use crate::scripted::Caller;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A token that the proxy lets in.
pub(super) const TOKEN: &str = "ghtok_octocat";

/// Both processes; they end with it.
pub(super) struct Standin {
    children: Vec<Child>,
    port: u16,
    log: PathBuf,
    seed: PathBuf,
}

impl Standin {
    /// Starts them, or says why not.
    pub(super) fn start(test: &str) -> Option<Self> {
        Self::with_seed(test, "")
    }

    /// The same, with these lines after those of `seed.yaml`.
    #[expect(clippy::disallowed_methods, reason = "a test may look at its environment and start what it needs")]
    pub(super) fn with_seed(test: &str, lines: &str) -> Option<Self> {
        let Some(emulate) = std::env::var_os("EXT_TEST_EMULATE").map(PathBuf::from) else {
            println!(
                "skipped: EXT_TEST_EMULATE does not name node_modules/emulate; see tests/support/github/README.md"
            );
            return None;
        };
        let support = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/support/github");
        let log = std::env::temp_dir().join(format!("ext-github-{}-{test}.jsonl", std::process::id()));
        let seed = log.with_extension("yaml");
        std::fs::write(&seed, std::fs::read_to_string(support.join("seed.yaml")).unwrap() + lines).unwrap();
        let mut node = Command::new("node");
        node.arg("-r").arg(support.join("loopback.cjs")).arg(emulate.join("dist/index.js"));
        node.args(["start", "-s", "github", "-p", "4100", "--seed"]).arg(&seed);
        let (node, upstream) = begin(&mut node)?;
        let mut python = Command::new("python3");
        python.arg(support.join("faultproxy.py")).args(["--tokens", TOKEN, "--log"]).arg(&log);
        python.arg("--upstream").arg(format!("http://127.0.0.1:{upstream}"));
        let mut standin = Self { children: vec![node], port: 0, log, seed };
        let (python, port) = begin(&mut python)?;
        standin.children.push(python);
        standin.port = port;
        Some(standin)
    }

    /// The proxy's base URL.
    pub(super) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A caller whose every request suffers a fault, or none.
    pub(super) fn caller(&self, fault: Option<&str>) -> Caller {
        let prefix = fault.map_or_else(String::new, |name| format!("/fault-{name}"));
        Caller::with_token(&format!("{}{prefix}", self.base()), TOKEN)
    }

    /// Every request that the proxy saw.
    pub(super) fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Already gone is as good.
            drop(child.kill());
            drop(child.wait());
        }
        drop(std::fs::remove_file(&self.log));
        drop(std::fs::remove_file(&self.seed));
    }
}

/// Starts a server and waits for the port that it prints.
fn begin(command: &mut Command) -> Option<(Child, u16)> {
    let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(why) => {
            println!("skipped: {} cannot be started: {why}", command.get_program().display());
            return None;
        }
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = lines.find_map(|line| line.strip_prefix("port ")?.trim().parse().ok());
    // Its later output is not needed; but a full pipe would stop it.
    std::thread::spawn(move || lines.for_each(drop));
    Some((child, port.expect("the server printed no port")))
}
