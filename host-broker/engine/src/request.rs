//! Requests, parsed and typed: the caller, the destination of the reply, the requested operation.
//!
//! [`parse`] makes a request of a document. No decision is made here.

pub mod command;
mod parsing;

pub use command::{Command, FlowCommand};
pub use parsing::{
    DocumentMemory, InboundRequest, Invoked, ParseContext, Source, hypothetical, hypothetical_of_tool, inspect,
    invoked, made, parse, readmit, readmit_command,
};

use kernel::authorize::Refusal;
use kernel::call::{Call, Header, Origin, Prepared};
use model::Caller;
use shared::{Code, RequestId};
use std::sync::Arc;

/// A request that the ledger itself fulfils, without a provider.
#[derive(Debug)]
pub struct CommandRequest {
    /// The caller and the destination of the reply.
    pub header: Header,
    /// The command.
    pub command: Command,
    /// Whether a person was asked about it, so that it is admitted for the second time.
    pub asked: bool,
    /// The calls of a plan, parsed. Any other command has none, and so has a plan that is admitted for the second time.
    pub calls: Vec<Call>,
    /// The call of a plan whose facts could not be read.
    pub failed_read: Option<FailedRead>,
}

/// A call of a plan whose facts could not be read.
#[derive(Debug)]
pub struct FailedRead {
    /// Its place in the plan, from 0.
    pub place: usize,
    /// The reason.
    pub refusal: Refusal,
}

impl CommandRequest {
    /// Returns whether it is a plan of whose calls at least one was read. It then comes back without a second document.
    pub fn is_being_read(&self) -> bool {
        self.failed_read.is_some() || self.calls.iter().any(|call| call.prepared != Prepared::Not)
    }
}

/// A document that is no request, or cannot be trusted.
#[derive(Debug)]
pub struct InvalidDocument {
    /// The sender.
    pub caller: Caller,
    /// The sender, in the ledger's form.
    pub caller_key: Arc<str>,
    /// The id under which it can be answered.
    pub request_id: Option<RequestId>,
    /// The destination of the reply.
    pub origin: Origin,
    /// `malformed_request`, `oversized_request`, `own_secret`, `bad_signature`, `stale_request` or `unknown_type`.
    pub code: Code,
    /// The defect, for the sender; quotes nothing.
    pub reason: String,
}

/// The result of parsing a document.
#[derive(Debug)]
pub enum Parsed {
    /// A call.
    Call(Box<Call>),
    /// A command that the ledger itself fulfils.
    CommandRequest(Box<CommandRequest>),
    /// A document that is no request.
    InvalidDocument(Box<InvalidDocument>),
}

impl Parsed {
    /// Returns the destination of the reply.
    pub fn origin(&self) -> &Origin {
        match self {
            Self::Call(call) => &call.header.origin,
            Self::CommandRequest(command_request) => &command_request.header.origin,
            Self::InvalidDocument(invalid) => &invalid.origin,
        }
    }

    /// Returns the id under which it can be answered, if there is one.
    pub fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Call(call) => Some(&call.header.request_id),
            Self::CommandRequest(command_request) => Some(&command_request.header.request_id),
            Self::InvalidDocument(invalid) => invalid.request_id.as_ref(),
        }
    }

    /// Returns the destination of the reply, to be changed.
    pub fn origin_mut(&mut self) -> &mut Origin {
        match self {
            Self::Call(call) => &mut call.header.origin,
            Self::CommandRequest(command_request) => &mut command_request.header.origin,
            Self::InvalidDocument(invalid) => &mut invalid.origin,
        }
    }
}
