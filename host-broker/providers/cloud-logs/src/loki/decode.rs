//! Answers of Loki.

use crate::entry::Record;
use crate::format::{Format, undated};
use crate::position::{Position, StreamKey, check};
use crate::severity::Severity;
use crate::time::{Frame, Order, Zone};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The longest name of a service.
pub(super) const NAME_MAX: usize = 128;
/// The zone of times in lines; those of entries are in UTC.
const ZONE: Zone = Zone::Named(chrono_tz::Tz::UTC);
/// Labels that say how severe the entries of a stream are.
const LEVELS: [&str; 3] = ["detected_level", "level", "severity"];

/// The streams of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Streams(Vec<Stream>);

/// A stream with some of its entries.
#[derive(Debug, Deserialize)]
struct Stream {
    #[serde(rename = "stream")]
    labels: BTreeMap<String, String>,
    /// `["1771063200000000000", "the line"]`, with the entry's own labels as a third part.
    values: Vec<Vec<Value>>,
}

/// Entries of an answer.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    /// The number of all entries, also of those that cannot be read.
    pub(super) count: usize,
    /// The oldest instant, in nanoseconds since 1970.
    pub(super) oldest: Option<i64>,
}

impl Streams {
    /// Reads an answer to `query_range`; `None` if it is none.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let mut answer: Value = serde_json::from_slice(body).ok()?;
        let is_streams = answer.pointer("/data/resultType").and_then(Value::as_str) == Some("streams");
        let result = answer.pointer_mut("/data/result").filter(|_| is_streams)?.take();
        serde_json::from_value(result).ok()
    }

    /// Returns the entries, in no order.
    pub(super) fn records(self, server: &str, service_label: &str, format: Format) -> Batch {
        let mut batch = Batch::default();
        for Stream { labels, values } in self.0 {
            // The labels have an order, so the text is the same in each answer.
            let key = StreamKey::of(format!("loki {server} {labels:?}").as_bytes());
            let service = labels.get(service_label).map_or("loki", String::as_str);
            let service = crate::public_name(service, NAME_MAX);
            batch.count += values.len();
            for (nanos, line) in values.iter().filter_map(|value| entry(value)) {
                batch.oldest = Some(batch.oldest.map_or(nanos, |oldest| oldest.min(nanos)));
                let position = Position {
                    time: nanos.div_euclid(super::NANOS),
                    stream: key,
                    born: 0,
                    place: u64::try_from(nanos).unwrap_or_default(),
                    check: check(line.as_bytes()),
                };
                let frame = Frame { zone: ZONE, latest: position.time, order: Order::default() };
                let mut parsed = undated(format, line, frame);
                let level = || LEVELS.iter().find_map(|label| Severity::of_word(labels.get(*label)?));
                parsed.level = parsed.level.or_else(level);
                let others = labels.iter().filter(|(label, _)| *label != service_label);
                for (label, value) in others {
                    parsed.fields.entry(label.clone()).or_insert_with(|| value.clone());
                }
                batch.records.push(Record { position, service: service.clone(), parsed, cut: false });
            }
        }
        batch
    }
}

fn entry(value: &[Value]) -> Option<(i64, &str)> {
    let (nanos, line) = (value.first()?.as_str()?, value.get(1)?.as_str()?);
    Some((nanos.parse().ok()?, line))
}

/// Reads an answer to `label values`; `None` if it is none.
pub(super) fn values(body: &[u8]) -> Option<Vec<String>> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    // Without values there is no list.
    let Some(values) = answer.get("data") else {
        return (answer.get("status").and_then(Value::as_str) == Some("success")).then(Vec::new);
    };
    values.as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
}
