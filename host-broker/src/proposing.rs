//! Proposals in the life of a call: what a call that applies one is given, how it waits for the yes, and what becomes of
//! a change that was described.
//!
//! The question about a proposal goes under a name that nobody else knows, because the request that proposed it is over.

use crate::answers::refused;
use crate::approvals::card::Card;
use crate::approvals::{self, Kind, OPEN_MAX, Question, State};
use crate::broker::Broker;
use crate::call::{Call, Caller, Directive, Header};
use crate::effects::ids::Nonce;
use crate::ledger::LedgerError;
use crate::ledger::transaction::{Answer, Transaction};
use crate::policy::authorize::Refusal;
use crate::policy::profile::Setting;
use crate::proposals::{self, Entry, Proposal, ProposalId};
use crate::providers::contract::{Invocation, Needs, Proposed, Supplied};
use crate::providers::files::change::{Change, ChangeSet};
use crate::providers::files::diff::Diff;
use crate::providers::files::path::WorkspacePath;
use crate::providers::files::propose;
use crate::questions::{self, Given, Posed, Taken};
use shared::{Action, Code, Group, Level, Provider, RequestId};
use std::time::Duration;

/// A proposal that a person has agreed to and wants applied now.
#[derive(Debug)]
pub(crate) struct ToApply {
    /// Whose it is.
    pub(crate) group: Group,
    /// At which provider.
    pub(crate) provider: Provider,
    /// Which.
    pub(crate) id: ProposalId,
    /// The path that it goes by.
    pub(crate) path: String,
    /// Under which request.
    pub(crate) request_id: RequestId,
    /// The row that says so.
    pub(crate) row: i64,
}

/// How a call that applies a proposal goes on that nobody has agreed to yet.
pub(crate) enum Collected {
    /// Once the question under this name is over.
    Waits(RequestId),
    /// Not at all.
    Answered(Option<Answer>),
}

/// Hands a call what it works on beside its parameters.
pub(crate) fn supply(tx: &Transaction<'_>, call: &mut Call) -> Result<(), LedgerError> {
    let caller = &call.header.caller_key;
    let supplied = match call.target.invocation().map(Invocation::needs) {
        None | Some(Needs::Nothing | Needs::ToWithdraw(_)) => return Ok(()),
        Some(Needs::Proposals) => {
            let latest = proposals::latest(tx.connection(), Some(caller))?;
            Supplied::Proposals(latest.iter().map(|proposal| proposal.listed(tx.now())).collect())
        }
        Some(Needs::ToApply(id)) => {
            call.applies = Some(id.clone());
            let found = proposals::find(tx.connection(), caller, id)?;
            // Before the yes there is nothing to be done with it.
            let Some(proposal) = found.filter(|proposal| proposal.approval.state == State::Approved) else {
                return Ok(());
            };
            let Some(stored) = proposals::stored(tx.connection(), &proposal)? else { return Ok(()) };
            Supplied::Changes(Box::new(stored))
        }
    };
    call.target.supply(supplied);
    Ok(())
}

impl Broker {
    /// Takes a proposal back for a permitted call that does so.
    pub(crate) fn withdraw(&mut self, tx: &Transaction<'_>, call: &mut Call) -> Result<(), LedgerError> {
        let Some(Needs::ToWithdraw(id)) = call.target.invocation().map(Invocation::needs) else { return Ok(()) };
        let found = proposals::find(tx.connection(), &call.header.caller_key, id)?;
        let open = found.filter(|proposal| matches!(proposal.approval.state, State::Waiting | State::Approved));
        if let Some(proposal) = &open {
            self.end_proposal(tx, proposal, "withdrawn", tx.head().seq + 1)?;
        }
        call.target.supply(Supplied::Withdrawn(open.is_some()));
        Ok(())
    }

    /// A proposal will not be applied any more.
    pub(crate) fn end_proposal(
        &mut self,
        tx: &Transaction<'_>,
        proposal: &Proposal,
        became: &str,
        row: i64,
    ) -> Result<(), LedgerError> {
        let approval = &proposal.approval;
        approvals::close(tx, &approval.caller, &approval.request_id, became)?;
        proposals::drop_changes(tx, approval.id)?;
        self.resolved_proposal(approval, row);
        Ok(())
    }

    /// A call that applies a proposal which it may not apply now: it waits for the person, or hears why not.
    pub(crate) fn collect(&self, tx: &Transaction<'_>, call: &Call, id: &ProposalId) -> Result<Collected, LedgerError> {
        let header = &call.header;
        let no = |code: Code, reason: String| refused(tx, call, &Refusal { code, reason }).map(Collected::Answered);
        let plainly = |code: Code| no(code, code.meaning().to_owned());
        let Some(proposal) = proposals::find(tx.connection(), &header.caller_key, id)? else {
            return plainly(Code::ProposalUnknown);
        };
        let approval = &proposal.approval;
        match (approval.state, approval.became.as_deref()) {
            (State::Waiting, _) if approval.expires_at > tx.now() => {
                if self.may_wait(header) {
                    return Ok(Collected::Waits(approval.request_id.clone()));
                }
                questions::told(tx, header, approval).map(Some).map(Collected::Answered)
            }
            (State::Approved, _) if proposal.until > tx.now() => {
                no(Code::ApprovalRequired, "What a person agreed to is not what would be applied now.".to_owned())
            }
            (State::Denied, _) | (State::Closed, Some("denied")) => {
                let reason = questions::said_no(tx, approval)?;
                no(Code::ApprovalDenied, reason)
            }
            (State::Waiting | State::Approved | State::Expired, _) | (State::Closed, Some("expired")) => {
                plainly(Code::ProposalExpired)
            }
            (State::Cancelled | State::Closed, _) => plainly(Code::ProposalUnknown),
        }
    }

    /// A change was described: a person is asked about it, unless every path of it may be changed without.
    pub(crate) fn propose(
        &mut self,
        tx: &Transaction<'_>,
        call: &Call,
        intent: i64,
        proposed: &Proposed,
    ) -> Result<Result<(), Refusal>, LedgerError> {
        let Some(group) = call.header.caller.group() else {
            return Ok(Err(Refusal { code: Code::Guardrail, reason: "Only a group proposes.".into() }));
        };
        let paths: Vec<WorkspacePath> = proposed.paths.iter().flat_map(|path| WorkspacePath::new(path)).collect();
        let free = paths.len() == proposed.paths.len()
            && self.policy.profiles.of_paths(group, &call.provider, &paths) == Setting::Auto;
        let asked = Asked { group, caller: &call.header.caller_key, provider: &call.provider, action: &call.action };
        let born = if free { Some(intent) } else { None };
        self.store_proposal(tx, &call.header, &asked, proposed, born).map(|stored| stored.map(drop))
    }

    /// Stores a proposal, and asks about it unless it was born approved by this row.
    fn store_proposal(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        asked: &Asked<'_>,
        proposed: &Proposed,
        born: Option<i64>,
    ) -> Result<Result<i64, Refusal>, LedgerError> {
        let unable =
            || Refusal { code: Code::EvidenceUnavailable, reason: "The system's random source failed.".into() };
        let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else { return Ok(Err(unable())) };
        #[expect(clippy::expect_used, reason = "letters, digits and a hyphen satisfy the grammar")]
        let hidden: RequestId = format!("proposal-{}", nonce.as_str()).parse().expect("a request id");
        let Some(card) = card(asked, proposed) else {
            let reason = "The changes are too large to be shown to a person in full, so nobody is asked.".to_owned();
            return Ok(Err(Refusal { code: Code::TooLarge, reason }));
        };
        let digest = approvals::digest_of_proposal(
            asked.caller,
            asked.provider,
            &self.policy,
            &proposed.id,
            proposed.patch_hash,
        );
        let (quorum, _) = self.config.asking(asked.provider, asked.action);
        let approval = if let Some(row) = born {
            if approvals::open(tx.connection(), Some(asked.caller))?.len() >= OPEN_MAX {
                return Ok(Err(questions::too_many()));
            }
            let taken = |code: &str| approvals::with_code(tx.connection(), code).map(|found| found.is_some());
            let Ok(code) = approvals::fresh_code(self.ids.as_ref(), taken)? else { return Ok(Err(unable())) };
            approvals::ask(
                tx,
                &Question {
                    code: &code,
                    kind: Kind::File,
                    state: State::Approved,
                    caller: asked.caller,
                    group: asked.group,
                    request_id: &hidden,
                    reply_as: None,
                    provider: asked.provider,
                    action: asked.action,
                    level: Level::Write,
                    document: None,
                    digest,
                    quorum: 0,
                    asked_seq: row,
                    expires_at: tx.now(),
                    reply_by: tx.now(),
                    card: &card,
                },
            )?
        } else {
            let posed = Posed {
                kind: Kind::File,
                caller: asked.caller,
                group: asked.group,
                request_id: &hidden,
                provider: asked.provider,
                action: asked.action,
                level: Level::Write,
                digest,
                asking: (quorum, proposed.ttl),
                card: &card,
                document: None,
                params_digest: None,
                summary: Some(proposed.summary.clone()),
                task_id: None,
            };
            match self.pose(tx, header, &posed)? {
                Ok(approval) => approval,
                Err(refusal) => return Ok(Err(refusal)),
            }
        };
        self.questions_changed = true;
        let asked_for = if born.is_some() { Duration::ZERO } else { proposed.ttl };
        proposals::put(
            tx,
            &Entry {
                id: &proposed.id,
                approval,
                caller: asked.caller,
                proposed_by: &header.request_id,
                path: proposed.paths.first().map_or("", String::as_str),
                summary: &proposed.summary,
                patch_hash: proposed.patch_hash,
                until: tx.now().plus(asked_for).plus(proposed.window),
                changes: &proposed.changes,
            },
        )?;
        Ok(Ok(approval))
    }

    /// Undoes an applied proposal: a proposal of its own, and the yes to it of the person who asks for it.
    pub(crate) fn revert(
        &mut self,
        tx: &Transaction<'_>,
        directive: &Directive,
        id: &ProposalId,
    ) -> Result<Result<Given, Refusal>, LedgerError> {
        let header = &directive.header;
        let no = |code: Code, reason: &str| Ok(Err(Refusal { code, reason: reason.to_owned() }));
        let Caller::Person(_) = &header.caller else { return no(Code::Guardrail, "Only people revert.") };
        let Some(proposal) = proposals::named(tx.connection(), id)? else {
            return no(Code::ProposalUnknown, "There is no proposal of this name; see host-broker proposals list.");
        };
        if proposal.applied_at.is_none() {
            return no(Code::Guardrail, "It was not applied, so there is nothing to undo.");
        }
        let (Some(changes), Some(group)) = (proposals::changes(tx.connection(), id)?, proposal.approval.group.clone())
        else {
            return no(Code::ProposalExpired, "What it changed is kept for a week and is gone.");
        };
        let Ok(set) = ChangeSet::from_bytes(&changes).map(|set| set.inverse()) else {
            return no(Code::ProposalUnknown, "What it changed is damaged.");
        };
        let (Ok(diff), Some(first)) = (Diff::of(&set), set.changes().first()) else {
            return no(Code::PatchFailed, "What it changed cannot be shown.");
        };
        let mut random = [0; 16];
        if self.ids.fill(&mut random).is_err() {
            return no(Code::EvidenceUnavailable, "The system's random source failed.");
        }
        let proposed = Proposed {
            id: ProposalId::of(random),
            paths: set.changes().iter().flat_map(Change::paths).map(ToString::to_string).collect(),
            summary: format!("REVERT {id}: {}", propose::summary(&set, first)),
            changes: set.to_bytes(),
            patch_hash: diff.hash(),
            diff: diff.readable(),
            conditions: propose::conditions(&set),
            ttl: REVERT_TTL,
            window: REVERT_TTL,
        };
        let approval = &proposal.approval;
        let asked =
            Asked { group: &group, caller: &approval.caller, provider: &approval.provider, action: &approval.action };
        let question = match self.store_proposal(tx, header, &asked, &proposed, None)? {
            Ok(question) => question,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(question) = approvals::numbered(tx.connection(), question)? else {
            return no(Code::EvidenceUnavailable, "The question was not stored.");
        };
        let code = question.code;
        Ok(Ok(Given { code, yes: true, reason: None, apply: true, channel: "cli", handed_in: None }))
    }

    /// What a person has agreed to is applied at once, if the person wants that.
    pub(crate) fn apply_at_once(
        &mut self,
        tx: &Transaction<'_>,
        taken: &Taken,
    ) -> Result<Option<RequestId>, LedgerError> {
        let Taken::Counted(_, approval) = taken else { return Ok(None) };
        if approval.kind != Kind::File || approval.state != State::Approved {
            return Ok(None);
        }
        let (Some(proposal), Some(group)) =
            (proposals::asked_by(tx.connection(), approval.id)?, approval.group.clone())
        else {
            return Ok(None);
        };
        let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else { return Ok(None) };
        #[expect(clippy::expect_used, reason = "letters, digits and a hyphen satisfy the grammar")]
        let request_id: RequestId = format!("apply-{}", nonce.as_str()).parse().expect("a request id");
        self.to_apply.push(ToApply {
            group,
            provider: approval.provider.clone(),
            id: proposal.id,
            path: proposal.path,
            request_id: request_id.clone(),
            row: tx.head().seq + 1,
        });
        Ok(Some(request_id))
    }
}

/// How long what a person reverts may take until it is applied.
const REVERT_TTL: Duration = Duration::from_secs(120);

/// About whose change a person is asked.
struct Asked<'a> {
    group: &'a Group,
    caller: &'a str,
    provider: &'a Provider,
    action: &'a Action,
}

/// Everything that a person agrees to; `None` if it cannot be shown in full.
fn card(asked: &Asked<'_>, proposed: &Proposed) -> Option<Card> {
    let mut card = Card::new();
    card.say("Workspace", asked.group.as_str());
    card.say("Action", &format!("{}.{}", asked.provider, asked.action));
    card.say("Level", &Level::Write.to_string());
    card.say("In short", &proposed.summary);
    card.say("Proposal", proposed.id.as_str());
    card.reasons.push("Changes to files are made only after a person has seen all of them.".to_owned());
    (card.holds(&proposed.conditions) && card.differs(&proposed.diff)).then_some(card)
}
