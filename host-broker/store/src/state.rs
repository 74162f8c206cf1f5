//! The state beside the ledger: everything that may change. It changes in the transaction that writes the row with the
//! reason, and proves nothing by itself.

pub mod accounts;
pub mod approvals;
pub mod chat_lockouts;
pub mod clock;
pub mod conversations;
pub mod counters;
pub mod denials;
pub mod external_grants;
pub mod flows;
pub mod gates;
pub mod grants;
pub mod idempotency;
pub mod intents;
pub mod kill;
pub mod linking;
pub mod notices;
pub mod one_time_values;
pub mod operators;
pub mod plan_steps;
pub mod proposals;
pub mod publications;
pub mod quarantine;
pub mod replies;
pub mod requests;
pub mod restore;
pub mod sessions;
pub mod shared_quotas;
pub mod standing_approvals;
