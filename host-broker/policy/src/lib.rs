//! The policy decision point: facts of one call in, one decision out.
//!
//! [`decide`] judges [`facts`] without clock, I/O, randomness or SQL. [`profile`] holds the approval modes of groups,
//! [`limits`] the tables of rates, quotas and amounts, [`shared_quotas`] the quotas that all callers share. [`explain`]
//! shows a decision step by step.

pub mod decide;
pub mod explain;
pub mod facts;
pub mod limits;
pub mod profile;
pub mod shared_quotas;
