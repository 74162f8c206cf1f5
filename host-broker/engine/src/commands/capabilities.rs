//! `ext_capabilities`: the permissions of a group.

use super::CommandResult;
use crate::broker::Broker;
use crate::capability_replies::CapabilityAnswer;
use crate::snapshot;
use kernel::call::Header;
use model::Subject;
use model::TokenError;
use shared::Code;
use shared::request::CapabilitiesRequest;
use shared::snapshot::Availability;
use shared::snapshot::Snapshot;
use shared::snapshot::TokenFault;
use store::StoreError;
use store::Transaction;
use store::state::accounts as stored_accounts;

impl Broker {
    pub(super) fn capabilities(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        request: &CapabilitiesRequest,
    ) -> Result<CommandResult, StoreError> {
        let Some(group) = header.caller.group() else {
            return Ok(CommandResult::no(Code::UnknownType, "Only a group has capabilities."));
        };
        // Changes of this very transaction are not durable yet, so no answer about them is kept.
        let form = match &header.behalf {
            Subject::Nobody(why) if !self.follow_ups.stale_snapshots.contains(group) => {
                Some((*why, request.include_unavailable))
            }
            Subject::Nobody(_) | Subject::Person(_) => None,
        };
        if let Some(answer) = form.and_then(|form| self.capability_answers.get(group, form, tx.now())) {
            return Ok(CommandResult::Capabilities(answer.clone()));
        }
        let (connection, policy, behalf) = (tx.view(), &self.policy, Some(&header.behalf));
        let mut snapshot =
            snapshot::snapshot(connection, tx.now(), group, &self.config, &self.catalogue, policy, behalf)?;
        if let Some(person) = header.behalf.key() {
            for capability in snapshot.capabilities.iter_mut().filter(|own| own.provider.is_namespaced()) {
                capability.accounts = stored_accounts::of(connection, &person, &capability.provider)?;
            }
        }
        snapshot.token_fault = token_fault(&header.behalf, &snapshot);
        if !request.include_unavailable {
            hide_unavailable(&mut snapshot);
        }
        let answer = CapabilityAnswer::of(&snapshot);
        if let Some(form) = form {
            self.uncommitted.capability_answers.push((group.clone(), form, answer.clone()));
        }
        Ok(CommandResult::Capabilities(answer))
    }
}

/// Returns why no person is known. A missing token is a fault only if a capability takes one.
fn token_fault(behalf: &Subject, snapshot: &Snapshot) -> Option<TokenFault> {
    let Subject::Nobody(why) = behalf else { return None };
    let takes_one = || snapshot.capabilities.iter().any(|capability| capability.provider.is_namespaced());
    let code = why.code();
    (*why != TokenError::Missing || takes_one())
        .then(|| TokenFault { code: code.word().to_owned(), error: format!("{} {}", why.reason(), code.remedy()) })
}

fn hide_unavailable(snapshot: &mut Snapshot) {
    for capability in &mut snapshot.capabilities {
        capability
            .actions
            .retain(|_, entry| !matches!(entry.status, Availability::Denied | Availability::RequiresHigherLevel));
    }
}
