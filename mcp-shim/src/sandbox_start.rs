//! `mcp-shim sandbox-start PROGRAM ARGUMENT…`: the first program in a sandbox that `host-broker run` makes.
//!
//! It moves to a process group of its own, gives this group the terminal, and becomes the program. So the signals of the
//! terminal reach the program alone, and a signal of the program to its group reaches nobody outside of the sandbox. It is
//! internal to the broker.
//!
//! In a container it is process 1, to which the kernel delivers no signal that would end it. So it starts itself once more,
//! and waits for all processes of the container. Before, it confines itself and them, as the host does with the sandboxes
//! that it makes: the filter of an engine permits more.

use confinement::Confinement;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{WaitOptions, WaitStatus, getpgrp, setpgid, wait};
use rustix::termios::tcsetpgrp;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The word on the command line.
const NAME: &str = "sandbox-start";
/// The executable of this process.
const THIS: &str = "/proc/self/exe";

/// Becomes the program if the command line asks for it. As process 1, it returns the program's exit code. It returns
/// `None` for another command line.
///
/// # Errors
/// The reason why the program was not started.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<Result<u8, String>> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != NAME {
        return None;
    }
    let Some(program) = arguments.next() else { return Some(Err(format!("{NAME}: the program is missing"))) };
    if std::process::id() == 1 {
        let ended = as_first(program, arguments);
        return Some(ended.map_err(|error| format!("{NAME}: cannot confine the program: {error}")));
    }
    if let Err(error) = lead() {
        return Some(Err(format!("{NAME}: cannot make a process group: {error}")));
    }
    #[expect(clippy::disallowed_methods, reason = "this process is replaced by the program")]
    let error = Command::new(&program).args(arguments).exec();
    Some(Err(format!("cannot start {}: {error}", program.display())))
}

/// Starts the program, and waits for it and for every process that its parent has left. Returns the program's exit code,
/// or 128 and the number of the signal that ended it.
fn as_first(program: OsString, arguments: impl Iterator<Item = OsString>) -> io::Result<u8> {
    confinement::confine(Confinement::Agent)?;
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
        assert!(run(words(&["mcp-shim", NAME])).is_some_and(|ended| ended.unwrap_err().contains("missing")));
    }
}
