//! The callers that wait for a person, and the way of their requests back into the loop.
//!
//! Memory holds only the callers and their timeouts. The approval requests are rows, so they survive a restart.

use super::{Loop, TICK, group_of};
use crate::daemon::{Checked, OAuthCallback, Resumed};
use crate::metrics::CallSeries;
use engine::approval_requests::{Unanswerable, Why};
use engine::approval_subjects;
use engine::approval_subjects::Continuation;
use engine::event::Event;
use engine::file_proposals::internal_request_id;
use engine::request::{Command, CommandRequest, Parsed};
use kernel::call::{Header, Origin, ReplyAddress};
use model::approval::{ApprovalState, SubjectKind};
use model::errors::chain;
use model::{Caller, Nonce};
use serde_json::json;
use shared::RequestId;
use shared::reply::Progress;
use shared::request::CancelRequest;
use std::sync::Arc;
use store::StoreError;
use store::state::approvals;
use store::state::approvals::Waiting;
use store::state::linking as stored;
use store::state::linking::Begun;
use store::state::proposals;
use store::state::proposals::PendingApplication;
use tokio::time::Instant;

/// A caller whose call waits for a person.
pub(super) struct Asker {
    pub(super) origin: Origin,
    // The end of the wait, when the caller gets a reply.
    pub(super) until: Instant,
    // Where the reply is counted, if the request is a call.
    pub(super) series: Option<CallSeries>,
}

impl Loop {
    /// Continues the approval requests of an earlier daemon.
    ///
    /// Their callers may still wait, and answered requests are decided again.
    pub(super) fn ask_on(&mut self) {
        let open = match approvals::open(self.daemon.ledger.view(), None) {
            Ok(open) => open,
            Err(error) => {
                tracing::error!(error = chain(&error), "the open approval requests cannot be read");
                return;
            }
        };
        let (wall, now) = (self.daemon.clock.now(), Instant::now());
        for approval in open {
            let subject = approval_subjects::of(approval.kind);
            let continuation = subject.continuation();
            let is_under_way = match subject.is_under_way(self.daemon.ledger.view(), &approval) {
                Ok(is_under_way) => is_under_way,
                Err(error) => {
                    tracing::error!(error = chain(&error), "an open approval request cannot be read");
                    self.postponed.push((approval.caller.as_str().into(), approval.request_id.clone()));
                    true
                }
            };
            if continuation == Continuation::PutInForce && approval.state == ApprovalState::Approved {
                self.reload_approved(&approval.request_id);
            }
            if Caller::stored(&approval.caller).is_none() {
                continue;
            }
            let group = group_of(&approval.caller);
            let key: (Arc<str>, RequestId) = (approval.caller.as_str().into(), approval.request_id);
            if approval.state == ApprovalState::Waiting {
                self.unchecked.push_back(key.clone());
            }
            if continuation == Continuation::Wake {
                // The request behind it is over; the caller has to call again.
                continue;
            }
            if approval.state != ApprovalState::Waiting && !is_under_way {
                self.readmit(&key);
            }
            // A caller that waited at a connection is gone with it.
            if let (Some(group), false) = (group, approval.told) {
                let until = now + approval.reply_by.since(wall);
                let is_call = approval.kind == SubjectKind::Call;
                let series =
                    is_call.then(|| self.daemon.meter.call(&approval.provider, &approval.action, Some(&group)));
                let address = ReplyAddress { reply_as: approval.reply_as, ..ReplyAddress::of(group) };
                self.asked.insert(key, Asker { origin: Origin::Retired(address), until, series });
            }
        }
        self.check_next();
    }

    /// Has the next approval request checked beside the loop. If no answer can permit its call, the request ends. One
    /// document at a time is in memory.
    fn check_next(&mut self) {
        while let Some(key) = self.unchecked.pop_front() {
            match self.waiting(&key) {
                Ok(Ok(Some((caller, waiting)))) => {
                    let config = Arc::clone(self.daemon.broker.config());
                    if self.daemon.intake.check(caller, key.1, waiting, config) {
                        return;
                    }
                }
                // It is over.
                Ok(Ok(None)) => {}
                Ok(Err(why)) => self.end_unanswerable(key, why),
                Err(error) => tracing::error!(error = chain(&error), "an open approval request cannot be read"),
            }
        }
    }

    /// Takes the result of a check of an approval request.
    pub(super) fn checked(&mut self, (key, refusal): Checked) {
        if let Some(refusal) = refusal.transpose() {
            self.resumed((key, refusal));
        }
        self.check_next();
    }

    /// Applies the proposals whose application failed: the daemon had died, or could not write.
    pub(super) fn apply_what_is_wanted(&mut self) {
        match proposals::wanted(self.daemon.ledger.view(), None) {
            Ok(wanted) => wanted.into_iter().for_each(|wanted| self.apply(wanted)),
            Err(error) => {
                tracing::error!(error = chain(&error), "the proposals to apply cannot be read");
                self.wanted = true;
            }
        }
    }

    /// Admits a request again whose approval request is resolved.
    pub(super) fn readmit(&mut self, key: &(Arc<str>, RequestId)) {
        match self.waiting(key) {
            Ok(Ok(Some((caller, waiting)))) => {
                let config = Arc::clone(self.daemon.broker.config());
                self.daemon.intake.readmit(caller, key.1.clone(), waiting, config);
            }
            // It is over.
            Ok(Ok(None)) => {}
            Ok(Err(why)) => self.end_unanswerable(key.clone(), why),
            Err(error) => {
                tracing::error!(error = chain(&error), "a request that waited cannot be read");
                self.postponed.push(key.clone());
            }
        }
    }

    /// The caller and the stored request, or why it cannot be admitted again; `None` for one that is over.
    fn waiting(&self, key: &(Arc<str>, RequestId)) -> Result<Result<Option<(Caller, Waiting)>, Why>, StoreError> {
        let config = self.daemon.broker.config();
        let is_there = |caller: &Caller| caller.group().is_none_or(|group| config.groups.contains_key(group));
        let Some(caller) = Caller::stored(&key.0).filter(is_there) else { return Ok(Err(Why::GroupGone)) };
        let waiting = approvals::waiting(self.daemon.ledger.view(), &key.0, &key.1)?;
        Ok(Ok(waiting.map(|waiting| (caller, waiting))))
    }

    fn end_unanswerable(&mut self, key: (Arc<str>, RequestId), why: Why) {
        tracing::warn!(caller = %key.0, request = %key.1, ?why, "a request that waited cannot be decided on");
        self.pending.push_back(Event::Unanswerable(Box::new(Unanswerable { key, why })));
    }

    /// A person wants a proposal applied at once: a call of its group, decided on like every other.
    pub(super) fn apply(&mut self, wanted: PendingApplication) {
        let PendingApplication { group, provider, id, path, request_id, behalf } = wanted;
        let document = json!({
            "type": "ext_call",
            "request_id": request_id,
            "provider": provider,
            "action": "apply_proposal",
            "params": { "path": path, "hitl_id": id },
        });
        match self.daemon.intake.on_behalf(group, request_id, behalf, document.to_string().as_bytes()) {
            Ok(call) => self.pending.push_back(Event::Arrived(Parsed::Call(call))),
            Err(fault) => tracing::error!(proposal = %id, fault, "an approved proposal cannot be applied"),
        }
    }

    /// A browser has brought a person back from the page on which an account is linked: the flow is completed, by a call of
    /// the group that began it and on the person's behalf, decided on like every other.
    pub(super) fn bring_back(&mut self, back: OAuthCallback) {
        let OAuthCallback { brought, url, answer } = back;
        let state = brought.state.as_deref().unwrap_or_default();
        let begun = stored::by_state(self.daemon.ledger.view(), state, self.daemon.clock.now());
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => return tracing::error!(error = chain(&error), "the flow cannot be looked up"),
        };
        let Some(Begun { id, caller, behalf }) = begun else { return };
        let Ok(nonce) = Nonce::fresh(self.daemon.broker.ids()) else { return };
        let (request_id, document) = (
            internal_request_id("callback", &nonce),
            json!({ "type": "ext_auth_complete", "flow_id": id, "callback_url": *url }),
        );
        let Some(group) = group_of(&caller).filter(|group| self.daemon.broker.config().groups.contains_key(group))
        else {
            return;
        };
        match self.daemon.intake.on_behalf(group, request_id, behalf, document.to_string().as_bytes()) {
            Ok(mut call) => {
                call.header.origin = Origin::Socket(answer);
                self.pending.push_back(Event::Arrived(Parsed::Call(call)));
            }
            Err(fault) => tracing::error!(flow = %id, fault, "a flow cannot be completed"),
        }
    }

    /// A request that waited for a person is parsed again: it is decided on, or closed.
    pub(super) fn resumed(&mut self, (key, event): Resumed) {
        match event {
            Ok(event) => self.pending.push_back(event),
            Err(why) => self.end_unanswerable(key, why),
        }
    }

    /// Removes the file of a request whose approval request is durable.
    ///
    /// Its caller is told so until it stops waiting.
    pub(super) fn wait_for_a_person(&mut self, event: Event) {
        self.end_reading_of(&event);
        let series = self.series(&event);
        // About nothing else is ever asked.
        let Some(mut header) = event.into_header() else { return };
        if let Some(file) = header.retire()
            && self.daemon.outbox.retire(&file)
        {
            self.withdraw(&header);
        }
        let until = header.reply_deadline();
        if let Some(group) = header.caller.group() {
            let message = "a person is being asked to agree".to_owned();
            let progress = Progress { message, progress: None, total: None };
            self.daemon.outbox.progress(group.clone(), header.request_id.clone(), &progress);
        }
        self.asked.insert((header.caller_key, header.request_id), Asker { origin: header.origin, until, series });
    }

    /// Cancels a request whose sender has withdrawn it while its row was written.
    fn withdraw(&mut self, header: &Header) {
        let Ok(nonce) = Nonce::fresh(self.daemon.broker.ids()) else { return };
        let command = Command::Cancel(CancelRequest { of: header.request_id.clone() });
        let header = Header { request_id: internal_request_id("withdraw", &nonce), ..header.internal() };
        let request = CommandRequest { header, command, asked: false, calls: Vec::new(), failed_read: None };
        self.pending.push_back(Event::Arrived(Parsed::CommandRequest(Box::new(request))));
    }

    /// Callers that stop waiting before the answer hear that a person is asked.
    pub(super) fn tell_impatient(&mut self) {
        let now = Instant::now();
        // A caller whose outcome cannot be written hears that instead.
        let withheld: Vec<_> = self.unsettled.iter().filter_map(Event::asked).map(Header::key).collect();
        let late = self.asked.iter_mut().filter(|(key, asker)| asker.until <= now && !withheld.contains(key));
        let told: Vec<Event> = late
            .map(|(key, asker)| {
                // Where it cannot be written it is tried again.
                asker.until = now + TICK;
                Event::CallerTimedOut(Box::new(key.clone()))
            })
            .collect();
        self.handle(told);
    }
}
