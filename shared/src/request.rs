//! Requests: the documents that the sandbox writes into `tasks/`.
//!
//! A document is one JSON object: the envelope (`type`, `request_id`, `timestamp`, `context_token`, `conversation`,
//! `sig`) and the body of its type, side by side. [`parse`] separates them. Absent and `null` members mean the same;
//! unknown members are refused.

mod bodies;

pub use bodies::{
    AccessRequest, BeginRequest, CallRequest, CallsRequest, CancelRequest, CapabilitiesRequest, Expiry, GateRequest,
    GrantRequest, ListRequest, PlanRequest, PlannedCall, ResultRequest, RevokeRequest, TaskRequest, TasksRequest,
};

use crate::auth::AuthRequest;
use crate::flow::request::FlowRequest;
use crate::json::{self, JsonError};
use crate::level::Level;
use crate::limits;
use crate::names::RequestId;
use crate::numbers;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A well-formed document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The members that every request has.
    pub envelope: Envelope,
    /// The body of the request.
    pub request: Request,
    /// How many values and keys the document has.
    pub nodes: usize,
}

/// The members that every document may have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Envelope {
    /// The sender's name for the request.
    pub request_id: Option<RequestId>,
    /// When the sender wrote it. Informational, except for the freshness of a signature.
    pub timestamp: Option<String>,
    /// On whose behalf: a signed token, verified by the host.
    pub context_token: Option<String>,
    /// The conversation: the `request_id` of the `ext_begin` that began it.
    pub conversation: Option<RequestId>,
    /// The signature, where the group signs.
    pub sig: Option<String>,
}

/// The body of a request, by its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// `ext_call`
    Call(CallRequest),
    /// `ext_capabilities`
    Capabilities(CapabilitiesRequest),
    /// `ext_grant`
    Grant(GrantRequest),
    /// `ext_revoke`
    Revoke(RevokeRequest),
    /// `ext_request`
    Access(AccessRequest),
    /// `ext_plan`
    Plan(PlanRequest),
    /// `ext_begin`
    Begin(BeginRequest),
    /// `ext_list`
    List(ListRequest),
    /// `gov_list_ext_calls`
    ListCalls(CallsRequest),
    /// `gov_list_tasks`
    ListTasks(TasksRequest),
    /// `task_create`
    TaskCreate(TaskRequest),
    /// `gate_approve`
    GateApprove(GateRequest),
    /// `ext_result`
    Result(ResultRequest),
    /// `ext_cancel`
    Cancel(CancelRequest),
    /// `ext_auth_begin`, `ext_auth_complete`, `ext_auth_poll`, `ext_auth_list`, `ext_auth_unlink`
    Auth(AuthRequest),
    /// `flow_list` and its kin
    Flow(FlowRequest),
}

impl Request {
    /// The word in the document's `type`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Call(_) => "ext_call",
            Self::Capabilities(_) => "ext_capabilities",
            Self::Grant(_) => "ext_grant",
            Self::Revoke(_) => "ext_revoke",
            Self::Access(_) => "ext_request",
            Self::Plan(_) => "ext_plan",
            Self::Begin(_) => "ext_begin",
            Self::List(_) => "ext_list",
            Self::ListCalls(_) => "gov_list_ext_calls",
            Self::ListTasks(_) => "gov_list_tasks",
            Self::TaskCreate(_) => "task_create",
            Self::GateApprove(_) => "gate_approve",
            Self::Result(_) => "ext_result",
            Self::Cancel(_) => "ext_cancel",
            Self::Auth(body) => body.word(),
            Self::Flow(body) => body.word(),
        }
    }

    /// Returns the call of this request, if it is one. Requests that link accounts are calls, too.
    ///
    /// # Errors
    /// The request, if it is no call.
    pub fn into_call(self) -> Result<CallRequest, Box<Self>> {
        match self {
            Self::Call(call) => Ok(call),
            Self::Auth(auth) => Ok(auth.into_call()),
            other @ (Self::Capabilities(_)
            | Self::Grant(_)
            | Self::Revoke(_)
            | Self::Access(_)
            | Self::Plan(_)
            | Self::Begin(_)
            | Self::List(_)
            | Self::ListCalls(_)
            | Self::ListTasks(_)
            | Self::TaskCreate(_)
            | Self::GateApprove(_)
            | Self::Result(_)
            | Self::Cancel(_)
            | Self::Flow(_)) => Err(Box::new(other)),
        }
    }

    /// Returns the body as an object, without the envelope. The host compares repeated requests by it.
    pub fn body(&self) -> Map<String, Value> {
        let body = match self {
            Self::Call(body) => serde_json::to_value(body),
            Self::Capabilities(body) => serde_json::to_value(body),
            Self::Grant(body) => serde_json::to_value(body),
            Self::Revoke(body) => serde_json::to_value(body),
            Self::Access(body) => serde_json::to_value(body),
            Self::Plan(body) => serde_json::to_value(body),
            Self::Begin(body) => serde_json::to_value(body),
            Self::List(body) => serde_json::to_value(body),
            Self::ListCalls(body) => serde_json::to_value(body),
            Self::ListTasks(body) => serde_json::to_value(body),
            Self::TaskCreate(body) => serde_json::to_value(body),
            Self::GateApprove(body) => serde_json::to_value(body),
            Self::Result(body) => serde_json::to_value(body),
            Self::Cancel(body) => serde_json::to_value(body),
            Self::Auth(body) => serde_json::to_value(body),
            Self::Flow(body) => return body.body(),
        };
        let mut map = match body {
            Ok(Value::Object(map)) => map,
            // Every body is a struct with string keys, so this is an object; an empty one compares unequal to all.
            Ok(_) | Err(_) => Map::new(),
        };
        map.insert("type".into(), self.word().into());
        map
    }
}

/// Why a document is no request. The messages quote no values: they go into logs and replies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not acceptable JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A member of the envelope is wrong.
    #[error("`{member}` {fault}")]
    Envelope {
        /// Which.
        member: &'static str,
        /// How.
        fault: String,
    },
    /// There is no `type`.
    #[error("`type` is missing")]
    NoType,
    /// The `type` is not ours.
    #[error("the type is not one of this protocol")]
    UnknownType,
    /// The body does not fit its type.
    #[error("{word}: {fault}")]
    Body {
        /// The document's type.
        word: &'static str,
        /// The fault in the body.
        fault: String,
    },
}

/// A document that is no request, and the id under which that can be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The document's own id, if it has a usable one.
    pub request_id: Option<RequestId>,
    /// The fault.
    pub why: Malformed,
}

/// Parses a document.
///
/// ```
/// let document = shared::request::parse(br#"{"type":"ext_list","request_id":"r1","group_folder":null}"#).unwrap();
/// assert_eq!(document.request.word(), "ext_list");
/// assert_eq!(document.envelope.request_id.unwrap().as_str(), "r1");
/// ```
///
/// # Errors
/// [`Refused`], with the document's id if that much could be read. Nothing was executed.
pub fn parse(bytes: &[u8]) -> Result<Document, Refused> {
    let read = json::parse_object_within(bytes, limits::REQUEST_NODES_MAX);
    let (mut map, nodes) = read.map_err(|fault| Refused { request_id: None, why: fault.into() })?;
    map.retain(|_, value| !value.is_null());
    let request_id = id(&mut map, "request_id").map_err(|why| Refused { request_id: None, why })?;
    match parse_rest(map, request_id.clone()) {
        Ok((envelope, request)) => Ok(Document { envelope, request, nodes }),
        Err(why) => Err(Refused { request_id, why }),
    }
}

/// Members that the forwarder of a request adds to its document. The body cannot bring them.
pub const RESERVED: [&str; 7] =
    ["type", "request_id", "timestamp", "context_token", "conversation", "sig", "timeout_ms"];

/// Creates a request of this type from its members, which did not come as a document.
///
/// # Errors
/// The fault, in words that name the type and the member. Nothing was executed.
pub fn of_members(word: &str, mut members: Map<String, Value>) -> Result<Request, String> {
    if let Some(name) = RESERVED.into_iter().find(|name| members.contains_key(*name)) {
        let is_about_another = name == "request_id" && ["ext_result", "ext_cancel"].contains(&word);
        let hint = if is_about_another { "; the request_id of the earlier call is the value of `of`" } else { "" };
        return Err(format!("{word}: unknown field `{name}`{hint}"));
    }
    members.insert("type".to_owned(), word.into());
    match parse(Value::Object(members).to_string().as_bytes()) {
        Ok(document) => Ok(document.request),
        Err(refused) => Err(refused.why.to_string()),
    }
}

/// Takes an id out of the envelope.
fn id(map: &mut Map<String, Value>, member: &'static str) -> Result<Option<RequestId>, Malformed> {
    let fault = |fault: String| Malformed::Envelope { member, fault };
    match map.remove(member) {
        None => Ok(None),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|bad| fault(format!("is {bad}"))),
        Some(_) => Err(fault("is not a string".into())),
    }
}

fn parse_rest(mut map: Map<String, Value>, request_id: Option<RequestId>) -> Result<(Envelope, Request), Malformed> {
    let conversation = id(&mut map, "conversation")?;
    let mut text = |member: &'static str| match map.remove(member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Malformed::Envelope { member, fault: "is not a string".into() }),
    };
    let word = text("type")?.ok_or(Malformed::NoType)?;
    let envelope = Envelope {
        request_id,
        timestamp: text("timestamp")?,
        context_token: text("context_token")?,
        conversation,
        sig: text("sig")?,
    };
    let request = match word.as_str() {
        "ext_call" => Request::Call(body("ext_call", map)?),
        "ext_capabilities" => Request::Capabilities(body("ext_capabilities", map)?),
        "ext_grant" => Request::Grant(grant(map)?),
        "ext_request" => Request::Access(access(map)?),
        "ext_plan" => Request::Plan(plan(map)?),
        "ext_begin" => Request::Begin(body("ext_begin", map)?),
        "ext_revoke" => Request::Revoke(body("ext_revoke", map)?),
        "ext_list" => Request::List(body("ext_list", map)?),
        "gov_list_ext_calls" => Request::ListCalls(calls(map)?),
        "gov_list_tasks" => Request::ListTasks(body("gov_list_tasks", map)?),
        "task_create" => Request::TaskCreate(task(map)?),
        "gate_approve" => Request::GateApprove(body("gate_approve", map)?),
        "ext_result" => Request::Result(body("ext_result", map)?),
        "ext_cancel" => Request::Cancel(body("ext_cancel", map)?),
        "ext_auth_begin" => Request::Auth(AuthRequest::Begin(body("ext_auth_begin", map)?)),
        "ext_auth_complete" => Request::Auth(AuthRequest::Complete(body("ext_auth_complete", map)?)),
        "ext_auth_poll" => Request::Auth(AuthRequest::Poll(body("ext_auth_poll", map)?)),
        "ext_auth_list" => Request::Auth(AuthRequest::List(body("ext_auth_list", map)?)),
        "ext_auth_unlink" => Request::Auth(AuthRequest::Unlink(body("ext_auth_unlink", map)?)),
        "flow_list" => Request::Flow(FlowRequest::FlowList(body("flow_list", map)?)),
        "flow_get" => Request::Flow(FlowRequest::FlowGet(body("flow_get", map)?)),
        "flow_propose" => Request::Flow(FlowRequest::FlowPropose(body("flow_propose", map)?)),
        "flow_import" => Request::Flow(FlowRequest::FlowImport(body("flow_import", map)?)),
        "flow_export" => Request::Flow(FlowRequest::FlowExport(body("flow_export", map)?)),
        "flow_approve" => Request::Flow(FlowRequest::FlowApprove(body("flow_approve", map)?)),
        "flow_deprecate" => Request::Flow(FlowRequest::FlowDeprecate(body("flow_deprecate", map)?)),
        "flow_project" => Request::Flow(FlowRequest::FlowProject(body("flow_project", map)?)),
        "flow_external_grant_mint" => {
            Request::Flow(FlowRequest::FlowExternalGrantMint(body("flow_external_grant_mint", map)?))
        }
        "flow_external_grant_revoke" => {
            Request::Flow(FlowRequest::FlowExternalGrantRevoke(body("flow_external_grant_revoke", map)?))
        }
        "flow_external_grant_list" => {
            Request::Flow(FlowRequest::FlowExternalGrantList(body("flow_external_grant_list", map)?))
        }
        _ => return Err(Malformed::UnknownType),
    };
    Ok((envelope, request))
}

fn body<T: DeserializeOwned>(word: &'static str, map: Map<String, Value>) -> Result<T, Malformed> {
    serde_path_to_error::deserialize(Value::Object(map)).map_err(|error| {
        let place: Vec<String> = error.path().iter().map(ToString::to_string).collect();
        let fault = unquoted(error.inner());
        // That of an unknown or missing member names it already.
        let names_itself = ["unknown field", "missing field"].iter().any(|begin| fault.starts_with(begin));
        let is_nameable =
            !names_itself && !place.is_empty() && place.iter().all(|part| is_plain(part.trim_matches(['[', ']'])));
        // A sender may have chosen a part of the place.
        let fault = if is_nameable { format!("`{}`: {fault}", place.join(".")) } else { fault };
        Malformed::Body { word, fault }
    })
}

fn grant(map: Map<String, Value>) -> Result<GrantRequest, Malformed> {
    let fault = |fault: &str| Malformed::Body { word: "ext_grant", fault: fault.to_owned() };
    let grant: GrantRequest = body("ext_grant", map)?;
    if grant.expires_at.is_some() && grant.expires_in_s.is_some() {
        return Err(fault("`expires_at` and `expires_in_s` exclude each other"));
    }
    let lists = [&grant.allowed_actions, &grant.denied_actions];
    if lists.into_iter().flatten().any(|list| list.len() > limits::GRANT_ACTIONS_MAX) {
        return Err(fault("too many actions in one list"));
    }
    Ok(grant)
}

/// Returns the fault of a reason for a person, if it has one.
fn reason_fault(reason: &str) -> Option<String> {
    let fits = !reason.trim().is_empty() && reason.len() <= limits::REASON_BYTES_MAX;
    (!fits).then(|| format!("`reason` must be 1 to {} bytes", limits::REASON_BYTES_MAX))
}

fn plan(mut map: Map<String, Value>) -> Result<PlanRequest, Malformed> {
    for call in map.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.retain(|_, value| !value.is_null());
        }
    }
    let plan: PlanRequest = body("ext_plan", map)?;
    let fault = if limits::PLAN_CALLS.contains(&plan.calls.len()) {
        reason_fault(&plan.reason)
    } else {
        let (fewest, most) = limits::PLAN_CALLS.into_inner();
        Some(format!("`calls` must list {fewest} to {most} calls"))
    };
    fault.map_or(Ok(plan), |fault| Err(Malformed::Body { word: "ext_plan", fault }))
}

fn access(map: Map<String, Value>) -> Result<AccessRequest, Malformed> {
    let access: AccessRequest = body("ext_request", map)?;
    let fault = if access.access_level == Level::None {
        "`access_level` must be 1, 2 or 3".to_owned()
    } else if access.actions.as_ref().is_some_and(|list| list.is_empty() || list.len() > limits::GRANT_ACTIONS_MAX) {
        format!("`actions` must list 1 to {} actions", limits::GRANT_ACTIONS_MAX)
    } else if let Some(fault) = reason_fault(&access.reason) {
        fault
    } else if !limits::ACCESS_S.contains(&access.duration_s) {
        let (shortest, longest) = limits::ACCESS_S.into_inner();
        format!("`duration_s` must be {shortest} to {longest} seconds")
    } else {
        return Ok(access);
    };
    Err(Malformed::Body { word: "ext_request", fault })
}

fn calls(map: Map<String, Value>) -> Result<CallsRequest, Malformed> {
    let calls: CallsRequest = body("gov_list_ext_calls", map)?;
    let fault = if calls.limit.is_some_and(|limit| !limits::LISTED_CALLS.contains(&limit)) {
        let (fewest, most) = limits::LISTED_CALLS.into_inner();
        format!("`limit` must be {fewest} to {most}")
    } else if calls.before.is_some_and(|before| before < 1) {
        "`before` must be at least 1".to_owned()
    } else {
        return Ok(calls);
    };
    Err(Malformed::Body { word: "gov_list_ext_calls", fault })
}

fn task(map: Map<String, Value>) -> Result<TaskRequest, Malformed> {
    let task: TaskRequest = body("task_create", map)?;
    let acceptable =
        (1..=limits::TITLE_BYTES_MAX).contains(&task.title.len()) && !task.title.chars().any(char::is_control);
    if acceptable {
        Ok(task)
    } else {
        let fault = format!("`title` must be 1 to {} bytes without control characters", limits::TITLE_BYTES_MAX);
        Err(Malformed::Body { word: "task_create", fault })
    }
}

/// serde quotes the offending value (`invalid type: string "…"`); a refusal must not carry it on.
fn unquoted(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if let Some((_, range)) = numbers::range_of(&text) {
        return format!("expected a whole number from {range}");
    }
    match text.split_once(": ") {
        Some(("invalid type" | "invalid value", rest)) => match rest.rsplit_once(", expected ") {
            Some((_, expected)) => format!("a value of the wrong type, expected {expected}"),
            None => "a value of the wrong type".to_owned(),
        },
        Some(_) | None => {
            // `unknown field` quotes a name that the sender chose; only well-formed short ones are repeated.
            match text.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, ")) {
                Some((name, rest)) if is_plain(name) => format!("unknown field `{name}`, {rest}"),
                Some((_, rest)) => format!("unknown field, {rest}"),
                None => text,
            }
        }
    }
}

fn is_plain(name: &str) -> bool {
    name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().why.to_string()
    }

    #[test]
    fn absent_and_null_options_mean_the_same() {
        let short = parse(br#"{"type":"ext_call","provider":"mock","action":"echo"}"#).unwrap();
        let long = parse(
            br#"{"type":"ext_call","provider":"mock","action":"echo","params":null,"task_id":null,
                "idempotency_key":null,"account_ref":null,"timeout_ms":null,"dry_run":null,"request_id":null,"sig":null}"#,
        )
        .unwrap();
        assert_eq!((&short.envelope, &short.request), (&long.envelope, &long.request));
        assert_eq!(short.request.body(), long.request.body());
    }

    #[test]
    fn a_fault_keeps_the_id_and_quotes_no_value() {
        let refused =
            parse(br#"{"type":"ext_call","request_id":"r1","provider":"hunter2 !","action":"a"}"#).unwrap_err();
        assert_eq!(refused.request_id, Some("r1".parse().unwrap()));
        assert!(!refused.why.to_string().contains("hunter2"), "{}", refused.why);
        assert!(!why(r#"{"type":"ext_call","provider":1234567,"action":"a"}"#).contains("1234567"));
        assert!(!why(r#"{"type":"ext_call","provider":"p","action":"a","timeout_ms":"hunter2"}"#).contains("hunter2"));
        assert!(!why(r#"{"type":"ext_list","hunter2 \u202e":1}"#).contains("hunter2"));
        assert!(why(r#"{"type":"ext_list","grup":1}"#).starts_with("ext_list: unknown field `grup`, expected"));
    }

    #[test]
    fn a_value_that_does_not_fit_is_named_by_its_key_and_the_range_of_its_number() {
        let grant = |more: &str| {
            why(&format!(r#"{{"type":"ext_grant","group_folder":"g","provider":"p","access_level":1,{more}}}"#))
        };
        for number in ["-1", "1.5", "4294967296", "\"7\""] {
            assert_eq!(
                grant(&format!(r#""rate_per_minute":{number}"#)),
                "ext_grant: `rate_per_minute`: expected a whole number from 0 to 4294967295"
            );
        }
        assert!(grant(r#""allowed_actions":["a",3]"#).contains("`allowed_actions.[1]`"));
    }

    #[test]
    fn levels_are_integers_and_nothing_else() {
        let grant = |level: &str| {
            parse(
                format!(r#"{{"type":"ext_grant","group_folder":"g","provider":"p","access_level":{level}}}"#)
                    .as_bytes(),
            )
        };
        for level in ["0", "1", "2", "3"] {
            assert!(grant(level).is_ok(), "{level}");
        }
        for level in ["-1", "4", "1.0", "\"1\"", "true", "null", "[1]", "1e0", "18446744073709551616"] {
            assert!(grant(level).is_err(), "{level}");
        }
    }

    #[test]
    fn the_type_must_be_ours() {
        assert_eq!(parse(br#"{"type":"ext_calls"}"#).unwrap_err().why, Malformed::UnknownType);
        assert_eq!(parse(br#"{"provider":"p"}"#).unwrap_err().why, Malformed::NoType);
        assert!(parse(br#"[{"type":"ext_list"}]"#).is_err());
        assert!(parse(b"").is_err());
    }

    #[test]
    fn an_expiry_is_a_time_or_never() {
        let grant = |expiry: &str| {
            parse(
                format!(r#"{{"type":"ext_grant","group_folder":"g","provider":"p","access_level":1,{expiry}}}"#)
                    .as_bytes(),
            )
        };
        assert!(grant(r#""expires_at":"never""#).is_ok());
        assert!(grant(r#""expires_at":"2026-02-14T10:00:00Z""#).is_ok());
        assert!(grant(r#""expires_in_s":60"#).is_ok());
        for bad in [
            r#""expires_at":"Never""#,
            r#""expires_at":0"#,
            r#""expires_at":"never","expires_in_s":1"#,
            r#""expires_in_s":-1"#,
        ] {
            assert!(grant(bad).is_err(), "{bad}");
        }
    }
}
