//! `grant`: gives a group access to a provider.

use crate::cli::Context;
use crate::cli::output::Fault;
use crate::control::{self, Control};
use crate::host::Office;
use clap::Args;
use shared::request::{Expiry, GrantRequest};
use shared::{Action, Gate, Group, Level, Provider};

/// Give a group access to a provider. Repeating a grant replaces it.
#[derive(Debug, Args)]
pub struct Grant {
    /// The group, for example developer.
    group: Group,
    /// The provider, for example github.
    provider: Provider,
    /// 0 = none, 1 = read, 2 = write with guardrails, 3 = production or money.
    #[arg(value_parser = level)]
    level: Level,
    /// Only these actions (comma-separated); without it, all that the provider has now.
    #[arg(long, value_delimiter = ',')]
    allow: Option<Vec<Action>>,
    /// Never these actions (comma-separated).
    #[arg(long, value_delimiter = ',')]
    deny: Option<Vec<Action>>,
    /// The gate that production actions need.
    #[arg(long)]
    gate: Option<Gate>,
    /// When it ends: a time such as 2026-12-31T00:00:00Z, or never. Without it, writes end after 7 days.
    #[arg(long, value_parser = expiry, conflicts_with = "expires_in")]
    expires: Option<Expiry>,
    /// When it ends, in seconds from now.
    #[arg(long, value_name = "SECONDS")]
    expires_in: Option<u64>,
}

impl Grant {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; nothing was granted.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        ask(
            context,
            &Control::Grant(GrantRequest {
                group_folder: self.group,
                provider: self.provider,
                access_level: self.level,
                allowed_actions: self.allow,
                denied_actions: self.deny,
                requires_task_gate: self.gate,
                expires_at: self.expires,
                expires_in_s: self.expires_in,
                rate_per_minute: None,
                daily_quota: None,
                chat_types: None,
                chat_ids: None,
            }),
        )
    }
}

fn level(text: &str) -> Result<Level, String> {
    let number = text.strip_prefix(['L', 'l']).unwrap_or(text).parse().ok();
    number.and_then(Level::from_number).ok_or_else(|| "a level is 0, 1, 2 or 3".to_owned())
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" { Ok(Expiry::Never) } else { text.parse().map(Expiry::At).map_err(|error| format!("{error}")) }
}

/// Asks the running daemon, or does it in place where none runs, and prints the reply.
///
/// # Errors
/// [`Fault`]; what was asked was not done.
pub fn ask(context: &Context, control: &Control) -> Result<(), Fault> {
    let reply = if let Some(reply) = control::send(&context.home.socket(), control)? {
        reply
    } else {
        let office = Office::open(context.home.clone(), &context.effects)?;
        let mut ledger = office.ledger(std::sync::Arc::clone(&context.effects.clock))?;
        control::administer(&mut ledger, &mut office.broker(), &office.clerk(&context.effects), control)?
    };
    context.output.reply(&reply)
}
