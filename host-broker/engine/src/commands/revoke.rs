//! `ext_revoke` and `ext_list`: the end of a grant, and the list of grants.

use super::CommandResult;
use super::RowSubject;
use super::grant::grant_value;
use crate::broker::Broker;
use kernel::call::Header;
use serde_json::Value;
use serde_json::json;
use shared::Code;
use shared::numbers::counted;
use shared::request::ListRequest;
use shared::request::RevokeRequest;
use store::StoreError;
use store::Transaction;
use store::ledger::chain::RowKind;
use store::state::grants::{self, Grants};

impl Broker {
    pub(super) fn revoke(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        request: &RevokeRequest,
    ) -> Result<CommandResult, StoreError> {
        let RevokeRequest { group_folder: group, provider } = request;
        // A grant can be revoked even if its group or provider is no longer configured.
        if *grants::find(tx.view(), group, provider)? == Grants::default()
            && let Some(fault) = self.unknown_group(group).or_else(|| self.unknown_provider(provider))
        {
            return Ok(CommandResult::no(Code::InvalidParams, fault));
        }
        let was_active = grants::revoke(tx, group, provider, &header.caller_key)?;
        if was_active {
            self.follow_ups.stale_snapshots.insert(group.clone());
        }
        let data = json!({ "revoked": was_active });
        if !was_active && header.caller.policy_group().is_some() {
            // An agent can repeat this without limit.
            return Ok(CommandResult::told(data, format!("{group} had no access to {provider}.")));
        }
        let summary = if was_active {
            format!("{group} no longer has access to {provider}.")
        } else {
            format!("{group} had no access to {provider}.")
        };
        Ok(CommandResult::Done {
            kind: RowKind::Revoked,
            subject: RowSubject { provider: Some(provider.clone()), ..RowSubject::default() },
            body: json!({ "group": group, "was_active": was_active }),
            data,
            summary,
        })
    }
}

pub(super) fn list(tx: &Transaction<'_>, request: &ListRequest) -> Result<CommandResult, StoreError> {
    let grants = grants::list(tx.view(), request.group_folder.as_ref())?;
    let list: Vec<Value> = grants.iter().map(grant_value).collect();
    let summary = counted(list.len(), "grant", "grants");
    Ok(CommandResult::told(json!({ "grants": list }), summary))
}
