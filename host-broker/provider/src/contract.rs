//! The contract between the broker and a provider, by name. The types are those of the `kernel`, which makes every proof.
//!
//! Source of the contract: `kernel::contract`.

pub use kernel::contract::{
    Failure, Found, Guard, InverseError, Invocation, Lines, LinkedByOperator, NestedRequest, Operation, Probed,
    Progress, Proposed, Running, SealedField, SideOutput, StoreInput, StoreRequest, Success, UsedAccount, not_callable,
    unprepared,
};
pub use kernel::execution::Execution;
pub use kernel::run_handle::{RunHandle, RunProgress};
