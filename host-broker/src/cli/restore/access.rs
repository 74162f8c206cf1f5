//! The commands that give access again after a restore. A person runs those that are still right.

use crate::cli::Context;
use crate::cli::output::CliError;
use platform::home::quoted;
use shared::{Action, Group, Timestamp};
use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::path::Path;
use store::View;
use store::state::grants::{self, Grant};
use store::state::{accounts, kill, restore};

/// The commands.
pub(super) struct Again {
    /// Those that give the same grants.
    pub(super) grants: Vec<String>,
    /// Everything else that the operator should do, with what it is for.
    pub(super) next: Vec<String>,
}

impl Again {
    /// Returns the commands for a ledger in which nothing has ended yet.
    ///
    /// # Errors
    /// [`CliError`] if it cannot be read.
    pub(super) fn of(
        context: &Context,
        view: &View,
        groups: &BTreeSet<Group>,
        now: Timestamp,
    ) -> Result<Self, CliError> {
        let program = context.program();
        let live: Vec<Grant> = grants::list(view, None)?.into_iter().filter(|grant| grant.is_live(now)).collect();
        let given = live.iter().filter(|grant| !grant.is_temporary).map(|grant| command(&program, grant)).collect();
        let mut next = vec![
            format!("{program} config check    # the configuration, on this machine"),
            format!("{program} evidence verify    # every row, with the one of the restore"),
        ];
        // A ledger that was never used has no session.
        if !groups.is_empty() || !restore::sessions(view)?.is_empty() {
            next.push(format!("{program} exposure reset GROUP    # for each group, once its sandbox is new"));
        }
        if live.iter().any(|grant| grant.is_temporary) {
            next.push(format!(
                "{program} grant GROUP PROVIDER LEVEL    # temporary access has ended; groups ask again"
            ));
        }
        if !accounts::list(view)?.is_empty() {
            next.push(format!(
                "{program} account list    # accounts that were unlinked since the backup are linked again: unlink them"
            ));
        }
        let killed: Vec<String> = kill::list(view)?;
        if !killed.is_empty() {
            next.push(format!("{program} kill --help    # still killed: {}", killed.join(", ")));
        }
        next.push(format!("{program} serve"));
        Ok(Self { grants: given, next })
    }
}

/// Returns the command that gives a grant.
fn command(program: &str, grant: &Grant) -> String {
    let word = |text: &dyn Display| quoted(Path::new(&text.to_string()));
    let actions = |list: Vec<Action>| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut line = format!("{program} grant {} {} {}", grant.group, grant.provider, grant.level.number());
    let mut add = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            write!(line, " {flag} {}", word(&value)).ok();
        }
    };
    add("--allow", grant.allowed_list().map(actions));
    add("--deny", grant.denied_list().map(actions));
    add("--gate", grant.gate.as_ref().map(ToString::to_string));
    add("--expires", Some(grant.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string())));
    add("--rate-per-minute", grant.rate_per_minute.map(|rate| rate.to_string()));
    add("--daily-quota", grant.daily_quota.map(|quota| quota.to_string()));
    add("--chat-type", grant.chat_types.as_ref().map(|types| types.join(",")));
    add("--chat-id", grant.chat_ids.as_ref().map(|ids| ids.join(",")));
    line
}
