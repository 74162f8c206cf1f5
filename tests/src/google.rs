//! Google's services, in a stand-in of this machine.

use crate::skipped;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Google's services, in a stand-in that knows this token of ada.
#[derive(Debug)]
pub struct Google {
    process: Child,
    /// The port.
    pub port: u16,
    _seed: tempfile::NamedTempFile,
}

impl Google {
    /// Ada's access token.
    pub const TOKEN: &'static str = "ya29.standin-token-of-ada-5Rt8vK2m";

    /// Starts it; `None`, with the reason printed, where it is not installed.
    pub fn start() -> Option<Self> {
        let Some(emulate) = std::env::var_os("EXT_TEST_EMULATE").map(PathBuf::from) else {
            skipped("EXT_TEST_EMULATE does not name node_modules/emulate");
            return None;
        };
        let mut seed = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        write!(
            seed,
            "tokens:\n  {}: {{ login: ada@example.com, scopes: [] }}\ngoogle:\n  \
             users: [{{ email: ada@example.com, name: Ada }}]\n  \
             calendars: [{{ id: primary, user_email: ada@example.com, summary: Ada, primary: true, time_zone: UTC }}]\n  \
             calendar_events: [{{ id: kickoff, user_email: ada@example.com, calendar_id: primary, summary: Kickoff, \
             start_date_time: \"2026-11-30T09:00:00.000Z\", end_date_time: \"2026-11-30T09:30:00.000Z\" }}]\n",
            Self::TOKEN
        )
        .unwrap();
        let mut node = Command::new("node");
        node.arg("-r").arg(support().join("github/loopback.cjs")).arg(emulate.join("dist/index.js"));
        node.args(["start", "-s", "google", "-p", "4100", "--seed"]).arg(seed.path());
        let mut process = node.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| line.unwrap().strip_prefix("port ")?.parse().ok()).unwrap();
        // The rest of what it says is read, so that it does not wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { process, port, _seed: seed })
    }

    /// The file of an `OAuth` client.
    pub fn client() -> Value {
        json!({ "installed": { "client_id": "a", "client_secret": "b", "redirect_uris": ["http://localhost"] } })
    }

    /// The script that leads a Node program to it.
    pub fn script() -> PathBuf {
        support().join("google_root.mjs")
    }
}

fn support() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("support")
}

impl Drop for Google {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
