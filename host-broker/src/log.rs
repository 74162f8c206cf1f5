//! The log of a daemon: lines on standard error, and JSON lines in the home.
//!
//! ```text
//! HOME/log/broker.jsonl     the newest lines
//! HOME/log/broker.1.jsonl   the lines before them
//! ```
//! A log that cannot be written stops nothing. Each output has a thread and a bounded queue: if a terminal or a disk does
//! not keep up, lines are dropped.

use clap::ValueEnum;
use platform::Environment;
use platform::home::{Home, make_private_directory};
use std::fs::{File, OpenOptions};
use std::io::{Error, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

/// SECURITY: the SDK prints a server's text, of unknown content and length.
const FILTER: &str = "info,rmcp=off";
/// The variable with the format of the lines on standard error.
const FORMAT_VARIABLE: &str = "EXT_BROKER_LOG_FORMAT";
/// The bytes after which a file becomes the older one.
const FILE_BYTES: u64 = 8 * 1024 * 1024;
/// The longest time in which the waiting lines are written at the end.
const END: Duration = Duration::from_secs(2);
/// The most lines that wait for an output.
const LINES_MAX: usize = 8_192;

/// The format of the lines on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The running log. Dropping it writes the lines that wait, for two seconds at most.
#[must_use]
pub struct Log {
    workers: Vec<WorkerGuard>,
}

impl Drop for Log {
    /// Waits for the workers, but not for an output that stands still: the library would wait for it, and print that.
    fn drop(&mut self) {
        let (workers, (done, is_done)) = (std::mem::take(&mut self.workers), channel());
        let ending = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            drop(workers);
            done.send(()).ok();
        });
        if ending.is_ok() {
            is_done.recv_timeout(END).ok();
        }
    }
}

/// Returns the files of the log, the older one first.
pub fn files(home: &Home) -> [PathBuf; 2] {
    let directory = home.path().join("log");
    [directory.join("broker.1.jsonl"), directory.join("broker.jsonl")]
}

/// Starts the log: on standard error, and in the home if there is one.
pub fn start(environment: &Environment, format: LogFormat, home: Option<&Home>) -> Log {
    let (stderr, worker) = output(std::io::stderr());
    let mut workers = vec![worker];
    // The library would panic where it cannot report that it cannot write.
    let shown = fmt::layer().with_writer(stderr).with_ansi(false).log_internal_errors(false);
    let shown = match format {
        LogFormat::Text => shown.boxed(),
        LogFormat::Json => shown.json().boxed(),
    };
    let stored = home.map(|home| {
        let (file, worker) = output(LogFile::new(home));
        workers.push(worker);
        fmt::layer().json().with_writer(file).log_internal_errors(false)
    });
    // A command has one log, also if it starts several daemons.
    registry().with(filter(environment)).with(shown).with(stored).try_init().ok();
    Log { workers }
}

/// Returns the format that the environment names; text if it names none.
///
/// # Errors
/// The known formats.
pub fn format(environment: &Environment) -> Result<LogFormat, String> {
    let said = environment.get(FORMAT_VARIABLE).filter(|said| !said.is_empty());
    let Some(said) = said else { return Ok(LogFormat::Text) };
    LogFormat::from_str(said, true).map_err(|_unknown| format!("{FORMAT_VARIABLE} must be text or json"))
}

fn filter(environment: &Environment) -> EnvFilter {
    let said = environment.get("RUST_LOG").map_or("", String::as_str).split(',').map(str::trim);
    // A filter for a part of it would win over the one for all of it.
    let said: Vec<&str> = said.filter(|directive| !directive.is_empty() && !directive.contains("rmcp")).collect();
    if said.is_empty() {
        return EnvFilter::new(FILTER);
    }
    EnvFilter::try_new(format!("{},rmcp=off", said.join(","))).unwrap_or_else(|_bad| EnvFilter::new(FILTER))
}

fn output(writer: impl Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX).thread_name("log").finish(writer)
}

/// A file that becomes the older one when it is long.
struct LogFile {
    older: PathBuf,
    path: PathBuf,
    open: Option<(File, u64)>,
    bytes_max: u64,
    // The last write has failed, perhaps in the middle of a line.
    is_cut: bool,
}

impl LogFile {
    fn new(home: &Home) -> Self {
        let [older, path] = files(home);
        Self { older, path, open: None, bytes_max: FILE_BYTES, is_cut: false }
    }

    fn open(&self) -> Result<(File, u64), Error> {
        make_private_directory(self.path.parent().unwrap_or(&self.path))?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> Result<usize, Error> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let (mut file, mut bytes) = self.open.take().map_or_else(|| self.open(), Ok)?;
        if bytes > 0 && bytes.saturating_add(length) > self.bytes_max {
            std::fs::rename(&self.path, &self.older)?;
            (file, bytes) = self.open()?;
        }
        if self.is_cut {
            // A full disk has cut the line before.
            file.write_all(b"\n")?;
        }
        self.is_cut = true;
        file.write_all(line)?;
        self.is_cut = false;
        self.open = Some((file, bytes.saturating_add(length)));
        Ok(line.len())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_long_file_becomes_the_older_one_and_no_line_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().to_owned());
        let [older, path] = files(&home);
        for number in 0..25 {
            // Each start goes on with the file that is there.
            let mut file = LogFile { bytes_max: 40, ..LogFile::new(&home) };
            file.write_all(format!("line {number:04}\n").as_bytes()).unwrap();
        }
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&older), "line 0020\nline 0021\nline 0022\nline 0023\n");
        assert_eq!(read(&path), "line 0024\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // A single line is longer than a file.
        let mut file = LogFile { bytes_max: 3, ..LogFile::new(&home) };
        file.write_all(b"longer\n").unwrap();
        file.write_all(b"next\n").unwrap();
        assert_eq!((read(&older).as_str(), read(&path).as_str()), ("longer\n", "next\n"));
    }

    #[test]
    fn a_filter_of_the_environment_never_shows_the_sdk() {
        for (said, shown) in
            [("debug", "debug"), ("rmcp=trace,warn", "warn"), ("x=y=z", "info"), ("", "info"), ("rmcp=debug,", "info")]
        {
            let environment = Environment::from([("RUST_LOG".to_owned(), said.to_owned())]);
            let filter = filter(&environment).to_string();
            assert!(filter.contains("rmcp=off") && !filter.contains("rmcp=trace"), "{said}: {filter}");
            assert!(filter.contains(shown), "{said}: {filter}");
        }
    }
}
