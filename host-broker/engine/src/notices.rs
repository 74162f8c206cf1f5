//! Notices: the channels of each approval request, and the delivery of its notices.
//!
//! ```text
//! an approval request is sent, or closed ──► event ──► a notice for each channel that is concerned: due
//! due ──► row `notifying` ──► attempt ──► row `notified`: sent
//!  ▲                             └─ failed: later again, until the approval is closed ──► row `notice_failed`: failed
//!  └── not before its channel's `escalate_after_s`; if the approval is closed by then: dropped
//! ```
//!
//! The database itself writes the events, with the approval request. A due notice is a row, so a restart continues it.
//! After a success one notice is not sent again; an attempt without a known end is made again.
//!
//! [`store::state::notices`] stores them, `text` words them, [`sender`] delivers them, and [`chats`] fetches the answers.

mod alarm;
pub mod chats;
pub mod sender;
mod text;

use crate::approval_requests::may_answer;
use crate::broker::Broker;
use crate::chat;
use crate::chat::ChatLimits;
use config::channels::ChannelTable;
use kernel::{Message, NoticeDraft, PendingNotice};
use model::NoticeEvent;
use model::approval::{Approval, ApprovalState};
use platform::delivery::pause;
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Provider, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::state::approvals;
use store::state::notices as stored;
use store::{StoreError, Transaction};
use stored::{Notice, NoticeState};

/// The most notices that wait for a channel.
const QUEUE_MAX: usize = 1_000;
/// The time for which a notice about a closed approval request is tried.
const OVER_KEEP: Duration = Duration::from_secs(3600);
/// The number of one caller's approval requests that a channel gets at once in a minute. The next ones follow this far
/// apart.
const BURST: usize = 5;
const BURST_WINDOW: Duration = Duration::from_secs(60);
const SPACING: Duration = Duration::from_secs(20);

/// The result of an attempt.
#[derive(Debug)]
pub struct Attempt {
    /// The notice.
    pub id: i64,
    /// The channel.
    pub channel: String,
    /// The error, for the operator; `None` if it succeeded.
    pub fault: Option<String>,
}

impl Broker {
    /// Makes the notices of new events, and takes the due ones: one for each channel that is free. `busy` has the
    /// notices that are under way, by channel.
    pub(crate) fn tell<'tx>(
        &self,
        tx: &Transaction<'tx>,
        busy: &BTreeMap<String, i64>,
    ) -> Result<Vec<PendingNotice<'tx>>, StoreError> {
        let mut pending = Vec::new();
        for (id, event, said) in stored::events(tx.view())? {
            match approvals::with_id(tx.view(), id) {
                Ok(Some(approval)) => self.plan(tx, &approval, event, &said, busy)?,
                Ok(None) => {}
                // An unreadable approval request gets no notice; all others do.
                Err(error @ StoreError::Stored { .. }) => {
                    tracing::error!(id, error = model::errors::chain(&error), "an approval request is damaged");
                }
                Err(error) => return Err(error),
            }
            stored::forget_event(tx, id, event)?;
        }
        for channel in stored::waiting_channels(tx.view())? {
            if busy.contains_key(&channel) {
                continue;
            }
            let table = self.config.channels.iter().find(|table| table.name == channel).cloned();
            while let Some(notice) = stored::due(tx.view(), &channel, tx.now())? {
                let Some(table) = &table else {
                    give_up(tx, &notice, "the channel is no longer configured")?;
                    continue;
                };
                if let Some(outgoing) = self.take(tx, table, &notice)? {
                    pending.push(outgoing);
                    break;
                }
            }
        }
        Ok(pending)
    }

    /// Makes a notice for each channel of an event.
    fn plan(
        &self,
        tx: &Transaction<'_>,
        approval: &Approval,
        event: NoticeEvent,
        said: &str,
        busy: &BTreeMap<String, i64>,
    ) -> Result<(), StoreError> {
        let is_over = event != NoticeEvent::Asked;
        if is_over {
            // No approver is needed any more. A notice under way records its own end.
            for notice in stored::due_about(tx.view(), approval.id)? {
                if !busy.values().any(|id| *id == notice.id) {
                    give_up(tx, &notice, "the approval request is closed")?;
                }
            }
        }
        if approval.expires_at.plus(OVER_KEEP) <= tx.now() {
            // It happened while there was no channel.
            return Ok(());
        }
        for table in &self.config.channels {
            if !table.events.contains(&event) || !self.concerns(table, approval) {
                continue;
            }
            let asked = stored::find(tx.view(), approval.id, NoticeEvent::Asked, &table.name)?;
            let never_asked = asked.is_some_and(|asked| asked.state == NoticeState::Dropped);
            if event == NoticeEvent::Answered && never_asked {
                continue;
            }
            let (due_at, until) = if is_over {
                (tx.now(), tx.now().plus(OVER_KEEP))
            } else {
                let wanted = approval.asked_at.plus(Duration::from_secs(table.escalate_after_s));
                (spaced(tx, &table.name, approval, wanted)?, approval.expires_at)
            };
            let notice = stored::add(tx, approval.id, event, said, &table.name, due_at, until)?;
            if stored::count_due(tx.view(), &table.name)? > QUEUE_MAX {
                fail(tx, &notice, "too many notices wait for this channel")?;
            }
        }
        Ok(())
    }

    /// Returns whether a channel gets this approval request, by its filters and the rights of its people.
    pub(crate) fn concerns(&self, table: &ChannelTable, approval: &Approval) -> bool {
        let may = |name: &String| may_answer(&self.config, name, approval);
        table.groups.as_ref().is_none_or(|groups| approval.group.as_ref().is_some_and(|group| groups.contains(group)))
            && table.providers.as_ref().is_none_or(|providers| {
                let covers = |provider: &Provider| providers.iter().any(|named| named.covers(provider));
                covers(&approval.provider) && approval.others.iter().all(covers)
            })
            && table.max_level.is_none_or(|most| approval.level <= most)
            && (table.approvers.is_empty() || table.approvers.iter().any(may))
    }

    /// Records that a notice is about to leave; `None` if it is no longer wanted, or too late.
    fn take<'tx>(
        &self,
        tx: &Transaction<'tx>,
        table: &ChannelTable,
        notice: &Notice,
    ) -> Result<Option<PendingNotice<'tx>>, StoreError> {
        let Some(approval) = approvals::with_id(tx.view(), notice.approval)? else {
            return give_up(tx, notice, "the approval request does not exist").map(|()| None);
        };
        if notice.event == NoticeEvent::Asked && !waits(&approval, tx.now()) {
            return give_up(tx, notice, "the approval request is closed").map(|()| None);
        }
        if notice.until <= tx.now() {
            return give_up(tx, notice, "it is too late").map(|()| None);
        }
        let outgoing = self.word(tx, table, notice, &approval)?;
        // The shown part of the card is covered by the approval request's own keyed digest; the rest is public.
        let (shows, member, digest) = if outgoing.message().shows_card {
            ("card", "agrees_to", approval.digest)
        } else {
            ("notice", "digest", Digest::of(&shared::json::canonical(&outgoing.message().document)))
        };
        let announced = format!("{shows} {}", digest.hex());
        if notice.announced.as_deref() != Some(announced.as_str()) {
            let body = json!({ "channel": table.name, "event": notice.event, "shows": shows, member: digest });
            tx.append(&about(RowKind::Notifying, &approval, body))?;
            stored::announce(tx, notice.id, &announced)?;
        }
        Ok(Some(outgoing))
    }

    /// Makes the text for a channel.
    fn word<'tx>(
        &self,
        tx: &Transaction<'tx>,
        table: &ChannelTable,
        notice: &Notice,
        approval: &Approval,
    ) -> Result<PendingNotice<'tx>, StoreError> {
        let inbox = self.config.web.as_ref().and_then(|web| web.public_url.as_ref().map(ToString::to_string));
        let link = self.config.notices.link_base.clone().or(inbox);
        let may_show = table.full_cards
            && notice.event == NoticeEvent::Asked
            && chat::answerable(approval.kind, approval.level, &approval.asks, ChatLimits::of_channel(table)).is_ok();
        let card = approval.card.as_ref().filter(|_| may_show);
        let full = card.and_then(|card| Some((card, text::full(approval, card, table.takes_replies())?)));
        let answers = approvals::answers(tx.view(), approval.id)?;
        let by: Vec<&str> = answers.iter().map(|answer| answer.by.as_str()).collect();
        let open = approvals::open(tx.view(), Some(&approval.caller))?;
        let others = open.iter().filter(|other| other.id != approval.id && waits(other, tx.now())).count();
        let (event, said, link_to) = (notice.event, notice.said.as_str(), link.as_deref());
        let told = text::Told { approval, event, said, by: &by, link: link_to, others };
        let name = format!("{}-{}", approval.reference(), notice.event.word());
        let mut document = told.document(&name, &table.name, approval.kind.word());
        let (text, shows_card) = match full {
            Some((card, text)) => {
                if let Some(object) = document.as_object_mut() {
                    // With the code, a chat has buttons.
                    if table.takes_replies() {
                        object.insert("code".into(), json!(approval.code));
                    }
                    object.insert("card".into(), json!(card));
                }
                (text, true)
            }
            None => (told.text(), false),
        };
        if let Some(object) = document.as_object_mut() {
            object.insert("text".into(), json!(text));
        }
        let (title, is_question) = (told.title(), notice.event == NoticeEvent::Asked);
        let message = Message { name, title, text, link, shows_card, is_question, document };
        Ok(kernel::announce(tx, NoticeDraft { id: notice.id, channel: table.name.clone(), message }))
    }
}

/// Records the end of an attempt.
pub(crate) fn told(tx: &Transaction<'_>, attempt: &Attempt) -> Result<(), StoreError> {
    let Some(mut notice) = stored::numbered(tx.view(), attempt.id)? else { return Ok(()) };
    notice.attempts += 1;
    let approval = approvals::with_id(tx.view(), notice.approval)?;
    let Some(fault) = &attempt.fault else {
        let Some(approval) = approval else { return stored::over(tx, &notice, NoticeState::Sent, None) };
        let body = json!({ "channel": notice.channel, "event": notice.event, "attempts": notice.attempts });
        tx.append(&about(RowKind::Notified, &approval, body))?;
        return stored::over(tx, &notice, NoticeState::Sent, None);
    };
    let next = tx.now().plus(pause(notice.attempts));
    let is_wanted = notice.event != NoticeEvent::Asked
        || approval.is_some_and(|approval| approval.state == ApprovalState::Waiting && next < approval.expires_at);
    if is_wanted && next < notice.until {
        stored::postpone(tx, &notice, next, fault)
    } else {
        give_up(tx, &notice, fault)
    }
}

/// Returns when to announce an approval request: a caller's first few within a minute at once, the next ones apart.
/// Most are closed by then, because a person who reads one finds the others beside it.
fn spaced(
    tx: &Transaction<'_>,
    channel: &str,
    approval: &Approval,
    wanted: Timestamp,
) -> Result<Timestamp, StoreError> {
    let (lately, last) = stored::asked_lately(tx.view(), channel, &approval.caller, wanted.minus(BURST_WINDOW))?;
    Ok(if lately < BURST { wanted } else { wanted.max(last.plus(SPACING)) })
}

/// Returns whether it can still be answered.
fn waits(approval: &Approval, now: Timestamp) -> bool {
    approval.state == ApprovalState::Waiting && now < approval.expires_at
}

/// Ends a notice without further tries. A never tried notice is dropped without a row, because it never left.
fn give_up(tx: &Transaction<'_>, notice: &Notice, fault: &str) -> Result<(), StoreError> {
    // An announced notice may have left: a dead daemon recorded no end of it.
    let was_wanted = notice.attempts > 0 || notice.announced.is_some() || notice.event != NoticeEvent::Asked;
    if was_wanted { fail(tx, notice, fault) } else { stored::over(tx, notice, NoticeState::Dropped, Some(fault)) }
}

/// Ends a notice as failed, with a row.
fn fail(tx: &Transaction<'_>, notice: &Notice, fault: &str) -> Result<(), StoreError> {
    let fault = &match &notice.fault {
        Some(last) if last != fault => format!("{fault}; at the last attempt {last}"),
        Some(_) | None => fault.to_owned(),
    };
    if let Some(approval) = approvals::with_id(tx.view(), notice.approval)? {
        let body = json!({
            "channel": notice.channel, "event": notice.event, "attempts": notice.attempts, "fault": fault,
        });
        tx.append(&about(RowKind::NoticeFailed, &approval, body))?;
    }
    stored::over(tx, notice, NoticeState::Failed, Some(fault))
}

/// Drafts a row of the broker about an approval request.
fn about(kind: RowKind, approval: &Approval, body: Value) -> Draft<'_> {
    Draft {
        provider: Some(&approval.provider),
        action: Some(&approval.action),
        level: Some(approval.level),
        approval: Some(approval.reference()),
        body,
        ..Draft::new(kind, "broker")
    }
}
