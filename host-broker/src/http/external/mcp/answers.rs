//! A client's answer for a reply of the broker: the words of [`shared::reply::text`], as the shim gives them in a
//! sandbox.

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, MetaObject};
use serde_json::{Map, Value, json};
use shared::reply::text;
use shared::{Code, Reply, RequestId, Status, Timestamp};

/// Returns a reply as the result of a tool.
///
/// The structured content of an executed call is its data alone. For every other reply it is the whole reply, with the
/// code and the next step.
pub(super) fn result(reply: &Reply) -> CallToolResult {
    let (said, has_failed) = match (reply.status, &reply.data) {
        (Status::Executed, Some(Value::String(text))) => (text.clone(), false),
        (Status::Executed, Some(data)) => (serde_json::to_string_pretty(data).unwrap_or_default(), false),
        (Status::Executed, None) => (reply.summary.clone().unwrap_or_else(|| "Done.".to_owned()), false),
        (Status::Pending, _) => (text::pending(reply), false),
        (Status::Denied | Status::Failed | Status::Timeout, _) => (text::refused(reply), true),
    };
    let mut content = vec![ContentBlock::text(said.clone())];
    content.extend(text::notices(reply).map(ContentBlock::text));
    let mut result = if has_failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = match reply.status {
        Status::Executed => reply.data.clone().filter(Value::is_object),
        Status::Pending => Some(text::structured(reply, Some(said))),
        Status::Denied | Status::Failed | Status::Timeout => Some(text::structured(reply, None)),
    };
    let mut meta = Map::from_iter([("broker/request_id".to_owned(), json!(reply.request_id))]);
    if let Some(evidence) = reply.evidence {
        meta.insert("broker/evidence".to_owned(), json!(evidence));
    }
    if !reply.notices.is_empty() {
        meta.insert("broker/notices".to_owned(), json!(reply.notices));
    }
    result.meta = Some(MetaObject(meta));
    result
}

/// The refusal of arguments that do not fit. It is a result and no protocol error, so that a model can read it.
pub(super) fn bad_arguments(request_id: RequestId, fault: &str, now: Timestamp) -> CallToolResult {
    result(&Reply::of_reason(request_id, Code::InvalidParams, &format!("{fault}. Nothing was sent."), now))
}

/// The error of a call of a tool that is not in the list.
pub(super) fn unknown_tool(name: &str) -> ErrorData {
    ErrorData::invalid_params(text::unknown_tool(name), Some(json!({ "remedy": "List the tools again." })))
}
