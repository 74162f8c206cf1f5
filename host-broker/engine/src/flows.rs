//! Flows: their stored versions, and the projections for those who work by them.
//!
//! ```text
//! proposed ──(a person approves exactly this)──► approved: the canonical version, of which there is one
//!                                                   └─(a newer one is approved, or a caller ends it)──► deprecated
//! ```
//!
//! No text of a flow is ever executed. Requests about flows are in `commands/flows`.
//!
//! Source: flow-external-agent-gate, "Objects".

pub mod issuers;
pub mod project;
pub mod reads;
pub mod standing;
