//! The engine, on actions of the mock with schemas of their own.

mod by_name;
mod shapes;
mod decisions;
mod faults;
mod foretold;

use super::*;
use model::{Declaration, Exposure};
use serde_json::json;
use shared::{Group, Level, Provider, TaskId, Timestamp};
use std::collections::BTreeSet;

const SCRIPT: &str = r#"
[actions.create_event]
level = 2
input_schema = { type = "object", additionalProperties = false, required = ["calendar", "title"], properties = { calendar = { type = "string" }, title = { type = "string" }, guests = { type = "array", items = { type = "string" } }, minutes = { type = "integer" } } }

[actions.list_events]
level = 1

[actions.pay]
level = 3
input_schema = { type = "object", additionalProperties = false, required = ["cents"], properties = { cents = { type = "integer" } } }
"#;

/// 2026-02-14T10:00:00Z, a Saturday.
const SATURDAY_TEN: i64 = 1_771_063_200_000;

/// The providers of a test, with their declarations.
#[derive(Default)]
pub(super) struct Providers(Vec<(Provider, &'static str, Vec<Declaration>)>);

impl Providers {
    pub(super) fn named(&self) -> Vec<NamedProvider<'_>> {
        let named = self.0.iter().map(|(name, kind, declarations)| NamedProvider {
            name,
            kind,
            is_ready: true,
            actions: declarations
                .iter()
                .map(|declaration| NamedAction { declaration, fills_defaults: false })
                .collect(),
        });
        named.collect()
    }
}

pub(super) fn providers() -> Providers {
    scripted(&[("calendar", "mock", SCRIPT), ("remote", "other", SCRIPT), ("idle", "mock", "")])
}

pub(super) fn scripted(providers: &[(&str, &'static str, &str)]) -> Providers {
    let declared = |provider: &Provider, script: &str| {
        let script: toml::Table = toml::from_str(script).unwrap();
        let actions = script.get("actions").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let declarations = actions.into_iter().map(|(action, described)| {
            let schema = described.get("input_schema").cloned().unwrap_or(toml::Value::Table(toml::Table::new()));
            let level: Level = described["level"].clone().try_into().unwrap();
            Declaration {
                input_schema: serde_json::to_value(schema).unwrap(),
                ..Declaration::new(provider.clone(), action.parse().unwrap(), level)
            }
        });
        declarations.collect()
    };
    let providers = providers.iter().map(|(name, kind, script)| {
        let provider: Provider = name.parse().unwrap();
        let declarations = declared(&provider, script);
        (provider, *kind, declarations)
    });
    Providers(providers.collect())
}

pub(super) fn groups() -> BTreeSet<Group> {
    ["developer", "main"].map(|group| group.parse().unwrap()).into()
}

pub(super) fn file(text: &str) -> RuleFile {
    RuleFile { path: PathBuf::from("policy/own.cedar"), text: text.to_owned() }
}

pub(super) fn rules(text: &str) -> Rules {
    Rules::parse(&[file(text)], &providers().named(), groups()).unwrap()
}

/// A call of the developer's.
#[derive(Debug)]
pub(super) struct TestCall {
    action: &'static str,
    provider: &'static str,
    group: &'static str,
    demanded: Level,
    task: Option<TaskId>,
    session: Exposure,
    now: i64,
}

pub(super) fn calling(action: &'static str, demanded: Level) -> TestCall {
    let (provider, group) = ("calendar", "developer");
    TestCall { action, provider, group, demanded, task: None, session: Exposure::NONE, now: SATURDAY_TEN }
}

impl TestCall {
    pub(super) fn asking<T>(&self, ask: impl FnOnce(&Asking<'_>) -> T) -> T {
        let (group, provider) = (self.group.parse().unwrap(), self.provider.parse().unwrap());
        let action = self.action.parse().unwrap();
        ask(&Asking {
            group: &group,
            provider: &provider,
            action: &action,
            demanded: self.demanded,
            decides: true,
            person: None,
            task: self.task.as_ref(),
            session: self.session,
            now: Timestamp::from_millis(self.now),
        })
    }

    pub(super) fn by(&self, rules: &Rules, params: &Value) -> RulesFact {
        self.asking(|asking| rules.decide(asking, params.as_object().unwrap()))
    }
}

pub(super) fn permit(rule: &str) -> RulesFact {
    RulesFact::Permit { rule: rule.to_owned() }
}

pub(super) fn forbid(rule: &str, reason: Option<&str>) -> RulesFact {
    RulesFact::Forbid { rule: rule.to_owned(), reason: reason.map(str::to_owned) }
}
