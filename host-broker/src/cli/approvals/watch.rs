//! `approvals watch`: a live inbox at the terminal.

use super::text;
use crate::approvals as stored;
use crate::cli::Context;
use crate::cli::ask::answer;
use crate::cli::output::Fault;
use crate::control::Control;
use clap::Args;
use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Watch for questions and answer them as they come.
///
/// Each question is shown in full as it comes in. Answer with a line: `yes CODE`, or `no CODE` and, if you like, why.
/// Ends with Ctrl-C or the end of the input.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints one line for each question, as `approvals show` has it, and the replies to answers"
)]
pub(super) struct Watch {}

/// How often it is looked for new questions.
const LOOK: Duration = Duration::from_millis(300);

impl Watch {
    pub(super) fn run(context: &Context) -> Result<(), Fault> {
        let ledger = context.ledger()?;
        let lines = typed();
        context
            .output
            .say("Each question is shown as it comes. Answer with a line: yes CODE, or: no CODE why. Ctrl-C ends it.");
        let mut shown = BTreeSet::new();
        loop {
            for approval in stored::shown(&ledger)? {
                if approval.state == stored::State::Waiting && shown.insert(approval.id) {
                    let document = super::document(&ledger, &approval)?;
                    context.output.show(&document, || text(context, &approval) + "\n");
                }
            }
            match lines.recv_timeout(LOOK) {
                Ok(line) => take(context, &line)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// The lines of the standard input, as they are typed.
fn typed() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn take(context: &Context, line: &str) -> Result<(), Fault> {
    let mut words = line.trim().splitn(3, char::is_whitespace);
    let (word, code, reason) = (words.next().unwrap_or_default(), words.next(), words.next());
    let yes = match word {
        "" => return Ok(()),
        "yes" | "y" | "approve" => true,
        "no" | "n" | "deny" => false,
        _ => {
            context.output.say("Type: yes CODE, or: no CODE why");
            return Ok(());
        }
    };
    let Some(code) = code else {
        context.output.say("Which one? Type its code too.");
        return Ok(());
    };
    let reason = reason.map(|reason| reason.trim().to_owned());
    // A no from the broker is an answer here, not the end.
    match context.output.reply(&answer(context, &Control::Answer { code: code.to_owned(), yes, reason, apply: false })?)
    {
        Ok(()) => {}
        Err(fault) => {
            context.output.fault(&fault);
        }
    }
    Ok(())
}
