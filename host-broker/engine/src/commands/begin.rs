//! `ext_begin`: a conversation of a group begins, and the earlier one ends.
//!
//! Only for groups whose exposure ends with a conversation. The exposure of a group belongs to one conversation at a
//! time. So a request of an ended conversation is refused: its agent still has the data that it has read.

use super::CommandResult;
use crate::broker::Broker;
use kernel::authorize::Refusal;
use kernel::call::{Header, Origin};
use model::approval::ApprovalState;
use serde_json::json;
use shared::Code;
use std::sync::Arc;
use store::ledger::chain::RowKind;
use store::state::{approvals, conversations, sessions};
use store::{StoreError, Transaction, View};

impl Broker {
    /// Begins a conversation under the id of its request.
    pub(super) fn begin(&mut self, tx: &Transaction<'_>, header: &Header) -> Result<CommandResult, StoreError> {
        let Some(group) = header.caller.group().filter(|group| self.config.has_conversations(group)) else {
            let reason = "The exposure of this group does not end with a conversation.";
            return Ok(CommandResult::no(Code::ActionDenied, reason));
        };
        let caller = &header.caller_key;
        if sessions::is_under_way(tx.view(), caller)? {
            let reason = "Calls of the earlier conversation are still under way.";
            return Ok(CommandResult::no(Code::Busy, reason));
        }
        // Their results would come into this conversation.
        for approval in approvals::open(tx.view(), Some(caller))? {
            if matches!(approval.state, ApprovalState::Waiting | ApprovalState::Approved) {
                self.resolve(tx, &approval, ApprovalState::Cancelled, caller)?;
            }
        }
        self.end_what_a_group_began(tx, caller)?;
        let (forgotten, ended) = Self::end_session(tx, caller, caller)?;
        conversations::begin(tx, caller, &header.request_id)?;
        let (id, session) = (&header.request_id, Arc::clone(caller));
        let data = json!({
            "group": group, "session": session, "conversation": id, "forgotten": forgotten, "standing_ended": ended,
        });
        let summary = "A conversation begins. The exposure of the earlier one ends.".to_owned();
        Ok(CommandResult::done(RowKind::SessionReset, data.clone(), data, summary))
    }

    /// Returns why a request does not belong to the present conversation of its group, if that is so.
    pub(crate) fn out_of_conversation(&self, view: &View, header: &Header) -> Result<Option<Refusal>, StoreError> {
        // A document of the group; the broker's own requests and those of people have no conversation.
        let is_document = match header.origin {
            Origin::File(_) | Origin::Frame(_) | Origin::Retired(_) => true,
            Origin::Socket(_) | Origin::Broker => false,
        };
        if !is_document || !header.caller.group().is_some_and(|group| self.config.has_conversations(group)) {
            return Ok(None);
        }
        let no = |code: Code| Ok(Some(Refusal::new(code, code.meaning().to_owned())));
        match (&header.conversation, conversations::current(view, &header.caller_key)?) {
            (None, _) => no(Code::NoConversation),
            (Some(own), Some(current)) if *own == current => Ok(None),
            (Some(_), _) => no(Code::ConversationEnded),
        }
    }
}
