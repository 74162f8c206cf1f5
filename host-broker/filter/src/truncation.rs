//! Cuts a value that is too long for a reply, so that it stays JSON of the same type.
//!
//! An array keeps its first items, a string its beginning (and a mark that it was cut), an object all its members as
//! long as their names fit. The remaining bytes go to the small members whole and to the large ones in equal parts.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How many bytes of JSON a value and its parts need.
struct Weight {
    bytes: usize,
    parts: Vec<Self>,
}

/// How many bytes of compact JSON the value needs.
pub(super) fn json_bytes(value: &Value) -> usize {
    weigh(value).bytes
}

/// The value within the limit, and whether it had to be cut.
pub(super) fn cut(value: Value, limit: usize) -> (Value, bool) {
    let weight = weigh(&value);
    if weight.bytes <= limit {
        return (value, false);
    }
    let nothing = match value {
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Value::Object(Map::new()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::String(String::new()),
    };
    (fit(value, &weight, limit).unwrap_or(nothing), true)
}

fn weigh(value: &Value) -> Weight {
    let parts: Vec<Weight> = match value {
        Value::Array(items) => items.iter().map(weigh).collect(),
        Value::Object(entries) => entries.values().map(weigh).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    let inside = parts.iter().map(|part| part.bytes).sum::<usize>() + parts.len().saturating_sub(1);
    let bytes = match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => string_bytes(text),
        Value::Array(_) => "[]".len() + inside,
        Value::Object(entries) => "{}".len() + inside + entries.keys().map(|key| name_bytes(key)).sum::<usize>(),
    };
    Weight { bytes, parts }
}

fn name_bytes(key: &str) -> usize {
    string_bytes(key) + ":".len()
}

fn string_bytes(text: &str) -> usize {
    text.chars().map(char_bytes).sum::<usize>() + "\"\"".len()
}

/// As `serde_json` writes it.
fn char_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{C}' => 2,
        '\0'..='\u{1F}' => 6,
        _ => c.len_utf8(),
    }
}

/// As much of the value as fits; `None` if nothing of it does.
fn fit(value: Value, weight: &Weight, limit: usize) -> Option<Value> {
    if weight.bytes <= limit {
        return Some(value);
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        Value::String(text) => fit_string(&text, limit).map(Value::String),
        Value::Array(items) => fit_array(items, &weight.parts, limit).map(Value::Array),
        Value::Object(entries) => fit_object(entries, &weight.parts, limit).map(Value::Object),
    }
}

fn fit_string(text: &str, limit: usize) -> Option<String> {
    let mark = format!("… <cut, {} bytes in all>", text.len());
    let mut left = limit.checked_sub(mark.len() + "\"\"".len())?;
    let mut kept = String::new();
    for c in text.chars() {
        match left.checked_sub(char_bytes(c)) {
            Some(rest) => left = rest,
            None => break,
        }
        kept.push(c);
    }
    kept.push_str(&mark);
    Some(kept)
}

fn fit_array(items: Vec<Value>, weights: &[Weight], limit: usize) -> Option<Vec<Value>> {
    let mut left = limit.checked_sub("[]".len())?;
    let mut kept = Vec::new();
    for (item, weight) in items.into_iter().zip(weights) {
        if kept.is_empty() {
            // One long item is better cut than lost.
            kept.extend(fit(item, weight, left));
            left = left.saturating_sub(weight.bytes);
            if kept.is_empty() || left == 0 {
                break;
            }
            continue;
        }
        match left.checked_sub(weight.bytes + ",".len()) {
            Some(rest) => left = rest,
            None => break,
        }
        kept.push(item);
    }
    Some(kept)
}

fn fit_object(entries: Map<String, Value>, weights: &[Weight], limit: usize) -> Option<Map<String, Value>> {
    let left = limit.checked_sub("{}".len())?;
    // A comma is counted for the last member too; that is one byte too much, not too little.
    let names: usize = entries.keys().map(|key| name_bytes(key) + ",".len()).sum();
    let shares = match left.checked_sub(names) {
        Some(left) => shares(weights, left),
        None => return Some(first_members(entries, weights, left)),
    };
    let fitted = entries.into_iter().zip(weights).enumerate().filter_map(|(index, ((key, item), weight))| {
        let share = shares.get(&index).copied().unwrap_or(0);
        fit(item, weight, share).map(|item| (key, item))
    });
    Some(fitted.collect())
}

/// Returns the share of each member, by its position: members that need less than an equal share leave the rest to
/// others.
fn shares(weights: &[Weight], left: usize) -> BTreeMap<usize, usize> {
    let mut by_weight: Vec<(usize, usize)> = weights.iter().map(|weight| weight.bytes).enumerate().collect();
    by_weight.sort_by_key(|(_, bytes)| *bytes);
    let (mut left, mut waiting) = (left, by_weight.len());
    by_weight
        .into_iter()
        .map(|(index, bytes)| {
            let share = bytes.min(left.checked_div(waiting).unwrap_or(0));
            left -= share;
            waiting -= 1;
            (index, share)
        })
        .collect()
}

/// Not even the names fit: the members that do, from the first on.
fn first_members(entries: Map<String, Value>, weights: &[Weight], limit: usize) -> Map<String, Value> {
    let mut left = limit;
    let fits = |(key, weight): (&String, &Weight)| {
        let needed = name_bytes(key) + weight.bytes + ",".len();
        left.checked_sub(needed).map(|rest| left = rest).is_some()
    };
    let count = entries.keys().zip(weights).map(fits).take_while(|fits| *fits).count();
    entries.into_iter().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,200}".prop_map(Value::from),
            "[\\x00-\\x7F]{0,200}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 200, 12, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                prop::collection::btree_map("[\\x00-\\x7Fé]{0,20}", inner, 0..12)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn weights_are_exact(value in any_value()) {
            prop_assert_eq!(json_bytes(&value), value.to_string().len());
        }

        #[test]
        fn a_cut_value_is_within_the_limit_and_of_the_same_type(value in any_value(), limit in 32usize..2000) {
            let whole = value.clone();
            let (value, was_cut) = cut(value, limit);
            prop_assert!(value.to_string().len() <= limit);
            prop_assert_eq!(was_cut, value != whole);
            prop_assert_eq!(std::mem::discriminant(&value), std::mem::discriminant(&whole));
        }
    }

    #[test]
    fn arrays_lose_their_last_items() {
        assert_eq!(cut(json!([1, 22, 333, 4444]), 10), (json!([1, 22, 333]), true));
        let (value, _) = cut(json!(["x".repeat(1000), 1]), 100);
        assert!(value[0].as_str().unwrap().ends_with("… <cut, 1000 bytes in all>"), "{value}");
    }

    #[test]
    fn small_members_stay_beside_a_large_one() {
        let (value, _) = cut(json!({"a": "x".repeat(5000), "sha": "abc", "z": {"size": 1}}), 500);
        assert_eq!((&value["sha"], &value["z"]["size"]), (&json!("abc"), &json!(1)));
        assert!(value["a"].as_str().unwrap().starts_with("xxx"));
        assert!(value.to_string().len() > 480, "what is there is used");
    }

    #[test]
    fn an_object_of_too_many_members_keeps_the_first() {
        let many: Map<String, Value> = (0..1000).map(|n| (format!("{n:04}"), json!(n))).collect();
        let (value, _) = cut(Value::Object(many), 100);
        assert_eq!(value["0000"], json!(0));
        assert!(value.to_string().len() <= 100);
    }
}
