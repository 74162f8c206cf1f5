//! The closed list of events.

use crate::approval_requests::Unanswerable;
use crate::clean::Filtered;
use crate::definitions::{DefinitionsChanged, RulesetReplaced};
use crate::event_results::event_of;
use crate::notices::Attempt;
use crate::request::{Command, Parsed};
use crate::restored::Restored;
use kernel::call::{Call, Header, Lane, Origin, Target};
use kernel::{Effect, Probe};
use model::Caller;
use provider::oauth::LateRenewal;
use shared::{Group, RequestId};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Durability;
use store::ledger::health::Verification;
use store::ledger::segments;

/// An event.
#[derive(Debug)]
pub enum Event {
    /// The daemon starts. It first closes the effects that a predecessor left open.
    Started,
    /// A document came in.
    Arrived(Parsed),
    /// A call has its remote facts and is decided again.
    Prepared(Box<Call>),
    /// A call with an approval is decided again.
    Resumed(Box<Call>),
    /// A request with an approval cannot be decided again.
    Unanswerable(Box<Unanswerable>),
    /// The caller of a request about which a person is asked stops waiting.
    CallerTimedOut(Box<(Arc<str>, RequestId)>),
    /// Approval requests may have expired.
    ApprovalsExpired,
    /// An effect is over.
    Finished(Box<Filtered>),
    /// An outcome is unknown and can be probed.
    Probe(Box<Probe>),
    /// Notices may be due. These are in progress, by channel.
    NoticesDue(Box<BTreeMap<String, i64>>),
    /// An attempt to deliver a notice is over.
    NoticeDelivered(Box<Attempt>),
    /// Time passes.
    Ticked {
        /// Replies up to this row have left.
        delivered: i64,
    },
    /// A group's directory was replaced and has been opened again.
    MailboxReopened(Group),
    /// The definitions of a server differ from the accepted ones, or no longer differ.
    DefinitionsChanged(Box<DefinitionsChanged>),
    /// The accepted definitions of a provider have led to a new ruleset.
    RulesetReplaced(Box<RulesetReplaced>),
    /// An account's credential was renewed after its call had ended.
    Renewed(Box<LateRenewal>),
    /// The oldest rows of the ledger are in a segment.
    Rotated(Box<segments::Written>),
    /// The verification of all rows has found something wrong.
    Verified(Box<Verification>),
    /// Enough rows or enough time have passed since the last checkpoint.
    CheckpointDue,
    /// The ledger was restored from a backup. No daemon runs.
    Restored(Box<Restored>),
    /// The daemon stops.
    Stopping,
}

impl From<Effect> for Event {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Run(call) | Effect::Prepare(call) => event_of(call),
            Effect::Probe(probe) => Self::Probe(probe),
        }
    }
}

impl Event {
    /// Returns how its rows may be committed. Only the intent of a harmless read needs no sync. A request that is
    /// probably only answered needs one before its reply leaves. If it starts another effect or asks a person, the
    /// ledger rolls back and commits with a sync.
    pub fn durability(&self) -> Durability {
        match self {
            Self::Arrived(Parsed::InvalidDocument(_)) => Durability::Deferred,
            Self::Arrived(Parsed::CommandRequest(command_request))
                if command_request.command.only_reads() && !command_request.asked =>
            {
                Durability::Deferred
            }
            Self::Arrived(Parsed::Call(call)) if call.dry_run || call.header.is_in(Lane::Refused) => {
                Durability::Deferred
            }
            Self::Arrived(Parsed::Call(call)) | Self::Prepared(call) | Self::Resumed(call)
                if call.is_harmless_read() =>
            {
                Durability::Normal
            }
            Self::Arrived(_)
            | Self::Prepared(_)
            | Self::Resumed(_)
            | Self::Unanswerable(_)
            | Self::Finished(_)
            | Self::Probe(_)
            | Self::Started
            | Self::CallerTimedOut(_)
            | Self::ApprovalsExpired
            | Self::NoticesDue(_)
            | Self::NoticeDelivered(_)
            | Self::Ticked { .. }
            | Self::MailboxReopened(_)
            | Self::DefinitionsChanged(_)
            | Self::RulesetReplaced(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::CheckpointDue
            | Self::Restored(_)
            | Self::Stopping => Durability::Full,
        }
    }

    /// Returns whether it accepts the machine's clock.
    pub fn accepts_clock(&self) -> bool {
        matches!(self, Self::Arrived(Parsed::CommandRequest(command_request)) if matches!(command_request.command, Command::AcceptClock))
    }

    /// Returns whether it is a call whose parameters its action refuses in any case.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Resumed(call) if matches!(call.target, Target::Action(_, Err(_))))
    }

    /// Returns whether it is a command of a person.
    pub fn is_a_persons(&self) -> bool {
        matches!(self, Self::Arrived(Parsed::CommandRequest(command_request)) if matches!(command_request.header.caller, Caller::Person(_)))
    }

    /// Returns the request of its approval request, if there is one.
    pub fn asked(&self) -> Option<&Header> {
        let call = match self {
            Self::Arrived(Parsed::CommandRequest(command_request)) => {
                return command_request.asked.then_some(&command_request.header);
            }
            Self::Resumed(call) | Self::Prepared(call) => call,
            Self::Finished(filtered) => match &filtered.effect {
                Effect::Run(call) | Effect::Prepare(call) => call,
                Effect::Probe(_) => return None,
            },
            Self::Arrived(_)
            | Self::Started
            | Self::Unanswerable(_)
            | Self::CallerTimedOut(_)
            | Self::ApprovalsExpired
            | Self::Probe(_)
            | Self::NoticesDue(_)
            | Self::NoticeDelivered(_)
            | Self::Ticked { .. }
            | Self::MailboxReopened(_)
            | Self::DefinitionsChanged(_)
            | Self::RulesetReplaced(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::CheckpointDue
            | Self::Restored(_)
            | Self::Stopping => return None,
        };
        call.is_resumed().then_some(&call.header)
    }

    /// Returns the header of its request, which arrives or is decided again.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Self::Arrived(Parsed::Call(call)) | Self::Prepared(call) | Self::Resumed(call) => Some(&call.header),
            Self::Arrived(Parsed::CommandRequest(command_request)) => Some(&command_request.header),
            Self::Arrived(Parsed::InvalidDocument(_))
            | Self::Started
            | Self::Unanswerable(_)
            | Self::CallerTimedOut(_)
            | Self::ApprovalsExpired
            | Self::Finished(_)
            | Self::Probe(_)
            | Self::NoticesDue(_)
            | Self::NoticeDelivered(_)
            | Self::Ticked { .. }
            | Self::MailboxReopened(_)
            | Self::DefinitionsChanged(_)
            | Self::RulesetReplaced(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::CheckpointDue
            | Self::Restored(_)
            | Self::Stopping => None,
        }
    }

    /// Takes the header out, like [`Self::header`].
    pub fn into_header(self) -> Option<Header> {
        match self {
            Self::Arrived(Parsed::Call(call)) | Self::Prepared(call) | Self::Resumed(call) => Some(call.header),
            Self::Arrived(Parsed::CommandRequest(command_request)) => Some(command_request.header),
            Self::Arrived(Parsed::InvalidDocument(_))
            | Self::Started
            | Self::Unanswerable(_)
            | Self::CallerTimedOut(_)
            | Self::ApprovalsExpired
            | Self::Finished(_)
            | Self::Probe(_)
            | Self::NoticesDue(_)
            | Self::NoticeDelivered(_)
            | Self::Ticked { .. }
            | Self::MailboxReopened(_)
            | Self::DefinitionsChanged(_)
            | Self::RulesetReplaced(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::CheckpointDue
            | Self::Restored(_)
            | Self::Stopping => None,
        }
    }

    /// Takes the origin of the request out, if a caller waits.
    pub fn into_origin(self) -> Option<Origin> {
        if let Self::Arrived(Parsed::InvalidDocument(invalid)) = self {
            return Some(invalid.origin);
        }
        if let Self::Finished(filtered) = self {
            return match filtered.effect {
                Effect::Run(call) | Effect::Prepare(call) => Some(call.header.origin),
                Effect::Probe(_) => None,
            };
        }
        self.into_header().map(|header| header.origin)
    }
}
