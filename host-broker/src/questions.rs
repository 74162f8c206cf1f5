//! Questions to people, and what becomes of the requests that wait for the answers.
//!
//! `Broker::ask` puts the question; `Broker::answer_question` takes a person's answer; `Broker::lapse` turns silence
//! into a no. A request whose question is resolved is admitted again, and decided on like the first time.

use crate::answers::{copy_of, refused, still_running};
use crate::approvals::card::Card;
use crate::approvals::{self, Answered, Approval, Kind, OPEN_MAX, Question, State, sealing};
use crate::broker::{Broker, event_of};
use crate::call::{Asked, Call, Caller, Header};
use crate::chat::HandedIn;
use crate::config::Config;
use crate::event::Event;
use crate::identity::{Behalf, ChatType};
use crate::ledger::chain::Draft;
use crate::ledger::store;
use crate::ledger::transaction::{Answer, Step, Transaction, Unwritten};
use crate::ledger::{self, LedgerError};
use crate::policy::authorize::Refusal;
use crate::policy::facts::Ask;
use crate::proposals;
use crate::proposing::Collected;
use crate::providers::contract::{Invocation, Needs};
use crate::providers::sealed::Sealed;
use serde_json::json;
use shared::digest::Digest;
use shared::reply::{ApprovalRef, Evidence};
use shared::time::Timestamp;
use shared::{Action, Code, Group, Level, Provider, Reply, RequestId, TaskId, limits};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A person's answer, as it came in.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    /// Which question.
    pub code: String,
    /// Yes, or no.
    pub yes: bool,
    /// Why.
    pub reason: Option<String>,
    /// Whether changes to files are to be made at once.
    pub apply: bool,
    /// Through which channel.
    pub channel: &'static str,
    /// Who handed it in, if that is somebody else.
    pub handed_in: Option<HandedIn>,
}

impl std::fmt::Debug for Given {
    /// Without the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Given({}, by {})", if self.yes { "yes" } else { "no" }, self.channel)
    }
}

impl Given {
    /// Adds to a row's body how the answer came in.
    pub(crate) fn way(&self, mut body: serde_json::Value) -> serde_json::Value {
        if let Some(body) = body.as_object_mut() {
            body.insert("channel".into(), self.channel.into());
            if let Some(HandedIn { from, by }) = &self.handed_in {
                body.insert("from".into(), from.as_str().into());
                body.insert("handed_in_by".into(), by.as_str().into());
            }
        }
        body
    }
}

/// What an answer came to.
pub(crate) enum Taken {
    /// It counts: the row's kind, and the question after it.
    Counted(ledger::chain::Kind, Box<Approval>),
    /// It does not; the name of the question, if it was one.
    No(Code, String, Option<String>),
}

/// What a person is to be asked.
pub(crate) struct Posed<'a> {
    pub(crate) kind: Kind,
    /// Who asks, as the ledger writes callers.
    pub(crate) caller: &'a str,
    /// Whose calls, access or files it is about.
    pub(crate) group: &'a Group,
    /// The request that the answer is for.
    pub(crate) request_id: &'a RequestId,
    pub(crate) provider: &'a Provider,
    pub(crate) action: &'a Action,
    pub(crate) level: Level,
    pub(crate) digest: Digest,
    /// How many must say yes, and for how long it waits.
    pub(crate) asking: (usize, Duration),
    /// The row that already is the yes, where no person needs to be asked.
    pub(crate) born_approved: Option<i64>,
    /// Why.
    pub(crate) asks: BTreeSet<Ask>,
    pub(crate) card: &'a Card,
    /// What is admitted again after the answer.
    pub(crate) document: Option<&'a [u8]>,
    pub(crate) params_digest: Option<Digest>,
    pub(crate) summary: Option<String>,
    pub(crate) task_id: Option<&'a TaskId>,
}

/// A question that is over, whose request is admitted again.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// What it was about.
    pub(crate) kind: approvals::Kind,
    /// The caller and the request.
    pub(crate) key: (Arc<str>, RequestId),
    /// The row that says so.
    pub(crate) row: i64,
}

enum Put {
    Asked,
    Joined(RequestId),
    Waits(RequestId),
    Answered(Option<Answer>),
}

impl Broker {
    /// Asks a person about this call, once.
    pub(crate) fn ask<'tx>(
        &mut self,
        tx: &'tx Transaction<'_>,
        mut call: Box<Call>,
        reasons: &[(Ask, String)],
    ) -> Result<Step<'tx, Event>, Unwritten<Event>> {
        match self.put(tx, &call, reasons) {
            Ok(Put::Asked) => Ok(tx.ask(event_of(call))),
            Ok(Put::Joined(of)) => {
                call.asked = Asked::AboutAnother(of.clone());
                Ok(Step::Wait(event_of(call), of))
            }
            Ok(Put::Waits(of)) => Ok(Step::Wait(event_of(call), of)),
            Ok(Put::Answered(answer)) => Ok(tx.close(event_of(call), answer)),
            Err(error) => Err(Unwritten { event: event_of(call), error }),
        }
    }

    fn put(&mut self, tx: &Transaction<'_>, call: &Call, reasons: &[(Ask, String)]) -> Result<Put, LedgerError> {
        let header = &call.header;
        let no = |code: Code, reason: String| refused(tx, call, &Refusal::new(code, reason)).map(Put::Answered);
        if let Some(Needs::ToApply(id)) = call.target.invocation().map(Invocation::needs) {
            return Ok(match self.collect(tx, call, id)? {
                Collected::Waits(of) => Put::Waits(of),
                Collected::Answered(answer) => Put::Answered(answer),
            });
        }
        if call.was_asked() {
            // Whoever agreed has agreed to something else. Nobody is asked twice about one request.
            let reason = "What a person agreed to is not what would run now.".to_owned();
            return no(Code::ApprovalRequired, reason);
        }
        let Caller::Group(_) = &header.caller else {
            return no(Code::ApprovalRequired, Code::ApprovalRequired.meaning().to_owned());
        };
        if let Asked::AboutAnother(of) = &call.asked {
            // Its time is over, or the question's is.
            let open = approvals::of_request(tx.connection(), &header.caller_key, of)?;
            return match open.filter(|approval| approval.state != State::Closed) {
                Some(approval) => told(tx, header, &approval).map(Some).map(Put::Answered),
                None if store::is_open(tx, &header.caller_key, of)? => {
                    still_running(tx, header, of).map(Some).map(Put::Answered)
                }
                None => copy_of(tx, header, of).map(Some).map(Put::Answered),
            };
        }
        let open = approvals::open(tx.connection(), Some(&header.caller_key))?;
        let lives = |approval: &Approval| match approval.state {
            State::Waiting => approval.expires_at > tx.now(),
            State::Approved => true,
            State::Denied | State::Expired | State::Cancelled | State::Closed => false,
        };
        let is_like = |approval: &&Approval| {
            approval.kind == Kind::Call && approval.provider == call.provider && approval.action == call.action
        };
        for equal in open.iter().filter(is_like).filter(|approval| lives(approval)) {
            if !sealing::is_about(tx.connection(), equal, call, &self.policy)? {
                continue;
            }
            if self.may_wait(header) {
                return Ok(Put::Joined(equal.request_id.clone()));
            }
            return told(tx, header, equal).map(Some).map(Put::Answered);
        }
        // What a person sees here, and says yes to, is what leaves.
        let sealed = call.target.invocation().and_then(|invocation| invocation.seal(&call.planted.nonce));
        let Some(card) = card(call, sealed.as_ref(), reasons) else {
            let reason = "The call is too large to be shown to a person in full, so nobody is asked.".to_owned();
            return no(Code::Guardrail, reason);
        };
        let Some(group) = header.caller.group() else {
            return no(Code::ApprovalRequired, Code::ApprovalRequired.meaning().to_owned());
        };
        let posed = Posed {
            kind: Kind::Call,
            caller: &header.caller_key,
            group,
            request_id: &header.request_id,
            provider: &call.provider,
            action: &call.action,
            level: call.target.demanded(),
            digest: approvals::digest_of(call, sealed.as_ref(), &self.policy),
            asking: self.config.asking(&call.provider, &call.action),
            born_approved: None,
            asks: reasons.iter().map(|(ask, _)| *ask).collect(),
            card: &card,
            document: Some(call.document.bytes()),
            params_digest: Some(call.params_digest),
            summary: call.target.invocation().map(Invocation::summary),
            task_id: call.task_id.as_ref(),
        };
        match self.pose(tx, header, &posed)? {
            Ok(question) => {
                if let Some(sealed) = &sealed {
                    sealing::keep(tx, question, sealed)?;
                }
                Ok(Put::Asked)
            }
            Err(refusal) => refused(tx, call, &refusal).map(Put::Answered),
        }
    }

    /// Puts a question, whatever it is about, and says under which number. One that was born approved is put to nobody.
    pub(crate) fn pose(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        posed: &Posed<'_>,
    ) -> Result<Result<i64, Refusal>, LedgerError> {
        // What a person puts is not held up by what an agent has put.
        let by_agent = header.caller.group().is_some();
        if by_agent && approvals::open(tx.connection(), Some(posed.caller))?.len() >= OPEN_MAX {
            return Ok(Err(too_many()));
        }
        let taken = |code: &str| approvals::with_code(tx.connection(), code).map(|found| found.is_some());
        let Ok(code) = approvals::fresh_code(self.ids.as_ref(), taken)? else {
            let reason = "The system's random source failed.".to_owned();
            return Ok(Err(Refusal::new(Code::EvidenceUnavailable, reason)));
        };
        let (quorum, patience) = posed.asking;
        let expires_at = tx.now().plus(patience);
        let asked_seq = match posed.born_approved {
            Some(row) => row,
            None => asked(tx, header, posed, expires_at)?.seq,
        };
        let left = header.reply_deadline().saturating_duration_since(Instant::now());
        let id = approvals::ask(
            tx,
            &Question {
                code: &code,
                kind: posed.kind,
                state: if posed.born_approved.is_some() { State::Approved } else { State::Waiting },
                caller: posed.caller,
                group: posed.group,
                request_id: posed.request_id,
                reply_as: header.reply_as(),
                provider: posed.provider,
                action: posed.action,
                level: posed.level,
                document: posed.document,
                person: header.behalf.person(),
                digest: posed.digest,
                quorum,
                asked_seq,
                expires_at,
                reply_by: tx.now().plus(left),
                asks: &posed.asks,
                card: posed.card,
            },
        )?;
        self.questions_changed = true;
        Ok(Ok(id))
    }

    /// Takes a person's answer. Whoever may not answer changes nothing.
    pub(crate) fn answer_question(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        given: &Given,
    ) -> Result<Taken, LedgerError> {
        let Caller::Person(person) = &header.caller else {
            return Ok(Taken::No(Code::Guardrail, "Only people answer questions.".to_owned(), None));
        };
        let code = given.code.trim().to_ascii_lowercase();
        let Some(approval) = approvals::with_code(tx.connection(), &code)? else {
            return Ok(Taken::No(Code::InvalidParams, "There is no question with this code.".to_owned(), None));
        };
        let about = Some(approval.reference());
        if !may_answer(&self.config, person, &approval) {
            return Ok(Taken::No(
                Code::Guardrail,
                format!(
                    "{person} may not answer this: [people.{person}] in broker.toml needs `approves` with this group, \
                     provider and level."
                ),
                about,
            ));
        }
        if !given.yes && Self::takes_back_a_yes(tx, &approval)? {
            approvals::retract(tx, approval.id, &answered_by(header, given, tx))?;
            self.resolve(tx, &approval, State::Denied, tx.head().seq + 1)?;
            let kind = ledger::chain::Kind::Denied;
            return Ok(Taken::Counted(kind, Box::new(Approval { state: State::Denied, ..approval })));
        }
        if approval.state != State::Waiting || approval.expires_at <= tx.now() {
            let silent = approval.state == State::Waiting;
            let state = approval.became.as_deref().unwrap_or(if silent { "expired" } else { approval.state.word() });
            return Ok(Taken::No(Code::ApprovalExpired, format!("It is too late: the question is {state}."), about));
        }
        if !approvals::answer(tx, approval.id, &answered_by(header, given, tx))? {
            return Ok(Taken::No(Code::Guardrail, format!("{person} has answered this question before."), about));
        }
        let yes = approvals::answers(tx.connection(), approval.id)?.iter().filter(|answer| answer.yes).count();
        let state = match given.yes {
            false => State::Denied,
            true if yes >= approval.quorum => State::Approved,
            true => State::Waiting,
        };
        if state != State::Waiting {
            // The row of the answer is the next one.
            self.resolve(tx, &approval, state, tx.head().seq + 1)?;
        }
        // Who has answered is shown as well.
        self.questions_changed = true;
        let kind = if given.yes { ledger::chain::Kind::Approved } else { ledger::chain::Kind::Denied };
        Ok(Taken::Counted(kind, Box::new(Approval { state, ..approval })))
    }

    /// Whether a no comes before a yes to changes of files has had its effect.
    fn takes_back_a_yes(tx: &Transaction<'_>, approval: &Approval) -> Result<bool, LedgerError> {
        if approval.kind != Kind::File || approval.state != State::Approved {
            return Ok(false);
        }
        let proposal = proposals::asked_by(tx.connection(), approval.id)?;
        Ok(proposal.is_some_and(|proposal| proposal.until > tx.now()))
    }

    /// Nobody said anything in time: that is a no, and recorded as silence.
    pub(crate) fn lapse(&mut self, tx: &Transaction<'_>) -> Result<(), LedgerError> {
        // Whatever is found, the next silence is another one.
        self.questions_changed = true;
        for approval in approvals::overdue(tx.connection(), tx.now())? {
            let proposal = match approval.kind {
                Kind::File => proposals::asked_by(tx.connection(), approval.id)?,
                Kind::Call | Kind::Grant => None,
            };
            let id = proposal.as_ref().map_or(&approval.request_id, |proposal| &proposal.proposed_by);
            let evidence = tx.append(&Draft {
                person: store::person_of(tx, &approval.caller, id)?,
                request_id: Some(id),
                provider: Some(&approval.provider),
                action: Some(&approval.action),
                approval: Some(approval.reference()),
                body: json!({ "answers": approvals::answers(tx.connection(), approval.id)?.len() }),
                ..Draft::new(ledger::chain::Kind::Lapsed, &approval.caller)
            })?;
            self.resolve(tx, &approval, State::Expired, evidence.seq)?;
        }
        for proposal in proposals::uncollected(tx.connection(), tx.now())? {
            let approval = &proposal.approval;
            let evidence = tx.append(&Draft {
                person: store::person_of(tx, &approval.caller, &proposal.proposed_by)?,
                request_id: Some(&proposal.proposed_by),
                provider: Some(&approval.provider),
                action: Some(&approval.action),
                approval: Some(approval.reference()),
                body: json!({ "applied": false }),
                ..Draft::new(ledger::chain::Kind::Lapsed, &approval.caller)
            })?;
            self.end_proposal(tx, &proposal, "expired", evidence.seq)?;
        }
        Ok(())
    }

    /// Whoever waits to apply this proposal is let go.
    pub(crate) fn resolved_proposal(&mut self, approval: &Approval, row: i64) {
        let key = (Arc::from(approval.caller.as_str()), approval.request_id.clone());
        self.resolved.push(Resolved { kind: approval.kind, key, row });
        self.questions_changed = true;
    }

    /// The question is over, and its request is admitted again.
    pub(crate) fn resolve(
        &mut self,
        tx: &Transaction<'_>,
        approval: &Approval,
        state: State,
        row: i64,
    ) -> Result<(), LedgerError> {
        approvals::resolve(tx, approval.id, state)?;
        if approval.kind == Kind::File {
            return match proposals::asked_by(tx.connection(), approval.id)? {
                Some(proposal) if state != State::Approved => self.end_proposal(tx, &proposal, state.word(), row),
                Some(_) | None => {
                    self.resolved_proposal(approval, row);
                    Ok(())
                }
            };
        }
        // What was approved before is on its way back in already.
        if approval.state == State::Waiting {
            let key = (Arc::from(approval.caller.as_str()), approval.request_id.clone());
            self.resolved.push(Resolved { kind: approval.kind, key, row });
        }
        self.questions_changed = true;
        Ok(())
    }
}

/// The row that says that a person is asked.
fn asked(
    tx: &Transaction<'_>,
    header: &Header,
    posed: &Posed<'_>,
    expires_at: Timestamp,
) -> Result<Evidence, LedgerError> {
    tx.append(&Draft {
        provider: Some(posed.provider),
        action: Some(posed.action),
        level: Some(posed.level),
        params_digest: posed.params_digest,
        summary: posed.summary.clone(),
        task_id: posed.task_id,
        body: json!({
            "request": header.request_digest,
            "kind": posed.kind,
            "agrees_to": posed.digest,
            "expires_at": expires_at,
            "quorum": posed.asking.0,
            "why": posed.card.reasons,
        }),
        ..Draft::about(ledger::chain::Kind::Asked, header)
    })
}

/// Nobody is asked more than can be answered.
pub(crate) fn too_many() -> Refusal {
    Refusal::new(Code::Busy, format!("{OPEN_MAX} questions of this group wait for people already."))
}

fn answered_by(header: &Header, given: &Given, tx: &Transaction<'_>) -> Answered {
    Answered {
        by: header.caller_key.to_string(),
        channel: given.channel.to_owned(),
        yes: given.yes,
        reason: given.reason.clone(),
        at: tx.now(),
    }
}

/// Whether this person may answer this question.
pub(crate) fn may_answer(config: &Config, person: &str, approval: &Approval) -> bool {
    config.may_approve(person, approval.group.as_ref(), &approval.provider, approval.level)
}

/// Everything that a person agrees to; `None` if it cannot be shown in full.
fn card(call: &Call, sealed: Option<&Sealed>, reasons: &[(Ask, String)]) -> Option<Card> {
    let mut card = Card::new();
    let level = call.target.demanded();
    if let Some(group) = call.header.caller.group() {
        card.say("Workspace", group.as_str());
    }
    say_for_whom(&mut card, &call.header.behalf);
    card.say("Action", &format!("{}.{}", call.provider, call.action));
    card.say("Level", &level.to_string());
    if let Some(invocation) = call.target.invocation() {
        card.say("In short", &invocation.summary());
    }
    if let Some(task) = &call.task_id {
        card.say("Task", task.as_str());
    }
    if let Some(account) = &call.account_ref {
        card.say("Account", account);
    }
    if level >= Level::Production {
        card.say("Note", "a production action");
    }
    if let Some(key) = &call.idempotency_key {
        card.say("Idempotency key", key.as_str());
    }
    let condition = call.target.invocation().and_then(Invocation::precondition).unwrap_or_default();
    card.reasons.extend(reasons.iter().map(|(_, reason)| reason.clone()));
    let shown = card.list(&call.params())
        && (condition.is_null() || card.holds(&condition))
        && sealed.is_none_or(|sealed| card.sends(sealed));
    shown.then_some(card)
}

/// Says on whose behalf it is asked. The key and the kind of chat are proved; names are the person's own choice, so each
/// stands on a line of its own, between quotes.
pub(crate) fn say_for_whom(card: &mut Card, behalf: &Behalf) {
    let Some(person) = behalf.person() else { return };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    card.say("On behalf of", &person.key());
    if let Some(name) = person.source_display_name.as_ref().or(person.source_username.as_ref()) {
        card.say("Who goes by", &quoted(name));
    }
    let kind = person.chat_type.map(ChatType::word);
    let chat = person.chat_id.as_deref().map(quoted);
    let words: Vec<&str> = kind.into_iter().chain(chat.as_deref()).collect();
    if !words.is_empty() {
        card.say("Chat", &words.join(" "));
    }
}

/// How a request ends before it is decided on again.
pub(crate) enum Ended {
    /// It does not.
    No,
    /// With a no that was given.
    Refused(Refusal),
    /// It has ended before.
    Before,
}

/// Whether this request, about which a person was asked, ends before it is decided on again.
pub(crate) fn ended(tx: &Transaction<'_>, header: &Header) -> Result<Ended, LedgerError> {
    let no = |code: Code| Ok(Ended::Refused(Refusal::new(code, code.meaning().to_owned())));
    let Some(approval) = approvals::of_request(tx.connection(), &header.caller_key, &header.request_id)? else {
        return no(Code::ApprovalRequired);
    };
    let (code, reason) = match approval.state {
        // A yes does not wait for ever either: whoever gave it meant now.
        State::Approved if approval.expires_at.plus(limits::PATIENCE_MAX) <= tx.now() => {
            return no(Code::ApprovalExpired);
        }
        // Whether the yes is to exactly this is the decision's business.
        State::Approved | State::Waiting => return Ok(Ended::No),
        State::Closed => return Ok(Ended::Before),
        State::Denied => (Code::ApprovalDenied, said_no(tx, &approval)?),
        State::Expired => return no(Code::ApprovalExpired),
        State::Cancelled => return no(Code::Cancelled),
    };
    Ok(Ended::Refused(Refusal::new(code, reason)))
}

/// That a person said no, and why.
pub(crate) fn said_no(tx: &Transaction<'_>, approval: &Approval) -> Result<String, LedgerError> {
    let answers = approvals::answers(tx.connection(), approval.id)?;
    let why = answers.into_iter().filter(|answer| !answer.yes).find_map(|answer| answer.reason);
    let why = why.filter(|why| !why.trim().is_empty());
    let said = why.map_or_else(String::new, |why| format!(" Their reason: {}.", approvals::card::visible(&why)));
    let what = match approval.kind {
        Kind::Call => "call",
        Kind::Grant => "grant",
        Kind::File => "proposal",
    };
    Ok(format!("A person said no to this {what}.{said}"))
}

/// Ends a request with its reply. A person may have been asked about it: then the question is closed with it, and a caller
/// who was told `pending` has had its one reply.
pub(crate) fn answer(
    tx: &Transaction<'_>,
    header: &Header,
    asked: bool,
    reply: Reply,
    evidence: Evidence,
) -> Result<Option<Answer>, LedgerError> {
    let caller = &header.caller_key;
    if !asked {
        return tx.answer(caller, reply, evidence).map(Some);
    }
    approvals::close(tx, caller, &header.request_id, reply.code.as_deref().unwrap_or("spent"))?;
    if approvals::is_told(tx, caller, &header.request_id)? {
        return tx.keep(caller, reply, evidence).map(|()| None);
    }
    tx.answer(caller, reply, evidence).map(Some)
}

/// The caller stops waiting before a person has answered, or before what a person agreed to is over.
pub(crate) fn pending(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<Answer>, LedgerError> {
    let Some(approval) = approvals::of_request(tx.connection(), caller, id)? else { return Ok(None) };
    if approval.told {
        return Ok(None);
    }
    if approval.state == State::Closed && !store::is_open(tx, caller, id)? {
        // It is over, and the reply did not find its way.
        let kept = store::reply(tx, caller, id)?;
        return Ok(kept.map(|reply| tx.answer_again(id.clone(), reply.into_vec(), approval.asked_seq)));
    }
    approvals::tell(tx, approval.id)?;
    let evidence = tx.append(&Draft {
        person: store::person_of(tx, caller, id)?,
        request_id: Some(id),
        reason_code: Some(Code::ApprovalRequired),
        approval: Some(approval.reference()),
        ..Draft::new(ledger::chain::Kind::Answered, caller)
    })?;
    tx.answer(caller, Reply::pending(id.clone(), known(&approval), tx.now()), evidence).map(Some)
}

/// Another request about the same question, whose caller stops waiting.
pub(crate) fn told(tx: &Transaction<'_>, header: &Header, approval: &Approval) -> Result<Answer, LedgerError> {
    let evidence = tx.append(&Draft {
        reason_code: Some(Code::ApprovalRequired),
        approval: Some(approval.reference()),
        body: json!({ "request": header.request_digest, "of_request": approval.request_id }),
        ..Draft::about(ledger::chain::Kind::Answered, header)
    })?;
    tx.answer(&header.caller_key, Reply::pending(header.request_id.clone(), known(approval), tx.now()), evidence)
}

/// The request whose outcome is this one's: the one that was asked about, if this one's reply says that a person is asked.
pub(crate) fn behind(tx: &Transaction<'_>, header: &Header, of: &RequestId) -> Result<RequestId, LedgerError> {
    let reply = store::reply(tx, &header.caller_key, of)?;
    let reply = reply.and_then(|document| serde_json::from_slice::<Reply>(&document).ok());
    let Some(asked) = reply.and_then(|reply| reply.approval) else { return Ok(of.clone()) };
    let asked = approvals::referred(tx.connection(), &header.caller_key, &asked.reference)?;
    // Whoever waited to apply a proposal applies it again: there is no other request that does.
    let asked = asked.filter(|approval| approval.kind != Kind::File);
    Ok(asked.map_or_else(|| of.clone(), |approval| approval.request_id))
}

/// What an agent may know of a question.
fn known(approval: &Approval) -> ApprovalRef {
    ApprovalRef {
        reference: approval.reference(),
        expires_at: approval.expires_at,
        summary: match approval.kind {
            Kind::Call => format!("{}.{} waits for a person", approval.provider, approval.action),
            Kind::Grant => format!("a grant for {} waits for a person", approval.provider),
            Kind::File => "the proposal waits for a person; apply it again later".to_owned(),
        },
    }
}
