//! `logs`: the log of the daemon of a home.

use crate::cli::Context;
use crate::cli::home_reader::seconds;
use crate::cli::output::{CliError, visible};
use crate::log::files;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use shared::Timestamp;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// Show the log of the daemon.
///
/// The daemon keeps up to 16 MiB of its log in HOME/log. The command also works without a daemon.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker logs --level warn --since 1d
  host-broker logs --follow

--json prints the stored lines, one JSON object a line: {timestamp, level, target, fields: {message, …}}")]
pub struct Logs {
    /// The number of lines to print, counted from the last one.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    lines: usize,
    /// Print new lines until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// The lowest level to print.
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    level: LogLevel,
    /// Print only lines of this time until now, such as 30m, 12h or 7d.
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    since: Option<u64>,
}

/// The levels, from the most severe one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The pause between two looks for new lines.
const LOOK: Duration = Duration::from_millis(250);
/// The letters of a time that are compared: up to the second.
const SECOND: usize = 19;

/// One stored line.
struct Line {
    text: String,
    document: Map<String, Value>,
}

impl Line {
    /// Parses a line. Returns `None` for one that is not whole, such as one that a kill has cut.
    fn parse(text: String) -> Option<Self> {
        let Ok(Value::Object(document)) = serde_json::from_str(&text) else { return None };
        Some(Self { text, document })
    }

    fn member(&self, name: &str) -> &str {
        self.document.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn level(&self) -> LogLevel {
        LogLevel::from_str(self.member("level"), true).unwrap_or(LogLevel::Error)
    }

    /// Returns the line for people: the time, the level, the message and the other fields.
    fn human(&self) -> String {
        let mut shown = format!("{} {:5} ", self.member("timestamp"), self.member("level"));
        let fields = self.document.get("fields").and_then(Value::as_object);
        let message = fields.and_then(|fields| fields.get("message")?.as_str()).unwrap_or_default();
        shown.push_str(message);
        for (name, value) in fields.into_iter().flatten().filter(|(name, _)| *name != "message") {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            write!(shown, " {name}={value}").ok();
        }
        visible(&shown.replace('\n', "\\n"))
    }
}

impl Logs {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if there is no log, or it cannot be read.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let [older, newest] = files(&context.home);
        let now = context.platform.clock.now();
        let since = self.since.map(|seconds| now.minus(Duration::from_secs(seconds)));
        let failed = |error: &std::io::Error| {
            if error.kind() == ErrorKind::NotFound {
                CliError::missing(context.at_home("there is no log yet; a daemon writes it: host-broker serve"))
            } else {
                CliError::home(format!("cannot read {}: {error}", newest.display()))
            }
        };
        let mut reader = Reader::open(&newest).map_err(|error| failed(&error))?;
        let earlier = Reader::open(&older).ok();
        // A rotation in between has made the same file the older one.
        let earlier = earlier.filter(|earlier| earlier.inode != reader.inode);
        let mut lines = earlier.and_then(|mut earlier| earlier.rest().ok()).unwrap_or_default();
        lines.extend(reader.news(&newest).map_err(|error| failed(&error))?);
        let wanted: Vec<Line> = lines.into_iter().filter(|line| self.wants(line, since)).collect();
        let first = wanted.len().saturating_sub(self.lines);
        let mut is_open = print(context, wanted.get(first..).unwrap_or_default())?;
        while self.follow && is_open {
            std::thread::park_timeout(LOOK);
            let lines = reader.news(&newest).map_err(|error| failed(&error))?;
            let wanted: Vec<Line> = lines.into_iter().filter(|line| self.wants(line, None)).collect();
            is_open = print(context, &wanted)? && context.output.is_read();
        }
        Ok(())
    }

    fn wants(&self, line: &Line, since: Option<Timestamp>) -> bool {
        let is_recent = |since: Timestamp| line.member("timestamp").get(..SECOND) >= since.to_string().get(..SECOND);
        line.level() <= self.level && since.is_none_or(is_recent)
    }
}

/// Prints the lines. Returns `false` once nobody reads them.
fn print(context: &Context, lines: &[Line]) -> Result<bool, CliError> {
    context.output.lines(|out| {
        for line in lines {
            let text = if context.output.json { line.text.clone() } else { line.human() };
            writeln!(out, "{text}")?;
        }
        Ok(())
    })
}

/// Reads a file that grows.
struct Reader {
    file: BufReader<File>,
    inode: u64,
    // The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, std::io::Error> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(Self { file: BufReader::new(file), inode, begun: Vec::new() })
    }

    /// Reads the whole lines that are there.
    fn rest(&mut self) -> Result<Vec<Line>, std::io::Error> {
        let mut lines = Vec::new();
        while self.file.read_until(b'\n', &mut self.begun)? > 0 {
            if self.begun.ends_with(b"\n") {
                let text = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).trim_end().to_owned();
                lines.extend(Line::parse(text));
            }
        }
        Ok(lines)
    }

    /// Reads the lines that are new, also those of a file that has taken this one's place.
    fn news(&mut self, path: &Path) -> Result<Vec<Line>, std::io::Error> {
        let mut lines = self.rest()?;
        if std::fs::metadata(path).is_ok_and(|now| now.ino() != self.inode) {
            // Its last lines may have been written in between.
            lines.extend(self.rest()?);
            *self = Self::open(path)?;
            lines.extend(self.rest()?);
        }
        Ok(lines)
    }
}
