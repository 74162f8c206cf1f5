//! Flows: what is kept of them, and how they are shown to those who work by them.
//!
//! ```text
//! proposed ──(a person's yes to exactly this)──► approved: the canonical version, of which there is one
//!                                                   └─(a newer one is approved, or somebody ends it)──► deprecated
//! ```
//!
//! Nothing that a flow says is ever run. What becomes of requests about flows is in `directives/flows`.
//!
//! Source: flow-external-agent-gate, "Objects".

pub mod issuers;
pub mod project;
pub mod reads;
pub mod standing;
