//! Account linking in the life of a call: the input of a call that links an account, the states of its flow, and the
//! approval request that precedes every account.
//!
//! ```text
//! begin ──► flow (open) ──► complete, or a poll that finds it done ──► approval request ──approval──► account linked
//!               └─► expired                                              └─denial, expiry──► nothing is kept
//! ```
//!
//! An agent sees the address and could finish the flow with another person's account. So an account is linked only
//! after a person has seen whose it is, and until then it cannot be used. A flow is spent in the very transaction that
//! writes the intent of the call that completes it.

mod said;

use crate::accounts::{as_linked, fact, used};
use crate::approval_requests;
use crate::approval_requests::ApprovalDraft;
use crate::broker::Broker;
use crate::clean::{Filtered, Outcome};
use crate::features::Feature;
use crate::file_proposals::internal_request_id;
use filter::inspect::inspect_text;
use kernel::Effect;
use kernel::authorize::Refusal;
use kernel::call::{Call, Preparation};
use kernel::contract::{Found, Invocation, Progress, StoreInput, StoreRequest};
use model::approval::{Approval, ApprovalReason, ApprovalState, SubjectKind};
use model::card::{Card, visible};
use model::{Account, LinkSessionState, Nonce};
use policy::facts::AccountFact;
use provider::linking::{BEGUN_MAX, FLOW_LIFE, too_many_flows};
use provider::oauth::LateRenewal;
use said::said;
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Code, Level, Provider, Timestamp};
use std::collections::BTreeSet;
use store::ledger::chain;
use store::ledger::chain::Draft;
use store::state::accounts;
use store::state::approvals;
use store::state::linking as stored;
use store::{StoreError, Transaction, View};
use stored::{Link, NewLinkSession, Owner, PendingLink};

/// The linking of persons' accounts.
pub(crate) struct AccountLinking;

impl Feature for AccountLinking {
    /// Supplies a call with the flows and accounts that its decision needs.
    fn before_decision(&self, connection: &View, now: Timestamp, call: &mut Call) -> Result<(), StoreError> {
        let Some(person) = call.header.behalf.key() else { return Ok(()) };
        let owner = Owner { caller: &call.header.caller_key, person: &person };
        let supplied = match call.target.invocation().map(Invocation::needs) {
            Some(StoreRequest::ToBegin) => {
                StoreInput::Begun(stored::begun_since(connection, &owner, now.minus(FLOW_LIFE))?)
            }
            Some(StoreRequest::ToComplete(id) | StoreRequest::ToPoll(id)) => {
                let id = id.clone();
                let is_here = id.capability() == call.provider;
                let standing =
                    if is_here { stored::find(connection, &owner, &id, now)? } else { LinkSessionState::Missing };
                let due = matches!(&standing, LinkSessionState::Open(flow) if flow.is_due(now));
                call.flow = Some(id);
                StoreInput::Flow(standing, due)
            }
            Some(StoreRequest::Accounts) => {
                StoreInput::Accounts(accounts::labelled(connection, &person, &call.provider)?)
            }
            // The decision has not yet permitted its use. Without an execution it cannot be opened.
            Some(StoreRequest::Credential) => {
                // Nothing of an account that the person cannot use comes into the decision.
                let (AccountFact::Linked, Some(account)) = (fact(connection, call)?, call.account_ref.as_deref())
                else {
                    return Ok(());
                };
                StoreInput::Credential(used(connection, &person, &call.provider, account)?)
            }
            Some(
                StoreRequest::Nothing
                | StoreRequest::ToApply(..)
                | StoreRequest::ToWithdraw(_)
                | StoreRequest::Proposals
                | StoreRequest::ToUnlink(_),
            )
            | None => return Ok(()),
        };
        call.target.supply(supplied);
        Ok(())
    }

    /// Refuses a call that may lead to one approval request about an account too many. This is decided before the
    /// provider is asked, because a person's input is valid only once. Each person has a separate limit, so that no
    /// person can block another.
    fn precondition(&self, connection: &View, call: &Call) -> Result<Option<Refusal>, StoreError> {
        let needs = call.target.invocation().map(Invocation::needs);
        let (Some(StoreRequest::ToComplete(_) | StoreRequest::ToPoll(_)), Some(person)) =
            (needs, call.header.behalf.key())
        else {
            return Ok(None);
        };
        // A poll of a flow whose approval request waits sends no other one.
        if let Some(StoreRequest::ToPoll(id)) = needs {
            let owner = Owner { caller: &call.header.caller_key, person: &person };
            if !stored::is_under_way(connection, &owner, id)? {
                return Ok(None);
            }
        }
        let owner = Owner { caller: &call.header.caller_key, person: &person };
        let waiting = stored::approval_requests(connection, &owner)?;
        let reason =
            || format!("{QUESTIONS_MAX} accounts of this person wait for an approval already; wait for the answers.");
        Ok((waiting >= QUESTIONS_MAX).then(|| Refusal::new(Code::Busy, reason())))
    }

    /// Changes flows and accounts with the intent of a permitted call, and supplies the call with its credential.
    fn with_intent(&self, broker: &mut Broker, tx: &Transaction<'_>, call: &mut Call) -> Result<(), StoreError> {
        let Some(person) = call.header.behalf.key() else { return Ok(()) };
        let owner = Owner { caller: &call.header.caller_key, person: &person };
        let supplied = match call.target.invocation().map(Invocation::needs) {
            Some(StoreRequest::ToComplete(id)) => {
                stored::spend(tx, id)?;
                return Ok(());
            }
            Some(StoreRequest::ToPoll(id)) => {
                let standing = stored::find(tx.view(), &owner, id, tx.now())?;
                if matches!(&standing, LinkSessionState::Open(flow) if flow.is_due(tx.now())) {
                    stored::polled(tx, id)?;
                }
                return Ok(());
            }
            Some(StoreRequest::ToUnlink(account)) => {
                let (capability, account) = (Some(&call.provider), Some(account.as_str()));
                StoreInput::Unlinked(broker.unlink(tx, &person, capability, account)? > 0)
            }
            Some(
                StoreRequest::Credential
                | StoreRequest::Nothing
                | StoreRequest::ToApply(..)
                | StoreRequest::ToWithdraw(_)
                | StoreRequest::Proposals
                | StoreRequest::ToBegin
                | StoreRequest::Accounts,
            )
            | None => return Ok(()),
        };
        call.target.supply(supplied);
        Ok(())
    }

    fn with_outcome(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        filtered: &mut Filtered,
    ) -> Result<(), StoreError> {
        broker.link_further(tx, filtered)
    }

    fn forget_old(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        stored::forget_old(tx)
    }
}

/// Stores a renewal that arrived after its call ended, and notes it if it differs from the stored credential.
///
/// # Errors
/// [`StoreError`]; the stored credential is unchanged.
pub(crate) fn keep_late(tx: &Transaction<'_>, late: &LateRenewal) -> Result<(), StoreError> {
    let LateRenewal { capability, owner, account, renewal } = late;
    if stored::renew(tx, owner, capability, account, renewal)? {
        let body = json!({ "renewed_late": account });
        tx.append(&Draft {
            provider: Some(capability),
            person: Some(owner.clone()),
            body,
            ..Draft::new(chain::RowKind::Noted, "broker")
        })?;
    }
    Ok(())
}

impl Broker {
    /// Stores the progress of linking that an effect made, and sends an approval request if there is an account.
    fn link_further(&mut self, tx: &Transaction<'_>, filtered: &mut Filtered) -> Result<(), StoreError> {
        if let (Effect::Prepare(call), Outcome::Prepared(prepared)) = (&filtered.effect, &filtered.outcome)
            && call.preparation == Preparation::Renewal
            && let (Some(renewal), Some(person)) = (prepared.renewed(), call.header.behalf.key())
        {
            let (owner, account) = model::owned(call.account_ref.as_deref().unwrap_or_default());
            return stored::renew(tx, owner.unwrap_or(&person), &call.provider, account, renewal).map(drop);
        }
        let Effect::Run(call) = &filtered.effect else { return Ok(()) };
        if let (Outcome::Failed { code, .. }, Some(flow)) = (&filtered.outcome, &call.flow) {
            let over =
                [Code::CapabilityAuthFlowDenied, Code::CapabilityAuthFlowExpired, Code::CapabilityAuthFlowInvalid];
            if call.mutating && *code == Code::CapabilityBackendUnavailable {
                // This call spent the flow, and no approval request was sent. The person can continue the flow again.
                stored::give_back(tx, flow)?;
            } else if over.contains(code) {
                stored::spend(tx, flow)?;
            }
            return Ok(());
        }
        let (Some(person), Some(progress), Outcome::Succeeded(_)) = (
            call.header.behalf.key(),
            filtered.aside.as_ref().and_then(|aside| aside.progress.as_ref()),
            &filtered.outcome,
        ) else {
            return Ok(());
        };
        match progress {
            Progress::Begun(id, flow) => {
                let owner = Owner { caller: &call.header.caller_key, person: &person };
                let Some(behalf) = call.header.behalf.person() else { return Ok(()) };
                // Other flows may have been begun at the same time.
                if stored::begun_since(tx.view(), &owner, tx.now().minus(FLOW_LIFE))? >= BEGUN_MAX {
                    filtered.outcome = Outcome::of(Code::Busy, too_many_flows());
                    return Ok(());
                }
                stored::begin(tx, &NewLinkSession { id, owner, behalf, flow })
            }
            Progress::Slower(id, pace) => stored::slower(tx, id, *pace),
            Progress::Found(found) => {
                if let Err(refusal) = self.request_account_approval(tx, call, &person, found)? {
                    filtered.outcome = Outcome::of(refusal.code, refusal.reason);
                }
                Ok(())
            }
        }
    }

    /// Asks a person whether the account from a provider is the intended one.
    fn request_account_approval(
        &mut self,
        tx: &Transaction<'_>,
        call: &Call,
        person: &str,
        found: &Found,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let header = &call.header;
        let no = |code: Code, reason: &str| Ok(Err(Refusal::new(code, reason.to_owned())));
        let Some(group) = header.caller.group() else { return no(Code::Guardrail, "Only a group links accounts.") };
        let owner = Owner { caller: &header.caller_key, person };
        // Another call was quicker, or the flow was ended since.
        if !stored::is_under_way(tx.view(), &owner, &found.flow)? {
            return no(Code::CapabilityAuthFlowInvalid, Code::CapabilityAuthFlowInvalid.meaning());
        }
        let operation = self.with_accounts(&call.provider);
        if let Some(fault) = operation.and_then(|operation| operation.account_fault(found.account.as_str())) {
            stored::spend(tx, &found.flow)?;
            return no(Code::CapabilityAuthFlowInvalid, fault);
        }
        let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else {
            return no(Code::EvidenceUnavailable, "The system's random source failed.");
        };
        // A person could not tell two waiting accounts of one name apart.
        for approval_request in stored::waiting(tx.view(), person, Some(&call.provider), Some(found.account.as_str()))?
        {
            self.cancel_link(tx, approval_request)?;
        }
        let name = found.account.as_str();
        let Some(replaces) = self.replaces(tx, person, &call.provider, name)? else {
            stored::spend(tx, &found.flow)?;
            return no(
                Code::CapabilityAuthFlowInvalid,
                "The account is linked under another spelling of its name. Unlink it first.",
            );
        };
        let Some(card) = card(call, found, replaces) else {
            return no(
                Code::TooLarge,
                "The provider's description of the account is too long for an approval request.",
            );
        };
        let hidden = internal_request_id("account", &nonce);
        let draft = ApprovalDraft {
            kind: SubjectKind::Account,
            caller: &header.caller_key,
            group: Some(group),
            request_id: &hidden,
            provider: &call.provider,
            action: &call.action,
            level: Level::Write,
            digest: agreed(&header.caller_key, person, &call.provider, found),
            subject: None,
            asking: self.config.asking(&call.provider, &call.action),
            born_approved: None,
            asks: BTreeSet::from([ApprovalReason::Tier]),
            others: BTreeSet::new(),
            standing: None,
            card: &card,
            document: None,
            params_digest: None,
            summary: Some(format!("link the account {}", found.account)),
            task_id: None,
            calls: None,
        };
        let approval = match self.request_approval(tx, header, &draft)? {
            Ok(approval) => approval,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let label = label(&found.shown);
        let sealed = found.credential.as_ref();
        let (flow, account) = (&found.flow, &found.account);
        let (label, fresh_until) = (label.as_deref(), found.fresh_until);
        stored::ask(tx, &Link { approval, flow, person, account, label, sealed, fresh_until, replaces })?;
        Ok(Ok(()))
    }

    /// Ends an approval request about an account: links the account with its credential, or deletes everything about
    /// it.
    pub(crate) fn end_link(
        &mut self,
        tx: &Transaction<'_>,
        approval: &Approval,
        state: ApprovalState,
        by: &str,
    ) -> Result<(), StoreError> {
        let mut became = state.word();
        let asked = stored::asked_by(tx.view(), approval.id)?.filter(|_| state == ApprovalState::Approved);
        let is_as_shown = |asked: &PendingLink| -> Result<bool, StoreError> {
            let replaces = self.replaces(tx, &asked.person, &asked.capability, asked.account.as_str())?;
            Ok(replaces.is_some_and(|replaces| asked.replaces || !replaces))
        };
        if let Some(asked) = asked {
            if is_as_shown(&asked)? {
                Self::link_asked(tx, &asked, by)?;
            } else {
                // The card did not say that an account of this name is linked: it was linked since.
                became = ApprovalState::Cancelled.word();
            }
        }
        stored::drop_asked(tx, approval.id)?;
        approvals::close(tx, &approval.caller, &approval.request_id, became)?;
        self.follow_ups.approvals_changed = true;
        Ok(())
    }

    /// Returns whether a link of this account replaces one of the same name; `None` if the same account is linked under
    /// another spelling.
    fn replaces(
        &self,
        tx: &Transaction<'_>,
        person: &str,
        capability: &Provider,
        name: &str,
    ) -> Result<Option<bool>, StoreError> {
        let linked = accounts::own(tx.view(), person, capability)?;
        let operation = self.with_accounts(capability);
        let same = operation.and_then(|operation| as_linked(operation.as_ref(), &linked, name));
        Ok(match same {
            Some(same) if same != name => None,
            Some(_) => Some(true),
            None => Some(linked.iter().any(|linked| linked == name)),
        })
    }

    fn link_asked(tx: &Transaction<'_>, asked: &PendingLink, by: &str) -> Result<(), StoreError> {
        let account = Account {
            person: asked.person.clone(),
            capability: asked.capability.clone(),
            account_ref: asked.account.to_string(),
            label: asked.label.clone(),
            linked_at: tx.now(),
            linked_by: by.to_owned(),
        };
        accounts::link(tx, &account)?;
        let credential = asked.sealed.as_ref().map(|sealed| (sealed, asked.fresh_until));
        stored::keep_credential(tx, (&asked.person, &asked.capability, asked.account.as_str()), credential)
    }

    /// Cancels an approval request about an account.
    pub(crate) fn cancel_link(&mut self, tx: &Transaction<'_>, approval_request: i64) -> Result<(), StoreError> {
        match approvals::numbered(tx.view(), approval_request)? {
            Some(approval) => self.end_link(tx, &approval, ApprovalState::Cancelled, ""),
            None => Ok(()),
        }
    }

    /// Unlinks a person's accounts: those at this capability, of this name, or all of them, with their credentials and
    /// their approval requests. Returns the number of linked ones.
    pub(crate) fn unlink(
        &mut self,
        tx: &Transaction<'_>,
        person: &str,
        capability: Option<&Provider>,
        account: Option<&str>,
    ) -> Result<usize, StoreError> {
        for approval_request in stored::waiting(tx.view(), person, capability, account)? {
            self.cancel_link(tx, approval_request)?;
        }
        if account.is_none() {
            stored::forget_asked(tx, person, capability)?;
            stored::end_flows(tx, person, capability)?;
            accounts::forget_shared_with(tx, person, capability)?;
        }
        stored::drop_credentials(tx, person, capability, account)?;
        accounts::unlink(tx, person, capability, account)
    }

    /// Ends the flows of a group and its approval requests about accounts. Linked accounts belong to the persons and
    /// stay. Returns the number of both.
    pub(crate) fn end_what_a_group_began(&mut self, tx: &Transaction<'_>, caller: &str) -> Result<usize, StoreError> {
        let approval_requests = stored::waiting_of(tx.view(), caller)?;
        for approval_request in &approval_requests {
            self.cancel_link(tx, *approval_request)?;
        }
        Ok(approval_requests.len() + stored::end_flows_of(tx, caller)?)
    }
}

/// Returns the digest of everything about an account that a person approves.
fn agreed(caller: &str, person: &str, capability: &Provider, found: &Found) -> Digest {
    let credential = found.credential.as_ref().map(|sealed| Digest::of(sealed.bytes()));
    Digest::of(&shared::json::canonical(&json!({
        "caller": caller,
        "person": person,
        "capability": capability,
        "account": found.account,
        "shown": found.shown,
        "credential": credential,
    })))
}

/// Returns the card of an account; `None` if it cannot be shown in full.
fn card(call: &Call, found: &Found, replaces: bool) -> Option<Card> {
    let mut card = Card::new();
    if let Some(group) = call.header.caller.group() {
        card.say("Workspace", group.as_str());
    }
    approval_requests::add_subject(&mut card, &call.header.behalf);
    card.say("Link at", call.provider.as_str());
    card.say("Account", found.account.as_str());
    card.say("Provider says", &said(&found.shown));
    if replaces {
        card.say("Note", "an account of this name is linked already; this one takes its place");
    }
    card.reasons
        .push("Somebody else may have signed in on the page. Check that the account is this person's own.".to_owned());
    card.list(&found.shown).then_some(card)
}

/// The longest label, in bytes.
const LABEL_MAX: usize = 64;

/// The most approval requests about accounts of one person that wait in one group.
const QUESTIONS_MAX: usize = 3;

/// Returns the label for people: the name or address that the provider gives.
fn label(shown: &Value) -> Option<String> {
    let named = ["account_email", "email", "account_name", "name"].iter().find_map(|name| shown.get(name)?.as_str())?;
    let mut label = visible(named);
    label.truncate(label.floor_char_boundary(LABEL_MAX));
    // Agents see the label.
    inspect_text(&label).is_clean().then_some(label)
}
