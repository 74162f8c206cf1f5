//! Kill switches.

use super::CommandResult;
use super::RowSubject;
use crate::broker::Broker;
use kernel::call::Header;
use model::KillScope;
use serde_json::json;
use shared::Code;
use store::StoreError;
use store::Transaction;
use store::ledger::chain::RowKind;
use store::state::kill;

impl Broker {
    pub(super) fn set_kill(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        scope: &KillScope,
        on: bool,
    ) -> Result<CommandResult, StoreError> {
        // A switch that is on can be lifted, also if its scope is no longer configured.
        if let Some(fault) = self.unknown_scope(scope)
            && (on || !kill::list(tx.view())?.contains(&scope.to_string()))
        {
            return Ok(CommandResult::no(Code::InvalidParams, fault));
        }
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

    /// Returns the fault of a scope whose name does not exist. A switch with a mistyped name would stop nothing.
    fn unknown_scope(&self, scope: &KillScope) -> Option<String> {
        match scope {
            KillScope::All => None,
            KillScope::Group(group) if self.config.holds(group) => None,
            KillScope::Group(group) => self.unknown_group(group),
            KillScope::Provider(provider) if self.config.providers.contains_key(provider) => None,
            KillScope::Provider(provider) => self.unknown_provider(provider),
        }
    }
}
