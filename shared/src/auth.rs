//! Requests that link a person's accounts: `ext_auth_begin` and the ones that follow it.
//!
//! Each is a call of an action that every capability with linkable accounts has, with the capability as the provider.
//! All rules for calls hold for it. The handle of a link session names its capability; only the host knows its owner.
//!
//! ```
//! use shared::request::{Request, parse};
//! let document = parse(br#"{"type":"ext_auth_begin","capability":"gog.email","account_hint":"work"}"#).unwrap();
//! let call = document.request.into_call().unwrap();
//! assert_eq!((call.provider.as_str(), call.action.as_str()), ("gog.email", shared::auth::BEGIN));
//! assert_eq!(call.params, serde_json::json!({"account_hint": "work"}).as_object().unwrap().clone());
//! ```

use crate::names::{AccountRef, Action, FlowId, Provider};
use crate::request::CallRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The action that begins a flow.
pub const BEGIN: &str = "auth_begin";
/// The action that completes a link session with the values from the provider's page.
pub const COMPLETE: &str = "auth_complete";
/// The action that asks how far one is.
pub const POLL: &str = "auth_poll";
/// The action that lists a person's accounts.
pub const LIST: &str = "auth_list";
/// The action that unlinks one.
pub const UNLINK: &str = "auth_unlink";

/// Checks whether an action of a capability links accounts, and is no operation of the capability's own.
pub fn is_linking(action: &str) -> bool {
    [BEGIN, COMPLETE, POLL, LIST, UNLINK].contains(&action)
}

/// A request about accounts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AuthRequest {
    /// `ext_auth_begin`
    Begin(AuthBeginRequest),
    /// `ext_auth_complete`
    Complete(AuthCompleteRequest),
    /// `ext_auth_poll`
    Poll(AuthPollRequest),
    /// `ext_auth_list`
    List(AuthListRequest),
    /// `ext_auth_unlink`
    Unlink(AuthUnlinkRequest),
}

/// Begin to link an account of the person at a capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthBeginRequest {
    /// The capability, for example `gog.email`.
    pub capability: Provider,
    /// Which account the person means, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_hint: Option<String>,
    /// How long the caller will wait, in milliseconds. It can only shorten the host's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Complete a flow with what the person brought back: either the whole address to which the provider's page led, or the
/// code that it showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthCompleteRequest {
    /// The flow, as it was handed out.
    pub flow_id: FlowId,
    /// The address, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// Or the code alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long the caller will wait, in milliseconds. It can only shorten the host's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Ask how far a flow is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthPollRequest {
    /// The flow, as it was handed out.
    pub flow_id: FlowId,
    /// How long the caller will wait, in milliseconds. It can only shorten the host's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// List the person's accounts at a capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthListRequest {
    /// The capability.
    pub capability: Provider,
}

/// Unlink an account of the person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthUnlinkRequest {
    /// The capability.
    pub capability: Provider,
    /// The account.
    pub account_ref: AccountRef,
}

impl AuthRequest {
    /// The word in the document's `type`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Begin(_) => "ext_auth_begin",
            Self::Complete(_) => "ext_auth_complete",
            Self::Poll(_) => "ext_auth_poll",
            Self::List(_) => "ext_auth_list",
            Self::Unlink(_) => "ext_auth_unlink",
        }
    }

    /// At which capability.
    pub fn capability(&self) -> Provider {
        match self {
            Self::Begin(body) => body.capability.clone(),
            Self::Complete(body) => body.flow_id.capability(),
            Self::Poll(body) => body.flow_id.capability(),
            Self::List(body) => body.capability.clone(),
            Self::Unlink(body) => body.capability.clone(),
        }
    }

    /// Returns the place for the caller's own timeout, for the requests that wait for another party.
    pub fn timeout_ms(&mut self) -> Option<&mut Option<u64>> {
        match self {
            Self::Begin(body) => Some(&mut body.timeout_ms),
            Self::Complete(body) => Some(&mut body.timeout_ms),
            Self::Poll(body) => Some(&mut body.timeout_ms),
            Self::List(_) | Self::Unlink(_) => None,
        }
    }

    /// How long the caller says that it waits, in milliseconds.
    pub fn waits_ms(&self) -> Option<u64> {
        match self {
            Self::Begin(body) => body.timeout_ms,
            Self::Complete(body) => body.timeout_ms,
            Self::Poll(body) => body.timeout_ms,
            Self::List(_) | Self::Unlink(_) => None,
        }
    }

    /// The call that it is.
    pub fn into_call(self) -> CallRequest {
        let provider = self.capability();
        let timeout_ms = self.waits_ms();
        let (action, params) = match self {
            Self::Begin(body) => (BEGIN, params([("account_hint", body.account_hint)])),
            Self::Complete(body) => {
                let flow = Some(body.flow_id.to_string());
                (COMPLETE, params([("flow_id", flow), ("callback_url", body.callback_url), ("code", body.code)]))
            }
            Self::Poll(body) => (POLL, params([("flow_id", Some(body.flow_id.to_string()))])),
            Self::List(_) => (LIST, Map::new()),
            Self::Unlink(body) => (UNLINK, params([("account", Some(body.account_ref.to_string()))])),
        };
        let action = action_of(action);
        CallRequest {
            provider,
            action,
            params,
            task_id: None,
            idempotency_key: None,
            account_ref: None,
            timeout_ms,
            dry_run: false,
        }
    }
}

#[expect(clippy::expect_used, reason = "the five words satisfy the grammar")]
fn action_of(word: &str) -> Action {
    word.parse().expect("an action")
}

fn params<const N: usize>(members: [(&str, Option<String>); N]) -> Map<String, Value> {
    members.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::String(text?)))).collect()
}

#[cfg(test)]
mod tests {
    use crate::request::{Request, parse};
    use serde_json::{Value, json};

    fn call(document: &Value) -> Result<Value, String> {
        let document = parse(document.to_string().as_bytes()).map_err(|refused| refused.why.to_string())?;
        let call = document.request.into_call().map_err(|_other| "no call".to_owned())?;
        Ok(serde_json::to_value(call).unwrap())
    }

    #[test]
    fn each_is_a_call_of_the_capability_that_it_is_about() {
        let flow = format!("caf_gog.mail_box_{}", "0a".repeat(16));
        for (document, expected) in [
            (
                json!({"type": "ext_auth_begin", "capability": "gog.email", "account_hint": null, "timeout_ms": 5000}),
                json!({"provider": "gog.email", "action": "auth_begin", "params": {}, "timeout_ms": 5000}),
            ),
            (
                json!({"type": "ext_auth_complete", "flow_id": flow, "code": "4/x"}),
                json!({"provider": "gog.mail_box", "action": "auth_complete", "params": {"flow_id": flow, "code": "4/x"}}),
            ),
            (
                json!({"type": "ext_auth_poll", "flow_id": flow}),
                json!({"provider": "gog.mail_box", "action": "auth_poll", "params": {"flow_id": flow}}),
            ),
            (
                json!({"type": "ext_auth_list", "capability": "gog.email"}),
                json!({"provider": "gog.email", "action": "auth_list", "params": {}}),
            ),
            (
                json!({"type": "ext_auth_unlink", "capability": "gog.email", "account_ref": "work"}),
                json!({"provider": "gog.email", "action": "auth_unlink", "params": {"account": "work"}}),
            ),
        ] {
            assert_eq!(call(&document), Ok(expected), "{document}");
        }
        let list = parse(br#"{"type":"ext_list"}"#).unwrap().request;
        assert!(matches!(list.into_call().map_err(|other| *other), Err(Request::List(_))));
    }

    #[test]
    fn invalid_flow_ids_and_account_names_are_refused() {
        let flow = |flow: &str| call(&json!({"type": "ext_auth_poll", "flow_id": flow}));
        let digits = "0a".repeat(16);
        assert!(flow(&format!("caf_gog.email_{digits}")).is_ok());
        for bad in
            ["", "caf_", &digits, &format!("caf_{digits}"), &format!("caf_Gog_{digits}"), &format!("caf_gog_{digits}0")]
        {
            assert!(flow(bad).unwrap_err().contains("not a valid flow_id"), "{bad}");
        }
        let unlink =
            |account: &str| call(&json!({"type": "ext_auth_unlink", "capability": "a.b", "account_ref": account}));
        assert!(unlink("../x").unwrap_err().contains("not a valid account_ref"));
        let person = json!({"type": "ext_auth_begin", "capability": "a.b", "user_id": "bob"});
        assert!(call(&person).unwrap_err().contains("unknown field `user_id`"));
    }
}
