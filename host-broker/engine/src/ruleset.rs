//! The ruleset: the actions that exist, the policy, and the filters of results. It is one value, so all of it is
//! replaced at once.

use crate::catalogue::Catalogue;
use crate::clean::Filters;
use config::Policy;
use std::sync::Arc;

/// The rules of every call.
#[derive(Clone)]
pub struct Ruleset {
    /// The actions that exist.
    pub catalogue: Arc<Catalogue>,
    /// The policy.
    pub policy: Policy,
    /// The filters of every result.
    pub filters: Arc<Filters>,
    /// The version that rows name.
    pub version: String,
}
