//! JSON lines: one object a line.

use super::{LEVEL_KEYS, MESSAGE_KEYS, TIME_KEYS, time_of_text, time_of_value};
use crate::entry::Parsed;
use crate::severity::Severity;
use crate::time::{Frame, epoch};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The time of a line.
pub(super) fn time(line: &[u8], frame: Frame) -> Option<i64> {
    if line.first() != Some(&b'{') {
        return None;
    }
    match serde_json::from_slice::<TimeOnly>(line) {
        Ok(TimeOnly(value)) => value.and_then(|value| time_of_value(&value, frame)),
        // Longer than the kept part of a line, or not UTF-8.
        Err(_) => TIME_KEYS.iter().find_map(|key| time_near(line, key, frame)),
    }
}

/// Parses a line.
pub(super) fn parse(line: &str) -> Option<Parsed> {
    let mut map: Map<String, Value> = serde_json::from_str(line).ok()?;
    if let Some(key) = TIME_KEYS.iter().find(|key| map.contains_key(**key)) {
        map.remove(*key);
    }
    let level = LEVEL_KEYS.iter().find_map(|key| {
        let level = severity(map.get(*key)?)?;
        map.remove(*key);
        Some(level)
    });
    let message = MESSAGE_KEYS.iter().find_map(|key| {
        let text = map.get(*key)?.as_str()?.trim_end().to_owned();
        map.remove(*key);
        Some(text)
    });
    let fields = map.into_iter().map(|(key, value)| (key, text(value))).collect();
    Some(Parsed { level, program: None, message: message.unwrap_or_default(), fields })
}

fn severity(value: &Value) -> Option<Severity> {
    match value {
        Value::String(word) => Severity::of_word(word).or_else(|| Severity::of_number(word.parse().ok()?)),
        Value::Number(number) => Severity::of_number(number.as_u64()?),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

/// The time behind `"key":` in a line that is no JSON.
fn time_near(line: &[u8], key: &str, frame: Frame) -> Option<i64> {
    let quoted = format!("\"{key}\":");
    let at = line.windows(quoted.len()).position(|window| window == quoted.as_bytes())?;
    let (_, rest) = line.split_at_checked(at + quoted.len())?;
    let token: Vec<u8> = rest.iter().copied().take(64).collect();
    let token = String::from_utf8_lossy(&token);
    let token = token.trim_start();
    if let Some(text) = token.strip_prefix('"') {
        return time_of_text(text, frame);
    }
    let number: String = token.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    epoch(&serde_json::from_str(&number).ok()?)
}

/// The value of an object's most telling time key. Everything else is only skipped over, so that the search for a time
/// in a big file is cheap.
struct TimeOnly(Option<Value>);

impl<'de> Deserialize<'de> for TimeOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = TimeOnly;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TimeOnly, A::Error> {
                let mut best: Option<(usize, Value)> = None;
                while let Some(Rank(rank)) = map.next_key()? {
                    match rank {
                        Some(rank) if best.as_ref().is_none_or(|(known, _)| rank < *known) => {
                            best = Some((rank, map.next_value()?));
                        }
                        Some(_) | None => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(TimeOnly(best.map(|(_, value)| value)))
            }
        }

        deserializer.deserialize_map(Keys)
    }
}

/// Where a key stands among [`TIME_KEYS`].
struct Rank(Option<usize>);

impl<'de> Deserialize<'de> for Rank {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Key;

        impl Visitor<'_> for Key {
            type Value = Rank;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Rank, E> {
                Ok(Rank(TIME_KEYS.iter().position(|known| *known == key)))
            }
        }

        deserializer.deserialize_str(Key)
    }
}
