//! Outgoing notices, and channels whose answers are fetched: each only after the transaction that announces it is
//! durable.
//!
//! A repeated attempt with the same text rests on the row of the first one, so `announce` takes no receipt. To audit:
//! `announce(` is called in `Broker::word` and `Broker::alarm` only, and `open_channel(` in `Broker::started` only.
//! Each is called in the transaction that writes the row or has found it.

use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use store::{Brand, Transaction};

/// A notice to be sent through one channel.
pub struct NoticeDraft {
    /// The number; 0 for a notice about the ledger itself, which belongs to no approval request.
    pub id: i64,
    /// The channel's name.
    pub channel: String,
    /// The text.
    pub message: Message,
}

/// The text of a notice.
pub struct Message {
    /// The name of the notice, the same at every attempt.
    pub name: String,
    /// The title, one line.
    pub title: String,
    /// The whole text, for people.
    pub text: String,
    /// The URL of the inbox.
    pub link: Option<String>,
    /// Whether it shows the card and the code.
    pub shows_card: bool,
    /// Whether it asks for an approval.
    pub is_question: bool,
    /// The whole notice as a document, for programs.
    pub document: Value,
}

/// A notice that is announced in this transaction and must not leave yet.
#[must_use]
pub struct PendingNotice<'tx> {
    pub(crate) draft: NoticeDraft,
    tx: PhantomData<Brand<'tx>>,
}

/// A notice whose transaction is durable: the only key to the secrets of its channel.
#[must_use]
pub struct OutgoingNotice(NoticeDraft);

/// Marks a notice to be sent once this transaction is durable. The caller has appended the row that announces it.
pub fn announce<'tx>(_: &Transaction<'tx>, draft: NoticeDraft) -> PendingNotice<'tx> {
    PendingNotice { draft, tx: PhantomData }
}

/// A channel that is named in this transaction and must not be used yet.
#[must_use]
#[derive(Debug)]
pub struct PendingChannel<'tx> {
    pub(crate) name: String,
    tx: PhantomData<Brand<'tx>>,
}

/// A channel whose row is durable: the only key to its secrets for fetching answers.
#[must_use]
#[derive(Debug)]
pub struct OpenChannel(String);

/// Marks a channel whose answers are fetched once this transaction is durable. The caller has appended the row that
/// names it.
pub fn open_channel<'tx>(_: &Transaction<'tx>, name: String) -> PendingChannel<'tx> {
    PendingChannel { name, tx: PhantomData }
}

impl OpenChannel {
    /// Makes the proof. Called after the commit, and only then.
    pub(crate) fn committed(name: String) -> Self {
        Self(name)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl PendingNotice<'_> {
    /// Returns the text.
    pub fn message(&self) -> &Message {
        &self.draft.message
    }
}

impl OutgoingNotice {
    /// Makes the proof. Called after the commit, and only then.
    pub(crate) fn committed(draft: NoticeDraft) -> Self {
        Self(draft)
    }

    /// Returns the number.
    pub fn id(&self) -> i64 {
        self.0.id
    }

    /// Returns the channel's name.
    pub fn channel(&self) -> &str {
        &self.0.channel
    }

    /// Returns the text.
    pub fn message(&self) -> &Message {
        &self.0.message
    }
}

impl fmt::Debug for NoticeDraft {
    /// Omits the text.
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
