//! The calls of this process, in memory: so that an agent that lost an answer finds the name to ask for it.
//!
//! Neither parameters nor results are kept.

use crate::document::now;
use serde::Serialize;
use shared::request::Request;
use shared::{Action, Provider, Reply, RequestId, Status, Timestamp};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The latest calls, latest first.
#[derive(Debug, Default)]
pub struct Calls(Mutex<VecDeque<Entry>>);

/// How many calls are remembered.
const CALLS_MAX: usize = 100;

/// One call, as far as it is remembered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The name under which the host knows it.
    pub request_id: RequestId,
    /// The request's type.
    pub r#type: &'static str,
    /// The provider, if the call concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// For a call, what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// The outcome; absent while the call is waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Why, if it was not executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Calls {
    /// Remembers that this was sent.
    pub fn sent(&self, id: &RequestId, request: &Request) {
        let (provider, action) = match request {
            Request::Call(call) => (Some(call.provider.clone()), Some(call.action.clone())),
            Request::Grant(grant) => (Some(grant.provider.clone()), None),
            Request::Revoke(revoke) => (Some(revoke.provider.clone()), None),
            Request::Access(access) => (Some(access.provider.clone()), None),
            // Which of its actions says the type.
            Request::Auth(auth) => (Some(auth.capability()), None),
            Request::Capabilities(_)
            | Request::Plan(_)
            | Request::Begin(_)
            | Request::List(_)
            | Request::ListCalls(_)
            | Request::ListTasks(_)
            | Request::TaskCreate(_)
            | Request::GateApprove(_)
            | Request::Result(_)
            | Request::Cancel(_)
            | Request::Flow(_) => (None, None),
        };
        let entry = Entry {
            request_id: id.clone(),
            r#type: request.word(),
            provider,
            action,
            sent_at: now(),
            status: None,
            code: None,
        };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push_front(entry);
        calls.truncate(CALLS_MAX);
    }

    /// Remembers the outcome.
    pub fn answered(&self, id: &RequestId, reply: &Reply) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A reply to an earlier request settles that one as well.
        for call in calls.iter_mut().filter(|call| call.request_id == *id || call.request_id == reply.request_id) {
            call.status = Some(reply.status);
            call.code.clone_from(&reply.code);
        }
    }

    /// All that is remembered.
    pub fn all(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::Code;
    use shared::request::ListRequest;

    #[test]
    fn the_latest_come_first_and_the_oldest_are_forgotten() {
        let calls = Calls::default();
        let id = |n: usize| -> RequestId { format!("r{n}").parse().unwrap() };
        for n in 0..CALLS_MAX + 5 {
            calls.sent(&id(n), &Request::List(ListRequest { group_folder: None }));
        }
        calls.answered(&id(CALLS_MAX), &Reply::of_code(id(CALLS_MAX), Code::MainOnly, now()));
        let all = calls.all();
        assert_eq!(all.len(), CALLS_MAX);
        assert_eq!(all[0].request_id, id(CALLS_MAX + 4));
        assert_eq!(all[4].code.as_deref(), Some("main_only"));
        assert_eq!(all[3].status, None);
    }
}
