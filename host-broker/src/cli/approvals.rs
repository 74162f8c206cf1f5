//! `approvals`: what waits for a person, and the person's answer.

mod relay;
mod watch;

use crate::approvals::{self as stored, Approval, Kind, State};
use crate::cli::Context;
use crate::cli::applying;
use crate::cli::ask::ask;
use crate::cli::output::{Fault, Output};
use crate::control::Control;
use clap::{Args, Subcommand};
use relay::Relay;
use rusqlite::Connection;
use serde_json::{Value, json};
use shared::Timestamp;
use watch::Watch;

/// Approvals: what waits for a person, and your answer.
///
/// A call that needs a person waits until one with `approves` in broker.toml says yes. Silence is a no.
#[derive(Debug, Args)]
pub struct Approvals {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what waits, oldest first.
    List(List),
    /// Show everything that will run, field by field.
    Show(Show),
    /// Say yes: it runs, once.
    Approve(Approve),
    /// Say no.
    Deny(Deny),
    /// Watch for approval requests and answer them as they arrive.
    Watch(Watch),
    /// Relay the answer that a person gave in a chat.
    Relay(Relay),
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {approvals: [{code, ref, caller, request_id, provider, action, level, state, became, \
    quorum, asked_at, expires_at, answers: [{by, channel, yes, reason, at}], card}]}"
)]
struct List {
    /// Also the latest that are over.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints one approval as `approvals list` has it; card is {head, params, conditions, \
    sent?, diff?, reasons}, or null once it is over")]
struct Show {
    /// Its code.
    code: String,
}

#[derive(Debug, Args)]
#[command(after_help = "You must have `approves` in your table of broker.toml. Look first: approvals show CODE.

--json prints the reply: {status, summary, data: {code, ref, state}, evidence: {…}}")]
struct Approve {
    /// Its code.
    code: String,
    /// Changes to files are made at once, and not when the agent asks for it.
    #[arg(long)]
    apply: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints the reply: {status, summary, data: {code, ref, state}, evidence: {…}}")]
struct Deny {
    /// Its code.
    code: String,
    /// Why; the agent is told.
    #[arg(long)]
    reason: Option<String>,
}

impl Approvals {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; what waits still waits.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        match self.command {
            Command::List(List { all }) => list(context, all),
            Command::Show(Show { code }) => show(context, &code),
            Command::Approve(Approve { code, apply }) => {
                let control = Control::Answer { code, yes: true, reason: None, apply };
                if apply { applying::ask(context, &control) } else { ask(context, &control) }
            }
            Command::Deny(Deny { code, reason }) => {
                ask(context, &Control::Answer { code, yes: false, reason, apply: false })
            }
            Command::Watch(Watch {}) => Watch::run(context),
            Command::Relay(relay) => relay.run(context),
        }
    }
}

/// How many that are over are listed.
const OVER_MAX: usize = 50;

fn list(context: &Context, all: bool) -> Result<(), Fault> {
    let mut found = Vec::new();
    let mut documents = Vec::new();
    if let Some(ledger) = context.ledger_if_any()? {
        found = stored::shown(&ledger)?;
        if all {
            found.extend(stored::closed(&ledger, OVER_MAX)?);
        }
        documents = found.iter().map(|approval| document(&ledger, approval)).collect::<Result<_, _>>()?;
    }
    let now = context.effects.clock.now();
    context.output.show(&json!({ "approvals": documents }), || {
        let rows: Vec<_> = found
            .iter()
            .map(|approval| {
                vec![
                    approval.code.clone(),
                    approval.caller.clone(),
                    format!("{}.{}", approval.provider, approval.action),
                    approval.level.to_string(),
                    standing(approval, now),
                ]
            })
            .collect();
        Output::table_or("Nothing waits for a person.", &["CODE", "WHO ASKS", "FOR", "LEVEL", "STATE"], &rows)
    });
    Ok(())
}

fn show(context: &Context, code: &str) -> Result<(), Fault> {
    let ledger = context.ledger()?;
    let Some(approval) = stored::with_code(&ledger, &code.to_ascii_lowercase())? else {
        return Err(Fault::missing(format!("there is no question `{code}`; see host-broker approvals list")));
    };
    let document = document(&ledger, &approval)?;
    context.output.show(&document, || text(context, &approval));
    Ok(())
}

/// The card, with what a person needs to answer it.
fn text(context: &Context, approval: &Approval) -> String {
    let now = context.effects.clock.now();
    let card = approval
        .card
        .as_ref()
        .map_or_else(|| "What would have run is no longer kept.\n".to_owned(), crate::approvals::card::Card::text);
    let head = format!("{} · {}", approval.code, standing(approval, now));
    let answer = if approval.state == State::Waiting {
        let what = format!("{}.{}", approval.provider, approval.action);
        let at_once = match approval.kind {
            Kind::File => "\n     (with --apply the change is made now, and not when the agent asks for it)",
            Kind::Call | Kind::Grant | Kind::Account | Kind::Definition | Kind::Flow => "",
        };
        let code = &approval.code;
        let program = context.program();
        format!("\nYes, {what}: {program} approvals approve {code}{at_once}\nNo:  {program} approvals deny {code}")
    } else {
        String::new()
    };
    format!("{head}\n{card}{answer}")
}

fn standing(approval: &Approval, now: Timestamp) -> String {
    match (&approval.became, approval.state) {
        (Some(became), _) => became.clone(),
        (None, State::Waiting) if approval.expires_at <= now => "expired".to_owned(),
        (None, State::Waiting) => match approval.expires_at.since(now).as_secs() {
            seconds @ ..7200 => format!("waits {seconds} s more"),
            seconds => format!("waits {} h more", seconds / 3600),
        },
        (None, state) => state.word().to_owned(),
    }
}

fn document(ledger: &Connection, approval: &Approval) -> Result<Value, Fault> {
    Ok(json!({
        "code": approval.code,
        "ref": approval.reference(),
        "caller": approval.caller,
        "request_id": approval.request_id,
        "provider": approval.provider,
        "action": approval.action,
        "level": approval.level,
        "state": approval.state,
        "became": approval.became,
        "quorum": approval.quorum,
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
        "answers": stored::answers(ledger, approval.id)?,
        "card": approval.card,
    }))
}
