//! Levels of authority.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::borrow::Cow;
use std::fmt;

/// How much a group may do at a provider, and how much an action demands.
///
/// On the wire and in tables a level is the integer 0, 1, 2 or 3 and nothing else: not `"1"`, not `1.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing. Every group starts here.
    None,
    /// Reads.
    Read,
    /// Writes, within guardrails.
    Write,
    /// Production, or money.
    Production,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Self; 4] = [Self::None, Self::Read, Self::Write, Self::Production];

    /// The level of this number, if there is one.
    pub fn from_number(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::Read),
            2 => Some(Self::Write),
            3 => Some(Self::Production),
            _ => None,
        }
    }

    /// 0, 1, 2 or 3.
    pub fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Read => 1,
            Self::Write => 2,
            Self::Production => 3,
        }
    }

    /// The word beside the number: `none`, `read`, `write`, `production`.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Production => "production",
        }
    }
}

impl fmt::Display for Level {
    /// `L1 (read)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{} ({})", self.number(), self.word())
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.number())
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        Self::from_number(number)
            .ok_or_else(|| D::Error::custom(format!("`{number}` is no level; levels are 0, 1, 2 and 3")))
    }
}

impl JsonSchema for Level {
    fn schema_name() -> Cow<'static, str> {
        "Level".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer", "minimum": 0, "maximum": 3,
            "description": "0 = none, 1 = read, 2 = write with guardrails, 3 = production or money",
        })
    }
}
