//! A real calendar account: Radicale, for one test.

use crate::servers::{installed, misbehaving};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The password of the account.
pub const PASSWORD: &str = "calendar-pass-4Kd8sV1nQz";

/// The server with the account `ada`, which has the calendars `work` and `private`, and `bob`, which has `team`.
#[derive(Debug)]
pub struct CalendarServer {
    directory: TempDir,
    child: Child,
    /// The port.
    pub port: u16,
}

impl CalendarServer {
    /// Starts it; `None`, with the reason printed, where it is not installed.
    pub fn start() -> Option<Self> {
        let python = installed("radicale")?.join("bin/python");
        let directory = tempfile::Builder::new().prefix("calendar-").tempdir().unwrap();
        std::fs::write(directory.path().join("users"), format!("ada:{PASSWORD}\nbob:{PASSWORD}\n")).unwrap();
        for (path, name) in [("ada/work", "Work & more"), ("ada/private", "Private"), ("bob/team", "Team")] {
            let calendar = directory.path().join("storage/collection-root").join(path);
            std::fs::create_dir_all(&calendar).unwrap();
            let properties = format!(r#"{{"tag": "VCALENDAR", "D:displayname": "{name}"}}"#);
            std::fs::write(calendar.join(".Radicale.props"), properties).unwrap();
        }
        let script = misbehaving().with_file_name("caldav_server.py");
        let mut command = Command::new(python);
        command.arg(script).args([directory.path().join("storage"), directory.path().join("users")]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Some(Self { directory, child, port })
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Stores an event as somebody else's program does.
    pub fn store(&self, event: &str, lines: &str) {
        let text = format!("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//other//EN\n{}\nEND:VCALENDAR\n", lines.trim());
        std::fs::write(self.file(event), text.replace('\n', "\r\n")).unwrap();
    }

    /// The event as it is stored, without folds; `None` if there is none.
    pub fn stored(&self, event: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.file(event)).ok()?;
        Some(text.replace("\r\n ", "").replace("\r\n", "\n"))
    }

    /// The names of the events in a calendar.
    pub fn events(&self, calendar: &str) -> Vec<String> {
        let files = std::fs::read_dir(self.file(calendar)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    fn file(&self, path: &str) -> PathBuf {
        self.directory.path().join("storage/collection-root/ada").join(path)
    }
}

impl Drop for CalendarServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
