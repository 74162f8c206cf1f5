//! `grant`: gives a group access to a provider.

use crate::cli::Context;
use crate::cli::ask::{ToHost, ask};
use crate::cli::home_reader::{chat_type, seconds};
use crate::cli::output::CliError;
use clap::Args;
use engine::request;
use model::ChatType;
use shared::request::{Expiry, GrantRequest};
use shared::{Action, Gate, Group, Level, Provider};

/// Grant a group access to a provider.
///
/// A second grant for the same group and provider replaces the first. The grant applies from the group's next call. It
/// covers only the current actions of the provider. If an action is added or changes its level, repeat the grant.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker grant security github 1
  host-broker grant developer github 2 --deny merge_pr --expires-in 30d
  host-broker grant family person.mail 2 --chat-type private
  host-broker grant main github 3 --gate Security --expires 2027-01-01T00:00:00Z

--json prints the reply: {status, summary, data: {granted, grant: {…}}, evidence: {seq, event_hash, prev_hash}}")]
pub struct Grant {
    /// The group, for example developer.
    group: Group,
    /// The provider, for example github.
    provider: Provider,
    /// The level: 0 none, 1 read, 2 write with guardrails, 3 production or money.
    #[arg(value_parser = level)]
    level: Level,
    /// Allow only these actions (comma-separated); the default is all current actions of the provider.
    #[arg(long, value_delimiter = ',', value_name = "ACTION")]
    allow: Option<Vec<Action>>,
    /// Deny these actions (comma-separated).
    #[arg(long, value_delimiter = ',', value_name = "ACTION")]
    deny: Option<Vec<Action>>,
    /// The gate that production actions require.
    #[arg(long)]
    gate: Option<Gate>,
    /// The expiry: a time such as 2026-12-31T00:00:00Z, or never. By default, a grant of writes expires after 7 days.
    #[arg(long, value_name = "TIME", value_parser = expiry, conflicts_with = "expires_in")]
    expires: Option<Expiry>,
    /// The expiry, counted from now: a number and s, m, h or d, such as 90m, 12h, 7d.
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    expires_in: Option<u64>,
    /// The maximum number of calls a minute.
    #[arg(long, value_name = "CALLS")]
    rate_per_minute: Option<u32>,
    /// The maximum number of calls a day.
    #[arg(long, value_name = "CALLS")]
    daily_quota: Option<u32>,
    /// Allow only persons in chats of these kinds (comma-separated): private, group, channel. Requires a context token.
    #[arg(long, value_delimiter = ',', value_name = "KIND", value_parser = chat_type)]
    chat_type: Option<Vec<ChatType>>,
    /// Allow only persons in these chats (comma-separated). Requires a context token.
    #[arg(long, value_delimiter = ',', value_name = "CHAT")]
    chat_id: Option<Vec<String>>,
    #[command(flatten)]
    host: ToHost,
}

impl Grant {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing was granted.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let denied = self.deny.as_deref().unwrap_or_default();
        if let Some(both) = self.allow.iter().flatten().find(|action| denied.contains(action)) {
            return Err(CliError::usage(format!("`{both}` is in --allow and in --deny; leave it out of one of them")));
        }
        ask(
            context,
            self.host.request(request::Command::Grant(GrantRequest {
                group_folder: self.group,
                provider: self.provider,
                access_level: self.level,
                allowed_actions: self.allow,
                denied_actions: self.deny,
                requires_task_gate: self.gate,
                expires_at: self.expires,
                expires_in_s: self.expires_in,
                rate_per_minute: self.rate_per_minute,
                daily_quota: self.daily_quota,
                chat_types: words(self.chat_type),
                chat_ids: self.chat_id,
                timeout_ms: None,
            })),
        )
    }
}

fn words(kinds: Option<Vec<ChatType>>) -> Option<Vec<String>> {
    kinds.map(|kinds| kinds.into_iter().map(|kind| kind.word().to_owned()).collect())
}

pub(in crate::cli) fn level(text: &str) -> Result<Level, String> {
    let number = text.strip_prefix(['L', 'l']).unwrap_or(text).parse().ok();
    number
        .and_then(Level::from_number)
        .ok_or_else(|| "a level is 0 (none), 1 (read), 2 (write) or 3 (production)".to_owned())
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" { Ok(Expiry::Never) } else { text.parse().map(Expiry::At).map_err(|error| format!("{error}")) }
}
