//! Answers of Loki.

use crate::entry::{Record, bounded_labels};
use crate::format::{Format, undated};
use crate::position::{Position, StreamKey, check};
use crate::severity::Severity;
use crate::time::{Frame, Order, Zone};
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

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
    values: Vec<Entry>,
}

/// `["1771063200000000000", "the line"]`, with the entry's own labels as a third part, which is not read.
#[derive(Debug)]
struct Entry {
    nanos: i64,
    line: String,
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time and a line")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Entry, A::Error> {
                let nanos: String = parts.next_element()?.ok_or_else(|| A::Error::custom("no time"))?;
                let nanos = nanos.parse().map_err(|_bad| A::Error::custom("no time"))?;
                let line = parts.next_element()?.ok_or_else(|| A::Error::custom("no line"))?;
                while parts.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Entry { nanos, line })
            }
        }
        deserializer.deserialize_seq(Parts)
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: String,
    result: Streams,
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
    /// Reads an answer to `query_range` with at most `limit` entries; `None` if it is none.
    pub(super) fn read(body: &[u8], limit: usize) -> Option<Self> {
        let Answer { data: Data { kind, result } } = serde_json::from_slice(body).ok()?;
        let count: usize = result.0.iter().map(|stream| stream.values.len()).sum();
        (kind == "streams" && count <= limit).then_some(result)
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
            let labels = bounded_labels(labels);
            for Entry { nanos, line } in values {
                batch.oldest = Some(batch.oldest.map_or(nanos, |oldest| oldest.min(nanos)));
                let position = Position {
                    time: nanos.div_euclid(super::NANOS),
                    stream: key,
                    born: 0,
                    place: u64::try_from(nanos).unwrap_or_default(),
                    check: check(line.as_bytes()),
                };
                let frame = Frame { zone: ZONE, latest: position.time, order: Order::default() };
                let mut parsed = undated(format, &line, frame);
                let level = || LEVELS.iter().find_map(|label| Severity::of_word(labels.get(*label)?));
                parsed.level = parsed.level.or_else(level);
                // A line cannot pretend another label than that of its stream.
                let others = labels.iter().filter(|(label, _)| *label != service_label);
                parsed.fields.extend(others.map(|(label, value)| (label.clone(), value.clone())));
                batch.records.push(Record { position, service: service.clone(), parsed, cut: false });
            }
        }
        batch
    }
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
