//! The tools: one file for each, and the way that all of them go.
//!
//! A tool is a request type with words and hints. The host's own parser checks its arguments, so a request that passes
//! here is well formed there. Nothing here decides whether it is permitted.

pub mod action;
mod ext_auth_begin;
mod ext_auth_complete;
mod ext_auth_list;
mod ext_auth_poll;
mod ext_auth_unlink;
mod ext_call;
mod ext_cancel;
mod ext_capabilities;
mod ext_grant;
mod ext_list;
mod ext_plan;
mod ext_request;
mod ext_result;
mod ext_revoke;
mod flow;
mod gate_approve;
mod gov_list_ext_calls;
mod gov_list_tasks;
mod task_create;

use crate::document;
use crate::progress::Listener;
use crate::render;
use crate::render::words::{self, ToolWords};
use crate::shim::Shim;
use crate::snapshot::View;
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use serde_json::{Map, Value};
use shared::Reply;
use shared::flow::operations::{self, Effect};
use shared::request::{self, Request};
use std::sync::Arc;

/// A tool that is always the same. Its name is the type of the request that it makes.
#[derive(Clone, Copy)]
struct Entry {
    name: &'static str,
    words: ToolWords,
    seen_by: SeenBy,
    effect: Effect,
    /// Whether it reaches beyond the broker.
    open_world: bool,
    schema: fn() -> Arc<Map<String, Value>>,
}

/// The audience of a tool in the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SeenBy {
    All,
    Main,
    GateOpeners,
    AccountLinkers,
    AccessRequesters,
}

const TOOLS: [Entry; 18] = [
    ext_call::ENTRY,
    ext_capabilities::ENTRY,
    ext_result::ENTRY,
    ext_cancel::ENTRY,
    ext_plan::ENTRY,
    ext_request::ENTRY,
    ext_auth_begin::ENTRY,
    ext_auth_complete::ENTRY,
    ext_auth_poll::ENTRY,
    ext_auth_list::ENTRY,
    ext_auth_unlink::ENTRY,
    ext_grant::ENTRY,
    ext_revoke::ENTRY,
    ext_list::ENTRY,
    gov_list_ext_calls::ENTRY,
    gov_list_tasks::ENTRY,
    task_create::ENTRY,
    gate_approve::ENTRY,
];

/// All of them.
fn tools() -> impl Iterator<Item = Entry> {
    TOOLS.into_iter().chain(operations::ALL.into_iter().map(flow::entry))
}

/// The tools to list, given a snapshot.
pub fn list(view: &View) -> Vec<Tool> {
    let visible = tools().filter(|entry| match entry.seen_by {
        SeenBy::All => true,
        SeenBy::Main => view.is_main,
        SeenBy::GateOpeners => view.opens_gates(),
        SeenBy::AccountLinkers => view.links_accounts(),
        SeenBy::AccessRequesters => view.requests_access(),
    });
    let fixed = visible.map(|entry| {
        Tool::new(entry.name, entry.words.description, (entry.schema)())
            .with_title(entry.words.title)
            .with_annotations(hints(entry.effect, entry.open_world))
    });
    fixed.chain(view.actions.iter().map(|action| action.tool.clone())).collect()
}

fn hints(effect: Effect, open_world: bool) -> ToolAnnotations {
    let (read_only, destructive, idempotent) = effect.hints();
    ToolAnnotations::from_raw(None, Some(read_only), Some(destructive), Some(idempotent), Some(open_world))
}

/// Calls a tool by its name; `None` if there is none of that name now.
pub async fn call(
    shim: &Shim,
    name: &str,
    arguments: Map<String, Value>,
    stop: impl Future<Output = ()>,
    listener: &mut impl Listener,
) -> Option<CallToolResult> {
    let view = shim.snapshots().view();
    if name == ext_capabilities::ENTRY.name {
        return Some(match ext_capabilities::Wanted::read(arguments) {
            Ok(wanted) => render::capabilities(&view, |snapshot| wanted.of(snapshot)),
            Err(fault) => refuse(&fault),
        });
    }
    let request = if let Some(entry) = tools().find(|entry| entry.name == name) {
        if entry.seen_by == SeenBy::Main && !view.is_main {
            return Some(render::result(&render::main_only(&document::request_id())));
        }
        request(entry.name, arguments)
    } else if let Some(action) = view.actions.iter().find(|action| action.tool.name == name) {
        action.request(arguments)
    } else {
        return None;
    };
    Some(match request {
        Ok(request) => render::result(&shim.ask(&view, request, stop, listener).await),
        Err(fault) => refuse(&fault),
    })
}

fn refuse(fault: &str) -> CallToolResult {
    render::result(&bad_arguments(fault))
}

/// The refusal of arguments that do not fit. It is a result and not a protocol error, so that a model can read it.
pub fn bad_arguments(fault: &str) -> Reply {
    render::bad_arguments(&document::request_id(), fault)
}

/// Makes a request of this type from a tool's arguments.
///
/// An agent that could write the rest of the document would sign for another person.
///
/// # Errors
/// The fault, in words that name the tool and the member.
pub fn request(word: &str, arguments: Map<String, Value>) -> Result<Request, String> {
    if arguments.get("params").is_some_and(Value::is_string) {
        return Err(format!("{word}: {}", words::PARAMS_AS_STRING));
    }
    request::of_members(word, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(word: &'static str, arguments: &Value) -> String {
        request(word, arguments.as_object().unwrap().clone()).unwrap_err()
    }

    const LINKING: [&str; 5] =
        ["ext_auth_begin", "ext_auth_complete", "ext_auth_poll", "ext_auth_list", "ext_auth_unlink"];

    /// Of a group with one provider, whose action `auth_begin` has this status.
    fn linker(provider: &str, status: &str) -> View {
        let begin = json!({"level": 2, "description": "x", "status": status});
        let capability = json!({"provider": provider, "access_level": 2, "actions": {"auth_begin": begin}});
        let snapshot = json!({"generatedAt": "x", "capabilities": [capability], "may_request": ["mail"]});
        View { snapshot: serde_json::from_value(snapshot).unwrap(), ..View::default() }
    }

    #[test]
    fn a_tools_name_is_the_type_of_its_request() {
        let all = View { is_main: true, ..linker("gog.email", "available") };
        let names: Vec<_> = list(&all).into_iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), tools().count());
        for name in names {
            // Either it parses or the body is at fault; an unknown type is neither.
            let document = format!(r#"{{"type":"{name}"}}"#);
            if let Err(refused) = request::parse(document.as_bytes()) {
                assert!(matches!(refused.why, request::Malformed::Body { .. }), "{name}: {}", refused.why);
            }
        }
    }

    #[test]
    fn a_fault_in_the_arguments_is_named() {
        let call = |arguments: Value| fault("ext_call", &arguments);
        assert!(call(json!({"provider": "github"})).contains("missing field `action`"));
        assert!(call(json!({"provider": "", "action": "a"})).contains("not a valid provider"));
        assert!(call(json!({"provider": "p", "action": "a", "parms": {}})).contains("unknown field `parms`"));
        assert!(call(json!({"provider": "p", "action": "a", "params": "{}"})).contains("`params` is a string"));
        assert!(call(json!({"provider": "p", "action": "a", "params": [1]})).contains("expected a map"));
        assert!(call(json!({"provider": "p", "action": "a", "task_id": "../x"})).contains("not a valid task_id"));
        let grant = |level| fault("ext_grant", &json!({"group_folder": "g", "provider": "p", "access_level": level}));
        assert!(grant(json!(4)).contains("is no level"));
        assert!(grant(json!("2")).contains("wrong type"));
        let begin = json!({"capability": "gog.email", "user_id": "bob"});
        assert!(fault("ext_auth_begin", &begin).contains("unknown field `user_id`"));
        assert!(fault("ext_result", &json!({"request_id": "r1"})).contains("is the value of `of`"));
        let unlink = json!({"capability": "gog.email", "account_ref": "../x"});
        assert!(fault("ext_auth_unlink", &unlink).contains("not a valid account_ref"));
    }

    #[test]
    fn refusals_quote_neither_code_nor_callback_address() {
        let flow = format!("caf_gog.email_{}", "0a".repeat(16));
        for arguments in [
            json!({"flow_id": "https://localhost/?code=hunter2"}),
            json!({"flow_id": flow, "code": ["hunter2"]}),
            json!({"flow_id": flow, "callback_url": {"url": "https://localhost/?code=hunter2"}}),
            json!({"flow_id": flow, "https://localhost/?code=hunter2": ""}),
        ] {
            let fault = fault("ext_auth_complete", &arguments);
            assert!(!fault.contains("hunter2") && !fault.contains("localhost"), "{fault}");
        }
    }

    #[test]
    fn an_agent_cannot_write_the_envelope() {
        for name in request::RESERVED {
            let mut arguments = Map::from_iter([("of".to_owned(), json!("r1"))]);
            arguments.insert(name.to_owned(), json!("x"));
            assert!(request("ext_cancel", arguments).unwrap_err().contains(name));
        }
    }

    #[test]
    fn null_is_the_same_as_absent() {
        let arguments = json!({"provider": "p", "action": "a", "params": null, "task_id": null, "dry_run": null});
        assert!(request("ext_call", arguments.as_object().unwrap().clone()).is_ok());
    }

    #[test]
    fn access_is_requested_where_the_host_allows_it() {
        let snapshot = json!({"generatedAt": "x", "capabilities": [], "may_request": ["mail"]});
        let view = View { snapshot: serde_json::from_value(snapshot).unwrap(), ..View::default() };
        assert!(list(&view).iter().any(|tool| tool.name == "ext_request"));
        let request = json!({"provider": "mail", "access_level": 2, "reason": "to send", "duration_s": 3600});
        assert!(request_of(&request).is_ok());
        let with = |name: &str, value: Value| {
            let mut request = request.clone();
            request[name] = value;
            request_of(&request).unwrap_err()
        };
        assert!(with("access_level", json!(0)).contains("must be 1, 2 or 3"));
        assert!(with("duration_s", json!(59)).contains("must be 60 to 2592000 seconds"));
        assert!(with("duration_s", json!(2_592_001)).contains("must be 60 to 2592000 seconds"));
        assert!(with("reason", json!(" ")).contains("must be 1 to 2000 bytes"));
        assert!(with("actions", json!([])).contains("must list 1 to 256 actions"));
        assert!(with("group_folder", json!("x")).contains("unknown field"));
    }

    fn request_of(arguments: &Value) -> Result<Request, String> {
        request("ext_request", arguments.as_object().unwrap().clone())
    }

    #[test]
    fn main_tools_are_listed_for_main_only() {
        let names = |view: &View| list(view).iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
        let plain = names(&View::default());
        assert_eq!(plain, ["ext_call", "ext_capabilities", "ext_result", "ext_cancel", "ext_plan"]);
        let main = names(&View { is_main: true, ..View::default() });
        assert!(
            [
                "ext_grant",
                "ext_revoke",
                "ext_list",
                "gov_list_ext_calls",
                "gov_list_tasks",
                "task_create",
                "gate_approve"
            ]
            .iter()
            .all(|name| main.contains(&(*name).to_owned()))
        );
    }

    #[test]
    fn accounts_are_linked_where_a_capability_that_may_be_used_has_it() {
        let listed = |view: &View| {
            let names = list(view).into_iter().map(|tool| tool.name.to_string());
            names.filter(|name| name.starts_with("ext_auth_")).collect::<Vec<_>>()
        };
        for status in ["available", "needs_approval", "needs_gate"] {
            assert_eq!(listed(&linker("gog.email", status)), LINKING, "{status}");
        }
        for status in ["requires_higher_level", "DENIED"] {
            assert_eq!(listed(&linker("gog.email", status)), [""; 0], "{status}");
        }
        // A provider without persons' accounts has no linking, for any names of its actions.
        assert_eq!(listed(&linker("server", "available")), [""; 0]);
        assert_eq!(listed(&View { is_main: true, ..View::default() }), [""; 0]);
    }

    #[test]
    fn clients_are_told_which_of_them_change_something() {
        let tools = list(&linker("gog.email", "available"));
        let hints = LINKING.map(|name| {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            assert!(!tool.input_schema["properties"].as_object().unwrap().contains_key("timeout_ms"), "{name}");
            let hints = tool.annotations.clone().unwrap();
            let told = [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint];
            told.map(Option::unwrap)
        });
        let begins = [false, false, false, true];
        let [reads, lists] = [true, false].map(|open_world| [true, false, true, open_world]);
        assert_eq!(hints, [begins, begins, reads, lists, [false, true, true, false]]);
    }
}
