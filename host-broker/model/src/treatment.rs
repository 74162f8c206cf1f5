//! Treatments of results that look suspicious or hostile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The treatment of a result that does not look harmless, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Treatment {
    /// The result is returned unchanged.
    Off,
    /// The result is returned between delimiters that mark it as data.
    Annotate,
    /// The result is withheld until a person releases it.
    Withhold,
}
