//! `answer`: hands in what somebody has answered in a chat.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::Fault;
use crate::control::Control;
use clap::Args;

/// Hand in what somebody has answered in a chat.
///
/// For the bridge that reads the chat. The sender must be in `chat` of a person's table in broker.toml, and is held to
/// what that person may approve. Production actions are never answered in a chat.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker answer --from telegram:12345 -- 'approve k7f3qd'
  host-broker answer --from telegram:12345 -- 'deny k7f3qd because it is Friday'

Behind -- nothing that somebody writes is taken for an option.

You must be the daemon's own user, or a person with `relays = true`. After five wrong codes nothing from that sender is
read for five minutes.

--json prints the reply: {status, summary, data: {code, ref, state}, evidence: {…}}, or {status, error, code}")]
pub struct Answer {
    /// Who wrote it, as the chat names people.
    #[arg(long, value_name = "ID")]
    from: String,
    /// What was written: approve CODE, or deny CODE because …
    text: String,
}

impl Answer {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; nothing was answered.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        ask(context, &Control::ChatAnswer { from: self.from, text: self.text })
    }
}
