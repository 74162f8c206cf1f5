//! Standing approvals: an approval that also covers later calls like the one on the card.

use crate::approval::ApprovalReason;
use crate::{Caller, Exposure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::{Action, Group, Level, Provider, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The parameters of the calls that a standing approval covers. A parameter without a line is absent.
///
/// ```
/// use model::standing_approval::ParamPattern;
/// let object = |text: &str| serde_json::from_str(text).unwrap();
/// let pattern = ParamPattern::new(
///     &object(r#"{"to": ["bob@example.com"], "subject": "Hello"}"#),
///     ["subject".to_owned(), "text".to_owned()].into(),
/// );
/// assert!(pattern.covers(&object(r#"{"to": ["bob@example.com"], "text": "How are you?"}"#)));
/// assert!(!pattern.covers(&object(r#"{"to": ["bob@example.com"], "cc": ["eve@example.com"]}"#)));
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ParamPattern {
    /// The parameters that have exactly these values.
    pub fixed: Map<String, Value>,
    /// The names of the parameters that have any value, or are absent.
    pub may_vary: BTreeSet<String>,
}

impl ParamPattern {
    /// Makes the pattern of calls with these parameters, in which some may vary.
    pub fn new(params: &Map<String, Value>, may_vary: BTreeSet<String>) -> Self {
        let fixed = params.iter().filter(|(name, _)| !may_vary.contains(*name));
        Self { fixed: fixed.map(|(name, value)| (name.clone(), value.clone())).collect(), may_vary }
    }

    /// Returns whether a call with these parameters is covered.
    pub fn covers(&self, params: &Map<String, Value>) -> bool {
        params.keys().all(|name| self.fixed.contains_key(name) || self.may_vary.contains(name))
            && self.fixed.iter().all(|(name, value)| params.get(name) == Some(value))
    }

    /// Returns the parameters that have exactly these values, in the order of their names.
    fn sorted(&self) -> BTreeMap<&String, &Value> {
        self.fixed.iter().collect()
    }

    /// Returns its names: `to as on the card; subject, text as the agent likes`.
    pub fn names(&self) -> String {
        let join = |names: Vec<&str>, verb: &str| (!names.is_empty()).then(|| format!("{} {verb}", names.join(", ")));
        let fixed = join(self.sorted().into_keys().map(String::as_str).collect(), "as on the card");
        let vary = join(self.may_vary.iter().map(String::as_str).collect(), "as the agent likes");
        let words: Vec<String> = fixed.into_iter().chain(vary).collect();
        if words.is_empty() { "no parameters".to_owned() } else { words.join("; ") }
    }

    /// Returns its words: `to = ["bob@example.com"]; subject, text may differ`.
    pub fn words(&self) -> String {
        let value = |(name, value): (&String, &Value)| format!("{name} = {}", crate::card::visible(&value.to_string()));
        let fixed: Vec<String> = self.sorted().into_iter().map(value).collect();
        let vary: Vec<&str> = self.may_vary.iter().map(String::as_str).collect();
        match (fixed.is_empty(), vary.is_empty()) {
            (true, true) => "no parameters".to_owned(),
            (false, true) => fixed.join("; "),
            (true, false) => format!("{} may differ", vary.join(", ")),
            (false, false) => format!("{}; {} may differ", fixed.join("; "), vary.join(", ")),
        }
    }
}

impl fmt::Debug for ParamPattern {
    /// Omits the values, which do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParamPattern({} fixed, {:?} may vary)", self.fixed.len(), self.may_vary)
    }
}

/// The standing approval that a person can give with the answer to an approval request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingOffer {
    /// The person on whose behalf the call is made, in the ledger's form.
    pub person: Option<String>,
    /// All parameters of the call.
    pub params: Params,
    /// The parameters that may vary.
    pub may_vary: BTreeSet<String>,
    /// The digest of everything else about the call that must be the same.
    pub terms: Digest,
    /// The digest of the profiles, and of the settings of the provider.
    pub policy: Digest,
    /// The exposure of the session with this call; absent if the card does not name all of its calls.
    pub exposures: Option<NamedExposures>,
}

/// The exposure of each action, in words: `{"mail.read_email": ["untrusted", "sensitive"]}`.
pub type NamedExposures = BTreeMap<String, BTreeSet<String>>;

/// Returns whether the exposure of an action is among the named ones.
pub fn is_named(named: &NamedExposures, action: &str, exposure: Exposure) -> bool {
    let words = named.get(action);
    exposure.words().into_iter().all(|word| words.is_some_and(|words| words.contains(word)))
}

/// The parameters of a call.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Params(pub Map<String, Value>);

impl fmt::Debug for Params {
    /// Omits the values, which do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Params({})", self.0.len())
    }
}

/// The scope that a person gives to a standing approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingScope {
    /// The time, in seconds.
    pub for_s: u64,
    /// Whether it also ends with the session.
    #[serde(default)]
    pub session: bool,
    /// The parameters that could vary and must stay as they are.
    #[serde(default)]
    pub fixed: BTreeSet<String>,
    /// Whether it may cover a production action.
    #[serde(default)]
    pub production: bool,
    /// Whether it covers the combination of private data, untrusted content and an egress channel, as the card names it.
    #[serde(default)]
    pub trifecta: bool,
}

/// A stored standing approval.
#[derive(Debug, Clone, PartialEq)]
pub struct StandingApproval {
    /// The number.
    pub id: i64,
    /// The caller, in the ledger's form.
    pub caller: String,
    /// The person on whose behalf the calls are made, in the ledger's form.
    pub person: Option<String>,
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The level that the calls demand.
    pub level: Level,
    /// The digest of everything else about a call that must be the same.
    pub terms: Digest,
    /// The digest of the profiles, and of the settings of the provider.
    pub policy: Digest,
    /// The parameters, until it is over.
    pub pattern: Option<ParamPattern>,
    /// The reasons for asking that it covers.
    pub covers: BTreeSet<ApprovalReason>,
    /// The exposure that was on the card, if it is covered.
    pub exposures: NamedExposures,
    /// The ledger row of the approval request.
    pub asked_seq: i64,
    /// The approver, in the ledger's form.
    pub given_by: String,
    /// The time of the approval.
    pub given_at: Timestamp,
    /// The time at which it ends.
    pub until: Timestamp,
    /// Whether it also ends with the session.
    pub of_session: bool,
    /// The time at which it was ended, and the person or the broker that ended it.
    pub ended: Option<(Timestamp, String)>,
    /// The number of calls that it has covered.
    pub uses: u64,
    /// The time of the latest of these calls.
    pub used_at: Option<Timestamp>,
}

impl StandingApproval {
    /// Returns its name in rows and commands: `standing-3`.
    pub fn reference(&self) -> String {
        reference(self.id)
    }

    /// Returns the group whose calls it covers.
    pub fn group(&self) -> Option<Group> {
        Caller::stored(&self.caller)?.group().cloned()
    }

    /// Returns whether it is neither ended nor expired.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.ended.is_none() && now < self.until
    }
}

/// Returns the name of the standing approval with this number.
pub fn reference(id: i64) -> String {
    format!("standing-{id}")
}

/// Returns the number behind a name, if it is one, written as the function `reference` writes it.
pub fn numbered(name: &str) -> Option<i64> {
    let id = name.strip_prefix("standing-")?.parse().ok()?;
    (reference(id) == name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_pattern_covers_equal_fixed_parameters_and_nothing_that_it_does_not_name() {
        let call = object(&json!({ "to": ["bob@example.com"], "subject": "a", "n": 1 }));
        let pattern = ParamPattern::new(&call, BTreeSet::from(["subject".to_owned(), "text".to_owned()]));
        let covers = |value: Value| pattern.covers(&object(&value));
        assert!(covers(json!({ "to": ["bob@example.com"], "n": 1 })));
        assert!(covers(json!({ "to": ["bob@example.com"], "n": 1, "subject": { "b": [] }, "text": null })));
        for other in [
            json!({}),
            json!({ "to": ["bob@example.com"] }),
            json!({ "to": ["Bob@example.com"], "n": 1 }),
            json!({ "to": ["bob@example.com", "eve@example.com"], "n": 1 }),
            json!({ "to": "bob@example.com", "n": 1 }),
            json!({ "to": ["bob@example.com"], "n": 1.0 }),
            json!({ "to": ["bob@example.com"], "n": "1" }),
            json!({ "to": ["bob@example.com"], "n": 1, "cc": [] }),
            json!({ "to": ["bob@example.com"], "n": 1, "cc": null }),
            json!({ "to": ["bob@example.com"], "n": 1, "Subject": "b" }),
        ] {
            assert!(!covers(other.clone()), "{other}");
        }
        assert_eq!(pattern.words(), "n = 1; to = [\"bob@example.com\"]; subject, text may differ");
    }

    proptest! {
        /// Attack: see
        /// `a_standing_approval_covers_later_calls_like_the_one_on_the_card_and_no_others`.
        #[test]
        fn a_pattern_covers_its_own_call_and_each_that_differs_in_what_may_vary(
            values in proptest::collection::btree_map("[a-e]", any::<Option<i8>>(), 0..5),
            others in proptest::collection::btree_map("[a-e]", any::<Option<i8>>(), 0..5),
            vary in proptest::collection::btree_set("[a-e]", 0..5),
        ) {
            let map = |values: &std::collections::BTreeMap<String, Option<i8>>| -> Map<String, Value> {
                values.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
            };
            let (call, other) = (map(&values), map(&others));
            let pattern = ParamPattern::new(&call, vary.clone());
            prop_assert!(pattern.covers(&call));
            let without = |params: &Map<String, Value>| -> Map<String, Value> {
                params.iter().filter(|(name, _)| !vary.contains(*name)).map(|(n, v)| (n.clone(), v.clone())).collect()
            };
            prop_assert_eq!(pattern.covers(&other), without(&call) == without(&other));
        }
    }
}
