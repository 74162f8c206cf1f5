//! `approvals watch`: a live inbox at the terminal.

use super::{document, text};
use crate::cli::Context;
use crate::cli::apply;
use crate::cli::ask::{ToHost, answer};
use crate::cli::output::CliError;
use crate::control::approvals::{ApprovalsRequest, read};
use clap::Args;
use engine::approval_requests::ApprovalAnswer;
use engine::approval_subjects;
use engine::request;
use model::approval::{Approval, ApprovalState};
use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Watch for approval requests and answer them as they arrive.
///
/// The command shows each request in full. To answer, type `yes CODE`, or `no CODE` with an optional reason. `apply
/// CODE` approves a change to files and applies it. For `no`, a name can replace the code, such as ask-7. The command ends
/// with Ctrl-C or at the end of its input.
#[derive(Debug, Args)]
#[command(after_help = "--json prints one line for each request, as in `approvals show`, and the reply to each answer")]
pub(super) struct Watch {}

/// The interval of the search for new approval requests.
const LOOK: Duration = Duration::from_millis(300);

impl Watch {
    pub(super) fn run(context: &Context) -> Result<(), CliError> {
        let ledger = context.ledger()?;
        let lines = typed();
        context
            .output
            .say("Waiting for approval requests. To answer, type: yes CODE, or: no CODE REASON. To stop: Ctrl-C.");
        let (pending, here) = (ApprovalsRequest { all: false, code: None }, ToHost::default());
        let mut shown = BTreeSet::new();
        loop {
            let is_new =
                |approval: &Approval| approval.state == ApprovalState::Waiting && !shown.contains(&approval.id);
            let found = read(&ledger, (&pending, false), is_new)?;
            for record in &found {
                let card = || format!("{}\n{}\n", text(context, &record.approval, &here), here_too(&record.approval));
                context.output.show(&document(record), card);
            }
            shown.extend(found.iter().map(|record| record.approval.id));
            match lines.recv_timeout(LOOK) {
                Ok(line) => take(context, &line)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// Returns the text that says how to answer an approval request in the watch.
fn here_too(approval: &Approval) -> String {
    let code = &approval.code;
    let is_applied = approval_subjects::of(approval.kind).is_applied_at_once();
    let apply = if is_applied { format!(", or: apply {code}") } else { String::new() };
    format!("Or type here: yes {code}, or: no {code} REASON{apply}")
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

fn take(context: &Context, line: &str) -> Result<(), CliError> {
    let mut words = line.trim().splitn(3, char::is_whitespace);
    let (word, code, reason) = (words.next().unwrap_or_default(), words.next(), words.next());
    let (yes, apply) = match word {
        "" => return Ok(()),
        "yes" | "y" | "approve" => (true, false),
        "apply" => (true, true),
        "no" | "n" | "deny" => (false, false),
        _ => {
            context.output.say("Type: yes CODE, or: no CODE REASON, or for a change to files: apply CODE");
            return Ok(());
        }
    };
    let Some(code) = code else {
        context.output.say("The code is missing. Type: yes CODE, or: no CODE REASON");
        return Ok(());
    };
    let reason = reason.map(|reason| reason.trim().to_owned());
    let command = request::Command::Answer(ApprovalAnswer::new(code.to_owned(), yes, reason, apply));
    // A refusal of the broker is an answer here, not the end.
    let said = if apply { apply::ask(context, command) } else { context.output.reply(&answer(context, command)?) };
    if let Err(fault) = said {
        context.output.fault(&CliError { text: context.at_home(&fault.text), ..fault });
    }
    Ok(())
}
