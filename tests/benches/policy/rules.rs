//! The cost of rules: to read and validate them at start, and to ask them about a call.

use crate::{ms, share, us};
use engine::catalogue::{Catalogue, Listed};
use model::Exposure;
use policy::facts::RulesFact;
use rules::{Asking, RuleFile, Rules};
use serde_json::{Map, Value, json};
use shared::{Action, Group, Level, Provider, Timestamp};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const ACTIONS: usize = 40;
const ROUNDS: u32 = 200;

/// Sets of growing size, and what asking them is beside a whole call.
pub(crate) fn all(call: Duration) {
    let catalogue = catalogue();
    println!("\n{:<44} {:>12} {:>12} {:>12}", "rules, 40 actions", "parsed, ms", "asked, µs", "% of a call");
    for rules in [1, 10, 100, 1_000] {
        let file = RuleFile { path: "own.cedar".into(), text: text(rules) };
        let begun = Instant::now();
        let parsed = Rules::parse(&[file], &catalogue.named(), ["developer".parse().unwrap()].into()).unwrap();
        let parsing = begun.elapsed();
        let asked = deciding(&parsed);
        println!("{rules:<44} {:>12.1} {:>12.1} {:>12.1}", ms(parsing), us(asked), share(asked, call));
    }
}

fn deciding(rules: &Rules) -> Duration {
    let group: Group = "developer".parse().unwrap();
    let (provider, action): (Provider, Action) = ("mock".parse().unwrap(), "a0".parse().unwrap());
    let params: Map<String, Value> =
        json!({ "owner": "acme", "repo": "app", "labels": ["bug", "ui"], "number": 7 }).as_object().unwrap().clone();
    let asking = Asking {
        group: &group,
        provider: &provider,
        action: &action,
        demanded: Level::Write,
        decides: true,
        person: None,
        task: None,
        session: Exposure::NONE,
        now: Timestamp::from_millis(1_771_063_200_000),
    };
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let one = Instant::now();
        let said = rules.decide(&asking, &params);
        best = best.min(one.elapsed());
        assert_eq!(said, RulesFact::Permit { rule: "r0".to_owned() });
    }
    best
}

/// Rules about each action in turn; the first permits what is asked.
fn text(rules: usize) -> String {
    let mut text = String::new();
    for rule in 0..rules {
        let (action, effect) = (rule % ACTIONS, if rule % 2 == 0 { "permit" } else { "forbid" });
        writeln!(
            text,
            "@id(\"r{rule}\") {effect} (principal == Group::\"developer\", action == Action::\"mock.a{action}\", resource)
             when {{ context.params.owner == \"acme\" && context.params.repo like \"app*\" && !context.session.egress }}
             unless {{ context.params has labels && context.params.labels.contains(\"secret-{rule}\") }};"
        )
        .unwrap();
    }
    text
}

fn catalogue() -> Catalogue {
    let mut script = String::new();
    for action in 0..ACTIONS {
        writeln!(
            script,
            "[actions.a{action}]\nlevel = 2\ninput_schema = {{ type = \"object\", required = [\"owner\", \"repo\"], \
             properties = {{ owner = {{ type = \"string\" }}, repo = {{ type = \"string\" }}, number = {{ type = \
             \"integer\" }}, labels = {{ type = \"array\", items = {{ type = \"string\" }} }} }} }}"
        )
        .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mock.toml");
    std::fs::write(&path, script).unwrap();
    let operations = provider_mock::operations(&"mock".parse().unwrap(), &path).unwrap();
    let listed = Listed::ready("mock", operations);
    let mut catalogue = Catalogue::default();
    catalogue.insert("mock".parse().unwrap(), listed);
    catalogue
}
