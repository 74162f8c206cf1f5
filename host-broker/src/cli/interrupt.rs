//! Interrupts: the signals that end a command which first has to remove what it has begun.
//!
//! Without this module, Ctrl-C ends a process at once. A command that calls [`watch`] ends at its next [`check`] instead.

use super::Context;
use super::output::CliError;
use rustix::process::{Signal, getpid, kill_process};
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// The number of the signal that was received; 0 before it. A process has one terminal, so it has one such state.
static RECEIVED: AtomicU8 = AtomicU8::new(0);
static ARRIVAL: Notify = Notify::const_new();
/// The signal of a closed terminal.
const HANGUP: u8 = 1;
/// The signals, by number: of the terminal, of a closed terminal, and of a service manager.
const SIGNALS: [u8; 3] = [2, HANGUP, 15];

/// Notes the signals from now on. A second one ends the process at once, unless it says again that the terminal is gone.
///
/// # Errors
/// [`CliError`] if the system does not register a signal.
pub(in crate::cli) fn watch(context: &Context) -> Result<(), CliError> {
    let _entered = context.platform.runtime.enter();
    let ignored = ignored();
    // A caller can ignore a signal for its children, as nohup(1) does.
    for number in SIGNALS.into_iter().filter(|number| !is_in(ignored, *number)) {
        let mut arrivals = signal(SignalKind::from_raw(number.into())).map_err(|error| CliError::internal(&error))?;
        context.platform.runtime.spawn(async move {
            while arrivals.recv().await.is_some() {
                // A closed terminal sends several: the kernel, and then the shell.
                if RECEIVED.swap(number, Ordering::SeqCst) != 0 && number != HANGUP {
                    kill_process(getpid(), Signal::KILL).ok();
                }
                ARRIVAL.notify_one();
            }
        });
    }
    Ok(())
}

/// Returns the signals that this process has ignored since its start, as bits of their numbers.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn is_in(mask: u64, number: u8) -> bool {
    let bit = u32::from(number).saturating_sub(1);
    mask.checked_shr(bit).is_some_and(|rest| rest & 1 == 1)
}

/// Returns whether a signal was received.
pub(in crate::cli) fn is_received() -> bool {
    RECEIVED.load(Ordering::SeqCst) != 0
}

/// Waits until a signal is received. One command waits at a time.
pub(in crate::cli) async fn received() {
    while !is_received() {
        ARRIVAL.notified().await;
    }
}

/// Ends the command if a signal was received.
///
/// # Errors
/// [`CliError`] with the exit code of the signal.
pub(in crate::cli) fn check() -> Result<(), CliError> {
    match RECEIVED.load(Ordering::SeqCst) {
        0 => Ok(()),
        number => Err(CliError::interrupted(number)),
    }
}

/// Returns the interrupt in place of an error that follows from it.
pub(in crate::cli) fn instead_of(error: CliError) -> CliError {
    check().err().unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_the_caller_ignores_is_in_the_mask_of_the_kernel() {
        // nohup(1): the hangup, number 1.
        assert_eq!([2, 1, 15].map(|number| is_in(0b1, number)), [false, true, false]);
        // A shell without job control starts a command with `&`: interrupt and quit.
        assert_eq!([2, 1, 15].map(|number| is_in(0b110, number)), [true, false, false]);
        assert!(!is_in(u64::MAX, 65));
    }
}
