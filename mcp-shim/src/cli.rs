//! The command line for scripts in the sandbox: one request over the same directory, one JSON object in answer.
//!
//! Exit codes: 0 done, 2 usage, 3 denied, 4 pending, 5 failed, 6 timeout. The reason is one line on standard error.

mod arguments;

pub use arguments::{BadUsage, Command, Question};

use crate::progress::Silent;
use crate::render::{self, words};
use crate::shim::Shim;
use crate::tools;
use serde_json::{Map, Value, json};
use shared::snapshot::{ActionEntry, Availability, Snapshot};
use shared::{Code, Reply, Status, auth};
use std::collections::BTreeMap;

/// The command or its arguments make no sense; nothing was sent.
pub const USAGE: u8 = 2;

/// The answer to a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Printed.
    pub object: Value,
    /// Said on standard error.
    pub reason: Option<String>,
    /// How the process ends.
    pub code: u8,
}

/// Executes a command and returns the answer; `stop` ends the waiting.
pub async fn run(shim: &Shim, question: Question, stop: impl Future<Output = ()>) -> Answer {
    let (word, arguments, printed): (_, _, fn(&Reply) -> Answer) = match question {
        Question::Call(arguments) => ("ext_call", arguments, answer),
        Question::Result(of) => ("ext_result", Map::from_iter([("of".to_owned(), Value::String(of))]), answer),
        Question::Auth(word, arguments) => (word, arguments, linked),
        Question::Capabilities => return capabilities(shim),
        Question::Listed { all } => {
            // Unusable actions are left out here, because only then is it known that there were some.
            let wanted = Map::from_iter([("include_unavailable".to_owned(), Value::Bool(true))]);
            return match asked(shim, "ext_capabilities", wanted, stop).await {
                Ok(reply) if reply.status == Status::Executed => listed(reply, all),
                Ok(reply) | Err(reply) => answer(&reply),
            };
        }
    };
    match asked(shim, word, arguments, stop).await {
        Ok(reply) => printed(&reply),
        Err(reply) => Answer { code: USAGE, ..answer(&reply) },
    }
}

/// Returns the host's reply, or, for arguments that make no request, their fault.
async fn asked(
    shim: &Shim,
    word: &'static str,
    arguments: Map<String, Value>,
    stop: impl Future<Output = ()>,
) -> Result<Reply, Reply> {
    let request = tools::request(word, arguments).map_err(|fault| tools::bad_arguments(&fault))?;
    Ok(shim.ask(&shim.snapshots().view(), request, stop, &mut Silent).await)
}

/// `{capabilities: [{id, description, available, accounts, links_accounts, requires_auth, operations: {NAME: {…}}}]}`: of the
/// providers those that are a person's own.
///
/// A context token that proves nothing is a refusal with its code. So is none, unless everything is to be listed.
fn listed(mut reply: Reply, all: bool) -> Answer {
    let snapshot = reply.data.take().and_then(|data| serde_json::from_value::<Snapshot>(data).ok());
    let Some(snapshot) = snapshot else {
        let reason = "the host's list cannot be read".to_owned();
        return Answer::of(json!({ "ok": false, "error": reason }), Some(reason), 5);
    };
    // A list without a person would look like that of a person who may use nothing.
    if let Some(fault) = snapshot.token_fault.filter(|fault| !all || fault.code != Code::ContextTokenMissing.word()) {
        let refused = Reply { status: Status::Denied, code: Some(fault.code), error: Some(fault.error), ..reply };
        return answer(&refused);
    }
    let own = snapshot.capabilities.into_iter().filter(|capability| capability.provider.is_namespaced());
    let shown = own.filter_map(|mut capability| {
        let usable =
            |entry: &ActionEntry| !matches!(entry.status, Availability::Denied | Availability::RequiresHigherLevel);
        // Actions that link accounts have words of their own.
        let (linking, actions): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut capability.actions).into_iter().partition(|(name, _)| auth::is_linking(name.as_str()));
        let available = actions.values().any(usable);
        let operations: Map<String, Value> = actions
            .iter()
            .filter(|(_, entry)| all || usable(entry))
            .map(|(name, entry)| (name.to_string(), json!(entry)))
            .collect();
        (available || all).then(|| {
            json!({
                "id": capability.provider,
                "description": capability.description.unwrap_or_default(),
                "available": available,
                "accounts": capability.accounts,
                "links_accounts": linking.iter().any(|(name, entry)| name.as_str() == auth::BEGIN && usable(entry)),
                "requires_auth": actions.values().any(|entry| entry.requires_auth),
                "operations": operations,
            })
        })
    });
    Answer::of(json!({ "capabilities": shown.collect::<Vec<_>>() }), None, 0)
}

impl Answer {
    fn of(object: Value, reason: Option<String>, code: u8) -> Self {
        Self { object, reason, code }
    }
}

fn capabilities(shim: &Shim) -> Answer {
    let view = shim.snapshots().view();
    match (&view.document, &view.fault) {
        (Some(document), _) => Answer::of(document.clone(), None, 0),
        (None, None) => Answer::of(json!({ "capabilities": [] }), Some(words::NO_CAPABILITIES.to_owned()), 0),
        (None, Some(fault)) => Answer::of(json!({ "ok": false, "error": fault }), Some(fault.clone()), 5),
    }
}

/// Returns `{ok, output, request_id}` and the further members of the reply.
fn answer(reply: &Reply) -> Answer {
    let ok = reply.status == Status::Executed && !render::tool_failed(reply);
    let mut object = Map::from_iter([("ok".to_owned(), Value::Bool(ok))]);
    if let Value::Object(mut members) = json!(reply) {
        if let Some(data) = members.remove("data") {
            object.insert("output".to_owned(), data);
        }
        object.append(&mut members);
    }
    let (code, reason) = match reply.status {
        Status::Executed if ok => (0, None),
        Status::Denied => (3, Some(render::reason(reply))),
        Status::Pending => (4, Some(render::reason(reply))),
        // The tool, or the call of it.
        Status::Executed | Status::Failed => (5, Some(render::reason(reply))),
        Status::Timeout => (6, Some(render::reason(reply))),
    };
    Answer::of(Value::Object(object), reason.map(str::to_owned), code)
}

/// Returns `{ok, flow_id, auth_url, …, request_id}`: the members of the result beside these two.
///
/// Scripts that link accounts know this form. Every other reply is printed like any other answer.
fn linked(reply: &Reply) -> Answer {
    let told = answer(reply);
    match &reply.data {
        Some(Value::Object(members)) if told.code == 0 => {
            let mut object = members.clone();
            object.insert("ok".to_owned(), Value::Bool(true));
            object.insert("request_id".to_owned(), Value::String(reply.request_id.to_string()));
            Answer { object: Value::Object(object), ..told }
        }
        Some(_) | None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::Timestamp;

    #[test]
    fn every_status_has_its_own_exit_code() {
        let id = || "r1".parse().unwrap();
        let time = Timestamp::from_millis(0);
        let done = answer(&Reply::executed(id(), json!([1]), "One.".into(), time));
        assert_eq!((done.code, done.reason), (0, None));
        assert_eq!((&done.object["ok"], &done.object["output"]), (&json!(true), &json!([1])));
        assert_eq!(done.object["request_id"], "r1");
        let data = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
        let failed = answer(&Reply::executed(id(), data, "read says that it failed".into(), time));
        assert_eq!((failed.code, failed.reason.as_deref()), (5, Some("read says that it failed")));
        assert_eq!(failed.object["ok"], false);
        for (status, code) in [(Status::Denied, 3), (Status::Pending, 4), (Status::Failed, 5), (Status::Timeout, 6)] {
            let reply = Reply { status, ..Reply::of_code(id(), Code::NoGrant, time) };
            let answer = answer(&reply);
            assert_eq!((answer.code, answer.reason), (code, reply.error));
            assert_eq!(answer.object["ok"], false);
        }
    }

    #[test]
    fn replies_of_account_linking_are_printed_member_by_member() {
        let id = || "r1".parse().unwrap();
        let time = Timestamp::from_millis(0);
        let executed = |data| linked(&Reply::executed(id(), data, "One.".into(), time));
        let begun = executed(json!({"flow_id": "f", "auth_url": "https://a", "request_id": "no", "ok": false}));
        let expected = json!({"flow_id": "f", "auth_url": "https://a", "request_id": "r1", "ok": true});
        assert_eq!((begun.object, begun.reason, begun.code), (expected, None, 0));
        let odd = executed(json!([1]));
        assert_eq!((&odd.object["output"], &odd.object["ok"], odd.code), (&json!([1]), &json!(true), 0));
        let refused = Reply::of_code(id(), Code::CapabilityStateMismatch, time);
        assert_eq!(linked(&refused), answer(&refused));
        assert_eq!((&linked(&refused).object["ok"], linked(&refused).code), (&json!(false), 3));
        // Data beside a refusal is no part of the requested result.
        let waits = Reply { status: Status::Pending, data: Some(json!({"flow_id": "f"})), ..refused };
        assert_eq!((&linked(&waits).object["ok"], linked(&waits).code), (&json!(false), 4));
    }
}
