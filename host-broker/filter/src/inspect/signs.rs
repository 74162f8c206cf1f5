//! Signs: the findings of the detectors, their places, and their combination to a verdict.
//!
//! One weak sign is nothing: ordinary text has them. Two different ones close together, or one strong sign, make a text
//! suspicious. It is hostile if a sign is certain. It is also hostile if a phrase sets instructions aside and close to
//! that the text imitates a turn or a tool or wants data sent away.

use super::verdict::{Reason, Reasons, Verdict};

/// How close two weak signs must be to count as one strong one, in bytes.
const WEAK_NEAR: usize = 300;

/// The distance between an override and its purpose up to which a text is hostile, in bytes.
const STRONG_NEAR: usize = 1_000;

/// How much a sign says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strength {
    /// Ordinary text has it now and then.
    Weak,
    /// Ordinary text hardly has it.
    Strong,
    /// It cannot be there by accident.
    Certain,
}

#[derive(Debug, Clone, Copy)]
struct Sign {
    at: usize,
    reason: Reason,
    /// Which rule found it: two weak signs of one rule are still one.
    rule: usize,
}

/// The signs in one text. At most one sign for every few bytes of it.
#[derive(Debug, Default)]
pub(super) struct Signs {
    weak: Vec<Sign>,
    strong: Vec<Sign>,
    certain: Reasons,
    /// Whether weak signs say nothing here, even close together.
    without_weak: bool,
}

impl Signs {
    /// Makes signs for a text in which weak signs are ordinary.
    pub(super) fn without_weak() -> Self {
        Self { without_weak: true, ..Self::default() }
    }

    /// Notes a sign at an offset of the text. `rule` tells weak signs apart.
    pub(super) fn note(&mut self, reason: Reason, strength: Strength, rule: usize, at: usize) {
        let sign = Sign { at, reason, rule };
        match strength {
            Strength::Weak => self.weak.push(sign),
            Strength::Strong => self.strong.push(sign),
            Strength::Certain => self.certain.insert(reason),
        }
    }

    /// Notes a sign that needs no other.
    pub(super) fn note_strong(&mut self, reason: Reason, at: usize) {
        self.note(reason, Strength::Strong, usize::MAX, at);
    }

    /// Notes the verdict on a part that was found at this offset.
    pub(super) fn note_verdict(&mut self, verdict: &Verdict, at: usize) {
        let strength = match verdict {
            Verdict::Clean => return,
            Verdict::Suspicious(_) => Strength::Strong,
            Verdict::Hostile(_) => Strength::Certain,
        };
        for reason in verdict.reasons().iter() {
            self.note(reason, strength, usize::MAX, at);
        }
    }

    /// Returns the verdict on all signs.
    pub(super) fn verdict(mut self) -> Verdict {
        self.strong.sort_by_key(|sign| sign.at);
        // Two weak signs make a text suspicious, and never hostile: examples and documentation have them.
        let has_purpose = has_purpose(&self.strong);
        if !self.without_weak {
            self.pair_weak();
        }
        let reasons: Reasons = self.strong.iter().map(|sign| sign.reason).chain(self.certain.iter()).collect();
        if self.certain != Reasons::default() || has_purpose {
            Verdict::Hostile(reasons)
        } else if reasons == Reasons::default() {
            Verdict::Clean
        } else {
            Verdict::Suspicious(reasons)
        }
    }

    /// Two different weak signs that are neighbours and close together are both strong.
    fn pair_weak(&mut self) {
        self.weak.sort_by_key(|sign| sign.at);
        for pair in self.weak.windows(2) {
            if let &[first, second] = pair
                && first.rule != second.rule
                && second.at - first.at <= WEAK_NEAR
            {
                self.strong.extend([first, second]);
            }
        }
    }
}

/// Returns the verdict of one detector alone on a text.
#[cfg(test)]
pub(super) fn alone(note: fn(&str, &mut Signs), text: &str) -> Verdict {
    let mut signs = Signs::default();
    note(text, &mut signs);
    signs.verdict()
}

/// Checks whether an override has its purpose close to it. The signs are sorted.
fn has_purpose(strong: &[Sign]) -> bool {
    let mut last_override = None;
    let mut last_purpose = None;
    for sign in strong {
        let other = match sign.reason {
            Reason::InstructionOverride => {
                last_override = Some(sign.at);
                last_purpose
            }
            Reason::ToolMimicry
            | Reason::RoleMimicry
            | Reason::FenceMimicry
            | Reason::ExfiltrationLink
            | Reason::ExfiltrationRequest => {
                last_purpose = Some(sign.at);
                last_override
            }
            Reason::HiddenText
            | Reason::DirectionMarks
            | Reason::ZeroWidth
            | Reason::PromptDisclosure
            | Reason::EncodedPayload
            | Reason::OpaqueBlob
            | Reason::NotReadWhole
            | Reason::HiddenBlock
            | Reason::Secrecy
            | Reason::OtherTools
            | Reason::ContextRequest
            | Reason::SecretRequest
            | Reason::CommandRequest
            | Reason::Judged
            | Reason::NotJudged => None,
        };
        if other.is_some_and(|at: usize| sign.at - at <= STRONG_NEAR) {
            return true;
        }
    }
    false
}
