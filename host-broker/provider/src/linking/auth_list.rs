//! `auth_list`.

use super::LinkContext;
use crate::native::NativeAction;
use kernel::contract::{Failure, Guard, StoreInput, StoreRequest};
use kernel::execution::Execution;
use model::{Declaration, Exposure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::numbers::counted;
use shared::{Level, Timestamp};

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthList {}

/// The person's accounts.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Accounts {
    /// Each of them.
    accounts: Vec<Account>,
}

/// An account.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Account {
    /// The provider's name of it.
    account_ref: String,
    /// The name that people use.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

impl NativeAction for AuthList {
    type Shared = LinkContext;
    type Facts = Vec<(String, Option<String>)>;
    type Output = Accounts;

    const NAME: &'static str = shared::auth::LIST;
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Lists the accounts that the person has linked here.";
    const IDEMPOTENT: bool = true;
    // The name of an account is the person's own.
    const EXPOSES: Exposure = Exposure { untrusted: false, sensitive: true, egress: false };

    fn declared(context: &LinkContext, declaration: &mut Declaration) {
        context.declare(declaration);
    }

    fn summary(&self) -> String {
        "list the person's accounts".to_owned()
    }

    fn guard(&self, _context: &LinkContext, _facts: Option<&Self::Facts>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::Accounts
    }

    fn supplied(supplied: StoreInput) -> Option<Self::Facts> {
        if let StoreInput::Accounts(accounts) = supplied { Some(accounts) } else { None }
    }

    async fn run(
        self,
        _context: &LinkContext,
        facts: Option<Self::Facts>,
        _execution: &Execution,
    ) -> Result<(Accounts, String), Failure> {
        let account = |(account_ref, label)| Account { account_ref, label };
        let accounts: Vec<_> = facts.unwrap_or_default().into_iter().map(account).collect();
        let summary = counted(accounts.len(), "account", "accounts");
        Ok((Accounts { accounts }, summary))
    }
}
