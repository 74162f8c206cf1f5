//! Results that are requested, or leave late: the check whether the caller may have one at that moment.
//!
//! A result was permitted when its call began. Until it leaves, the grant may have ended or become narrower. So each
//! reply that leaves after its call is over passes [`Broker::may_have_result`] or [`Broker::may_be_handed_over`].

use crate::approval_requests;
use crate::broker::Broker;
use crate::catalogue::CatalogueEntry;
use crate::commands::CommandOutcome;
use crate::facts::{chats_fact, grant_fact, kinds_fact};
use crate::flows::standing::{Use, standing};
use crate::replies::{copy_of, says_no_more_than_a_refusal, still_running};
use kernel::call::Header;
use model::approval::ApprovalState;
use model::{Caller, Declaration, Subject, TokenError};
use policy::facts::{ChatsFact, GrantFact};
use policy::profile::ApprovalMode;
use shared::flow::Opaque;
use shared::request::ResultRequest;
use shared::{Code, Level, RequestId, Timestamp};
use std::sync::Arc;
use store::state::approvals;
use store::state::external_grants::Access;
use store::state::grants;
use store::state::grants::Grant;
use store::state::intents;
use store::state::kill;
use store::state::replies;
use store::state::requests;
use store::state::requests::{Called, Owner};
use store::{StoreError, Transaction, View};

impl Broker {
    /// Returns the owner of a request, if there is one and this caller may know of it. A request on a person's behalf
    /// is reachable only for that person, and only in chats of the grant. So a result from a private chat stays out of
    /// a group's chat.
    pub(super) fn reachable(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        of: &RequestId,
    ) -> Result<Option<Owner>, StoreError> {
        let key = (Arc::clone(&header.caller_key), of.clone());
        let owner = match self.parked(&key) {
            Some(parked) => Some(Owner { person: parked.person.clone(), at: tx.now(), called: None, nested: None }),
            None => requests::owner(tx.view(), &header.caller_key, of)?,
        };
        let Some(owner) = owner else { return Ok(None) };
        if owner.person.is_some() && owner.person != header.behalf.key() {
            return Ok(None);
        }
        let (Some(_), Some(group), Some(called)) = (&owner.person, header.caller.group(), &owner.called) else {
            return Ok(Some(owner));
        };
        let grants = grants::find(tx.view(), group, &called.provider)?;
        let grant = grants.deciding(&called.action, (self.declared(called), called.level), tx.now());
        let elsewhere = grant.is_some_and(|grant| chats_fact(grant, header.behalf.person()) == ChatsFact::Elsewhere);
        Ok((!elsewhere).then_some(owner))
    }

    /// Returns whether this caller may have the stored result of a request now. The person and the chat must match, the
    /// grant must still cover it, and no kill switch may stop it.
    pub(crate) fn may_have_result(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        of: &RequestId,
    ) -> Result<Result<(), Code>, StoreError> {
        let now = tx.now();
        let asks = (&header.caller, Some(&header.behalf));
        let Some(owner) = self.reachable(tx, header, of)? else { return Ok(Err(out_of_reach(&header.behalf))) };
        if let Err(code) = self.still_goes_so_far(tx.view(), now, asks, &owner)? {
            return Ok(Err(code));
        }
        // A request that joined an approval request, or got another one's result, has the rights of that one.
        let behind = approval_requests::behind(tx, header, of)?;
        let stored = replies::find(tx, &header.caller_key, of)?;
        if behind == *of && stored.is_some_and(|reply| says_no_more_than_a_refusal(&reply)) {
            return Ok(Ok(()));
        }
        let source = replies::answered_by(tx.view(), tx.steady(), &header.caller_key, &behind)?;
        if source == *of {
            return Ok(Ok(()));
        }
        match self.reachable(tx, header, &source)? {
            Some(owner) => self.still_goes_so_far(tx.view(), now, asks, &owner),
            None => Ok(Err(out_of_reach(&header.behalf))),
        }
    }

    /// Returns whether the reply to a request may leave now, although its call has been over for a while. Without a row
    /// its owner is unknown; the request can be sent again.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read; the reply must not leave then.
    pub fn may_be_handed_over(
        &self,
        connection: &View,
        (now, steady): (Timestamp, Timestamp),
        caller: &Caller,
        id: &RequestId,
    ) -> Result<Result<(), Code>, StoreError> {
        let key = caller.to_string();
        let source = replies::answered_by(connection, steady, &key, id)?;
        match requests::owner(connection, &key, &source)? {
            Some(owner) => self.still_goes_so_far(connection, now, (caller, None), &owner),
            None => Ok(Err(Code::UnknownRequest)),
        }
    }

    /// Checks the steps of the decision up to the lists, for a call that is over. Without a requester, the request's
    /// own caller gets its reply.
    fn still_goes_so_far(
        &self,
        connection: &View,
        now: Timestamp,
        (caller, behalf): (&Caller, Option<&Subject>),
        owner: &Owner,
    ) -> Result<Result<(), Code>, StoreError> {
        let access = match caller {
            Caller::External(id) => match standing(connection, &self.config.flows, now, id, Use::Result)? {
                Ok(access) => Some(access),
                Err(code) => return Ok(Err(code)),
            },
            Caller::Group(_) | Caller::Person(_) | Caller::Operator(_) | Caller::Broker => None,
        };
        for target in [&owner.called, &owner.nested].into_iter().flatten() {
            let still = self.still_permits(connection, now, (caller, behalf), (access.as_ref(), owner.at), target)?;
            if still.is_err() {
                return Ok(still);
            }
        }
        Ok(Ok(()))
    }

    /// The same for one action of the call.
    fn still_permits(
        &self,
        connection: &View,
        now: Timestamp,
        (caller, behalf): (&Caller, Option<&Subject>),
        (access, called_at): (Option<&Access>, Timestamp),
        target: &Called,
    ) -> Result<Result<(), Code>, StoreError> {
        if kill::find(connection, caller.policy_group(), &target.provider)?.is_some() {
            return Ok(Err(Code::KillSwitch));
        }
        let grant = match caller.group() {
            Some(group) => {
                let grants = grants::find(connection, group, &target.provider)?;
                match grants.deciding(&target.action, (self.declared(target), target.level), now) {
                    Some(grant) if grant.is_live(now) => Some(grant.clone()),
                    Some(grant) if grant.active && grant.is_expired(now) => return Ok(Err(Code::GrantExpired)),
                    Some(_) | None => return Ok(Err(Code::NoGrant)),
                }
            }
            None => None,
        };
        let operation = match self.catalogue.find(&target.provider, &target.action) {
            CatalogueEntry::Enabled(operation) | CatalogueEntry::Disabled(operation, _) => operation,
            CatalogueEntry::NoProvider | CatalogueEntry::Unusable => return Ok(Err(Code::ProviderDisabled)),
            CatalogueEntry::NoAction => return Ok(Err(Code::UnknownAction)),
        };
        let declaration = operation.declaration();
        if let Some(grant) = grant
            && let Err(code) = granted(&grant, (target, declaration), (behalf, called_at), now)
        {
            return Ok(Err(code));
        }
        let demanded = target.level.max(declaration.level);
        if self.policy.profiles.setting(caller.policy_group(), declaration, demanded) == ApprovalMode::Off {
            return Ok(Err(Code::ActionDenied));
        }
        if let Some(access) = access {
            let stands_for = |tool: &Opaque| {
                let bound = self.config.flows.tool(tool);
                bound.is_some_and(|bound| bound.provider == target.provider && bound.action == target.action)
            };
            if !access.tools.iter().any(stands_for) {
                return Ok(Err(Code::FlowExternalToolDenied));
            }
        }
        Ok(Ok(()))
    }

    /// Returns the level that the called action declares now.
    fn declared(&self, called: &Called) -> Option<Level> {
        match self.catalogue.find(&called.provider, &called.action) {
            CatalogueEntry::Enabled(operation) | CatalogueEntry::Disabled(operation, _) => {
                Some(operation.declaration().level)
            }
            CatalogueEntry::NoProvider | CatalogueEntry::NoAction | CatalogueEntry::Unusable => None,
        }
    }

    /// Waits like a call: the reply of the other request is the reply of this one.
    pub(super) fn result(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        request: &ResultRequest,
    ) -> Result<CommandOutcome, StoreError> {
        // A caller that joined another approval request has its outcome.
        let of = &approval_requests::behind(tx, header, &request.of)?;
        if self.reachable(tx, header, of)?.is_none() {
            return copy_of(tx, header, &request.of).map(Some).map(CommandOutcome::Answered);
        }
        if !intents::is_open(tx.view(), &header.caller_key, of)? {
            return copy_of(tx, header, of).map(Some).map(CommandOutcome::Answered);
        }
        if self.may_wait(header) {
            return Ok(CommandOutcome::Waits(of.clone()));
        }
        let asked = approvals::of_request(tx.view(), &header.caller_key, of)?;
        if let Some(approval) = asked.filter(|approval| approval.state != ApprovalState::Closed) {
            return approval_requests::still_asked(tx, header, &approval).map(Some).map(CommandOutcome::Answered);
        }
        still_running(tx, header, of).map(Some).map(CommandOutcome::Answered)
    }
}

/// Returns the code for a missing request or another person's, without saying which. If the token proves nothing, it
/// may be the caller's own.
pub(super) fn out_of_reach(behalf: &Subject) -> Code {
    match behalf {
        Subject::Person(_) | Subject::Nobody(TokenError::Missing) => Code::UnknownRequest,
        Subject::Nobody(why @ (TokenError::Expired | TokenError::Invalid(_))) => why.code(),
    }
}

/// Returns whether the grant still covers a call that is over.
fn granted(
    grant: &Grant,
    (called, declaration): (&Called, &Declaration),
    (behalf, called_at): (Option<&Subject>, Timestamp),
    now: Timestamp,
) -> Result<(), Code> {
    // The decision compared the call with the chats of a grant that is older than the call.
    let was_decided = behalf.is_none() && grant.granted_at < called_at;
    let fact = grant_fact(Some(grant), &called.action, behalf.and_then(Subject::person), now);
    let GrantFact::Live(live) = fact else { return Err(Code::NoGrant) };
    let own = behalf.map_or(ChatsFact::Any, |behalf| kinds_fact(declaration, behalf.person()));
    match (behalf, live.chats) {
        (Some(Subject::Nobody(why)), chats) if chats != ChatsFact::Any || own != ChatsFact::Any => {
            return Err(why.code());
        }
        (_, ChatsFact::Elsewhere) if !was_decided => return Err(Code::NoGrant),
        (Some(_), _) if own == ChatsFact::Elsewhere => return Err(Code::CapabilityAccessDenied),
        (_, ChatsFact::Any | ChatsFact::Here | ChatsFact::Elsewhere) => {}
    }
    if live.catalogued != Some(declaration.level) || !live.allowed {
        return Err(Code::ActionNotAllowed);
    }
    if called.level.max(declaration.level) > live.level {
        return Err(Code::LevelTooLow);
    }
    if live.denied { Err(Code::ActionDenied) } else { Ok(()) }
}
