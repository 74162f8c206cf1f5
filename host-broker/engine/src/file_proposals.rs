//! Proposals in the life of a call: the input of a call that applies one, its wait for the approval, and the storing of
//! described changes.
//!
//! The approval request about a proposal has a name that is known to the broker only, because the request that proposed
//! it is over.

use crate::approval_requests;
use crate::approval_requests::{AnswerOutcome, ApprovalAnswer, ApprovalDraft, Resolved};
use crate::approval_subjects;
use crate::approval_subjects::Continuation;
use crate::approvals::OPEN_MAX;
use crate::broker::Broker;
use crate::catalogue;
use crate::clean::{Filtered, Outcome};
use crate::features::Feature;
use crate::replies::refused;
use crate::request::CommandRequest;
use kernel::authorize::Refusal;
use kernel::call::{Call, Header};
use kernel::contract::{InverseError, Invocation, Lines, Proposed, StoreInput, StoreRequest};
use kernel::{Answer, Effect};
use model::approval;
use model::approval::{Approval, ApprovalReason, ApprovalState};
use model::card::Card;
use model::{Caller, Nonce, ProposalId, Subject, WorkspacePath};
use policy::profile::ApprovalMode;
use serde_json::json;
use shared::{Action, Code, Group, Level, Provider, RequestId, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::state::approvals;
use store::state::proposals;
use store::state::proposals::{NewProposal, PendingApplication, Proposal};
use store::state::requests;
use store::{StoreError, Transaction, View};

/// An approved proposal that a person wants applied now.
#[derive(Debug)]
pub struct ToApply {
    /// The proposal, and the request under which it is applied.
    pub wanted: PendingApplication,
}

/// The end of a call that applies an unapproved proposal.
pub(crate) enum Collected {
    /// It waits for the end of the approval request under this name.
    Waits(RequestId),
    /// It is answered.
    Answered(Option<Answer>),
}

/// The proposals of changes to files.
pub(crate) struct FileProposals;

impl Feature for FileProposals {
    /// Supplies a call that applies a proposal.
    fn before_decision(&self, connection: &View, _: Timestamp, call: &mut Call) -> Result<(), StoreError> {
        let caller = &call.header.caller_key;
        let supplied = match call.target.invocation().map(Invocation::needs) {
            None
            | Some(
                StoreRequest::Nothing
                | StoreRequest::ToWithdraw(_)
                | StoreRequest::ToBegin
                | StoreRequest::ToComplete(_)
                | StoreRequest::ToPoll(_)
                | StoreRequest::Accounts
                | StoreRequest::ToUnlink(_)
                | StoreRequest::Credential
                // SECURITY: only a permitted call has the store read a list.
                | StoreRequest::Proposals,
            ) => return Ok(()),
            Some(StoreRequest::ToApply(id, path)) => {
                let found = proposals::find_at(connection, caller, id, path)?;
                call.applies = found.is_some().then(|| id.clone());
                // Before the approval the proposal cannot be used.
                let Some(proposal) = found.filter(|proposal| proposal.approval.state == ApprovalState::Approved) else {
                    return Ok(());
                };
                let Some(stored) = proposal.stored(Vec::new()) else { return Ok(()) };
                StoreInput::Changes(Box::new(stored))
            }
        };
        call.target.supply(supplied);
        Ok(())
    }

    /// Refuses a new proposal if too many approval requests of the caller wait. A withdrawal reduces their number, so a
    /// full count does not block it.
    fn precondition(&self, view: &View, call: &Call) -> Result<Option<Refusal>, StoreError> {
        let proposes = call.target.operation().is_some_and(|operation| operation.declaration().proposes);
        let takes_back = matches!(call.target.invocation().map(Invocation::needs), Some(StoreRequest::ToWithdraw(_)));
        let is_full = proposes && !takes_back && approvals::count_open(view, &call.header.caller_key)? >= OPEN_MAX;
        Ok(is_full.then(approval_requests::too_many))
    }

    /// Withdraws a proposal, or supplies the changes of the one that is applied, or a list.
    fn with_intent(&self, broker: &mut Broker, tx: &Transaction<'_>, call: &mut Call) -> Result<(), StoreError> {
        broker.withdraw(tx, call)?;
        broker.supply_changes(tx, call)?;
        list(tx, call)
    }

    /// Drops the wish of a person whose immediate application is refused, so that no later request carries it out.
    fn with_refusal(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        call: &Call,
        refusal: &Refusal,
    ) -> Result<(), StoreError> {
        let Some(id) = call.applies.as_ref().filter(|_| call.is_internal()) else { return Ok(()) };
        let found = proposals::find(tx.view(), &call.header.caller_key, id)?;
        let open = found.filter(|proposal| proposal.approval.state == ApprovalState::Approved);
        match open {
            Some(proposal) => broker.end_proposal(tx, &proposal, refusal.code.word()),
            None => Ok(()),
        }
    }

    /// Stores a described change with its approval request, and notes the result of an application.
    fn with_outcome(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        filtered: &mut Filtered,
    ) -> Result<(), StoreError> {
        broker.submit_proposal(tx, filtered)?;
        let (Effect::Run(call) | Effect::Prepare(call)) = &filtered.effect else { return Ok(()) };
        if call.applies.is_none() {
            return Ok(());
        }
        let (caller, id) = (&call.header.caller_key, &call.header.request_id);
        match &filtered.outcome {
            // The remote facts of a call are no outcome, and an unknown one may have been a success: a probe finds out.
            Outcome::Prepared(_) | Outcome::Failed { code: Code::OutcomeUnknown, .. } => Ok(()),
            Outcome::Succeeded(_) => proposals::applied(tx, caller, id),
            Outcome::Failed { .. } | Outcome::Probed { .. } => proposals::mark_failed(tx, caller, id),
        }
    }

    fn with_settlement(
        &self,
        tx: &Transaction<'_>,
        caller: &str,
        call: &RequestId,
        happened: bool,
    ) -> Result<(), StoreError> {
        if happened { proposals::applied(tx, caller, call) } else { proposals::mark_failed(tx, caller, call) }
    }

    /// Ends the approved proposals that were never applied.
    fn on_expiry(&self, broker: &mut Broker, tx: &Transaction<'_>) -> Result<(), StoreError> {
        for proposal in proposals::uncollected(tx.view(), tx.now())? {
            let approval = &proposal.approval;
            tx.append(&Draft {
                person: requests::person_of(tx, &approval.caller, &proposal.proposed_by)?,
                request_id: Some(&proposal.proposed_by),
                provider: Some(&approval.provider),
                action: Some(&approval.action),
                approval: Some(approval.reference()),
                body: json!({ "applied": false }),
                ..Draft::new(RowKind::Lapsed, &approval.caller)
            })?;
            broker.end_proposal(tx, &proposal, "expired")?;
        }
        Ok(())
    }

    fn forget_old(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        proposals::forget_old(tx)
    }
}

/// Supplies a permitted call with the latest proposals of its caller.
fn list(tx: &Transaction<'_>, call: &mut Call) -> Result<(), StoreError> {
    if !matches!(call.target.invocation().map(Invocation::needs), Some(StoreRequest::Proposals)) {
        return Ok(());
    }
    let latest = proposals::latest(tx.view(), Some(&call.header.caller_key))?;
    let own = latest.iter().filter(|proposal| !proposal.is_revert);
    call.target.supply(StoreInput::Proposals(own.map(|proposal| proposal.listed(tx.now())).collect()));
    Ok(())
}

impl Broker {
    /// Stores a change that the effect described, and sends an approval request about it.
    fn submit_proposal(&mut self, tx: &Transaction<'_>, filtered: &mut Filtered) -> Result<(), StoreError> {
        let (Effect::Run(call), Some(aside), Outcome::Succeeded(_)) =
            (&filtered.effect, &mut filtered.aside, &filtered.outcome)
        else {
            return Ok(());
        };
        let Some(proposed) = &aside.proposed else { return Ok(()) };
        match self.propose(tx, call, filtered.intent.seq, proposed)? {
            Ok(asked) => {
                if let Some(noted) = aside.noted.as_object_mut() {
                    noted.insert("asked".into(), json!(asked));
                }
            }
            Err(refusal) => {
                filtered.outcome = Outcome::of(refusal.code, refusal.reason);
            }
        }
        Ok(())
    }

    /// Withdraws a proposal for a permitted call that does so.
    fn withdraw(&mut self, tx: &Transaction<'_>, call: &mut Call) -> Result<(), StoreError> {
        let Some(StoreRequest::ToWithdraw(id)) = call.target.invocation().map(Invocation::needs) else { return Ok(()) };
        let found = proposals::find(tx.view(), &call.header.caller_key, id)?;
        let open = found
            .filter(|proposal| matches!(proposal.approval.state, ApprovalState::Waiting | ApprovalState::Approved));
        // An agent cannot stop a person's revert.
        let open = open.filter(|proposal| !proposal.is_revert);
        if let Some(proposal) = &open {
            self.end_proposal(tx, proposal, "withdrawn")?;
        }
        call.target.supply(StoreInput::Withdrawn(open.is_some()));
        Ok(())
    }

    /// Supplies a permitted call with its changes.
    fn supply_changes(&mut self, tx: &Transaction<'_>, call: &mut Call) -> Result<(), StoreError> {
        let Some(id) = &call.applies else { return Ok(()) };
        let found = proposals::find(tx.view(), &call.header.caller_key, id)?;
        let changes = proposals::changes(tx.view(), id)?;
        if let Some(stored) = found.zip(changes).and_then(|(proposal, changes)| proposal.stored(changes)) {
            call.target.supply(StoreInput::Changes(Box::new(stored)));
        }
        // Its approval is spent, so the next expiry is another one.
        self.follow_ups.approvals_changed = true;
        Ok(())
    }

    /// Ends a proposal that will not be applied.
    pub(crate) fn end_proposal(
        &mut self,
        tx: &Transaction<'_>,
        proposal: &Proposal,
        became: &str,
    ) -> Result<(), StoreError> {
        let approval = &proposal.approval;
        approvals::close(tx, &approval.caller, &approval.request_id, became)?;
        proposals::drop_changes(tx, approval.id)?;
        self.resolved_proposal(approval);
        Ok(())
    }

    /// Resumes the requests that wait to apply this proposal.
    pub(crate) fn resolved_proposal(&mut self, approval: &Approval) {
        let key = (Arc::from(approval.caller.as_str()), approval.request_id.clone());
        self.follow_ups.resolved.push(Resolved { continuation: Continuation::Wake, key });
        self.follow_ups.approvals_changed = true;
    }

    /// Ends a call that applies a proposal which it may not apply now: it waits for the person, or is answered with the
    /// reason.
    pub(crate) fn collect(
        &self,
        tx: &Transaction<'_>,
        call: &Call,
        id: &ProposalId,
        path: &str,
    ) -> Result<Collected, StoreError> {
        let header = &call.header;
        let no = |code: Code, reason: String| refused(tx, call, &Refusal::new(code, reason)).map(Collected::Answered);
        let plainly = |code: Code| no(code, code.meaning().to_owned());
        let Some(proposal) = proposals::find_at(tx.view(), &header.caller_key, id, path)? else {
            return plainly(Code::ProposalUnknown);
        };
        let approval = &proposal.approval;
        match (approval.state, approval.became.as_deref()) {
            (ApprovalState::Waiting, _) if approval.expires_at > tx.now() => {
                if self.may_wait(header) {
                    return Ok(Collected::Waits(approval.request_id.clone()));
                }
                approval_requests::told(tx, header, approval).map(Some).map(Collected::Answered)
            }
            (ApprovalState::Approved, _) if proposal.until > tx.now() => no(
                Code::ApprovalRequired,
                "The approved change differs from the change that would be applied now.".to_owned(),
            ),
            (ApprovalState::Denied, _) | (ApprovalState::Closed, Some("denied")) => {
                let reason = approval_requests::said_no(tx, approval)?;
                no(Code::ApprovalDenied, reason)
            }
            (ApprovalState::Waiting | ApprovalState::Approved | ApprovalState::Expired, _)
            | (ApprovalState::Closed, Some("expired")) => plainly(Code::ProposalExpired),
            (ApprovalState::Cancelled | ApprovalState::Closed, _) => plainly(Code::ProposalUnknown),
        }
    }

    /// Sends an approval request about a described change, unless every path of it may be changed without one. Returns
    /// whether it did.
    fn propose(
        &mut self,
        tx: &Transaction<'_>,
        call: &Call,
        intent: i64,
        proposed: &Proposed,
    ) -> Result<Result<bool, Refusal>, StoreError> {
        let Some(group) = call.header.caller.group() else {
            return Ok(Err(Refusal::new(Code::Guardrail, "Only a group proposes.".into())));
        };
        let paths: Vec<WorkspacePath> = proposed.paths.iter().flat_map(|path| WorkspacePath::new(path)).collect();
        let free = paths.len() == proposed.paths.len()
            && self.policy.profiles.of_paths(group, &call.provider, &paths) == ApprovalMode::Auto;
        let asked = Asked {
            group,
            behalf: &call.header.behalf,
            caller: &call.header.caller_key,
            provider: &call.provider,
            action: &call.action,
        };
        let born = if free { Some(intent) } else { None };
        let stored = self.store_proposal(tx, &call.header, &asked, proposed, born, false)?;
        Ok(stored.map(|_| born.is_none()))
    }

    /// Stores a proposal with its approval request, unless it was born approved by this row.
    fn store_proposal(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        asked: &Asked<'_>,
        proposed: &Proposed,
        born: Option<i64>,
        is_revert: bool,
    ) -> Result<Result<i64, Refusal>, StoreError> {
        let unable = || Refusal::new(Code::EvidenceUnavailable, "The system's random source failed.".into());
        let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else { return Ok(Err(unable())) };
        let hidden = internal_request_id("proposal", &nonce);
        let Some(card) = card(asked, proposed) else {
            let reason = "The changes are too large for an approval request, which shows them in full.".to_owned();
            return Ok(Err(Refusal::new(Code::TooLarge, reason)));
        };
        let digest = crate::approvals::digest_of_proposal(
            asked.caller,
            asked.provider,
            &self.policy,
            &proposed.id,
            proposed.patch_hash,
            born.is_some(),
        );
        let draft = ApprovalDraft {
            kind: approval::SubjectKind::File,
            caller: asked.caller,
            group: Some(asked.group),
            request_id: &hidden,
            provider: asked.provider,
            action: asked.action,
            level: Level::Write,
            digest,
            // The proposal's name is no subject, because each proposal has another one.
            subject: Some(proposed.patch_hash),
            asking: if born.is_some() { (0, Duration::ZERO) } else { (self.quorum_of_changes(asked), proposed.ttl) },
            born_approved: born,
            asks: BTreeSet::from([ApprovalReason::Tier]),
            others: BTreeSet::new(),
            standing: None,
            card: &card,
            document: None,
            params_digest: None,
            summary: Some(proposed.summary.clone()),
            task_id: None,
            calls: None,
        };
        let (_, asked_for) = draft.asking;
        let approval = match self.request_approval(tx, header, &draft)? {
            Ok(approval) => approval,
            Err(refusal) => return Ok(Err(refusal)),
        };
        proposals::put(
            tx,
            &NewProposal {
                id: &proposed.id,
                approval,
                caller: asked.caller,
                proposed_by: &header.request_id,
                path: &proposed.path,
                summary: &proposed.summary,
                patch_hash: proposed.patch_hash,
                until: tx.now().plus(asked_for).plus(proposed.window),
                changes: &proposed.changes,
                diff: &proposed.diff,
                is_revert,
            },
        )?;
        Ok(Ok(approval))
    }

    /// Returns the number of approvers of a change: the larger setting of describing it and of making it.
    fn quorum_of_changes(&self, asked: &Asked<'_>) -> usize {
        let (described, _) = self.config.asking(asked.provider, asked.action);
        let made = "apply_proposal".parse().map_or(1, |action| self.config.asking(asked.provider, &action).0);
        described.max(made)
    }

    /// Undoes an applied proposal with a second proposal, which the person who asks for it approves.
    pub(crate) fn revert(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        id: &ProposalId,
    ) -> Result<Result<ApprovalAnswer, Refusal>, StoreError> {
        let header = &command_request.header;
        let no = |code: Code, reason: &str| Ok(Err(Refusal::new(code, reason.to_owned())));
        let Caller::Person(person) = &header.caller else { return no(Code::Guardrail, "Only people revert.") };
        let Some(proposal) = proposals::named(tx.view(), id)? else {
            return no(Code::ProposalUnknown, "There is no proposal of this name; see host-broker proposals list.");
        };
        if !approval_requests::may_answer(&self.config, person, &proposal.approval) {
            return no(
                Code::Guardrail,
                "It takes `approves` in your table of broker.toml with this group, provider and level.",
            );
        }
        if proposal.applied_at.is_none() {
            return no(Code::Guardrail, "It was not applied, so there is nothing to undo.");
        }
        let (Some(changes), Some(group)) = (proposals::changes(tx.view(), id)?, proposal.approval.group.clone()) else {
            return no(Code::ProposalExpired, "The change was kept for a week and is deleted.");
        };
        let operation = match self.catalogue.find(&proposal.approval.provider, &proposal.approval.action) {
            catalogue::CatalogueEntry::Enabled(operation) | catalogue::CatalogueEntry::Disabled(operation, _) => {
                operation
            }
            catalogue::CatalogueEntry::NoProvider
            | catalogue::CatalogueEntry::NoAction
            | catalogue::CatalogueEntry::Unusable => {
                return no(Code::ProviderDisabled, "The provider of the change is not available.");
            }
        };
        let mut random = [0; 16];
        if self.ids.fill(&mut random).is_err() {
            return no(Code::EvidenceUnavailable, "The system's random source failed.");
        }
        // If several must approve, the others are asked for the usual time.
        let (_, ttl) = self.config.asking(&proposal.approval.provider, &proposal.approval.action);
        let mut proposed = match operation.inverse(&changes, ProposalId::of(random), ttl) {
            Ok(proposed) => proposed,
            Err(InverseError::Damaged) => return no(Code::ProposalUnknown, "The stored change is damaged."),
            Err(InverseError::Unsupported | InverseError::NotShowable) => {
                return no(Code::PatchFailed, "The change cannot be shown.");
            }
        };
        if !self.filters.as_ref().is_some_and(|filters| filters.own_secrets(&mut proposed.diff)) {
            return no(Code::Guardrail, "The change holds secrets that cannot be redacted, so it cannot be shown.");
        }
        proposed.summary = format!("REVERT {id}: {}", proposed.summary);
        let approval = &proposal.approval;
        let asked = Asked {
            group: &group,
            behalf: &header.behalf,
            caller: &approval.caller,
            provider: &approval.provider,
            action: &approval.action,
        };
        let approval_request = match self.store_proposal(tx, header, &asked, &proposed, None, true)? {
            Ok(approval_request) => approval_request,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(approval_request) = approvals::numbered(tx.view(), approval_request)? else {
            return no(Code::EvidenceUnavailable, "The approval request was not stored.");
        };
        let code = approval_request.code;
        Ok(Ok(ApprovalAnswer::new(code, true, None, true)))
    }

    /// Applies approved proposals at once, if a person wants that. The wish is stored until it ends.
    pub(crate) fn apply_at_once(
        &mut self,
        tx: &Transaction<'_>,
        given: &ApprovalAnswer,
        taken: &AnswerOutcome,
    ) -> Result<Option<RequestId>, StoreError> {
        let AnswerOutcome::Counted(_, approval, _) = taken else { return Ok(None) };
        if !approval_subjects::of(approval.kind).is_applied_at_once() || !given.yes {
            return Ok(None);
        }
        if given.apply {
            let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else { return Ok(None) };
            proposals::wish(tx, approval.id, &internal_request_id("apply", &nonce))?;
        }
        if approval.state != ApprovalState::Approved {
            return Ok(None);
        }
        let Some(wanted) = proposals::wanted(tx.view(), Some(approval.id))?.pop() else { return Ok(None) };
        let request_id = wanted.request_id.clone();
        self.follow_ups.to_apply.push(ToApply { wanted });
        Ok(Some(request_id))
    }
}

/// Makes a request id that cannot be guessed.
pub fn internal_request_id(what: &str, nonce: &Nonce) -> RequestId {
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "letters, digits and a hyphen satisfy the grammar"
    )]
    format!("{what}-{}", nonce.as_str()).parse().expect("a request id")
}

/// The change of an approval request.
struct Asked<'a> {
    group: &'a Group,
    behalf: &'a Subject,
    caller: &'a str,
    provider: &'a Provider,
    action: &'a Action,
}

/// Returns the card of a change; `None` if it cannot be shown in full.
fn card(asked: &Asked<'_>, proposed: &Proposed) -> Option<Card> {
    let mut card = Card::new();
    card.say("Workspace", asked.group.as_str());
    approval_requests::add_subject(&mut card, asked.behalf);
    card.say("Action", &format!("{}.{}", asked.provider, asked.action));
    card.say("Level", &Level::Write.to_string());
    card.say("In short", &proposed.summary);
    let Lines { added, removed } = proposed.lines;
    card.say("Lines", &format!("+{added} -{removed}"));
    card.say("Proposal", proposed.id.as_str());
    card.reasons.push("Changes to files are made only after a person has seen all of them.".to_owned());
    (card.holds(&proposed.conditions) && card.differs(&proposed.diff)).then_some(card)
}
