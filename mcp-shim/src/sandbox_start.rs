//! `mcp-shim sandbox-start PROGRAM ARGUMENT…`: the first program in a sandbox that `host-broker run` makes.
//!
//! It moves to a process group of its own, gives this group the terminal, and becomes the program. So the signals of the
//! terminal reach the program alone, and a signal of the program to its group reaches nobody outside of the sandbox. It is
//! internal to the broker.
//!
//! In a container (`container-start`) it first confines itself and all that it starts: the filter of an engine permits more
//! than that of the host's own sandboxes. There it usually is process 1, to which the kernel delivers no signal that would end it. So it starts itself once more,
//! collects the processes whose parents have ended, and ends with the program.

use confinement::Confinement;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{WaitOptions, WaitStatus, getpgrp, setpgid, wait};
use rustix::termios::tcsetpgrp;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The word on the command line in a sandbox that the host has made.
const NAME: &str = "sandbox-start";
/// The word in a container.
const CONTAINER: &str = "container-start";
/// The executable of this process.
const THIS: &str = "/proc/self/exe";

/// Becomes the program if the command line asks for it. As process 1, it returns the program's exit code. It returns
/// `None` for another command line.
///
/// # Errors
/// The reason why the program was not started.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<Result<u8, String>> {
    let mut arguments = arguments.into_iter().skip(1);
    let word = arguments.next()?;
    if word != NAME && word != CONTAINER {
        return None;
    }
    let Some(program) = arguments.next() else { return Some(Err(format!("{NAME}: the program is missing"))) };
    if word == CONTAINER {
        // SECURITY: for every process number. An engine can be configured to put a process of its own first.
        if let Err(error) = confinement::confine(Confinement::Agent) {
            return Some(Err(format!("{CONTAINER}: cannot confine the program: {error}")));
        }
        if std::process::id() == 1 {
            let ended = as_first(program, arguments);
            return Some(ended.map_err(|error| format!("{CONTAINER}: cannot start the program: {error}")));
        }
    }
    if let Err(error) = lead() {
        return Some(Err(format!("{NAME}: cannot make a process group: {error}")));
    }
    #[expect(clippy::disallowed_methods, reason = "this process is replaced by the program")]
    let error = Command::new(&program).args(arguments).exec();
    Some(Err(format!("cannot start {}: {error}", program.display())))
}

/// Starts the program, and waits for it. Until then it collects every process that its parent has left. Returns the
/// program's exit code, or 128 and the number of the signal that ended it.
fn as_first(program: OsString, arguments: impl Iterator<Item = OsString>) -> io::Result<u8> {
    #[expect(clippy::disallowed_methods, reason = "the child of process 1 is this program, which becomes another")]
    let child = Command::new(THIS).arg(NAME).arg(program).args(arguments).spawn()?;
    let child = rustix::process::Pid::from_child(&child);
    loop {
        if let Some((ended, status)) = rustix::io::retry_on_intr(|| wait(WaitOptions::empty()))?
            && ended == child
        {
            return Ok(code(status));
        }
    }
}

fn code(status: WaitStatus) -> u8 {
    let signalled = || status.terminating_signal().map(|signal| signal.saturating_add(128));
    status.exit_status().or_else(signalled).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Makes this process the leader of a group, which has the terminal if there is one.
fn lead() -> io::Result<()> {
    setpgid(None, None)?;
    let input = io::stdin();
    if !input.is_terminal() {
        return Ok(());
    }
    // A group in the background would be stopped when it takes the terminal.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTTOU);
    mask.thread_block()?;
    // It fails if the terminal is not that of this session; then nothing of it reaches the program anyway.
    tcsetpgrp(&input, getpgrp()).ok();
    mask.thread_unblock()?;
    // SECURITY: nobody outside learns that the program has stopped, so the terminal would be left without a reader.
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTSTP);
    stop.thread_block()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_command_lines_are_ignored() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(run(words(&["mcp-shim"])), None);
        assert_eq!(run(words(&["mcp-shim", "call", NAME])), None);
        for word in [NAME, CONTAINER] {
            assert!(run(words(&["mcp-shim", word])).is_some_and(|ended| ended.unwrap_err().contains("missing")));
        }
    }
}
