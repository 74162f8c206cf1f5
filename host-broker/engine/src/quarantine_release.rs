//! Release of withheld results by a person.

use crate::broker::Broker;
use crate::clean::Shown;
use crate::commands::CommandResult;
use crate::replies::success;
use kernel::call::Header;
use model::Caller;
use serde_json::json;
use shared::Code;
use shared::digest::Digest;
use shared::reply::Notice;
use store::ledger::chain::{Draft, RowKind};
use store::state::quarantine;
use store::state::quarantine::Quarantined;
use store::state::requests;
use store::{StoreError, Transaction};

impl Broker {
    /// Releases a result: its caller can ask for it, and gets it between delimiters.
    pub(crate) fn release(&self, tx: &Transaction<'_>, header: &Header, id: &str) -> Result<CommandResult, StoreError> {
        let nothing = || CommandResult::no(Code::InvalidParams, "Nothing is kept back under this name.");
        let Some(seq) = quarantine::seq(id) else { return Ok(nothing()) };
        let Some(mut kept) = quarantine::find(tx.view(), seq)? else { return Ok(nothing()) };
        let Caller::Person(person) = &header.caller else {
            return Ok(CommandResult::no(Code::Guardrail, "Only people can release a withheld result."));
        };
        let group = Caller::stored(&kept.caller);
        let group = group.as_ref().and_then(Caller::group);
        if !self.config.may_approve(person, group, &kept.provider, kept.level) {
            let reason = format!(
                "{person} may not release this: [people.{person}] in broker.toml needs `approves` with this group, \
                 provider and level."
            );
            return Ok(CommandResult::no(Code::Guardrail, reason));
        }
        if !self.filters.as_ref().is_some_and(|filters| filters.inspector.fence_whole(&mut kept.data)) {
            return Ok(CommandResult::no(Code::EvidenceUnavailable, "The system's random source failed."));
        }
        quarantine::forget(tx, seq)?;
        store_reply(tx, kept, header)?;
        Ok(CommandResult::done(
            RowKind::Released,
            json!({ "quarantine": id }),
            json!({ "id": id }),
            format!("{id} is released; the agent collects it with ext_result."),
        ))
    }
}

/// Stores the result as a reply. Its caller has had its one reply, and asks for this one.
fn store_reply(tx: &Transaction<'_>, kept: Quarantined, header: &Header) -> Result<(), StoreError> {
    let evidence = tx.append(&Draft {
        person: requests::person_of(tx, &kept.caller, &kept.request_id)?,
        request_id: Some(&kept.request_id),
        provider: Some(&kept.provider),
        action: Some(&kept.action),
        body: json!({ "released": quarantine::name(kept.seq), "by": header.caller_key }),
        ..Draft::new(RowKind::Answered, &kept.caller)
    })?;
    let shown = Shown {
        digest: Digest::of(&shared::json::canonical(&kept.data)),
        data: kept.data,
        summary: kept.summary,
        notices: vec![Notice::UntrustedContent],
    };
    kernel::keep(tx, &kept.caller, success(kept.request_id, &shown, tx), evidence)
}
