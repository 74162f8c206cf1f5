//! The engine, on actions of the mock with schemas of their own.

mod shapes;
mod said;
mod faults;
mod foretold;

use super::*;
use crate::providers::mock;
use crate::providers::registry::{Catalogue, Listed};
use model::Exposure;
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

pub(super) fn catalogue() -> Catalogue {
    scripted(&[("calendar", "mock", SCRIPT), ("remote", "other", SCRIPT), ("idle", "mock", "")])
}

pub(super) fn scripted(providers: &[(&str, &'static str, &str)]) -> Catalogue {
    let folder = tempfile::tempdir().unwrap();
    let mut catalogue = Catalogue::default();
    for (name, kind, script) in providers {
        let provider: Provider = name.parse().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, script).unwrap();
        let operations = mock::operations(&provider, &path).unwrap();
        catalogue.insert(provider, Listed::ready(kind, operations));
    }
    catalogue
}

pub(super) fn groups() -> BTreeSet<Group> {
    ["developer", "main"].map(|group| group.parse().unwrap()).into()
}

pub(super) fn file(text: &str) -> RuleFile {
    RuleFile { path: PathBuf::from("policy/own.cedar"), text: text.to_owned() }
}

pub(super) fn rules(text: &str) -> Rules {
    Rules::parse(&[file(text)], &catalogue(), groups()).unwrap()
}

/// A call of the developer's.
pub(super) struct Said {
    action: &'static str,
    provider: &'static str,
    group: &'static str,
    demanded: Level,
    task: Option<TaskId>,
    session: Exposure,
    now: i64,
}

pub(super) fn calling(action: &'static str, demanded: Level) -> Said {
    let (provider, group) = ("calendar", "developer");
    Said { action, provider, group, demanded, task: None, session: Exposure::NONE, now: SATURDAY_TEN }
}

impl Said {
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
