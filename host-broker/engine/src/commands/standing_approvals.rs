//! The end of a standing approval, by a person.

use super::CommandResult;
use crate::broker::Broker;
use crate::standing_approvals::may_end;
use kernel::call::Header;
use model::{Caller, standing_approval};
use serde_json::json;
use shared::Code;
use shared::numbers::counted;
use store::ledger::chain::RowKind;
use store::state::standing_approvals;
use store::{StoreError, Transaction};

impl Broker {
    /// Ends a standing approval. Its approver, every other person who may approve its calls, and administrators can.
    pub(super) fn end_standing_approval(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        name: &str,
    ) -> Result<CommandResult, StoreError> {
        let found = match standing_approval::numbered(name) {
            Some(id) => standing_approvals::find(tx.view(), id)?,
            None => None,
        };
        let Some(standing) = found else {
            let reason = format!("There is no standing approval {name}; see: host-broker approvals standing list.");
            return Ok(CommandResult::no(Code::InvalidParams, reason));
        };
        let Caller::Person(person) = &header.caller else {
            return Ok(CommandResult::no(Code::MainOnly, Code::MainOnly.meaning()));
        };
        if !self.config.administers(person) && !may_end(&self.config, person, &standing) {
            let reason = format!(
                "{person} may not end this: [people.{person}] in broker.toml needs `approves` with this group, provider \
                 and level."
            );
            return Ok(CommandResult::no(Code::Guardrail, reason));
        }
        let changed = standing_approvals::end(tx, standing.id, &header.caller_key)?;
        let already = if changed { "" } else { " (as before)" };
        let body = json!({ "standing": name, "of_caller": standing.caller, "uses": standing.uses, "changed": changed });
        let covered = counted(standing.uses, "call", "calls");
        let summary = format!("{name} is ended{already}; it has covered {covered}.");
        Ok(CommandResult::done(RowKind::StandingEnded, body.clone(), body, summary))
    }
}
