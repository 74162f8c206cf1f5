//! Answers to `ext_capabilities`, made once for each state of a group.
//!
//! The permissions of a group change with a grant, a revocation, an expiry, the catalogue and the policy. All but the
//! expiry make the group's snapshot stale, and then its answers are forgotten. Answers on a person's behalf are not
//! kept.

use model::TokenError;
use shared::numbers::counted;
use shared::snapshot::Snapshot;
use shared::{Group, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The data of one answer, as JSON, and its summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CapabilityAnswer {
    pub(crate) data: Arc<[u8]>,
    pub(crate) summary: String,
    // The time at which the first grant in it ends.
    until: Option<Timestamp>,
}

impl CapabilityAnswer {
    /// Makes the answer of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self {
            data: serde_json::to_vec(snapshot).unwrap_or_else(|_| b"null".to_vec()).into(),
            summary: counted(snapshot.capabilities.len(), "provider", "providers"),
            until: snapshot.capabilities.iter().filter_map(|capability| capability.expires_at).min(),
        }
    }
}

/// The inputs of an answer beside the group: why no person is known, and whether it includes unusable actions.
pub(crate) type Form = (TokenError, bool);

/// The answers of all groups.
#[derive(Debug, Default)]
pub(crate) struct CapabilityAnswers(BTreeMap<Group, Vec<(Form, CapabilityAnswer)>>);

impl CapabilityAnswers {
    /// Returns the answer in this form, if it is still true.
    pub(crate) fn get(&self, group: &Group, form: Form, now: Timestamp) -> Option<&CapabilityAnswer> {
        let (_, answer) = self.0.get(group)?.iter().find(|(of, _)| *of == form)?;
        answer.until.is_none_or(|until| now < until).then_some(answer)
    }

    /// Keeps an answer.
    pub(crate) fn keep(&mut self, group: &Group, form: Form, answer: CapabilityAnswer) {
        let answers = self.0.entry(group.clone()).or_default();
        answers.retain(|(of, _)| *of != form);
        answers.push((form, answer));
    }

    /// Forgets the answers of a group whose snapshot is no longer true.
    pub(crate) fn forget(&mut self, group: &Group) {
        self.0.remove(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_until_the_first_grant_in_it_ends_or_the_group_is_forgotten() {
        let (group, other): (Group, Group) = ("a".parse().unwrap(), "b".parse().unwrap());
        let at = Timestamp::from_millis;
        let answer = CapabilityAnswer { data: Arc::from(*b"{}"), summary: String::new(), until: Some(at(10)) };
        let form = (TokenError::Missing, true);
        let mut answers = CapabilityAnswers::default();
        answers.keep(&group, form, answer.clone());
        assert_eq!(answers.get(&group, form, at(9)), Some(&answer));
        assert_eq!(answers.get(&group, form, at(10)), None);
        for other_form in
            [(TokenError::Missing, false), (TokenError::Expired, true), (TokenError::Invalid("why"), true)]
        {
            assert_eq!(answers.get(&group, other_form, at(9)), None);
        }
        assert_eq!(answers.get(&other, form, at(9)), None);
        let lasting = CapabilityAnswer { until: None, ..answer };
        answers.keep(&group, form, lasting.clone());
        assert_eq!(answers.get(&group, form, at(1 << 40)), Some(&lasting));
        answers.forget(&group);
        assert_eq!(answers.get(&group, form, at(9)), None);
    }
}
