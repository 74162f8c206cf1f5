//! Messages that reach the loop from other threads, and their channel.

use crate::daemon::RulesetReload;
use crate::mailboxes::Waker;
use crate::request_watcher::ParsedDocuments;
use engine::approval_requests::Why;
use engine::event::Event;
use engine::request::Invoked;
use provider::linking::address::Brought;
use shared::reply::Progress;
use shared::{Group, RequestId, Timestamp};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use store::StoreError;
use store::ledger::checkpoints::Signed;
use store::ledger::health::Verification;
use store::ledger::segments;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// A message to the loop from another thread.
#[derive(Debug)]
pub enum Message {
    /// Something happened.
    Happened(Event),
    /// A call still runs, and says so to the group that waits for it.
    Runs(Group, RequestId, Progress),
    /// A browser has brought a person back.
    Callback(OAuthCallback),
    /// An operator has accepted the definitions of a provider, or a policy was received.
    Accepted(RulesetReload),
    /// Whether another publication of the policy is in force than the one that this host can use.
    Superseded(bool),
    /// An external agent calls a tool.
    Invoked(Box<Invocation>),
    /// A request that must not overtake the call of an external agent that came before it.
    Queued(Box<Event>),
    /// Documents are parsed beside the loop.
    Parsed(Box<ParsedDocuments>),
    /// A request about which a person was asked is parsed again, or cannot be.
    Resumed(Box<Resumed>),
    /// A request about which a person is asked is parsed again. It is brought only if no answer could permit it.
    Checked(Box<Checked>),
    /// A segment of the ledger is written, or could not be.
    Segment(Box<Result<segments::Written, StoreError>>),
    /// A person wants all rows verified now. The sender takes the answer.
    Verify(oneshot::Sender<VerificationAnswer>),
    /// The verification of all rows is over.
    Verified(Box<(Verification, Option<Signed>)>),
}

/// The answer to a person who wants all rows verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerificationAnswer {
    /// A verification runs: a new one, or one that was under way.
    Runs,
    /// The last one has just ended. Another one can start at this time.
    Later(Timestamp),
    /// The system starts no thread.
    NoThread,
}

/// The key of a request, and the event that decides on it again, or the fault of its document.
pub type Resumed = ((Arc<str>, RequestId), Result<Event, Why>);

/// The key of a request, and the event that refuses it, or the fault of its document. `None` if a person may answer.
pub type Checked = ((Arc<str>, RequestId), Result<Option<Event>, Why>);

/// A call of a tool by an external agent.
#[derive(Debug)]
pub struct Invocation {
    /// The invocation.
    pub invoked: Invoked,
    /// Where the reply goes.
    pub answer: oneshot::Sender<Vec<u8>>,
}

/// The values that a browser has brought back from the page for account linking.
#[derive(Debug)]
pub struct OAuthCallback {
    /// The values in the address.
    pub brought: Brought,
    /// The address, whole.
    pub url: Zeroizing<String>,
    /// Where the reply goes; dropped if there is no such flow.
    pub answer: oneshot::Sender<Vec<u8>>,
}

/// Tells the loop, and wakes it.
#[derive(Debug, Clone)]
pub struct EventSender {
    sender: Sender<Message>,
    waker: Arc<Waker>,
}

impl EventSender {
    /// Into this channel.
    pub fn new(sender: Sender<Message>, waker: Arc<Waker>) -> Self {
        Self { sender, waker }
    }

    /// Sends a message to the loop. The loop is gone only when everything stops; then the next start finds the rest.
    pub fn send(&self, news: Message) {
        if self.sender.send(news).is_ok() {
            self.waker.wake();
        }
    }

    /// Something happened.
    pub fn happened(&self, event: Event) {
        self.send(Message::Happened(event));
    }
}
