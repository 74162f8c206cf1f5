//! A real Prometheus, which scrapes one daemon every second, for one test.

use crate::visitor::{Page, Visitor, form};
use crate::{skipped, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Where Debian's package has it.
const PROGRAM: &str = "/usr/bin/prometheus";

/// The server, on a port of this machine.
#[derive(Debug)]
pub struct PrometheusServer {
    _directory: TempDir,
    server: Child,
    port: u16,
}

impl PrometheusServer {
    /// Starts it with these rules; `None`, with the reason printed, where it is not installed. `target` is the host and
    /// the port of the daemon's metrics.
    pub fn start(target: &str, rules: &Path) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skipped("there is no Prometheus; apt-get install prometheus");
            return None;
        }
        // Somebody else can take a port between the choice and the start.
        let started = (0..5).find_map(|_| Self::try_start(target, rules));
        Some(started.expect("Prometheus does not start"))
    }

    fn try_start(target: &str, rules: &Path) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("prometheus-").tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules],
            "scrape_configs": [{ "job_name": "host-broker", "static_configs": [{ "targets": [target] }] }],
        });
        // JSON is YAML.
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}")).current_dir(directory.path());
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { _directory: directory, server, port };
        until("Prometheus", || {
            if server.server.try_wait().unwrap().is_some() {
                return Some(None);
            }
            TcpStream::connect(("127.0.0.1", port)).ok()?;
            let page = server.get("/-/ready", &[]);
            (page.status == 200 && page.text.contains("Prometheus")).then_some(Some(()))
        })?;
        Some(server)
    }

    fn get(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let host = format!("127.0.0.1:{}", self.port);
        // A reply to HTTP/1.0 is not chunked.
        let request = format!("GET {path}?{} HTTP/1.0\r\nHost: {host}\r\n\r\n", form(fields));
        Visitor::at(&format!("http://{host}"), self.port).say(request.as_bytes())
    }

    /// The data of a reply of the HTTP API.
    fn data(&self, path: &str, fields: &[(&str, &str)]) -> Value {
        let page = self.get(&format!("/api/v1/{path}"), fields);
        let mut reply: Value = serde_json::from_str(&page.text).unwrap_or_default();
        let status = reply.get("status").and_then(Value::as_str);
        assert_eq!((page.status, status), (200, Some("success")), "{path} {fields:?}: {}", page.text);
        reply.get_mut("data").map(Value::take).unwrap_or_default()
    }

    /// Waits until it has scraped its one target.
    pub fn wait_for_target(&self) {
        until("the target is up", || {
            let data = self.data("targets", &[("state", "active")]);
            (data.pointer("/activeTargets/0/health")? == "up").then_some(())
        });
    }

    /// The names of all stored series.
    pub fn names(&self) -> BTreeSet<String> {
        serde_json::from_value(self.data("label/__name__/values", &[])).unwrap()
    }

    /// The result of an expression now: a list of series.
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let data = self.data("query", &[("query", expression)]);
        data.get("result").and_then(Value::as_array).expect("a list of series").clone()
    }

    /// The rules, after each has been evaluated.
    pub fn rules(&self) -> Vec<Value> {
        until("the rules are evaluated", || {
            let data = self.data("rules", &[]);
            let groups = data.get("groups")?.as_array()?;
            let rules = groups.iter().filter_map(|group| group.get("rules")?.as_array()).flatten();
            let rules: Vec<Value> = rules.cloned().collect();
            let is_evaluated = |rule: &Value| rule.get("health").is_some_and(|health| health != "unknown");
            (!rules.is_empty() && rules.iter().all(is_evaluated)).then_some(rules)
        })
    }
}

impl Drop for PrometheusServer {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}
