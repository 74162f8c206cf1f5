//! `approvals relay`: passes an answer from a chat to the broker.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::CliError;
use clap::Args;
use engine::chat::RelayedAnswer;
use engine::request;

/// Relay the answer that a person gave in a chat.
///
/// The bridge that reads the chat runs this command. The sender must be in `chat` of a person's table in broker.toml, and
/// has the rights of that person. `chat_max_level` and `chat_trifecta` of that table limit the calls.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker approvals relay --from telegram:12345 -- 'approve k7f3qd'
  host-broker approvals relay --from telegram:12345 -- 'deny k7f3qd because it is Friday'

If you write -- before the text, the program reads no part of the text as an option.

The command requires the daemon's own user, or a person with `can_relay_answers = true`. After five wrong codes the broker \
    ignores the sender for five minutes.

--json prints the reply: {status, summary, data: {code, ref, state}, evidence: {…}}, or {status, error, code}")]
pub(super) struct Relay {
    /// The id of the sender in the chat.
    #[arg(long, value_name = "ID")]
    from: String,
    /// The text of the answer: approve CODE, or deny CODE because REASON.
    text: String,
}

impl Relay {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing was answered.
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        ask(context, request::Command::RelayedAnswer(RelayedAnswer::new(self.from, self.text)))
    }
}
