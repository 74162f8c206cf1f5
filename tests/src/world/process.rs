//! The host of a world as a process of its own.

use super::{Running, World};
use crate::strace::{self, Begun};
use crate::{programs, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

impl World {
    /// Starts the real daemon; returns when it takes requests.
    pub fn start_process(&mut self) {
        self.spawn(Command::new(programs::programs().host_broker()));
    }

    /// Starts the real daemon. Returns whether it takes requests; its process may have ended.
    pub fn try_start_process(&mut self) -> bool {
        self.try_spawn(Command::new(programs::programs().host_broker()))
    }

    /// The same, as a user without any privilege, to whom the home is given. Says why, where that is not possible.
    ///
    /// # Errors
    /// The test itself has no privilege to do so, or that user cannot read what lies at `needs`.
    pub fn start_process_without_privilege(&mut self, needs: &Path) -> Result<(), String> {
        const NOBODY: u32 = 65534;
        if !rustix::process::geteuid().is_root() {
            self.start_process();
            return Ok(());
        }
        // That user cannot follow a handle of this process.
        let program = std::fs::read_link(programs::programs().host_broker()).unwrap();
        for path in [needs, &program] {
            let read = Command::new("/usr/bin/test").arg("-r").arg(path).uid(NOBODY).gid(NOBODY).status();
            if !read.is_ok_and(|status| status.success()) {
                return Err(format!("a user without privilege cannot read {}", path.display()));
            }
        }
        std::fs::set_permissions(self.root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let given = Command::new("chown").args(["-R", "65534:65534"]).arg(self.home()).status();
        assert!(given.unwrap().success());
        let mut command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY);
        self.spawn(command);
        Ok(())
    }

    /// The same, but a file that grows beyond the process's limit is an error for it and not its end.
    pub fn start_process_that_survives_limits(&mut self) {
        let mut shell = Command::new("/bin/sh");
        // An ignored signal stays ignored across `exec`.
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(programs::programs().host_broker());
        self.spawn(shell);
    }

    /// The same, with a log that cannot be written.
    pub fn start_process_without_log(&mut self) {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"]).arg(programs::programs().host_broker());
        self.spawn(shell);
    }

    /// The same, started by somebody who has this open, as number 9, and forgets to close it.
    pub fn start_process_with_descriptor(&mut self, open: &Path) {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec 9<\"$0\" && exec \"$@\""]).arg(open).arg(programs::programs().host_broker());
        self.spawn(shell);
    }

    /// Starts the real daemon, killed at that point of its beginning; whether it was ready nevertheless.
    pub fn start_process_that_dies_at(&mut self, point: &Begun) -> bool {
        let log = self.outside().join("beginning");
        self.try_spawn(strace::killing(&programs::programs().host_broker(), point, &log))
    }

    /// Starts the real daemon, which is slow to change how it handles signals.
    pub fn start_process_with_slow_signal_handlers(&mut self) {
        let log = self.outside().join("signals");
        let program = programs::programs().host_broker();
        self.spawn(strace::delaying(&program, "rt_sigaction", Duration::from_millis(50), &log));
    }

    /// Starts the real daemon, and tells with which system calls it touched files before it was ready.
    pub fn rehearse_a_start(&mut self) -> Vec<Begun> {
        let log = self.outside().join("rehearsal");
        self.spawn(strace::watching(&programs::programs().host_broker(), &log));
        strace::beginnings(&std::fs::read_to_string(log).unwrap(), &self.home())
    }

    fn spawn(&mut self, command: Command) {
        let is_ready = self.try_spawn(command);
        assert!(is_ready, "{}", self.daemon_log());
    }

    /// Whether it was ready before it ended.
    fn try_spawn(&mut self, mut command: Command) -> bool {
        let log = self.root.path().join("logs").join("daemon.log");
        let errors = std::fs::File::options().create(true).append(true).open(log).unwrap();
        command.args(["--home".as_ref(), self.home().as_os_str(), "serve".as_ref()]);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.running = Running::Process(child);
        line.trim() == "ready"
    }

    /// The daemon's process.
    pub fn pid(&self) -> Pid {
        match &self.running {
            Running::Process(child) => Pid::from_child(child),
            Running::Nothing | Running::Here(_) => panic!("there is no process"),
        }
    }

    /// Lets the host's process stand still, until [`Self::go_on`].
    pub fn stand_still(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let tasks = format!("/proc/{}/task", self.pid().as_raw_nonzero());
        let stands = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('T'))
        };
        until("a process that stands still", || std::fs::read_dir(&tasks).unwrap().all(stands).then_some(()));
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// The most memory that the daemon has had so far, in KiB.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel says it");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The daemon's threads, by name; the first is `main`.
    pub fn threads(&self) -> Vec<(String, Pid)> {
        let main = self.pid();
        let read = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", main.as_raw_nonzero())).unwrap();
            let thread = |entry: std::fs::DirEntry| {
                let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
                let id = entry.file_name().to_string_lossy().parse().ok()?;
                Some((name.trim().to_owned(), Pid::from_raw(id)?))
            };
            tasks.filter_map(|entry| thread(entry.unwrap())).collect::<Vec<_>>()
        };
        let mut threads = until("threads with names of their own", || {
            // A thread that has just begun still has the name of the one that made it.
            let threads = read();
            let (first, _) = threads.iter().find(|(_, pid)| *pid == main)?;
            (threads.iter().filter(|(name, _)| name == first).count() == 1).then(|| threads.clone())
        });
        for (name, _) in threads.iter_mut().filter(|(_, pid)| *pid == main) {
            "main".clone_into(name);
        }
        threads
    }

    /// Whether the daemon's process has ended by itself.
    pub fn has_died(&mut self) -> bool {
        match &mut self.running {
            Running::Process(child) => child.try_wait().unwrap().is_some(),
            Running::Nothing | Running::Here(_) => panic!("there is no process"),
        }
    }

    /// The log of the daemon's processes.
    pub fn daemon_log(&self) -> String {
        std::fs::read_to_string(self.root.path().join("logs").join("daemon.log")).unwrap_or_default()
    }

    /// `kill -9`, now.
    pub fn kill(&mut self) {
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Process(mut child) => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            Running::Nothing | Running::Here(_) => panic!("there is no process to kill"),
        }
    }

    /// The same, if there is a process.
    pub fn kill_if_it_runs(&mut self) {
        if matches!(self.running, Running::Process(_)) {
            self.kill();
        }
    }
}
