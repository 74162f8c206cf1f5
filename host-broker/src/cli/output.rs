//! Printing: the only file that writes to standard output and standard error.

use super::colour::{self, Style};
use model::errors::chain;
use rustix::event::{PollFd, PollFlags};
use serde_json::{Map, Value};
use std::io::IsTerminal as _;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The first fault of standard output. A process has one standard output, so it has one such fault.
static LOST: OnceLock<String> = OnceLock::new();

/// The output of a command that is captured now. A process has one standard output, so it captures one at a time.
static CAPTURED: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// As one JSON document.
    pub json: bool,
    /// With colours, for people.
    pub has_colours: bool,
}

/// Why a command ends without its result.
#[derive(Debug)]
pub struct CliError {
    /// The exit code.
    pub code: u8,
    /// The fault and the next step, for a person.
    pub text: String,
    /// The further members of `--json`.
    pub details: Map<String, Value>,
    /// Whether a person has been told already, so that only the code is left to give.
    pub is_told: bool,
}

impl CliError {
    fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), details: Map::new(), is_told: false }
    }

    /// Something inside failed.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        Self::new(1, chain(error))
    }

    /// A check failed: evidence that is broken, a demonstration that is not true.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(5, text)
    }

    /// Something did not happen in time.
    pub fn stuck(text: impl Into<String>) -> Self {
        Self::new(1, text)
    }

    /// There is nothing of that name.
    pub fn missing(text: impl Into<String>) -> Self {
        Self::new(3, text)
    }

    /// The arguments do not fit.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(2, text)
    }

    /// The broker said no.
    pub fn refused(text: impl Into<String>) -> Self {
        Self::new(3, text)
    }

    /// The configuration cannot be used.
    pub fn configuration(error: &dyn std::error::Error) -> Self {
        Self::new(4, chain(error))
    }

    /// The home lacks something.
    pub fn home(text: impl Into<String>) -> Self {
        Self::new(4, text)
    }

    /// A provider does not work.
    pub fn provider(text: impl Into<String>) -> Self {
        Self::new(5, text)
    }

    /// A signal of this number ended the command.
    pub fn interrupted(signal: u8) -> Self {
        Self::new(signal.saturating_add(128), "interrupted")
    }

    /// A program that this command ran ended with this code, or the result tells the fault. Nothing more is printed.
    pub fn exited(code: u8) -> Self {
        Self { is_told: true, ..Self::new(code, "") }
    }

    /// Adds a consequence to the text.
    #[must_use]
    pub fn and_so(mut self, consequence: &str) -> Self {
        self.text = format!("{}; {consequence}", self.text.trim_end_matches('.'));
        self
    }

    /// Adds a member to the output of `--json`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

impl Output {
    /// Prints a result: `human` for people, or the document.
    pub fn show(self, document: &Value, human: impl FnOnce() -> String) {
        let text = if self.json { document.to_string() } else { colour::painted(&visible(&human()), self.has_colours) };
        self.line(&text);
    }

    /// Prints a document for storage or for a program as it is, but on a terminal like [`Output::show`].
    pub fn raw(self, document: &Value, text: impl FnOnce() -> String) {
        if self.json || std::io::stdout().is_terminal() {
            return self.show(document, text);
        }
        self.line(&text());
    }

    /// Prints a line. [`Output::is_whole`] says later whether it could be written.
    pub fn line(self, text: &str) {
        // A reader that went away needs no more lines.
        if let Err(fault) = self.lines(|out| writeln!(out, "{}", text.trim_end_matches('\n'))) {
            LOST.set(fault.text).ok();
        }
    }

    /// Checks that the whole output could be written to standard output. `remedy` is the operator's next step if not.
    ///
    /// # Errors
    /// [`CliError`] with the system's reason; the effect of the command stays.
    pub fn is_whole(self, remedy: &str) -> Result<(), CliError> {
        match LOST.get() {
            None => Ok(()),
            Some(why) => Err(CliError::stuck(format!("cannot write the result to standard output: {why}; {remedy}"))),
        }
    }

    /// Prints the output of `write`, for results too long for memory; `false` once the output is closed.
    ///
    /// # Errors
    /// [`CliError`] if it cannot be written for another reason, such as a full disk.
    pub fn lines(self, write: impl FnOnce(&mut dyn Write) -> Result<(), std::io::Error>) -> Result<bool, CliError> {
        if let Some(captured) = &mut *captured() {
            return write(captured).map(|()| true).map_err(|error| CliError::internal(&error));
        }
        let mut out = std::io::stdout().lock();
        match write(&mut out).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(CliError::internal(&error)),
        }
    }

    /// Runs a command, and returns its result with what it would have printed.
    pub fn captured(self, run: impl FnOnce() -> Result<(), CliError>) -> (Result<(), CliError>, String) {
        *captured() = Some(Vec::new());
        let result = run();
        let bytes = captured().take().unwrap_or_default();
        (result, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a fault as it is printed.
    pub fn fault_text(self, fault: &CliError) -> String {
        if !self.json {
            return format!("host-broker: {}\n", colour::painted(&visible(&fault.text), false));
        }
        let mut document = fault.details.clone();
        document.insert("error".into(), fault.text.clone().into());
        document.insert("exit".into(), fault.code.into());
        format!("{}\n", Value::Object(document))
    }

    /// Returns whether somebody still reads standard output: a pipe tells it without a write.
    pub fn is_read(self) -> bool {
        let stdout = std::io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = rustix::event::poll(&mut fds, Some(&now));
        ready.is_err() || fds.iter().all(|fd| !fd.revents().contains(PollFlags::ERR))
    }

    /// Says something to a person, beside the result.
    pub fn say(self, text: &str) {
        writeln!(std::io::stderr().lock(), "{}", colour::painted(&visible(text), false)).ok();
    }

    /// Prints a fault and gives its exit code.
    pub fn fault(self, fault: &CliError) -> ExitCode {
        if fault.is_told {
            return ExitCode::from(fault.code);
        }
        if self.json && LOST.get().is_none() {
            self.line(&self.fault_text(fault));
        } else {
            self.say(Self { json: false, ..self }.fault_text(fault).trim_end_matches('\n'));
        }
        ExitCode::from(fault.code)
    }

    /// Prints the broker's reply to a command.
    ///
    /// # Errors
    /// [`CliError`] if the broker said no.
    pub fn reply(self, reply: &Value) -> Result<(), CliError> {
        refusal(reply).map_or(Ok(()), Err)?;
        self.show(reply, || reply.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned());
        Ok(())
    }

    /// The table, or a sentence if it has no rows.
    pub fn table_or(none: &str, head: &[&str], rows: &[Vec<String>]) -> String {
        if rows.is_empty() { none.to_owned() } else { Self::table(head, rows) }
    }

    /// A table for people: left-aligned columns, as wide as they need to be.
    pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
        let cell = |cell: &String| colour::without_marks(&visible(&cell.replace('\n', "\\n")));
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain(head.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let line = |cells: Vec<&str>, style: fn(&str) -> Option<Style>| {
            let last = cells.len().saturating_sub(1);
            let columns = cells.iter().zip(&widths).enumerate();
            let shown = columns.map(|(column, (cell, width))| {
                let missing = if column == last { 0 } else { width.saturating_sub(cell.chars().count()) };
                format!("{}{}", colour::marked(cell, style(cell)), " ".repeat(missing))
            });
            shown.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines = vec![line(head.to_vec(), |_| Some(Style::Head))];
        lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect(), colour::of_state)));
        lines.join("\n")
    }
}

fn captured() -> MutexGuard<'static, Option<Vec<u8>>> {
    CAPTURED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time until the first report of long work, and between two reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between two reports of work of which only the time is known.
const LONG_INTERVAL: Duration = Duration::from_secs(5);

/// Reports of work that may take long, on standard error if that is a terminal. With `--json` there are none.
#[derive(Debug)]
pub struct Progress {
    output: Output,
    is_shown: bool,
    reported: Instant,
}

impl Progress {
    /// Work that begins now.
    pub fn new(output: Output) -> Self {
        Self::at(Instant::now(), output, std::io::stderr().is_terminal())
    }

    fn at(now: Instant, output: Output, has_terminal: bool) -> Self {
        Self { output, is_shown: has_terminal && !output.json, reported: now }
    }

    /// Prints the progress of the work, at most once in an interval.
    pub fn report(&mut self, text: impl FnOnce() -> String) {
        if self.is_due(Instant::now()) {
            self.output.say(&text());
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.is_shown && now.saturating_duration_since(self.reported) >= INTERVAL;
        if is_due {
            self.reported = now;
        }
        is_due
    }

    /// Does work of which only the time is known. Each report has this text with the seconds.
    pub fn during<R>(output: Output, text: &str, work: impl FnOnce() -> R) -> R {
        let progress = Self::new(output);
        if !progress.is_shown {
            return work();
        }
        let (over, ended) = channel::<()>();
        let text = text.to_owned();
        let reporting = std::thread::spawn(move || {
            let mut next = INTERVAL;
            while ended.recv_timeout(next) == Err(RecvTimeoutError::Timeout) {
                output.say(&format!("{text} ({} s) …", progress.reported.elapsed().as_secs()));
                next = LONG_INTERVAL;
            }
        });
        let done = work();
        drop(over);
        // No report after the result.
        reporting.join().ok();
        done
    }
}

/// Returns the error if the broker's reply to a command is a no.
pub fn refusal(reply: &Value) -> Option<CliError> {
    let text = |name: &str| reply.get(name).and_then(Value::as_str).unwrap_or_default();
    let fault = (text("status") != "executed").then(|| CliError::refused(as_error(text("error"))))?;
    Some(match text("code") {
        "" => fault,
        code => fault.with("code", code),
    })
}

/// The command that lists the names, by the beginning of a reply about an unknown one. Agents get these replies, too,
/// and have no commands.
const LISTS: [(&str, &str); 6] = [
    ("There is no approval request", "approvals list"),
    ("There is no gate", "gate list"),
    ("There is no group", "group list"),
    ("There is no open task", "task list"),
    ("There is no provider", "provider list"),
    ("There is no token", "operator-token list"),
];

/// Returns a reply's sentence in the form of an error: lower case, without a period, with the next step.
fn as_error(sentence: &str) -> String {
    const FIRST_WORDS: [&str; 9] = ["A", "An", "It", "No", "Nothing", "The", "There", "This", "You"];
    // Several sentences stay sentences.
    if sentence.contains(". ") {
        return sentence.to_owned();
    }
    // A sentence that names a command has its next step.
    let names_one = sentence.contains("host-broker ");
    let next = LISTS.iter().find(|(beginning, _)| !names_one && sentence.starts_with(beginning));
    let next = next.map_or_else(String::new, |(_, command)| format!("; see: host-broker {command}"));
    let text = sentence.strip_suffix('.').unwrap_or(sentence);
    match text.split_once(' ') {
        Some((first, rest)) if FIRST_WORDS.contains(&first) => format!("{} {rest}{next}", first.to_lowercase()),
        _ => format!("{text}{next}"),
    }
}

/// Returns the time since an event in whole units. So a watched page changes once a minute at most.
pub(super) fn ago(elapsed: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = elapsed.as_secs();
    let unit = [(DAY, "d"), (HOUR, "h"), (MINUTE, "min")].into_iter().find(|(unit, _)| seconds >= *unit);
    unit.map_or_else(|| "less than a minute ago".to_owned(), |(unit, word)| format!("{} {word} ago", seconds / unit))
}

/// Makes every character visible that a terminal would obey rather than show.
///
/// Titles and summaries hold agents' text, which must not be able to redraw the text beside it.
///
/// ```
/// assert_eq!(host_broker::cli::output::visible("a\u{1b}[2Jb\u{202e}\n"), "a\\u{1b}[2Jb\\u{202e}\n");
/// ```
pub fn visible(text: &str) -> String {
    let obeyed = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if obeyed(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_of_a_reply_becomes_an_error_with_the_next_step() {
        for (sentence, error) in [
            ("There is no group 'nobody'.", "there is no group 'nobody'; see: host-broker group list"),
            ("There is no open task 't'.", "there is no open task 't'; see: host-broker task list"),
            ("There is no group 'x'; run: host-broker reload.", "there is no group 'x'; run: host-broker reload"),
            ("The code is wrong.", "the code is wrong"),
            // A name of its own, and several sentences.
            ("GitHub does not answer.", "GitHub does not answer"),
            ("The call waits. Nobody was asked.", "The call waits. Nobody was asked."),
            ("", ""),
        ] {
            assert_eq!(as_error(sentence), error);
        }
    }

    #[test]
    fn progress_is_reported_once_a_second_on_a_terminal_only() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut progress = Progress::at(start, Output { json: false, has_colours: false }, true);
        let due = [999, 1000, 1001, 1999, 2000].map(|millis| progress.is_due(after(millis)));
        assert_eq!(due, [false, true, false, false, true]);
        for (json, has_terminal) in [(false, false), (true, true), (true, false)] {
            let mut progress = Progress::at(start, Output { json, has_colours: false }, has_terminal);
            assert!(!progress.is_due(after(5000)), "json {json}, terminal {has_terminal}");
        }
    }
}
