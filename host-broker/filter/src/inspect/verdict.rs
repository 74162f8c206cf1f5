//! The result of an inspection: a verdict and its reasons.

use std::collections::BTreeSet;
use std::fmt;

/// Why a text is not taken for harmless. The list is closed: a reason never quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Characters that are invisible to people and readable for a model.
    HiddenText,
    /// Marks that show a text in another order than it is read.
    DirectionMarks,
    /// Characters without width inside words, or long rows of them.
    ZeroWidth,
    /// Words that set earlier instructions aside, or give new ones.
    InstructionOverride,
    /// Words that ask for the instructions an agent was given.
    PromptDisclosure,
    /// Tokens and headings with which a chat's turns are written.
    RoleMimicry,
    /// The form in which tools are called or answer.
    ToolMimicry,
    /// The broker's own delimiters, written by another author.
    FenceMimicry,
    /// A link or an image whose address is to be filled with data.
    ExfiltrationLink,
    /// Words that ask for private data to be sent somewhere.
    ExfiltrationRequest,
    /// An encoding of a text that would be a finding in plain text.
    EncodedPayload,
    /// A long unreadable value in an address or a text.
    OpaqueBlob,
    /// Encoded into itself so often that it was not read to its end.
    NotReadWhole,
    /// A block that people are not shown: a tag, a comment, a row of empty lines.
    HiddenBlock,
    /// Words that keep something from the user.
    Secrecy,
    /// A definition that gives orders about other tools.
    OtherTools,
    /// A definition that asks for the conversation, an agent's instructions or the answers of other tools.
    ContextRequest,
    /// A definition that asks for credentials, or for files that hold them.
    SecretRequest,
    /// A definition that asks for programs to be run or settings to be changed.
    CommandRequest,
    /// The operator's own inspector has something against it.
    Judged,
    /// The operator's own inspector gave no verdict.
    NotJudged,
}

impl Reason {
    /// Every reason, in the order in which they are given.
    pub const ALL: [Self; 21] = [
        Self::HiddenText,
        Self::DirectionMarks,
        Self::ZeroWidth,
        Self::InstructionOverride,
        Self::PromptDisclosure,
        Self::RoleMimicry,
        Self::ToolMimicry,
        Self::FenceMimicry,
        Self::ExfiltrationLink,
        Self::ExfiltrationRequest,
        Self::EncodedPayload,
        Self::OpaqueBlob,
        Self::NotReadWhole,
        Self::HiddenBlock,
        Self::Secrecy,
        Self::OtherTools,
        Self::ContextRequest,
        Self::SecretRequest,
        Self::CommandRequest,
        Self::Judged,
        Self::NotJudged,
    ];

    /// The word by which it is known in rows and documents, for example `hidden_text`. It never changes.
    pub fn word(self) -> &'static str {
        match self {
            Self::HiddenText => "hidden_text",
            Self::DirectionMarks => "direction_marks",
            Self::ZeroWidth => "zero_width",
            Self::InstructionOverride => "instruction_override",
            Self::PromptDisclosure => "prompt_disclosure",
            Self::RoleMimicry => "role_mimicry",
            Self::ToolMimicry => "tool_mimicry",
            Self::FenceMimicry => "fence_mimicry",
            Self::ExfiltrationLink => "exfiltration_link",
            Self::ExfiltrationRequest => "exfiltration_request",
            Self::EncodedPayload => "encoded_payload",
            Self::OpaqueBlob => "opaque_blob",
            Self::NotReadWhole => "not_read_whole",
            Self::HiddenBlock => "hidden_block",
            Self::Secrecy => "secrecy",
            Self::OtherTools => "other_tools",
            Self::ContextRequest => "context_request",
            Self::SecretRequest => "secret_request",
            Self::CommandRequest => "command_request",
            Self::Judged => "judged",
            Self::NotJudged => "not_judged",
        }
    }

    /// One sentence for a person.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::HiddenText => "It holds characters that a person does not see and a model reads.",
            Self::DirectionMarks => "It holds marks that show it in another order than it is read.",
            Self::ZeroWidth => "It holds characters without width where no script needs them.",
            Self::InstructionOverride => "It tries to set an agent's instructions aside or to give new ones.",
            Self::PromptDisclosure => "It asks for the instructions that an agent was given.",
            Self::RoleMimicry => "It is written like turns of a chat with a model.",
            Self::ToolMimicry => "It is written like the call of a tool or its answer.",
            Self::FenceMimicry => "It imitates the fence that the broker puts around such text.",
            Self::ExfiltrationLink => "It has a link or an image whose address is to be filled with data.",
            Self::ExfiltrationRequest => "It asks for private data to be sent somewhere.",
            Self::EncodedPayload => "Something encoded in it can be read, and should be looked at.",
            Self::OpaqueBlob => "It holds a long value that cannot be read.",
            Self::NotReadWhole => "It is encoded into itself so often that it was not read to its end.",
            Self::HiddenBlock => "It has a block that people are not shown: a tag, a comment or padding.",
            Self::Secrecy => "It wants something to be kept from the user.",
            Self::OtherTools => "It gives orders about other tools, or wants to be called in their place.",
            Self::ContextRequest => "It asks for the conversation, an agent's instructions or other tools' results.",
            Self::SecretRequest => "It asks for credentials, or for files that hold them.",
            Self::CommandRequest => "It asks for programs to be run or settings to be changed.",
            Self::Judged => "The operator's own inspector has something against it.",
            Self::NotJudged => "The operator's own inspector did not say what it thinks of it.",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Reasons, each once, in their order. There are never more than [`Reason::ALL`].
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reasons(BTreeSet<Reason>);

impl Reasons {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Reason> {
        self.0.iter().copied()
    }

    /// Checks whether this is one of them.
    pub fn contains(&self, reason: Reason) -> bool {
        self.0.contains(&reason)
    }

    pub(super) fn insert(&mut self, reason: Reason) {
        self.0.insert(reason);
    }

    fn absorb(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Self {
        Self(reasons.into_iter().collect())
    }
}

/// The verdict on a text, from harmless to worst. A later one is the stricter one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Verdict {
    /// Nothing was found. That does not make the text harmless.
    Clean,
    /// Something that ordinary text seldom has.
    Suspicious(Reasons),
    /// Something that is hardly ever an accident.
    Hostile(Reasons),
}

impl Verdict {
    /// Suspicious for one reason.
    pub fn suspicious(reason: Reason) -> Self {
        Self::Suspicious(Reasons::from_iter([reason]))
    }

    /// The word by which it is known: `clean`, `suspicious` or `hostile`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Suspicious(_) => "suspicious",
            Self::Hostile(_) => "hostile",
        }
    }

    /// Checks whether nothing was found.
    pub fn is_clean(&self) -> bool {
        *self == Self::Clean
    }

    /// Why; empty if it is clean.
    pub fn reasons(&self) -> Reasons {
        match self {
            Self::Clean => Reasons::default(),
            Self::Suspicious(reasons) | Self::Hostile(reasons) => reasons.clone(),
        }
    }

    /// The stricter of both, with the reasons of both.
    pub fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Clean, other) => other,
            (verdict, Self::Clean) => verdict,
            (Self::Suspicious(mut reasons), Self::Suspicious(others)) => {
                reasons.absorb(others);
                Self::Suspicious(reasons)
            }
            (Self::Hostile(mut reasons), Self::Suspicious(others) | Self::Hostile(others))
            | (Self::Suspicious(others), Self::Hostile(mut reasons)) => {
                reasons.absorb(others);
                Self::Hostile(reasons)
            }
        }
    }

    /// The same reasons, but no worse than suspicious.
    pub(super) fn softened(self) -> Self {
        match self {
            Self::Hostile(reasons) => Self::Suspicious(reasons),
            verdict @ (Self::Clean | Self::Suspicious(_)) => verdict,
        }
    }
}
