//! `auth_unlink`.

use super::LinkContext;
use crate::native::NativeAction;
use kernel::contract::{Failure, Guard, StoreInput, StoreRequest};
use kernel::execution::Execution;
use model::{Declaration, Exposure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{AccountRef, Level, Timestamp};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthUnlink {
    /// The account.
    account: AccountRef,
}

/// The result of the command.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the members' names are the protocol's")]
pub(super) struct Unlinked {
    /// Always.
    ok: bool,
    /// The account.
    account_ref: String,
    /// Whether it was linked.
    unlinked: bool,
}

impl NativeAction for AuthUnlink {
    type Shared = LinkContext;
    type Facts = bool;
    type Output = Unlinked;

    const NAME: &'static str = shared::auth::UNLINK;
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str =
        "Unlinks an account of the person: no call can use it any more, and its credential is deleted.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = Exposure::NONE;

    fn declared(context: &LinkContext, declaration: &mut Declaration) {
        context.declare(declaration);
    }

    fn summary(&self) -> String {
        format!("unlink the account {}", self.account)
    }

    fn guard(&self, _context: &LinkContext, _facts: Option<&bool>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::ToUnlink(&self.account)
    }

    fn supplied(supplied: StoreInput) -> Option<bool> {
        if let StoreInput::Unlinked(unlinked) = supplied { Some(unlinked) } else { None }
    }

    async fn run(
        self,
        _context: &LinkContext,
        unlinked: Option<bool>,
        _execution: &Execution,
    ) -> Result<(Unlinked, String), Failure> {
        let unlinked = unlinked == Some(true);
        let account_ref = self.account.to_string();
        let summary =
            if unlinked { format!("{account_ref} is unlinked") } else { format!("{account_ref} was not linked") };
        Ok((Unlinked { ok: true, account_ref, unlinked }, summary))
    }
}
