//! Kill switches.

use super::CommandResult;
use super::RowSubject;
use kernel::call::Header;
use model::KillScope;
use serde_json::json;
use store::StoreError;
use store::Transaction;
use store::ledger::chain::RowKind;
use store::state::kill;

pub(super) fn set_kill(
    tx: &Transaction<'_>,
    header: &Header,
    scope: &KillScope,
    on: bool,
) -> Result<CommandResult, StoreError> {
    let changed = kill::set(tx, scope, &header.caller_key, on)?;
    let word = if on { "stopped" } else { "allowed again" };
    let target = match scope {
        KillScope::All => "All calls".to_owned(),
        KillScope::Provider(provider) => format!("Calls to {provider}"),
        KillScope::Group(group) => format!("Calls of {group}"),
    };
    let already = if changed { "" } else { " (as before)" };
    Ok(CommandResult::Done {
        kind: if on { RowKind::Killed } else { RowKind::Revived },
        subject: RowSubject::default(),
        body: json!({ "scope": scope.to_string(), "changed": changed }),
        data: json!({ "scope": scope.to_string(), "stopped": on, "changed": changed }),
        summary: format!("{target} are {word}{already}."),
    })
}
