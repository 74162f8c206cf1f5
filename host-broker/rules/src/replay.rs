//! Predictions of the rules for calls with unknown parts, such as the ledger's rows, which hold no parameters. A
//! prediction says so where an unknown part could matter, and never guesses.

use crate::request::Asking;
use crate::{Rule, Rules, RulesError, Set};
use cedar_policy::{Authorizer, Policy, PolicySet};
use policy::facts::RulesFact;
use serde_json::{Value, json};
use std::sync::Arc;

/// The unknown parts of the calls on which rules are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The parts that the ledger does not hold: the parameters, the exposure of the session, and the chat.
    OfRows,
    /// Everything but caller, provider, action and level.
    OfActions,
}

impl Unknown {
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::OfRows => &["params", "session", "person", "chat"],
            Self::OfActions => &["params", "session", "person", "chat", "task", "now", "hour", "weekday"],
        }
    }
}

/// A set of rules, split into those that need only known parts, and the others.
pub struct Replay {
    set: Arc<Set>,
    /// The rules that read nothing unknown.
    known: PolicySet,
    /// The other rules, without their conditions and all permitting. They show which rules concern a call at all.
    about: PolicySet,
}

/// The prediction for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foretold {
    /// The decision does not depend on unknown parts. `Forbid` and `Permit` name the rule; other rules may decide the
    /// same.
    Certain(RulesFact),
    /// The decision depends on unknown parts, by these rules.
    CannotTell(Vec<String>),
}

impl Replay {
    /// Splits these rules, for calls with these unknown parts.
    ///
    /// # Errors
    /// [`RulesError::Schema`] if a rule cannot be split: a fault of the broker.
    pub fn new(rules: &Rules, unknown: Unknown) -> Result<Self, RulesError> {
        let fault = |error: &dyn std::fmt::Display| RulesError::Schema(error.to_string());
        let set = rules.0.clone().ok_or_else(|| fault(&"there are no rules"))?;
        let (mut known, mut about) = (PolicySet::new(), PolicySet::new());
        for policy in set.policies() {
            let reads_unknown = set.rule(policy.id().as_ref()).is_none_or(|rule| rule.reads.any_of(unknown.parts()));
            if reads_unknown {
                let mut written = policy.to_json().map_err(|error| fault(&error))?;
                if let Some(object) = written.as_object_mut() {
                    object.insert("conditions".into(), json!([]));
                    object.insert("effect".into(), Value::from("permit"));
                }
                let stripped = Policy::from_json(Some(policy.id().clone()), written).map_err(|error| fault(&error))?;
                about.add(stripped).map_err(|error| fault(&error))?;
            } else {
                known.add(policy.clone()).map_err(|error| fault(&error))?;
            }
        }
        Ok(Self { set, known, about })
    }

    /// Predicts the decision of the rules on this call.
    pub fn foretell(&self, asking: &Asking<'_>) -> Foretold {
        if !asking.decides && self.set.rules.iter().all(|rule| rule.permits) {
            return Foretold::Certain(RulesFact::Unasked);
        }
        let vocabulary = &self.set.vocabulary;
        let request = match vocabulary.request_without_params(asking) {
            Ok(request) => request,
            Err(why) => return Foretold::Certain(RulesFact::NotEvaluable { why }),
        };
        let (authorizer, store) = (Authorizer::new(), vocabulary.store(asking.demanded));
        let fact = asking.heard(self.set.fact(&[authorizer.is_authorized(&request, &self.known, store)]));
        let open = authorizer.is_authorized(&request, &self.about, store);
        let mut open: Vec<&Rule> = open.diagnostics().reason().filter_map(|id| self.set.rule(id.as_ref())).collect();
        open.retain(|rule| could_change(rule, &fact));
        if open.is_empty() {
            return Foretold::Certain(fact);
        }
        let mut names: Vec<String> = open.iter().map(|rule| rule.name.clone()).collect();
        names.sort();
        Foretold::CannotTell(names)
    }
}

/// Returns whether a rule with unknown conditions could change the decision of the others.
fn could_change(rule: &Rule, others: &RulesFact) -> bool {
    match others {
        // Another permit changes nothing, but its failure would.
        RulesFact::Permit { .. } | RulesFact::Unasked => !rule.permits || rule.reads.can_fail,
        RulesFact::NoMatch => rule.permits,
        RulesFact::Forbid { .. } | RulesFact::Failed { .. } | RulesFact::NotEvaluable { .. } => false,
    }
}

impl Set {
    fn rule(&self, name: &str) -> Option<&Rule> {
        self.places.get(name).and_then(|place| self.rules.get(*place))
    }
}
