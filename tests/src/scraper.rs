//! A scraper of the metrics of a running daemon.

use crate::World;
use crate::visitor::{Page, Visitor};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The table that serves metrics on any port.
pub const METRICS: &str = "\n[metrics]\nlisten = \"127.0.0.1:0\"\n";

/// The samples of one scrape: the name with its labels, and the value.
pub type Samples = BTreeMap<String, f64>;

/// A client of the metrics.
#[derive(Debug, Clone)]
pub struct Scraper(Visitor);

impl Scraper {
    /// The client of the daemon of this world.
    pub fn of(world: &World) -> Self {
        let hello = world.command(json!({ "type": "hello" }));
        Self::at(hello.pointer("/data/metrics").and_then(Value::as_str).expect("metrics"))
    }

    /// The client of this address, as the daemon prints it.
    pub fn at(url: &str) -> Self {
        let origin = url.strip_suffix("/metrics").expect("the path");
        let port = origin.rsplit(':').next().unwrap().parse().unwrap();
        Self(Visitor::at(origin, port))
    }

    /// Says requests that differ from the usual one.
    pub fn visitor(&self) -> &Visitor {
        &self.0
    }

    /// The answer of `/metrics`.
    pub fn page(&self) -> Page {
        self.0.get("/metrics")
    }

    /// The text of one scrape.
    pub fn text(&self) -> String {
        let page = self.page();
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
        page.text
    }

    /// One scrape.
    pub fn samples(&self) -> Samples {
        samples(&self.text())
    }

    /// The status and the document of `/healthz`. The status is 0 if there was no reply.
    pub fn health(&self) -> (u16, Value) {
        let page = self.0.get("/healthz");
        (page.status, serde_json::from_str(&page.text).unwrap_or_default())
    }
}

/// Reads the text format.
pub fn samples(text: &str) -> Samples {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
    };
    let count = lines.clone().count();
    let samples: Samples = lines.map(sample).collect();
    assert_eq!(samples.len(), count, "a series is written twice");
    samples
}

/// The families of a text, with their types.
pub fn families(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split_once(' ')).map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// The increases of these families since then.
pub fn increases(before: &Samples, after: &Samples, families: &[&str]) -> Samples {
    let is_of = |name: &str| families.contains(&name.split('{').next().unwrap_or_default());
    let changed = after.iter().filter(|(name, _)| is_of(name)).filter_map(|(name, value)| {
        let by = value - before.get(name).copied().unwrap_or_default();
        (by.abs() > f64::EPSILON).then(|| (name.clone(), by))
    });
    changed.collect()
}

/// The names of all series.
pub fn series(samples: &Samples) -> BTreeSet<&str> {
    samples.keys().map(String::as_str).collect()
}
