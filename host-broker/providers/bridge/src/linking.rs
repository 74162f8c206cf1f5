//! A bridge's account linking: `auth_begin`, `auth_complete`, `auth_poll` of `bridge-v1`.
//!
//! Source: ash-capabilities, "Bridge method params"; the members of the results as the original host takes them.

use super::envelope::Method;
use super::{Bridge, BridgeError, failure};
use provider::contract::{Execution, Failure};
use provider::linking::address::Brought;
use provider::linking::{Given, Linker, Linking, Opened, Polled};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use shared::{AccountRef, Code, Provider, Timestamp};
use std::time::Duration;

/// The result of `auth_begin`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    auth_url: String,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    flow_state: Value,
    flow_type: String,
    #[serde(default)]
    user_code: Option<String>,
    #[serde(default)]
    poll_interval_seconds: Option<u64>,
    #[serde(default)]
    expected_callback_state: Option<String>,
}

/// The result of `auth_complete`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Completed {
    account_ref: AccountRef,
    #[serde(default)]
    credential_material: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

/// The result of `auth_poll`: with an account it is done, independent of the name of the status.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    status: String,
    #[serde(default)]
    retry_after_seconds: Option<u64>,
    #[serde(default)]
    account_ref: Option<AccountRef>,
    #[serde(default)]
    credential_material: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

impl Completed {
    fn given(self) -> Given {
        Given {
            account: self.account_ref,
            credential: self.credential_material.map(Value::Object),
            fresh_until: None,
            shown: self.metadata.unwrap_or_default(),
        }
    }
}

impl Bridge {
    /// Asks for a step of a flow. Whether a step that failed may have changed anything is `changes`.
    async fn step<T: DeserializeOwned>(
        &self,
        method: Method,
        mut params: Map<String, Value>,
        changes: bool,
        execution: &Execution,
    ) -> Result<T, Failure> {
        params.insert("context_token".to_owned(), self.token(execution)?.into());
        let result = self.ask_for(method, &Value::Object(params), execution).await.map_err(|fault| {
            let why = self.cleaned(&fault.to_string(), Some(execution));
            // The program's own text about a failure here may be a credential.
            let why = if changes { fault.kind() } else { why.as_str() };
            tracing::warn!(provider = %self.name, step = method.word(), why, "the bridge failed");
            if changes && matches!(fault, BridgeError::Sandbox(_)) {
                // A program can say that itself, with the code in its hands.
                return Failure::Unknown { message: "it may not have been started".to_owned() };
            }
            failure(fault, changes)
        })?;
        serde_json::from_value(result.into()).map_err(|error| {
            // Quotes values, which may be credentials.
            tracing::warn!(provider = %self.name, step = method.word(), line = error.line(), "its result is not as it may be");
            Failure::InvalidOutput { message: format!("its result of {} is not as it may be", method.word()) }
        })
    }
}

fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Linker for Bridge {
    fn begin<'a>(
        &'a self,
        capability: &'a Provider,
        hint: Option<&'a str>,
        execution: &'a Execution,
    ) -> Linking<'a, Opened> {
        Box::pin(async move {
            let params = members([("capability_id", json!(capability)), ("account_hint", json!(hint))]);
            let begun: Begun = self.step(Method::AuthBegin, params, false, execution).await?;
            Ok(Opened {
                auth_url: begun.auth_url,
                user_code: begun.user_code,
                flow_type: begun.flow_type,
                expires_at: begun.expires_at,
                pace: begun.poll_interval_seconds.map(Duration::from_secs),
                state: begun.flow_state,
                expected: begun.expected_callback_state,
            })
        })
    }

    fn complete<'a>(
        &'a self,
        capability: &'a Provider,
        state: &'a Value,
        brought: &'a Brought,
        execution: &'a Execution,
    ) -> Linking<'a, Given> {
        Box::pin(async move {
            let params = members([
                ("capability_id", json!(capability)),
                ("flow_state", state.clone()),
                ("authorization_code", json!(brought.code)),
                ("raw_callback_url", json!(brought.url)),
                ("state", json!(brought.state)),
            ]);
            let completed: Completed = self.step(Method::AuthComplete, params, true, execution).await?;
            Ok(completed.given())
        })
    }

    fn poll<'a>(&'a self, capability: &'a Provider, state: &'a Value, execution: &'a Execution) -> Linking<'a, Polled> {
        Box::pin(async move {
            let params = members([("capability_id", json!(capability)), ("flow_state", state.clone())]);
            let asked: Asked = self.step(Method::AuthPoll, params, false, execution).await?;
            let Asked { status, retry_after_seconds, account_ref, credential_material, metadata } = asked;
            if let Some(account_ref) = account_ref {
                return Ok(Polled::Given(Completed { account_ref, credential_material, metadata }.given()));
            }
            let over = |code: Code| Err(Failure::Coded { code, message: code.meaning().to_owned() });
            match status.as_str() {
                "pending" | "authorization_pending" | "slow_down" => {
                    Ok(Polled::Pending(retry_after_seconds.map(Duration::from_secs)))
                }
                "denied" | "access_denied" => over(Code::CapabilityAuthFlowDenied),
                "expired" | "expired_token" => over(Code::CapabilityAuthFlowExpired),
                _ => Err(Failure::InvalidOutput { message: "its status is unknown".to_owned() }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provider::linking::address::Hosts;

    /// The results of this method in the source's own transcripts.
    fn results(method: &str) -> Vec<Value> {
        let transcripts = include_str!("../../../../tests/fixtures/ash-bridge-transcripts.jsonl");
        let pairs = transcripts.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = pairs.filter(|pair| pair["request"]["method"] == method);
        of.filter_map(|pair| pair["response"].get("result").cloned()).collect()
    }

    #[test]
    fn answers_of_the_reference_bridge_are_understood() {
        let [begun] = results("auth_begin").try_into().unwrap();
        let begun: Begun = serde_json::from_value(begun).unwrap();
        let hosts = Hosts::new(&["127.0.0.1".to_owned()]).unwrap();
        assert_eq!(hosts.admit(&begun.auth_url).unwrap().to_string(), begun.auth_url);
        assert_eq!(begun.flow_type, "authorization_code");
        assert_eq!(begun.flow_state["flow_id"], "gaf_dc156eb5f81c5d7d5865bb44");
        assert_eq!(begun.expected_callback_state.as_deref(), Some("b36cfec9f90e6569b8701cb352b1001a"));
        assert!(begun.expires_at.is_some() && begun.user_code.is_none());
        let [completed] = results("auth_complete").try_into().unwrap();
        let given = serde_json::from_value::<Completed>(completed).unwrap().given();
        assert_eq!(given.account.as_str(), "work");
        assert_eq!(given.credential, Some(json!({ "credential_key": "cred_f20872e6e39b1a69" })));
        assert_eq!(given.shown["account_email"], "worker@example.com");
    }

    #[test]
    fn unknown_members_and_wrong_types_are_refused() {
        let begun = json!({ "auth_url": "https://a.example", "flow_type": "code" });
        assert!(serde_json::from_value::<Begun>(begun.clone()).is_ok());
        for (member, value) in [
            ("surprise", json!(1)),
            ("expires_at", json!("soon")),
            ("poll_interval_seconds", json!(-1)),
            ("user_code", json!(["a"])),
            ("auth_url", Value::Null),
        ] {
            let mut odd = begun.clone();
            odd[member] = value;
            assert!(serde_json::from_value::<Begun>(odd).is_err(), "{member}");
        }
        for odd in [json!({}), json!({ "account_ref": "../x" }), json!({ "account_ref": "a", "metadata": [] })] {
            assert!(serde_json::from_value::<Completed>(odd.clone()).is_err(), "{odd}");
        }
    }
}
