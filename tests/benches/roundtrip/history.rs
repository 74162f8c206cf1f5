//! The figures of earlier runs: `tests/benches/history.jsonl`, one line for each run.
//!
//! A line is `{"bench", "at", "commit", "machine", "figures": {NAME: NUMBER}}`. Each run prints the change of its figures
//! since the last line of the same bench and machine that has them. With the argument `save` it appends its own line.

use serde_json::{Map, Value, json};
use shared::Timestamp;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The figures of one run.
pub(crate) struct History {
    bench: &'static str,
    figures: Vec<(String, f64)>,
}

impl History {
    pub(crate) fn of(bench: &'static str) -> Self {
        Self { bench, figures: Vec::new() }
    }

    /// Adds a figure. Its name has its unit.
    pub(crate) fn add(&mut self, name: impl Into<String>, figure: f64) {
        self.figures.push((name.into(), figure));
    }

    /// Prints the changes, and appends a line if the arguments have the word `save`.
    pub(crate) fn close(self) {
        let (path, machine) = (path(), machine());
        let lines = std::fs::read_to_string(&path).unwrap_or_default();
        let is_same = |line: &Value| line["bench"] == self.bench && line["machine"] == *machine;
        let earlier: Vec<Value> =
            lines.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(is_same).collect();
        println!("\n{:<48} {:>9} {:>9} {:>8}   since", "change", "before", "now", "%");
        for (name, now) in &self.figures {
            let of = |line: &Value| line["figures"][name.as_str()].as_f64();
            let Some((line, before)) = earlier.iter().rev().find_map(|line| Some((line, of(line)?))) else { continue };
            let change = if before == 0.0 { 0.0 } else { (now / before - 1.0) * 100.0 };
            let since = format!("{}, {}", text(line, "at"), text(line, "commit"));
            println!("{name:<48} {before:>9.1} {now:>9.1} {change:>+8.1}   {since}");
        }
        if std::env::args().any(|argument| argument == "save") {
            let tenths = |figure: f64| (figure * 10.0).round() / 10.0;
            let figures: Map<String, Value> =
                self.figures.into_iter().map(|(name, figure)| (name, json!(tenths(figure)))).collect();
            let line = json!({
                "bench": self.bench, "at": now(), "commit": commit(), "machine": machine, "figures": figures,
            });
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            writeln!(file, "{line}").unwrap();
        }
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/history.jsonl")
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}

fn now() -> Timestamp {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    Timestamp::from_millis(i64::try_from(millis).unwrap())
}

/// The commit that is measured, with a mark if the tree differs from it.
fn commit() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty", "--exclude=*"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// The processors. Figures of different machines are not compared.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> =
        cpus.lines().filter_map(|line| line.strip_prefix("model name")?.split(": ").nth(1)).collect();
    format!("{} × {}", models.len(), models.first().copied().unwrap_or("unknown"))
}
