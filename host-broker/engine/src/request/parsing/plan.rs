//! Plans: the calls of one document, each parsed like a call of its own.

use super::created::made_header;
use super::{ParseContext, Text, call, digest_of};
use crate::file_proposals::internal_request_id;
use crate::request::{Command, CommandRequest, InvalidDocument, Parsed};
use kernel::call::Header;
use model::Nonce;
use shared::Code;
use shared::request::{PlanRequest, Request};

/// Parses the calls of a plan. Each gets a request id that cannot be guessed, and its own document to be stored.
pub(super) fn plan(body: PlanRequest, header: Header, bytes: &[u8], context: &ParseContext) -> Parsed {
    let text = Text::new(bytes);
    let mut calls = Vec::with_capacity(body.calls.len());
    for planned in &body.calls {
        let Ok(nonce) = Nonce::fresh(context.ids.as_ref()) else { return without_randomness(header) };
        let request = Request::Call(planned.clone().into());
        let document = serde_json::to_vec(&request.body()).unwrap_or_default();
        let (caller, behalf) = (header.caller.clone(), header.behalf.clone());
        let request_digest = digest_of(&request, &behalf, context);
        let own = made_header(caller, internal_request_id("plan", &nonce), behalf, request_digest, header.timeout);
        // It comes from a mailbox: the rules are asked about it only with a grant.
        let own = Header { weight: Some(Box::new(())), ..own };
        match call(planned.clone().into(), own, (&text, &document), context) {
            Parsed::Call(call) => calls.push(*call),
            Parsed::InvalidDocument(_) | Parsed::CommandRequest(_) => return without_randomness(header),
        }
    }
    let command = Command::Plan(body);
    Parsed::CommandRequest(Box::new(CommandRequest { header, command, asked: false, calls, failed_read: None }))
}

/// Refuses a request whose calls get no nonces.
pub(super) fn without_randomness(header: Header) -> Parsed {
    Parsed::InvalidDocument(Box::new(InvalidDocument {
        caller: header.caller,
        caller_key: header.caller_key,
        request_id: Some(header.request_id),
        origin: header.origin,
        code: Code::EvidenceUnavailable,
        reason: "The system's random source failed.".into(),
    }))
}
