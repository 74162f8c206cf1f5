//! `use_password`.

use crate::Passwords;
use crate::entry::EntryName;
use crate::failures::{guardrail, unavailable};
use crate::lookup::{Fitting, Wanted, login};
use model::{Exposure, Tier};
use provider::contract::{Execution, Failure, Guard, NestedRequest, Success};
use provider::native::NativeAction;
use schemars::JsonSchema;
use secrets::vault::seen_secrets::{Unfit, hide};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::{Action, Level, Provider, Timestamp};

/// The text in the place of the password while the call is decided.
const PLACEHOLDER: &str = "password-placeholder";

/// The exposure: the result of the other action comes back. The exposure of that action is added.
const EXPOSES: Exposure = Exposure { untrusted: true, sensitive: false, egress: false };

/// The parameters of `use_password`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsePassword {
    /// The name of the entry, as `find_login` returns it.
    entry: EntryName,
    /// The user name, where several entries have the same name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 300))]
    username: Option<String>,
    /// The provider that gets the password.
    provider: Provider,
    /// Its action.
    action: Action,
    /// The parameters of that action, without the password.
    #[serde(default)]
    params: Map<String, Value>,
}

/// The result of the other action.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Used(Value);

impl UsePassword {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { entry: &self.entry, username: self.username.as_deref() }
    }

    /// Returns the parameter that takes the password, if an operator allows this action.
    fn field<'a>(&self, passwords: &'a Passwords) -> Option<&'a str> {
        let mut uses = passwords.uses.iter();
        let found = uses.find(|allowed| allowed.provider == self.provider && allowed.action == self.action);
        found.map(|allowed| allowed.field.as_str())
    }
}

impl NativeAction for UsePassword {
    type Shared = Passwords;
    type Facts = Fitting;
    type Output = Used;

    const NAME: &'static str = "use_password";
    const LEVEL: Level = Level::Write;
    const TIER: Option<Tier> = Some(Tier::Human);
    const DESCRIPTION: &'static str = "Calls an action of another provider with one password of the password manager, \
                                       after a person has approved this call. The caller does not see the password.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = EXPOSES;

    fn summary(&self) -> String {
        format!("use the password of {} for {}.{}", self.entry, self.provider, self.action)
    }

    fn about(&self) -> Option<Value> {
        let Self { entry, username, provider, action, params: _ } = self;
        Some(json!({ "entry": entry, "username": username, "provider": provider, "action": action }))
    }

    fn guard(&self, passwords: &Passwords, facts: Option<&Fitting>, _: Timestamp) -> Guard {
        let Some(field) = self.field(passwords) else {
            return Guard::Refuse(guardrail(format!(
                "{}.{} may get no password. An operator allows actions in `uses` of the provider's table.",
                self.provider, self.action
            )));
        };
        if self.params.contains_key(field) {
            return Guard::Refuse(guardrail(format!("The broker fills in `{field}`. Leave it out of `params`.")));
        }
        self.wanted().guard(passwords, facts)
    }

    fn precondition(&self, facts: &Fitting) -> Option<Value> {
        facts.precondition()
    }

    async fn prepare(&self, passwords: &Passwords, execution: &Execution) -> Result<Fitting, Failure> {
        self.wanted().fitting(passwords, execution).await
    }

    fn nested(&self, passwords: &Passwords) -> Option<NestedRequest> {
        let field = self.field(passwords)?.to_owned();
        let mut params = self.params.clone();
        params.insert(field.clone(), PLACEHOLDER.into());
        Some(NestedRequest { provider: self.provider.clone(), action: self.action.clone(), params, field })
    }

    async fn run(
        self,
        passwords: &Passwords,
        facts: Option<Fitting>,
        execution: &Execution,
    ) -> Result<(Used, String), Failure> {
        let (_, login) = login(passwords, facts, execution).await.map_err(before)?;
        hide(&login.password, execution).map_err(|unfit| {
            let how = if unfit == Unfit::TooShort { "short" } else { "long" };
            let message = format!("The password is too {how} to be kept out of the result, so it cannot be used.");
            Failure::Refused { message }
        })?;
        let Success { data, summary, aside } = execution.run_nested(&login.password).await?;
        if aside.is_some() {
            return Err(Failure::Unknown { message: "The action has more than a result.".into() });
        }
        Ok((Used(data), summary))
    }
}

/// The failure of a read before the other action, so nothing was changed.
fn before(failure: Failure) -> Failure {
    match failure {
        Failure::InvalidOutput { message } | Failure::Unknown { message } => unavailable(message),
        failure @ (Failure::Refused { .. }
        | Failure::Unavailable { .. }
        | Failure::RateLimited { .. }
        | Failure::Coded { .. }
        | Failure::Guard(_)
        | Failure::Timeout) => failure,
    }
}
