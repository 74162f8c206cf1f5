//! Notices that leave: each only after the transaction that announces it is durable.
//!
//! A repeated attempt with the same text rests on the row of the first one, so no receipt is asked for. To audit: `announce(`
//! is called in `Broker::word` and `Broker::alarm` only, in the transaction that writes the row or has found it.

use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use store::Transaction;

/// A notice to be sent through one channel.
pub struct NoticeDraft {
    /// Its number; 0 for a notice about the ledger itself, which is about no question.
    pub id: i64,
    /// The channel's name.
    pub channel: String,
    /// What it says.
    pub message: Message,
}

/// The text of a notice.
pub struct Message {
    /// A name of the notice that is the same at every attempt.
    pub name: String,
    /// One line.
    pub title: String,
    /// All of it, for people.
    pub text: String,
    /// The URL of the inbox.
    pub link: Option<String>,
    /// Whether it shows the card and the code.
    pub shows_card: bool,
    /// Whether somebody is asked.
    pub is_question: bool,
    /// All of it, for programs.
    pub document: Value,
}

/// A notice that is announced in this transaction and must not leave yet.
#[must_use]
pub struct PendingNotice<'tx> {
    pub(crate) draft: NoticeDraft,
    tx: PhantomData<&'tx Transaction<'tx>>,
}

/// A notice whose transaction is durable: the only key to the secrets of its channel.
#[must_use]
pub struct OutgoingNotice(NoticeDraft);

/// Marks a notice to be sent once this transaction is durable. The caller has appended the row that announces it.
pub fn announce<'tx>(_: &'tx Transaction<'_>, draft: NoticeDraft) -> PendingNotice<'tx> {
    PendingNotice { draft, tx: PhantomData }
}

impl PendingNotice<'_> {
    /// What it says.
    pub fn message(&self) -> &Message {
        &self.draft.message
    }
}

impl OutgoingNotice {
    /// Called after the commit, and only then.
    pub(crate) fn committed(draft: NoticeDraft) -> Self {
        Self(draft)
    }

    /// Its number.
    pub fn id(&self) -> i64 {
        self.0.id
    }

    /// The channel's name.
    pub fn channel(&self) -> &str {
        &self.0.channel
    }

    /// What it says.
    pub fn message(&self) -> &Message {
        &self.0.message
    }
}

impl fmt::Debug for NoticeDraft {
    /// Without what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoticeDraft({}, {})", self.id, self.channel)
    }
}

impl fmt::Debug for PendingNotice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingNotice({}, {})", self.draft.id, self.draft.channel)
    }
}

impl fmt::Debug for OutgoingNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutgoingNotice({}, {})", self.0.id, self.0.channel)
    }
}
