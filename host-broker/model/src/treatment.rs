//! Treatments of results that look suspicious or hostile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of a result that does not look harmless, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Treatment {
    /// It is handed over as it is.
    Off,
    /// It is handed over between two lines that say that it is data.
    Annotate,
    /// It is kept back until a person releases it.
    Withhold,
}
