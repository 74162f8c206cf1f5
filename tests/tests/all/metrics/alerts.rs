//! The alert rules fire when they should, and a real Prometheus evaluates the rules and the dashboard on a real daemon.

use super::operations::{page, promtool, read, served};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use store::ledger::checkpoints::OVERDUE;
use tests::prometheus_server::PrometheusServer;
use tests::scraper::{METRICS, Scraper};
use tests::world::CONFIG;
use tests::{World, skipped, until};

/// The names that this pattern finds.
fn found(pattern: &str, text: &str) -> BTreeSet<String> {
    Regex::new(pattern).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn each_alert_fires_with_its_text_and_is_quiet_before() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/prometheus/alerts.yaml");
    let (cases, alerts) =
        (std::fs::read_to_string(&fixture).unwrap(), found(r"(?m)^ +- alert: (\w+)$", &read("prometheus-rules.yaml")));
    assert_eq!(found(r"(?m)^ +- alertname: (\w+)$", &cases), alerts, "the cases that fire");
    assert_eq!(found(r"(?m)^ +- \{ alertname: (\w+), .* exp_alerts: \[\] \}$", &cases), alerts, "the quiet cases");
    // `status` and `doctor` warn after the same time.
    let limit = found(r"host_broker_checkpoint_lag_seconds > (\d+)", &read("prometheus-rules.yaml"));
    assert_eq!(limit, BTreeSet::from([OVERDUE.as_secs().to_string()]));
    let Some((is_passed, said)) = promtool(&["test", "rules", fixture.to_str().unwrap()], "") else {
        return skipped("promtool is not installed; Debian's package is prometheus");
    };
    assert!(is_passed, "{said}");
}

/// The expressions of the dashboard, with its variables replaced.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let expression = |target: &Value| {
        let text = target["expr"].as_str().unwrap();
        text.replace("$instance", ".*").replace("$__rate_interval", "1m")
    };
    targets.map(expression).collect()
}

#[test]
fn prometheus_evaluates_each_rule_and_finds_values_for_each_panel() {
    let sink = "[[sinks]]\nname = \"one\"\nkind = \"command\"\ncommand = [\"true\"]\n";
    let quota = "[shared_quotas.demo]\nwrite = 9\n";
    let world = World::builder().config(&format!("{CONFIG}{METRICS}{sink}{quota}")).up();
    let scraper = Scraper::of(&world);
    let rules = page("prometheus-rules.yaml");
    let Some(prometheus) = PrometheusServer::start(scraper.visitor().host(), &rules) else { return };
    prometheus.wait_for_target();
    until("all metrics are stored", || served().is_subset(&prometheus.names()).then_some(()));
    let rules = prometheus.rules();
    let alerts = found(r"(?m)^ +- alert: (\w+)$", &read("prometheus-rules.yaml"));
    assert_eq!(
        rules.iter().filter_map(|rule| rule["name"].as_str().map(str::to_owned)).collect::<BTreeSet<_>>(),
        alerts
    );
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        // Whether it fires depends on the disk of this machine.
        prometheus.query(rule["query"].as_str().unwrap());
    }
    let expressions = expressions();
    assert!(expressions.len() > 30, "{expressions:?}");
    for expression in expressions {
        // A rate needs two scrapes.
        until(&expression, || (!prometheus.query(&expression).is_empty()).then_some(()));
    }
}
