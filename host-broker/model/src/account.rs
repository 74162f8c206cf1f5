//! Accounts that are linked to persons, and shares of them.

use serde::{Deserialize, Serialize};
use shared::{AccountRef, Provider, Timestamp};

/// A linked account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// The owner: `ash:user-1`.
    pub person: String,
    /// The provider.
    pub capability: Provider,
    /// The provider's name of the account.
    pub account_ref: String,
    /// The label for people.
    pub label: Option<String>,
    /// The time of linking.
    pub linked_at: Timestamp,
    /// The caller that linked it, in the ledger's form.
    pub linked_by: String,
}

/// Returns whether a text is a valid account name.
pub fn is_ref(text: &str) -> bool {
    text.parse::<AccountRef>().is_ok()
}

/// Splits the name of an account in a call into its owner, if it is a shared account, and the provider's name.
///
/// ```
/// use model::owned;
/// assert_eq!(owned("work"), (None, "work"));
/// assert_eq!(owned("ash:user/1/work"), (Some("ash:user/1"), "work"));
/// ```
pub fn owned(name: &str) -> (Option<&str>, &str) {
    // The provider's name has no slash.
    name.rsplit_once('/').map_or((None, name), |(owner, account)| (Some(owner), account))
}

/// The share of an account with another person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The owner.
    pub person: String,
    /// The provider.
    pub capability: Provider,
    /// The provider's name of the account.
    pub account_ref: String,
    /// The person who may use it as well.
    pub with: String,
}
