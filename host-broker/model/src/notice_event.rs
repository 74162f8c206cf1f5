//! The events that people are notified of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The events that people are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoticeEvent {
    /// An approval request waits for an answer.
    Asked,
    /// An approval request was answered or withdrawn.
    Answered,
    /// An approval request expired without an answer.
    Lapsed,
}

impl NoticeEvent {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Asked, Self::Answered, Self::Lapsed];

    /// Returns the word in files and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Answered => "answered",
            Self::Lapsed => "lapsed",
        }
    }
}
