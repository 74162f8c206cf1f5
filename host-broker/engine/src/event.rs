//! The closed list of what can happen to the daemon.

use crate::approval_requests::Unanswerable;
use crate::broker::event_of;
use crate::clean::Filtered;
use crate::definitions::{Exchanged, Redefined};
use crate::notices::Attempt;
use crate::request::{Order, Parsed};
use kernel::call::{Call, Header, Lane, Origin, Target};
use kernel::{Effect, Probe};
use model::Caller;
use provider::oauth::Late;
use shared::{Group, RequestId};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Durability;
use store::ledger::health::Verification;
use store::ledger::segments;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// The daemon starts: what a predecessor left open is closed first.
    Started,
    /// A document came in.
    Arrived(Parsed),
    /// A call has its remote facts and is decided again.
    Prepared(Box<Call>),
    /// A call about which a person was asked is decided on again.
    Readmitted(Box<Call>),
    /// A request about which a person was asked cannot be decided on again.
    Unanswerable(Box<Unanswerable>),
    /// The caller of a request about which a person is asked stops waiting.
    Impatient(Box<(Arc<str>, RequestId)>),
    /// Silence has become a no.
    Overdue,
    /// An effect is over.
    Finished(Box<Filtered>),
    /// An outcome is unknown and can be asked for.
    Probe(Box<Probe>),
    /// Notices may be due; these are under way, by channel.
    Telling(Box<BTreeMap<String, i64>>),
    /// An attempt to tell a channel is over.
    Told(Box<Attempt>),
    /// Time passes.
    Ticked {
        /// Replies up to this row have left.
        delivered: i64,
    },
    /// A group's directory was replaced and has been opened anew.
    Reopened(Group),
    /// A server says something else of its tools than what was accepted, or says that again.
    Redefined(Box<Redefined>),
    /// What was accepted of a provider has come to new terms.
    Exchanged(Box<Exchanged>),
    /// An account's credential was renewed when nobody waited for it any more.
    Renewed(Box<Late>),
    /// The oldest rows of the ledger are in a segment.
    Rotated(Box<segments::Written>),
    /// The verification of all rows has found something wrong.
    Verified(Box<Verification>),
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
    /// How its rows may be committed. Only the intent of a harmless read needs no sync. A request that is probably only
    /// answered needs one before its reply leaves. If it starts another effect or asks a person, the ledger rolls back and
    /// commits with a sync.
    pub fn durability(&self) -> Durability {
        match self {
            Self::Arrived(Parsed::Rubbish(_)) => Durability::Deferred,
            Self::Arrived(Parsed::Directive(directive)) if directive.order.only_reads() && !directive.asked => {
                Durability::Deferred
            }
            Self::Arrived(Parsed::Call(call)) if call.dry_run || call.header.is_in(Lane::Refused) => {
                Durability::Deferred
            }
            Self::Arrived(Parsed::Call(call)) | Self::Prepared(call) | Self::Readmitted(call)
                if call.is_harmless_read() =>
            {
                Durability::Normal
            }
            Self::Arrived(_)
            | Self::Prepared(_)
            | Self::Readmitted(_)
            | Self::Unanswerable(_)
            | Self::Finished(_)
            | Self::Probe(_)
            | Self::Started
            | Self::Impatient(_)
            | Self::Overdue
            | Self::Telling(_)
            | Self::Told(_)
            | Self::Ticked { .. }
            | Self::Reopened(_)
            | Self::Redefined(_)
            | Self::Exchanged(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::Stopping => Durability::Full,
        }
    }

    /// Whether it accepts the machine's clock.
    pub fn accepts_clock(&self) -> bool {
        matches!(self, Self::Arrived(Parsed::Directive(directive)) if matches!(directive.order, Order::AcceptClock))
    }

    /// Whether it is a call whose parameters its action refuses in any case.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Readmitted(call) if matches!(call.target, Target::Action(_, Err(_))))
    }

    /// Whether a person gives a command.
    pub fn is_a_persons(&self) -> bool {
        matches!(self, Self::Arrived(Parsed::Directive(directive)) if matches!(directive.header.caller, Caller::Person(_)))
    }

    /// The request about which a person was asked, if it is about one.
    pub fn asked(&self) -> Option<&Header> {
        let call = match self {
            Self::Arrived(Parsed::Directive(directive)) => return directive.asked.then_some(&directive.header),
            Self::Readmitted(call) | Self::Prepared(call) => call,
            Self::Finished(filtered) => match &filtered.effect {
                Effect::Run(call) | Effect::Prepare(call) => call,
                Effect::Probe(_) => return None,
            },
            Self::Arrived(_)
            | Self::Started
            | Self::Unanswerable(_)
            | Self::Impatient(_)
            | Self::Overdue
            | Self::Probe(_)
            | Self::Telling(_)
            | Self::Told(_)
            | Self::Ticked { .. }
            | Self::Reopened(_)
            | Self::Redefined(_)
            | Self::Exchanged(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::Stopping => return None,
        };
        call.was_asked().then_some(&call.header)
    }

    /// The header of the request that comes in with it, or comes back to be decided on.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Self::Arrived(Parsed::Call(call)) | Self::Prepared(call) | Self::Readmitted(call) => Some(&call.header),
            Self::Arrived(Parsed::Directive(directive)) => Some(&directive.header),
            Self::Arrived(Parsed::Rubbish(_))
            | Self::Started
            | Self::Unanswerable(_)
            | Self::Impatient(_)
            | Self::Overdue
            | Self::Finished(_)
            | Self::Probe(_)
            | Self::Telling(_)
            | Self::Told(_)
            | Self::Ticked { .. }
            | Self::Reopened(_)
            | Self::Redefined(_)
            | Self::Exchanged(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::Stopping => None,
        }
    }

    /// As [`Self::header`], out of it.
    pub fn into_header(self) -> Option<Header> {
        match self {
            Self::Arrived(Parsed::Call(call)) | Self::Prepared(call) | Self::Readmitted(call) => Some(call.header),
            Self::Arrived(Parsed::Directive(directive)) => Some(directive.header),
            Self::Arrived(Parsed::Rubbish(_))
            | Self::Started
            | Self::Unanswerable(_)
            | Self::Impatient(_)
            | Self::Overdue
            | Self::Finished(_)
            | Self::Probe(_)
            | Self::Telling(_)
            | Self::Told(_)
            | Self::Ticked { .. }
            | Self::Reopened(_)
            | Self::Redefined(_)
            | Self::Exchanged(_)
            | Self::Renewed(_)
            | Self::Rotated(_)
            | Self::Verified(_)
            | Self::Stopping => None,
        }
    }

    /// Where the reply goes, if anybody waits for one.
    pub fn into_origin(self) -> Option<Origin> {
        if let Self::Arrived(Parsed::Rubbish(rubbish)) = self {
            return Some(rubbish.origin);
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
