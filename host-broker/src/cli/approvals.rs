//! `approvals`: approval requests, and their answers.

mod access;
mod relay;
mod standing;
mod watch;

use crate::cli::Context;
use crate::cli::apply;
use crate::cli::ask::{ToHost, answer, ask, running};
use crate::cli::output::{CliError, Output, refusal};
use crate::cli::terminal::{confirm, is_readable, shows_output};
use crate::control::ProcessRequest;
use crate::control::approvals::{ApprovalRecord, ApprovalsRequest, read, read_reply};
use crate::story::on_behalf;
use access::Access;
use clap::{Args, Subcommand};
use engine::approval_requests::ApprovalAnswer;
use engine::approval_subjects;
use engine::request;
use model::approval::{Approval, ApprovalReason, ApprovalState, SubjectKind};
use relay::Relay;
use serde_json::{Value, json};
use shared::{Level, Timestamp};
use standing::{Later, Standing};
use store::state::approvals as stored;
use watch::Watch;

/// List, inspect and answer approval requests.
///
/// A call that requires an approval waits for a person with `approves` in broker.toml. If nobody answers before the
/// request expires, the broker refuses the call.
#[derive(Debug, Args)]
pub struct Approvals {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the pending approval requests, oldest first.
    List(List),
    /// Show an approval request with every field of the call.
    Show(Show),
    /// Approve a request; the broker executes the call once.
    Approve(Approve),
    /// Deny a request.
    Deny(Deny),
    /// List and end standing approvals.
    Standing(Standing),
    /// Watch for approval requests and answer them as they arrive.
    Watch(Watch),
    /// Relay the answer that a person gave in a chat.
    Relay(Relay),
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {approvals: [{code, ref, kind, caller, person, request_id, provider, action, level, state, \
    became, quorum, asked_at, expires_at, answers: [{by, channel, yes, reason, at}], card}]}"
)]
struct List {
    /// Include the latest closed requests.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    host: ToHost,
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints one element of `approvals list`. card is {head, params, conditions, sent?, diff?, \
    reasons}, or null after the request is closed"
)]
struct Show {
    /// The approval code, or the name of the request, such as ask-7.
    code: String,
    #[command(flatten)]
    host: ToHost,
}

#[derive(Debug, Args)]
#[command(
    after_help = "You must have `approves` in your table of broker.toml. First read the card: approvals show CODE.

With a name, such as ask-7, the command shows the card and asks. It needs a terminal for that.

With --for, later calls with the same caller, action and parameters need no further approval.
`approvals show` names the parameters that may differ. For a request for access, --for is the time of the access.

Examples:
  host-broker approvals approve k7f3qd
  host-broker approvals approve k7f3qd --for 8h
  host-broker approvals approve k7f3qd --for 30d --fix subject --trifecta
  host-broker approvals approve k7f3qd --level 1 --actions list_messages --for 2h

--json prints the reply: {status, summary, data: {code, ref, state, standing?}, evidence: {…}}"
)]
struct Approve {
    /// The approval code, or on a terminal the name of the request, such as ask-7.
    code: String,
    /// Apply a change to files now, without a request of the agent.
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    later: Later,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    host: ToHost,
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints the reply: {status, summary, data: {code, ref, state}, evidence: {…}}")]
struct Deny {
    /// The approval code, or the name of the request, such as ask-7.
    code: String,
    /// The reason; the agent receives it.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    host: ToHost,
}

impl Approvals {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; the pending approval requests are unchanged.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::List(List { all, host }) => list(context, all, &host),
            Command::Show(Show { code, host }) => show(context, &code, &host),
            Command::Standing(standing) => standing.run(context),
            Command::Approve(approve) => give(context, approve),
            Command::Deny(Deny { code, reason, host }) => {
                let denial = ApprovalAnswer::new(code, false, reason, false);
                ask(context, host.request(request::Command::Answer(denial)))
            }
            Command::Watch(Watch {}) => Watch::run(context),
            Command::Relay(relay) => relay.run(context),
        }
    }
}

fn give(context: &Context, Approve { code, apply, later, access, host }: Approve) -> Result<(), CliError> {
    // The broker knows whether the time is that of a standing approval, or of the access.
    let (standing, access) = (later.scope(), access.scope());
    let code = if stored::is_name(&code) {
        let Some(own) = confirmed(context, &code, standing.is_some() || access.is_some(), &host)? else {
            context.output.line("Nothing was approved.");
            return Ok(());
        };
        own
    } else {
        code
    };
    let answer = ApprovalAnswer { standing, access, ..ApprovalAnswer::new(code, true, None, apply) };
    let command = request::Command::Answer(answer);
    if host.is_other() {
        return ask(context, host.request(command));
    }
    if apply {
        return apply::ask(context, command);
    }
    ask(context, command)?;
    if running(context).is_ok_and(|hello| hello.is_none()) {
        context.output.say("host-broker: no daemon is running; what was approved runs after: host-broker serve");
    }
    Ok(())
}

/// Shows the card of the approval request with this name, and asks. Returns its code after a yes, and otherwise `None`.
///
/// SECURITY: an agent knows the name, and a script could pass it on. So only a person who has seen the card gives a yes.
fn confirmed(context: &Context, name: &str, has_options: bool, host: &ToHost) -> Result<Option<String>, CliError> {
    let (output, program) = (context.output, context.program());
    let name = name.trim().to_ascii_lowercase();
    let with_code = || {
        format!("use the code that is beside the card; to see it: {program} approvals show {name}{}", host.argument())
    };
    if !shows_output(output) {
        return Err(CliError::refused(format!("without a terminal, an approval needs the code: {}", with_code())));
    }
    let approval = found(context, &name, host)?.approval;
    let now = context.platform.clock.now();
    if approval.state != ApprovalState::Waiting || approval.expires_at <= now {
        return Err(CliError::refused(format!("it is too late: {name} is {}", standing(&approval, now))));
    }
    let card = card(context, &approval);
    if approval.card.is_none() || !is_readable(&card) {
        return Err(CliError::refused(format!("the card of {name} is too long to ask about: {}", with_code())));
    }
    output.show(&Value::Null, || card);
    output.is_whole("nothing was approved")?;
    let question =
        if has_options { "Approve this, with the options of this command?" } else { "Approve exactly this?" };
    Ok(confirm(output, question, None)?.then_some(approval.code))
}

/// Returns the approval request with this code or name.
fn found(context: &Context, code: &str, host: &ToHost) -> Result<ApprovalRecord, CliError> {
    let wanted = ApprovalsRequest { all: true, code: Some(code.to_owned()) };
    let missing = || {
        CliError::missing(format!(
            "there is no approval request `{code}`; see {} approvals list{}",
            context.program(),
            host.argument()
        ))
    };
    wanted_of(context, wanted, host)?.into_iter().next().ok_or_else(missing)
}

/// Reads the wanted approval requests: from the ledger, or from the daemon of another host.
fn wanted_of(context: &Context, wanted: ApprovalsRequest, host: &ToHost) -> Result<Vec<ApprovalRecord>, CliError> {
    if !host.is_other() {
        let ledger = if wanted.code.is_some() { Some(context.ledger()?) } else { context.ledger_if_any()? };
        let read = ledger.map(|ledger| read(&ledger, (&wanted, false), |_| true)).transpose()?;
        return Ok(read.unwrap_or_default());
    }
    let reply = answer(context, host.clone().request(ProcessRequest::Approvals(wanted)))?;
    refusal(&reply).map_or(Ok(()), Err)?;
    read_reply(&reply).map_err(CliError::refused)
}

fn list(context: &Context, all: bool, host: &ToHost) -> Result<(), CliError> {
    let found = wanted_of(context, ApprovalsRequest { all, code: None }, host)?;
    let now = context.platform.clock.now();
    let documents: Vec<Value> = found.iter().map(document).collect();
    context.output.show(&json!({ "approvals": documents }), || {
        let rows: Vec<_> = found
            .iter()
            .map(|ApprovalRecord { approval, person, .. }| {
                vec![
                    approval.code.clone(),
                    approval.reference(),
                    on_behalf(&approval.caller, person.as_deref()),
                    format!("{}.{}", approval.provider, approval.action),
                    approval.level.to_string(),
                    standing(approval, now),
                ]
            })
            .collect();
        Output::table_or("No approval requests.", &["CODE", "NAME", "CALLER", "ACTION", "LEVEL", "STATE"], &rows)
    });
    Ok(())
}

fn show(context: &Context, code: &str, host: &ToHost) -> Result<(), CliError> {
    let found = found(context, code, host)?;
    context.output.show(&document(&found), || text(context, &found.approval, host));
    Ok(())
}

/// Returns the card with its code, its name and its state.
fn card(context: &Context, approval: &Approval) -> String {
    let now = context.platform.clock.now();
    let card = approval
        .card
        .as_ref()
        .map_or_else(|| "The card of a closed request is not stored.\n".to_owned(), model::card::Card::text);
    format!("{} ({}) · {}\n{card}", approval.code, approval.reference(), standing(approval, now))
}

/// Returns the card, with everything that a person needs to answer it.
fn text(context: &Context, approval: &Approval, host: &ToHost) -> String {
    let answer = if approval.state == ApprovalState::Waiting {
        let what = format!("{}.{}", approval.provider, approval.action);
        let at_once = if approval_subjects::of(approval.kind).is_applied_at_once() {
            "\n     (--apply applies the change now, without a request of the agent)"
        } else {
            ""
        };
        let code = &approval.code;
        let (program, on) = (context.program(), host.argument());
        let standing = approval.card.as_ref().and_then(|card| card.may_vary.as_ref()).map_or_else(String::new, |vary| {
            let vary: Vec<&str> = vary.iter().map(String::as_str).collect();
            let differ = if vary.is_empty() { "no parameter".to_owned() } else { vary.join(", ") };
            // Without these options, the broker would refuse what is suggested here, or cover none of its calls.
            let production = if approval.level >= Level::Production { " --production" } else { "" };
            let trifecta = if approval.asks.contains(&ApprovalReason::Trifecta) { " --trifecta" } else { "" };
            format!(
                "\nTo approve later calls like it, too ({differ} may differ): {program} approvals approve {code} --for \
                 8h{production}{trifecta}{on}"
            )
        });
        let standing = if approval.kind == SubjectKind::Access {
            format!(
                "\nTo give less or more: {program} approvals approve {code} --level 1 --actions NAME,NAME --for 2h{on}"
            )
        } else {
            standing
        };
        format!(
            "\nTo approve {what}: {program} approvals approve {code}{on}{at_once}{standing}\nTo deny: {program} approvals \
             deny {code}{on}"
        )
    } else {
        String::new()
    };
    format!("{}{answer}", card(context, approval))
}

fn standing(approval: &Approval, now: Timestamp) -> String {
    match (&approval.became, approval.state) {
        (Some(became), _) => became.clone(),
        (None, ApprovalState::Waiting) if approval.expires_at <= now => "expired".to_owned(),
        (None, ApprovalState::Waiting) => match approval.expires_at.since(now).as_secs() {
            seconds @ ..7200 => format!("pending, {seconds} s left"),
            seconds => format!("pending, {} h left", seconds / 3600),
        },
        (None, state) => state.word().to_owned(),
    }
}

/// Returns the document that --json prints.
fn document(ApprovalRecord { approval, person, answers, outcome: _ }: &ApprovalRecord) -> Value {
    json!({
        "code": approval.code,
        "ref": approval.reference(),
        "kind": approval.kind,
        "caller": approval.caller,
        "person": person,
        "request_id": approval.request_id,
        "provider": approval.provider,
        "action": approval.action,
        "level": approval.level,
        "state": approval.state,
        "became": approval.became,
        "quorum": approval.quorum,
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
        "answers": answers,
        "card": approval.card,
    })
}
