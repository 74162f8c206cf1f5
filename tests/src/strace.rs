//! Faults in the system calls of a running process, put there by the program `strace`.

use crate::until;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The calls with which a host touches files: where a crash or a fault makes a difference. Not every machine has all
/// of them, which is what the question marks are for.
pub const FILE_CALLS: [&str; 14] = [
    "?open",
    "?openat",
    "?openat2",
    "?read",
    "?write",
    "?pwrite64",
    "?ftruncate",
    "?fsync",
    "?fdatasync",
    "?rename",
    "?renameat",
    "?renameat2",
    "?unlink",
    "?unlinkat",
];

/// A system call of a process: the `nth` of this name that a thread of this name makes.
///
/// `strace` counts for each thread and each call by itself, so this is what can be named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The thread's name.
    pub thread: String,
    /// The call.
    pub call: String,
    /// Which of them, from 1.
    pub nth: usize,
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// At that call.
    Once,
    /// At that call, and each of its name after it.
    FromThereOn,
}

/// A system call of a process that is just beginning: the `nth` of this name that any of its threads makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Begun {
    /// The call.
    pub call: String,
    /// Which of them, from 1.
    pub nth: usize,
}

/// The command that starts a program and sees all of its calls, written there. The child is the program itself.
pub fn watching(program: &Path, log: &Path) -> Command {
    let trace = format!("trace={}", FILE_CALLS.join(","));
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qq", "-e", &trace, "-o"]).arg(log).arg(program);
    command
}

/// The command that starts a program which is killed there.
pub fn killing(program: &Path, Begun { call, nth }: &Begun, log: &Path) -> Command {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=SIGKILL:when={nth}"));
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qq", "-e", &trace, "-e", &inject, "-o"]).arg(log).arg(program);
    command
}

/// The command that starts a program whose threads wait at each call of this name.
pub fn delaying(program: &Path, call: &str, by: Duration, log: &Path) -> Command {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:delay_enter={}", by.as_micros()));
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qq", "-e", &trace, "-e", &inject, "-o"]).arg(log).arg(program);
    command
}

/// The starts in a trace: each from the first touch of its home until it said that it is ready.
pub fn beginnings(trace: &str, home: &Path) -> Vec<Begun> {
    let home = home.display().to_string();
    let mut met: Vec<(&str, Begun)> = Vec::new();
    let mut first = None;
    for line in trace.lines() {
        let Some((tid, rest)) = line.split_once(' ') else { continue };
        let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
        if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        if arguments.starts_with("1, \"ready") {
            break;
        }
        if first.is_none() && arguments.contains(&home) {
            first = Some(met.len());
        }
        let nth = met.iter().filter(|(other, begun)| *other == tid && begun.call == call).count() + 1;
        met.push((tid, Begun { call: call.to_owned(), nth }));
    }
    let mut all: Vec<Begun> = met.into_iter().skip(first.unwrap_or(usize::MAX)).map(|(_, begun)| begun).collect();
    all.sort();
    all.dedup();
    all
}

/// `strace`, attached to threads of a process.
#[derive(Debug)]
pub struct Strace {
    child: Child,
    log: PathBuf,
    // Kept open, so that what it says at its end does not end it earlier.
    _errors: BufReader<ChildStderr>,
}

/// Why processes cannot be traced here, if they cannot.
pub fn missing() -> Option<&'static str> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let look = || match Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output() {
        Err(error) => Some(format!("strace cannot be started: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("strace may not trace here: {}", String::from_utf8_lossy(&output.stderr))),
    };
    MISSING.get_or_init(look).as_deref()
}

impl Strace {
    /// Attaches to these threads. When it returns, every call that begins from now on is seen.
    pub fn attach(threads: &[Pid], arguments: &[&str], log: &Path) -> Self {
        let mut command = Command::new("strace");
        command.arg("-o").arg(log).args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        for thread in threads {
            command.args(["-p", &thread.as_raw_nonzero().to_string()]);
        }
        let mut child = command.spawn().expect("strace starts");
        let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
        for _ in threads {
            let mut line = String::new();
            errors.read_line(&mut line).expect("its words");
            assert!(line.contains("attached"), "strace does not attach: {line}");
        }
        Self { child, log: log.to_owned(), _errors: errors }
    }

    /// Attaches to these threads, so that this happens at that point: `error=EIO`, `signal=SIGKILL`.
    pub fn inject(threads: &[(String, Pid)], point: &Point, fault: &str, lasting: Lasting, log: &Path) -> Self {
        let Point { thread, call, nth } = point;
        let pids: Vec<Pid> = threads.iter().filter(|(name, _)| name == thread).map(|(_, pid)| *pid).collect();
        let more = if lasting == Lasting::FromThereOn { "+" } else { "" };
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{fault}:when={nth}{more}"));
        Self::attach(&pids, &["-y", "-e", &trace, "-e", &inject], log)
    }

    /// Whether a fault has been put somewhere.
    pub fn has_struck(&self) -> bool {
        self.strikes() > 0
    }

    /// Whether a fault has been put into a call that names this.
    pub fn has_struck_at(&self, part: &str) -> bool {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().any(|line| line.contains("INJECTED") && line.contains(part))
    }

    /// How many faults there have been.
    pub fn strikes(&self) -> usize {
        std::fs::read_to_string(&self.log).map_or(0, |text| text.matches("INJECTED").count())
    }

    /// Whether a fault has been put where none ever is: what wakes a thread is no file.
    pub fn has_missed(&self) -> bool {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().any(|line| line.contains("INJECTED") && line.contains("anon_inode"))
    }

    /// Lets the process go on as if nothing had been, and returns what was seen.
    pub fn detach(mut self) -> String {
        self.end();
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn end(&mut self) {
        // It may have ended with what it traced.
        kill_process(Pid::from_child(&self.child), Signal::INT).ok();
        until("strace's end", || self.child.try_wait().ok().flatten());
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Every point that a trace of all threads (`-f`) has met, with the files that its call named. Of threads with the same
/// name, the busiest counts.
pub fn points(trace: &str, threads: &[(String, Pid)]) -> Vec<(Point, String)> {
    let mut seen: Vec<(String, Point, String)> = Vec::new();
    for line in trace.lines() {
        let Some((tid, rest)) = line.split_once(' ') else { continue };
        let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
        let of = |(_, pid): &&(String, Pid)| pid.as_raw_nonzero().to_string() == tid;
        let Some((thread, _)) = threads.iter().find(of) else { continue };
        if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let nth = seen.iter().filter(|(other, point, _)| other == tid && point.call == call).count() + 1;
        let point = Point { thread: thread.clone(), call: call.to_owned(), nth };
        seen.push((tid.to_owned(), point, arguments.to_owned()));
    }
    let mut points: Vec<(Point, String)> = seen.into_iter().map(|(_, point, arguments)| (point, arguments)).collect();
    points.sort();
    points.dedup_by(|(a, _), (b, _)| a == b);
    points
}
