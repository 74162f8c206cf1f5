//! Parsing of rule files, into a set of rules or a list of all errors.

use crate::by_name::ByName;
use crate::reads::Reads;
use crate::vocabulary::{NamedProvider, Vocabulary};
use crate::{Rule, Rules, Set};
use cedar_policy::ffi::DetailedError;
use cedar_policy::{
    ActionConstraint, Effect, Policy, PolicyId, PolicySet, ValidationMode, ValidationWarning, Validator,
};
use serde::{Deserialize, Serialize};
use shared::Group;
use shared::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFile {
    /// The path.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

/// Rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// Faults in the files; all of them, in the order of the files.
    #[error("{}", lines(.0))]
    Faults(Vec<RuleFileError>),
    /// Two names are the same in rules.
    #[error("in rules `Action::\"{name}\"` would be both {one} and {other}; rename the provider in broker.toml")]
    Names {
        /// The name.
        name: String,
        /// The first object of that name.
        one: String,
        /// The second object of that name.
        other: String,
    },
    /// The providers have no valid schema: a fault of the broker.
    #[error("cannot describe the providers to the rules: {0}")]
    Schema(String),
}

/// One fault in a file of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFileError {
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
    /// The fault.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for RuleFileError {
    /// `policy/own.cedar:12: there is no group `deveolper`; correct the name`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path.display(), self.line, self.what, self.remedy)
    }
}

fn lines(faults: &[RuleFileError]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const UNCLEAR: &str = "write it so that it is what it looks like";
const SEE_SCHEMA: &str = "for the vocabulary of rules: host-broker policy check --schema";

impl Rules {
    /// Compiles rules against these providers and groups.
    ///
    /// # Errors
    /// [`RulesError`] with every fault.
    pub fn parse(
        files: &[RuleFile],
        providers: &[NamedProvider<'_>],
        groups: BTreeSet<Group>,
    ) -> Result<Self, RulesError> {
        let vocabulary = Vocabulary::new(providers, groups)?;
        let mut gathered = Gathered::default();
        for file in files {
            gathered.file(file);
        }
        if gathered.faults.is_empty() {
            gathered.validate(files, &vocabulary);
        }
        if !gathered.faults.is_empty() {
            gathered.faults.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
            return Err(RulesError::Faults(gathered.faults));
        }
        let Gathered { of_one, of_several, rules, places, .. } = gathered;
        let digest = digest(files);
        let rule = |policy: &Policy| places.get::<str>(policy.id().as_ref()).and_then(|place| rules.get(*place));
        let by_name = ByName::of(&of_one, &of_several, rule);
        Ok(Self(Some(Arc::new(Set { of_one, of_several, rules, places, vocabulary, digest, by_name }))))
    }
}

/// Returns the digest of the files' names and texts.
fn digest(files: &[RuleFile]) -> Digest {
    let mut all = String::new();
    for file in files {
        let name = file.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        // Writing to a string does not fail.
        write!(all, "{}:{name}{}:{}", name.len(), file.text.len(), file.text).ok();
    }
    Digest::of(all.as_bytes())
}

#[derive(Default)]
struct Gathered {
    /// All policies, to be validated together.
    policies: PolicySet,
    of_one: BTreeMap<String, PolicySet>,
    of_several: PolicySet,
    rules: Vec<Rule>,
    places: BTreeMap<String, usize>,
    faults: Vec<RuleFileError>,
}

impl Gathered {
    fn fault(&mut self, path: &Path, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(RuleFileError { path: path.into(), line, what: what.into(), remedy: remedy.into() });
    }

    fn file(&mut self, file: &RuleFile) {
        let parsed: PolicySet = match file.text.parse() {
            Ok(parsed) => parsed,
            Err(errors) => {
                let errors = DetailedError::from(&errors);
                let related = errors.related.clone();
                for error in std::iter::once(errors).chain(related) {
                    let remedy = error.help.clone().unwrap_or_else(|| "correct it".to_owned());
                    self.fault(&file.path, line_of(&file.text, start(&error)), error.message, remedy);
                }
                return;
            }
        };
        if parsed.num_of_templates() > 0 {
            let line = line_of(&file.text, file.text.find(['?']));
            self.fault(&file.path, line, "a rule has a slot", "write the rule out for each whom it is about");
            return;
        }
        let mut policies: Vec<&Policy> = parsed.policies().collect();
        // Cedar numbers them in the order in which they are written: `policy0`, `policy1`, ….
        policies.sort_by_key(|policy| {
            let id: &str = policy.id().as_ref();
            id.trim_start_matches("policy").parse::<usize>().unwrap_or(usize::MAX)
        });
        let mut behind = 0;
        for policy in policies {
            let written = policy.to_string();
            let found = file.text.get(behind..).and_then(|rest| rest.find(written.as_str())).unwrap_or(0);
            let line = line_of(&file.text, Some(behind + found));
            behind += found + written.len();
            self.rule(file, line, policy);
        }
    }

    fn rule(&mut self, file: &RuleFile, line: usize, policy: &Policy) {
        let file_name = file.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let name = match policy.annotation("id") {
            None => format!("{file_name}:{line}"),
            Some("") => return self.fault(&file.path, line, "the rule's @id is empty", "give it a name"),
            Some(name) => name.to_owned(),
        };
        let unknown = |annotation: &&str| !["id", "reason"].contains(annotation);
        if let Some(annotation) = policy.annotations().map(|(key, _)| key).find(unknown) {
            let what = format!("rule `{name}` has @{annotation}, which means nothing here");
            return self.fault(&file.path, line, what, "there are @id and @reason");
        }
        let first = self.places.get(&name).and_then(|place| self.rules.get(*place));
        if let Some(Rule { path, line: first, .. }) = first {
            let what = format!("rule `{name}` is there already, in {}:{first}", path.display());
            return self.fault(&file.path, line, what, "give one of them another @id");
        }
        let policy = policy.new_id(PolicyId::new(&name));
        // A parsed policy can be written as JSON; if not, its reads are unknown.
        let reads = policy.to_json().map_or_else(|_| Reads::of(&serde_json::Value::Null), |json| Reads::of(&json));
        let reason = policy.annotation("reason").filter(|reason| !reason.is_empty()).map(str::to_owned);
        let permits = policy.effect() == Effect::Permit;
        let rule = Rule { name: name.clone(), path: file.path.clone(), line, permits, reason, idle: None, reads };
        let sorted = match policy.action_constraint() {
            ActionConstraint::Eq(action) => self.of_one.entry(action.id().unescaped().to_owned()).or_default(),
            ActionConstraint::Any | ActionConstraint::In(_) => &mut self.of_several,
        };
        let added = [sorted.add(policy.clone()), self.policies.add(policy)];
        // Each name is new, so neither can fail.
        if let Some(error) = added.into_iter().find_map(Result::err) {
            return self.fault(&file.path, line, error.to_string(), "give it another @id");
        }
        self.places.insert(name, self.rules.len());
        self.rules.push(rule);
    }

    fn validate(&mut self, files: &[RuleFile], vocabulary: &Vocabulary) {
        let mut found: Vec<(usize, DetailedError)> = Vec::new();
        let mut idle: BTreeMap<usize, &'static str> = BTreeMap::new();
        let place = |id: &PolicyId| self.places.get::<str>(id.as_ref()).copied().unwrap_or(0);
        let result = Validator::new(vocabulary.schema.clone()).validate(&self.policies, ValidationMode::Strict);
        for policy in self.policies.policies() {
            let unknown = policy.entity_literals().into_iter().filter_map(|named| vocabulary.unknown(&named));
            found.extend(unknown.map(|(what, help)| (place(policy.id()), told(what, help))));
        }
        found.extend(result.validation_errors().map(|error| (place(error.policy_id()), error.into())));
        for warning in result.validation_warnings() {
            let place = place(warning.policy_id());
            match warning {
                ValidationWarning::InvalidActionApplication(_) => {
                    idle.insert(place, "is about no action that there is");
                }
                ValidationWarning::ImpossiblePolicy(_) => {
                    // Rules about no action get this reason, too.
                    idle.entry(place).or_insert("has conditions that never hold");
                }
                // SECURITY: a text that looks like another name, or is shown in another order than it is read.
                ValidationWarning::MixedScriptString(_)
                | ValidationWarning::BidiCharsInString(_)
                | ValidationWarning::BidiCharsInIdentifier(_)
                | ValidationWarning::MixedScriptIdentifier(_)
                | ValidationWarning::ConfusableIdentifier(_)
                // Findings of later versions are faults as well.
                | _ => found.push((place, DetailedError { help: Some(UNCLEAR.to_owned()), ..warning.into() })),
            }
        }
        for (place, why) in idle {
            if let Some(rule) = self.rules.get_mut(place) {
                rule.idle = Some(why);
            }
        }
        for (place, error) in found {
            self.invalid(files, place, &error);
        }
    }

    fn invalid(&mut self, files: &[RuleFile], place: usize, error: &DetailedError) {
        let Some(rule) = self.rules.get(place).cloned() else { return };
        let text = files.iter().find(|file| file.path == rule.path).map_or("", |file| file.text.as_str());
        let line = start(error).map_or(rule.line, |start| line_of(text, Some(start)));
        let own = format!("for policy `{}`, ", rule.name);
        let message = error.message.strip_prefix(own.as_str()).unwrap_or(&error.message);
        let what = format!("rule `{}`: {message}", rule.name);
        let remedy = error.help.clone().unwrap_or_else(|| SEE_SCHEMA.to_owned());
        self.fault(&rule.path, line, what, remedy);
    }
}

fn told(message: String, help: String) -> DetailedError {
    let (code, url, severity) = (None, None, None);
    DetailedError { message, help: Some(help), code, url, severity, source_locations: Vec::new(), related: Vec::new() }
}

fn start(error: &DetailedError) -> Option<usize> {
    error.source_locations.first().map(|label| label.loc.start)
}

/// Returns the line at this byte, from 1.
fn line_of(text: &str, byte: Option<usize>) -> usize {
    let before = text.get(..byte.unwrap_or(0)).unwrap_or_default();
    1 + before.matches('\n').count()
}
