//! `find_login`.

use crate::entry::{Entry, EntryName, Listing};
use crate::failures::guardrail;
use crate::{Passwords, READS};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Level, Timestamp};

/// The parameters of `find_login`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindLogin {
    /// Words that occur in the name, the user name or the address of an entry, in any letter case: `github ada`.
    #[schemars(length(min = 1, max = 200))]
    query: String,
    /// The most entries of the result.
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

fn limit() -> usize {
    20
}

/// The found entries.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Found {
    /// The entries, by name.
    logins: Vec<Listed>,
    /// Whether more entries match.
    is_truncated: bool,
    /// The number of entries that cannot be listed: their names have hidden characters or are too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    unnamable: Option<usize>,
}

/// An entry.
#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    /// The name, for `get_password`.
    entry: EntryName,
    /// The user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl FindLogin {
    fn matches(&self, entry: &Entry) -> bool {
        let parts = [Some(entry.name.as_str()), entry.username.as_deref(), entry.url.as_deref()];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n").to_lowercase();
        self.query.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }
}

impl NativeAction for FindLogin {
    type Shared = Passwords;
    type Facts = ();
    type Output = Found;

    const NAME: &'static str = "find_login";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str =
        "Finds entries of the password manager by name, user name or address. It returns no passwords.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        "find logins".to_owned()
    }

    fn guard(&self, passwords: &Passwords, _: Option<&()>, _: Timestamp) -> Guard {
        if passwords.allowed.allows_nothing() {
            return Guard::Refuse(guardrail(
                "No entry may be read. An operator allows entries in `entries` of the provider's table.",
            ));
        }
        Guard::Pass
    }

    async fn run(
        self,
        passwords: &Passwords,
        _: Option<()>,
        execution: &Execution,
    ) -> Result<(Found, String), Failure> {
        let Listing { mut entries, unnamable } = passwords.entries(execution).await?;
        entries.retain(|entry| self.matches(entry));
        entries.sort_by(|a, b| (&a.name, &a.username).cmp(&(&b.name, &b.username)));
        let is_truncated = entries.len() > self.limit;
        entries.truncate(self.limit);
        let logins: Vec<Listed> = entries
            .into_iter()
            .map(|Entry { name, username, url, .. }| Listed { entry: name, username, url })
            .collect();
        let summary = format!("{} login{}", logins.len(), if logins.len() == 1 { "" } else { "s" });
        let unnamable = (unnamable > 0).then_some(unnamable);
        Ok((Found { logins, is_truncated, unnamable }, summary))
    }
}
