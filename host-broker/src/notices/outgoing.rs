//! A notice whose row is written: what is sent, and through which channel.
//!
//! To audit: `Outgoing::new(` is called in `Broker::word` and `Broker::alarm` only, inside the transaction that writes the
//! row, and the loop hands it out after the commit. It is the key to the secrets of its channel.

use serde_json::Value;
use std::fmt;

/// What is sent.
pub(super) struct Message {
    /// A name of the notice that is the same at every attempt.
    pub(super) name: String,
    /// One line.
    pub(super) title: String,
    /// All of it, for people.
    pub(super) text: String,
    /// Where the inbox is.
    pub(super) link: Option<String>,
    /// Whether it shows the card and the code.
    pub(super) shows_card: bool,
    /// Whether somebody is asked.
    pub(super) is_question: bool,
    /// All of it, for programs.
    pub(super) document: Value,
}

/// A notice that leaves.
#[must_use]
pub struct Outgoing {
    id: i64,
    channel: String,
    message: Message,
}

impl Outgoing {
    pub(super) fn new(id: i64, channel: &str, message: Message) -> Self {
        Self { id, channel: channel.to_owned(), message }
    }

    /// Its number.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The channel's name.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    pub(super) fn message(&self) -> &Message {
        &self.message
    }
}

impl fmt::Debug for Outgoing {
    /// Without what it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing({}, {})", self.id, self.channel)
    }
}
