//! `get_password`.

use crate::entry::{EntryName, Login};
use crate::failures::unavailable;
use crate::lookup::{Fitting, Wanted, login};
use crate::{Passwords, READS};
use model::{Exposure, Tier};
use provider::contract::{Execution, Failure, Guard, SealedField, SideOutput};
use provider::native::NativeAction;
use schemars::JsonSchema;
use secrets::vault::{OneTimeError, VaultError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{Level, Timestamp};

/// The member of the result that is delivered once.
const FIELD: &str = "password";

/// The parameters of `get_password`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetPassword {
    /// The name of the entry, as `find_login` returns it.
    entry: EntryName,
    /// The user name, where several entries have the same name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 300))]
    username: Option<String>,
}

/// A login. The reply that delivers it has one more member: `password`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Revealed {
    /// The name of the entry.
    entry: EntryName,
    /// The user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip)]
    password: Option<SealedField>,
}

impl GetPassword {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { entry: &self.entry, username: self.username.as_deref() }
    }
}

impl NativeAction for GetPassword {
    type Shared = Passwords;
    type Facts = Fitting;
    type Output = Revealed;

    const NAME: &'static str = "get_password";
    const LEVEL: Level = Level::Write;
    const TIER: Option<Tier> = Some(Tier::Human);
    const REVEALS: bool = true;
    const DESCRIPTION: &'static str = "Returns one password of the password manager, after a person has approved this \
                                       call. Only one reply has it, in `password`.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        format!("get the password of {}", self.entry)
    }

    fn about(&self) -> Option<Value> {
        Some(json!({ "entry": self.entry, "username": self.username }))
    }

    fn guard(&self, passwords: &Passwords, facts: Option<&Fitting>, _: Timestamp) -> Guard {
        self.wanted().guard(passwords, facts)
    }

    fn precondition(&self, facts: &Fitting) -> Option<Value> {
        facts.precondition()
    }

    async fn prepare(&self, passwords: &Passwords, execution: &Execution) -> Result<Fitting, Failure> {
        self.wanted().fitting(passwords, execution).await
    }

    fn aside(output: &mut Revealed) -> Option<SideOutput> {
        let one_time = output.password.take()?;
        let noted = json!({ "one_time_value": one_time.field });
        Some(SideOutput { noted, one_time: Some(one_time), ..SideOutput::default() })
    }

    async fn run(
        self,
        passwords: &Passwords,
        facts: Option<Fitting>,
        execution: &Execution,
    ) -> Result<(Revealed, String), Failure> {
        let (entry, Login { password, username, url }) = login(passwords, facts, execution).await?;
        let Some(vault) = &passwords.vault else { return Err(unavailable("The vault of the broker is not open.")) };
        let sealed = vault.seal_one_time(&passwords.name, &password, execution).map_err(|error| match error {
            OneTimeError::NoGroup | OneTimeError::TooLong => {
                Failure::Refused { message: format!("The password cannot be delivered: {error}.") }
            }
            OneTimeError::Vault(VaultError::OtherKey | VaultError::Damaged | VaultError::Randomness(_)) => {
                unavailable("The password cannot be encrypted for its delivery.")
            }
        })?;
        let password = Some(SealedField { field: FIELD.to_owned(), sealed });
        let summary = format!("the password of {}", entry.name);
        Ok((Revealed { entry: entry.name, username, url, password }, summary))
    }
}
