//! The access that a person gives with the answer to a request for access.

use serde::{Deserialize, Serialize};
use shared::{Action, Gate, Level};
use std::collections::BTreeSet;

/// The access that a person gives. An absent member is as requested.
///
/// ```
/// use model::access::AccessScope;
/// let scope: AccessScope = serde_json::from_str(r#"{"access_level": 1, "duration_s": 3600}"#).unwrap();
/// assert_eq!(scope.actions, None);
/// assert!(!scope.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessScope {
    /// The level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_level: Option<Level>,
    /// The only actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<BTreeSet<Action>>,
    /// The time from the answer to the expiry, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<u64>,
    /// The gate of production actions; absent means the gate of the group's own grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

impl AccessScope {
    /// Returns whether the access is exactly the requested one.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns a time in words: `90m`, `8h`, `7d`.
///
/// ```
/// assert_eq!(["45s", "90m", "2h", "7d"], [45, 5_400, 7_200, 604_800].map(model::access::duration));
/// ```
pub fn duration(seconds: u64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let unit = units.into_iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, 's'));
    format!("{}{name}", seconds / unit)
}
