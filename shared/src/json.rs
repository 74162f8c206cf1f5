//! Strict JSON: the JSON that either side accepts from the other.
//!
//! RFC 8259, and beyond it: UTF-8, no byte order mark, no duplicate keys, a depth limit. Numbers are kept as they are;
//! [`inexact_numbers`] finds those that canonical JSON (RFC 8785) would change.

use crate::limits::JSON_DEPTH_MAX;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;

/// Why a text is not acceptable JSON. The message quotes nothing of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// The offset of the first bad byte.
        at: usize,
    },
    /// Nested too deep.
    #[error("nested deeper than {JSON_DEPTH_MAX}")]
    TooDeep,
    /// More values and keys than the reader accepts. Each costs memory and time, however short its text is.
    #[error("more than {max} values and keys")]
    TooManyNodes {
        /// The bound.
        max: usize,
    },
    /// Not JSON, or an object with a key twice.
    #[error("not valid JSON at line {line} column {column}: {what}")]
    Syntax {
        /// One-based.
        line: usize,
        /// One-based.
        column: usize,
        /// The fault.
        what: &'static str,
    },
    /// JSON, but not an object.
    #[error("not a JSON object")]
    NotAnObject,
}

/// Parses a document that must be one object.
///
/// # Errors
/// [`JsonError`], naming the first fault.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, JsonError> {
    object(parse(bytes)?)
}

/// Parses a document that must be one object of at most `max` values and keys. Also returns their number: the cost of
/// the document, together with its bytes.
///
/// ```
/// let (object, nodes) = shared::json::parse_object_within(br#"{"a":[1,2]}"#, 5).unwrap();
/// assert_eq!((object.len(), nodes), (1, 5)); // the object, the key, the list, and two numbers
/// assert!(shared::json::parse_object_within(br#"{"a":[1,2]}"#, 4).is_err());
/// ```
///
/// # Errors
/// [`JsonError`], naming the first fault. Parsing stops at the bound.
pub fn parse_object_within(bytes: &[u8], max: usize) -> Result<(Map<String, Value>, usize), JsonError> {
    let nodes = Nodes { max, seen: Cell::new(0) };
    let map = object(parse_counted(bytes, &nodes)?)?;
    Ok((map, nodes.seen.get()))
}

fn object(value: Value) -> Result<Map<String, Value>, JsonError> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(JsonError::NotAnObject)
        }
    }
}

/// Parses a document that may be any JSON value.
///
/// # Errors
/// [`JsonError`], naming the first fault.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_counted(bytes, &Nodes { max: usize::MAX, seen: Cell::new(0) })
}

fn parse_counted(bytes: &[u8], nodes: &Nodes) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|e| JsonError::NotUtf8 { at: e.valid_up_to() })?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // The depth is counted by `Strict`, which refuses before the parser's own limit of 128 is met.
    let value = Strict { depth: 0, nodes }.deserialize(&mut deserializer).map_err(|e| fault(&e, nodes.max))?;
    deserializer.end().map_err(|e| fault(&e, nodes.max))?;
    Ok(value)
}

/// How many values and keys were read, and how many may be.
struct Nodes {
    max: usize,
    seen: Cell<usize>,
}

impl Nodes {
    fn count<E: serde::de::Error>(&self) -> Result<(), E> {
        let seen = self.seen.get() + 1;
        if seen > self.max {
            return Err(E::custom(TOO_MANY));
        }
        self.seen.set(seen);
        Ok(())
    }
}

const TOO_DEEP: &str = "nested too deep";
const TOO_MANY: &str = "too many values";
const DUPLICATE: &str = "duplicate key";

fn fault(error: &serde_json::Error, max: usize) -> JsonError {
    let text = error.to_string();
    if text.starts_with(TOO_MANY) {
        return JsonError::TooManyNodes { max };
    }
    if text.starts_with(TOO_DEEP) || text.starts_with("recursion limit") {
        return JsonError::TooDeep;
    }
    let what = if text.starts_with(DUPLICATE) {
        DUPLICATE
    } else if error.is_eof() {
        "the text ends too early"
    } else if text.starts_with("number out of range") {
        "a number is out of range"
    } else {
        "unexpected text"
    };
    JsonError::Syntax { line: error.line(), column: error.column(), what }
}

#[derive(Clone, Copy)]
struct Strict<'n> {
    depth: usize,
    nodes: &'n Nodes,
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= JSON_DEPTH_MAX { Err(E::custom(TOO_DEEP)) } else { Ok(Self { depth: self.depth + 1, ..self }) }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.nodes.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.nodes.count()?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(DUPLICATE));
            }
            let value = entries.next_value_seed(inner)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Returns the canonical JSON (RFC 8785), the input of digests.
///
/// ```
/// assert_eq!(shared::json::canonical(&serde_json::json!({"b": 1.0, "a": []})), br#"{"a":[],"b":1}"#);
/// ```
pub fn canonical<T: serde::Serialize>(value: &T) -> Vec<u8> {
    // A value that cannot be canonicalized (a map with keys that are no strings) cannot have come from a document.
    serde_json_canonicalizer::to_vec(value).unwrap_or_default()
}

/// The number tokens of a JSON text whose decimal value canonical JSON would change.
///
/// Canonical JSON holds numbers as IEEE 754 doubles, so `12345678901234567890` would silently become another
/// number between the check and the effect. The text must be valid JSON.
///
/// ```
/// assert!(shared::json::inexact_numbers(r#"{"a":[1.5,-0,1e+21,9007199254740992]}"#).is_empty());
/// assert_eq!(shared::json::inexact_numbers("[9007199254740993]"), ["9007199254740993"]);
/// ```
pub fn inexact_numbers(text: &str) -> Vec<&str> {
    number_tokens(text).filter(|token| !is_exact(token)).collect()
}

/// Checks whether a text loses digits when its numbers are read as values.
///
/// A later reader of the values could not see the loss. Integers of 64 bits are kept, exact or not. The text must be
/// valid JSON.
///
/// ```
/// assert!(!shared::json::loses_digits("[9007199254740993]"));
/// assert!(shared::json::loses_digits("[123456789012345678901]"));
/// ```
pub fn loses_digits(text: &str) -> bool {
    let kept = |token: &&str| token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok();
    !inexact_numbers(text).iter().all(kept)
}

fn number_tokens(text: &str) -> impl Iterator<Item = &str> {
    let starts = |c: char| c == '-' || c.is_ascii_digit();
    let continues = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(|c: char| c == '"' || starts(c))?;
            let (_, tail) = rest.split_at(at);
            if let Some(inside) = tail.strip_prefix('"') {
                rest = after_string(inside);
                continue;
            }
            let end = tail.find(|c: char| !continues(c)).unwrap_or(tail.len());
            let (token, after) = tail.split_at(end);
            rest = after;
            return Some(token);
        }
    })
}

fn after_string(mut inside: &str) -> &str {
    while let Some(at) = inside.find(['"', '\\']) {
        let (_, tail) = inside.split_at(at);
        let mut chars = tail.chars();
        if chars.next() == Some('"') {
            return chars.as_str();
        }
        chars.next();
        inside = chars.as_str();
    }
    ""
}

/// Checks whether a number is exact.
///
/// Short integers are always exact. The function compares others digit by digit with the printed form of the double.
fn is_exact(token: &str) -> bool {
    if token.len() <= 15 && token.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        return true;
    }
    match token.parse::<f64>() {
        Ok(double) => decimal(token) == decimal(&format!("{double:e}")),
        Err(_) => false,
    }
}

/// A number as (negative, significant digits, exponent of the first digit); all zeros are equal.
fn decimal(token: &str) -> (bool, String, i64) {
    let (negative, magnitude) = match token.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, token),
    };
    let (mantissa, exponent) = magnitude.split_once(['e', 'E']).unwrap_or((magnitude, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = whole.chars().chain(fraction.chars()).collect();
    let leading_zeros = digits.bytes().take_while(|b| *b == b'0').count();
    let significant = digits.trim_matches('0').to_owned();
    if significant.is_empty() {
        return (false, significant, 0);
    }
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 2);
    let shift = i64::try_from(whole.len()).unwrap_or(0) - i64::try_from(leading_zeros).unwrap_or(0);
    (negative, significant, exponent.saturating_add(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_key_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"x":[{"a":1,"\u0061":2}]}"#] {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax { what: DUPLICATE, .. })), "{text}");
        }
    }

    #[test]
    fn depth_is_limited() {
        let nest = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(nest(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(parse(nest(JSON_DEPTH_MAX + 1).as_bytes()), Err(JsonError::TooDeep));
        assert_eq!(parse("[".repeat(1_000_000).as_bytes()), Err(JsonError::TooDeep));
    }

    #[test]
    fn values_and_keys_are_counted_and_bounded() {
        let text = br#"{"a":[1,{"b":null}],"c":"x"}"#;
        let (map, nodes) = parse_object_within(text, 9).unwrap();
        assert_eq!((map.len(), nodes), (2, 9));
        assert_eq!(parse_object_within(text, 8), Err(JsonError::TooManyNodes { max: 8 }));
        // The parser stops at the bound, before it reads the rest.
        let flood = format!("{{\"a\":[{}", "1,".repeat(1_000));
        assert_eq!(parse_object_within(flood.as_bytes(), 50), Err(JsonError::TooManyNodes { max: 50 }));
        assert_eq!(parse_object_within(b"[]", 5), Err(JsonError::NotAnObject));
    }

    #[test]
    fn faults_quote_nothing() {
        for text in ["{\"hunter2\":", "hunter2", "\"hunter2", "{\"a\":hunter2}", "[1] hunter2"] {
            let message = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn a_number_is_read_as_the_double_that_it_writes() {
        let mut bits = 1_u64;
        for _ in 0..10_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = f64::from_bits(bits ^ (bits >> 29));
            if number.is_finite() {
                let text = format!("{number:e}");
                assert_eq!(parse(text.as_bytes()).unwrap().as_f64(), Some(number), "{text}");
                assert!(!loses_digits(&text), "{text}");
            }
        }
        assert_eq!(parse(b"-1.6797147598904503").unwrap().to_string(), "-1.6797147598904503");
    }

    #[test]
    fn numbers_that_canonical_json_would_change_are_found() {
        let exact = ["0", "-0", "1.0", "1e3", "123456789012345680000", "5e-324", "1.7976931348623157e308", "0.1"];
        for token in exact {
            assert!(inexact_numbers(token).is_empty(), "{token}");
        }
        let inexact =
            ["9007199254740993", "12345678901234567890", "0.1000000000000000055", "1e-400", "18446744073709551615"];
        for token in inexact {
            assert_eq!(inexact_numbers(token), [token]);
        }
        assert!(inexact_numbers(r#"{"9007199254740993":"9007199254740993 \" 9007199254740993"}"#).is_empty());
    }
}
