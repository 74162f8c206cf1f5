//! Answers of CloudWatch Logs.

use super::service_of;
use crate::entry::Record;
use crate::format::{Format, undated};
use crate::position::{Position, StreamKey, check};
use crate::time::{Frame, Order, Zone};
use serde::Deserialize;
use std::collections::HashMap;

/// The zone of times in lines; those of events are in UTC.
const ZONE: Zone = Zone::Named(chrono_tz::Tz::UTC);
/// The most characters of the name of a log stream; AWS allows no more.
const STREAM_MAX: usize = 512;

/// An answer to `FilterLogEvents`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Events {
    events: Vec<Event>,
    #[serde(default)]
    next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    log_stream_name: String,
    timestamp: i64,
    message: String,
    #[serde(rename = "eventId")]
    id: String,
}

impl Events {
    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the time of the newest event.
    pub(super) fn last_time(&self) -> Option<i64> {
        self.events.iter().map(|event| event.timestamp).max()
    }

    /// Adds the events of the next answer. Those of another time than was asked for are left out. Returns its token.
    pub(super) fn extend(&mut self, next: Self, (start, end): (i64, i64)) -> Option<String> {
        self.events.extend(next.events.into_iter().filter(|event| (start..end).contains(&event.timestamp)));
        next.next_token
    }

    /// Returns the events of a log group.
    pub(super) fn records(self, region: &str, group: &str, format: Format) -> impl Iterator<Item = Record> {
        let (service, check_of_group) = (service_of(group), group_check(region, group));
        let stream_of = format!("cloudwatch {region} {group}");
        let mut places: HashMap<(StreamKey, i64), u64> = HashMap::new();
        self.events.into_iter().map(move |Event { log_stream_name, timestamp, message, id }| {
            let stream = StreamKey::of(format!("{stream_of} {log_stream_name}").as_bytes());
            // The order among the events of the same instant.
            let count = places.entry((stream, timestamp)).or_default();
            let place = check_of_group << 32 | *count;
            *count += 1;
            let position = Position { time: timestamp, stream, born: 0, place, check: check(id.as_bytes()) };
            let frame = Frame { zone: ZONE, latest: timestamp, order: Order::default() };
            let mut parsed = undated(format, message.trim_end_matches(['\r', '\n']), frame);
            // A line cannot pretend another stream than its own.
            parsed.fields.insert("log_stream".to_owned(), log_stream_name.chars().take(STREAM_MAX).collect());
            Record { position, service: service.clone(), parsed, cut: false }
        })
    }
}

/// Returns the first 32 bits of the digest of a log group, by which an id leads to it.
pub(super) fn group_check(region: &str, group: &str) -> u64 {
    check(format!("cloudwatch {region} {group}").as_bytes()) >> 32
}

/// An answer to `DescribeLogGroups`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Groups {
    log_groups: Vec<Group>,
    #[serde(default)]
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    log_group_name: String,
}

/// Reads the names of log groups, and the token of the next answer; `None` if it is no such answer.
pub(super) fn groups(body: &[u8]) -> Option<(Vec<String>, Option<String>)> {
    let Groups { log_groups, next_token } = serde_json::from_slice(body).ok()?;
    Some((log_groups.into_iter().map(|group| group.log_group_name).collect(), next_token))
}

#[derive(Deserialize)]
struct Fault {
    #[serde(rename = "__type")]
    kind: String,
}

/// Reads the kind of a fault: `AccessDeniedException`, also of `com.amazonaws.logs#AccessDeniedException`.
pub(super) fn fault(body: &[u8]) -> Option<String> {
    let Fault { kind } = serde_json::from_slice(body).ok()?;
    Some(kind.rsplit('#').next().unwrap_or_default().to_owned())
}
