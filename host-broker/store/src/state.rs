//! The state beside the evidence: everything that may change. It is changed in the transaction that writes the row which says
//! why, and proves nothing by itself.

pub mod accounts;
pub mod approvals;
pub mod chat_lockouts;
pub mod clock;
pub mod counters;
pub mod denials;
pub mod external_grants;
pub mod flows;
pub mod gates;
pub mod grants;
pub mod kill;
pub mod linking;
pub mod notices;
pub mod operators;
pub mod proposals;
pub mod quarantine;
pub mod requests;
pub mod sessions;
