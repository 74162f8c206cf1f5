//! `mcp-shim sandbox-start PROGRAM ARGUMENT…`: the first program in a sandbox that `host-broker run` makes.
//!
//! It moves to a process group of its own, gives this group the terminal, and becomes the program. So the signals of the
//! terminal reach the program alone, and a signal of the program to its group reaches nobody outside of the sandbox. It is
//! internal to the broker.

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{getpgrp, setpgid};
use rustix::termios::tcsetpgrp;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The word on the command line.
const NAME: &str = "sandbox-start";

/// Becomes the program if the command line asks for it. Returns the reason only on failure.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<String> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != NAME {
        return None;
    }
    let Some(program) = arguments.next() else { return Some(format!("{NAME}: the program is missing")) };
    if let Err(error) = lead() {
        return Some(format!("{NAME}: cannot make a process group: {error}"));
    }
    #[expect(clippy::disallowed_methods, reason = "this process is replaced by the program")]
    let error = Command::new(&program).args(arguments).exec();
    Some(format!("cannot start {}: {error}", program.display()))
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
        assert!(run(words(&["mcp-shim", NAME])).is_some_and(|why| why.contains("missing")));
    }
}
