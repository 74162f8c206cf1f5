//! `policy check`: whether rules can be used, and which actions they do not reach.

use super::{Check, files, groups, parse};
use crate::cli::Context;
use crate::cli::output::{CliError, Output};
use config::{Config, profiles};
use engine::catalogue::Catalogue;
use model::{Declaration, Exposure};
use policy::facts::RulesFact;
use policy::profile::ApprovalMode;
use rules::{Asking, Foretold, Replay, Rule, Rules, Unknown, Vocabulary};
use serde_json::{Value, json};
use shared::{Group, Timestamp};

/// An action that a profile leaves to rules, and none of them permits, with any parameters.
struct Unpermitted {
    group: Group,
    action: String,
    why: String,
}

/// A parameter that rules cannot see.
struct Hidden {
    action: String,
    parameter: String,
    why: &'static str,
}

impl Check {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let config = context.config()?;
        let catalogue = context.catalogue(&config);
        let fault = |error: &dyn std::error::Error| CliError::configuration(error);
        let groups = groups(context, &config)?;
        let vocabulary = Vocabulary::new(&catalogue.named(), groups.clone()).map_err(|error| fault(&error))?;
        if self.schema {
            let schema = vocabulary.text().map_err(|error| fault(&error))?;
            context.output.show(&json!({ "schema": schema }), || schema.clone());
            return Ok(());
        }
        let files = files(context, &config, self.files)?;
        let rules = parse(&files, &groups, &catalogue)?;
        let paths: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
        let hidden = hidden(&vocabulary);
        let unpermitted = unpermitted(context, &config, &catalogue, &rules)?;
        context.output.show(&document(&paths, &rules, &hidden, &unpermitted), || {
            let mut parts = vec![listing(&paths, &rules)];
            if !hidden.is_empty() {
                let row =
                    |hidden: &Hidden| vec![hidden.action.clone(), hidden.parameter.clone(), hidden.why.to_owned()];
                let rows: Vec<_> = hidden.iter().map(row).collect();
                let table = Output::table(&["ACTION", "PARAMETER", "REASON"], &rows);
                parts.push(format!("Parameters that rules cannot read:\n{table}"));
            }
            if !unpermitted.is_empty() {
                let row = |one: &Unpermitted| vec![one.group.to_string(), one.action.clone(), one.why.clone()];
                let rows: Vec<_> = unpermitted.iter().map(row).collect();
                let table = Output::table(&["GROUP", "ACTION", "REASON"], &rows);
                parts.push(format!("Actions that a profile leaves to rules and no rule permits:\n{table}"));
            }
            parts.join("\n\n")
        });
        Ok(())
    }
}

fn hidden(vocabulary: &Vocabulary) -> Vec<Hidden> {
    let of_action = |(provider, action, unseen): (&_, &_, &[rules::Unseen])| {
        let name = format!("{provider}.{action}");
        let hide =
            |unseen: &rules::Unseen| Hidden { action: name.clone(), parameter: unseen.place.clone(), why: unseen.why };
        unseen.iter().map(hide).collect::<Vec<_>>()
    };
    vocabulary.unseen().flat_map(of_action).collect()
}

fn unpermitted(
    context: &Context,
    config: &Config,
    catalogue: &Catalogue,
    rules: &Rules,
) -> Result<Vec<Unpermitted>, CliError> {
    let profiles =
        profiles::load(&context.home, config, &catalogue.named()).map_err(|error| CliError::configuration(&error))?;
    let replay = Replay::new(rules, Unknown::OfActions).map_err(|error| CliError::configuration(&error))?;
    let actions: Vec<&Declaration> = catalogue
        .providers()
        .flat_map(|(_, listed)| listed.operations.values().map(|operation| operation.declaration()))
        .collect();
    let mut found = Vec::new();
    for group in config.groups.keys() {
        let left = |declaration: &&&Declaration| {
            profiles.setting(Some(group), declaration, declaration.level) == ApprovalMode::Rules
        };
        for declaration in actions.iter().filter(left) {
            let asking = Asking {
                group,
                provider: &declaration.provider,
                action: &declaration.action,
                demanded: declaration.level,
                decides: true,
                person: None,
                task: None,
                session: Exposure::NONE,
                now: Timestamp::from_millis(0),
            };
            let Some(why) = refusal(&replay.foretell(&asking)) else { continue };
            let action = format!("{}.{}", declaration.provider, declaration.action);
            found.push(Unpermitted { group: group.clone(), action, why });
        }
    }
    Ok(found)
}

fn refusal(foretold: &Foretold) -> Option<String> {
    match foretold {
        Foretold::CannotTell(_) | Foretold::Certain(RulesFact::Permit { .. } | RulesFact::Unasked) => None,
        Foretold::Certain(RulesFact::NoMatch) => Some("no rule permits it".to_owned()),
        Foretold::Certain(RulesFact::Forbid { rule, .. }) => Some(format!("rule `{rule}` forbids it")),
        Foretold::Certain(RulesFact::Failed { rule }) => Some(format!("rule `{rule}` fails")),
        Foretold::Certain(RulesFact::NotEvaluable { why }) => Some(why.clone()),
    }
}

fn effect(rule: &Rule) -> &'static str {
    if rule.permits { "permit" } else { "forbid" }
}

fn listing(paths: &[String], rules: &Rules) -> String {
    let head = match paths {
        [] => "There is no file of rules.".to_owned(),
        _ => format!("The rules are valid: {} in {}.", rules.list().len(), paths.join(", ")),
    };
    let row = |rule: &Rule| {
        let place = format!("{}:{}", rule.path.display(), rule.line);
        vec![rule.name.clone(), effect(rule).to_owned(), place, rule.idle.unwrap_or_default().to_owned()]
    };
    let rows: Vec<_> = rules.list().iter().map(row).collect();
    let table =
        Output::table_or("There are no rules. Every action that a profile leaves to rules is refused.", &HEAD, &rows);
    format!("{head}\n{table}")
}

const HEAD: [&str; 4] = ["RULE", "EFFECT", "PLACE", "NOTE"];

fn document(paths: &[String], rules: &Rules, hidden: &[Hidden], unpermitted: &[Unpermitted]) -> Value {
    let rule = |rule: &Rule| {
        json!({
            "id": rule.name,
            "effect": effect(rule),
            "file": rule.path.display().to_string(),
            "line": rule.line,
            "reason": rule.reason,
            "idle": rule.idle,
        })
    };
    let unseen = |one: &Hidden| json!({ "action": one.action, "parameter": one.parameter, "why": one.why });
    let left = |one: &Unpermitted| json!({ "group": one.group, "action": one.action, "why": one.why });
    json!({
        "ok": true,
        "files": paths,
        "rules": rules.list().iter().map(rule).collect::<Vec<_>>(),
        "unseen": hidden.iter().map(unseen).collect::<Vec<_>>(),
        "unpermitted": unpermitted.iter().map(left).collect::<Vec<_>>(),
    })
}
