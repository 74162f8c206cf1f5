//! The terminal of this process, which an agent uses while it runs.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr, tcsetpgrp};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;

/// The modes of a terminal that a program can leave behind: the second screen, pastes in brackets, reports of the mouse,
/// a hidden cursor, colours. Number 1049 is not among them, because it also moves the cursor of the first screen.
const RESET: &[u8] = b"\x1b[?1047l\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?25h\x1b[0m";

/// The state of the terminal, restored when it is dropped: a program that was killed may have left it without echo, and
/// a hostile one without a reader.
pub(crate) struct Terminal {
    settings: Option<Termios>,
    flags: Option<OFlags>,
}

impl Terminal {
    /// Returns the present state.
    pub(crate) fn now() -> Self {
        let input = io::stdin();
        Self { settings: tcgetattr(&input).ok(), flags: fcntl_getfl(&input).ok() }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let input = io::stdin();
        if let Some(flags) = self.flags {
            fcntl_setfl(&input, flags).ok();
        }
        let Some(settings) = &self.settings else { return };
        // A process that is not in the foreground would be stopped by its own change of the terminal.
        let mut mask = nix::sys::signal::SigSet::empty();
        mask.add(nix::sys::signal::Signal::SIGTTOU);
        if mask.thread_block().is_err() {
            return;
        }
        tcsetpgrp(input.as_fd(), getpgrp()).ok();
        // Input that the agent provoked, such as a report of the terminal, must not reach the shell.
        tcsetattr(&input, OptionalActions::Flush, settings).ok();
        mask.thread_unblock().ok();
        if io::stdout().is_terminal() {
            io::stdout().write_all(RESET).and_then(|()| io::stdout().flush()).ok();
        }
    }
}
