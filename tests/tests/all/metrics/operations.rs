//! The example dashboard and the alert rules name metrics that are served, and Prometheus' own tool accepts all of it.

#![expect(clippy::disallowed_methods, reason = "promtool is a process")]

use super::builder;
use host_broker::metrics::described::{self, Kind};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::scraper::Scraper;
use tests::skipped;

pub(super) fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/operations").join(name)
}

pub(super) fn read(name: &str) -> String {
    std::fs::read_to_string(page(name)).unwrap()
}

/// The names of the series that are served.
pub(super) fn served() -> BTreeSet<String> {
    let names = |one: &described::Described| match one.kind {
        Kind::Counter | Kind::Gauge => vec![one.name.to_owned()],
        Kind::Histogram => ["bucket", "sum", "count"].map(|part| format!("{}_{part}", one.name)).to_vec(),
    };
    described::ALL.iter().flat_map(names).collect()
}

fn named(text: &str) -> BTreeSet<String> {
    let name = Regex::new(r"\bhost_broker_[a-z_]+").unwrap();
    name.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

#[test]
fn the_dashboard_and_the_rules_name_metrics_that_are_served_with_labels_that_they_have() {
    let selected = Regex::new(r"(host_broker_[a-z_]+)\{([^}]*)\}").unwrap();
    for file in ["prometheus-rules.yaml", "grafana-dashboard.json"] {
        let text = read(file);
        let (names, served) = (named(&text), served());
        let unknown: Vec<_> = names.difference(&served).collect();
        assert!(unknown.is_empty() && names.len() > 10, "{file}: {unknown:?} of {names:?}");
        for found in selected.captures_iter(&text.replace("\\\"", "\"")) {
            let metric =
                described::ALL.iter().filter(|one| found[1].starts_with(one.name)).max_by_key(|one| one.name.len());
            for label in found[2].split(',').filter_map(|pair| pair.split('=').next()) {
                let is_known = metric.unwrap().labels.contains(&label) || label == "instance";
                assert!(is_known, "{file}: {} has no label {label}", &found[1]);
            }
        }
    }
    // Nobody watches a metric that no page shows.
    let shown: BTreeSet<_> =
        ["prometheus-rules.yaml", "grafana-dashboard.json"].into_iter().flat_map(|file| named(&read(file))).collect();
    let unseen: Vec<_> = described::ALL
        .iter()
        .map(|one| one.name)
        .filter(|name| !shown.iter().any(|shown| shown.starts_with(name)))
        .collect();
    assert_eq!(unseen, ["host_broker_start_time_seconds"]);
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    assert_eq!(dashboard["title"], "host-broker");
}

/// Runs Prometheus' tool. Returns `None` if it is not installed.
pub(super) fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn the_tool_of_prometheus_accepts_the_metrics_and_the_rules() {
    let world = builder().up();
    let Some(metrics) = promtool(&["check", "metrics"], &Scraper::of(&world).text()) else {
        return skipped("promtool is not installed; Debian's package is prometheus");
    };
    assert_eq!(metrics, (true, String::new()));
    let rules = page("prometheus-rules.yaml");
    let (is_accepted, said) = promtool(&["check", "rules", rules.to_str().unwrap()], "").unwrap();
    assert!(is_accepted && said.contains("SUCCESS"), "{said}");
}
