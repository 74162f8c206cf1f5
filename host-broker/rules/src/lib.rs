//! The operator's rules: permits and prohibitions where a level alone would permit too much.
//!
//! A rule is a Cedar policy: `permit` or `forbid`, about a caller (`Group::"developer"`), an action
//! (`Action::"github.create_issue"`, which is in `Action::"github"` and in the level that the call demands) and a
//! provider, with conditions on the context of the call. A forbidding rule wins over every permitting one. Without a
//! permitting rule the call is refused.
//!
//! Rules are compiled against a [`Vocabulary`] of providers and groups. A rule with an unknown name stops the start.
//! The crate reads neither files nor the clock.

mod by_name;
mod parsing;
mod reads;
mod replay;
mod request;
mod shape;
mod vocabulary;
#[cfg(test)]
mod tests;

pub use parsing::{RuleFile, RuleFileError, RulesError};
pub use replay::{Foretold, Replay, Unknown};
pub use request::Asking;
pub use shape::Unseen;
pub use vocabulary::{NamedAction, NamedProvider, Vocabulary};

use by_name::ByName;
use cedar_policy::{AuthorizationError, Authorizer, Diagnostics, Policy, PolicyId, PolicySet, Request, Response};
use policy::facts::RulesFact;
use reads::Reads;
use serde_json::{Map, Value};
use shared::Level;
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The rules that ship with the broker.
pub const SHIPPED: &str = include_str!("default.cedar");

/// A set of valid rules. The one that is made by default has none, so it permits nothing.
#[derive(Clone, Default)]
pub struct Rules(Option<Arc<Set>>);

struct Set {
    /// The rules about one action, by its name, so that a call is not compared with every other action's.
    of_one: BTreeMap<String, PolicySet>,
    /// The rules about several actions.
    of_several: PolicySet,
    /// The rules, in the order of the files and of their lines.
    rules: Vec<Rule>,
    places: BTreeMap<String, usize>,
    vocabulary: Vocabulary,
    digest: Digest,
    by_name: ByName,
}

/// One rule, as people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The name from `@id`, or its file and line.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
    /// Whether it permits; otherwise it forbids.
    pub permits: bool,
    /// The text of `@reason`, for the refused caller.
    pub reason: Option<String>,
    /// The reason why it can never apply, if it cannot.
    pub idle: Option<&'static str>,
    reads: Reads,
}

impl Rules {
    /// Returns the decision of the rules on a call with these parameters.
    pub fn decide(&self, asking: &Asking<'_>, params: &Map<String, Value>) -> RulesFact {
        if !self.are_asked(asking.decides) {
            return RulesFact::Unasked;
        }
        let Some(set) = &self.0 else { return RulesFact::NoMatch };
        asking.heard(match set.vocabulary.params(asking, params) {
            Ok(params) => set.by_name.decide(asking, || match set.vocabulary.request(asking, params) {
                Ok(request) => set.judge(&request, asking.demanded),
                Err(why) => RulesFact::NotEvaluable { why },
            }),
            Err(why) => RulesFact::NotEvaluable { why },
        })
    }

    /// Returns whether there are rules to ask about a call, decided by them or not.
    pub fn are_asked(&self, decides: bool) -> bool {
        decides || self.list().iter().any(|rule| !rule.permits)
    }

    /// Returns the rules, in the order of their files.
    pub fn list(&self) -> &[Rule] {
        self.0.as_ref().map_or(&[], |set| &set.rules)
    }

    /// Returns a digest of all rules, as they are written.
    pub fn version(&self) -> Digest {
        self.0.as_ref().map_or_else(|| Digest::of(b""), |set| set.digest)
    }
}

impl Set {
    fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.of_one.values().chain([&self.of_several]).flat_map(PolicySet::policies)
    }

    fn judge(&self, request: &Request, demanded: Level) -> RulesFact {
        let (authorizer, store) = (Authorizer::new(), self.vocabulary.store(demanded));
        let of_one = request.action().and_then(|action| self.of_one.get(action.id().unescaped()));
        let sets = of_one.into_iter().chain([&self.of_several]);
        let responses: Vec<Response> = sets.map(|set| authorizer.is_authorized(request, set, store)).collect();
        self.fact(&responses)
    }

    /// Combines the responses: each names its forbidding rules that hold, or else its permitting ones.
    ///
    /// SECURITY: Cedar leaves out a rule that fails. A forbidding one would then permit, so any failure refuses.
    fn fact(&self, responses: &[Response]) -> RulesFact {
        let diagnostics = || responses.iter().map(Response::diagnostics);
        let place = |id: &PolicyId| self.places.get::<str>(id.as_ref()).copied();
        let first = |permits: bool| {
            let holding = diagnostics().flat_map(Diagnostics::reason).filter_map(place);
            let rules = holding.filter(|place| self.rules.get(*place).is_some_and(|rule| rule.permits == permits));
            rules.min().and_then(|place| self.rules.get(place))
        };
        let failed = diagnostics().flat_map(Diagnostics::errors).filter_map(|error| match error {
            AuthorizationError::PolicyEvaluationError(error) => place(error.policy_id()),
        });
        let failed = failed.min().and_then(|place| self.rules.get(place));
        match (first(false), failed, first(true)) {
            (Some(rule), _, _) => RulesFact::Forbid { rule: rule.name.clone(), reason: rule.reason.clone() },
            (None, Some(rule), _) => RulesFact::Failed { rule: rule.name.clone() },
            (None, None, Some(rule)) => RulesFact::Permit { rule: rule.name.clone() },
            (None, None, None) => RulesFact::NoMatch,
        }
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.version() == other.version() && self.list() == other.list()
    }
}

impl Eq for Rules {}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list().iter().map(|rule| &rule.name)).finish()
    }
}
