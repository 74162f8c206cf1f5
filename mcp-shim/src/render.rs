//! The only place that words things for an agent.
//!
//! A reply becomes one text, the same as data for programs, and the evidence receipt beside both. Some clients show
//! their model only the text and others only the data, so each holds everything that a model must know. The host's
//! texts for external agents in the same words are in [`shared::reply::text`]. The replies that the shim makes itself
//! are in `local`; the standing texts (instructions, descriptions of tools) are in [`words`].

mod blocks;
pub mod listing;
mod local;
pub mod words;

pub use local::{
    NOT_A_REPLY, OTHER_REQUEST, Signs, Unusable, bad_arguments, cancel_asked, cancelled, connection_lost, host_down,
    internal_fault, main_only, no_answer, no_mailbox, no_signing_key, no_socket, no_token, not_asked, not_confirmed,
    oversized, still_waiting, unusable_mailbox, withdrawn,
};

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};
pub use shared::reply::text::reason;
use shared::reply::text::{notices, pending, refused, structured};
use shared::snapshot::Snapshot;
use shared::{Code, Reply, Status};

/// Beside a result in `_meta`: the ledger row on which it rests.
pub const EVIDENCE: &str = "broker/evidence";
/// Beside a result in `_meta`: the name under which the host knows the request.
pub const REQUEST_ID: &str = "broker/request_id";

/// Returns a client's result for a reply.
pub fn result(reply: &Reply) -> CallToolResult {
    let notices = notices(reply);
    let note = if reply.status == Status::Pending { Some(pending(reply)) } else { notices.clone() };
    let (mut content, has_failed, shows_data) = if let Some(answer) = blocks::answer(reply) {
        let shows_data = answer.is_text();
        (answer.content, answer.has_failed, shows_data)
    } else {
        let has_failed = matches!(reply.status, Status::Denied | Status::Failed | Status::Timeout);
        (vec![ContentBlock::text(text(reply))], has_failed, true)
    };
    content.extend(notices.map(ContentBlock::text));
    let mut result = if has_failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = shows_data.then(|| structured(reply, note));
    let mut meta = Map::from_iter([(REQUEST_ID.to_owned(), Value::String(reply.request_id.to_string()))]);
    if let Some(evidence) = reply.evidence {
        meta.insert(EVIDENCE.to_owned(), json!(evidence));
    }
    result.meta = Some(MetaObject(meta));
    result
}

/// Returns the text for a model.
pub fn text(reply: &Reply) -> String {
    if let Some(answer) = blocks::answer(reply) {
        return answer.text();
    }
    match (reply.status, &reply.data) {
        (Status::Executed, Some(Value::String(text))) => text.clone(),
        (Status::Executed, Some(data)) => pretty(data),
        (Status::Executed, None) => reply.summary.clone().unwrap_or_else(|| words::DONE.to_owned()),
        (Status::Pending, _) => pending(reply),
        // It has the state of each call.
        (Status::Failed, Some(data)) if reply.code.as_deref() == Some(Code::PlanEnded.word()) => {
            format!("{}\n{}", refused(reply), pretty(data))
        }
        (Status::Denied | Status::Failed | Status::Timeout, _) => refused(reply),
    }
}

/// Checks whether a tool was called, and says that it failed.
pub fn tool_failed(reply: &Reply) -> bool {
    blocks::answer(reply).is_some_and(|answer| answer.has_failed)
}

/// JSON indented by two spaces.
pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Returns a client's result for the snapshot, or for this part of it.
///
/// It is a listing, as text without white space and as data.
pub fn capabilities(
    view: &crate::snapshot::View,
    part: impl FnOnce(&Snapshot) -> Result<Value, Box<Reply>>,
) -> CallToolResult {
    match (&view.snapshot, &view.fault) {
        (Some(snapshot), _) => match part(snapshot) {
            Ok(listing) => {
                let mut shown = CallToolResult::success(vec![ContentBlock::text(listing.to_string())]);
                shown.structured_content = Some(listing);
                shown
            }
            Err(refused) => result(&refused),
        },
        (None, Some(fault)) => CallToolResult::error(vec![ContentBlock::text(fault)]),
        (None, None) => CallToolResult::success(vec![ContentBlock::text(words::NO_CAPABILITIES)]),
    }
}

/// Why there is a snapshot and yet none.
pub fn unreadable_snapshot(fault: &str) -> String {
    format!("The list of capabilities cannot be read: {fault}. Ask the operator to look at host-broker status.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::reply::ApprovalRef;
    use shared::{RequestId, Timestamp};

    fn id() -> RequestId {
        "ext-1-a".parse().unwrap()
    }

    fn executed(data: Value) -> Reply {
        Reply::executed(id(), data, "One.".into(), Timestamp::from_millis(0))
    }

    #[test]
    fn data_is_indented_json_and_a_string_is_itself() {
        assert_eq!(text(&executed(json!({"a": [1]}))), "{\n  \"a\": [\n    1\n  ]\n}");
        assert_eq!(text(&executed(json!("line\n"))), "line\n");
        assert_eq!(text(&executed(json!(null))), "null");
        let nothing = Reply { data: None, ..executed(json!(1)) };
        assert_eq!(text(&nothing), "One.");
    }

    #[test]
    fn a_tools_answer_keeps_its_blocks() {
        let image = json!({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"});
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let told = json!({"content": [{"type": "text", "text": "a"}], "structuredContent": {"n": 1}});
        let shown = result(&executed(told.clone()));
        assert_eq!(json!(shown.content), told["content"]);
        assert_eq!(shown.structured_content.unwrap()["data"], told);
        let pictured = executed(json!({"content": [{"type": "text", "text": "a"}, image, link]}));
        let shown = result(&Reply { notices: vec!["redacted".into()], ..pictured });
        assert_eq!(json!(shown.content[1..3]), json!([image, link]));
        assert!(shown.content[3].as_text().unwrap().text.starts_with("Note from the broker"));
        // A client that shows data instead of blocks would not show the picture.
        assert_eq!((shown.structured_content, shown.is_error), (None, Some(false)));
    }

    #[test]
    fn a_tool_that_says_it_failed_is_an_error_in_its_own_words() {
        let reply = executed(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        let shown = result(&reply);
        assert_eq!((shown.is_error, text(&reply).as_str()), (Some(true), "no such file"));
        assert!(tool_failed(&reply));
    }

    #[test]
    fn data_that_resembles_content_blocks_stays_data() {
        for data in [
            json!({"content": "text"}),
            json!({"content": [{"type": "text"}]}),
            json!({"content": [], "more": 1}),
            json!({"isError": true}),
        ] {
            let reply = executed(data.clone());
            assert_eq!((text(&reply), tool_failed(&reply)), (pretty(&data), false), "{data}");
        }
    }

    #[test]
    fn every_status_but_executed_and_pending_is_an_error() {
        for (status, is_error) in [
            (Status::Executed, false),
            (Status::Pending, false),
            (Status::Denied, true),
            (Status::Failed, true),
            (Status::Timeout, true),
        ] {
            let reply = Reply { status, error: Some("No.".into()), ..executed(json!(1)) };
            let result = result(&reply);
            assert_eq!(result.is_error, Some(is_error), "{status}");
            assert_eq!(result.structured_content.unwrap()["status"], status.word());
            if is_error {
                assert_eq!(text(&reply), format!("External call {status}: No."));
            }
        }
    }

    #[test]
    fn a_plan_that_ended_early_shows_the_state_of_each_call() {
        let ended = Reply::of_code(id(), Code::PlanEnded, Timestamp::from_millis(0));
        let ended = Reply { data: Some(json!({"calls": [{"call": 1, "state": "failed"}]})), ..ended };
        let result = result(&ended);
        assert_eq!(result.is_error, Some(true));
        assert!(text(&ended).contains("\"state\": \"failed\""), "{}", text(&ended));
        assert_eq!(result.structured_content.unwrap()["data"]["calls"][0]["call"], 1);
    }

    #[test]
    fn a_refusal_without_a_sentence_uses_the_summary() {
        let reply = Reply { status: Status::Failed, ..executed(json!(1)) };
        assert_eq!(text(&reply), "External call failed: One.");
    }

    #[test]
    fn pending_says_what_is_asked_and_what_to_do_next() {
        let approval = ApprovalRef {
            reference: "apr-7".into(),
            expires_at: Timestamp::from_millis(0),
            summary: "Merge #7".into(),
        };
        let reply = Reply { status: Status::Pending, approval: Some(approval), ..executed(json!(1)) };
        let text = text(&reply);
        assert!(text.contains("Merge #7 (approval apr-7, open until 1970-01-01T00:00:00.000Z)"), "{text}");
        assert!(text.contains(r#"ext_result with {"of": "ext-1-a"}"#), "{text}");
        assert_eq!(result(&reply).structured_content.unwrap()["note"], text);
    }

    #[test]
    fn a_refusal_that_is_settled_later_names_its_request() {
        for code in [Code::NoAnswer, Code::OutcomeUnknown, Code::StillRunning] {
            let reply = Reply::of_code(id(), code, Timestamp::from_millis(0));
            assert!(text(&reply).contains("ext-1-a"), "{code}");
        }
        let busy = Reply { retry_after_ms: Some(250), ..Reply::of_code(id(), Code::Busy, Timestamp::from_millis(0)) };
        assert!(text(&busy).ends_with("(retry_after_ms: 250)"));
    }

    #[test]
    fn notices_of_the_filter_stand_beside_the_data() {
        let reply = Reply { notices: vec!["withheld".into(), "of_tomorrow".into()], ..executed(json!("x")) };
        let result = result(&reply);
        assert_eq!(result.content.len(), 2);
        assert_eq!(result.content[0].as_text().unwrap().text, "x");
        let note = &result.content[1].as_text().unwrap().text;
        assert!(note.contains("held back"));
        assert_eq!(result.structured_content.unwrap()["note"], *note);
        assert!(super::result(&executed(json!("x"))).structured_content.unwrap().get("note").is_none());
    }
}
