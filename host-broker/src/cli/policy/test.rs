//! `policy test`: rules, tried on past decisions.

use super::{Test, files, groups, parse};
use crate::cli::Context;
use crate::cli::output::{CliError, Output, Progress};
use config::profiles;
use engine::catalogue::Catalogue;
use model::Exposure;
use policy::facts::RulesFact;
use policy::profile::{ApprovalMode, Profiles};
use rules::{Asking, Foretold, Replay, Unknown};
use serde_json::{Value, json};
use shared::{Action, Code, Group, Level, Provider, TaskId};
use std::collections::BTreeMap;
use store::ledger::calls;
use store::ledger::calls::Decided;
use store::ledger::export;

/// The rules, and the state of their trial.
struct Trial<'a> {
    replay: Replay,
    profiles: Profiles,
    catalogue: &'a Catalogue,
    all: bool,
    found: TestResult,
}

/// The result of the trial.
#[derive(Default)]
struct TestResult {
    calls: u64,
    /// Of which the rules decide.
    asked: u64,
    same: u64,
    changes: Vec<Change>,
    /// How many calls, by action and reason.
    cannot_tell: BTreeMap<(String, String), u64>,
}

struct Change {
    call: Decided,
    was: String,
    would_be: &'static str,
    why: String,
}

/// The answer of the rules to one call.
enum TestVerdict {
    Yes(String),
    No(String),
    CannotTell(String),
}

impl Test {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let config = context.config()?;
        let catalogue = context.catalogue(&config);
        let fault = |error: &dyn std::error::Error| CliError::configuration(error);
        let rules = parse(&files(context, &config, self.files)?, &groups(context, &config)?, &catalogue)?;
        let mut trial = Trial {
            replay: Replay::new(&rules, Unknown::OfRows).map_err(|error| fault(&error))?,
            profiles: profiles::load(&context.home, &config, &catalogue.named()).map_err(|error| fault(&error))?,
            catalogue: &catalogue,
            all: self.all,
            found: TestResult::default(),
        };
        if let Some(ledger) = context.ledger_if_any()? {
            let total = export::last(&ledger)?.map_or(0, |row| row.seq);
            let mut progress = Progress::new(context.output);
            calls::each_decided(&ledger, |call| {
                progress.report(|| format!("tried row {} of {total} …", call.seq));
                trial.take(call);
            })?;
        }
        let found = trial.found;
        context.output.show(&found.document(), || found.text());
        Ok(())
    }
}

impl Trial<'_> {
    fn take(&mut self, call: Decided) {
        self.found.calls += 1;
        // An approval request was only made because the rules had nothing against the call.
        let unanswered = [Code::ApprovalDenied, Code::ApprovalExpired].map(|code| Some(code.word()));
        let asked = call.asked || unanswered.contains(&call.refused.as_deref());
        // The rules cannot permit a call that was refused for another reason.
        let was = call.refused.clone().filter(|_| !asked);
        let other_reason = was.as_deref().is_some_and(|code| code != Code::RuleDenied.word());
        let Some(answer) = (if other_reason { None } else { self.answer(&call) }) else { return };
        self.found.asked += 1;
        match (answer, was) {
            (TestVerdict::Yes(_), None) | (TestVerdict::No(_), Some(_)) => self.found.same += 1,
            (TestVerdict::No(why), None) => {
                let was = if asked { "asked of a person" } else { "permitted" };
                self.found.change(call, was.to_owned(), "refused", why);
            }
            (TestVerdict::Yes(why), Some(code)) => self.found.change(call, code, "permitted by the rules", why),
            (TestVerdict::CannotTell(why), _) => {
                let action = format!("{}.{}", call.provider, call.action);
                *self.found.cannot_tell.entry((action, why)).or_default() += 1;
            }
        }
    }

    /// `None` if the rules are not asked about such a call.
    fn answer(&self, call: &Decided) -> Option<TestVerdict> {
        let (Ok(group), Ok(provider), Ok(action)) =
            (call.group.parse::<Group>(), call.provider.parse::<Provider>(), call.action.parse::<Action>())
        else {
            return Some(TestVerdict::CannotTell("the row's names are none".to_owned()));
        };
        let operation = self.catalogue.provider(&provider).and_then(|listed| listed.operations.get(&action));
        let Some(declaration) = operation.map(|operation| operation.declaration()) else {
            return Some(TestVerdict::CannotTell("there is no such action now".to_owned()));
        };
        let demanded =
            call.level.and_then(Level::from_number).map_or(declaration.level, |level| level.max(declaration.level));
        let setting = self.profiles.setting(Some(&group), declaration, demanded);
        if setting == ApprovalMode::Off && !self.all {
            return None;
        }
        let task = call.task_id.as_deref().and_then(|task| task.parse::<TaskId>().ok());
        let asking = Asking {
            group: &group,
            provider: &provider,
            action: &action,
            demanded,
            decides: self.all || setting == ApprovalMode::Rules,
            task: task.as_ref(),
            person: None,
            session: Exposure::NONE,
            now: call.at,
        };
        Some(match self.replay.foretell(&asking) {
            Foretold::Certain(RulesFact::Unasked) => return None,
            Foretold::Certain(RulesFact::Permit { rule }) => TestVerdict::Yes(format!("rule `{rule}` permits it")),
            Foretold::Certain(RulesFact::NoMatch) => TestVerdict::No("no rule permits it".to_owned()),
            Foretold::Certain(RulesFact::Forbid { rule, .. }) => TestVerdict::No(format!("rule `{rule}` forbids it")),
            Foretold::Certain(RulesFact::Failed { rule }) => TestVerdict::No(format!("rule `{rule}` fails")),
            Foretold::Certain(RulesFact::NotEvaluable { why }) => TestVerdict::CannotTell(why),
            Foretold::CannotTell(rules) => {
                let rules: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
                TestVerdict::CannotTell(format!("the ledger does not hold the data that {} reads", rules.join(", ")))
            }
        })
    }
}

impl TestResult {
    fn change(&mut self, call: Decided, was: String, would_be: &'static str, why: String) {
        self.changes.push(Change { call, was, would_be, why });
    }

    fn undecided(&self) -> u64 {
        self.cannot_tell.values().sum()
    }

    fn document(&self) -> Value {
        let change = |change: &Change| {
            let Change { call, was, would_be, why } = change;
            json!({
                "row": call.seq,
                "at": call.at,
                "request_id": call.request_id,
                "group": call.group,
                "action": format!("{}.{}", call.provider, call.action),
                "was": was,
                "would_be": would_be,
                "why": why,
            })
        };
        let unknown =
            |((action, why), calls): (&(String, String), &u64)| json!({ "action": action, "calls": calls, "why": why });
        json!({
            "calls": self.calls,
            "asked": self.asked,
            "same": self.same,
            "changes": self.changes.iter().map(change).collect::<Vec<_>>(),
            "cannot_tell": self.cannot_tell.iter().map(unknown).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let head = format!(
            "Calls: {}. Subject to rules: {}. Unchanged: {}. Changed: {}. Cannot tell: {}.",
            self.calls,
            self.asked,
            self.same,
            self.changes.len(),
            self.undecided(),
        );
        let mut parts = vec![head];
        if !self.changes.is_empty() {
            let row = |change: &Change| {
                let Change { call, was, would_be, why } = change;
                let action = format!("{}.{}", call.provider, call.action);
                let request = call.request_id.clone().unwrap_or_default();
                let (at, would_be) = (call.at.to_string(), (*would_be).to_owned());
                vec![at, request, call.group.clone(), action, was.clone(), would_be, why.clone()]
            };
            let rows: Vec<_> = self.changes.iter().map(row).collect();
            parts.push(Output::table(&["TIME", "REQUEST", "GROUP", "ACTION", "BEFORE", "AFTER", "REASON"], &rows));
        }
        if !self.cannot_tell.is_empty() {
            let row = |((action, why), calls): (&(String, String), &u64)| {
                vec![action.clone(), calls.to_string(), why.clone()]
            };
            let rows: Vec<_> = self.cannot_tell.iter().map(row).collect();
            parts.push(format!("Cannot tell:\n{}", Output::table(&["ACTION", "CALLS", "REASON"], &rows)));
        }
        parts.join("\n\n")
    }
}
